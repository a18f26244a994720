"""Reading of files, possibly compressed: lines, fields, tables, JSON values, and locations of errors."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from treadle.dag import TwiceError, each_once
from treadle.errors import UserError


class WorkloadError(UserError):
    """A workload that cannot be read or generated; the text has location and remedy."""


def wrong(path: Path, where: str, text: str) -> WorkloadError:
    """Return the error for a location in a file: ``file: where: text``; an empty ``where`` is the whole file."""
    return WorkloadError(f"{path}: {where}: {text}" if where else f"{path}: {text}")


Progress = Callable[[float], None]
"""Called at intervals with the fraction of the file that is read, 0 to 1."""

_XZ: Final = b"\xfd7zXZ\x00"
_GZIP: Final = b"\x1f\x8b"
_REPORT_LINES: Final = 2_000
SAMPLE_CHARACTERS: Final = 20_000
CHARACTERS_MAX: Final = 1 << 30
"""Maximum length of a line, and of a file read as a whole: unpacked size may be thousands of times the packed one."""


def read_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, str]]:
    """Yield each nonempty line with its number from 1, without its end.

    Raises:
        WorkloadError: the file cannot be opened, is cut off or is not text.
    """
    number = 0
    try:
        with path.open("rb") as raw, _unpacked(raw) as text:
            size = max(1, path.stat().st_size)
            for number, line in enumerate(iter(partial(text.readline, CHARACTERS_MAX + 1), ""), 1):
                if len(line) > CHARACTERS_MAX:
                    raise wrong(
                        path, f"line {number}", f"longer than {CHARACTERS_MAX} characters; no workload has such"
                    )
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
            content = text.read(characters if characters >= 0 else CHARACTERS_MAX + 1)
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as error:
        raise _explained(path, 0, error) from None
    if len(content) > CHARACTERS_MAX:
        raise wrong(path, "", f"more than {CHARACTERS_MAX} characters; split it")
    return content


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of that name in a folder, plain or packed; None if there is none."""
    for ending in ("", ".xz", ".gz"):
        if (path := folder / f"{name}{ending}").is_file():
            return path
    return None


def needed_file(folder: Path, name: str, why: str) -> Path:
    """Return the file of that name in a folder, plain or compressed.

    Raises:
        WorkloadError: it is missing; the text says why it is needed.
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


MS_MAX = 2**53
"""Maximum time in ms: beyond it milliseconds are no longer exact in a float."""

TASKS_MAX = 10_000_000
"""Maximum number of tasks of all jobs of a file; a larger number is probably an error."""


@dataclass(frozen=True, slots=True)
class Place:
    """A record of a file."""

    path: Path
    line: int

    def wrong(self, field: str, text: str) -> WorkloadError:
        """Return the error for a field of this record."""
        return wrong(self.path, f"line {self.line}", f"{field}: {text}" if field else text)

    def count(self, field: str, text: str, least: int = 0) -> int:
        """Return a whole number of at least ``least``."""
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(field, f"{text[:40]!r} is not a whole number") from None
        if value < least:
            raise self.wrong(field, f"{value} is less than {least}")
        return value

    def amount(self, field: str, text: str) -> float:
        """Return a finite number that is not negative."""
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(field, f"{text[:40]!r} is not a number") from None
        if not 0.0 <= value < float("inf"):
            raise self.wrong(field, f"{text[:40]} must be finite and not negative")
        return value

    def time_ms(self, field: str, seconds: str) -> int:
        """Return seconds as milliseconds."""
        value = self.amount(field, seconds) * 1000
        if value > MS_MAX:
            raise self.wrong(field, f"{seconds[:40]} s is out of all reason; times are in seconds")
        return round(value)

    def durations_ms(self, field: str, seconds: str) -> npt.NDArray[np.int64]:
        """Return durations in seconds, separated by spaces, as milliseconds; each lasts at least one."""
        if not seconds:
            return np.zeros(0, np.int64)
        try:
            values = np.array(seconds.split(), np.float64) * 1000
        except ValueError as error:
            raise self.wrong(field, f"{error}; durations are numbers separated by spaces") from None
        if not np.all((values >= 0) & (values <= MS_MAX)):
            raise self.wrong(field, "durations must be finite seconds and not negative")
        return np.maximum(1, np.rint(values)).astype(np.int64)

    def columns(self, columns: Sequence[str], count: int) -> None:
        """Check the number of columns of a line."""
        if len(columns) != count:
            raise self.wrong("", f"{len(columns)} columns where {count} are wanted")


Model = TypeVar("Model", bound=BaseModel)

_PROBLEMS_MAX = 5


def read_values(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """Yield each value of a file with the line it starts in; a list at the top counts as its elements.

    Raises:
        WorkloadError: what `treadle.workload.reading` raises, or text that is no JSON, with its line.
    """
    text = read_text(path)
    decode = json.JSONDecoder(object_pairs_hook=each_once).raw_decode
    at = _skip(text, 0)
    line = 1 + text.count("\n", 0, at)
    while at < len(text):
        try:
            value, end = decode(text, at)
        except json.JSONDecodeError as error:
            raise wrong(
                path, f"line {error.lineno}", f"this is no JSON: {error.msg}; name the right format, or put it right"
            ) from None
        except RecursionError:
            raise wrong(path, f"line {line}", "the JSON is nested too deep") from None
        except TwiceError as error:
            raise wrong(path, f"line {line}", str(error)) from None
        if isinstance(value, list):
            for element in value:
                yield line, element
        else:
            yield line, value
        end = _skip(text, end)
        line += text.count("\n", at, end)
        at = end
        if progress is not None:
            progress(at / len(text))


def checked(model: type[Model], value: Any, path: Path, where: str) -> Model:
    """Return a value validated by the model.

    Raises:
        WorkloadError: it does not match; a line for each of the first problems, each naming file, location and field.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        lines = [_line(path, where, problem) for problem in error.errors()[:_PROBLEMS_MAX]]
        more = error.error_count() - len(lines)
        raise WorkloadError("\n".join([*lines, *([f"... and {more} more"] if more else [])])) from None


def _line(path: Path, where: str, problem: Any) -> str:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
    given = problem.get("input")
    shown = "" if isinstance(given, dict | list) or problem["type"] == "missing" else f" ({given!r:.60})"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] in ("model_type", "model_attributes_type"):  # whose message names an internal class
        message = f"there is {json.dumps(given, default=str)[:60]} where an object {{...}} must be"
    return str(wrong(path, where, f"{field}: {message}{shown}" if field else message))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def read_table(path: Path, header: str, progress: Progress | None = None) -> Iterator[tuple[Place, list[str]]]:
    """Yield the rows of a comma-separated table, which has no quotes, each with its place.

    Raises:
        WorkloadError: the first line is not ``header``, or a row has more or fewer columns.
    """
    columns = header.count(",") + 1
    first = True
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        if first:
            if line != header:
                raise place.wrong("", f"the header is {line[:80]!r}, not {header!r}")
            first = False
            continue
        fields = line.split(",")
        place.columns(fields, columns)
        yield place, fields
    if first:
        raise wrong(path, "", f"the table is empty; its first line should be {header!r}")
