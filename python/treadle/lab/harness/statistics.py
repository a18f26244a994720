"""A mean over seeds and how uncertain it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from treadle.errors import UserError


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


def check_intervals(option: str, count: int) -> None:
    """Check, before long work, that the interval of ``count`` values can be computed.

    Raises:
        UserError: scipy, an extra, is not installed; ``option`` says how many values there are to be.
    """
    if count > 1 and importlib.util.find_spec("scipy") is None:
        raise UserError(f"{option}: intervals need scipy; pip install 'treadle[reproduce]', or run a single one")


def interval_of(values: Sequence[float]) -> Interval:
    """Return the interval of one value a seed."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Interval(mean, mean, mean)
    half = _student(count - 1) * float(np.std(values, ddof=1)) / sqrt(count)
    return Interval(mean, mean - half, mean + half)


def ratio_of(parts: Sequence[float], wholes: Sequence[float]) -> Interval:
    """Return the mean of the parts over the mean of the wholes, one of each a seed; NaN if the wholes add up to 0.

    A seed whose whole is next to nothing does not weigh more than others, as it would in a mean of ratios. The
    interval is that of the deviations from the common ratio.
    """
    whole, count = float(np.mean(wholes)), len(wholes)
    if whole == 0.0:
        return Interval(float("nan"), float("nan"), float("nan"))
    ratio = float(np.mean(parts)) / whole
    if count < 2:
        return Interval(ratio, ratio, ratio)
    off = np.asarray(parts) - ratio * np.asarray(wholes)
    half = _student(count - 1) * float(np.std(off, ddof=1)) / sqrt(count) / abs(whole)
    return Interval(ratio, ratio - half, ratio + half)


def slope_of(lines: Sequence[Sequence[tuple[float, float]]]) -> Interval | None:
    """Return the slope that lines of points (x, y) have in common, each at a level of its own, by least squares.

    None if no line has two different x. There is no interval if all points are needed to draw the lines, or without
    scipy.
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
    if degrees < 1 or importlib.util.find_spec("scipy") is None:
        return Interval(slope, slope, slope)
    half = _student(degrees) * sqrt(rest / degrees / below)
    return Interval(slope, slope - half, slope + half)


def _student(degrees: int) -> float:
    """Return Student's t that 95 % lie within on both sides."""
    from scipy.special import (
        stdtrit,  # only here: scipy is an extra, and scipy.stats takes five times as long to import
    )

    return float(stdtrit(degrees, 0.975))
