"""The lines of Spark event logs: plain or compressed by zstd, one file or a folder of rolled ones."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from treadle.errors import UserError
from treadle.history.importers.files import Files, check_unpacked
from treadle.history.importers.outcome import BrokenHistoryError, lines

FOLDER_PREFIX: Final = "eventlog_v2_"
CODECS: Final = ("zstd", "lz4", "lzf", "snappy")
"""Names that Spark gives to logs by how they are compressed (``spark.eventLog.compression.codec``)."""

_PART_BYTES: Final = 1 << 10
"""Of a compressed file that are read at a time: little, since they may stand for many thousand times as many."""

WINDOW_BYTES_MAX: Final = 128 << 20
"""How far back a frame may refer, which is the memory that it takes; more than any level of Spark's sets."""

_PART = re.compile(r"events_(?P<number>\d+)_.+?(?P<compact>\.compact)?")


def event_lines(path: Path, files: Files) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of an application's log with where each is, in order.

    The last file may end anywhere: it may be of an application that still runs, or was killed.

    Raises:
        BrokenHistoryError: there is none, or it is cut off or compressed in another way.
        OSError: it cannot be read.
    """
    parts = _parts(path) if path.is_dir() else [path]
    for part in parts:
        where = f"{part.name}, line" if path.is_dir() else "line"
        with files.open(part) as file:
            frames = _Frames(file) if _is_zstd(part) else None
            for number, line in lines(io.BufferedReader(frames) if frames else file):
                yield f"{where} {number}", line
            if frames and frames.cut_off and part != parts[-1]:
                raise BrokenHistoryError(f"{part.name} is cut off")


def _parts(folder: Path) -> list[Path]:
    """Return the rolled files in order, from the last compacted one, which stands for those before it."""
    matches = ((part, _PART.fullmatch(_without_codec(part.name))) for part in folder.iterdir())
    found = sorted((int(match["number"]), match["compact"] is not None, part) for part, match in matches if match)
    if not found:
        raise BrokenHistoryError("no events_* files in the folder")
    start = max((number for number, compact, _ in found if compact), default=0)
    chosen = [part for number, compact, part in found if number > start or (number == start and compact)]
    numbers = [number for number, compact, _ in found if number > start or (number == start and compact)]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or (start == 0 and numbers[0] != 1):
        raise BrokenHistoryError("some of the events_* files are missing")
    return chosen


def _without_codec(name: str) -> str:
    stem, _, codec = name.rpartition(".")
    return stem if codec in CODECS else name


def _is_zstd(path: Path) -> bool:
    codec = path.name.removesuffix(".inprogress").removesuffix(".compact").rpartition(".")[2]
    if codec in CODECS and codec != "zstd":
        raise BrokenHistoryError(f"compressed by {codec}; set spark.eventLog.compression.codec to zstd for new logs")
    return codec == "zstd"


class _Frames(io.RawIOBase):
    """What the zstd frames of a stream hold. Spark flushes after each event of note, and each flush may end a frame."""

    def __init__(self, stream: BinaryIO) -> None:
        try:
            import zstandard  # only here: an extra
        except ImportError:
            raise UserError("logs compressed by zstd need zstandard; pip install 'treadle[history]'") from None
        self._stream = stream
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
        self._packed_bytes = self._unpacked_bytes = 0
        self._frame: Any = None
        self._left = self._content = b""
        self._at = 0
        """How much of the content was given."""
        self._error = zstandard.ZstdError

    @property
    def cut_off(self) -> bool:
        """Did the stream end within a frame?"""
        return self._frame is not None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._at == len(self._content):
            self._content, self._at = b"", 0
            part = self._left
            if not part:
                part = self._stream.read(_PART_BYTES)
                self._packed_bytes += len(part)
            if not part:
                return 0
            self._frame = self._frame or self._decompressor.decompressobj()
            try:
                self._content = self._frame.decompress(part)
            except self._error as error:
                raise BrokenHistoryError(f"{Path(self._stream.name).name}: {error}") from error
            self._unpacked_bytes += len(self._content)
            check_unpacked(self._packed_bytes, self._unpacked_bytes)
            self._left = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._content) - self._at)
        buffer[:count] = self._content[self._at : self._at + count]
        self._at += count
        return count
