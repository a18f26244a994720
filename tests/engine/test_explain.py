"""Whatever keeps an ask from a container, its first verdict names it: a cause is planted, and found again."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.engine.constrained_rm import LEAF, attribute, cluster, own
from tests.engine.fake_rm import FakeRM
from tests.engine.parts import settings_with
from tests.engine.sleepers import Sleepers, sharing
from tests.support.optional import present

from treadle import events
from treadle.config.settings import EngineReservation
from treadle.engine import Engine
from treadle.engine.testing import StringTable, rows
from treadle.events import ApplicationState, ContainerEvent, Fate, NodeState
from treadle.explain import AskExplained, Explainer, Explanation, Verdict, Why
from treadle.policy import unserved

NODE = (16384, 16)
SEEDS = range(10)


class Planted:
    """A cluster drawn by a seed, with room for everybody until a cause is planted. The application asked about is 0."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.rm = FakeRM()
        self.parts: dict[str, Any] = {}
        self.hold = EngineReservation(nodes_max=0)
        self.reject: Fate | None = None
        self.nodes = self.draw.randint(3, 12)
        whole = (NODE[0] * self.nodes, NODE[1] * self.nodes)
        root = self.rm.queue(-1, whole)
        leaves = self.draw.randint(1, 4)
        self.leaves = [self.rm.queue(root, (whole[0] // leaves, whole[1] // leaves)) for _ in range(leaves)]
        for at in range(self.nodes):
            self.rm.node(f"n{at}", NODE, rack=f"/r{at % 3}")
        self.app = self.rm.application(self.draw.choice(self.leaves), user="ann", name="why")
        self.capability = (1024 * self.draw.randint(1, 4), self.draw.randint(1, 4))

    def ask(self, **more: Any) -> None:
        """Let the application ask, so that it would be served."""
        wanted = {"capability": self.capability} | more
        self.rm.ask(self.app, 0, self.draw.randint(1, 3), **wanted)

    def others(self, count: int) -> None:
        """Let other applications come that want a little."""
        for _ in range(count):
            other = self.rm.application(self.draw.choice(self.leaves), user="bob")
            self.rm.ask(other, 0, 1, (512, 1))

    def fill(self, left: tuple[int, int]) -> None:
        """Let nodes have no more left than this."""
        for node in self.rm.nodes:
            node.free = left

    def explained(self, node: str = "") -> Explanation:
        """Let the engine decide, the ResourceManager answer and the engine decide again; explain what is left."""
        engine = Engine(replace(settings_with(**self.parts), engine_reservation=self.hold))
        self.rm.snapshot_next()
        for _ in range(2):
            self.rm.turn(engine, 1000 * (self.rm.sequence + 1), 256, fate=self.reject or Fate.COMMITTED)
        engine.apply(self.rm.frame())
        engine.decide(1000 * self.rm.sequence, 256 if self.reject is None else 0, sequence=self.rm.sequence)
        view = present(engine.inside())[0].view()
        before = {name: column.copy() for name, column in view._asdict().items()}
        found = Explainer(engine).explain(self.app, node=node)
        for name, column in view._asdict().items():
            assert np.array_equal(column, before[name]), f"{name} was changed"
        return found


def larger_than_any_node(at: Planted) -> None:
    at.ask(capability=(NODE[0] + 1024, 1))


def larger_than_queue(at: Planted) -> None:
    at.rm.queues[at.rm.applications[0].queue].maximum = (512, 16)
    at.ask()


def no_such_label(at: Planted) -> None:
    at.ask(partition="gpu")


def of_label(at: Planted, maximum: tuple[int, int], queues: tuple[int, ...] = ()) -> None:
    """Let queues, all if none is named, have so much of the label at most, as YARN computes it from its nodes."""
    told = at.rm._limit_rows

    def changed(row: dict[str, Any]) -> bool:
        return row["partition_name"] == "gpu" and (not queues or row["queue"] in queues)

    at.rm._limit_rows = lambda: [  # type: ignore[method-assign]
        row | ({"maximum": maximum} if changed(row) else {}) for row in told()
    ]


def label_without_access(at: Planted) -> None:
    at.rm.node("labelled", NODE, partition="gpu")
    at.rm.node("unlabelled", NODE)
    of_label(at, (0, 0), (at.rm.applications[0].queue,))
    at.ask(partition="gpu")


def label_without_nodes(at: Planted) -> None:
    """Nobody may have anything of it, the root neither."""
    of_label(at, (0, 0))
    at.ask(partition="gpu")


def larger_than_the_label_s_node(at: Planted) -> None:
    """The queues, the root too, may have all of the label, which is that node."""
    at.rm.node("labelled", NODE, partition="gpu")
    of_label(at, NODE)
    at.ask(partition="gpu", capability=(NODE[0] + 1024, 1))


def unknown_nodes_or_racks(at: Planted) -> None:
    at.ask(relax=False, places={"gone": (3, True), "/gone": (3, False)})


def all_blacklisted(at: Planted) -> None:
    at.rm.applications[0].blacklist = sorted({node.rack for node in at.rm.nodes})
    at.ask()


def not_active(at: Planted) -> None:
    at.rm.applications[0].state = ApplicationState.WAITING
    at.ask()


def rejected(at: Planted) -> None:
    at.reject = Fate.CONTAINER_UPDATE
    at.ask()


def queue_maximum(at: Planted) -> None:
    queue = at.rm.queues[at.rm.applications[0].queue]
    queue.maximum, queue.used = (8192, 8), {"": (8192 - 512, 8)}
    at.ask()


def user_limit(at: Planted) -> None:
    at.rm.user_limit["ann"] = (2048, 2)
    at.rm.user_used[at.rm.applications[0].queue, "ann", ""] = (4096, 4)
    at.ask()


def nodes_unusable(at: Planted) -> None:
    for node in at.rm.nodes:
        node.state = NodeState.UNUSABLE
    at.ask()


def nodes_full(at: Planted) -> None:
    at.fill((512, 16))
    at.ask()


def nodes_headroom(at: Planted) -> None:
    """Another application asks for a whole node; nodes have room for what is asked about, but not for that."""
    at.hold = EngineReservation(nodes_max=0, headroom=True)
    at.rm.ask(at.rm.application(at.leaves[0], user="bob"), 0, 1, NODE)
    at.fill((NODE[0] - 1024, NODE[1]))
    at.ask()


def root_full_too(at: Planted) -> None:
    """Nodes have nothing left, so that the root queue has all that it may have."""
    at.fill((512, 16))
    whole = (NODE[0] * at.nodes, NODE[1] * at.nodes)
    at.rm.queues[0].maximum, at.rm.queues[0].used = whole, {"": whole}
    at.ask()


def nodes_blacklisted(at: Planted) -> None:
    """All but one, which is full."""
    at.rm.applications[0].blacklist = [node.name for node in at.rm.nodes[1:]]
    at.rm.nodes[0].free = (0, 0)
    at.ask()


def nodes_not_named(at: Planted) -> None:
    """It wants one node alone, and that is full."""
    at.rm.nodes[0].free = (0, 0)
    at.ask(relax=False, places={"n0": (3, True), "/r0": (3, False)})


def nodes_rejected(at: Planted) -> None:
    """The ResourceManager says of every node that it is full, though it is not."""
    at.reject = Fate.NODE_FULL
    del at.rm.nodes[1:]
    at.ask()


def pilots(*, work_conserving: bool) -> dict[str, Any]:
    """Return the parts of a policy that samples a tenth of a job's maps first."""
    fixed = {"ratio": "fixed", "ratio_fraction": 0.1, "work_conserving": work_conserving}
    return {"gate": ("pilots", fixed), "order": ("mlfq", {"size": "estimated_total"}), "estimate": "pilots"}


def gate(at: Planted) -> None:
    """No pilot of its maps has ended."""
    at.parts = pilots(work_conserving=False)
    at.rm.applications[0].kind = "MAPREDUCE"
    at.rm.ask(at.app, 0, 100, (1024, 1), priority=20)
    at.fill((NODE[0], NODE[1]))


def full_under_a_gate_that_holds_another_back(at: Planted) -> None:
    """The application is of a kind that is never sampled; a job beside it is, and is held back."""
    at.parts = pilots(work_conserving=True)
    job = at.rm.application(at.rm.applications[at.app].queue, user="bob")
    at.rm.applications[job].kind = "MAPREDUCE"
    at.rm.ask(job, 0, 3000, (1024, 1), priority=20)
    at.fill((512, 16))
    at.ask()


def not_reached(at: Planted) -> None:
    """Nothing is against it; the answer was full."""
    at.reject = Fate.OVER_BATCH
    at.ask()


def largest_of_several(at: Planted) -> None:
    """It is too large for any node, and its queue is full besides."""
    queue_maximum(at)
    at.ask(capability=(NODE[0] * 2, 1))
    at.rm.queues[at.rm.applications[0].queue].maximum = (NODE[0] * 4, 64)


CAUSES: dict[Callable[[Planted], None], Why] = {
    larger_than_any_node: Why.LARGER_THAN_ANY_NODE,
    larger_than_queue: Why.LARGER_THAN_QUEUE,
    no_such_label: Why.NO_SUCH_LABEL,
    label_without_access: Why.LABEL_WITHOUT_ACCESS,
    label_without_nodes: Why.NO_SUCH_LABEL,
    larger_than_the_label_s_node: Why.LARGER_THAN_ANY_NODE,
    unknown_nodes_or_racks: Why.UNKNOWN_NODES_OR_RACKS,
    all_blacklisted: Why.ALL_BLACKLISTED,
    not_active: Why.NOT_ACTIVE,
    rejected: Why.REJECTED,
    queue_maximum: Why.QUEUE_MAXIMUM,
    user_limit: Why.USER_LIMIT,
    nodes_unusable: Why.NODES_UNUSABLE,
    nodes_full: Why.NODES_FULL,
    nodes_headroom: Why.NODES_HEADROOM,
    root_full_too: Why.NODES_FULL,
    nodes_blacklisted: Why.NODES_BLACKLISTED,
    nodes_not_named: Why.NODES_NOT_NAMED,
    nodes_rejected: Why.NODES_REJECTED,
    gate: Why.GATE,
    full_under_a_gate_that_holds_another_back: Why.NODES_FULL,
    not_reached: Why.NOT_REACHED,
    largest_of_several: Why.LARGER_THAN_ANY_NODE,
}


def explained(plant: Callable[[Planted], None], seed: int, node: str = "") -> tuple[Explanation, AskExplained]:
    at = Planted(seed)
    at.others(at.draw.randint(0, 3))
    plant(at)
    found = at.explained(node)
    (ask,) = found.asks
    return found, ask


@pytest.mark.parametrize("plant", CAUSES, ids=lambda plant: plant.__name__)
def test_the_first_verdict_names_the_planted_cause(plant: Callable[[Planted], None]) -> None:
    for seed in SEEDS:
        found, ask = explained(plant, seed)
        said = [cause.why for cause in ask.causes]
        assert said[0] == CAUSES[plant], f"seed {seed}: {[cause.text for cause in ask.causes]}"
        assert (Why.GATE in said) == (plant is gate)
        assert ask.verdict == ask.causes[0].verdict
        assert all(cause.text for cause in ask.causes)
        assert found.name == "why"
        json.loads(json.dumps(found.plain(), allow_nan=False))


def test_what_no_node_has_is_told_with_what_there_is() -> None:
    _, ask = explained(larger_than_any_node, 1)
    assert ask.verdict == Verdict.NEVER
    assert ask.capability["memory-mb"] == NODE[0] + 1024
    assert f"the most that any has is {NODE[0]} memory-mb" in ask.causes[0].text


def test_the_node_that_nearly_fits_is_named_with_what_it_lacks() -> None:
    at = Planted(3)
    at.fill((0, 0))
    at.rm.nodes[1].free = (at.capability[0] - 256, 16)
    at.ask()
    (ask,) = at.explained("n1").asks
    assert ask.near is not None
    assert (ask.near.node, ask.near.lacks) == ("n1", {"memory-mb": 256})
    assert ask.nodes == {"full": at.nodes}
    assert ask.node == "n1: it has no room now: it lacks 256 memory-mb"


def test_why_not_on_a_node_is_told_of_each_kind_of_node() -> None:
    at = Planted(4)
    at.rm.node("labelled", NODE, partition="gpu")
    at.rm.nodes[0].state = NodeState.UNUSABLE
    at.rm.applications[0].blacklist = ["n1"]
    at.reject = Fate.OVER_BATCH
    at.ask()
    for node, said in {
        "labelled": "another partition",
        "n0": "may not be used now",
        "n1": "blacklisted it",
        "n2": "it fits",
        "n99": "not a node that the engine knows of",
    }.items():
        (ask,) = at.explained(node).asks
        assert said in ask.node


def test_every_cause_that_holds_is_told_and_nodes_add_up() -> None:
    at = Planted(5)
    queue_maximum(at)
    at.fill((512, 16))
    (ask,) = at.explained().asks
    assert {Why.QUEUE_MAXIMUM, Why.NODES_FULL} <= {cause.why for cause in ask.causes}
    assert sum(ask.nodes.values()) == at.nodes


def test_an_application_is_found_by_any_form_of_its_id() -> None:
    at = Planted(6)
    at.ask()
    engine = Engine(settings_with())
    with pytest.raises(LookupError, match="has not heard of the cluster yet"):
        Explainer(engine)
    engine.apply(at.rm.frame())
    explainer = Explainer(engine)
    for id_ in ("application_0_0001", "0_0001", "0001"):
        assert explainer.find(id_) == [0]
    assert explainer.find("application_0_0099") == []


def told(at: Planted) -> dict[int, str]:
    engine = Engine(settings_with(**at.parts))
    engine.apply(at.rm.frame())
    engine.decide(1000, 16, sequence=at.rm.sequence)
    return dict(engine.diagnostics())


def test_what_no_node_has_reaches_the_applications_diagnostics() -> None:
    at = Planted(7)
    larger_than_any_node(at)
    at.others(3)
    text = f"no node of the cluster is as large as it asks: {NODE[0] + 1024} memory-mb, where the largest has {NODE[0]}"
    assert told(at) == {at.app: f"{text}; ask for less"}


def test_what_may_be_overbooked_is_named_where_even_that_is_too_little() -> None:
    at = Planted(12)
    at.rm.counted = (1, 0)
    at.parts = {"fit": ("tetris", {"overbook": {"vcores": 2.0}})}
    at.ask(capability=(1024, 2 * NODE[1] + 1))
    text = f"no node of the cluster is as large as it asks: {2 * NODE[1] + 1} vcores, where the largest has"
    assert told(at) == {at.app: f"{text} {2 * NODE[1]}; ask for less"}


def test_one_applications_many_large_asks_take_no_more_looks_than_one() -> None:
    def lines(keys: int) -> int:
        """Return how many lines run to find the texts of two applications, the first one with so many keys."""
        at, ran = Planted(13), 0
        for key in range(keys):
            at.rm.ask(at.app, key, 1, (NODE[0] + 1024, 1))
        other = at.rm.application(at.leaves[0], user="bob")
        at.rm.ask(other, 0, 1, (NODE[0] + 1024, 1))

        def count(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal ran
            ran += event == "line" and frame.f_code.co_filename == unserved.__file__
            return count

        engine = Engine(settings_with())
        engine.apply(at.rm.frame())
        engine.decide(1000, 16, sequence=at.rm.sequence)
        sys.settrace(count)
        try:
            found = dict(engine.diagnostics())
        finally:
            sys.settrace(None)
        assert sorted(found) == [at.app, other]
        return ran

    assert lines(2) == lines(200) > 0


def test_the_largest_node_is_sought_once_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    at, sought = Planted(14), list[int]()
    for _ in range(5):
        at.rm.ask(at.rm.application(at.leaves[0], user="bob"), 0, 1, (NODE[0] + 1024, 1))
    largest = unserved._largest

    def seen(view: Any, scratch: Any, partition: int) -> Any:
        sought.append(partition)
        return largest(view, scratch, partition)

    monkeypatch.setattr(unserved, "_largest", seen)
    assert len(told(at)) == 5
    assert sought == [0]


def test_a_label_without_nodes_reaches_the_applications_diagnostics() -> None:
    at = Planted(8)
    no_such_label(at)
    assert told(at) == {at.app: "no node has label gpu; ask without the label, or label a node"}


def test_what_fits_a_shared_label_alone_is_served_and_nothing_is_told() -> None:
    at = Planted(9)
    at.rm.settings["shared-partitions"] = "big"
    at.rm.node("big", (NODE[0] * 2, 16), partition="big")
    larger_than_any_node(at)
    assert told(at) == {}


def test_it_is_said_when_the_loop_comes_to_it_and_taken_back() -> None:
    at = Planted(11)
    engine = Engine(settings_with())
    seen = []
    for turn in range(4):
        if turn == 1:
            larger_than_any_node(at)
            at.rm.change(at.app)
        if turn == 3:
            at.rm.applications[at.app].asks[0].count = 0
            at.rm.change(at.app)
        at.rm.turn(engine, 1000 * turn, 16)
        seen.append(bool(engine.diagnostics()))
    assert seen == [False, True, True, False], "who asks no more is told nothing from then on"


def test_nothing_is_told_while_there_is_no_node() -> None:
    at = Planted(10)
    larger_than_any_node(at)
    at.rm.nodes.clear()
    assert told(at) == {}


def test_what_waits_for_pilots_is_said_to_though_idle_machines_may_run_it() -> None:
    rm = cluster(8)
    app = rm.application(LEAF, kind="MAPREDUCE")
    rm.ask(app, 0, 100, (1, 1), priority=20)
    engine = Engine(settings_with(**pilots(work_conserving=True)))
    for at in range(4):
        rm.turn(engine, 1_000 * (at + 1), 256)
    (ask,) = Explainer(engine).explain(app).asks
    assert [cause.why for cause in ask.causes] == [Why.GATE, Why.NODES_FULL]
    assert ask.causes[0].text == "the gate pilots lets no more of it run now: it waits for pilots"


def test_an_engine_that_only_observes_does_not_say_that_it_serves_others_first() -> None:
    at = Planted(1)
    at.ask()
    engine = Engine(settings_with())
    engine.apply(at.rm.frame())
    engine.decide(1000, 256, sequence=at.rm.sequence, assume=False)
    (ask,) = Explainer(engine).explain(at.app).asks
    (cause,) = ask.causes
    assert cause.text == "nodes have room; Treadle only observes, and the CapacityScheduler has not placed it"


def constrained(tree: dict[str, Any], count: int) -> tuple[Engine, AskExplained]:
    """Let an application with containers of its own on eight nodes ask for more; explain what is left."""
    rm = cluster(8)
    app = rm.job(count)
    rm.constrain(app, 0, tree, "w")
    engine = Engine(settings_with())
    for at in range(2):
        rm.turn(engine, 1_000 * (at + 1), 256)
    (ask,) = Explainer(engine).explain(app).asks
    return engine, ask


@pytest.mark.parametrize(
    ("tree", "nodes"),
    [
        ({"and": [own("w", most=0)]}, {"own_tags": 8}),
        ({"and": [own("w", most=1, scope="rack")]}, {"own_tags": 8}),
        ({"and": [own("w", least=1)]}, {"own_tags": 8}),
        ({"and": [attribute("zone", "z1"), own("w", most=0)]}, {"not_chosen": 6, "own_tags": 2}),
        ({"or": [attribute("zone", "z9"), own("w", most=0)]}, {"own_tags": 8}),
    ],
)
def test_limits_on_an_applications_own_tags_are_named(tree: dict[str, Any], nodes: dict[str, int]) -> None:
    _, ask = constrained(tree, 20)
    assert ask.nodes == nodes
    assert ask.causes[0].why in (Why.NODES_OWN_TAGS, Why.NODES_NOT_CHOSEN)
    assert Why.NODES_OWN_TAGS in {cause.why for cause in ask.causes}
    assert not ask.ways


def beside(order: str, *priorities: int) -> Mapping[str, Any]:
    """Return where an application stands that asks beside others of its queue, each with a priority, on full nodes."""
    at = Planted(2)
    at.parts = {"order": order, "estimate": "observed"} if order == "srpt" else {"order": order}
    leaf = at.rm.applications[at.app].queue
    at.fill((0, 0))
    for priority in priorities:
        at.rm.ask(at.rm.application(leaf, user="bob", priority=priority), 0, 1, (512, 1))
    at.ask()
    return at.explained().facts


@pytest.mark.parametrize("order", ["fair", "fifo", "srpt"])
def test_a_place_in_a_queue_is_said_only_where_the_order_is_fixed(order: str) -> None:
    facts = beside(order, 0)
    assert facts["asking_in_queue"] == 2
    assert (facts["ahead_in_queue"] is None) == (order == "fair")


@pytest.mark.parametrize("order", ["fair", "fifo", "srpt"])
def test_who_comes_first_for_a_priority_is_said(order: str) -> None:
    assert beside(order, 5, 0)["with_higher_priority"] == 1


@pytest.mark.parametrize(
    ("requirement", "said"),
    [("zone=z9", "no usable node meets zone=z9; change the requirement"), ("zone", "expected one of = != >= > <= <")],
)
def test_a_requirement_that_no_node_meets_is_named(requirement: str, said: str) -> None:
    rm = cluster(8)
    rm.node("lent", NODE, partition="gpu")
    app = rm.job(1)
    rm.require(app, requirement)
    engine = Engine(settings_with())
    engine.apply(rm.frame())
    engine.decide(1_000, 256, sequence=rm.sequence)
    (ask,) = Explainer(engine).explain(app).asks
    assert ask.verdict == Verdict.MISCONFIGURED
    assert [cause.why for cause in ask.causes] == [Why.REQUIREMENTS_UNMET]
    assert said in ask.causes[0].text
    assert not ask.ways, "nodes with a label do not meet it either"


def test_who_is_not_active_hears_that_first() -> None:
    at = Planted(8)
    queue_maximum(at)
    at.rm.applications[at.app].state = ApplicationState.WAITING
    (ask,) = at.explained().asks
    assert [cause.why for cause in ask.causes] == [Why.NOT_ACTIVE]


def test_amounts_of_a_queue_are_those_that_bind() -> None:
    at = Planted(8)
    queue_maximum(at)
    at.rm.counted = (1, 0)
    (ask,) = at.explained().asks
    (full,) = (cause for cause in ask.causes if cause.why == Why.QUEUE_MAXIMUM)
    assert "memory-mb" in full.text
    assert "vcores" not in full.text


def test_whom_the_latest_decision_served_is_said() -> None:
    cluster = Sleepers({"prod:2": None, "research:1": None}, nodes=1, cpu=24, gpu=8, settings=sharing("hdrf"))
    cluster.begin({"prod": (1, 0)})
    assert Explainer(cluster.engine).explain(cluster.jobs["prod"]).facts["served"] == {"q1": 24}


@pytest.mark.parametrize("age", [0, 1, 3])
def test_what_a_full_answer_did_not_come_to_says_how_long_ago_that_was(age: int) -> None:
    at = Planted(1)
    at.fill((512, 16))
    at.ask(capability=(1024, 1))
    engine = Engine(settings_with())
    engine.apply(at.rm.frame())
    engine.decide(1000, 256, sequence=1)
    for sequence in range(2, 2 + age):
        at.rm.node(f"later{sequence}", NODE)  # else there is nothing to decide
        engine.apply(at.rm.frame())
        engine.decide(1000 * sequence, 0, sequence=sequence)
    (ask,) = Explainer(engine).explain(at.app).asks
    assert (ask.reason, ask.decisions_ago) == ("full", age)


# What would let an ask start: whose containers must end, which labels have room. No time is promised.


class Running(Planted):
    """A cluster drawn by a seed in which containers run."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__(seed)
        self.events: list[events.Event] = []

    def run(self, application: int, node: int, *, began_ms: int = 1000, ended_ms: int | None = None) -> None:
        """Let a container of an application begin on a node, and end."""
        number = len(self.events) + 1
        for event, time_ms in ((ContainerEvent.LAUNCHED, began_ms), (ContainerEvent.COMPLETED, ended_ms)):
            if time_ms is not None:
                row = {"container": number, "application": application, "node": node, "priority": 1}
                row |= {"event": int(event), "time_ms": time_ms, "created_ms": began_ms, "am": 0, "exit_status": 0}
                self.events.append(rows(events.Containers, StringTable(), [row | {"capability": (1024, 1)}]))

    def asked(self) -> AskExplained:
        """Let the engine decide at 100 s; return what is said of the one ask."""
        engine = Engine(replace(settings_with(**self.parts), engine_reservation=self.hold))
        engine.apply(self.rm.frame())
        engine.apply(self.events)
        engine.decide(100_000, 16, sequence=self.rm.sequence)
        (ask,) = Explainer(engine).explain(self.app).asks
        return ask


def texts(ask: AskExplained) -> list[str]:
    return [way.text for way in ask.ways]


def two_leaves() -> tuple[Running, int, int]:
    """Return a cluster with two leaves at least, and an application of another user in each of two of them."""
    at = next(found for found in map(Running, range(100)) if len(found.leaves) > 1)
    mine = at.rm.applications[at.app].queue
    other = next(leaf for leaf in at.leaves if leaf != mine)
    return at, at.rm.application(mine, user="bob"), at.rm.application(other, user="bob")


def test_where_nodes_are_full_the_queues_whose_containers_run_there_are_named() -> None:
    at, same, other = two_leaves()
    at.fill((0, 0))
    at.ask()
    for node in (0, 1, 2):
        at.run(other, node)
    at.run(same, 0)
    paths = [f"q{at.rm.applications[app].queue}" for app in (other, same)]
    assert texts(at.asked()) == [
        f"containers of {paths[0]} end: 3 run on nodes that may serve it",
        f"containers of {paths[1]} end: 1 runs on nodes that may serve it",
    ]


def test_a_full_root_queue_is_full_nodes() -> None:
    at, _, other = two_leaves()
    at.fill((0, 0))
    whole = (NODE[0] * at.nodes, NODE[1] * at.nodes)
    at.rm.queues[0].maximum, at.rm.queues[0].used = whole, {"": whole}
    at.ask()
    at.run(other, 0)
    at.run(other, 1)
    path = f"q{at.rm.applications[other].queue}"
    assert texts(at.asked()) == [f"containers of {path} end: 2 run on nodes that may serve it"]


def test_where_a_queue_is_at_its_maximum_its_own_containers_are_named() -> None:
    at, same, other = two_leaves()
    leaf = at.rm.applications[at.app].queue
    at.rm.queues[leaf].maximum, at.rm.queues[leaf].used = (8192, 8), {"": (8192 - 512, 8)}
    at.ask()
    at.run(same, 0)
    at.run(other, 0)
    assert texts(at.asked()) == [f"containers of q{leaf} end: 1 runs"]


def test_where_a_user_is_at_the_limit_the_users_containers_are_named() -> None:
    at, same, _ = two_leaves()
    leaf = at.rm.applications[at.app].queue
    at.rm.user_limit["ann"] = (2048, 2)
    at.rm.user_used[leaf, "ann", ""] = (4096, 4)
    at.ask()
    at.run(at.app, 0)
    at.run(same, 0)
    assert texts(at.asked()) == [f"containers of user ann in q{leaf} end: 1 runs"]


def test_a_label_with_room_is_named_if_the_queue_may_use_it() -> None:
    at = Running()
    at.fill((0, 0))
    at.rm.node("spare", (16384, 16), partition="gpu")
    at.ask()
    ask = at.asked()
    assert [(way.kind, way.name) for way in ask.ways] == [("label", "gpu")]
    assert ask.ways[0].text == "with label gpu it would have room on 1 node now"


def test_what_is_never_served_is_not_let_start_by_containers_that_end() -> None:
    at, _, other = two_leaves()
    at.ask(capability=(NODE[0] + 1024, 1))
    at.run(other, 0)
    assert not at.asked().ways
