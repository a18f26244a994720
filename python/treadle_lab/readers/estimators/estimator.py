"""What an estimate is, and what one is made of."""

from __future__ import annotations

from enum import Enum
from math import exp, log
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Durations = npt.NDArray[np.int64]

Z90: Final = 1.6449
"""Deviations on either side of the mean that contain 90 % of a normal distribution."""

SIGMA_MAX: Final = 10.0
"""The most uncertain that an estimate is: a factor of e to the 10th."""


class Estimate(NamedTuple):
    """The mean duration of a job's tasks; times its tasks it is the job's size."""

    mean_ms: float
    low_ms: float
    """With high_ms it holds the true mean nine times of ten, if errors are as they were."""
    high_ms: float
    sigma: float
    """The typical error, as the deviation of the logarithm: 0.1 is about 10 %. Errors have long tails, so the interval
    is wider than a normal distribution of this deviation would make it."""

    @property
    def wide_sigma(self) -> float:
        """The deviation of the logarithm that the interval would have in a normal distribution."""
        return log(self.high_ms / self.low_ms) / (2 * Z90)


def estimate_of(mean_ms: float, sigma: float, wide_sigma: float | None = None) -> Estimate:
    """Return the estimate of a mean above 0 with these deviations of its logarithm; a single one is used for both."""
    wide = min(sigma if wide_sigma is None else max(sigma, wide_sigma), SIGMA_MAX)
    return Estimate(mean_ms, mean_ms * exp(-Z90 * wide), mean_ms * exp(Z90 * wide), min(sigma, SIGMA_MAX))


class Samples(Enum):
    """Which of a job's tasks must have run before an estimator says anything."""

    NONE = "none"
    PILOTS = "pilots"
    ALL = "all"
