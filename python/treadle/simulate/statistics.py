"""How uncertain a figure over seeds is: 95 % intervals by Student's t, one value a seed."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64

FEW: Final = 10
"""With fewer seeds than this an interval says little: one odd seed may carry it."""

LEVEL: Final = 0.95
_STUDENT: Final = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
)
"""Student's t for 1 to 20 degrees of freedom."""


class Interval(NamedTuple):
    """A figure with its 95 % interval; all three are equal for a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the figure, and the interval if there is one."""
        return f"{self.mean:.4g}" if self.low == self.high else f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g})"

    def as_json(self) -> dict[str, float | None]:
        """Return the figure and the interval; what is not a number is null."""
        return {name: value if np.isfinite(value) else None for name, value in self._asdict().items()}


def student(degrees: int) -> float:
    """Return the t that Student's distribution lies within, on both sides, with probability 95 %."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    # Fisher's expansion about the normal distribution; from 21 degrees on it is off by less than one in 100,000
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def interval_of(values: Sequence[float] | F64) -> Interval:
    """Return the mean of one value a seed, and its interval; values that are not finite are left out."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return Interval(float("nan"), float("nan"), float("nan"))
    return _around(float(known.mean()), known)


def interval_of_difference(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Interval:
    """Return the mean of the differences of ``values`` less ``others``, one pair a seed, and its interval.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)
    return interval_of(one - two)


def interval_of_ratio(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Interval:
    """Return the mean of ``values`` over the mean of ``others``, one pair a seed, and its interval.

    The interval is that of the deviations of pairs from the common ratio: what makes a seed slow for both does not
    widen it, and a seed with a small value does not weigh more than others. NaN where the others add up to 0.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)
    base = float(two.mean()) if len(two) else 0.0
    if base == 0.0:
        return Interval(float("nan"), float("nan"), float("nan"))
    ratio = float(one.mean()) / base
    return _around(ratio, (one - ratio * two) / abs(base))


def _around(figure: float, values: F64) -> Interval:
    """Return a figure with the interval of the mean of values, whatever that mean is."""
    if len(values) == 1:
        return Interval(figure, figure, figure)
    half = student(len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    return Interval(figure, figure - half, figure + half)


def _pairs(values: Sequence[float] | F64, others: Sequence[float] | F64) -> tuple[F64, F64]:
    one, two = np.asarray(values, np.float64), np.asarray(others, np.float64)
    if one.shape != two.shape:
        raise ValueError(f"{len(one)} values and {len(two)} others: give one pair a seed")
    both = np.isfinite(one) & np.isfinite(two)
    return one[both], two[both]
