"""Commands run in the test's own process, with what they print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Protocol

from _pytest.capture import CaptureResult


class Cli(Protocol):
    """The fixture `cli`: runs a command, which must end with this exit code; returns what it printed."""

    def __call__(self, words: Sequence[str], code: int = 0) -> CaptureResult[str]: ...


def printed_json(*words: str) -> tuple[int, dict[str, Any]]:
    """Run a command in this process with ``--output=json``; return its exit code and the object that it printed.

    For tests that ask again and again: an interpreter for each question would take more than what is waited for.
    """
    from treadle.cli.main import run

    with redirect_stdout(StringIO()) as printed:
        code = run([*words, "--output=json"])
    return code, json.loads(printed.getvalue() or "{}")
