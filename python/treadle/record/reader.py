"""Reads segments: their start, their ticks one after the other, and a summary of a recording.

A segment identifies the code that decided: hashes of the engine's code and of the wire's schema, and versions of
libraries.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np

import treadle
from treadle.events import Applications, ApplicationState, ContainerEvent, Containers, Nodes, NodeState, Queues
from treadle.record.files import (
    ChunkReader,
    Cost,
    EmptySegmentError,
    Record,
    RecordingError,
    Segment,
    SettingsText,
    Tick,
    read_cost,
    read_segment,
    read_settings_text,
    read_tick,
)
from treadle.sources import DECISION, digest
from treadle.wire.answer import decode_answer
from treadle.wire.frames import Frame, FrameDecoder, WireError, document


@cache
def engine_hash() -> str:
    """Return a hash of the code of the engine and the wire."""
    return digest(DECISION, "treadle.wire")[:16]


@cache
def schema_hash() -> str:
    """Return a hash of the wire's schema."""
    return hashlib.sha256(json.dumps(document(), sort_keys=True).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Return the versions of Python and the engine's libraries."""
    return {
        "treadle": treadle.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }


OTHER_SCHEMA: Final = "its frames have another schema than this release's; read it with the release that recorded it"
READABLE_PART: Final = "it is readable up to here"
NOT_FROM_START: Final = (
    "the recording does not lead back to the start of its sidecar, and it has nothing of what the engine had learned"
)
OPEN_END: Final = "it is still being written, or its writer was killed: the last second may be missing"


@dataclass(slots=True)
class RecordedSegment:
    """A segment. Its ticks can be read once, on demand."""

    path: Path
    segment: Segment
    settings: SettingsText
    ticks: Iterator[Tick]
    notes: list[str] = field(default_factory=list)
    """Problems of the segment; those of its ticks once all have been read."""
    cost: Cost = field(default_factory=Cost)
    """Cost of recording in its process at the end of the segment."""
    open_end: bool = False
    """Whether a readable file lacks the end record, since it is still being written."""
    whole: bool = False
    """Whether all ticks were read, up to the end record."""
    follows: bool = False
    """Whether its first frame follows the last one of the previous segment of `open_all`."""
    from_start: bool = False
    """Whether the segments of `open_all` up to this one lead back, without a gap, to the start of the sidecar."""


@contextmanager
def open_segment(path: Path) -> Iterator[RecordedSegment]:
    """Open a segment.

    Raises:
        EmptySegmentError: its first record is missing.
        RecordingError: it is not a segment, or its frames have another schema.
    """
    try:
        with path.open("rb") as stream:
            chunks = ChunkReader(stream, str(path))
            records = chunks.records()
            first, second = next(records, None), next(records, None)
            if first is None or first.kind != "segment" or second is None:
                reason = chunks.damage or "it does not say what it is"
                raise EmptySegmentError(f"{path}: nothing of it can be read: {reason}")
            segment = read_segment(first)
            if segment.schema_hash != schema_hash():
                raise RecordingError(f"{path}: {OTHER_SCHEMA}")
            recorded = RecordedSegment(path, segment, read_settings_text(second), iter(()))
            recorded.ticks = _ticks(recorded, chunks, records)
            yield recorded
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def open_all(files: Sequence[Path], notes: list[str]) -> Iterator[RecordedSegment]:
    """Yield segments, each to be read before the next; an unreadable one is noted and skipped.

    A segment whose predecessor is missing or incomplete is noted too.

    Raises:
        RecordingError: one is not a segment, or none can be read.
    """
    empty = 0
    before: Segment | None = None
    whole = from_start = False
    for file in files:
        try:
            with open_segment(file) as recorded:
                segment = recorded.segment
                here = None if before is None else (before.process, before.number + 1)
                recorded.follows = whole and segment.follows and here == (segment.process, segment.number)
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


def _ticks(recorded: RecordedSegment, chunks: ChunkReader, records: Iterator[Record]) -> Iterator[Tick]:
    ended = ""
    for record in records:
        if record.kind == "tick":
            yield read_tick(record)
        elif record.kind == "end":
            ended = str(record.head.get("why", ""))
            recorded.cost = read_cost(record)
    recorded.whole = bool(ended) and not chunks.damage
    if chunks.damage:
        recorded.notes.append(f"{READABLE_PART}: {chunks.damage}")
    elif not ended:
        recorded.open_end = True
        recorded.notes.append(OPEN_END)


_ROWS_MAX = 1 << 30


@dataclass(slots=True)
class SegmentSummary:
    """Summary of one file."""

    file: str
    bytes: int
    engine: str
    began: str
    begin_ms: int = 0
    """By the ResourceManager's clock, as ``end_ms``."""
    end_ms: int = 0
    frames: int = 0
    follows: bool = False
    """Whether it follows the previous segment without a gap."""
    dropped: int = 0
    why: str = ""
    engine_hash: str = ""
    from_start: bool = False
    """Whether the segments up to this one lead back to the start of the sidecar, so that it can be replayed."""
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Summary:
    """Summary of all files."""

    segments: list[SegmentSummary] = field(default_factory=list)
    begin_ms: int = 0
    end_ms: int = 0
    frames: int = 0
    proposals: int = 0
    offline_events: dict[str, int] = field(default_factory=dict)
    """Number of rows of events from outside the frames, by event type."""
    containers: int = 0
    """Number of started containers."""
    bytes: int = 0
    cost: Cost = field(default_factory=Cost)
    """Cost in the process that recorded the last complete segment."""
    nodes: int = 0
    jobs: int = 0
    jobs_ended: int = 0
    queues: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    switches: int = 0
    gaps: int = 0
    dropped: int = 0
    engine_hashes: list[str] = field(default_factory=list)
    own_engine_hash: str = field(default_factory=engine_hash)
    notes: list[str] = field(default_factory=list)
    is_open: bool = False
    """Whether the last segment is still being written, or its writer was killed; then only a second is missing."""

    @property
    def whole(self) -> bool:
        """Whether the recording is complete, except perhaps for the last second."""
        return not (self.gaps or self.dropped or len(self.notes) > self.is_open)

    @property
    def bytes_per_container(self) -> float | None:
        """Bytes of the files per started container; None without any."""
        return self.bytes / self.containers if self.containers else None

    def document(self) -> dict[str, Any]:
        """Return the summary as a JSON document."""
        return asdict(self) | {
            "bytes_per_container": self.bytes_per_container,
            "whole": self.whole,
            "cost_share": self.cost.share,
        }


def summarise(files: Sequence[Path]) -> Summary:
    """Return the summary of segments.

    Raises:
        RecordingError: one is not a recording.
    """
    summariser = _Summariser()
    notes: list[str] = []
    for recorded in open_all(files, notes):
        summariser.read(recorded)
    summary = summariser.summary()
    summary.notes += notes
    return summary


class _Summariser:
    def __init__(self) -> None:
        self._found = Summary()
        self._nodes: set[str] = set()
        self._jobs: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()
        self._queues: dict[str, None] = {}
        self._policies: dict[str, None] = {}
        self._running: dict[int, tuple[int, int]] = {}

    def read(self, recorded: RecordedSegment) -> None:
        """Add all of a segment."""
        segment, summary = recorded.segment, self._found
        mine = SegmentSummary(
            file=recorded.path.name,
            bytes=recorded.path.stat().st_size,
            engine=segment.engine,
            began=segment.began,
            follows=recorded.follows,
            dropped=segment.dropped,
            why=segment.why,
            engine_hash=segment.engine_hash,
            from_start=recorded.from_start,
        )
        self._policies[recorded.settings.name] = None
        summary.gaps += bool(summary.segments) and not recorded.follows
        decoder = FrameDecoder()
        for tick in recorded.ticks:
            self._tick(tick, mine, decoder)
        mine.notes = recorded.notes
        summary.is_open = recorded.open_end
        summary.cost = recorded.cost if recorded.cost.process_us else summary.cost
        summary.segments.append(mine)
        summary.frames += mine.frames
        summary.dropped += mine.dropped
        summary.bytes += mine.bytes
        summary.notes += [f"{mine.file}: {note}" for note in mine.notes]
        begins = [each.begin_ms for each in summary.segments if each.frames]
        summary.begin_ms, summary.end_ms = min(begins, default=0), max(each.end_ms for each in summary.segments)

    def _tick(self, tick: Tick, mine: SegmentSummary, decoder: FrameDecoder) -> None:
        summary = self._found
        for event in tick.offline_events:
            rows: Any = getattr(event, "application", ())
            kind, counts = type(event).__name__, summary.offline_events
            counts[kind] = counts.get(kind, 0) + len(rows)
        summary.switches += len(tick.switches)
        if tick.reading is not None and tick.reading.name:
            self._policies[tick.reading.name] = None
        self._policies |= dict.fromkeys(switch.policy for switch in tick.switches)
        try:
            frame = decoder.decode(tick.frame)
            summary.proposals += len(decode_answer(tick.answer, _ROWS_MAX).proposals)
        except WireError as error:
            summary.notes.append(f"{mine.file}: frame {mine.frames + 1} cannot be read: {error}")
            return
        mine.begin_ms = mine.begin_ms or frame.header.rm_time_ms
        mine.end_ms = max(mine.end_ms, frame.header.rm_time_ms)
        mine.frames += 1
        self._events(frame, decoder.texts)

    def _events(self, frame: Frame, texts: Sequence[str]) -> None:
        if frame.header.snapshot:
            self._running = {}
        for event in frame.events:
            if isinstance(event, Nodes):
                alive = event.name_name[event.state != NodeState.GONE]
                self._nodes.update(texts[name] for name in alive.tolist())
            elif isinstance(event, Queues):
                self._queues |= dict.fromkeys(texts[name] for name in event.path_name[event.leaf == 1].tolist())
            elif isinstance(event, Applications):
                self._applications(event)
            elif isinstance(event, Containers) and not frame.header.snapshot:
                self._found.containers += int(np.count_nonzero(event.event == ContainerEvent.ALLOCATED))

    def _applications(self, event: Applications) -> None:
        columns = (event.application, event.cluster_timestamp, event.id, event.state)
        for at, timestamp, number, state in zip(*(column.tolist() for column in columns), strict=True):
            if state == ApplicationState.GONE:
                ended = self._running.pop(at, None)
                self._ended.update(() if ended is None else (ended,))
            else:
                self._running[at] = timestamp, number
                self._jobs.add((timestamp, number))

    def summary(self) -> Summary:
        """Return the summary."""
        summary = self._found
        summary.nodes, summary.jobs, summary.jobs_ended = len(self._nodes), len(self._jobs), len(self._ended)
        summary.queues, summary.policies = list(self._queues), list(self._policies)
        summary.engine_hashes = list(dict.fromkeys(each.engine_hash for each in summary.segments))
        return summary
