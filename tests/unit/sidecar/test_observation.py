"""What `observe_only` compares: each container once, by application and priority, within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.hub import Manager, proposals

from treadle.engine.testing import StringTable, rows, small_cluster
from treadle.events import Containers, Event, Fate, Fates, Names
from treadle.sidecar import observation
from treadle.sidecar.conversation import Application, Tick
from treadle.sidecar.mirror import Mirror
from treadle.sidecar.observation import Figures, Observation
from treadle.wire.frames import Frame, FrameFlag, FrameHeader

ONE, TWO = 1, 2
OBSERVE, SNAPSHOT, MORE = FrameFlag.OBSERVE, FrameFlag.OBSERVE | FrameFlag.SNAPSHOT, FrameFlag.OBSERVE | FrameFlag.MORE
START_MS = 1_700_000_000_000
COLUMNS = (
    "same_node",
    "other_node",
    "capacity_scheduler_only",
    "earlier",
    "earlier_ms",
    "later",
    "later_ms",
    "waiting",
)


class Cluster:
    """Applications whose request keys are their priorities, and what a test lets happen; times are from `START_MS`."""

    def __init__(self, figures: Figures | None = None) -> None:
        self.observation = Observation(figures)
        self.sequence, self.number = 0, 100
        self.flags = OBSERVE
        self.answer: tuple[int, list[Fate]] = 0, []
        self.queue, self.type = "root.a", "MAPREDUCE"

    def application_at(self, index: int) -> Application | None:
        return Application(index, 1, self.queue, self.type) if index >= 0 else None

    def priority_of(self, application: int, key: int) -> int | None:
        return key if key < 1_000_000 else None

    def frame(self, at_ms: int, *events: Event, flags: int | None = None) -> Tick:
        """Send a frame, which has the fates of the latest answer."""
        self.sequence += 1
        header = FrameHeader(self.flags if flags is None else flags, 1, self.sequence, START_MS + at_ms, 1, 9, 2)
        (sequence, fates), self.answer = self.answer, (0, [])
        sent = Fates(
            np.full(len(fates), sequence, np.int64),
            np.arange(len(fates), dtype=np.int32),
            np.array(fates, np.uint8),
            np.zeros(len(fates), np.int64),
        )
        tick = Tick(b"", None, Frame(header, [*events, *([sent] if fates else [])]), cluster=self)
        self.observation.taken(tick)
        return tick

    def propose(self, at_ms: int, *nodes: int, key: int = 1, fate: Fate = Fate.OBSERVED, took_ms: int = 0) -> None:
        """Answer a frame of this time."""
        tick = self.frame(at_ms)
        tick.decide_us, tick.proposals = took_ms * 1000, proposals([(7, key, node) for node in nodes])
        self.observation.end(tick)
        self.answer = self.sequence, [fate] * len(nodes)

    def container(self, at_ms: int, node: int, **columns: Any) -> Containers:
        """Return the row of a container that was allocated."""
        self.number += 1
        row = {"container": self.number, "application": 7, "priority": 1, "node": node, "event": 1}
        times = {"time_ms": START_MS + at_ms, "created_ms": START_MS + at_ms}
        return rows(Containers, StringTable(), [{**row, **times, "capability": [1024, 1], **columns}])

    def stock_places(self, at_ms: int, node: int, **columns: Any) -> None:
        """Send a frame with a container that the CapacityScheduler has just placed."""
        self.frame(at_ms, self.container(at_ms, node, **columns))

    def total(self, at_ms: int) -> list[int]:
        """Return what is found after one more frame; it is the same of all, of the queue and of the type."""
        self.frame(at_ms)
        shown = self.observation.shown()
        total: dict[str, int] = shown["total"]
        assert shown["by_queue"] in ({}, {"root.a": total})
        assert shown["by_framework"] in ({}, {"MAPREDUCE": total})
        return [total[column] for column in COLUMNS]

    def shown(self, name: str) -> Any:
        return self.observation.shown()[name]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.frame(-100, flags=SNAPSHOT)
    return made


def test_each_container_counts_once_whoever_was_first(cluster: Cluster) -> None:
    cluster.propose(10, ONE, TWO)
    cluster.stock_places(110, ONE)
    cluster.stock_places(310, ONE)
    cluster.stock_places(410, TWO)
    assert cluster.total(1500) == [1, 1, 1, 2, 400, 0, 0, 0]
    assert cluster.shown("stock_placements") == 3
    assert cluster.shown("since_ms") == START_MS - 100


def test_repeats_are_not_counted_again(cluster: Cluster) -> None:
    """In this mode nothing is placed, so an engine proposes the same in each answer, perhaps on other nodes."""
    for now_ms in range(0, 5001, 100):
        cluster.propose(now_ms, ONE, TWO if now_ms % 200 else ONE)
    assert cluster.total(5001) == [0, 0, 0, 0, 0, 0, 0, 2]
    cluster.stock_places(5050, ONE)
    assert cluster.total(5050) == [1, 0, 0, 1, 5050, 0, 0, 1]
    cluster.stock_places(5060, TWO)
    assert cluster.total(7000) == [1, 1, 0, 2, 10110, 0, 0, 0]


def test_more_of_the_same_is_new(cluster: Cluster) -> None:
    cluster.propose(0, ONE)
    cluster.propose(100, ONE, TWO, TWO)
    assert cluster.total(101) == [0, 0, 0, 0, 0, 0, 0, 3]
    cluster.stock_places(150, TWO)
    cluster.stock_places(160, TWO)
    cluster.stock_places(170, ONE)
    assert cluster.total(170) == [3, 0, 0, 3, 280, 0, 0, 0]


def test_a_proposal_that_comes_after_the_placement_is_later(cluster: Cluster) -> None:
    """The engine decided on a frame that was written before the containers were placed."""
    cluster.stock_places(100, ONE)
    cluster.stock_places(120, TWO)
    cluster.propose(250, TWO, TWO, ONE, fate=Fate.NO_PENDING_ASK)
    assert cluster.total(5000) == [1, 1, 0, 0, 0, 2, 280, 0]
    assert cluster.shown("would_reject") == {}, "they were placed"


@pytest.mark.parametrize(("placed_ms", "later_ms"), [(60, 40), (120, 0)])
def test_what_is_placed_while_the_engine_decides_or_its_answer_is_judged_was_placed_first(
    cluster: Cluster, placed_ms: int, later_ms: int
) -> None:
    cluster.propose(0, ONE, fate=Fate.NO_PENDING_ASK, took_ms=100)
    cluster.frame(150, cluster.container(placed_ms, ONE))
    assert cluster.total(2000) == [1, 0, 0, 0, 0, 1, later_ms, 0]


def test_what_is_placed_before_an_answer_is_not_what_the_answer_still_proposes(cluster: Cluster) -> None:
    cluster.propose(0, ONE, ONE, took_ms=100)
    cluster.answer = cluster.answer[0], [Fate.OBSERVED, Fate.NO_PENDING_ASK]
    cluster.frame(150, cluster.container(60, ONE))
    assert cluster.total(200) == [1, 0, 0, 0, 0, 1, 40, 1]


def test_what_is_proposed_no_longer_is_forgotten(cluster: Cluster) -> None:
    cluster.propose(0, ONE, ONE)
    cluster.propose(800, ONE)
    cluster.propose(1600, ONE)
    assert cluster.total(1601) == [0, 0, 0, 0, 0, 0, 0, 1]
    cluster.stock_places(1700, ONE)
    cluster.stock_places(1710, ONE)
    assert cluster.total(3000) == [1, 0, 1, 1, 1700, 0, 0, 0]


def test_a_rejection_is_counted_once_until_something_is_placed(cluster: Cluster) -> None:
    for now_ms in range(0, 100_000, 500):
        cluster.propose(now_ms, ONE, fate=Fate.NODE_FULL)
    cluster.frame(100_000)
    assert cluster.shown("would_reject") == {"NODE_FULL": 1}
    cluster.stock_places(100_000, TWO)
    cluster.propose(100_100, ONE, fate=Fate.NODE_FULL)
    cluster.frame(100_200)
    assert cluster.shown("would_reject") == {"NODE_FULL": 2}


def test_a_rejection_of_long_ago_counts_again(cluster: Cluster) -> None:
    for now_ms in (0, 600_000, 1_202_000):
        cluster.propose(now_ms, ONE, fate=Fate.NODE_FULL)
        cluster.frame(now_ms + 100)
    cluster.frame(1_203_000)
    assert cluster.shown("would_reject") == {"NODE_FULL": 2}


def test_a_rejection_is_remembered_beside_containers_that_are_over(cluster: Cluster) -> None:
    cluster.propose(0, ONE, ONE)
    cluster.answer = cluster.answer[0], [Fate.OBSERVED, Fate.NODE_FULL]
    assert cluster.total(1)[-1] == 1
    assert cluster.total(2000)[-1] == 0
    cluster.propose(2100, ONE, fate=Fate.NODE_FULL)
    cluster.frame(2200)
    assert cluster.shown("would_reject") == {"NODE_FULL": 1}


def test_the_oldest_on_the_node_is_taken_or_else_the_oldest_of_all(cluster: Cluster) -> None:
    cluster.propose(0, ONE)
    cluster.propose(100, ONE, TWO)
    cluster.propose(300, ONE, TWO, TWO)
    for node, earlier_ms in ((TWO, 300), (TWO, 400), (3, 800)):
        cluster.stock_places(400, node)
        assert cluster.shown("total")["earlier_ms"] == earlier_ms
    assert cluster.total(401)[:3] == [2, 1, 0]


def test_applications_and_priorities_are_compared_each_for_itself(cluster: Cluster) -> None:
    cluster.propose(0, ONE)
    cluster.stock_places(10, ONE, priority=2)
    cluster.stock_places(20, ONE, application=8)
    assert cluster.total(30) == [0, 0, 0, 0, 0, 0, 0, 1]
    assert cluster.total(1500) == [0, 0, 2, 0, 0, 0, 0, 0]


def test_only_what_the_capacity_scheduler_places_in_this_mode_counts(cluster: Cluster) -> None:
    cluster.stock_places(10, ONE, by_treadle=1)
    cluster.stock_places(20, ONE, event=2)
    cluster.stock_places(30, ONE, event=3)
    cluster.frame(40, cluster.container(40, ONE), flags=0)
    assert cluster.shown("stock_placements") == 0
    cluster.flags = FrameFlag(0)
    cluster.propose(50, ONE)
    assert cluster.total(60)[-1] == 0, "it is committed, or not"


def test_a_container_of_an_application_that_has_ended_is_not_compared(cluster: Cluster) -> None:
    cluster.stock_places(10, ONE, application=-1)
    assert cluster.total(2000) == [0] * 8
    assert (cluster.shown("stock_placements"), cluster.shown("forgotten")) == (1, 1)


def test_proposals_for_what_is_not_known_are_left_out(cluster: Cluster) -> None:
    cluster.propose(0, ONE, key=1_000_000)
    assert cluster.total(10) == [0] * 8
    assert cluster.shown("warnings") == []


def test_fates_that_fit_no_answer_are_left_out(cluster: Cluster) -> None:
    cluster.answer = 99, [Fate.OBSERVED]
    assert cluster.total(10)[-1] == 0
    cluster.propose(20, ONE)
    cluster.answer = cluster.answer[0], [Fate.OBSERVED] * 5
    assert cluster.total(30)[-1] == 1
    assert cluster.shown("warnings") == []


def test_a_frame_in_parts_is_compared_as_one(cluster: Cluster) -> None:
    cluster.propose(0, ONE, ONE, ONE)
    sequence, fates = cluster.answer
    cluster.answer = sequence, fates[:2]
    cluster.frame(100, flags=MORE)
    assert cluster.shown("total")["waiting"] == 0
    rest = Fates(np.array([sequence]), np.array([2], np.int32), np.array([26], np.uint8), np.zeros(1, np.int64))
    cluster.frame(100, rest)
    assert cluster.total(101)[-1] == 3


def test_containers_that_a_snapshot_sends_again_count_once(cluster: Cluster) -> None:
    before, between = cluster.container(10, ONE), cluster.container(400, TWO, event=2)
    cluster.frame(20, before)
    cluster.frame(500, before, flags=SNAPSHOT | FrameFlag.MORE)
    cluster.frame(500, between)
    cluster.frame(600, cluster.container(5, ONE), rows(Containers, StringTable(), [between_again(between)]))
    assert cluster.shown("stock_placements") == 2
    assert cluster.shown("interruptions") == 0


def between_again(event: Containers) -> dict[str, Any]:
    """Return the row of a container as the step of its allocation, which comes late."""
    names = ("container", "application", "priority", "node", "time_ms", "created_ms")
    return {**{name: int(getattr(event, name)[0]) for name in names}, "event": 1, "capability": [1024, 1]}


def test_an_interruption_is_said_and_nothing_of_it_is_counted(cluster: Cluster) -> None:
    cluster.propose(0, ONE)
    cluster.frame(3000, cluster.container(1500, ONE), flags=SNAPSHOT)
    cluster.frame(3100, cluster.container(1600, ONE), cluster.container(3050, ONE))
    assert cluster.total(5000) == [0, 0, 1, 0, 0, 0, 0, 0]
    assert (cluster.shown("interruptions"), cluster.shown("interrupted_ms")) == (1, 3000)


def test_a_clock_that_is_set_back_ends_what_is_compared(cluster: Cluster) -> None:
    cluster.propose(100_000, ONE)
    cluster.stock_places(100_100, ONE, priority=2)
    assert cluster.total(-5000) == [0, 0, 1, 0, 0, 0, 0, 0]
    cluster.propose(-4000, ONE)
    cluster.stock_places(-3990, ONE)
    assert cluster.total(-3980)[:5] == [1, 0, 1, 1, 10]


def test_figures_go_on_after_a_restart(cluster: Cluster) -> None:
    cluster.propose(0, ONE)
    cluster.stock_places(50, ONE)
    cluster.stock_places(60, TWO)
    cluster.frame(2000)
    after = Cluster(Figures.model_validate_json(cluster.observation.document()))
    assert after.observation.shown() == cluster.observation.shown()
    after.frame(7000, flags=SNAPSHOT)
    after.stock_places(7100, ONE)
    assert after.total(9000) == [1, 0, 2, 1, 50, 0, 0, 0]
    assert after.shown("stock_placements") == 3
    assert (after.shown("interruptions"), after.shown("interrupted_ms")) == (1, 5000)


def test_nothing_counted_is_nothing_to_keep() -> None:
    cluster = Cluster()
    cluster.frame(0, flags=FrameFlag.SNAPSHOT)
    assert cluster.observation.document() == ""


def test_open_comparisons_are_bounded_by_application_and_in_all(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "PRIORITIES_MAX", 3)
    monkeypatch.setattr(observation, "OPEN_MAX", 5)
    for priority in range(10):
        cluster.stock_places(priority, ONE, priority=priority)
    assert cluster.shown("forgotten") == 7, "of one application the oldest"
    for application in range(20, 24):
        cluster.stock_places(application, ONE, application=application)
    assert cluster.shown("forgotten") == 9, "of all the oldest application's"
    assert cluster.total(2000)[2] == 5
    assert cluster.shown("stock_placements") == 14


def test_containers_of_a_comparison_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "CONTAINERS_MAX", 3)
    cluster.propose(0, *[ONE] * 9)
    assert cluster.total(1)[-1] == 3
    for _ in range(10):
        cluster.stock_places(2, ONE)
    assert cluster.total(2) == [3, 0, 4, 3, 6, 0, 0, 0], "three more may still be proposed"


def test_names_are_bounded_and_printable(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "NAMES_MAX", 2)
    for priority, name in enumerate(("root.a", "root.\x1b" + "b" * 5000, "root.c", "root.d")):
        cluster.queue, cluster.type = name, ""
        cluster.stock_places(priority, ONE, priority=priority)
    cluster.frame(2000)
    shown = cluster.observation.shown()
    assert {name: tally["capacity_scheduler_only"] for name, tally in shown["by_queue"].items()} == {
        "root.a": 1,
        "root. " + "b" * 250: 1,
        "(others)": 2,
    }
    assert list(shown["by_framework"]) == ["YARN"]
    assert Figures.model_validate_json(cluster.observation.document())


def test_answers_without_fates_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "ANSWERS_MAX", 2)
    cluster.propose(0, ONE)
    first = cluster.answer
    for now_ms in (1, 2):
        cluster.answer = 0, []
        cluster.propose(now_ms, ONE)
    cluster.answer = first
    assert cluster.total(3)[-1] == 0


def test_containers_that_were_counted_are_remembered_within_bounds(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "COUNTED_MAX", 2)
    first, second, third = (cluster.container(at_ms, ONE) for at_ms in (1, 2, 3))
    cluster.frame(10, first, second, third, second)
    assert cluster.shown("stock_placements") == 3
    cluster.frame(11, first)
    assert cluster.shown("stock_placements") == 4


def test_a_comparison_that_fails_stops_and_says_so(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(index: int) -> Application | None:
        raise ZeroDivisionError("no such\x1bluck")

    monkeypatch.setattr(cluster, "application_at", fail)
    cluster.stock_places(10, ONE)
    (warning,) = cluster.shown("warnings")
    assert warning.endswith("until the sidecar starts again: ZeroDivisionError: no such luck")
    monkeypatch.undo()
    cluster.stock_places(20, ONE)
    assert cluster.shown("stock_placements") == 0


def test_a_queue_that_is_called_otherwise_is_found_by_its_new_path() -> None:
    mirror = Mirror()
    mirror.take(small_cluster())
    before = mirror.application_at(0)
    path_name = mirror.texts.index("root.q0")
    mirror.take([Names(("root.new",), (path_name,))])
    after = mirror.application_at(0)
    assert before is not None
    assert after is not None
    assert (before.queue, after.queue) == ("root.q0", "root.new")


def test_a_hub_compares_for_all_engines() -> None:
    observation = Observation()
    manager = Manager({"one": {}}, observation)
    manager.children["one"].plan = [[], [(0, 0, 3), (1, 0, 4)]]
    manager.snapshot()
    answer = manager.send(flags=OBSERVE)
    assert len(answer.proposals) == 2
    manager.now_ms += 40
    placed = {"container": 5, "node": 3, "event": 1, "time_ms": manager.now_ms, "created_ms": manager.now_ms}
    containers = rows(Containers, StringTable(), [{**placed, "capability": [1024, 1]}])
    manager.send(containers, manager.fates(answer, Fate.OBSERVED, Fate.NODE_FULL), flags=OBSERVE)
    shown = observation.shown()
    assert shown["would_reject"] == {"NODE_FULL": 1}
    assert shown["stock_placements"] == shown["total"]["same_node"] == shown["by_queue"]["root.q0"]["same_node"] == 1
    assert shown["total"]["earlier_ms"] == 40
