"""How uncertain a figure over seeds is: the bootstrap, which draws seeds with replacement and looks at the spread.

The random numbers come from a fixed seed: equal values give equal intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64

RESAMPLES: Final = 10_000
LEVEL: Final = 0.95
FEW: Final = 5
"""With fewer seeds than this an interval by the bootstrap is too narrow."""


class Interval(NamedTuple):
    """A figure with its 95 % interval; all three alike for a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the figure, and the interval if there is one."""
        return f"{self.mean:.4g}" if self.low == self.high else f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g})"

    def as_json(self) -> dict[str, float | None]:
        """Return the figure and the interval; what is not a number is null."""
        return {name: value if np.isfinite(value) else None for name, value in self._asdict().items()}


def bootstrap(values: Sequence[float] | F64) -> Interval:
    """Return the mean of one value a seed, and its interval; values that are not finite are left out."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return _interval(lambda at: known[at].mean(axis=-1), len(known))


def bootstrap_difference(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Interval:
    """Return the mean of the differences of ``values`` less ``others``, one pair a seed, and its interval.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)
    return bootstrap(one - two)


def bootstrap_ratio(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Interval:
    """Return the mean of ``values`` over the mean of ``others``, one pair a seed, and its interval.

    Both means are drawn by the same seeds: what makes a seed slow for both does not widen the interval.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)

    def ratio(at: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return one[at].mean(axis=-1) / two[at].mean(axis=-1)

    return _interval(ratio, len(one))


def _pairs(values: Sequence[float] | F64, others: Sequence[float] | F64) -> tuple[F64, F64]:
    one, two = np.asarray(values, np.float64), np.asarray(others, np.float64)
    if one.shape != two.shape:
        raise ValueError(f"{len(one)} values and {len(two)} others: give one pair a seed")
    both = np.isfinite(one) & np.isfinite(two)
    return one[both], two[both]


def _interval(figure: Callable[[Any], Any], count: int) -> Interval:
    """Return a figure of all seeds and the percentiles of that of drawn ones; ``figure`` takes places of seeds."""
    if count == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    mean = float(figure(np.arange(count)))
    if count == 1:
        return Interval(mean, mean, mean)
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    spread = figure(drawn)
    spread = spread[np.isfinite(spread)]
    if not len(spread):
        return Interval(mean, float("nan"), float("nan"))
    low, high = np.quantile(spread, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean, float(low), float(high))
