"""How long a search goes on: for a number of candidate schedules, or, outside of the engine, until a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Budget(Protocol):
    """Says whether a search may make another step."""

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""


@dataclass(frozen=True, slots=True)
class Schedules:
    """So many candidate schedules: the same plan on any machine."""

    most: int

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""
        return used + cost <= self.most


class Until:
    """Until a time of the monotonic clock, leaving out a step that would likely last beyond it.

    For command lines only: the plan depends on the machine. It tells how many schedules it took; that number as the
    budget gives the same plan again.
    """

    def __init__(self, milliseconds: float) -> None:
        self._start = time.perf_counter()
        self._seconds = milliseconds / 1000

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""
        elapsed = time.perf_counter() - self._start
        return elapsed * (used + cost) <= self._seconds * max(used, 1) and elapsed < self._seconds
