"""JSON values one after another in a file, as Hadoop's load simulator and Rumen write them, checked by a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from treadle.workload.traces.errors import WorkloadError, wrong
from treadle.workload.traces.source import Progress, read_text

Model = TypeVar("Model", bound=BaseModel)

_PROBLEMS_MAX = 5


def read_values(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """Yield each value of a file with the line it starts in; a list at the top counts as its elements.

    Raises:
        WorkloadError: what `treadle.workload.traces.source` raises, or text that is no JSON, with its line.
    """
    text = read_text(path)
    decode = json.JSONDecoder().raw_decode
    at = _skip(text, 0)
    line = 1 + text.count("\n", 0, at)
    while at < len(text):
        try:
            value, end = decode(text, at)
        except json.JSONDecodeError as error:
            raise wrong(path, f"line {error.lineno}", f"this is no JSON: {error.msg}") from None
        except RecursionError:
            raise wrong(path, f"line {line}", "the JSON is nested too deep") from None
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
    """Return a value as the model has it.

    Raises:
        WorkloadError: it does not fit; a line for each of the first problems, each naming file, place and field.
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
    return str(wrong(path, where, f"{field}: {message}{shown}" if field else message))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
