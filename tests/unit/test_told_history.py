"""What earlier runs say reaches a live engine between two decides, and a repetition gives the same bytes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.engine.fake_rm import RESOURCES, FakeRM, flat
from tests.engine.parts import containers, job_row, settings_with
from tests.support.recorders import refusing_once, work_off
from tests.support.told import Remembering, Told, told_from_bytes
from tests.unit.history.test_split_meta import content

from treadle.am.quotas import QuotaCache
from treadle.config.settings import JobHistory, Settings
from treadle.engine import Engine
from treadle.engine.testing import resource_types
from treadle.events import (
    ApplicationState,
    ContainerEvent,
    Event,
    Samples,
    Snapshot,
    StageInputs,
    TaskEstimates,
    TaskInputs,
)
from treadle.history.database import StoreError, Unusable
from treadle.history.profile import DurationSketch, JobProfile, JobRun, RecurrenceKey, StageRun, size_of_run
from treadle.history.splits import BYTES_MAX, Split, SplitOrder, read_splits
from treadle.history.stages import StageTracker
from treadle.history.store import ProfileStore, Sample, open_store, sample_from_json
from treadle.live.history_lookup import (
    AHEAD_KEY,
    ALL_BYTES_PER_S,
    USER_BYTES_PER_S,
    WAITING,
    JobSplits,
    StagedSplits,
)
from treadle.live.history_writer import HINTS, SPLITS, WAITING_RUNS, HistorySource, ProfileRecorder
from treadle.live.session import Session
from treadle.sidecar.conversation import Listener
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import Frame, FrameEncoder, FrameFlag, FrameHeader

MAP, REDUCE = 20, 10
GATE = ("pilots", {"ratio": "fixed", "ratio_fraction": 0.1, "work_conserving": False, "trusted_deviation": 0.1})
KEY = RecurrenceKey("u", "q1", "MAPREDUCE", "nightly load")
CLUSTER_MS = 1_700_000_000_000


@dataclass
class Live:
    """A sidecar without a socket: a fake RM's frames through a session with a recorder and a store."""

    store: str
    settings: Settings
    recorder: ProfileRecorder = field(default_factory=ProfileRecorder)
    rm: FakeRM = field(default_factory=FakeRM)
    frames: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    now_ms: int = CLUSTER_MS
    wait: bool = True

    def __post_init__(self) -> None:
        self.settings = replace(self.settings, history=JobHistory(store=self.store))
        self.rm.node("n0", (100, 100))
        types = resource_types(RESOURCES[:2], (1, 1))
        for text in (*types.names, *types.units, *self.rm.settings, *self.rm.settings.values()):
            self.rm._texts.index(text)  # on the wire they are names
        (self.leaf,) = flat(self.rm, 1, (100, 100))
        self.start(self.recorder)

    def start(self, recorder: ProfileRecorder) -> None:
        """Start a sidecar anew."""
        self.recorder = recorder
        recorder.follow(self.settings)
        if not self.wait:
            recorder.start()
        self.source = Remembering(HistorySource(recorder))
        self.session = Session(
            Engine,
            lambda: self.settings,
            reply_max_bytes=1 << 20,
            clock_ns=lambda: 0,
            settings=self.settings,
            listeners=(recorder, self.source),
        )
        self.encoder = FrameEncoder()
        self.rm.snapshot_next()
        if self.wait:
            work_off(recorder)

    def job(self, maps: int, name: str = "nightly load", priority: int = MAP) -> int:
        app = self.rm.application(self.leaf, kind="MAPREDUCE", name=name)
        self.rm.ask(app, 0, maps, (1, 1), priority=priority)
        return app

    def tick(self, *more: Event) -> Answer:
        """Send a frame, commit what is proposed."""
        self.now_ms += 1000
        events = self.rm.frame()
        snapshot = any(isinstance(event, Snapshot) for event in events)
        header = FrameHeader(int(FrameFlag.SNAPSHOT) if snapshot else 0, 1, self.rm.sequence, self.now_ms, 0, 1000, 2)
        self.frames.append(self.encoder.encode(header, [*events, *more]))
        self.answers.append(self.session.decide(self.frames[-1]))
        answer = decode_answer(self.answers[-1], 1000)
        assert not answer.resend
        self.rm.commit(answer.proposals)
        if self.wait:
            work_off(self.recorder)
        return answer

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick()

    def told(self) -> list[Event]:
        return [event for told in self.source.told for event in told.events]


class Silent(Listener):
    """An event source that says what was recorded."""

    def __init__(self, told: Mapping[tuple[int, int], Told]) -> None:
        self._told = told

    def collect(self, frame: Frame) -> tuple[Event, ...]:
        told = self._told.get((frame.header.epoch, frame.header.sequence))
        return () if told is None else told.events


def _run(number: int, map_ms: int) -> JobRun:
    ended_ms = CLUSTER_MS - 10_000 + number
    maps = StageRun("map", 40, DurationSketch([map_ms] * 40), {"memory-mb": 1, "vcores": 1})
    return JobRun(KEY, f"application_0_{number}", ended_ms - 10_000, ended_ms, (maps,))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """A store that has seen the job three times: maps of 10 s."""
    file = str(tmp_path / "profiles.db")
    with open_store(file) as opened:
        for number in range(3):
            opened.put(_run(number, 10_000), CLUSTER_MS)
    yield file


def test_a_job_seen_before_has_hints_at_the_next_tick_and_needs_no_pilots(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"))
    app = live.job(40)
    assert len(live.tick().proposals) == 4, "nothing is known yet, and nobody waits for the store"
    assert len(live.tick().proposals) == 36, "what is known is certain enough: the gate opens"
    (event,) = live.told()
    assert isinstance(event, TaskEstimates)
    assert (event.application.tolist(), event.key.tolist(), event.duration_ms.tolist()) == ([app], [0], [10_000])
    assert event.deviation_ms.tolist() == [0], "three runs of the same length"
    known = live.job(20)
    live.ticks(2)
    assert live.recorder.summary() == "2 of 2 jobs by earlier runs"
    assert {event.application.tolist()[0] for event in live.told() if isinstance(event, TaskEstimates)} == {app, known}


def test_reduces_have_hints_before_they_are_asked_for(tmp_path: Path) -> None:
    file = str(tmp_path / "reduces.db")
    with open_store(file) as opened:
        for number in range(3):
            run = _run(number, 10_000)
            reduces = StageRun("reduce", 7, DurationSketch([30_000] * 7), {"memory-mb": 1, "vcores": 1})
            opened.put(replace(run, stages=(*run.stages, reduces)), CLUSTER_MS)
    live = Live(file, settings_with(gate=GATE, order="srpt", estimate="combined"))
    app = live.job(40)
    live.ticks(2)
    (event,) = live.told()
    assert isinstance(event, TaskEstimates)
    ahead, maps = zip(event.key.tolist(), event.duration_ms.tolist(), event.tasks.tolist(), strict=True)
    assert ahead == (AHEAD_KEY - 1, 30_000, 7)
    assert maps == (0, 10_000, -1)
    live.rm.ask(app, 1, 5, (1, 1), priority=REDUCE)
    live.ticks(2)
    event = live.told()[-1]
    assert isinstance(event, TaskEstimates)
    assert event.key.tolist() == [AHEAD_KEY - 1, 1]
    assert (event.duration_ms.tolist(), event.tasks.tolist()) == ([-1, 30_000], [0, -1]), "what is asked for counts now"


def test_a_job_that_nobody_has_seen_is_sampled(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"))
    live.job(40, name="another")
    live.ticks(2)
    assert live.told() == []
    assert live.recorder.summary() == "0 of 1 jobs by earlier runs"


def test_more_jobs_than_are_followed_are_said(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.history.stages.JOBS_MAX", 2)
    live = Live(store, settings_with(estimate="hints"))
    for _ in range(2):
        live.job(1)
    live.tick()
    assert live.recorder.warnings() == ()
    live.job(1)
    live.tick()
    assert live.recorder.warnings() == ("jobs beyond 2 at a time are not remembered",)


def test_two_jobs_of_one_key_at_once_both_get_hints(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="hints"))
    jobs = [live.job(40), live.job(7)]
    live.ticks(2)
    (event,) = live.told()
    assert isinstance(event, TaskEstimates)
    assert event.application.tolist() == jobs


def test_the_name_of_a_job_may_be_anything(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, estimate="hints"))
    for name in ("夜" * 10_000, "\u202e\U0001f9f5" * 5_000, "é\0" * 5_000, " " * 10_000):
        live.job(3, name=name[:1000])  # as the shim cuts it
    live.ticks(2)
    assert live.recorder.warnings() == ()
    assert live.told() == []


def _replayed(live: Live, told: list[Told]) -> list[bytes]:
    kept = {(one.epoch, one.sequence): told_from_bytes(one.to_bytes()) for one in told}
    session = Session(
        Engine,
        lambda: live.settings,
        reply_max_bytes=1 << 20,
        clock_ns=lambda: 0,
        settings=live.settings,
        listeners=(Silent(kept),),
    )
    return [session.decide(frame) for frame in live.frames]


def _proposals(answers: list[bytes]) -> list[list[list[int]]]:
    return [[column.tolist() for column in _columns(decode_answer(answer, 1000))] for answer in answers]


def _columns(answer: Answer) -> tuple[Any, ...]:
    made = answer.proposals
    return made.application, made.key, made.node


def test_a_repetition_from_frames_and_hints_gives_the_same_bytes(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"))
    for maps, name in ((40, "another"), (30, "nightly load"), (3, "thin"), (25, "nightly load")):
        live.job(maps, name=name)
        live.tick()
    for _ in range(3):
        live.rm.complete(0)
        live.tick()
    live.rm.snapshot_next()
    live.tick()
    told = list(live.source.told)
    assert {type(event) for one in told for event in one.events} == {TaskEstimates, Samples}
    assert _proposals(_replayed(live, told)) == _proposals(live.answers)
    assert _proposals(_replayed(live, [])) != _proposals(live.answers), "the hints mattered"


def test_samples_outlive_a_snapshot_of_the_same_sidecar(store: str) -> None:
    live = Live("", settings_with(gate=GATE, order="srpt", estimate="pilots"))
    app = live.job(40, name="another")
    assert len(live.tick().proposals) == 4
    _end_some(live, app, 3)
    live.rm.snapshot_next()
    assert len(live.tick(_runs(live, app, 1)).proposals) == 0, "three pilots have ended, one runs"
    assert live.recorder.summary() == ""


def _three_pilots_ended(store: str) -> tuple[Live, int]:
    """Return a sidecar and a job of which three of four pilots have ended."""
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="pilots"))
    app = live.job(40, name="another")
    live.tick()
    _end_some(live, app, 3)
    live.tick()
    return live, app


def test_samples_outlive_a_sidecar_that_was_killed(store: str) -> None:
    live, app = _three_pilots_ended(store)
    live.start(ProfileRecorder())
    assert len(live.tick(_runs(live, app, 1)).proposals) == 0
    (samples,) = live.told()
    assert isinstance(samples, Samples)
    assert (samples.application.tolist(), samples.ended.tolist(), samples.pilots.tolist()) == ([app], [3], [4])


def test_samples_that_come_late_are_sent_nevertheless(store: str) -> None:
    live, app = _three_pilots_ended(store)
    live.start(ProfileRecorder(refusing_once(Unusable.BUSY)))
    live.tick(_runs(live, app, 1))
    live.now_ms += 60_000
    live.job(2, name="next")
    live.ticks(2)
    assert [event.ended.tolist()[0] for event in live.told() if isinstance(event, Samples)] == [3]


def test_the_samples_of_a_job_that_has_ended_are_forgotten(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="pilots"))
    app = live.job(40, name="another")
    live.ticks(2)
    with open_store(store) as opened:
        assert list(opened.samples()) == ["application_0_0001"]
    live.rm.applications[app].state = 0  # type: ignore[assignment]
    live.rm.change(app)
    live.ticks(2)
    with open_store(store) as opened:
        assert opened.samples() == {}


@pytest.mark.parametrize("reason", [Unusable.FULL, Unusable.READ_ONLY, Unusable.CORRUPTED, Unusable.OTHER_RELEASE])
def test_a_store_that_cannot_be_used_costs_what_it_knows_and_nothing_else(store: str, reason: Unusable) -> None:
    def refuse(location: str, _: JobHistory) -> ProfileStore:
        raise StoreError(location, reason)

    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"), ProfileRecorder(refuse))
    live.job(40)
    assert len(live.tick().proposals) == 4
    live.tick()
    assert live.told() == []
    assert reason.value in live.recorder.warnings()[0]


def test_nobody_waits_for_a_store_that_hangs(store: str) -> None:
    release = threading.Event()

    def hang(location: str, retention: JobHistory) -> ProfileStore:
        release.wait()
        return open_store(location, retention)

    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"), ProfileRecorder(hang), wait=False)
    live.job(40)
    try:
        assert len(live.tick().proposals) == 4
        assert live.told() == []
    finally:
        release.set()
    for _ in range(30_000):
        live.tick()
        if told := live.told():
            break
        time.sleep(0.01)
    assert [type(event) for event in told] == [TaskEstimates]


def test_what_is_known_of_an_older_snapshot_is_not_sent(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"))
    live.job(40)
    live.tick()
    live.rm.snapshot_next()
    live.tick()
    (first,) = [told.sequence for told in live.source.told if isinstance(told.events[-1], TaskEstimates)] or [0]
    assert first == 0, "it was looked up for the snapshot before"
    live.tick()
    assert [type(event) for event in live.told()][-1] is TaskEstimates


def test_samples_go_through_bytes_unchanged() -> None:
    sample = Sample(1, 0, 40, 4, 3, 30_000.25, 3.0e8 / 7, -1.0, 0.1, 3.0, 5, 1e-9)
    assert sample_from_json(list(sample)) == sample
    for wrong in (
        [],
        [*sample[:-7], float("nan"), *sample[-6:]],
        [9, *sample[1:]],
        ["1", *sample[1:]],
        [True, *sample[1:]],
        3,
    ):
        with pytest.raises(ValueError, match="sample"):
            sample_from_json(wrong)


@pytest.mark.parametrize("line", [b"", b"[1,2]", b'[1,2,[["Nodes",{}]]]', b'[1,2,[["TaskEstimates",{}]]]', b"{}"])
def test_a_line_that_tells_nothing_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        told_from_bytes(line)


def _end_some(live: Live, app: int, count: int) -> None:
    """Let containers of an application begin and end."""
    lives = [(app, number, MAP, live.now_ms, live.now_ms) for number in range(1, 5)]
    live.tick(containers(ContainerEvent.ALLOCATED, *lives))
    ended = [(*one[:4], live.now_ms) for one in lives[:count]]
    for _ in ended:
        live.rm.complete(0)
    live.tick(containers(ContainerEvent.COMPLETED, *ended))


def _runs(live: Live, app: int, count: int) -> Event:
    event: Event = containers(
        ContainerEvent.ALLOCATED, *((app, 4 - at, MAP, live.now_ms, live.now_ms) for at in range(count))
    )
    return event


def test_splits_that_the_sidecar_may_read_scale_what_pilots_say(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.history.splits.uid_of", {"u": os.geteuid()}.get)
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="pilots"))
    live.settings = replace(live.settings, history=JobHistory(store=store, staging=f"{tmp_path}/{{user}}"))
    live.start(ProfileRecorder())
    live.tick()
    app = live.rm.application(live.leaf, kind="MAPREDUCE", name="another", awaiting_am=True)
    folder = tmp_path / "u" / f"job_0_{app + 1:04d}"
    folder.mkdir(parents=True)
    sizes = [4000, 3000, 2000, *([100] * 37)]
    (folder / "job.splitmetainfo").write_bytes(content(*(Split(size) for size in sizes)))
    live.tick()
    live.rm.applications[app].awaiting_am = False
    live.rm.ask(app, 0, 40, (1, 1), priority=MAP)
    assert len(live.tick().proposals) == 4
    lives = [(app, number, MAP, live.now_ms, live.now_ms) for number in range(1, 5)]
    live.tick(containers(ContainerEvent.ALLOCATED, *lives))
    said = [event for event in live.told() if isinstance(event, StageInputs | TaskInputs)]
    assert [type(event) for event in said] == [StageInputs, TaskInputs]
    assert said[0].application.tolist() == [app]
    assert said[0].mean_bytes.tolist() == [sum(sizes) / 40]  # type: ignore[union-attr]
    assert said[1].bytes.tolist() == [4000, 3000, 2000, 100]  # type: ignore[union-attr]
    for size, one in zip(sizes, lives, strict=False):
        live.rm.complete(0)
        ended = (*one[:4], one[3] + 10 * size)  # ten milliseconds a byte
        live.now_ms = max(live.now_ms, ended[4])
        live.tick(containers(ContainerEvent.COMPLETED, ended))
    found = job_row(live.session._engine, app)
    assert found["pilot_mean_ms"] == pytest.approx(10 * sum(sizes) / 40), "and not 22.75 s, their mean"


def test_splits_that_cannot_be_read_cost_nothing(store: str, tmp_path: Path) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="pilots"))
    live.settings = replace(live.settings, history=JobHistory(store=store, staging=f"{tmp_path}/{{user}}"))
    live.start(ProfileRecorder())
    live.tick()
    app = live.rm.application(live.leaf, kind="MAPREDUCE", name="another", awaiting_am=True)
    live.tick()
    live.rm.applications[app].awaiting_am = False
    live.rm.ask(app, 0, 40, (1, 1), priority=MAP)
    assert len(live.tick().proposals) == 4
    assert live.told() == []
    assert live.recorder.warnings() == ()


class Failing(ProfileStore):
    """A store that fails at everything once it is open, as when its disk fills or its file is damaged."""

    reason: Unusable

    def get(self, key: RecurrenceKey) -> JobProfile | None:
        raise StoreError(self.name, self.reason)

    def put(self, run: JobRun, now_ms: int) -> bool:
        raise StoreError(self.name, self.reason)

    def keep_samples(self, changed: Mapping[str, Sample | None], now_ms: int) -> None:
        raise StoreError(self.name, self.reason)


@pytest.mark.parametrize("reason", [Unusable.FULL, Unusable.READ_ONLY, Unusable.CORRUPTED])
def test_a_store_that_fails_while_jobs_run_is_said_and_tried_again(store: str, reason: Unusable) -> None:
    opened = 0

    def open_(location: str, retention: JobHistory) -> ProfileStore:
        nonlocal opened
        opened += 1
        if opened > 1:
            return open_store(location, retention)
        made = open_store(location, retention)
        made.__class__ = Failing
        made.reason = reason  # type: ignore[attr-defined]
        return made

    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"), ProfileRecorder(open_))
    live.job(40)
    assert len(live.tick().proposals) == 4
    live.tick()
    assert live.told() == []
    assert reason.value in live.recorder.warnings()[0]
    live.now_ms += 60_000
    later = live.job(30)
    live.ticks(2)
    assert [event.application.tolist() for event in live.told() if isinstance(event, TaskEstimates)] == [[later]]
    assert live.recorder.warnings() == ()
    with open_store(store) as again:
        assert set(again.samples()) == {"application_0_0001", "application_0_0002"}, "what had waited was written"


def test_a_clock_that_steps_back_keeps_nothing_from_being_sent_or_kept(store: str) -> None:
    live = Live(store, settings_with(gate=GATE, order="srpt", estimate="combined"))
    live.job(40, name="another")
    live.tick()
    live.now_ms -= 3_600_000
    known = live.job(40)
    live.ticks(2)
    told = [event for event in live.told() if isinstance(event, TaskEstimates)]
    assert [event.application.tolist() for event in told] == [[known]]
    with open_store(store) as opened:
        assert set(opened.samples()) == {"application_0_0001", "application_0_0002"}


# Splits are read in turns: one user's files do not cost the others theirs, and events are prepared beforehand.

SPLIT = content(*(Split(1000 - at, ("n0",)) for at in range(3)))


@dataclass
class Cluster:
    """A fake RM's frames for a folder of staged splits."""

    folder: Path
    rm: FakeRM = field(default_factory=FakeRM)
    tracker: StageTracker = field(default_factory=StageTracker)
    staged: StagedSplits = field(default_factory=StagedSplits)
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.rm.node("n0", (100, 100))
        (self.leaf,) = flat(self.rm, 1, (100, 100))
        self.rm.snapshot_next()
        self.look()

    def job(self, user: str, made: bytes = SPLIT) -> int:
        app = self.rm.application(self.leaf, kind="MAPREDUCE", user=user, awaiting_am=True)
        folder = self.folder / user.replace("\0", "") / f"job_0_{app + 1:04d}"
        folder.mkdir(parents=True)
        (folder / "job.splitmetainfo").write_bytes(made)
        return app

    def look(self, later_ms: int = 0, pending: tuple[str, ...] = ()) -> list[JobSplits]:
        self.now_ms += later_ms
        events: list[Event] = list(self.rm.frame())
        snapshot = any(isinstance(event, Snapshot) for event in events)
        header = FrameHeader(int(FrameFlag.SNAPSHOT) if snapshot else 0, 1, self.rm.sequence, self.now_ms, 0, 1000, 2)
        self.tracker.apply(events, self.now_ms, complete=True)
        frame = Frame(header, events)
        return self.staged.update(frame, self.tracker, f"{self.folder}/{{user}}", pending)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr("treadle.history.splits.uid_of", lambda _: os.geteuid())
    return Cluster(tmp_path)


def applications(found: list[JobSplits]) -> list[int]:
    return [one.application for one in found]


def test_splits_come_arranged_for_the_cluster_s_nodes(cluster: Cluster) -> None:
    app = cluster.job("ann")
    ((found, order),) = cluster.look()
    assert found == app
    assert isinstance(order, SplitOrder)
    assert (order.mean_bytes, order.take("n0", ""), order.take("n0", "")) == (999.0, 1000, 999)


def test_one_user_s_jobs_wait_for_their_turn_and_the_others_do_not_wait_for_them(cluster: Cluster) -> None:
    hostile = [cluster.job("mallory") for _ in range(50)]
    ann = cluster.job("ann")
    # a small file counts for 16 KiB: 15.6 ms of what is read of all, 62.5 ms of what is read of a user
    assert applications(cluster.look()) == hostile[:1]
    assert applications(cluster.look(20)) == [ann], "mallory's turn has not come again"
    assert applications(cluster.look(20)) == []
    assert applications(cluster.look(100)) == hostile[1:2]


def test_a_user_has_one_pending(cluster: Cluster) -> None:
    first, second = cluster.job("ann"), cluster.job("ann")
    assert applications(cluster.look(pending=("ann",))) == []
    assert applications(cluster.look(1000)) == [first]
    assert applications(cluster.look(1000, pending=("ann",))) == []
    assert applications(cluster.look(1000)) == [second]


def test_so_many_bytes_a_second_are_read_of_a_user_and_of_all(cluster: Cluster) -> None:
    large = SPLIT + bytes(BYTES_MAX - len(SPLIT))
    mallory = [cluster.job("mallory", large) for _ in range(3)]
    ann = cluster.job("ann")
    assert applications(cluster.look()) == mallory[:1]
    all_ms, user_ms = 1000 * BYTES_MAX // ALL_BYTES_PER_S, 1000 * BYTES_MAX // USER_BYTES_PER_S
    assert applications(cluster.look(all_ms - 1)) == []
    assert applications(cluster.look(1)) == [ann]
    assert applications(cluster.look(user_ms - all_ms - 1)) == []
    assert applications(cluster.look(1)) == mallory[1:2]
    cluster.now_ms -= 3_600_000
    assert applications(cluster.look()) == mallory[2:], "a clock that was set back is not waited for"


def test_files_that_are_none_count_too(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.job("mallory", b"")
    reads = 0

    def counted(stream: Any) -> Any:
        nonlocal reads
        reads += 1
        return read_splits(stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treadle.live.history_lookup.read_splits", counted)
        for _ in range(10):
            assert cluster.look(1) == []
    assert reads == 1


def test_a_job_whose_master_has_a_container_is_not_read_any_more(cluster: Cluster) -> None:
    app = cluster.job("ann")
    assert cluster.look(pending=("ann",)) == []
    cluster.rm.applications[app].awaiting_am = False
    cluster.rm.change(app)
    assert cluster.look(1000) == []


def test_so_many_jobs_wait_and_those_of_the_user_with_most_go_first(cluster: Cluster) -> None:
    ann = cluster.job("ann")
    for _ in range(WAITING.user // 1024 + 20):
        cluster.job("mallory")
    cluster.look(pending=("ann", "mallory"))
    assert len(cluster.staged._waiting) == WAITING.user // 1024 + 1
    assert applications(cluster.look(1000)) == [ann]


@pytest.mark.parametrize("user", ["a\0b", "..", "", "\n"])
def test_a_name_that_no_folder_can_have_costs_nothing(cluster: Cluster, user: str) -> None:
    cluster.rm.application(cluster.leaf, kind="MAPREDUCE", user=user, awaiting_am=True)
    assert cluster.look() == []


def _stages_of(user: str, number: int, stages: int) -> JobRun:
    from tests.unit.history.conftest import NOW_MS, make_run

    made = tuple(StageRun(f"s{at}", 1, DurationSketch([1])) for at in range(stages))
    run = make_run(number, user=user)
    return JobRun(run.key, run.id, NOW_MS - 1, NOW_MS, made)


def test_runs_that_wait_for_a_store_are_bounded_by_user(tmp_path: Path) -> None:
    recorder = ProfileRecorder()
    recorder._enabled = True
    recorder.remember(_stages_of("ann", 1, 2))
    for number in range(200):
        recorder.remember(_stages_of("mallory", number, 1000))
    kept = [run.key.user for _, run in recorder._runs.held_keys()]
    assert kept.count("ann") == 1
    assert 0 < kept.count("mallory") < 60
    assert recorder._runs.bytes <= WAITING_RUNS.user + size_of_run(_stages_of("ann", 1, 2)) + 1024
    recorder.remember(_stages_of("mallory", 1, 30_000))
    assert recorder._runs.bytes <= WAITING_RUNS.all, "a run that is too large is left out"


def test_what_nobody_has_taken_is_bounded_and_one_user_does_not_push_out_another() -> None:
    assert (SPLITS.user, SPLITS.all) == (1 << 10, 100 << 10), "one of a user, a hundred in all"
    told: QuotaCache[int, str] = QuotaCache(HINTS)
    for number in range(30_000):
        user = "ann" if number < 100 else "mallory"
        told.put(number, user, user, 0)
    kept = [user for _, user in told.held_keys()]
    assert (len(kept), kept.count("ann")) == (10_000, 100)


def test_a_job_that_another_engine_served_for_a_while_has_hints_again(store: str) -> None:
    live = Live(store, settings_with(estimate="hints"))
    app = live.job(200)
    live.ticks(2)
    assert len(live.told()) == 1
    for state in (ApplicationState.MOVED, ApplicationState.ACTIVE):
        live.rm.applications[app].state = state
        live.rm.change(app)
        live.tick()
        assert live.recorder.summary() == f"{int(state == 1)} of {int(state == 1)} jobs by earlier runs"
    live.tick()
    assert [event.application.tolist() for event in live.told() if isinstance(event, TaskEstimates)] == [[app]] * 2


def test_splits_are_read_again_of_a_job_that_comes_back(cluster: Cluster) -> None:
    app = cluster.job("ann")
    assert applications(cluster.look()) == [app]
    for state, found in ((ApplicationState.MOVED, []), (ApplicationState.ACTIVE, [app])):
        cluster.rm.applications[app].state = state
        cluster.rm.change(app)
        assert applications(cluster.look(1000)) == found
