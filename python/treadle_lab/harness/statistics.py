"""A mean over seeds and how uncertain it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from treadle.simulate import statistics


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
    return Interval(*statistics.interval_of(values))


def ratio_of(parts: Sequence[float], wholes: Sequence[float]) -> Interval:
    """Return the mean of the parts over the mean of the wholes, one of each a seed; NaN if the wholes add up to 0."""
    return Interval(*statistics.interval_of_ratio(parts, wholes))


def slope_of(lines: Sequence[Sequence[tuple[float, float]]]) -> Interval | None:
    """Return the slope that lines of points (x, y) have in common, each at a level of its own, by least squares.

    None if no line has two different x. There is no interval if all points are needed to draw the lines.
    """
    above = below = rest = 0.0
    fitted = [np.asarray(points, np.float64).T for points in lines]
    centred = [(x - x.mean(), y - y.mean()) for x, y in fitted]
    for x, y in centred:
        above += float((x * y).sum())
        below += float((x * x).sum())
    if below == 0.0:
        return None
    slope = above / below
    for x, y in centred:
        rest += float(((y - slope * x) ** 2).sum())
    degrees = sum(map(len, lines)) - len(lines) - 1
    if degrees < 1:
        return Interval(slope, slope, slope)
    half = statistics.student(degrees) * sqrt(rest / degrees / below)
    return Interval(slope, slope - half, slope + half)
