"""A mean over seeds and how uncertain it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Final, NamedTuple

import numpy as np

STUDENT_95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t that 95 % lie within on both sides, for 1, 2, ... degrees of freedom."""
NORMAL_95: Final = 1.96


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval by Student's t; all three alike for a single value."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the mean, and the interval if there is one."""
        return f"{self.mean:.3g}" if self.low == self.high else f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"

    def as_json(self) -> dict[str, Any]:
        """Return the mean and the interval."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


def interval_of(values: Sequence[float]) -> Interval:
    """Return the interval of one value a seed."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Interval(mean, mean, mean)
    degrees = count - 1
    student = STUDENT_95[degrees - 1] if degrees <= len(STUDENT_95) else NORMAL_95 + 2.6 / degrees
    half = student * float(np.std(values, ddof=1)) / sqrt(count)
    return Interval(mean, mean - half, mean + half)
