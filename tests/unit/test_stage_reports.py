"""What a Spark driver reports of its stages: read, kept until the application has ended, remembered with the job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from struct import pack

import pytest
from tests.unit.history.shown import recorded
from tests.unit.test_live_event_source import DATA, take
from tests.unit.test_live_event_source import _settings as stored_in
from tests.unit.test_plan_event_source import Cluster, application, attempt_keys
from tests.unit.test_plan_listener import text
from tests.unit.test_session import SNAPSHOT

from treadle.am.protocol import Attempt, MessageError, Status
from treadle.am.quotas import Bounds
from treadle.am.registries import StageRegistry, application_of, read_stage, read_stage_report, runs_of
from treadle.events import Event, Names, Snapshot
from treadle.history.profile import DurationSketch, Measured, StageProfile, StageRun
from treadle.history.store import open_store
from treadle.live.history_writer import ProfileRecorder
from treadle.wire.frames import FrameEncoder, FrameHeader

GOLDEN = Path(__file__).parents[1] / "golden" / "stage-report.bin"
ONE = Attempt(1_700_000_000_000, 7, 1)
NAME = "application_1700000000000_0007"


def stage(number: int, tasks: int = 1, *, name: str = "s", parents: Sequence[int] = ()) -> bytes:
    fed = pack(f">i{len(parents)}i", len(parents), *parents)
    return pack(">ii", number, number) + text(name) + pack(">i", tasks) + fed + pack(">qiiiii", 0, 0, 0, 0, 0, 0)


def report(*stages: bytes, start: bool = True, ended: bool = False) -> bytes:
    return pack(">BBi", start, ended, len(stages)) + b"".join(stages)


def names(stages: Sequence[StageRun | StageProfile]) -> list[str]:
    return [one.name for one in stages]


@pytest.fixture
def registry() -> StageRegistry:
    made = StageRegistry()
    made.register_attempt(ONE, "ann")
    return made


def test_the_golden_report_says_what_the_stages_were(registry: StageRegistry) -> None:
    assert registry.serve(ONE, GOLDEN.read_bytes()) is Status.OK
    first, last = runs_of(registry.take_stages(NAME))
    assert (first.name, first.width) == ("0 map at job.py:1", 3)
    assert first.durations == DurationSketch([1_000, 1_500, 400])
    assert (first.input_bytes, first.parents, first.measured) == (35, (), Measured.TASKS)
    assert (first.retried, first.speculative) == (2, 1), "one failed, one succeeded again; the copy was the first to"
    assert last.durations == DurationSketch([4_000_000_000])
    assert (last.name, last.input_bytes) == ("1 map at job.py:3", 1 << 40)
    assert last.parents == ("0 map at job.py:1",), "the stage between them never ran"


def test_a_later_report_tells_the_whole_of_what_has_changed(registry: StageRegistry) -> None:
    registry.serve(ONE, report(stage(0, 1), stage(1, 2)))
    assert registry.serve(ONE, report(stage(1, 5), start=False, ended=True)) is Status.OK
    assert [one.width for one in runs_of(registry.take_stages(NAME))] == [1, 5]
    assert registry.take_stages(NAME) == [], "once"


def test_without_a_last_report_nothing_is_taken_for_the_whole(registry: StageRegistry) -> None:
    registry.serve(ONE, report(stage(0)))
    assert registry.take_stages(NAME) == []


def test_a_stage_is_called_the_same_in_each_run(registry: StageRegistry) -> None:
    names_of_runs = ["sum at /data/container_1/my jobs/a.py:4", "run at Writer.scala:85", "a/b"]
    registry.serve(ONE, report(*(stage(at, name=name) for at, name in enumerate(names_of_runs)), ended=True))
    assert names(runs_of(registry.take_stages(NAME))) == ["0 sum at a.py:4", "1 run at Writer.scala:85", "2 a/b"]


def test_what_is_not_known_has_to_be_sent_from_the_start(registry: StageRegistry) -> None:
    assert registry.serve(ONE, report(stage(0), start=False)) is Status.UNKNOWN
    second = ONE._replace(attempt=2)
    assert registry.serve(second, report(stage(0))) is Status.BUSY
    registry.register_attempt(second, "ann")
    registry.serve(ONE, report(stage(0), stage(1)))
    assert registry.serve(second, report(stage(2), start=False, ended=True)) is Status.UNKNOWN
    assert registry.serve(second, report(stage(2, name="again"), ended=True)) is Status.OK
    assert names(runs_of(registry.take_stages(NAME))) == ["0 again"]


def test_an_attempt_that_has_ended_reports_no_more(registry: StageRegistry) -> None:
    registry.serve(ONE, report(stage(0), ended=True))
    registry.forget_attempt(ONE)
    assert registry.serve(ONE, report(stage(1))) is Status.BUSY
    assert len(registry.take_stages(NAME)) == 1


def test_reports_are_bounded_by_bytes_of_an_application_of_a_user_and_in_all() -> None:
    registry = StageRegistry(Bounds(2_500, 5_000, 9_000))
    others = [ONE._replace(application=number) for number in range(3)]
    for at, attempt in enumerate(others):
        registry.register_attempt(attempt, f"user {at}")
        assert registry.serve(attempt, report(stage(0, name="x" * 700), ended=True)) is Status.OK
    many = [ONE._replace(application=number) for number in range(10, 20)]
    for attempt in many:
        registry.register_attempt(attempt, "mallory")
        assert registry.serve(attempt, report(stage(0, name="x" * 1_500), ended=True)) is Status.OK
    assert all(registry.take_stages(application_of(attempt)) for attempt in others), "whoever fills the room makes it"
    assert [bool(registry.take_stages(application_of(attempt))) for attempt in many] == [False] * 8 + [True] * 2
    assert registry.serve(many[0], report(stage(0, name="x" * 3_000), ended=True)) is Status.REFUSED
    assert registry.take_stages(application_of(many[0])) == []


def test_one_driver_cannot_push_out_the_reports_of_others() -> None:
    registry = StageRegistry()
    others = [ONE._replace(application=number) for number in range(1, 101)]
    for attempt in others:
        registry.register_attempt(attempt, "ann")
        registry.serve(attempt, report(stage(0), ended=True))
    mallory = ONE._replace(application=999)
    registry.register_attempt(mallory, "mallory")
    for turn in range(2_000):
        registry.serve(mallory, report(stage(turn % 1_000, name="x" * 60_000), start=turn == 0))
    assert all(registry.take_stages(application_of(attempt)) for attempt in others)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        report(stage(0))[:-1],
        report(stage(0)) + b"x",
        report(stage(1_000)),
        report(stage(0, tasks=-1)),
        pack(">BBi", 1, 0, 1 << 30),
        report(stage(0)[:-4] + pack(">i", 1) + pack(">qqqqQ", 5, 4, 9, 0, 81) + pack(">Hi", 3, 1)),
    ],
)
def test_damaged_reports_are_refused(registry: StageRegistry, body: bytes) -> None:
    with pytest.raises(MessageError):
        registry.serve(ONE, body)
    with pytest.raises(MessageError):
        read_stage(body)


def test_a_stage_is_kept_as_it_came() -> None:
    (content,) = read_stage_report(report(stage(3, 4, name="e", parents=[1]))).stages.values()
    assert content == stage(3, 4, name="e", parents=[1])


def test_masters_of_spark_get_keys_and_report_stages_alone() -> None:
    cluster = Cluster()
    cluster.tell(application(state=0))
    spark = application("SPARK")
    cluster.tell(spark, attempt_keys(bytes(32)))
    attempt = Attempt(*(int(column[0]) for column in (spark.cluster_timestamp, spark.id, spark.attempt)))
    assert cluster.keys.find(attempt, 5) == bytes(32)
    assert cluster.stages.serve(attempt, report(stage(0), ended=True)) is Status.OK
    assert cluster.ask(b"\0\0\0\1" + text("dag") + b"\0\0\0\0") is Status.BUSY
    cluster.tell(application("SPARK", state=0))
    assert cluster.keys.find(attempt, 5) is None
    assert cluster.stages.serve(attempt, report(stage(0))) is Status.BUSY


def in_spark(event: Event) -> Event:
    """Return an event of a cluster where Spark runs in Tez's place."""
    if not isinstance(event, Names):
        return event
    return Names(tuple("SPARK" if text == "TEZ" else text for text in event.texts))


def test_a_finished_job_is_remembered_with_its_stages(tmp_path: Path) -> None:
    file = tmp_path / "profiles.db"
    recorder, asked = ProfileRecorder(), list[str]()

    def stages_of(name: str) -> tuple[StageRun, ...]:
        asked.append(name)
        return (StageRun("0 count at job.py:4", 2, DurationSketch([5, 7])),) if len(asked) == 1 else ()

    recorder.follow(stored_in(str(file)))
    recorder.ask_stages(stages_of)
    encoder, told, frames = FrameEncoder(), recorded(DATA), list[bytes]()
    for sequence, (time_ms, events) in enumerate([*told, (told[-1][0] + 60_000, [])], 1):
        header = FrameHeader(SNAPSHOT if sequence == 1 else 0, 5, sequence, time_ms, 0, 10, 2)
        shown = [in_spark(event) for event in events if not isinstance(event, Snapshot)]
        frames.append(encoder.encode(header, shown))
    take(recorder, frames)
    with open_store(str(file), read_only=True) as store:
        found = {run: names(profile.stages) for profile in store.profiles() for _, run, _ in profile.recent}
        spark = {run for profile in store.profiles() for _, run, _ in profile.recent if profile.key.type == "SPARK"}
    assert set(asked) == spark, "nobody else's master reports stages"
    assert len(found) > len(spark)
    assert "0 count at job.py:4" in found[asked[0]]
    assert len(found[asked[0]]) > 1, "beside those that the ResourceManager saw"
