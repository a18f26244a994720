"""What is in a recording: files of segments, and in them ticks, each as a record and back.

Chunks say how long they are and have a checksum, so that what was written before a crash is read; the folder in which
they lie is bounded in size and age.
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
VERSION: Final = 2
"""Of the file; the heads of records may get more keys without another version. Version 1 held the engine's state."""

FILE_HEADER: Final = Struct("<6sH")
CHUNK_HEADER: Final = Struct("<III")
"""Bytes of the chunk, bytes that they unpack to, CRC-32 of the chunk."""
RECORD_HEADER: Final = Struct("<II")

CHUNK_BYTES_MAX: Final = 1 << 30
"""A longer one is damaged, packed or unpacked: a frame and an answer have 256 MiB each at most."""

HEAD_BYTES_MAX: Final = 4 << 20
"""Of a head as JSON: a settings file of 1 MiB takes 3 MiB at most, and objects take many times their text."""

LEVEL: Final = 1
"""Of zstd: with frames of a real ResourceManager faster ones save nothing, and pack into half as much again."""


class RecordingError(UserError):
    """A file that is no recording, or one that cannot be read."""


class EmptySegmentError(RecordingError):
    """A segment of which nothing can be read: its writer ended before it had said what it is."""


def zstandard() -> Any:
    """Return the library.

    Raises:
        RecordingError: it is not there.
    """
    try:
        import zstandard as found  # only here: an extra
    except ImportError:
        raise RecordingError(f"recordings need zstandard; {install_extra('record')}") from None
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """What one record says."""

    head: dict[str, Any]
    body: bytes

    @property
    def kind(self) -> str:
        """What it is."""
        return str(self.head.get("kind", ""))


class ChunkWriter:
    """Writes records to a stream. Nothing is in the file before `flush`."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Begin the file.

        Raises:
            RecordingError: there is no zstandard.
            OSError: it cannot be written.
        """
        self._stream = stream
        self._zstd = zstandard()
        self._packer = self._zstd.ZstdCompressor(level=LEVEL).compressobj()
        self._packed: list[bytes] = []
        self._unpacked = 0
        self._packed_bytes = self._unpacked_bytes = 0
        self._put(FILE_HEADER.pack(MAGIC, VERSION))
        self.bytes = FILE_HEADER.size
        """How long the file is."""

    @property
    def waiting(self) -> int:
        """Bytes, unpacked, that `flush` would write."""
        return self._unpacked

    def write(self, head: dict[str, Any], *body: bytes | memoryview) -> None:
        """Put a record, its body in parts, into the chunk that is being made.

        Raises:
            RecordingError: its head is longer than `HEAD_BYTES_MAX`, so that no reader would accept it.
        """
        text = json.dumps(head, separators=(",", ":")).encode()
        if len(text) > HEAD_BYTES_MAX:
            raise RecordingError(f"a record's head has {len(text)} bytes, and readers accept {HEAD_BYTES_MAX}")
        length = sum(len(part) for part in body)
        for part in (RECORD_HEADER.pack(len(text), length) + text, *body):
            self._packed.append(self._packer.compress(part))
            self._unpacked += len(part)

    def flush(self) -> None:
        """Write what was put in since the last time.

        Raises:
            OSError: it cannot be written.
            RecordingError: its ratio is beyond `treadle.files.bound`, so that no reader would accept it.
        """
        if not self._unpacked:
            return
        packed = b"".join([*self._packed, self._packer.flush(self._zstd.COMPRESSOBJ_FLUSH_BLOCK)])
        unpacked, self._packed, self._unpacked = self._unpacked, [], 0
        self._packed_bytes += len(packed)
        self._unpacked_bytes += unpacked
        if self._unpacked_bytes > bound(self._packed_bytes):
            raise RecordingError(f"frames pack into less than 1/{RATIO_MAX} of their size, which no reader accepts")
        self._put(CHUNK_HEADER.pack(len(packed), unpacked, zlib.crc32(packed)) + packed)
        self._stream.flush()
        self.bytes += CHUNK_HEADER.size + len(packed)

    def _put(self, data: bytes) -> None:
        """Write all of it: a disk that is nearly full takes a part, and refuses only the next one."""
        left = memoryview(data)
        while left:
            left = left[self._stream.write(left) :]


class ChunkReader:
    """Reads records from a stream, up to where it ends or is damaged."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        """Read how the file begins; ``name`` is what errors call it.

        Raises:
            EmptySegmentError: it ends before it has begun.
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
        """Why nothing was read beyond some place; empty if all was."""

    def records(self) -> Iterator[Record]:
        """Yield all records that are whole."""
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


class SegmentFile(NamedTuple):
    """A segment's file, as its name says."""

    path: Path
    began: datetime
    process: int
    number: int


def prepare(folder: Path) -> None:
    """Make a folder that nobody else may look into, if it is not there.

    Raises:
        OSError: it cannot be made.
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
    paths = [each.path for each in _segment_files(place)] if place.is_dir() else []
    if not paths:
        what = "has no segments of a recording" if place.is_dir() else "is not there"
        raise RecordingError(f"{place} {what}; name a file {SUFFIX}, or the folder of `record.folder`")
    return paths


def tidy(folder: Path, size_max: int, age_max: timedelta, now: datetime, keep: Path) -> int:
    """Remove the oldest segments until the others are neither too large nor too old; return how many bytes are left.

    ``keep`` is not removed.
    """
    files = [(each, each.path.stat().st_size) for each in _segment_files(folder)]
    left = sum(size for _, size in files)
    for each, size in files:
        if each.path == keep or (left <= size_max and now - each.began <= age_max):
            continue
        each.path.unlink(missing_ok=True)
        left -= size
    return left


def _segment_files(folder: Path) -> list[SegmentFile]:
    files = []
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file() and not path.is_symlink():
            began = datetime.strptime(f"{match[1]}000", _TIME).replace(tzinfo=UTC)
            files.append(SegmentFile(path, began, int(match[2]), int(match[3])))
    return sorted(files, key=lambda each: (each.began, each.process, each.number))


BESIDE: Final[Mapping[str, type[Any]]] = {
    each.__name__: each
    for each in (
        events.TaskEstimates,
        events.TaskClaims,
        events.PlanRanks,
        events.StageInputs,
        events.TaskInputs,
        events.Samples,
    )
}
"""Events that come beside frames."""

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
    beside: list[_Event] = []


@dataclass(slots=True)
class Reading:
    """The outcome of reading treadle.yaml again, in the tick in which it was taken over or refused."""

    source: Source | None = None
    """None: the defaults are followed, or it was refused."""
    refusal: str = ""
    """Why it was refused."""
    name: str = ""
    """The policy's name; empty where it was refused, and in recordings of earlier releases."""


@dataclass(slots=True)
class Tick:
    """A frame, what entered beside it, and its answer."""

    frame: bytes
    """Without keys of attempts."""
    reply_max_bytes: int | None
    """No answer is longer, from this one on; None: as before."""
    answer: bytes = b""
    decide_us: int = 0
    asks_snapshot: bool = False
    """The answer asks for a snapshot, with which another segment begins."""
    refused: bool = False
    """Somebody else wants a snapshot, for which the frame was refused."""
    reading: Reading | None = None
    beside: list[Event] = field(default_factory=list)
    known: str | None = None
    """What is known beside frames, as the status says it; None: as in the tick before."""
    warnings: tuple[str, ...] | None = None
    """What others than the engine warn of, in the status; None: as in the tick before."""
    switches: list[PolicySwitch] = field(default_factory=list)
    """Parts from files that were stopped in this decision, or failed."""


@dataclass(slots=True)
class Segment:
    """How a segment begins."""

    number: int
    """Of this process, from 1."""
    engine: str
    """One of several engines; empty: the first or only one."""
    began: str
    """UTC, ISO 8601."""
    follows: bool
    """Does its first frame follow the last one of the segment before?"""
    dropped: int
    """Frames since the segment before that were answered and are in no recording."""
    why: str
    """Why it begins."""
    engine_hash: str
    schema_hash: str
    versions: Mapping[str, str]
    process: int = 0
    fresh: bool = False
    """Is its first frame the first one that the sidecar took, so that the engine had learned nothing before it?"""
    keys_for: Sequence[str] = ()
    """Types of the applications whose keys the frames should bring; the keys are in no recording."""


_SEGMENT: Final = TypeAdapter(Segment)


class Cost(NamedTuple):
    """CPU time, microseconds, since a process began to record; kept where a segment ends."""

    beside_us: int = 0
    """On the thread that decides."""
    writing_us: int = 0
    """On the writer's thread."""
    process_us: int = 0
    """Of the whole process."""

    @property
    def share(self) -> float | None:
        """What part of the process's CPU time recording was; None if that is not known."""
        return (self.beside_us + self.writing_us) / self.process_us if self.process_us else None


def end_head(why: str, cost: Cost) -> dict[str, Any]:
    """Return the head of the record with which a segment ends."""
    return {"kind": "end", "why": why, "cost_us": list(cost)}


def read_cost(record: Record) -> Cost:
    """Return what recording had cost when a segment ended; zeros if it does not say so."""
    costs = record.head.get("cost_us", ())
    return Cost(*costs) if len(costs) == len(Cost()) and all(isinstance(each, int) for each in costs) else Cost()


@dataclass(slots=True)
class SettingsText:
    """What settings a segment begins with were read from."""

    source: Source | None
    name: str
    """The policy's name."""


def segment_record(segment: Segment) -> dict[str, Any]:
    """Return the head of a segment's record."""
    return {"kind": "segment"} | {each.name: getattr(segment, each.name) for each in fields(Segment)}


def read_segment(record: Record) -> Segment:
    """Return how a segment begins; keys that this release does not know are left out.

    Raises:
        RecordingError: it does not say so.
    """
    known = {each.name for each in fields(Segment)}
    try:
        return _SEGMENT.validate_python({key: value for key, value in record.head.items() if key in known})
    except ValueError as error:
        raise RecordingError(f"a segment without a valid header: {_said(error)}") from error


def _said(error: Exception) -> str:
    """Return what is wrong with a record, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}"


def text_of(settings: Settings) -> SettingsText:
    """Return what settings were read from."""
    return SettingsText(settings.source, settings.policy.name())


def settings_record(settings: SettingsText) -> tuple[dict[str, Any], Body]:
    """Return a record of what settings were read from."""
    source, body = _written_source(settings.source)
    return {"kind": "settings", "name": settings.name, "source": source}, body


def read_settings_text(record: Record) -> SettingsText:
    """Return what settings were read from.

    Raises:
        RecordingError: it does not say so.
    """
    try:
        head = _Settings.model_validate(record.head)
    except ValueError as error:
        raise RecordingError(f"settings that cannot be read: {_said(error)}") from error
    return SettingsText(_read_source(head.source, record.body), head.name)


def _written_source(source: Source | None) -> tuple[Any, Body]:
    if source is None:
        return None, []
    contents = list(source.part_files.values())
    return {
        "file": source.file,
        "text": source.text,
        "part_files": [[path, len(content)] for path, content in source.part_files.items()],
    }, list(contents)


def _read_source(written: _Source | None, body: bytes) -> Source | None:
    if written is None:
        return None
    files, at = {}, 0
    for path, length in written.part_files:
        files[path] = body[at : at + length]
        at += length
    return Source(written.file, written.text, files)


def tick_record(tick: Tick) -> tuple[dict[str, Any], Body]:
    """Return the record of a tick; what is empty is left out of its head."""
    body: Body = [tick.frame, tick.answer]
    head: dict[str, Any] = {
        "kind": "tick",
        "frame": len(tick.frame),
        "answer": len(tick.answer),
        "us": tick.decide_us,
        "max": tick.reply_max_bytes,
    }
    if tick.asks_snapshot:
        head["asks"] = True
    if tick.refused:
        head["refused"] = True
    if tick.known is not None:
        head["known"] = tick.known
    if tick.warnings is not None:
        head["warnings"] = list(tick.warnings)
    if tick.switches:
        head["switches"] = [[each.sequence, each.call, each.policy, each.reason] for each in tick.switches]
    if tick.reading is not None:
        source, contents = _written_source(tick.reading.source)
        read = {"source": source, "refusal": tick.reading.refusal, "bytes": sum(map(len, contents))}
        head["reading"] = read | ({"name": tick.reading.name} if tick.reading.name else {})
        body += contents
    if tick.beside:
        head["beside"] = [_written_event(event, body) for event in tick.beside]
    return head, body


def read_tick(record: Record) -> Tick:
    """Return a tick.

    Raises:
        RecordingError: it is none.
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
            tick.reading = Reading(_read_source(reading.source, body[at:end]), reading.refusal, reading.name)
            at = end
        for written in head.beside:
            event, at = _read_event(written, body, at)
            tick.beside.append(event)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RecordingError(f"a tick that cannot be read: {_said(error)}") from error
    return tick


def _written_event(event: Event, body: Body) -> dict[str, Any]:
    """Return the head of an event beside frames; its columns go to the end of the body."""
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
    """Return an event and where its columns end; a column that this release does not know is left out."""
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
