"""A DAG that turns out to be another one than was planned gets another order while it runs; attempts do not mix."""

from __future__ import annotations

import hashlib
from struct import pack, unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_plan_listener import ONE, dag, report, vertex

from treadle.config.settings import Plans
from treadle.dag.dag import Dag, Stage
from treadle.planner.online import Machines, followed_ms, plan_online
from treadle.plans.desk import PlanDesk
from treadle.plans.history import History
from treadle.plans.keys import Attempt
from treadle.plans.protocol import Header, Kind, Status
from treadle.plans.replanning import EVERY_S, REPLANS_MAX, Replanning, Size, better, remaining
from treadle.profiles.recurrence import recurrence_key
from treadle.profiles.run import JobRun

PARENTS: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0,), (3,))
MACHINES = Machines({"memory-mb": 1024.0}, 2)


class Master:
    """An application master whose DAG has a root that feeds two branches, of two vertices each."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.runs: list[JobRun] = []
        self.desk = PlanDesk(Plans(schedules=50), History(remember=self.runs.append), lambda: self.now_s)
        self.desk.meet(ONE, recurrence_key("ann", "root.default", "TEZ", ""))
        self.desk.machines({0: (("memory-mb", 2048.0),)})
        self.body = dag(vertex(0, 2), vertex(1, 10, 0), vertex(2, 2, 1), vertex(3, 10, 0), vertex(4, 2, 3))
        self.order = self.ask(Kind.PLAN, self.body)

    def ask(self, kind: Kind, body: bytes, attempt: Attempt = ONE) -> tuple[int, ...]:
        """Make a request; returns the order that comes with the answer."""
        status, said = self.desk.serve(Header(kind, len(body), attempt, 5, hashlib.sha256(body).digest()), body)
        assert status is Status.OK
        return unpack(f">{len(said) // 4}i", said)[1:]

    def widths(self, *tasks: int, planned: bool = True) -> tuple[int, ...]:
        """Report how many tasks the vertices have."""
        rows = b"".join(pack(">iii", at, 15 * (at + 1), count) for at, count in enumerate(tasks))
        return self.ask(Kind.REPORT, pack(">iBBi", 1, 0, planned, len(tasks)) + rows + pack(">i", 0))


def _is_topological(order: tuple[int, ...]) -> bool:
    at = {found: place for place, found in enumerate(order)}
    return sorted(order) == [0, 1, 2, 3, 4] and all(at[a] < at[b] for a, b in ((0, 1), (1, 2), (0, 3), (3, 4)))


def test_a_width_that_changes_brings_another_order() -> None:
    master = Master()
    first, later = (1, 3) if master.order.index(2) < master.order.index(4) else (3, 1)
    tasks = {0: 1, first: 10, first + 1: 1, later: 1, later + 1: 1}
    master.now_s = EVERY_S
    order = master.widths(*(tasks[at] for at in range(5)))
    stages = (Stage(at, tasks[at], 10_000, {"memory-mb": 1024.0}, PARENTS[at]) for at in range(5))
    found = better(master.order, Dag("report", tuple(stages)), MACHINES, 50)
    assert order == (found[0] if found else ())
    assert order == () or _is_topological(order)
    assert master.widths(*(tasks[at] for at in range(5))) == (), "nothing new"


def test_durations_that_are_far_off_bring_another_order() -> None:
    master = Master()
    later = 3 if master.order.index(1) < master.order.index(3) else 1
    ended = [*[(0, 10_000)] * 2, *[(4 - later, 10_000)] * 3, *[(later, 80_000)] * 9]
    rows = (pack(">iiiBqqqq", at, task, 0, 0, 90_000, took, -1, -1) for task, (at, took) in enumerate(ended))
    master.now_s = EVERY_S
    order = master.ask(Kind.REPORT, pack(">iBBii", 1, 0, 1, 0, len(ended)) + b"".join(rows))
    assert _is_topological(order)
    assert order.index(later) < order.index(4 - later), "the long task that is left goes first"


def test_durations_that_are_all_off_alike_leave_the_order_as_it_is() -> None:
    master = Master()
    rows = (pack(">iiiBqqqq", 0, task, 0, 0, 900_000, 700_000, -1, -1) for task in range(2))
    master.now_s = EVERY_S
    assert master.ask(Kind.REPORT, pack(">iBBii", 1, 0, 1, 0, 2) + b"".join(rows)) == ()


@pytest.mark.parametrize("planned", [True, False])
def test_not_before_its_time_and_not_in_natural_order(*, planned: bool) -> None:
    master = Master()
    master.now_s = EVERY_S - 1.0 if planned else EVERY_S
    assert master.widths(2, 2, 20, 2, 20, planned=planned) == ()


def test_a_dag_that_is_as_planned_keeps_its_order() -> None:
    master = Master()
    master.now_s = EVERY_S
    assert master.widths(2, 10, 2, 10, 2) == ()
    assert master.ask(Kind.REPORT, report(1, {}, ended=1)) == ()


def test_another_order_is_worth_following() -> None:
    left = Dag(
        "d",
        (
            Stage(0, 2, 10, {"memory-mb": 1024.0}),
            Stage(1, 2, 10, {"memory-mb": 1024.0}),
            Stage(2, 2, 50, {"memory-mb": 512.0}, (1,)),
        ),
    )
    found = better((7, 0, 1, 2), left, MACHINES, 20)
    assert found is not None
    order, plan = found
    assert order == (7, 1, 2, 0), "what has ended stays in front"
    assert followed_ms(left, MACHINES, order[1:]) < followed_ms(left, MACHINES, (0, 1, 2))
    assert better(order, left, MACHINES, 20) is None
    assert followed_ms(left, MACHINES, plan.stage_order()) == plan_online(left, MACHINES, 20).executed_makespan


def test_what_has_ended_is_left_out_unless_a_parent_has_not() -> None:
    whole = Dag("d", (Stage(0, 3, 1, {}), Stage(1, 2, 1, {}, (0,)), Stage(2, 4, 1, {}, (1,))))
    assert [(stage.id, stage.tasks) for stage in remaining(whole, {0: 3, 1: 1}).stages] == [(1, 1), (2, 4)]
    assert [(stage.id, stage.tasks) for stage in remaining(whole, {0: 2, 1: 2}).stages] == [(0, 1), (1, 1), (2, 4)]
    assert remaining(whole, {0: 3, 1: 2, 2: 9}).stages == ()


def test_looking_for_another_order_is_bounded() -> None:
    replanning = Replanning((0,), {0: Size(1, 100)}, 0.0)
    assert not replanning.is_off({0: Size(1, 150)})
    assert replanning.is_off({0: Size(1, 151)})
    assert replanning.is_off({0: Size(2, 100)})
    assert replanning.is_off({0: Size(1, 60)})
    for look in range(REPLANS_MAX):
        assert replanning.may_look(EVERY_S * (look + 1))
        replanning.look({0: Size(1, 100)}, EVERY_S * (look + 1))
        assert not replanning.may_look(EVERY_S * (look + 1) + 1)
    assert not replanning.may_look(1e9)


def test_a_second_attempt_asks_anew_and_is_told_apart_from_the_first() -> None:
    master = Master()
    master.ask(Kind.REPORT, report(1, {0: 15}, ended=2))
    second = ONE._replace(attempt=ONE.attempt + 1)
    body = master.body
    header = Header(Kind.PLAN, len(body), second, 6, hashlib.sha256(body).digest())
    assert master.desk.serve(header, body)[0] is Status.BUSY, "the ResourceManager has not told of it yet"
    master.desk.part(ONE)
    master.desk.meet(second, recurrence_key("ann", "root.default", "TEZ", ""))
    assert master.desk.serve(Header(Kind.REPORT, 0, second, 6, b""), report(1, {}))[0] is Status.UNKNOWN
    assert master.ask(Kind.PLAN, body, second) == master.order
    assert master.desk.view(ONE) is None
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
        master.now_s = turn * EVERY_S
        rows = b"".join(pack(">iii", one, 3 * (one + 1), data.draw(st.integers(0, 9))) for one in range(many))
        times = data.draw(st.lists(st.tuples(st.integers(0, many - 1), st.integers(0, 500_000)), max_size=12))
        ended = b"".join(pack(">iiiBqqqq", one, 0, 0, 0, 600_000, took, -1, -1) for one, took in times)
        head, count = pack(">iBBi", 1, 0, 1, many), pack(">i", len(times))
        order = master.ask(Kind.REPORT, head + rows + count + ended)
        at = {found: place for place, found in enumerate(order)} or at
        assert sorted(at) == list(range(many))
        assert all(at[parent] < at[child] for child in range(many) for parent in parents[child])
