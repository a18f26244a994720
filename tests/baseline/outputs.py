"""What is written down of a command: its output without what depends on the machine, and where two outputs differ."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from unittest import mock

from treadle.cli.main import run

LEFT_OUT: Final = frozenset({"seconds", "timing", "wall_s"})
"""Fields of results that differ between two runs of the same command: wall times and CPU times."""

CAUSE_LINES: Final = 5
"""How many lines of a difference are shown, of each side."""


def without_times(value: Any) -> Any:
    """Return a document without the fields of `LEFT_OUT`, at any depth."""
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in LEFT_OUT}
    if isinstance(value, list):
        return [without_times(each) for each in value]
    return value


def lines_of(document: Any) -> str:
    """Return a document as text with a line for each value, so that a difference is one line."""
    return json.dumps(without_times(document), indent=1, ensure_ascii=False) + "\n"


def printed_by(arguments: Sequence[str]) -> str:
    """Run a command of `treadle` in this process; return its exit code and what it printed."""
    out, error = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "120"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        code = run(list(arguments))
    return f"exit code {code}\n{out.getvalue()}{error.getvalue()}"


def results_of(arguments: Sequence[str], scratch: Path) -> str:
    """Run a command with ``--out FILE``; return its exit code and what it wrote to the file, without times."""
    file = scratch / "results.json"
    file.unlink(missing_ok=True)
    printed = printed_by([*arguments, "--out", str(file)])
    if not file.exists() or file.stat().st_size == 0:  # it is made before the work, and stays empty where that fails
        return printed
    return printed.partition("\n")[0] + "\n" + lines_of(json.loads(file.read_text("utf-8")))


def difference(before: str, after: str) -> str | None:
    """Return the number of the first line in which two texts differ and a few lines of both; None if they are equal."""
    pairs = zip_longest(before.splitlines(), after.splitlines())
    for number, (old, new) in enumerate(pairs, 1):
        if old != new:
            return "\n".join([f"line {number}", *_some("-", before, number), *_some("+", after, number)])
    return None if before == after else "the end of the last line"


def _some(sign: str, text: str, number: int) -> list[str]:
    lines = text.splitlines()[number - 1 :][:CAUSE_LINES]
    return [f"  {sign} {line[:200]}" for line in lines] or [f"  {sign} (nothing)"]
