"""A session that is given what a recording says, in place of a ResourceManager, a store and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Final

from treadle.config.errors import ConfigError
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings, Source, default_settings
from treadle.engine import Engine
from treadle.events import Event, PolicySwitch
from treadle.live.own_settings import own_settings
from treadle.live.roles import EventSource, FrameObserver, TickRecorder
from treadle.live.session import EngineFailedError, Session
from treadle.policy.watchdog import Endless
from treadle.record.chunks import RecordingError
from treadle.record.reader import RecordedSegment
from treadle.record.ticks import Tick
from treadle.wire.frames import Frame

_REPLY_MAX_BYTES: Final = 1 << 20


class _RefusedError(ConfigError):
    """Settings that were refused when they were read again."""

    def __init__(self, text: str) -> None:
        self._text = text
        super().__init__("treadle.yaml", [])

    def lines(self) -> list[str]:
        return [self._text]


class _Recorded(EventSource):
    """What enters beside the frames of a recording, in all the places where a session looks for it."""

    def __init__(self, keys_for: Sequence[str]) -> None:
        self.tick = Tick(b"", None)
        self.known = ""
        self.said: tuple[str, ...] = ()
        self._keys_for = tuple(keys_for)
        self._clock: list[int] = []

    def begin_tick(self, tick: Tick) -> None:
        self.tick = tick
        self.known = self.known if tick.known is None else tick.known
        self.said = self.said if tick.warnings is None else tick.warnings
        self._clock = [tick.decide_us * 1000, 0]

    def clock_ns(self) -> int:
        return self._clock.pop() if self._clock else 0

    def collect(self, frame: Frame) -> list[Event]:
        stopped: list[Event] = [each for each in self.tick.switches if each.call and _was_stopped(each)]
        return [*self.tick.beside, *stopped]

    def summary(self) -> str:
        return self.known

    def keys_for(self) -> Sequence[str]:
        return self._keys_for


def _was_stopped(switch: PolicySwitch) -> bool:
    """Was a part stopped from outside? Other failures come again by themselves."""
    return "took too long" in switch.reason


class _Observer(FrameObserver):
    """Warns of what others warned of."""

    def __init__(self, recorded: _Recorded) -> None:
        self._recorded = recorded

    def warnings(self) -> Sequence[str]:
        return self._recorded.said

    def wants_snapshot(self) -> bool:
        return self._recorded.tick.refused


class _Asker(TickRecorder):
    """Asks for the snapshots that were asked for; all else is in the recording."""

    def __init__(self, recorded: _Recorded) -> None:
        self._recorded = recorded

    def begin(self, frame: bytes, reply_max_bytes: int | None) -> bool:
        return self._recorded.tick.asks_snapshot


class SessionAgain:
    """A session that takes ticks: an engine that has learned nothing, and what entered beside its frames."""

    def __init__(self, recorded: RecordedSegment, *, trust_code: bool, other: Settings | None = None) -> None:
        """Begin as a sidecar does.

        Args:
            recorded: the first segment whose ticks it takes
            trust_code: whether parts of the policy from files may be run
            other: follow these settings, and not those of the recording

        Raises:
            RecordingError: the policy may not be run, or its settings cannot be read.
        """
        self._engine_name = recorded.segment.engine
        self._place = recorded.path
        self._trust_code = trust_code
        self._recorded = _Recorded(recorded.segment.keys_for)
        self._reading: Future[Settings] = Future()
        self._other = other
        settings = self._settings(recorded.settings.source) if other is None else other
        watch = Endless(settings.limits.part_timeout_ms / 1000)
        self._session = Session(
            lambda settings: Engine(settings, watch=watch, tries_again=True),
            lambda: settings,
            reply_max_bytes=_REPLY_MAX_BYTES,
            clock_ns=self._recorded.clock_ns,
            settings=settings,
            submit=lambda _: self._reading,
            observer=_Observer(self._recorded),
            event_sources=(self._recorded,),
            recorder=_Asker(self._recorded),
        )

    @property
    def part_failure(self) -> str:
        """Why a part of the policy failed, so that another one goes on; empty if none did."""
        return "" if self._session.failure is None else str(self._session.failure)

    def take(self, tick: Tick) -> bytes:
        """Return the answer to a tick; empty if the engine failed for good.

        Raises:
            RecordingError: settings in the recording cannot be followed.
        """
        if self._other is not None:
            tick = replace(tick, reading=None, switches=[])
        self._recorded.begin_tick(tick)
        if tick.reading is not None:
            self._reading = Future()
            if tick.reading.refusal:
                self._reading.set_exception(_RefusedError(tick.reading.refusal))
            else:
                self._reading.set_result(self._settings(tick.reading.source))
            self._session.receive(self._reading)
        try:
            return self._session.decide(tick.frame, tick.reply_max_bytes)
        except EngineFailedError:
            return b""
        finally:
            if tick.reading is not None:
                self._reading = Future()

    def _settings(self, source: Source | None) -> Settings:
        return recorded_settings(source, self._engine_name, self._place, trust_code=self._trust_code)


def recorded_settings(source: Source | None, engine: str, place: Path, *, trust_code: bool) -> Settings:
    """Return the settings that a recording's engine followed.

    Args:
        source: what they were read from; None: the defaults
        engine: the engine's name, empty for the first or only one
        place: the recording, for errors
        trust_code: whether parts of the policy from files may be run

    Raises:
        RecordingError: there are such parts and they are not trusted, or this release cannot follow the settings.
    """
    if source is None:
        return default_settings()
    try:
        found = parse_settings(source.file, source.text, kept=source.part_files, trust_code=trust_code)
        return own_settings(found, engine, source.file) if engine else found.of_first_engine
    except ConfigError as error:
        raise RecordingError(f"{place}: the settings in it cannot be followed: {error}") from error
