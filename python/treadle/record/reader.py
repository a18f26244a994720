"""Reads segments: how each begins, its ticks one after the other.

What decided: hashes of the engine's code and of the wire's schema, and the versions of what it stands on.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba
import numpy

import treadle
from treadle.record.files import ChunkReader, EmptySegmentError, Record, RecordingError
from treadle.record.frames_of_others import Translator
from treadle.record.ticks import (
    Cost,
    Segment,
    SettingsText,
    Tick,
    read_cost,
    read_segment,
    read_settings_text,
    read_tick,
)
from treadle.sources import DECISION, digest
from treadle.wire.page import document


@cache
def engine_hash() -> str:
    """Return a hash of the code that decides and of the wire's; equal for equal code only."""
    return digest(DECISION, "treadle.wire")[:16]


def hash_of(document: Any) -> str:
    """Return a hash of a JSON document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


@cache
def schema_hash() -> str:
    """Return a hash of the wire's schema."""
    return hash_of(document())


def versions() -> dict[str, str]:
    """Return the versions of what the engine stands on."""
    return {
        "treadle": treadle.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }


READABLE_PART: Final = "it is readable up to here"
NOT_FROM_START: Final = (
    "the recording does not lead back to the start of its sidecar, and it has nothing of what the engine had learned"
)
OPEN_END: Final = "it is still being written, or its writer was killed: the last second may be missing"


@dataclass(slots=True)
class RecordedSegment:
    """A segment. Its ticks are read as they are asked for, once."""

    path: Path
    segment: Segment
    settings: SettingsText
    ticks: Iterator[Tick]
    notes: list[str] = field(default_factory=list)
    """What is not as it should be; of the ticks when all were read."""
    cost: Cost = field(default_factory=Cost)
    """What recording had cost its process when the segment ended."""
    open_end: bool = False
    """Does the file end without saying that it does, all of it being readable: is it still being written?"""
    whole: bool = False
    """Were all ticks read, and does the file say that there are no more?"""
    follows: bool = False
    """Does its first frame follow the last one of the segment that `open_all` yielded before?"""
    from_start: bool = False
    """Do it and those that `open_all` yielded before it lead back, without a gap, to the start of the sidecar?"""


@contextmanager
def open_segment(path: Path) -> Iterator[RecordedSegment]:
    """Open a segment.

    Raises:
        EmptySegmentError: it does not say how it begins.
        RecordingError: it is no segment.
    """
    try:
        with path.open("rb") as stream:
            chunks = ChunkReader(stream, str(path))
            yield _read(path, chunks)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def open_all(files: Sequence[Path], notes: list[str]) -> Iterator[RecordedSegment]:
    """Yield segments, each to be read before the next; one of which nothing can be read is noted, and left out.

    One that followed another is noted too, if what is before it here is not that one, or not all of it.

    Raises:
        RecordingError: one is no segment, or nothing can be read of any.
    """
    empty = 0
    before: Segment | None = None
    whole = from_start = False
    for file in files:
        try:
            with open_segment(file) as recorded:
                segment = recorded.segment
                recorded.follows = whole and before is not None and _follows(before, segment)
                recorded.from_start = from_start = segment.fresh or (recorded.follows and from_start)
                if before is not None and segment.follows and not recorded.follows:
                    notes.append(f"{file.name}: the segment that it follows is missing, or its end is")
                yield recorded
                before, whole = segment, recorded.whole
        except EmptySegmentError as error:
            empty += 1
            if empty == len(files):
                raise
            notes.append(str(error))


def _follows(before: Segment, segment: Segment) -> bool:
    return segment.follows and before.process == segment.process and before.number + 1 == segment.number


def _read(path: Path, chunks: ChunkReader) -> RecordedSegment:
    records = chunks.records()
    first, second = next(records, None), next(records, None)
    if first is None or first.kind != "segment" or second is None:
        reason = chunks.damage or "it does not say what it is"
        raise EmptySegmentError(f"{path}: nothing of it can be read: {reason}")
    found = RecordedSegment(path, read_segment(first), read_settings_text(second), iter(()))
    found.ticks = _ticks(found, chunks, records)
    return found


def _ticks(found: RecordedSegment, chunks: ChunkReader, records: Iterator[Record]) -> Iterator[Tick]:
    ended = ""
    others = found.segment.schema_hash != schema_hash()
    translator = Translator(found.segment.schema) if others else None
    for record in records:
        if record.kind == "tick":
            tick = read_tick(record)
            if translator is not None:
                frame, answer = translator.frame(tick.frame, chunks.room), translator.answer(tick.answer)
                tick = replace(tick, frame=frame, answer=answer)
            yield tick
        elif record.kind == "end":
            ended = str(record.head.get("why", ""))
            found.cost = read_cost(record)
    if translator is not None:
        found.notes += translator.notes()
    found.whole = bool(ended) and not chunks.damage
    if chunks.damage:
        found.notes.append(f"{READABLE_PART}: {chunks.damage}")
    elif not ended:
        found.open_end = True
        found.notes.append(OPEN_END)
