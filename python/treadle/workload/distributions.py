"""How sizes and durations are distributed: a few families with known means, all drawn from a given generator."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log, log1p, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treadle.workload.traces.errors import WorkloadError


class Distribution(Protocol):
    """Positive numbers, as they are drawn and on average."""

    @property
    def mean(self) -> float:
        """The expected value."""

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers, shape (count,)."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    value: float

    def __post_init__(self) -> None:
        _positive("Constant", value=self.value)

    @property
    def mean(self) -> float:
        """The value itself."""
        return self.value

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return the value ``count`` times."""
        return np.full(count, self.value)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Without memory; the gaps of Poisson arrivals."""

    mean: float

    def __post_init__(self) -> None:
        _positive("Exponential", mean=self.mean)

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers."""
        return generator.exponential(self.mean, count)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A moderate tail, given by its mean and its coefficient of variation (deviation over mean)."""

    mean: float
    variation: float

    def __post_init__(self) -> None:
        _positive("Lognormal", mean=self.mean)
        if not 0.0 <= self.variation < float("inf"):
            raise WorkloadError(f"Lognormal: variation is {self.variation}; it must be 0 or more")

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers."""
        variance = log1p(self.variation**2)
        return generator.lognormal(log(self.mean) - variance / 2, sqrt(variance), count)


@dataclass(frozen=True, slots=True)
class BoundedPareto:
    """A long tail, P(X > x) falling as x to the power -tail, between two bounds.

    With a tail near 1 a few jobs bring most of the work, as in the traces of big clusters.
    """

    tail: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _positive("BoundedPareto", tail=self.tail, low=self.low, high=self.high)
        if self.low >= self.high:
            raise WorkloadError(f"BoundedPareto: low is {self.low}; it must be less than high, {self.high}")

    @property
    def mean(self) -> float:
        """The expected value."""
        # low * tail * integral of x^-tail from 1 to ratio, over the probability between the bounds; expm1 keeps it
        # exact as the tail goes to 1, where the integral becomes a logarithm.
        ratio = log(self.high / self.low)
        exponent = 1.0 - self.tail
        integral = expm1(exponent * ratio) / exponent if exponent else ratio
        return self.low * self.tail * integral / -expm1(-self.tail * ratio)

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers, by the inverse of the distribution function."""
        uniform = generator.random(count)
        ratio = log(self.high / self.low)
        drawn = self.low * (1.0 + uniform * expm1(-self.tail * ratio)) ** (-1.0 / self.tail)
        return np.clip(drawn, self.low, self.high)


def whole(drawn: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return numbers rounded to whole ones, at least 1."""
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def _positive(family: str, **values: float) -> None:
    for name, value in values.items():
        if not 0.0 < value < float("inf"):
            raise WorkloadError(f"{family}: {name} is {value}; it must be a number above 0")
