"""A file of chunks: each says how long it is and has a checksum, so that what was written before a crash is read.

The file begins with its magic and the version of all that follows. The chunks together are one zstd stream, so that
what was said before shortens what is said again; each ends where all that was put into it can be read. In the stream
are records: the lengths of a head and of a body, the head as JSON, the body as bytes. A record is whole in one chunk.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import IO, Any, Final

from treadle.errors import UserError, install_extra
from treadle.unpacking import RATIO_MAX, Unpacker, UnpackError, bound

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
            RecordingError: its ratio is beyond `treadle.unpacking.bound`, so that no reader would accept it.
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
            raise RecordingError(f"{name} is no recording of Treadle's")
        version = FILE_HEADER.unpack(header)[1]
        if version != VERSION:
            raise RecordingError(
                f"{name} is a recording of version {version}, and this release reads version {VERSION} alone; read it "
                "with the release that wrote it, or record again"
            )
        self.damage = ""
        """Why nothing was read beyond some place; empty if all was."""

    @property
    def room(self) -> int:
        """How many bytes the chunks that were read so far may unpack to: the most that a frame of theirs may become."""
        return self._unpacker.room

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
