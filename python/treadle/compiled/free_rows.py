"""Rows of a table that are free again: a stack in an array, ``free[0]`` of them from ``free[1]`` on."""

from __future__ import annotations

from treadle.compiled.array_types import I32, I64
from treadle.compiled.functions import inner


@inner
def take_from(free: I32, next_unused: I64) -> int:
    """Return a free row: the one given back last, or the next that was never used."""
    if free[0] > 0:
        row = free[free[0]]
        free[0] -= 1
        return row
    next_unused[0] += 1
    return next_unused[0] - 1


@inner
def give_back(free: I32, row: int) -> None:
    """Let a row be used again; its own fields stay until then."""
    free[0] += 1
    free[free[0]] = row
