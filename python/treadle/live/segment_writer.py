"""Writes the segments of a recording, on a thread of its own (`treadle.live.recorder`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final

from treadle.config.settings import Record
from treadle.record.chunks import FILE_HEADER, ChunkWriter
from treadle.record.folder import create, prepare, tidy
from treadle.record.ticks import Body

FLUSH_BYTES: Final = 1 << 20
"""So much waits, unpacked, before it is written without waiting for more."""

Clock = Callable[[], datetime]


def utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class SegmentWriter:
    """The segment that is being written, in a folder within its bounds. For one thread."""

    def __init__(self, now: Clock = utc) -> None:
        self._now = now
        self._writer: ChunkWriter | None = None
        self._stream: IO[bytes] | None = None
        self._path = Path()
        self._closed_bytes = 0
        self.written = 0
        """Bytes that this process has written."""

    @property
    def bytes(self) -> int:
        """How long the segment is, with what waits taken as it is."""
        return 0 if self._writer is None else self._writer.bytes + self._writer.waiting // 8

    def begin(self, settings: Record, engine: str, number: int) -> None:
        """Begin a segment; of one of several engines in a folder of its name.

        Raises:
            OSError: it cannot be written.
            RecordingError: others may write to the folder, or there is no zstandard.
        """
        self.close()
        folder = Path(settings.folder)
        prepare(folder)
        if engine:
            folder /= engine
            prepare(folder)
        now = self._now()
        self._path, self._stream = create(folder, os.getpid(), number, now)
        self._writer = ChunkWriter(self._stream)
        room = (settings.size_mb - settings.segment_mb) << 20
        tidy(folder, room, timedelta(hours=settings.age_hours), now, self._path)

    def write(self, head: dict[str, Any], body: Body) -> None:
        """Write a record; nothing if no segment has begun. Raises OSError."""
        if self._writer is None:
            return
        self._writer.write(head, *body)
        if self._writer.waiting >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Let what was written be in the file. Raises OSError."""
        if self._writer is not None:
            self._writer.flush()
            self.written = self._closed_bytes + self._writer.bytes

    def close(self) -> None:
        """End the segment; one of which nothing was written goes. Raises OSError."""
        writer, self._writer = self._writer, None
        stream, self._stream = self._stream, None
        if stream is None:
            return
        try:
            if writer is not None:
                writer.flush()
                self._closed_bytes += writer.bytes
                self.written = self._closed_bytes
        finally:
            stream.close()
            if writer is None or writer.bytes <= FILE_HEADER.size:
                self._path.unlink(missing_ok=True)
