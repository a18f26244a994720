"""What a live event source keeps of applications, and for how long: by YARN's ids, over snapshots, within bounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.recorders import refusing_once, work_off
from tests.unit.history.shown import recorded
from tests.unit.test_session import SNAPSHOT, Recorder

from treadle import events
from treadle.config.reader import parse_settings
from treadle.config.settings import JobHistory, Settings
from treadle.engine.testing import StringTable, rows
from treadle.events import ApplicationState, Event, Names, Samples, Snapshot
from treadle.history.database import StoreError, Unusable
from treadle.history.store import ProfileStore, Sample, open_store, samples_event
from treadle.live.history_writer import ABSENT_MS, RETRY_MS, HistorySource, ProfileRecorder
from treadle.live.live_settings import read_live_settings
from treadle.live.session import Session
from treadle.sidecar.conversation import Listener, Tick
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import Frame, FrameDecoder, FrameEncoder, FrameFlag, FrameHeader

SAMPLE = Sample(1, 0, 40, 4, 3, 30_000.0, 3e8, -1.0, 0.0, 10.0, 5, 0.0)


def name(number: int) -> str:
    return f"application_7_{number:04d}"


@dataclass
class Store:
    """Sources that know nothing of history."""

    found: dict[str, Sample] = field(default_factory=dict)
    kept: dict[str, Sample | None] = field(default_factory=dict)

    def hints(self) -> list[Any]:
        return []

    def splits(self) -> list[Any]:
        return []

    def restored(self) -> Mapping[str, Sample]:
        found, self.found = self.found, {}
        return found

    def keep(self, samples: Mapping[str, Sample | None]) -> None:
        self.kept |= samples


class Rm:
    """Applications, indexed in the order of their numbers."""

    def __init__(self, samples_max: int = 100, restored: dict[str, Sample] | None = None) -> None:
        self.store = Store(restored or {})
        self.source = HistorySource(cast(Any, self.store), samples_max)
        self.now_ms = 1_000_000
        self.sequence = count(1)
        self.epoch = 1

    def frame(self, flags: int, *told: Event) -> list[Event]:
        self.now_ms += 1000
        header = FrameHeader(flags, self.epoch, next(self.sequence), self.now_ms, 0, 100, 2)
        return list(self.source.collect(Frame(header, list(told))))

    def snapshot(self, *numbers: int, more: bool = False) -> list[Event]:
        flags = int(FrameFlag.SNAPSHOT) | (int(FrameFlag.MORE) if more else 0)
        return self.frame(flags, events.Snapshot(self.epoch), self.applications(*enumerate(numbers)))

    def delta(self, *lives: tuple[int, int], state: ApplicationState = ApplicationState.ACTIVE) -> list[Event]:
        return self.frame(0, self.applications(*lives, state=state))

    def applications(
        self, *lives: tuple[int, int], state: ApplicationState = ApplicationState.ACTIVE
    ) -> events.Applications:
        ids = [
            {"application": at, "cluster_timestamp": 7, "id": number, "attempt": 1, "state": int(state)}
            for at, number in lives
        ]
        return rows(events.Applications, StringTable(), ids)

    def learn(self, *indices: int) -> None:
        self.source.learn(samples_event([(at, SAMPLE) for at in indices]))

    def known(self) -> list[str]:
        return sorted(self.source._samples)


def told_of(found: list[Event]) -> list[int]:
    return [at for event in found if isinstance(event, Samples) for at in event.application.tolist()]


def test_applications_that_end_unseen_leave_nothing_behind() -> None:
    """With room for ten: a hundred snapshots that each miss the ends of ten jobs, and every new job is kept."""
    rm = Rm(samples_max=10)
    for turn in range(100):
        numbers = range(10 * turn, 10 * turn + 10)
        found = rm.snapshot(*numbers)
        assert told_of(found) == []
        rm.learn(*range(10))
        assert rm.known() == sorted(map(name, numbers))
        assert "no more" not in rm.source.summary()
    assert rm.store.kept[name(0)] is None, "the store forgets it too"
    assert rm.store.kept[name(999)] == SAMPLE


def test_samples_are_sent_with_the_new_indices() -> None:
    rm = Rm()
    rm.snapshot(1, 2, 3)
    rm.learn(0, 2)
    assert told_of(rm.snapshot(2, 3)) == [1]
    assert rm.known() == [name(3)]


def test_a_new_connection_may_tell_of_an_application_later() -> None:
    rm = Rm()
    rm.snapshot(1, 2)
    rm.learn(0, 1)
    rm.epoch = 2
    assert told_of(rm.snapshot(2)) == [0]
    assert rm.known() == [name(1), name(2)]
    assert told_of(rm.delta((1, 1))) == [1], "it has come back: an RM that started anew was recovering"
    rm.now_ms += ABSENT_MS
    rm.delta()
    assert rm.known() == [name(1), name(2)]


def test_what_does_not_come_back_is_forgotten_after_a_while() -> None:
    rm = Rm()
    rm.snapshot(1, 2)
    rm.learn(0, 1)
    rm.epoch = 2
    rm.snapshot(2)
    rm.now_ms += ABSENT_MS - 2000
    rm.delta()
    assert rm.known() == [name(1), name(2)]
    rm.delta()
    assert rm.known() == [name(2)]
    assert rm.store.kept[name(1)] is None


def test_a_snapshot_is_compared_when_all_of_it_has_come() -> None:
    rm = Rm()
    rm.snapshot(1, 2)
    rm.learn(0, 1)
    assert rm.snapshot(2, more=True) == []
    assert rm.known() == [name(1), name(2)]
    assert sorted(told_of(rm.delta((1, 1)))) == [0, 1]
    assert rm.known() == [name(1), name(2)]


def test_what_the_store_knows_of_others_makes_room() -> None:
    rm = Rm(samples_max=3, restored={name(number): SAMPLE for number in (10, 11, 12, 1)})
    assert told_of(rm.snapshot(1, 2, 3)) == [0], "sent though there was no room"
    rm.learn(1, 2)
    assert rm.known() == [name(1), name(2), name(3)]


def test_applications_beyond_the_bound_are_said() -> None:
    rm = Rm(samples_max=2)
    rm.snapshot(1, 2, 3)
    rm.learn(0, 1)
    assert rm.source.summary() == ""
    rm.learn(2)
    assert rm.known() == [name(1), name(2)]
    assert rm.source.summary() == "what pilots say is kept of 2 jobs and no more"
    rm.delta((0, 1), state=ApplicationState.GONE)
    rm.learn(2)
    assert rm.known() == [name(2), name(3)]
    assert rm.source.summary() == ""


# The sidecar remembers finished jobs beside its decisions, and goes on when it cannot.

DATA = Path(__file__).parents[1] / "data" / "stages" / "three-jobs.json"


def _frames(later_ms: int = 60_000) -> Iterator[bytes]:
    """The frames of three jobs, and an empty one a minute later."""
    encoder = FrameEncoder()
    told = recorded(DATA)
    told.append((told[-1][0] + later_ms, []))
    for sequence, (time_ms, given) in enumerate(told, 1):
        header = FrameHeader(SNAPSHOT if sequence == 1 else 0, 5, sequence, time_ms, 0, 10, 2)
        yield encoder.encode(header, [event for event in given if not isinstance(event, Snapshot)])


def _settings(store: str) -> Settings:
    return replace(read_live_settings(None), history=JobHistory(store=store))


def _following(store: Path, *given: Any) -> ProfileRecorder:
    recorder = ProfileRecorder(*given)
    recorder.follow(_settings(str(store)))
    return recorder


def take(recorder: ProfileRecorder, frames: Iterable[bytes]) -> None:
    """Let a recorder take frames as a session has decoded them."""
    decoder = FrameDecoder()
    for frame in frames:
        recorder.end(Tick(frame, None, decoder.decode(frame)))
    work_off(recorder)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "profiles.db"


def _remembered(file: Path) -> list[tuple[str, int]]:
    with open_store(str(file), read_only=True) as store:
        return [(profile.key.name, profile.runs) for profile in store.profiles()]


JOBS = [("sleep job", 1), ("mrrsleepjob", 1)]


def test_finished_jobs_are_remembered(file: Path) -> None:
    recorder = _following(file)
    for _ in range(2):  # a new epoch tells the same jobs once more: each run counts once
        take(recorder, _frames())
    assert _remembered(file) == JOBS
    assert recorder.warnings() == ()


def test_without_a_store_nothing_is_done() -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(""))
    take(recorder, _frames())
    assert not recorder._waiting_bytes
    assert recorder.warnings() == ()


def test_runs_wait_for_a_store_that_cannot_be_used(file: Path) -> None:
    recorder = _following(file, refusing_once(Unusable.FULL))
    work_off(recorder)
    (warning,) = recorder.warnings()
    assert "free space" in warning
    take(recorder, _frames(RETRY_MS))
    assert recorder.warnings() == ()
    assert _remembered(file) == JOBS


def test_a_store_that_stays_unusable_is_left_alone_for_a_while(tmp_path: Path) -> None:
    opened = []

    def open_(location: str, _: JobHistory) -> ProfileStore:
        opened.append(location)
        raise StoreError(location, Unusable.READ_ONLY)

    take(_following(tmp_path, open_), _frames())
    assert 2 <= len(opened) <= 3, "at the start, and once a minute while runs wait"


def test_a_recorder_that_falls_behind_waits_for_a_snapshot(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, frames = _following(file), list(_frames())
    monkeypatch.setattr("treadle.live.history_writer.WAITING_BYTES_MAX", sum(map(len, frames[:10])))
    take(recorder, frames)
    assert _remembered(file) == []
    monkeypatch.undo()
    take(recorder, frames)
    assert [runs for _, runs in _remembered(file)] == [1], "the job that was seen in part is left out"


def test_a_frame_that_cannot_be_worked_on_ends_nothing(file: Path) -> None:
    recorder, frames = _following(file), list(_frames())
    take(recorder, frames[:1])
    recorder.take(cast(Any, "no frame"), 8)
    work_off(recorder)
    take(recorder, frames)
    assert _remembered(file) == JOBS


def answers_of(file: Path, observer: Listener) -> Callable[[int, int, int], Answer]:
    """Return what answers frames by flags, sequence and configuration; the second settings name a store."""
    made: Any = Recorder
    settings, encoder = [_settings(""), _settings(str(file))], FrameEncoder()
    session = Session(made, lambda: settings.pop(0), reply_max_bytes=1 << 20, clock_ns=lambda: 0, listeners=(observer,))

    def answer(flags: int, sequence: int, configuration: int) -> Answer:
        header = FrameHeader(flags, 5, sequence, sequence, configuration, 3, 2)
        return decode_answer(session.decide(encoder.encode(header, [Names(("",))] if flags else [])), 3)

    return answer


def test_a_session_shows_frames_and_tells_warnings(file: Path) -> None:
    class Observer(Listener):
        frames = 0
        followed: Settings | None = None

        def end(self, tick: Tick) -> None:
            self.frames += tick.frame is not None

        def follow(self, settings: Settings, before: Settings | None = None) -> None:
            self.followed = settings

        def warnings(self) -> list[str]:
            return ["jobs are not remembered"]

    observer = Observer()
    answer = answers_of(file, observer)
    said = [answer(*header) for header in ((0, 1, 0), (SNAPSHOT, 1, 0), (0, 2, 1), (0, 9, 1))]
    assert observer.frames == 2, "those that were taken"
    assert observer.followed is not None
    assert observer.followed.history.store == str(file)
    assert "jobs are not remembered" in said[1].status


def test_a_store_that_a_refresh_names_remembers_from_a_snapshot_on_that_the_session_asks_for(file: Path) -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(""))
    answer = answers_of(file, recorder)
    assert not answer(SNAPSHOT, 1, 0).resend
    assert not answer(0, 2, 0).resend
    assert not answer(0, 3, 1).resend, "the settings are read again"
    assert answer(0, 4, 1).resend, "and the store wants a snapshot"
    assert answer(0, 5, 1).resend, "nothing else will do"
    assert not answer(SNAPSHOT, 6, 1).resend
    assert not answer(0, 7, 1).resend, "it asks once"
    take(recorder, _frames())
    assert _remembered(file) == JOBS


@pytest.mark.parametrize("store", ["relative.db", "~/x.db"])
def test_a_store_is_an_absolute_path_or_a_url(store: str) -> None:
    with pytest.raises(Exception, match=r"t.yaml:2: history.store: .*absolute path or a URL"):
        parse_settings("t.yaml", f"history:\n  store: {json.dumps(store)}\n")
