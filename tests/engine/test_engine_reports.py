"""What an engine says that it waits for, and names in its answers: asks that could be served, held back on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engine.fake_rm import FakeRM, cluster, nodes_of, placed
from tests.engine.parts import engine_with, settings_with
from tests.engine.sleepers import SHARES, sharing
from tests.engine.test_am_starts import Bench as Masters
from tests.engine.test_engine_holds import kept
from tests.engine.test_engine_placement import big_and_small, racks, ticks_until_big
from tests.engine.test_fits import overbooking
from tests.engine.test_mapreduce_gate import Workers
from tests.engine.test_pilots import pilots
from tests.support.optional import present

from treadle.config.reader import read_settings
from treadle.config.settings import EngineReservation, Settings, default_settings
from treadle.engine import Engine
from treadle.events import ApplicationState, Fate
from treadle.explain import Explainer, Explanation
from treadle.model import in_flight
from treadle.model.in_flight import PROPOSAL, RejectionCounts


def held(engine: Engine) -> tuple[list[int], list[int]]:
    """Return the applications and nodes that are held back."""
    applications, nodes = engine.held()
    return applications.tolist(), nodes.tolist()


NOTHING = "class Nothing:\n    def allows(self, view):\n        return view.request_count < 0\n"


def test_nothing_is_waited_for_without_a_reason() -> None:
    rm = cluster((10, 10))
    rm.job(100)
    engine = engine_with()
    assert engine.waits_for() == ""
    engine.apply(rm.frame())
    assert len(engine.decide(1000, 1000, sequence=rm.sequence)) == 10
    assert engine.waits_for() == "", "a full cluster is nothing to wait for"
    assert held(engine) == ([], [])


def test_pilots_are_waited_for_until_they_have_ended() -> None:
    bench = pilots()
    app = bench.job(100)
    assert len(bench.begun()) == 10
    assert bench.begun() == []
    assert bench.engine.waits_for() == "pilots"
    assert held(bench.engine) == ([app], [])
    bench.end(10)
    assert len(bench.begun()) == 90
    assert bench.begun() == []
    assert bench.engine.waits_for() == ""
    assert held(bench.engine) == ([], [])


def test_masters_that_start_are_waited_for() -> None:
    bench = Masters(masters=1)
    first, second = bench.submit(), bench.submit()
    assert bench.begun() == [first]
    assert held(bench.engine) == ([second], [])
    assert bench.engine.waits_for() == "application masters that start"


def test_a_held_node_is_waited_for() -> None:
    rm, engine = big_and_small(EngineReservation(nodes_max=1, duration_ms=30_000))
    assert ticks_until_big(rm, engine, 6) == 6, "it is still held"
    assert engine.waits_for() == "a held node"
    assert len(held(engine)[1]) == 1
    assert ticks_until_big(rm, engine, 30) < 30
    placed(rm, 100, engine, now_ms=90_000)
    assert engine.waits_for() == ""
    assert held(engine)[1] == []


def test_a_bound_that_the_rm_does_not_know_is_waited_for() -> None:
    engine, rm = overbooking((1, 0))
    engine.apply(rm.frame())
    engine.decide(1000, 1000, sequence=rm.sequence)
    assert engine.waits_for() == "room within the bounds of overbook"
    assert held(engine) == ([], [0])
    engine, rm = overbooking((1, 1))
    engine.apply(rm.frame())
    engine.decide(1000, 1000, sequence=rm.sequence)
    assert engine.waits_for() == "", "there the RM would refuse"
    assert held(engine) == ([], [])


def test_a_gate_from_a_file_gives_no_reason(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(NOTHING)
    (tmp_path / "t.yaml").write_text("policy:\n  gate: {kind: file, path: gate.py, class: Nothing}\n")
    rm = cluster((10, 10))
    rm.job(1)
    engine = Engine(read_settings(tmp_path / "t.yaml"))
    engine.apply(rm.frame())
    assert len(engine.decide(1000, 1000, sequence=rm.sequence)) == 0
    assert engine.failure is None
    assert engine.waits_for() == ""
    assert held(engine) == ([0], [])


def test_workers_of_mapreduce_jobs_are_held_back() -> None:
    bench = Workers(mode="as_requested", workers=4)
    app = bench.job(10)
    assert bench.counted() == {app: 4}
    assert held(bench.engine) == ([app], [])
    bench.end(4, app=app)
    bench.counted()
    bench.end(4, app=app)
    assert bench.counted() == {app: 2}
    assert held(bench.engine) == ([], [])


def test_an_ask_that_waits_for_a_nearer_node_is_held_back() -> None:
    rm = racks("2")
    rm.applications[0].asks[0] = replace(rm.applications[0].asks[0], count=3, places={"n0": (3, True), "/a": (3, True)})
    engine = Engine(default_settings())
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [0]
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [1]
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == []
    assert held(engine) == ([0], [])
    assert nodes_of(placed(rm, 10, engine, now_ms=2000)) == [2]
    assert held(engine) == ([], [])


def test_a_node_that_keeps_room_for_a_larger_ask_is_named() -> None:
    rm = cluster((8, 8), (8, 8), leaves=2)
    rm.job(5)
    rm.job(100, (4, 4), queue=2)
    engine = Engine(kept("none"))
    placed(rm, 100, engine)
    assert held(engine) == ([], [0, 1])


def test_nothing_is_named_while_the_stock_scheduler_places() -> None:
    bench = pilots()
    bench.job(100)
    bench.begun()
    engine = bench.engine
    assert held(engine)[0]
    engine.decide(bench.now_ms + 5_000, 10, sequence=99, assume=False)
    assert held(engine) == ([], [])


# Queues that stay below what they are entitled to: reported after two minutes, whoever places.


class Research:
    """A full cluster: research (30 %) holds half of the GPUs by one child, and the other child asks for vcores."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.rm = engine, FakeRM(counted=(1, 1, 1))
        self.rm.node("n0", (100, 40, 8))
        root = self.rm.queue(-1, (100, 40, 8))
        prod = self.rm.queue(root, (70, 28, 5))
        research = self.rm.queue(root, (30, 12, 2))
        gpu, nlp = (self.rm.queue(research, (15, 6, 1)) for _ in range(2))
        self.jobs = [self.rm.application(queue) for queue in (prod, gpu, nlp)]
        self.rm.ask(self.jobs[0], 0, 1000, (1, 1, 0))
        self.rm.ask(self.jobs[1], 0, 1, (1, 1, 4))
        self.rm._commit(self.jobs[1], 0, 0)
        self.run(0, 38)
        self.rm.ask(self.jobs[2], 0, 10, (1, 1, 0))

    def run(self, job: int, tasks: int) -> None:
        for _ in range(tasks):
            self.rm._commit(self.jobs[job], 0, 0)

    def after(self, seconds: int, *, enforce: bool = False) -> list[str]:
        """Let the engine observe, or decide but place nothing; return what it says of stalled queues."""
        self.engine.apply(self.rm.frame())
        self.engine.decide(1000 * seconds, 0 if enforce else 1000, sequence=self.rm.sequence, assume=enforce)
        return list(self.engine.stalled())


@pytest.mark.parametrize("share", SHARES)
def test_a_stalled_queue_is_named_with_its_cause_after_two_minutes(share: str) -> None:
    settings = default_settings() if share == "capacity" else sharing(share)
    cluster = Research(Engine(settings))
    assert [cluster.after(seconds) for seconds in (0, 60, 119)] == [[], [], []]
    (line,) = cluster.after(130)
    assert line.startswith("stalled: queue q4 has 0.0 % of the ")
    assert "q2 counts as 50 % of 30 % because of its cpu, which it does not ask for" in line
    assert cluster.after(200) == [line]
    cluster.run(2, 1)
    assert cluster.after(210) == [line]  # still short, and the line stays as it was


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        (default_settings(), "q2 counts as 50 % of 30 % because of its cpu"),
        (sharing("hdrf", **{"as": "paper"}), "q2 counts as 50 % of 30 % because of its cpu"),
        (sharing("hdrf"), "q1 has 95 %, and is guaranteed 70 %"),
        (sharing("none"), "q1 has 95 %, and is guaranteed 70 %"),
    ],
)
def test_the_cause_is_one_of_the_policy_that_places(settings: Settings, cause: str) -> None:
    cluster = Research(Engine(settings))
    cluster.after(0, enforce=True)
    (line,) = cluster.after(130, enforce=True)
    assert f": {cause}" in line


def test_what_only_preemption_gives_is_said_with_it() -> None:
    cluster = Research(Engine(default_settings()))
    cluster.after(0)
    (line,) = cluster.after(130)
    assert line.endswith("nodes have room for it now")
    full = Research(Engine(default_settings()))
    full.run(0, 1)
    full.after(0)
    (line,) = full.after(130)
    assert line.endswith("no node has room now, and until containers end only preemption could give it more")


@pytest.mark.parametrize("enforce", [False, True])
def test_a_queue_starves_beside_one_that_has_the_whole_cluster(*, enforce: bool) -> None:
    full = Research(Engine(default_settings()))
    for queue in full.rm.queues:
        queue.maximum = (100, 40, 8)
    full.run(0, 1)
    full.after(0, enforce=enforce)
    (line,) = full.after(130, enforce=enforce)
    assert line.startswith("stalled: queue q4 has 0.0 % of the ")
    full.rm.queues[4].maximum = (0, 0, 0)
    full.after(140, enforce=enforce)
    assert full.after(150, enforce=enforce) == []


def test_a_queue_that_gets_its_part_is_not_stalled_any_more() -> None:
    cluster = Research(Engine(default_settings()))
    cluster.after(0)
    assert cluster.after(130)
    for _ in range(6):
        cluster.rm.complete(len(cluster.rm.containers) - 1)
    cluster.run(2, 5)
    assert cluster.after(140) == []
    assert cluster.after(300) == []


def test_a_queue_whose_asks_cannot_be_placed_is_not_stalled() -> None:
    """Its asks are larger than any node, or its user is at a limit."""
    large = Research(Engine(default_settings()))
    large.rm.ask(large.jobs[2], 0, 10, (1, 41, 0))
    large.after(0)
    assert large.after(130) == []
    limited = Research(Engine(default_settings()))
    limited.rm.user_limit["u"] = (0, 0, 0)
    limited.after(0)
    assert limited.after(130) == []


def test_a_queue_with_less_than_a_container_to_its_entitlement_is_not_stalled() -> None:
    cluster = Research(Engine(default_settings()))
    cluster.rm.ask(cluster.jobs[2], 0, 10, (1, 7, 0))
    cluster.after(0)
    assert cluster.after(130) == []


def test_a_given_tree_says_what_queues_are_entitled_to() -> None:
    tree = {"a": {"weight": 99, "queue": "q1"}, "b": {"queue": "q3"}, "c": {"queue": "q4"}}
    cluster = Research(Engine(sharing("hdrf", tree=tree)))
    cluster.after(0)
    assert cluster.after(130) == []  # of 1 % no whole container is missing


# How often proposals for an application were turned down, by reason: kept, bounded, forgotten with it.


def explained(engine: Engine, application: int) -> Explanation:
    return Explainer(engine).explain(application)


def turn(engine: Engine, rm: FakeRM, fate: Fate) -> None:
    """Let the engine decide, and the ResourceManager turn all of it down, or commit it."""
    assert len(rm.turn(engine, 1000 * (rm.sequence + 1), 256, fate=fate))


@pytest.fixture
def rm() -> FakeRM:
    rm = cluster(*[(16384, 16)] * 4)
    rm.job(2, (1024, 1))
    return rm


def test_each_reason_is_counted_by_its_own_name(rm: FakeRM) -> None:
    engine = Engine(settings_with())
    turn(engine, rm, Fate.OVER_BATCH)
    turn(engine, rm, Fate.NODE_FULL)
    engine.apply(rm.frame())
    found = explained(engine, 0)
    assert found.rejected == {"node_full": 2, "over_batch": 2}
    assert "conflicts" not in found.plain(), "a user's limit is no room that others took"


@pytest.mark.parametrize("fate", [Fate.COMMITTED, Fate.OBSERVED])
def test_what_is_no_refusal_is_not_counted(rm: FakeRM, fate: Fate) -> None:
    engine = Engine(settings_with())
    turn(engine, rm, fate)
    engine.apply(rm.frame())
    assert explained(engine, 0).rejected == {}


def test_it_outlives_a_snapshot_and_goes_with_the_application(rm: FakeRM) -> None:
    engine = Engine(settings_with())
    turn(engine, rm, Fate.NODE_FULL)
    engine.apply(rm.frame())
    rm.snapshot_next()
    engine.apply(rm.frame())
    engine.decide(1000 * rm.sequence, 0, sequence=rm.sequence)
    assert explained(engine, 0).rejected == {"node_full": 2}
    rm.applications[0].state = ApplicationState.GONE
    engine.apply(rm.frame())
    inside = present(engine.inside())
    assert inside[0].rejection_counts.counts == {}


def test_so_many_applications_are_kept_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "APPLICATIONS_MAX", 3)
    counts = RejectionCounts()
    batch = np.zeros(5, PROPOSAL)
    batch["application"] = range(5)
    fates = np.full(7, Fate.USER_LIMIT, np.uint8)
    counts.note(batch, np.arange(-1, 6, dtype=np.int32), fates)
    assert list(counts.counts) == [2, 3, 4]
