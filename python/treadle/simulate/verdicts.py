"""Is a policy better than a baseline? Student's t over log ratios of paired draws; *undecided* is an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, isfinite, log, nan, sqrt
from typing import Final, Literal

import numpy as np

from treadle.compiled.array_types import F64
from treadle.simulate.statistics import FEW, student

RESOLVED: Final = 0.02
"""The difference for which `Verdict.needed` draws are enough."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure under a policy over the same figure under a baseline, draw by draw; changes are in per cent."""

    draws: int
    change: float
    """By the geometric mean of the ratios; below 0 the policy's figure is smaller."""
    low: float
    high: float
    """The 95 % interval of the change; infinite for a single draw."""
    needed: int | None
    """Draws for an interval of 2 % to either side, with the deviation of these draws; None: it is not known."""

    @property
    def word(self) -> Literal["less", "more", "undecided"]:
        """Return on which side of 0 the whole interval lies."""
        if self.high < 0.0:
            return "less"
        return "more" if self.low > 0.0 else "undecided"

    @property
    def half_width(self) -> float:
        """Return half the interval's width."""
        return (self.high - self.low) / 2

    @property
    def change_text(self) -> str:
        """Return the change; - without draws."""
        return f"{self.change:+.1f} %" if self.draws else "-"

    @property
    def interval_text(self) -> str:
        """Return the interval; - for fewer than two draws."""
        return f"{self.low:+.1f} to {self.high:+.1f}" if isfinite(self.high) else "-"

    def __str__(self) -> str:
        """Return change and half width, whether it is undecided and the draws that 2 % needs; draws if they are few."""
        if not self.draws:
            return "-"
        half = f" ±{self.half_width:.1f}" if isfinite(self.half_width) else ""
        notes: list[str] = [self.word] if self.word == "undecided" else []
        if notes and self.needed is not None:
            notes.append(f"2 % needs {self.needed} draws")
        if self.draws < FEW:
            notes.append(f"only {self.draws}")
        return ", ".join([f"{self.change_text}{half}", *notes])


LATER: Final = 1.1
"""A job ends later than under the baseline if it takes more than this many times as long."""


def lateness(took: F64, others: F64) -> tuple[float, float]:
    """Return the share of jobs that take over 10 % longer than under the baseline, and the worst ratio.

    Args:
        took: how long each job took
        others: the same jobs under the baseline
    """
    known = np.isfinite(took) & np.isfinite(others) & (others > 0)
    ratios = took[known] / others[known]
    return (float((ratios > LATER).mean()), float(ratios.max())) if len(ratios) else (nan, nan)


def verdict_of(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Verdict:
    """Return the verdict on ``values`` against ``others``, one pair a draw; only positive ratios count.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = np.asarray(values, np.float64), np.asarray(others, np.float64)
    if one.shape != two.shape:
        raise ValueError(f"{len(one)} values and {len(two)} others: give one pair a draw")
    known = (one > 0) & (two > 0) & np.isfinite(one) & np.isfinite(two)
    logs = np.log(one[known] / two[known])
    count = len(logs)
    if not count:
        return Verdict(0, nan, nan, nan, None)
    mean = float(logs.mean())
    if count == 1:
        return Verdict(1, _percent(mean), -inf, inf, None)
    deviation = float(logs.std(ddof=1))
    half = student(count - 1) * deviation / sqrt(count)
    return Verdict(count, _percent(mean), _percent(mean - half), _percent(mean + half), _needed(deviation))


def _percent(ratio: float) -> float:
    return 100.0 * (exp(ratio) - 1.0)


def _needed(deviation: float) -> int:
    """Return the least number of draws whose interval of log ratios is `RESOLVED` to either side."""
    wanted, count = log(1.0 + RESOLVED), 2
    while student(count - 1) * deviation / sqrt(count) > wanted:
        # the t of fewer draws is larger, so that this never goes beyond the least number
        count = max(count + 1, ceil((student(10**6) * deviation / wanted) ** 2))
    return count
