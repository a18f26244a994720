"""From an application master's plan and reports to the engine's events, and to the store of profiles."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from struct import pack, unpack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_plan_listener import DAG, KEY, ONE, dag, report, vertex

from treadle import events
from treadle.am.listener import PlanService
from treadle.am.protocol import Attempt, Header, Kind, Status
from treadle.am.quotas import FairQueue
from treadle.am.registries import CLAIM, REPLAN_EVERY_S, Amounts, Claims, History, PlanRegistry
from treadle.config.settings import Plans, default_settings
from treadle.history.profile import JobRun, recurrence_key
from treadle.live.plan_source import KEYS_MAX, LOOKED_MAX, ROWS_MAX, PlanEventSource, PlanLink, open_plans
from treadle.policy.catalogue import register_parts
from treadle.wire.frames import Frame, FrameDecoder, FrameEncoder, FrameHeader, without_keys

TEXTS = (
    "",
    "memory-mb",
    "vcores",
    "Mi",
    "root",
    "root.default",
    "n1",
    "rack",
    "session",
    "TEZ",
    "ann",
    "MAPREDUCE",
    "SPARK",
)


def i32(*values: int) -> events.I32:
    return np.array(values, np.int32)


def i64(*values: int) -> events.I64:
    return np.array(values, np.int64)


def u8(*values: int) -> events.U8:
    return np.array(values, np.uint8)


def application(type_: str = "TEZ", state: int = 1) -> events.Applications:
    return events.filled(
        events.Applications,
        1,
        application=4,
        cluster_timestamp=ONE[0],
        id=ONE[1],
        attempt=ONE[2],
        name_name=TEXTS.index("session"),
        type_name=TEXTS.index(type_),
        user_name=TEXTS.index("ann"),
        queue=1,
        state=state,
    )


def asks(**priorities: int) -> events.Requests:
    return asks_of(4, [int(name[1:]) for name in priorities], [*priorities.values()])


def asks_of(application: int, keys: Sequence[int], priorities: Sequence[int]) -> events.Requests:
    return events.filled(
        events.Requests,
        len(keys),
        application=application,
        key=keys,
        priority=priorities,
        allocation_request_id=-1,
        count=1,
        relax_locality=1,
        capability=np.ones((len(keys), 2), np.int64),
    )


def attempt_keys(key: bytes) -> events.AttemptKeys:
    words = np.frombuffer(key, "<i8")
    return events.AttemptKeys(i32(4), i32(5), *(i64(int(word)) for word in words))


class LocalPlans(PlanLink):
    """A plan listener's registries in this process, in the place of a listener of its own."""

    def __init__(self, service: PlanService) -> None:
        self.service = service
        self._latest: dict[Attempt, Claims] = {}

    def register_attempt(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        self.service.register_attempt(attempt, user, queue, type_)

    def forget_attempt(self, attempt: Attempt) -> None:
        self.service.forget_attempt(attempt)

    def give_key(self, attempt: Attempt, number: int, key: bytes) -> None:
        self.service.keys.give(attempt, number, key)

    def set_machines(self, nodes: Mapping[int, Amounts]) -> None:
        self.service.plans.set_machines(list(Counter(nodes.values()).items()))

    def next_update(self) -> Attempt | None:
        news = self.service.next_update()
        if news is None:
            return None
        attempt, self._latest[attempt] = news
        return attempt

    def claims(self, attempt: Attempt) -> Claims | None:
        return self._latest.get(attempt)

    def summary(self) -> str:
        return ""

    def problem(self) -> str:
        return ""


class Cluster:
    """A ResourceManager of one node and one application, and the engine's events."""

    def __init__(self, schedules: int = 20) -> None:
        self.runs: list[JobRun] = []
        self.service = PlanService(Plans(schedules=schedules), remember=self.runs.append)
        self.keys, self.plans, self.stages = self.service.keys, self.service.plans, self.service.stages
        self.source = PlanEventSource(LocalPlans(self.service))
        self.now_ms = 0
        types = events.ResourceTypes(TEXTS[1:3], ("Mi", ""), u8(1, 1), i64(0, 0), i64(1 << 20, 64))
        queues = events.filled(
            events.Queues, 2, queue=i32(0, 1), parent=i32(-1, 0), path_name=i32(4, 5), state=1, leaf=u8(0, 1)
        )
        amounts = np.array([[8192, 8]], np.int64)
        nodes = events.filled(events.Nodes, 1, name_name=6, rack_name=7, state=1, total=amounts, free=amounts)
        self.tell(events.Snapshot(1), events.Names(TEXTS), types, queues, nodes, application())

    def tell(self, *found: events.Event) -> dict[int, tuple[float, int, int]]:
        """A frame; returns score, duration and tasks left of each request key that the engine gets."""
        self.now_ms += 1_000
        header = FrameHeader(0, 1, self.now_ms, self.now_ms, 0, 16, 2)
        said: Any = self.source.collect(Frame(header, list(found)))
        if not said:
            return {}
        ranks, estimates = said
        columns = (ranks.key, ranks.score, estimates.duration_ms, estimates.tasks)
        return {key: (score, *rest) for key, score, *rest in zip(*(column.tolist() for column in columns), strict=True)}

    def ask(self, body: bytes, kind: Kind = Kind.PLAN) -> Status:
        return self.plans.serve(Header(kind, len(body), ONE, 5, hashlib.sha256(body).digest()), body)[0]


def test_the_request_keys_of_a_planned_dag_get_its_scores() -> None:
    cluster = Cluster()
    assert cluster.ask(DAG) is Status.OK
    assert cluster.tell(asks(k0=5, k1=8)) == {}, "nobody has said which priority is which vertex"
    assert cluster.ask(report(1, {0: 6, 1: 9}), Kind.REPORT) is Status.OK
    told = cluster.tell()
    assert told[0][0] > told[1][0] >= 0.0
    assert told[0][1:] == (-1, 2)
    assert cluster.tell() == {}
    assert cluster.tell(asks(k2=4)) == {2: told[0]}
    assert cluster.tell(asks(k3=7)) == {3: (1.0, *told[1][1:])}, "what has failed is wanted at once"


def test_ended_tasks_say_how_long_the_rest_takes() -> None:
    cluster = Cluster()
    cluster.ask(DAG)
    cluster.tell(asks(k0=5))
    cluster.ask(report(1, {0: 6, 1: 9}, ended=1), Kind.REPORT)
    assert cluster.tell()[0][1:] == (-1, 1)
    cluster.ask(report(1, {}, ended=1), Kind.REPORT)
    assert cluster.tell()[0][1:] == (1_000, 0)


def test_one_ended_task_of_one_says_how_long_and_not_how_far_off() -> None:
    cluster = Cluster()
    cluster.ask(dag(vertex(0, 1)))
    cluster.tell(asks(k0=5))
    cluster.ask(report(1, {0: 6}, ended=1, tasks=1), Kind.REPORT)
    assert cluster.tell()[0][1:] == (1_000, 0)


def test_times_that_cannot_be_are_left_out() -> None:
    cluster = Cluster()
    cluster.ask(DAG)
    cluster.tell(asks(k0=5))
    for ended_ms, took_ms in ((5_000, -5), (-1, 1), (5_000, 6_000), (2**62, 2**62), (2**62, 1)):
        body = report(1, {0: 6})[:-4] + pack(">iiiiBqqqq", 1, 0, 0, 0, 0, ended_ms, took_ms, -1, -1)
        assert cluster.ask(body, Kind.REPORT) is Status.OK
    assert cluster.tell()[0][1:] == (-1, 2)


def test_whatever_goes_wrong_with_plans_the_engine_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.ask(DAG)
    cluster.ask(report(1, {0: 6}), Kind.REPORT)
    assert cluster.tell(replace(application(), type_name=i32(99))) == {}
    assert "hears of no plans" in caplog.text
    assert cluster.tell(asks(k0=5)) == {}


def test_what_a_key_meant_in_the_dag_before_is_taken_back() -> None:
    cluster = Cluster()
    cluster.ask(DAG)
    cluster.ask(report(1, {0: 6, 1: 9}), Kind.REPORT)
    assert set(cluster.tell(asks(k0=5, k1=8))) == {0, 1}
    cluster.ask(report(1, {}, state=1), Kind.REPORT)
    assert cluster.tell() == {0: (-1.0, -1, -1), 1: (-1.0, -1, -1)}
    cluster.ask(dag(vertex(0, 5), number=2))
    cluster.ask(report(2, {0: 9}), Kind.REPORT)
    assert cluster.tell()[1] == (1.0, -1, 2), "the DAG's next task"
    assert cluster.ask(report(1, {0: 9}), Kind.REPORT) is Status.UNKNOWN


def test_hints_from_before_a_snapshot_are_taken_back_under_the_keys_after_it() -> None:
    """The engine keeps hints over the snapshot, so it must hear that the DAG ended meanwhile."""
    cluster = Cluster()
    cluster.ask(DAG)
    cluster.ask(report(1, {0: 6, 1: 9}), Kind.REPORT)
    assert set(cluster.tell(asks(k0=5, k1=8))) == {0, 1}
    cluster.ask(report(1, {}, state=1), Kind.REPORT)
    told = cluster.tell(events.Snapshot(1), events.Names(TEXTS), application(), asks(k7=8, k9=2))
    assert told == {7: (-1.0, -1, -1)}
    assert cluster.tell() == {}


def test_a_dag_that_succeeded_is_remembered_and_its_durations_plan_the_next_one() -> None:
    cluster = Cluster()
    cluster.ask(DAG)
    cluster.ask(report(1, {0: 6, 1: 9}, ended=2, state=1), Kind.REPORT)
    (run,) = cluster.runs
    assert (run.id, run.key.user, run.key.queue, run.key.name) == (
        "dag_1700000000000_0007_1",
        "ann",
        "default",
        "report",
    )
    assert (run.started_ms, run.ended_ms) == (4_000, 5_001)
    assert [(stage.name, stage.durations.count, stage.parents) for stage in run.stages] == [
        ("v0", 2, ()),
        ("v1", 0, ("v0",)),
    ]
    cluster.ask(dag(vertex(0, 2), number=2))
    cluster.ask(report(2, {0: 6}), Kind.REPORT)
    assert cluster.tell(asks(k0=5))[0][1] == 1_000


def test_without_a_budget_nothing_is_planned_and_reports_count() -> None:
    cluster = Cluster(schedules=0)
    assert cluster.ask(DAG) is Status.NO_PLAN
    cluster.ask(report(1, {0: 6, 1: 9}, ended=2), Kind.REPORT)
    assert cluster.tell(asks(k0=5)) == {0: (-1.0, 1_000, 0)}


def test_keys_are_for_the_listener_until_the_attempt_ends() -> None:
    cluster = Cluster()
    cluster.tell(attempt_keys(KEY))
    assert cluster.keys.find(ONE, 5) == KEY
    cluster.tell(application(state=0))
    assert cluster.keys.find(ONE, 5) is None
    assert cluster.ask(DAG) is Status.BUSY, "of an attempt that is not known (yet)"


def test_what_has_ended_between_snapshots_is_forgotten() -> None:
    cluster = Cluster()
    cluster.tell(attempt_keys(KEY))
    cluster.ask(DAG)
    cluster.tell(events.Snapshot(2), events.Names(TEXTS), application())
    assert cluster.keys.find(ONE, 5) == KEY
    assert cluster.plans._records.get(ONE) is not None
    cluster.tell(events.Snapshot(3), events.Names(TEXTS))
    assert cluster.keys.find(ONE, 5) is None
    assert cluster.plans._records.get(ONE) is None
    assert cluster.ask(DAG) is Status.BUSY, "as of an attempt that no frame has reported"


def test_applications_of_other_types_are_left_alone() -> None:
    cluster = Cluster()
    cluster.tell(application(state=0))
    cluster.tell(application("MAPREDUCE"), attempt_keys(KEY))
    assert cluster.keys.find(Attempt(*ONE), 5) is None


def test_whoever_keeps_frames_gets_no_keys() -> None:
    header = FrameHeader(1, 1, 1, 0, 0, 16, 2)
    rest: list[events.Event] = [events.Snapshot(1), events.Names(TEXTS)]
    frame = FrameEncoder().encode(header, [*rest, attempt_keys(KEY)])
    assert KEY in frame
    assert without_keys(frame) == FrameEncoder().encode(header, rest)
    assert len(FrameDecoder().decode(without_keys(frame)).events) == 2
    assert KEY.hex() not in repr(attempt_keys(KEY))


# The hints from plans between two decides are bounded, and each user's applications have their turn.


class Side(LocalPlans):
    """A listener that has something new of each attempt it has met: claims of this many priorities."""

    def __init__(self, priorities: int) -> None:
        super().__init__(PlanService(Plans(), remember=lambda _: None))
        self.asked = 0
        self._news: FairQueue[Attempt] = FairQueue()
        self._rows = np.array([(at + 1, 5, 1_000, -1, 0.5) for at in range(priorities)], CLAIM)

    def register_attempt(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        self._news.put(user, attempt)

    def next_update(self) -> Attempt | None:
        """Return an attempt, each user's in turn."""
        self.asked += 1
        return self._news.pop()[1] if self._news else None

    def claims(self, attempt: Attempt) -> Claims:
        return self._rows


def tell(source: PlanEventSource, *found: events.Event) -> Any:
    """Return the applications and keys that the engine gets hints for after a frame."""
    said: Any = source.collect(Frame(FrameHeader(0, 1, 1, 1, 0, 16, 2), list(found)))
    return (said[0].application, said[0].key) if said else (i32(), i32())


def applications(users: list[str]) -> events.Applications:
    names, at = [*TEXTS, *sorted(set(users))], np.arange(len(users))
    tez, theirs = TEXTS.index("TEZ"), [names.index(user) for user in users]
    return events.filled(events.Applications, len(at), application=at, id=at, type_name=tez, user_name=theirs, state=1)


def all_asked(application: int, keys: int) -> events.Requests:
    return asks_of(application, range(keys), range(1, keys + 1))


def test_hints_between_two_decides_are_bounded_and_each_user_has_a_turn() -> None:
    users = ["mallory"] * 30 + ["xavier"]
    side, keys = Side(2 * ROWS_MAX), 2 * ROWS_MAX // 3
    source = PlanEventSource(side)
    names = events.Names((*TEXTS, "mallory", "xavier"))
    begun = [all_asked(at, 2 if user == "xavier" else keys) for at, user in enumerate(users)]
    told: dict[int, int] = {}
    first = tell(source, events.Snapshot(1), names, applications(users), *begun)
    assert side.asked == LOOKED_MAX
    assert len(first[1]) == ROWS_MAX
    assert 30 in first[0].tolist(), "whoever has one waits for no more than one of whoever has thirty"
    rounds = 0
    while len(first[1]):
        assert len(first[1]) <= ROWS_MAX
        for at in first[0].tolist():
            told[at] = told.get(at, 0) + 1
        first, rounds = tell(source), rounds + 1
    assert told == {at: 2 if user == "xavier" else keys for at, user in enumerate(users)}, "nothing is sent twice"
    assert rounds >= 30 * keys // ROWS_MAX


def test_hints_for_request_keys_of_an_application_are_bounded() -> None:
    source = PlanEventSource(Side(KEYS_MAX + 100))
    begun = tell(
        source, events.Snapshot(1), events.Names((*TEXTS, "a")), applications(["a"]), all_asked(0, KEYS_MAX + 100)
    )
    count = 0
    while len(begun[1]):
        count += len(begun[1])
        begun = tell(source)
    assert count == KEYS_MAX


def test_without_an_address_there_is_no_port() -> None:
    register_parts()
    assert not default_settings().listener.address
    assert open_plans(default_settings(), lambda _: None, lambda _: None) is None


# A DAG that turns out to be another one than was planned gets another order while it runs; attempts do not mix.


class Master:
    """An application master whose DAG has a root that feeds two branches, of two vertices each."""

    def __init__(self, **plans: Any) -> None:
        self.now_s = 0.0
        self.runs: list[JobRun] = []
        self.plans = PlanRegistry(Plans(schedules=50, **plans), History(remember=self.runs.append), lambda: self.now_s)
        self.plans.register_attempt(ONE, recurrence_key("ann", "root.default", "TEZ", ""))
        self.plans.set_machines([((("memory-mb", 2048.0),), 1)])
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
        claims = self.plans.claims(ONE)
        return {row["priority"] // 15 - 1: row["score"] for row in claims if row["priority"] % 15 == 0}


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
        master = Master(replan_factor=factor)
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
    master.plans.forget_attempt(ONE)
    master.plans.register_attempt(second, recurrence_key("ann", "root.default", "TEZ", ""))
    assert master.plans.serve(Header(Kind.REPORT, 0, second, 6, b""), report(1, {}))[0] is Status.UNKNOWN
    assert master.ask(Kind.PLAN, body, second) == master.order
    assert not len(master.plans.claims(ONE))
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
