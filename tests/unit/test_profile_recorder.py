"""The sidecar remembers finished jobs beside its decisions, and goes on when it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.recorders import refusing_once, work_off
from tests.unit.history.shown import recorded
from tests.unit.test_session import SNAPSHOT, Recorder

from treadle.config.reader import parse_settings
from treadle.config.settings import Profiles, Settings
from treadle.events import Names, Snapshot
from treadle.history.database import Retention, StoreError, Unusable
from treadle.history.store import ProfileStore, open_store
from treadle.live import history_writer as recording
from treadle.live.history_writer import RETRY_MS, ProfileRecorder
from treadle.live.live_settings import read_live_settings
from treadle.live.session import FrameObserver, Session
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import FrameEncoder, FrameHeader

DATA = Path(__file__).parents[1] / "data" / "stages" / "three-jobs.json"


def _frames(later_ms: int = 60_000) -> Iterator[bytes]:
    """The frames of three jobs, and an empty one a minute later."""
    encoder = FrameEncoder()
    told = recorded(DATA)
    told.append((told[-1][0] + later_ms, []))
    for sequence, (time_ms, events) in enumerate(told, 1):
        header = FrameHeader(SNAPSHOT if sequence == 1 else 0, 5, sequence, time_ms, 0, 10, 2)
        yield encoder.encode(header, [event for event in events if not isinstance(event, Snapshot)])


def _settings(store: str) -> Settings:
    return replace(read_live_settings(None), profiles=Profiles(store=store))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "profiles.db"


def _remembered(file: Path) -> list[tuple[str, int]]:
    with open_store(str(file), read_only=True) as store:
        return [(profile.key.name, profile.runs) for profile in store.profiles()]


JOBS = [("sleep job", 1), ("mrrsleepjob", 1)]


def test_finished_jobs_are_remembered(file: Path) -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(str(file)))
    for _ in range(2):  # a new epoch tells the same jobs once more: each run counts once
        for frame in _frames():
            recorder.take(frame)
        work_off(recorder)
    assert _remembered(file) == JOBS
    assert recorder.warnings() == ()


def test_without_a_store_nothing_is_done() -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(""))
    recorder.take(b"not even a frame")
    assert recorder.warnings() == ()


def test_runs_wait_for_a_store_that_cannot_be_used(file: Path) -> None:
    recorder = ProfileRecorder(refusing_once(Unusable.FULL))
    recorder.follow(_settings(str(file)))
    work_off(recorder)
    (warning,) = recorder.warnings()
    assert "free space" in warning
    for frame in _frames(RETRY_MS):
        recorder.take(frame)
    work_off(recorder)
    assert recorder.warnings() == ()
    assert _remembered(file) == JOBS


def test_a_store_that_stays_unusable_is_left_alone_for_a_while(tmp_path: Path) -> None:
    opened = []

    def open_(location: str, _: Retention) -> ProfileStore:
        opened.append(location)
        raise StoreError(location, Unusable.READ_ONLY)

    recorder = ProfileRecorder(open_)
    recorder.follow(_settings(str(tmp_path)))
    for frame in _frames():
        recorder.take(frame)
    work_off(recorder)
    assert 2 <= len(opened) <= 3, "at the start, and once a minute while runs wait"


def test_a_recorder_that_falls_behind_waits_for_a_snapshot(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(str(file)))
    frames = list(_frames())
    monkeypatch.setattr(recording, "WAITING_BYTES_MAX", sum(map(len, frames[:10])))
    for frame in frames:
        recorder.take(frame)
    work_off(recorder)
    assert _remembered(file) == []
    monkeypatch.undo()
    for frame in frames:
        recorder.take(frame)
    work_off(recorder)
    assert [runs for _, runs in _remembered(file)] == [1], "the job that was seen in part is left out"


def test_a_frame_that_cannot_be_worked_on_ends_nothing(file: Path) -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(str(file)))
    frames = list(_frames())
    recorder.take(frames[0])
    recorder.take(frames[1][:-4])
    work_off(recorder)
    for frame in frames:
        recorder.take(frame)
    work_off(recorder)
    assert _remembered(file) == JOBS


def test_a_session_shows_frames_and_tells_warnings(file: Path) -> None:
    class Observer(FrameObserver):
        frames = 0
        followed: Settings | None = None

        def take(self, frame: bytes) -> None:
            self.frames += 1

        def follow(self, settings: Settings) -> None:
            self.followed = settings

        def warnings(self) -> list[str]:
            return ["jobs are not remembered"]

    observer = Observer()
    made: Any = Recorder
    settings = [_settings(""), _settings(str(file))]
    session = Session(made, lambda: settings.pop(0), reply_max_bytes=1 << 20, clock_ns=lambda: 0, observer=observer)
    encoder = FrameEncoder()
    answers = [
        session.decide(
            encoder.encode(
                FrameHeader(flags, 5, sequence, sequence, configuration, 3, 2), [Names(("",))] if flags else []
            )
        )
        for flags, sequence, configuration in ((0, 1, 0), (SNAPSHOT, 1, 0), (0, 2, 1), (0, 9, 1))
    ]
    assert observer.frames == 2, "those that were taken"
    assert observer.followed is not None
    assert observer.followed.profiles.store == str(file)
    assert b"jobs are not remembered" in answers[1]


def test_a_store_that_a_refresh_names_remembers_from_a_snapshot_on_that_the_session_asks_for(file: Path) -> None:
    recorder = ProfileRecorder()
    recorder.follow(_settings(""))
    made: Any = Recorder
    settings = [_settings(""), _settings(str(file))]
    session = Session(made, lambda: settings.pop(0), reply_max_bytes=1 << 20, clock_ns=lambda: 0, observer=recorder)
    encoder = FrameEncoder()

    def answer(flags: int, sequence: int, configuration: int) -> Answer:
        names = [Names(("",))] if flags else []
        frame = encoder.encode(FrameHeader(flags, 5, sequence, sequence, configuration, 3, 2), names)
        return decode_answer(session.decide(frame), 3)

    assert not answer(SNAPSHOT, 1, 0).resend
    assert not answer(0, 2, 0).resend
    assert not answer(0, 3, 1).resend, "the settings are read again"
    assert answer(0, 4, 1).resend, "and the store wants a snapshot"
    assert answer(0, 5, 1).resend, "nothing else will do"
    assert not answer(SNAPSHOT, 6, 1).resend
    assert not answer(0, 7, 1).resend, "it asks once"
    for frame in _frames():
        recorder.take(frame)
    work_off(recorder)
    assert _remembered(file) == JOBS


@pytest.mark.parametrize("store", ["relative.db", "~/x.db"])
def test_a_store_is_an_absolute_path_or_a_url(store: str) -> None:
    with pytest.raises(Exception, match=r"t.yaml:2: profiles.store: .*absolute path or a URL"):
        parse_settings("t.yaml", f"profiles:\n  store: {json.dumps(store)}\n")
