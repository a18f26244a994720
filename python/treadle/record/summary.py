"""What is in a recording: when, of which nodes, jobs and queues, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from treadle.events import Applications, ApplicationState, ContainerEvent, Containers, Nodes, NodeState, Queues
from treadle.record.reader import RecordedSegment, engine_hash, open_all, schema_hash
from treadle.record.ticks import Cost, Tick
from treadle.wire.answer import decode_answer
from treadle.wire.frames import Frame, FrameDecoder
from treadle.wire.schema import WireError

_ROWS_MAX = 1 << 30


@dataclass(slots=True)
class SegmentSummary:
    """What one file has."""

    file: str
    bytes: int
    engine: str
    began: str
    begin_ms: int = 0
    """By the ResourceManager's clock, as ``end_ms``."""
    end_ms: int = 0
    frames: int = 0
    follows: bool = False
    """Does it follow the segment before without a gap?"""
    dropped: int = 0
    why: str = ""
    engine_hash: str = ""
    schema_hash: str = ""
    from_start: bool = False
    """Do it and those before it lead back to the start of the sidecar, so that it can be replayed?"""
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Summary:
    """What all of them have together."""

    segments: list[SegmentSummary] = field(default_factory=list)
    begin_ms: int = 0
    end_ms: int = 0
    frames: int = 0
    proposals: int = 0
    beside: dict[str, int] = field(default_factory=dict)
    """Rows of events that came beside the frames, by their type."""
    containers: int = 0
    """That began."""
    bytes: int = 0
    cost: Cost = field(default_factory=Cost)
    """Of the process that recorded the last segment that has ended."""
    nodes: int = 0
    jobs: int = 0
    jobs_ended: int = 0
    queues: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    switches: int = 0
    gaps: int = 0
    dropped: int = 0
    anonymised: bool = False
    engine_hashes: list[str] = field(default_factory=list)
    schema_hashes: list[str] = field(default_factory=list)
    own_engine_hash: str = field(default_factory=engine_hash)
    own_schema_hash: str = field(default_factory=schema_hash)
    notes: list[str] = field(default_factory=list)
    is_open: bool = False
    """Is the last segment still being written, or was its writer killed? Only the last second is missing then."""

    @property
    def whole(self) -> bool:
        """Is all there, but perhaps for the last second?"""
        return not (self.gaps or self.dropped or len(self.notes) > self.is_open)

    @property
    def bytes_per_container(self) -> float | None:
        """Bytes of the files for each container that began; None without any."""
        return self.bytes / self.containers if self.containers else None

    def document(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self) | {
            "bytes_per_container": self.bytes_per_container,
            "whole": self.whole,
            "cost_share": self.cost.share,
        }


def summarise(files: Sequence[Path]) -> Summary:
    """Return what segments have.

    Raises:
        RecordingError: one is no recording.
    """
    looker = _Looker()
    notes: list[str] = []
    for recorded in open_all(files, notes):
        looker.look(recorded)
    found = looker.summary()
    found.notes += notes
    return found


class _Looker:
    def __init__(self) -> None:
        self._found = Summary()
        self._nodes: set[str] = set()
        self._jobs: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()
        self._queues: dict[str, None] = {}
        self._policies: dict[str, None] = {}
        self._running: dict[int, tuple[int, int]] = {}

    def look(self, recorded: RecordedSegment) -> None:
        """Look at all of a segment."""
        segment, found = recorded.segment, self._found
        mine = SegmentSummary(
            file=recorded.path.name,
            bytes=recorded.path.stat().st_size,
            engine=segment.engine,
            began=segment.began,
            follows=recorded.follows,
            dropped=segment.dropped,
            why=segment.why,
            engine_hash=segment.engine_hash,
            schema_hash=segment.schema_hash,
            from_start=recorded.from_start,
        )
        self._policies[recorded.settings.name] = None
        found.gaps += bool(found.segments) and not recorded.follows
        found.anonymised |= segment.anonymised
        decoder = FrameDecoder()
        for tick in recorded.ticks:
            self._tick(tick, mine, decoder)
        mine.notes = recorded.notes
        found.is_open = recorded.open_end
        found.cost = recorded.cost if recorded.cost.process_us else found.cost
        found.segments.append(mine)
        found.frames += mine.frames
        found.dropped += mine.dropped
        found.bytes += mine.bytes
        found.notes += [f"{mine.file}: {note}" for note in mine.notes]
        begins = [each.begin_ms for each in found.segments if each.frames]
        found.begin_ms, found.end_ms = min(begins, default=0), max(each.end_ms for each in found.segments)

    def _tick(self, tick: Tick, mine: SegmentSummary, decoder: FrameDecoder) -> None:
        found = self._found
        for event in tick.beside:
            rows: Any = getattr(event, "application", ())
            found.beside[type(event).__name__] = found.beside.get(type(event).__name__, 0) + len(rows)
        found.switches += len(tick.switches)
        if tick.reading is not None and tick.reading.name:
            self._policies[tick.reading.name] = None
        self._policies |= dict.fromkeys(switch.policy for switch in tick.switches)
        try:
            frame = decoder.decode(tick.frame)
            found.proposals += len(decode_answer(tick.answer, _ROWS_MAX).proposals)
        except WireError as error:
            found.notes.append(f"{mine.file}: frame {mine.frames + 1} cannot be read: {error}")
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
        """Return what was found."""
        found = self._found
        found.nodes, found.jobs, found.jobs_ended = len(self._nodes), len(self._jobs), len(self._ended)
        found.queues, found.policies = list(self._queues), list(self._policies)
        found.engine_hashes = list(dict.fromkeys(each.engine_hash for each in found.segments))
        found.schema_hashes = list(dict.fromkeys(each.schema_hash for each in found.segments))
        return found
