"""Reading of files, possibly compressed: lines, fields, tables, JSON values, and locations of errors."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from treadle.dag import each_once
from treadle.errors import UserError


class WorkloadError(UserError):
    """A workload that cannot be read or generated; the text has location and remedy."""


def wrong(path: Path, where: str, text: str) -> WorkloadError:
    """Return the error for a location in a file: ``file: where: text``; an empty ``where`` is the whole file."""
    return WorkloadError(f"{path}: {where}: {text}" if where else f"{path}: {text}")


_XZ: Final = b"\xfd7zXZ\x00"
_GZIP: Final = b"\x1f\x8b"
SAMPLE_CHARACTERS: Final = 20_000
CHARACTERS_MAX: Final = 1 << 30
"""Maximum length of a line, and of a file read as a whole: unpacked size may be thousands of times the packed one."""


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each nonempty line with its number from 1, without its end.

    Raises:
        WorkloadError: the file cannot be opened, is cut off or is not text.
    """
    number = 0
    try:
        with path.open("rb") as raw, _unpacked(raw) as text:
            for number, line in enumerate(iter(partial(text.readline, CHARACTERS_MAX + 1), ""), 1):
                if len(line) > CHARACTERS_MAX:
                    raise wrong(
                        path, f"line {number}", f"longer than {CHARACTERS_MAX} characters; no workload has such"
                    )
                if line := line.strip():
                    yield number, line
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as error:
        raise _explained(path, number, error) from None


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


def _milliseconds(seconds: str) -> int:
    value = float(seconds) * 1000
    if not 0.0 <= value <= MS_MAX:
        raise ValueError("out of all reason; times are in seconds, and not negative")
    return round(value)


def _durations_ms(seconds: str) -> npt.NDArray[np.int64]:
    values = np.array(seconds.split(), np.float64) * 1000
    if not np.all((values >= 0) & (values <= MS_MAX)):
        raise ValueError("durations must be finite seconds and not negative")
    return np.maximum(1, np.rint(values)).astype(np.int64)


Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Milliseconds = Annotated[int, BeforeValidator(_milliseconds)]
"""In a file as seconds."""
Durations = Annotated[npt.NDArray[np.int64], PlainValidator(_durations_ms)]
"""Milliseconds, at least one each; in a file as seconds, separated by spaces."""


class Row(BaseModel):
    """A row of a table: fields are found by the names of its columns."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


Model = TypeVar("Model", bound=BaseModel)

_PROBLEMS_MAX = 5


def read_values(path: Path) -> Iterator[tuple[int, Any]]:
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
        except ValueError as error:  # a field is there twice, or a number has too many digits
            raise wrong(path, f"line {line}", str(error)) from None
        if isinstance(value, list):
            for element in value:
                yield line, element
        else:
            yield line, value
        end = _skip(text, end)
        line += text.count("\n", at, end)
        at = end


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


def read_rows(path: Path, model: type[Model], columns: str, *, headed: bool = True) -> Iterator[tuple[str, Model]]:
    """Yield the rows of a table without quotes, each with its place in the file.

    Args:
        path: the file.
        model: what a row is; columns that it lacks are not looked at.
        columns: their names, separated as the values are: by tabs, otherwise by commas. A name in brackets at the end
            may be missing.
        headed: whether they are the file's first line.

    Raises:
        WorkloadError: the first line is another, a row has more or fewer columns, or a value is wrong.
    """
    separator = "\t" if "\t" in columns else ","
    names = [name.strip("[]") for name in columns.split(separator)]
    counts = {len(names), len(names) - columns.endswith("]")}
    for number, line in read_lines(path):
        where, fields = f"line {number}", line.split(separator)
        if headed:
            if line != columns:
                raise wrong(path, where, f"the header is {line[:80]!r}, not {columns!r}")
            headed = False
            continue
        if len(fields) not in counts:
            raise wrong(path, where, f"{len(fields)} columns where {min(counts)} are wanted: {', '.join(names)}")
        yield where, checked(model, dict(zip(names, fields, strict=False)), path, where)
    if headed:
        raise wrong(path, "", f"the table is empty; its first line should be {columns!r}")
