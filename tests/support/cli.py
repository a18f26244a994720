"""Commands run in the test's own process, with what they print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from _pytest.capture import CaptureResult


class Cli(Protocol):
    """The fixture `cli`: runs a command, which must end with this exit code; returns what it printed."""

    def __call__(self, words: Sequence[str], code: int = 0) -> CaptureResult[str]: ...
