"""Opens what readers read: plain, .xz or .gz, told by the content; counts how far a reader is."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from treadle.workload.traces.errors import WorkloadError, wrong

Progress = Callable[[float], None]
"""Called now and then with the share of the file that is read, 0 to 1."""

_XZ: Final = b"\xfd7zXZ\x00"
_GZIP: Final = b"\x1f\x8b"
_REPORT_LINES: Final = 2_000
SAMPLE_CHARACTERS: Final = 20_000


def read_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, str]]:
    """Yield each line that is not empty with its number from 1, without its end.

    Raises:
        WorkloadError: the file cannot be opened, is cut off or is no text.
    """
    number = 0
    try:
        with path.open("rb") as raw, _unpacked(raw) as text:
            size = max(1, path.stat().st_size)
            for number, line in enumerate(text, 1):
                if progress is not None and number % _REPORT_LINES == 0:
                    progress(min(1.0, raw.tell() / size))
                if line := line.strip():
                    yield number, line
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as error:
        raise _explained(path, number, error) from None
    if progress is not None:
        progress(1.0)


def read_text(path: Path, characters: int = -1) -> str:
    """Return a file's text, or the first of its characters; errors as of `read_lines`."""
    try:
        with path.open("rb") as raw, _unpacked(raw) as text:
            return text.read(characters)
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as error:
        raise _explained(path, 0, error) from None


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of that name in a folder, plain or packed; None if there is none."""
    for ending in ("", ".xz", ".gz"):
        if (path := folder / f"{name}{ending}").is_file():
            return path
    return None


def needed_file(folder: Path, name: str, why: str) -> Path:
    """Return the file of that name in a folder, plain or packed.

    Raises:
        WorkloadError: there is none; the text says why it is needed.
    """
    path = find_file(folder, name)
    if path is None:
        raise WorkloadError(f"{folder}: there is no {name} (nor .xz or .gz): {why}")
    return path


def _unpacked(raw: io.BufferedReader) -> io.TextIOWrapper:
    start = raw.read(len(_XZ))
    raw.seek(0)
    if start == _XZ:
        return io.TextIOWrapper(lzma.LZMAFile(raw), encoding="utf-8-sig")
    if start.startswith(_GZIP):
        return io.TextIOWrapper(gzip.GzipFile(fileobj=raw), encoding="utf-8-sig")
    return io.TextIOWrapper(raw, encoding="utf-8-sig")


def _explained(path: Path, line: int, error: Exception) -> WorkloadError:
    where = f"after line {line}" if line else ""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return wrong(path, where, "there is no such file")
    if isinstance(error, IsADirectoryError):
        return wrong(path, where, "this is a folder; name a file in it")
    if isinstance(error, UnicodeDecodeError):
        return wrong(path, where, "this is no UTF-8 text; a workload is text, plain or packed by xz or gzip")
    if isinstance(error, OSError) and error.strerror:
        return wrong(path, where, error.strerror)
    return wrong(path, where, f"the packed file is cut off or damaged ({error}); fetch it again")
