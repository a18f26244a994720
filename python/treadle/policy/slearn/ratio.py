"""How large a part of a job is sampled: a fixed ratio, or SLearn's adaptive one (NSDI 2022, figure 4)."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

START: Final = (3.0, 2.0, 4.0)
"""Percent of the first T jobs, the second and the third."""
GAIN: Final = 1.1
"""By how much less than 3 % may have cost that going further in the same direction is tried."""


class Ratio(Protocol):
    """Says how many percent of a job's tasks are pilots."""

    def next_percent(self) -> float:
        """Return the ratio for one more job."""

    def ended(self, percent: float, normalised: float) -> None:
        """Learn from a job that was sampled at this ratio: its completion time over its tasks' total time."""


class FixedRatio:
    """Always the same."""

    def __init__(self, percent: float) -> None:
        self._percent = percent

    def next_percent(self) -> float:
        """Return the ratio."""
        return self._percent

    def ended(self, percent: float, normalised: float) -> None:
        """Learn nothing."""


class AdaptiveRatio:
    """The ratio that has cost least of late, from 1 to 5 %.

    The first T jobs have 3 %, the second 2 % and the third 4 %; then each has the ratio with the least mean
    normalised completion time of its last T jobs. If that is 2 % and 3 % costs more than 1.1 times as much, 1 %
    is tried, and likewise 5 % beyond 4 %. Of equals the smaller ratio is taken, and 3 % while no job has ended; the
    paper leaves both open.
    """

    def __init__(self, jobs: int = 100) -> None:
        """Begin; ``jobs`` is T."""
        self._jobs = jobs
        self._begun = 0
        self._scores: dict[float, deque[float]] = {}

    def next_percent(self) -> float:
        """Return the ratio for one more job."""
        turn = self._begun // self._jobs
        if turn < len(START):
            self._begun += 1
            return START[turn]
        means = {percent: sum(scores) / len(scores) for percent, scores in sorted(self._scores.items())}
        if not means:
            return START[0]
        best = min(means, key=means.__getitem__)
        tried_further = {2.0: 1.0, 4.0: 5.0}.get(best)
        if tried_further is not None and GAIN * means[best] < means.get(3.0, 0.0):
            return tried_further
        return best

    def ended(self, percent: float, normalised: float) -> None:
        """Learn from a job that was sampled at this ratio: its completion time over its tasks' total time."""
        self._scores.setdefault(percent, deque(maxlen=self._jobs)).append(normalised)
