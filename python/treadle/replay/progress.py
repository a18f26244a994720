"""How far a replay is, for whoever waits: a line now and then, however long it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Report = Callable[[str], None]
"""Takes what is being done."""

LINES: Final = 10
"""So many lines, or up to twice as many, whatever is counted."""


def to_nobody(_: str) -> None:
    """Report nothing."""


def counted_to(report: Report, total: int, text: str) -> Callable[[int], None]:
    """Return what reports ``text N of TOTAL`` when it is called with N, from 1; not with each where there are many."""
    every = max(1, total // LINES)

    def count(number: int) -> None:
        if (number - 1) % every == 0:
            report(f"{text} {number} of {total}")

    return count
