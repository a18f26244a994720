"""A DAG that turns out to be another one than was planned gets another order while it runs; attempts do not mix."""

from __future__ import annotations

import hashlib
from struct import pack, unpack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_plan_listener import ONE, dag, report, vertex

from treadle.am.protocol import Attempt, Header, Kind, Status
from treadle.am.record import DagView, History
from treadle.am.registries import REPLAN_EVERY_S, PlanRegistry
from treadle.config.settings import Plans
from treadle.history.run import JobRun, recurrence_key


class Master:
    """An application master whose DAG has a root that feeds two branches, of two vertices each."""

    def __init__(self, **plans: Any) -> None:
        self.now_s = 0.0
        self.runs: list[JobRun] = []
        self.plans = PlanRegistry(Plans(schedules=50, **plans), History(remember=self.runs.append), lambda: self.now_s)
        self.plans.meet(ONE, recurrence_key("ann", "root.default", "TEZ", ""))
        self.plans.machines({0: (("memory-mb", 2048.0),)})
        self.body = dag(vertex(0, 2), vertex(1, 10, 0), vertex(2, 2, 1), vertex(3, 10, 0), vertex(4, 2, 3))
        self.order = self.ask(Kind.PLAN, self.body)

    def ask(self, kind: Kind, body: bytes, attempt: Attempt = ONE) -> tuple[int, ...]:
        """Make a request; returns the order that comes with the answer."""
        status, said = self.plans.serve(Header(kind, len(body), attempt, 5, hashlib.sha256(body).digest()), body)
        assert status is Status.OK
        return unpack(f">{len(said) // 4}i", said)[1:]

    def widths(self, *tasks: int, planned: bool = True) -> tuple[int, ...]:
        """Report how many tasks the vertices have."""
        rows = b"".join(pack(">iii", at, 15 * (at + 1), count) for at, count in enumerate(tasks))
        return self.ask(Kind.REPORT, pack(">iBBi", 1, 0, planned, len(tasks)) + rows + pack(">i", 0))

    def ended(self, *took: tuple[int, int]) -> tuple[int, ...]:
        """Report tasks that have ended: the vertex and the milliseconds of each."""
        rows = (pack(">iiiBqqqq", at, task, 0, 0, 900_000, ms, -1, -1) for task, (at, ms) in enumerate(took))
        return self.ask(Kind.REPORT, pack(">iBBii", 1, 0, 1, 0, len(took)) + b"".join(rows))

    def scores(self) -> dict[int, float]:
        """Return the hints about the vertices, by id."""
        view = self.plans.view(ONE)
        assert isinstance(view, DagView)
        return {vertex.low // 15 - 1: vertex.score for vertex in view.vertices}


def _is_topological(order: tuple[int, ...]) -> bool:
    at = {found: place for place, found in enumerate(order)}
    return sorted(order) == [0, 1, 2, 3, 4] and all(at[a] < at[b] for a, b in ((0, 1), (1, 2), (0, 3), (3, 4)))


def test_a_width_that_changes_brings_another_order() -> None:
    master = Master()
    master.now_s = REPLAN_EVERY_S
    assert _is_topological(master.widths(2, 1, 1, 10, 40))
    master.now_s += REPLAN_EVERY_S
    assert master.widths(2, 1, 1, 10, 40) == (), "nothing new"


def test_durations_that_are_far_off_bring_another_order() -> None:
    master = Master()
    later = 3 if master.order.index(1) < master.order.index(3) else 1
    master.now_s = REPLAN_EVERY_S
    order = master.ended(*[(0, 10_000)] * 2, *[(4 - later, 10_000)] * 3, *[(later, 80_000)] * 9)
    assert _is_topological(order)
    assert order.index(later) < order.index(4 - later), "the long task that is left goes first"


def test_durations_that_are_all_off_alike_leave_the_order_as_it_is() -> None:
    master = Master()
    master.now_s = REPLAN_EVERY_S
    assert master.ended(*[(0, 700_000)] * 2) == ()


def test_how_far_off_a_plan_may_be_is_a_setting() -> None:
    wrong = ((0, 10_000), (0, 10_000), *[(1, 10_000)] * 3, *[(3, 20_000)] * 3)
    for factor, replanned in ((3.0, False), (1.5, True)):
        master = Master(wrong_factor=factor)
        master.now_s = REPLAN_EVERY_S
        assert bool(master.ended(*wrong)) == replanned


def test_a_plan_that_is_wrong_again_and_again_is_dropped() -> None:
    master = Master(replans_max=1)
    master.widths(2, 10, 2, 10, 2)
    assert max(master.scores().values()) == 1.0
    master.now_s = REPLAN_EVERY_S
    assert master.widths(2, 40, 2, 10, 2) != ()
    assert max(master.scores().values()) == 1.0
    master.now_s += REPLAN_EVERY_S
    assert master.widths(2, 40, 2, 200, 2) == ()
    assert set(master.scores().values()) == {-1.0}, "as a DAG that was never planned"


def test_widths_that_nobody_knew_are_no_fault_of_the_plan() -> None:
    master = Master(replans_max=0)
    body = dag(vertex(0, 2), vertex(1, -1, 0), vertex(2, 2, 1), vertex(3, 10, 0), vertex(4, 2, 3))
    master.ask(Kind.PLAN, body)
    master.now_s = REPLAN_EVERY_S
    assert _is_topological(master.widths(2, 50, 2, 10, 2))
    assert max(master.scores().values()) == 1.0
    master.now_s += REPLAN_EVERY_S
    assert master.widths(2, 500, 2, 10, 2) == (), "but to have another one then is"
    assert set(master.scores().values()) == {-1.0}


@pytest.mark.parametrize("relative", [True, False])
def test_scores_go_on_as_tasks_end(*, relative: bool) -> None:
    master = Master(relative_scores=relative)
    master.widths(2, 10, 2, 10, 2)
    before = master.scores()
    assert max(before.values()) == before[0] == 1.0
    master.ended(*[(0, 10_000)] * 2, *[(1, 10_000)] * 10, *[(3, 10_000)] * 5)
    after = master.scores()
    assert after[3] > after[4]
    if relative:
        assert max(after[at] for at in (2, 3, 4)) == 1.0, "however far the DAG is, its next task has the score 1"
    else:
        assert after[3] < before[3], "the score of the task that is next, not of the first"


def test_scores_are_not_sent_where_orders_alone_are_wanted() -> None:
    master = Master(scores=False)
    master.widths(2, 10, 2, 10, 2)
    assert set(master.scores().values()) == {-1.0}


def test_a_dag_is_planned_anew_with_reports_missing() -> None:
    """Vertex 1 seems to run although all of vertex 2, which waits for it, has ended."""
    master = Master()
    master.now_s = REPLAN_EVERY_S
    order = master.ended(*[(0, 10_000)] * 2, *[(1, 10_000)] * 9, *[(2, 10_000)] * 2, *[(3, 80_000)] * 3)
    assert _is_topological(order)


@pytest.mark.parametrize("planned", [True, False])
def test_not_before_its_time_and_not_in_natural_order(*, planned: bool) -> None:
    master = Master()
    master.now_s = REPLAN_EVERY_S - 1.0 if planned else REPLAN_EVERY_S
    assert master.widths(2, 2, 20, 2, 20, planned=planned) == ()


def test_a_dag_that_is_as_planned_keeps_its_order() -> None:
    master = Master()
    master.now_s = REPLAN_EVERY_S
    assert master.widths(2, 10, 2, 10, 2) == ()
    assert master.ask(Kind.REPORT, report(1, {}, ended=1)) == ()


def test_a_second_attempt_asks_anew_and_is_distinguished_from_the_first() -> None:
    master = Master()
    master.ask(Kind.REPORT, report(1, {0: 15}, ended=2))
    second = ONE._replace(attempt=ONE.attempt + 1)
    body = master.body
    header = Header(Kind.PLAN, len(body), second, 6, hashlib.sha256(body).digest())
    assert master.plans.serve(header, body)[0] is Status.BUSY, "no frame has reported it yet"
    master.plans.part(ONE)
    master.plans.meet(second, recurrence_key("ann", "root.default", "TEZ", ""))
    assert master.plans.serve(Header(Kind.REPORT, 0, second, 6, b""), report(1, {}))[0] is Status.UNKNOWN
    assert master.ask(Kind.PLAN, body, second) == master.order
    assert master.plans.view(ONE) is None
    # what the first attempt has reported does not count
    ended = b"".join(pack(">iiiBqqqq", 4, task, 0, 0, 9_000, 1_000, -1, -1) for task in range(2))
    master.ask(Kind.REPORT, pack(">iBBii", 1, 1, 1, 0, 2) + ended, second)
    (run,) = master.runs
    assert {stage.name: stage.durations.count for stage in run.stages} == {"v0": 0, "v1": 0, "v2": 0, "v3": 0, "v4": 2}
    assert run.id.endswith("_1")


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_whatever_is_reported_an_order_has_parents_first(data: st.DataObject) -> None:
    many = data.draw(st.integers(2, 7))
    parents = [sorted(data.draw(st.sets(st.integers(0, at - 1)))) if at else [] for at in range(many)]
    master = Master()
    body = dag(*(vertex(at, data.draw(st.integers(-1, 6)), *parents[at]) for at in range(many)))
    at = {found: place for place, found in enumerate(master.ask(Kind.PLAN, body))}
    for turn in range(1, 4):
        master.now_s = turn * REPLAN_EVERY_S
        rows = b"".join(pack(">iii", one, 3 * (one + 1), data.draw(st.integers(0, 9))) for one in range(many))
        times = data.draw(st.lists(st.tuples(st.integers(0, many - 1), st.integers(0, 500_000)), max_size=12))
        ended = b"".join(pack(">iiiBqqqq", one, 0, 0, 0, 600_000, took, -1, -1) for one, took in times)
        head, count = pack(">iBBi", 1, 0, 1, many), pack(">i", len(times))
        order = master.ask(Kind.REPORT, head + rows + count + ended)
        at = {found: place for place, found in enumerate(order)} or at
        assert sorted(at) == list(range(many))
        assert all(at[parent] < at[child] for child in range(many) for parent in parents[child])
