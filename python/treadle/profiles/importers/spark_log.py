"""The lines of Spark event logs: plain or compressed by zstd, one file or a folder of rolled ones."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from treadle.errors import UserError
from treadle.profiles.importers.history import BrokenHistoryError, lines

FOLDER_PREFIX: Final = "eventlog_v2_"
CODECS: Final = ("zstd", "lz4", "lzf", "snappy")
"""Names that Spark gives to logs by how they are compressed (``spark.eventLog.compression.codec``)."""

_PART = re.compile(r"events_(?P<number>\d+)_.+?(?P<compact>\.compact)?")


def event_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of an application's log with where each is, in order.

    Raises:
        BrokenHistoryError: there is none, or it is cut off or compressed in another way.
        OSError: it cannot be read.
    """
    parts = _parts(path) if path.is_dir() else [path]
    for part in parts:
        where = f"{part.name}, line" if path.is_dir() else "line"
        with _opened(part) as stream:
            for number, line in lines(stream):
                yield f"{where} {number}", line


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


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    codec = path.name.removesuffix(".inprogress").removesuffix(".compact").rpartition(".")[2]
    if codec in CODECS and codec != "zstd":
        raise BrokenHistoryError(f"compressed by {codec}; set spark.eventLog.compression.codec to zstd for new logs")
    with path.open("rb") as stream:
        if codec != "zstd":
            yield stream
            return
        try:
            import zstandard  # only here: an extra
        except ImportError:
            raise UserError("logs compressed by zstd need zstandard; pip install 'treadle[history]'") from None
        try:
            # Spark flushes after each event of note, and each flush may end a frame.
            with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as reader:
                yield io.BufferedReader(cast(io.RawIOBase, reader))
        except zstandard.ZstdError as error:
            raise BrokenHistoryError(f"{path.name}: {error}") from error
