"""Replays recordings under the policy that they were made with, and compares answer by answer, to the byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from treadle.record.chunks import RecordingError
from treadle.record.hashes import engine_hash, versions
from treadle.record.reader import NOT_FROM_START, READABLE_PART, RecordedSegment, open_all
from treadle.record.ticks import Tick
from treadle.replay.again import SessionAgain
from treadle.replay.progress import Report, counted_to, to_nobody
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import FrameDecoder, read_frame_header
from treadle.wire.schema import WireError

_ROWS_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that is not as it was recorded."""

    segment: str
    tick: int
    """Of the segment, from 1."""
    sequence: int
    """Of the frame."""
    field: str
    recorded: str
    now: str

    def line(self) -> str:
        """Return it as text."""
        where = f"{self.segment}: tick {self.tick}, frame {self.sequence}: {self.field}"
        return f"{where}: recorded {self.recorded}, now {self.now}"


@dataclass(slots=True)
class Verdict:
    """What a replay found."""

    segments: int = 0
    form_only: int = 0
    """Of these, how many were not replayed: only their form was checked."""
    ticks: int = 0
    """Answers of the segments that were replayed."""
    proposals: int = 0
    different: int = 0
    """Answers that are not as recorded; those after the first may follow from it."""
    decisions_different: int = 0
    """Of these, how many are so in more than the text of the status."""
    missing: int = 0
    """Segments of which nothing can be read, and gaps before segments that followed others."""
    first: Difference | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def in_part(self) -> bool:
        """Is there a segment that cannot be read to its end?"""
        return any(READABLE_PART in note for note in self.notes)

    @property
    def same(self) -> bool:
        """Was every segment replayed, with every answer as it was recorded?"""
        return self.first is None and not self.form_only


def verify(files: Sequence[Path], *, trust_code: bool = False, report: Report = to_nobody) -> Verdict:
    """Replay segments, in order: each with the session of the one that it follows.

    One that does not lead back to the start of its sidecar is read, and not replayed.

    Args:
        files: the segments
        trust_code: whether parts of the policy from files may be run
        report: is told which segment is under way

    Raises:
        RecordingError: one is no recording, has another form, or cannot be replayed.
    """
    verdict, missing = Verdict(), list[str]()
    shared: dict[str, list[str]] = {}
    """What holds of several segments, and of which."""
    again: SessionAgain | None = None
    count = counted_to(report, len(files), "deciding again: segment")
    for recorded in open_all(files, missing):
        count(files.index(recorded.path) + 1)
        found = note_hashes(recorded)
        if not recorded.from_start:
            _check_form(recorded)
            verdict.form_only += 1
            found.append(f"only the form was checked: {NOT_FROM_START}")
        else:
            if again is None or not recorded.follows:
                again = SessionAgain(recorded, trust_code=trust_code)
            _replay(recorded, again, verdict)
        for note in found:
            shared.setdefault(note, []).append(recorded.path.name)
        verdict.notes += [f"{recorded.path.name}: {note}" for note in recorded.notes]
        verdict.segments += 1
    verdict.missing = len(missing)
    verdict.notes[:0] = [*missing, *(_of_all(note, names, verdict.segments) for note, names in shared.items())]
    return verdict


def note_hashes(recorded: RecordedSegment) -> list[str]:
    """Return what of a recording's makers is not as here."""
    segment, found = recorded.segment, []
    if segment.engine_hash != engine_hash():
        found.append(f"another engine recorded it: {segment.engine_hash}, here {engine_hash()}")
    others = {name: value for name, value in segment.versions.items() if versions().get(name) != value}
    others.pop("treadle", None)
    if others:
        found.append("it was recorded with " + ", ".join(f"{name} {value}" for name, value in others.items()))
    return found


def _of_all(note: str, names: Sequence[str], segments: int) -> str:
    """Return a note with the segments that it is about; what holds of several has one line."""
    if len(names) == segments > 1:
        return f"all {segments} segments: {note}"
    return f"{', '.join(names)}: {note}"


def _replay(recorded: RecordedSegment, again: SessionAgain, verdict: Verdict) -> None:
    """Let a session take a segment's ticks, and compare its answers."""
    for number, tick in enumerate(recorded.ticks, 1):
        answer = again.take(tick)
        verdict.ticks += 1
        if answer == tick.answer:
            verdict.proposals += len(decode_answer(answer, _ROWS_MAX).proposals)
            continue
        try:
            difference = compare(recorded.path.name, number, tick, answer)
        except WireError as error:
            raise RecordingError(f"{recorded.path}: tick {number} cannot be read: {error}") from error
        verdict.different += 1
        verdict.decisions_different += not difference.field.startswith("status")
        verdict.first = verdict.first or difference


def _check_form(recorded: RecordedSegment) -> None:
    """See that frames and answers can be read and belong together, without an engine.

    Raises:
        RecordingError: they do not.
    """
    decoder = FrameDecoder()
    for number, tick in enumerate(recorded.ticks, 1):
        try:
            header = read_frame_header(tick.frame)[0]
            answer = decode_answer(tick.answer, _ROWS_MAX)
            if not answer.resend:  # the engine took the frame
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
        was, now = decode_answer(tick.answer, _ROWS_MAX), decode_answer(answer, _ROWS_MAX)
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
    for name in ("application", "key", "node", "transaction"):
        one, other = getattr(was.proposals, name), getattr(now.proposals, name)
        if (one is None) != (other is None) or (one is not None and not np.array_equal(one, other)):
            return f"proposals.{name}", str(one), str(other)
    return _status(was.status, now.status)


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
