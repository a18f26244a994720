"""Replays recordings with their own policy, and compares all answers to the byte.

The session receives recorded inputs instead of those of a ResourceManager, a store and a clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from treadle.config.reader import parse_settings
from treadle.config.settings import Settings, Source, default_settings
from treadle.engine import Engine
from treadle.errors import ConfigError
from treadle.events import Event, Held, Proposals
from treadle.live.policies import own_settings
from treadle.live.session import EngineFailedError, Session
from treadle.policy.watchdog import Endless
from treadle.record.files import RecordingError, Tick
from treadle.record.reader import NOT_FROM_START, READABLE_PART, RecordedSegment, engine_hash, open_all, versions
from treadle.sidecar.conversation import Listener
from treadle.sidecar.conversation import Tick as LiveTick
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import Frame, FrameDecoder, WireError, read_frame_header

_REPLY_MAX_BYTES: Final = 1 << 20


class _RefusedError(ConfigError):
    """Settings that were rejected when they were read again."""

    def __init__(self, text: str) -> None:
        self._text = text
        super().__init__("treadle.yaml", [])

    def lines(self) -> list[str]:
        return [self._text]


class _Recorded(Listener):
    """The recorded inputs from outside the frames, for all interfaces of a session."""

    def __init__(self, keys_for: Sequence[str]) -> None:
        self.tick = Tick(b"", None)
        self.known = ""
        self.warnings_recorded: tuple[str, ...] = ()
        self._keys_for = tuple(keys_for)
        self._clock: list[int] = []

    def begin_tick(self, tick: Tick) -> None:
        self.tick = tick
        self.known = self.known if tick.known is None else tick.known
        self.warnings_recorded = self.warnings_recorded if tick.warnings is None else tick.warnings
        self._clock = [tick.decide_us * 1000, 0]

    def clock_ns(self) -> int:
        return self._clock.pop() if self._clock else 0

    def collect(self, frame: Frame) -> list[Event]:
        # custom parts that were stopped from outside; other failures repeat by themselves
        stopped: list[Event] = [each for each in self.tick.switches if each.call and "took too long" in each.reason]
        return [*self.tick.offline_events, *stopped]

    def summary(self) -> str:
        return self.known

    def begin(self, tick: LiveTick) -> None:
        tick.asks_snapshot = self.tick.asks_snapshot

    def warnings(self) -> Sequence[str]:
        return self.warnings_recorded

    def wants_snapshot(self) -> bool:
        return self.tick.refused

    def keys_for(self) -> Sequence[str]:
        return self._keys_for


class ReplaySession:
    """A session that processes ticks: a new engine, with the recorded inputs from outside the frames."""

    def __init__(self, recorded: RecordedSegment, *, trust_code: bool, other: Settings | None = None) -> None:
        """Start as a sidecar does.

        Args:
            recorded: the segment of the first ticks
            trust_code: whether custom parts of the policy may be executed
            other: settings to use instead of the recorded ones

        Raises:
            RecordingError: the policy may not be executed, or its settings cannot be read.
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
            listeners=(self._recorded,),
        )

    @property
    def part_failure(self) -> str:
        """Why a part of the policy failed, so that another policy continues; empty if none did."""
        return "" if self._session.failure is None else str(self._session.failure)

    def take(self, tick: Tick) -> bytes:
        """Return the answer to a tick; empty if the engine failed for good.

        Raises:
            RecordingError: recorded settings cannot be applied.
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
    """Return the settings of a recording's engine.

    Args:
        source: their source; None: the defaults
        engine: the engine's name, empty for the first or only one
        place: the recording, for errors
        trust_code: whether custom parts of the policy may be executed

    Raises:
        RecordingError: it has untrusted custom parts, or this release cannot apply the settings.
    """
    if source is None:
        return default_settings()
    try:
        settings = parse_settings(source.file, source.text, kept=source.part_files, trust_code=trust_code)
        return own_settings(settings, engine, source.file) if engine else settings.of_first_engine
    except ConfigError as error:
        raise RecordingError(f"{place}: the settings in it cannot be followed: {error}") from error


Report = Callable[[str], None]
"""Receives progress messages."""

LINES: Final = 10
"""Minimum number of progress lines; at most twice as many are reported."""


def to_nobody(_: str) -> None:
    """Report nothing."""


def counted_to(report: Report, total: int, text: str) -> Callable[[int], None]:
    """Return a function that reports ``text N of TOTAL`` when it is called with N, from 1, at intervals."""
    every = max(1, total // LINES)

    def count(number: int) -> None:
        if (number - 1) % every == 0:
            report(f"{text} {number} of {total}")

    return count


ROWS_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference from the recording."""

    segment: str
    tick: int
    """Number of the tick in its segment, from 1."""
    sequence: int
    """Sequence number of the frame."""
    field: str
    recorded: str
    now: str

    def line(self) -> str:
        """Return it as text."""
        where = f"{self.segment}: tick {self.tick}, frame {self.sequence}: {self.field}"
        return f"{where}: recorded {self.recorded}, now {self.now}"


@dataclass(slots=True)
class Verdict:
    """The result of a replay."""

    segments: int = 0
    form_only: int = 0
    """Number of segments of which only the form was checked."""
    ticks: int = 0
    """Answers of the replayed segments."""
    proposals: int = 0
    different: int = 0
    """Answers that differ; those after the first may be its consequences."""
    decisions_different: int = 0
    """Answers that differ in more than the status text."""
    missing: int = 0
    """Unreadable segments, and gaps before segments that followed others."""
    first: Difference | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def in_part(self) -> bool:
        """Whether a segment cannot be read to its end."""
        return any(READABLE_PART in note for note in self.notes)

    @property
    def same(self) -> bool:
        """Whether every segment was replayed with identical answers."""
        return self.first is None and not self.form_only


def verify(files: Sequence[Path], *, trust_code: bool = False, report: Report = to_nobody) -> Verdict:
    """Replay segments in order, each with the session of its predecessor.

    A segment that does not lead back to the start of its sidecar is only read.

    Args:
        files: the segments
        trust_code: whether custom parts of the policy may be executed
        report: receives the segment in progress

    Raises:
        RecordingError: one is not a recording, has another form, or cannot be replayed.
    """
    verdict, missing = Verdict(), list[str]()
    shared: dict[str, list[str]] = {}
    """Notes with the segments that they apply to."""
    again: ReplaySession | None = None
    count = counted_to(report, len(files), "deciding again: segment")
    for recorded in open_all(files, missing):
        count(files.index(recorded.path) + 1)
        notes = note_hashes(recorded)
        if not recorded.from_start:
            _check_form(recorded)
            verdict.form_only += 1
            notes.append(f"only the form was checked: {NOT_FROM_START}")
        else:
            if again is None or not recorded.follows:
                again = ReplaySession(recorded, trust_code=trust_code)
            _replay(recorded, again, verdict)
        for note in notes:
            shared.setdefault(note, []).append(recorded.path.name)
        verdict.notes += [f"{recorded.path.name}: {note}" for note in recorded.notes]
        verdict.segments += 1
    verdict.missing = len(missing)
    every = f"all {verdict.segments} segments"
    lines = [
        f"{every if len(names) == verdict.segments > 1 else ', '.join(names)}: {note}" for note, names in shared.items()
    ]
    verdict.notes[:0] = [*missing, *lines]
    return verdict


def note_hashes(recorded: RecordedSegment) -> list[str]:
    """Return the differences between a recording's code and libraries and the present ones."""
    segment, notes = recorded.segment, []
    if segment.engine_hash != engine_hash():
        notes.append(f"another engine recorded it: {segment.engine_hash}, here {engine_hash()}")
    others = {name: value for name, value in segment.versions.items() if versions().get(name) != value}
    others.pop("treadle", None)
    if others:
        notes.append("it was recorded with " + ", ".join(f"{name} {value}" for name, value in others.items()))
    return notes


def _replay(recorded: RecordedSegment, again: ReplaySession, verdict: Verdict) -> None:
    """Pass a segment's ticks to a session, and compare its answers."""
    for number, tick in enumerate(recorded.ticks, 1):
        answer = again.take(tick)
        verdict.ticks += 1
        if answer == tick.answer:
            verdict.proposals += len(decode_answer(answer, ROWS_MAX).proposals)
            continue
        try:
            difference = compare(recorded.path.name, number, tick, answer)
        except WireError as error:
            raise RecordingError(f"{recorded.path}: tick {number} cannot be read: {error}") from error
        verdict.different += 1
        verdict.decisions_different += not difference.field.startswith("status")
        verdict.first = verdict.first or difference


def _check_form(recorded: RecordedSegment) -> None:
    """Check that frames and answers are readable and match, without an engine.

    Raises:
        RecordingError: they do not.
    """
    decoder = FrameDecoder()
    for number, tick in enumerate(recorded.ticks, 1):
        try:
            header = read_frame_header(tick.frame)[0]
            answer = decode_answer(tick.answer, ROWS_MAX)
            if not answer.resend:  # the engine accepted the frame
                decoder.decode(tick.frame)
        except WireError as error:
            raise RecordingError(f"{recorded.path}: tick {number} cannot be read: {error}") from error
        if (answer.epoch, answer.sequence) != (header.epoch, header.sequence):
            raise RecordingError(
                f"{recorded.path}: tick {number}: frame {header.sequence} has the answer to {answer.sequence}"
            )


def compare(segment: str, number: int, tick: Tick, answer: bytes) -> Difference:
    """Return the first field in which an answer differs from the recorded one.

    Raises:
        WireError: the frame has no header.
    """
    sequence = read_frame_header(tick.frame)[0].sequence
    if not answer:
        return Difference(segment, number, sequence, "answer", f"{len(tick.answer)} bytes", "none: the engine failed")
    try:
        was, now = decode_answer(tick.answer, ROWS_MAX), decode_answer(answer, ROWS_MAX)
    except WireError as error:
        return Difference(segment, number, sequence, "answer", f"{len(tick.answer)} bytes", str(error))
    return Difference(segment, number, sequence, *_field(was, now))


def _field(was: Answer, now: Answer) -> tuple[str, str, str]:
    for name in ("epoch", "sequence", "resend", "again", "unserved", "decide_us"):
        if getattr(was, name) != getattr(now, name):
            return name, str(getattr(was, name)), str(getattr(now, name))
    if len(was.proposals) != len(now.proposals):
        return "proposals", f"{len(was.proposals)} proposals", f"{len(now.proposals)}{_first_row(was, now)}"
    found = _first_row(was, now)
    if found:
        return "proposals", "another row", found.removeprefix("; ")
    if name := other_column(was.proposals, now.proposals):
        return f"proposals.{name}", str(getattr(was.proposals, name)), str(getattr(now.proposals, name))
    for name, one, other in zip(Held._fields, was.held, now.held, strict=True):
        if not np.array_equal(one, other):
            return f"status.held_{name}", str(one), str(other)
    return _status(was.status, now.status)


def other_column(was: Proposals, now: Proposals) -> str:
    """Return the first column in which proposals differ; empty if they are equal."""
    columns = ("application", "key", "node", "transaction")
    return next((each for each in columns if not np.array_equal(getattr(was, each), getattr(now, each))), "")


def _first_row(was: Answer, now: Answer) -> str:
    columns = ("application", "key", "node")
    rows = [np.stack([getattr(each.proposals, name) for name in columns], 1).tolist() for each in (was, now)]
    for at, (one, other) in enumerate(zip(*rows, strict=False)):
        if one != other:
            return f"; proposal {at} was (application, key, node) {tuple(one)} and is {tuple(other)}"
    return ""


def _status(was: str, now: str) -> tuple[str, str, str]:
    try:
        one, other = json.loads(was or "{}"), json.loads(now or "{}")
    except ValueError:
        return "status", was[:200], now[:200]
    for key in sorted({*one, *other}):
        if one.get(key) != other.get(key):
            return f"status.{key}", repr(one.get(key))[:200], repr(other.get(key))[:200]
    return "status", was[:200], now[:200]
