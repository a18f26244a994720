"""The file format of recordings: segments, and in them ticks, each as a record.

Chunks have a length and a checksum, so that everything before a crash can be read; their folder is bounded in size and
age.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import Struct
from typing import IO, Annotated, Any, Final, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from treadle import events
from treadle.config.settings import Settings, Source
from treadle.config.trust import reason_against
from treadle.errors import UserError, install_extra
from treadle.events import Event, PolicySwitch
from treadle.files import RATIO_MAX, Unpacker, UnpackError, bound

MAGIC: Final = b"TRDREC"
VERSION: Final = 3
"""Version of the file format; heads of records may get more keys without a new version. Version 1 had engine state,
and version 2 another key of the offline events."""

FILE_HEADER: Final = Struct("<6sH")
CHUNK_HEADER: Final = Struct("<III")
"""Packed bytes of the chunk, its unpacked bytes, CRC-32 of the chunk."""
RECORD_HEADER: Final = Struct("<II")

CHUNK_BYTES_MAX: Final = 1 << 30
"""A longer chunk is damaged, packed or unpacked: a frame and an answer have at most 256 MiB each."""

HEAD_BYTES_MAX: Final = 4 << 20
"""Maximum size of a head as JSON: a settings file of 1 MiB takes at most 3 MiB; objects take far more memory."""

LEVEL: Final = 1
"""Compression level of zstd: on frames of a real ResourceManager lower ones are no faster and half as large again."""


class RecordingError(UserError):
    """A file that is not a readable recording."""


class EmptySegmentError(RecordingError):
    """A segment without readable content: its writer ended before the segment's first record."""


def zstandard() -> Any:
    """Return the library.

    Raises:
        RecordingError: it is not installed.
    """
    try:
        import zstandard as found  # only here: an extra
    except ImportError:
        raise RecordingError(f"recordings need zstandard; {install_extra('record')}") from None
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """One record: head and body."""

    head: dict[str, Any]
    body: bytes

    @property
    def kind(self) -> str:
        """The kind of the record."""
        return str(self.head.get("kind", ""))


class ChunkWriter:
    """Writes records to a stream; nothing is written before `flush`."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Start the file.

        Raises:
            RecordingError: zstandard is missing.
            OSError: it cannot be written.
        """
        self._stream = stream
        self._zstd = zstandard()
        self._packer = self._zstd.ZstdCompressor(level=LEVEL).compressobj()
        self._packed: list[bytes] = []
        self.waiting = 0
        """Number of unpacked bytes that `flush` would write."""
        self._packed_bytes = self._unpacked_bytes = 0
        self._put(FILE_HEADER.pack(MAGIC, VERSION))
        self.bytes = FILE_HEADER.size
        """Size of the file in bytes."""

    def write(self, head: dict[str, Any], *body: bytes | memoryview) -> None:
        """Append a record, with its body in parts, to the current chunk.

        Raises:
            RecordingError: its head is longer than `HEAD_BYTES_MAX`, so that no reader would accept it.
        """
        text = json.dumps(head, separators=(",", ":")).encode()
        if len(text) > HEAD_BYTES_MAX:
            raise RecordingError(f"a record's head has {len(text)} bytes, and readers accept {HEAD_BYTES_MAX}")
        length = sum(len(part) for part in body)
        for part in (RECORD_HEADER.pack(len(text), length) + text, *body):
            self._packed.append(self._packer.compress(part))
            self.waiting += len(part)

    def flush(self) -> None:
        """Write the records since the last call.

        Raises:
            OSError: it cannot be written.
            RecordingError: its ratio is beyond `treadle.files.bound`, so that no reader would accept it.
        """
        if not self.waiting:
            return
        packed = b"".join([*self._packed, self._packer.flush(self._zstd.COMPRESSOBJ_FLUSH_BLOCK)])
        unpacked, self._packed, self.waiting = self.waiting, [], 0
        self._packed_bytes += len(packed)
        self._unpacked_bytes += unpacked
        if self._unpacked_bytes > bound(self._packed_bytes):
            raise RecordingError(f"frames pack into less than 1/{RATIO_MAX} of their size, which no reader accepts")
        self._put(CHUNK_HEADER.pack(len(packed), unpacked, zlib.crc32(packed)) + packed)
        self._stream.flush()
        self.bytes += CHUNK_HEADER.size + len(packed)

    def _put(self, data: bytes) -> None:
        """Write all data: a nearly full disk accepts a part, and rejects only the next write."""
        left = memoryview(data)
        while left:
            left = left[self._stream.write(left) :]


class ChunkReader:
    """Reads records from a stream, up to where it ends or is damaged."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        """Read the start of the file; ``name`` is its name in errors.

        Raises:
            EmptySegmentError: it ends before its first record.
            RecordingError: it is not a recording, or has another version.
        """
        zstandard()
        self._stream = stream
        self._unpacker = Unpacker()
        header = stream.read(FILE_HEADER.size)
        if len(header) < FILE_HEADER.size and FILE_HEADER.pack(MAGIC, VERSION).startswith(header):
            raise EmptySegmentError(
                f"{name}: nothing of it can be read: it ends at byte {len(header)}, as on a full disk"
            )
        if len(header) < FILE_HEADER.size or header[: len(MAGIC)] != MAGIC:
            raise RecordingError(f"{name} is not a recording of Treadle's")
        version = FILE_HEADER.unpack(header)[1]
        if version != VERSION:
            raise RecordingError(
                f"{name} is a recording of version {version}, and this release reads version {VERSION} alone; read it "
                "with the release that wrote it, or record again"
            )
        self.damage = ""
        """Why reading stopped early; empty if everything was read."""

    def records(self) -> Iterator[Record]:
        """Yield all complete records."""
        for chunk in self._chunks():
            at = 0
            while len(chunk) - at >= RECORD_HEADER.size:
                head, body = RECORD_HEADER.unpack_from(chunk, at)
                begin = at + RECORD_HEADER.size
                end = begin + head + body
                if head > HEAD_BYTES_MAX:
                    self.damage = f"the head of a record at {at} of a chunk has more than {HEAD_BYTES_MAX >> 20} MiB"
                    return
                if end > len(chunk):
                    break
                try:
                    found = json.loads(chunk[begin : begin + head])
                except (ValueError, RecursionError):
                    self.damage = f"a record at {at} of a chunk is not readable"
                    return
                yield Record(found if isinstance(found, dict) else {}, chunk[begin + head : end])
                at = end
            if len(chunk) > at:
                self.damage = "a record is cut off at the end of its chunk"
                return

    def _chunks(self) -> Iterator[bytes]:
        place = FILE_HEADER.size
        while True:
            header = self._stream.read(CHUNK_HEADER.size)
            if not header:
                return
            packed = b""
            if len(header) == CHUNK_HEADER.size:
                length, unpacked_bytes, checksum = CHUNK_HEADER.unpack(header)
                if max(length, unpacked_bytes) > CHUNK_BYTES_MAX:
                    self.damage = f"the chunk at byte {place} is damaged"
                    return
                packed = self._stream.read(length)
            if len(header) < CHUNK_HEADER.size or len(packed) < length:
                self.damage = f"it is cut off in the chunk at byte {place}, as by the end of its writer"
                return
            if zlib.crc32(packed) != checksum:
                self.damage = f"the chunk at byte {place} is damaged: its checksum is another"
                return
            try:
                unpacked = self._unpacker.unpack(packed, unpacked_bytes)
            except UnpackError as error:
                self.damage = f"the chunk at byte {place} is damaged: {error}"
                return
            if len(unpacked) != unpacked_bytes:
                self.damage = f"the chunk at byte {place} is damaged: it unpacks to another length"
                return
            yield unpacked
            place += CHUNK_HEADER.size + length


SUFFIX: Final = ".rec"
_NAME: Final = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-(\d+)-(\d{6,})" + re.escape(SUFFIX))
_TIME: Final = "%Y%m%dT%H%M%S.%f"


def prepare(folder: Path) -> None:
    """Create a folder that other users cannot read, unless it exists.

    Raises:
        OSError: it cannot be created.
        RecordingError: others may write to it.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    reason = reason_against(folder)
    if reason:
        raise RecordingError(reason)


def create(folder: Path, process: int, number: int, now: datetime) -> tuple[Path, IO[bytes]]:
    """Return the file of a new segment, which only this user may read.

    Raises:
        OSError: it cannot be made.
    """
    time = now.astimezone(UTC).strftime(_TIME)[:-3]
    path = folder / f"{time}Z-{process}-{number:06}{SUFFIX}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    return path, os.fdopen(descriptor, "wb", buffering=0)


def segments(place: Path) -> list[Path]:
    """Return the files of a recording: a file itself, or all segments of a folder in the order in which they began.

    Raises:
        RecordingError: there are none.
    """
    if place.is_file():
        return [place]
    paths = [path for *_, path in _segment_files(place)] if place.is_dir() else []
    if not paths:
        what = "has no segments of a recording" if place.is_dir() else "is not there"
        raise RecordingError(f"{place} {what}; name a file {SUFFIX}, or the folder of `record.folder`")
    return paths


def tidy(folder: Path, size_max: int, age_max: timedelta, now: datetime, keep: Path) -> int:
    """Remove the oldest segments until the others are neither too large nor too old; return how many bytes are left.

    ``keep`` is not removed.
    """
    files = [(path, began, path.stat().st_size) for began, _, _, path in _segment_files(folder)]
    left = sum(size for *_, size in files)
    for path, began, size in files:
        if path == keep or (left <= size_max and now - began <= age_max):
            continue
        path.unlink(missing_ok=True)
        left -= size
    return left


def _segment_files(folder: Path) -> list[tuple[datetime, int, int, Path]]:
    """Return the segments of a folder in order: as their names say, begin, process, number; and the file."""
    files = []
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file() and not path.is_symlink():
            began = datetime.strptime(f"{match[1]}000", _TIME).replace(tzinfo=UTC)
            files.append((began, int(match[2]), int(match[3]), path))
    return sorted(files)


BESIDE: Final[Mapping[str, type[Any]]] = {
    each.__name__: each
    for each in (
        events.TaskEstimates,
        events.TaskClaims,
        events.PlanRanks,
        events.StageInputs,
        events.TaskInputs,
        events.Samples,
        events.LearnedState,
    )
}
"""Events from outside the frames."""

Body = list[bytes | memoryview]

Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Micros = Annotated[int, Field(ge=0, lt=1 << 31)]


class _Source(BaseModel):
    file: str
    text: str
    part_files: list[tuple[str, Whole]]


class _Settings(BaseModel):
    source: _Source | None = None
    name: str = ""


class _Reading(_Settings):
    refusal: str
    bytes: Whole


class _Event(BaseModel):
    kind: str = Field(alias="is")
    columns: list[tuple[str, str, Whole]]


class _Tick(BaseModel):
    """The head of a tick's record: a file may have anything there."""

    frame: Whole
    answer: Whole
    us: Micros
    max: Whole | None
    asks: bool = False
    refused: bool = False
    known: str | None = None
    warnings: tuple[str, ...] | None = None
    switches: list[tuple[Whole, Whole, str, str]] = []
    reading: _Reading | None = None
    offline_events: list[_Event] = []


@dataclass(slots=True)
class SettingsText:
    """The settings that a segment begins with, or treadle.yaml read again in the tick that applied or rejected it."""

    source: Source | None = None
    """None: the defaults apply, or it was rejected."""
    name: str = ""
    """The policy's name; empty if it was rejected, and in recordings of earlier releases."""
    refusal: str = ""
    """Why it was rejected."""


@dataclass(slots=True)
class Tick:
    """A frame, other inputs of its cycle, and its answer."""

    frame: bytes
    """Without keys of attempts."""
    reply_max_bytes: int | None
    """Maximum size of answers, from this one on; None: unchanged."""
    answer: bytes = b""
    decide_us: int = 0
    asks_snapshot: bool = False
    """The answer asks for a snapshot, with which another segment begins."""
    refused: bool = False
    """The frame was rejected because another component requires a snapshot."""
    reading: SettingsText | None = None
    offline_events: list[Event] = field(default_factory=list)
    known: str | None = None
    """Job data from outside the frames, as in the status; None: unchanged."""
    warnings: tuple[str, ...] | None = None
    """Warnings in the status that are not the engine's; None: unchanged."""
    switches: list[PolicySwitch] = field(default_factory=list)
    """Custom parts that were stopped or failed in this cycle."""


@dataclass(slots=True)
class Segment:
    """The start of a segment."""

    number: int
    """The number within its process, from 1."""
    engine: str
    """Name of one of several engines; empty: the first or only one."""
    began: str
    """UTC, ISO 8601."""
    follows: bool
    """Whether its first frame follows the last one of the previous segment."""
    dropped: int
    """Number of answered frames since the previous segment that were not recorded."""
    why: str
    """Why it starts."""
    engine_hash: str
    schema_hash: str
    versions: Mapping[str, str]
    process: int = 0
    fresh: bool = False
    """Whether its first frame is the sidecar's first, so that the engine had learned nothing before."""
    keys_for: Sequence[str] = ()
    """Application types whose attempt keys the frames should contain; the keys are not recorded."""


_SEGMENT: Final = TypeAdapter(Segment)


class Cost(NamedTuple):
    """CPU time in microseconds since a process started to record; stored at the end of a segment."""

    beside_us: int = 0
    """On the thread that decides."""
    writing_us: int = 0
    """On the writer's thread."""
    process_us: int = 0
    """In all threads of the process."""

    @property
    def share(self) -> float | None:
        """Fraction of the process's CPU time spent on recording; None if unknown."""
        return (self.beside_us + self.writing_us) / self.process_us if self.process_us else None


def end_head(why: str, cost: Cost) -> dict[str, Any]:
    """Return the head of the record that ends a segment."""
    return {"kind": "end", "why": why, "cost_us": list(cost)}


def read_cost(record: Record) -> Cost:
    """Return the recording cost at the end of a segment; zeros if it is missing."""
    costs = record.head.get("cost_us", ())
    return Cost(*costs) if len(costs) == len(Cost()) and all(isinstance(each, int) for each in costs) else Cost()


def segment_record(segment: Segment) -> dict[str, Any]:
    """Return the head of a segment's record."""
    return {"kind": "segment"} | {each.name: getattr(segment, each.name) for each in fields(Segment)}


def read_segment(record: Record) -> Segment:
    """Return the start of a segment; unknown keys are ignored.

    Raises:
        RecordingError: it is invalid.
    """
    try:
        return _SEGMENT.validate_python(record.head)
    except ValueError as error:
        raise RecordingError(f"a segment without a valid header: {_said(error)}") from error


def _said(error: Exception) -> str:
    """Return a record's error in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}"


def text_of(settings: Settings) -> SettingsText:
    """Return the source text of settings."""
    return SettingsText(settings.source, settings.policy.name())


def settings_record(settings: SettingsText) -> tuple[dict[str, Any], Body]:
    """Return a record of the source text of settings."""
    source, body = _written_source(settings.source)
    return {"kind": "settings", "name": settings.name, "source": source}, body


def read_settings_text(record: Record) -> SettingsText:
    """Return the source text of settings.

    Raises:
        RecordingError: the record is invalid.
    """
    try:
        head = _Settings.model_validate(record.head)
    except ValueError as error:
        raise RecordingError(f"settings that cannot be read: {_said(error)}") from error
    return SettingsText(_read_source(head.source, record.body), head.name)


def _written_source(source: Source | None) -> tuple[Any, Body]:
    if source is None:
        return None, []
    lengths = [[path, len(content)] for path, content in source.part_files.items()]
    return {"file": source.file, "text": source.text, "part_files": lengths}, [*source.part_files.values()]


def _read_source(written: _Source | None, body: bytes) -> Source | None:
    if written is None:
        return None
    files, at = {}, 0
    for path, length in written.part_files:
        files[path] = body[at : at + length]
        at += length
    return Source(written.file, written.text, files)


def tick_record(tick: Tick) -> tuple[dict[str, Any], Body]:
    """Return the record of a tick; its head omits empty values."""
    body: Body = [tick.frame, tick.answer]
    switches = [[each.sequence, each.call, each.policy, each.reason] for each in tick.switches]
    head: dict[str, Any] = {"kind": "tick", "frame": len(tick.frame), "answer": len(tick.answer), "us": tick.decide_us}
    head["max"] = tick.reply_max_bytes
    flags = {"asks": tick.asks_snapshot, "refused": tick.refused}
    head |= {name: True for name, holds in flags.items() if holds}
    changed = {"known": tick.known, "warnings": tick.warnings, "switches": switches or None}
    head |= {name: value for name, value in changed.items() if value is not None}
    if tick.reading is not None:
        source, contents = _written_source(tick.reading.source)
        read = {"source": source, "refusal": tick.reading.refusal, "bytes": sum(map(len, contents))}
        head["reading"] = read | ({"name": tick.reading.name} if tick.reading.name else {})
        body += contents
    if tick.offline_events:
        head["offline_events"] = [_written_event(event, body) for event in tick.offline_events]
    return head, body


def read_tick(record: Record) -> Tick:
    """Return a tick.

    Raises:
        RecordingError: the record is invalid.
    """
    body = record.body
    try:
        head = _Tick.model_validate(record.head)
        at = head.frame + head.answer
        tick = Tick(
            frame=body[: head.frame],
            reply_max_bytes=head.max,
            answer=body[head.frame : at],
            decide_us=head.us,
            asks_snapshot=head.asks,
            refused=head.refused,
            known=head.known,
            warnings=head.warnings,
            switches=[PolicySwitch(*each) for each in head.switches],
        )
        if head.reading is not None:
            reading, end = head.reading, at + head.reading.bytes
            tick.reading = SettingsText(_read_source(reading.source, body[at:end]), reading.name, reading.refusal)
            at = end
        for written in head.offline_events:
            event, at = _read_event(written, body, at)
            tick.offline_events.append(event)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RecordingError(f"a tick that cannot be read: {_said(error)}") from error
    return tick


def _written_event(event: Event, body: Body) -> dict[str, Any]:
    """Return the head of an event from outside the frames; its columns are appended to the body."""
    name = type(event).__name__
    if name not in BESIDE:
        raise RecordingError(f"{name} is not an event of a recording")
    columns = []
    for each in fields(event):
        column = np.ascontiguousarray(getattr(event, each.name))
        columns.append([each.name, column.dtype.str, len(column)])
        body.append(column.tobytes())
    return {"is": name, "columns": columns}


def _read_event(written: _Event, body: bytes, at: int) -> tuple[Event, int]:
    """Return an event and the end of its columns; unknown columns are ignored."""
    kind = BESIDE[written.kind]
    known = {each.name for each in fields(kind)}
    columns: dict[str, Any] = {}
    rows = 0
    for name, dtype, rows in written.columns:
        column = np.frombuffer(body, dtype, rows, at)
        at += column.nbytes
        if name in known:
            columns[name] = column
    event: Event = events.filled(kind, rows, **columns)
    return event, at
