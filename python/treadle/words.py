"""Words of messages to a user: how many there are of something, how long it takes, which word may have been meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and what it counts: ``1 history``, ``2 histories``.

    Args:
        number: how many
        one: the noun of one of them
        many: that of several; with an ``s`` if left out
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def in_time(duration_ms: float) -> str:
    """Return a duration in words, to two units: ``0 s``, ``1 min 5 s``, ``2 h 10 min``."""
    seconds = round(duration_ms / 1000)
    for unit, size, less, part in (("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {less}" if rest else "")
    return f"{seconds} s"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` with the word nearest to one that is not known; empty if none is near."""
    near = get_close_matches(word, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
