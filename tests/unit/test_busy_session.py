"""A session that answers BUSY while its engine decides: what is answered when, and on which frame it was decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event as Signal
from typing import Any

import numpy as np
import pytest

from treadle.config.parts import DEFAULTS, PartRegistry, Traits
from treadle.config.settings import Settings, default_settings
from treadle.events import Applications, ApplicationState, Event, Names, PolicySwitch, Samples, Snapshot
from treadle.events.columns import array_fields
from treadle.live import busy_session
from treadle.live.busy_session import BusySession
from treadle.live.session import FAILURES_MAX, EngineFailedError, Session
from treadle.policy.user_parts import PartFailure
from treadle.proposals import Proposals
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import Frame, FrameEncoder, FrameHeader
from treadle.wire.schema import FrameFlag

PARTS = PartRegistry()
for _part, _kind in DEFAULTS.items():
    PARTS.register(_part, _kind, traits=Traits(overrides=False))(lambda parameters: parameters)
SETTINGS = default_settings(PARTS)
SNAPSHOT = int(FrameFlag.SNAPSHOT)
MORE = int(FrameFlag.MORE)
WAIT_S = 60.0


class Thinker:
    """An engine that begins to think at each decision and goes on until it may stop."""

    def __init__(self, settings: Settings) -> None:
        self.running = settings
        self.applied: list[Sequence[Event]] = []
        self.decided: list[int] = []
        self.begun = Signal()
        self.may_stop = Signal()
        self.may_stop.set()
        self.fail: Exception | None = None

    attempts = None

    def apply(self, events: Sequence[Event]) -> None:
        if self.fail:
            raise self.fail
        self.applied.append(events)

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool) -> Proposals:
        self.decided.append(sequence)
        self.begun.set()
        assert self.may_stop.wait(WAIT_S)
        column = np.arange(min(limit, 3), dtype=np.int32)
        return Proposals(column, column, column)

    def configure(self, settings: Settings) -> None:
        self.running = settings

    @property
    def failure(self) -> PartFailure | None:
        return None

    def switches(self) -> Sequence[PolicySwitch]:
        return ()

    def starved(self) -> Sequence[str]:
        return ()

    def warnings(self) -> Sequence[str]:
        return ()

    def diagnostics(self) -> list[tuple[int, str]]:
        return []

    def contention(self) -> str:
        return ""

    def waits_for(self) -> str:
        return ""

    def samples(self) -> Samples | None:
        return None


class Caller:
    """Whoever calls a busy session."""

    def __init__(self, *, one_of_several: bool = True, patience_s: float = WAIT_S) -> None:
        self.engines: list[Thinker] = []
        session = Session(
            self._make, lambda: SETTINGS, reply_max_bytes=1 << 20, clock_ns=time.perf_counter_ns, settings=SETTINGS
        )
        self.session = BusySession(session, one_of_several=one_of_several, patience_s=patience_s)

    def _make(self, settings: Settings) -> Thinker:
        self.engines.append(Thinker(settings))
        return self.engines[-1]

    def send(self, sequence: int, flags: int = 0, epoch: int = 5) -> Answer:
        events: list[Event] = [Snapshot(epoch), Names(("",))] if flags & SNAPSHOT else []
        header = FrameHeader(flags, epoch, sequence, 1000 + sequence, 0, 100, 2)
        answer = decode_answer(self.session.decide(FrameEncoder().encode(header, events)), 100_000)
        assert (answer.epoch, answer.sequence) == (epoch, sequence)
        return answer

    def thinking(self) -> Thinker:
        """Have the engine begin to think, and answer BUSY from now on."""
        engine = self.engines[0]
        engine.may_stop.clear()
        engine.begun.clear()
        self.session._patience_s = 0.0
        return engine

    def until(self, sequence: int, holds: Callable[[Answer], bool]) -> Answer:
        """Send frames from one on until an answer is as it should be."""
        end_s = time.monotonic() + WAIT_S
        for number in range(sequence, 1 << 20):
            answer = self.send(number)
            if holds(answer):
                return answer
            assert time.monotonic() < end_s
            time.sleep(0.001)
        raise AssertionError


def rows(answer: Answer) -> bool:
    return len(answer.proposals) > 0


def test_a_quick_engine_is_answered_like_one_that_is_alone() -> None:
    caller = Caller()
    snapshot = caller.send(1, SNAPSHOT)
    assert (snapshot.busy, snapshot.resend, len(snapshot.proposals), snapshot.status != "") == (False, False, 0, True)
    answer = caller.send(2)
    assert (answer.base, answer.busy, len(answer.proposals)) == (2, False, 3)
    assert caller.engines[0].decided == [2]


def test_an_engine_that_is_alone_decides_on_the_callers_thread() -> None:
    caller = Caller(one_of_several=False)
    answer = caller.send(1, SNAPSHOT)
    assert (answer.base, len(answer.proposals)) == (1, 3)
    assert caller.session._worker is None


def test_frames_are_answered_busy_until_what_was_decided_is_the_answer() -> None:
    caller = Caller()
    caller.send(1, SNAPSHOT)
    engine = caller.thinking()
    assert caller.send(2).busy
    assert engine.begun.wait(WAIT_S)
    for sequence in range(3, 50):
        answer = caller.send(sequence)
        assert (answer.busy, answer.base, len(answer.proposals)) == (True, 0, 0)
    engine.may_stop.set()
    answer = caller.until(50, rows)
    assert answer.base == 2
    # all that waited is taken before the engine decides again
    later = caller.until(answer.sequence + 1, rows)
    assert later.base > 49
    assert engine.decided[0] == 2
    assert len(engine.applied) >= later.base


def test_what_was_decided_before_a_snapshot_is_forgotten() -> None:
    caller = Caller()
    caller.send(1, SNAPSHOT)
    engine = caller.thinking()
    assert caller.send(2).busy
    assert engine.begun.wait(WAIT_S)
    assert caller.send(3, SNAPSHOT).busy
    engine.may_stop.set()
    answer = caller.until(4, rows)
    assert answer.base > 3


def test_a_snapshot_in_parts_is_taken_as_a_whole() -> None:
    caller = Caller()
    for sequence, flags in ((1, SNAPSHOT | MORE), (2, MORE)):
        answer = caller.send(sequence, flags)
        assert (answer.resend, answer.busy, answer.status) == (False, False, "")
    assert caller.send(3).status != ""
    assert caller.engines[0].decided == []
    assert caller.send(4).base == 4


def test_too_many_frames_that_wait_are_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_session, "QUEUED_MAX", 20)
    caller = Caller()
    caller.send(1, SNAPSHOT)
    engine = caller.thinking()
    assert caller.send(2).busy
    assert engine.begun.wait(WAIT_S)
    answers = [caller.send(sequence) for sequence in range(3, 60)]
    assert answers[-1].resend
    assert not answers[0].resend
    engine.may_stop.set()
    assert caller.send(60, SNAPSHOT).resend is False
    assert caller.until(61, rows).base > 60


def test_a_frame_that_is_wrong_is_answered_with_resend() -> None:
    caller = Caller()
    caller.send(1, SNAPSHOT)
    assert caller.send(7).resend
    assert not caller.send(8, SNAPSHOT).resend
    assert decode_answer(caller.session.decide(b"garbage"), 10).resend


def test_an_engine_that_fails_over_and_over_ends_the_process() -> None:
    caller = Caller()
    with pytest.raises(EngineFailedError):
        for sequence in range(1, 2 * FAILURES_MAX + 2):
            for engine in caller.engines:
                engine.fail = ValueError("on purpose")
            caller.send(sequence, SNAPSHOT)


class Source:
    """Knows nothing, and remembers which applications were reported as gone."""

    def __init__(self) -> None:
        self.states: list[list[int]] = []

    def collect(self, frame: Frame) -> Sequence[Event]:
        self.states += [each.state.tolist() for each in frame.events if isinstance(each, Applications)]
        return ()

    def learn(self, samples: Samples) -> None:
        raise AssertionError

    def forget(self) -> None:
        raise AssertionError

    def summary(self) -> str:
        return ""

    def warnings(self) -> Sequence[str]:
        return ()

    def keys_for(self) -> Sequence[str]:
        return ()


def test_to_whoever_knows_what_runs_here_moved_applications_have_gone() -> None:
    engine, source = Thinker(SETTINGS), Source()
    session = Session(
        lambda settings: engine,
        lambda: SETTINGS,
        reply_max_bytes=1 << 20,
        clock_ns=lambda: 0,
        settings=SETTINGS,
        event_source=source,
    )
    moved = rows_of(Applications, {"application": [0, 1], "state": [int(ApplicationState.MOVED), 1]})
    header = FrameHeader(SNAPSHOT, 5, 1, 1001, 0, 100, 2)
    session.decide(FrameEncoder().encode(header, [Snapshot(5), Names(("",)), moved]))
    assert source.states == [[int(ApplicationState.GONE), 1]]
    told = [each for each in engine.applied[0] if isinstance(each, Applications)]
    assert told[0].state.tolist() == [int(ApplicationState.MOVED), 1]


def rows_of(kind: Any, given: dict[str, list[int]]) -> Any:
    """Return two rows of an event; what is not given is 0."""
    return kind(**{each.name: np.array(given.get(each.name, [0, 0]), each.dtype) for each in array_fields(kind)})


def test_settings_that_name_engines_make_it_one_of_several() -> None:
    caller = Caller(one_of_several=False)
    assert not caller.session._session.names_engines
    caller.session._session._settings = replace(SETTINGS, engines=("two",))  # type: ignore[arg-type]
    assert len(caller.send(1, SNAPSHOT).proposals) == 0
    assert caller.send(2).base == 2
