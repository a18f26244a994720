"""Replays recordings under the policy that they were made with, and compares answer by answer, to the byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.record.hashes import engine_hash, versions
from treadle.record.reader import READABLE_PART, RecordedSegment, open_all, open_segment
from treadle.record.state import State
from treadle.record.ticks import Tick
from treadle.replay.again import SessionAgain
from treadle.replay.progress import Report, counted_to, to_nobody
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import read_frame_header
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
    ticks: int = 0
    proposals: int = 0
    different: int = 0
    """Answers that are not as recorded; those after the first may follow from it."""
    decisions_different: int = 0
    """Of these, how many are so in more than the text of the status."""
    states_different: int = 0
    """States of segments that are not those after the segment before."""
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
        """Is every answer, and every state, as it was recorded?"""
        return self.first is None


def verify(
    files: Sequence[Path], *, trust_code: bool = False, fresh: bool = False, report: Report = to_nobody
) -> Verdict:
    """Replay segments, in order.

    Args:
        files: the segments
        trust_code: whether parts of the policy from files may be run
        fresh: take no state from the files; what follows a gap begins with its snapshot alone
        report: is told which segment is under way

    Raises:
        RecordingError: one is no recording, or cannot be replayed.
    """
    verdict, missing = Verdict(), list[str]()
    makers: dict[str, list[str]] = {}
    before: SessionAgain | None = None
    count = counted_to(report, len(files), "deciding again: segment")
    for recorded in open_all(files, missing):
        count(files.index(recorded.path) + 1)
        for note in note_hashes(recorded):
            makers.setdefault(note, []).append(recorded.path.name)
        before = _Segment(recorded, verdict, trust_code, fresh=fresh).verify(before)
        verdict.segments += 1
    verdict.missing = len(missing)
    verdict.notes[:0] = [*missing, *(_of_all(note, names, verdict.segments) for note, names in makers.items())]
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


class _Segment:
    """One segment that is replayed."""

    def __init__(self, recorded: RecordedSegment, verdict: Verdict, trust_code: bool, *, fresh: bool) -> None:
        self._recorded = recorded
        self._verdict = verdict
        self._trust_code = trust_code
        self._other = recorded.segment.engine_hash != engine_hash()
        self._fresh = fresh

    def verify(self, before: SessionAgain | None) -> SessionAgain | None:
        """Replay it; return its session if all was as recorded.

        Another engine goes on with ``before``, where the segment follows: its own state is then better than one that
        was kept by an engine which may have had other tables.
        """
        recorded, verdict = self._recorded, self._verdict
        follows = before is not None and recorded.follows
        if before is not None and follows and (self._fresh or self._other):
            again = before
        else:
            again = SessionAgain(recorded, trust_code=self._trust_code, fresh=self._fresh)
            if before is not None and follows:
                self._compare_states(before)
        counts = verdict.ticks, verdict.different, verdict.decisions_different, verdict.proposals, verdict.first
        if not self._ticks(again, recorded) and self._other and not again.is_fresh:
            (verdict.ticks, verdict.different, verdict.decisions_different, verdict.proposals, verdict.first) = counts
            again = SessionAgain(recorded, trust_code=self._trust_code, fresh=True)
            again.notes.append("its state is of no use to this engine, which begins with the snapshot alone")
            with open_segment(recorded.path) as once_more:
                self._ticks(again, once_more)
            recorded.notes, recorded.whole = once_more.notes, once_more.whole
        name = recorded.path.name
        verdict.notes += [f"{name}: {note}" for note in (*recorded.notes, *again.notes)]
        again.notes = []
        return again if verdict.different == counts[1] else None

    def _compare_states(self, before: SessionAgain) -> None:
        """Compare the state that was recorded with that after the segment before."""
        if self._recorded.state is not None:
            place = first_difference(self._recorded.state, before.state())
            if place is not None:
                self._verdict.states_different += 1
                self._note(Difference(self._recorded.path.name, 0, 0, f"state{place[0]}", place[1], place[2]))

    def _ticks(self, again: SessionAgain, recorded: RecordedSegment) -> bool:
        """Replay ticks; False if the engine failed where the recorded one did not."""
        verdict = self._verdict
        for number, tick in enumerate(recorded.ticks, 1):
            answer = again.take(tick)
            verdict.ticks += 1
            if answer == tick.answer:
                verdict.proposals += len(decode_answer(answer, _ROWS_MAX).proposals)
                continue
            if again.failed and self._other and not again.is_fresh:
                return False
            difference = compare(recorded.path.name, number, tick, answer)
            verdict.different += 1
            verdict.decisions_different += not difference.field.startswith("status")
            self._note(difference)
        return True

    def _note(self, difference: Difference) -> None:
        if self._verdict.first is None:
            self._verdict.first = difference


def compare(segment: str, number: int, tick: Tick, answer: bytes) -> Difference:
    """Return the first field in which an answer differs from the recorded one."""
    sequence = read_frame_header(tick.frame)[0].sequence
    if not answer:
        return Difference(segment, number, sequence, "answer", f"{len(tick.answer)} bytes", "none: the engine failed")
    try:
        was, now = decode_answer(tick.answer, _ROWS_MAX), decode_answer(answer, _ROWS_MAX)
    except WireError as error:
        return Difference(segment, number, sequence, "answer", f"{len(tick.answer)} bytes", str(error))
    return Difference(segment, number, sequence, *_field(was, now))


def _field(was: Answer, now: Answer) -> tuple[str, str, str]:
    for name in ("epoch", "sequence", "resend", "busy", "base", "decide_us"):
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


def first_difference(one: State, other: State) -> tuple[str, str, str] | None:
    """Return where two states differ first, and what they are there; None if they are equal."""
    # through JSON, as what was recorded came
    return _tree(one, other, one.tree, json.loads(json.dumps(other.tree)), "")


def _tree(one: State, other: State, a: Any, b: Any, where: str) -> tuple[str, str, str] | None:
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        if a.keys() == {"array"}:
            return _arrays(one, other, a["array"][0], b["array"][0], where)
        for key in a:
            step = "" if key in {"object", "dict", "list", "row", "map", "tuple", "fields"} else f".{key}"
            found = _tree(one, other, a[key], b[key], where + step)
            if found is not None:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for at, (left, right) in enumerate(zip(a, b, strict=True)):
            found = _tree(one, other, left, right, where if isinstance(left, dict) else f"{where}[{at}]")
            if found is not None:
                return found
        return None
    return None if a == b and type(a) is type(b) else (where, repr(a)[:200], repr(b)[:200])


def _arrays(one: State, other: State, at: int, there: int, where: str) -> tuple[str, str, str] | None:
    a, b = one.arrays[at], other.arrays[there]
    if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes():
        return None
    if a.dtype != b.dtype or a.shape != b.shape:
        return where, f"{a.dtype} {a.shape}", f"{b.dtype} {b.shape}"
    for name in a.dtype.names or ("",):
        left, right = (each[name] if name else each for each in (a, b))
        different = np.argwhere(left != right)
        if len(different):
            row = tuple(different[0].tolist())
            return f"{where}{f'.{name}' if name else ''}{list(row)}", str(left[row]), str(right[row])
    return None
