"""From an application master's plan and reports to the engine's events, and to the store of profiles."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from struct import pack
from typing import Any

import numpy as np
import pytest
from tests.support.plan_side import LocalPlans
from tests.unit.test_plan_listener import DAG, KEY, ONE, dag, report, vertex

from treadle import events
from treadle.am.listener import PlanService
from treadle.am.protocol import Attempt, Header, Kind, Status
from treadle.config.settings import Plans
from treadle.history.run import JobRun
from treadle.live.plan_source import PlanEventSource
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
    columns: dict[str, Any] = {field.name: i32(0) for field in fields(events.Applications)} | {
        "application": i32(4),
        "cluster_timestamp": i64(ONE[0]),
        "id": i32(ONE[1]),
        "attempt": i32(ONE[2]),
        "name_name": i32(TEXTS.index("session")),
        "type_name": i32(TEXTS.index(type_)),
        "user_name": i32(TEXTS.index("ann")),
        "queue": i32(1),
        "state": u8(state),
    }
    return events.Applications(**columns)


def asks(**priorities: int) -> events.Requests:
    keys = i32(*(int(name[1:]) for name in priorities))
    return events.filled(
        events.Requests,
        len(keys),
        application=4,
        key=keys,
        priority=i32(*priorities.values()),
        allocation_request_id=-1,
        count=1,
        relax_locality=1,
        capability=np.ones((len(keys), 2), np.int64),
    )


def attempt_keys(key: bytes) -> events.AttemptKeys:
    words = np.frombuffer(key, "<i8")
    return events.AttemptKeys(i32(4), i32(5), *(i64(int(word)) for word in words))


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
    assert cluster.plans.view(ONE) is not None
    cluster.tell(events.Snapshot(3), events.Names(TEXTS))
    assert cluster.keys.find(ONE, 5) is None
    assert cluster.plans.view(ONE) is None
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
