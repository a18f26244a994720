"""Does something grow? A straight line through what was measured after the first tenth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

GROWTH_MAX = 0.10
"""What a line may rise over the nine tenths, as a share of its mean, and still be called flat."""

R_MIN = 0.8
"""With less correlation than this a rise is noise."""


@dataclass(frozen=True)
class Trend:
    """A line: how it rises per thousand of what is on the x axis, its correlation, its rise as a share of the mean."""

    slope_per_thousand: float
    r: float
    growth: float

    @property
    def flat(self) -> bool:
        """Does it not grow?"""
        return self.growth <= GROWTH_MAX or self.r < R_MIN


def trend(x: Sequence[float], y: Sequence[float]) -> Trend:
    """Return the line through what comes after the first tenth of the x axis.

    Raises:
        ValueError: fewer than five values are left.
    """
    begin = x[0] + (x[-1] - x[0]) / 10
    later = [(a, b) for a, b in zip(x, y, strict=True) if a >= begin]
    if len(later) < 5:
        raise ValueError(f"{len(later)} values after the first tenth: measure for longer")
    mean_x = sum(a for a, _ in later) / len(later)
    mean_y = sum(b for _, b in later) / len(later)
    xx = sum((a - mean_x) ** 2 for a, _ in later)
    yy = sum((b - mean_y) ** 2 for _, b in later)
    xy = sum((a - mean_x) * (b - mean_y) for a, b in later)
    slope = xy / xx if xx else 0.0
    r = xy / sqrt(xx * yy) if xx and yy else 0.0
    growth = slope * (later[-1][0] - later[0][0]) / mean_y if mean_y else 0.0
    return Trend(1000 * slope, r, growth)
