"""What an estimator is; those that SLearn (NSDI 2022) compares, and one of ours that combines pilots and history."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, log, sqrt
from typing import Final, Protocol

import numpy as np

from treadle.workload.job import JobFeatures
from treadle_lab.readers.estimators.estimator import Durations, Estimate, Samples, estimate_of
from treadle_lab.readers.estimators.three_sigma import THIN_LIMIT, History

VARIATION_DEGREES: Final = 2.0
"""As how many degrees of freedom the variation within earlier jobs counts beside that of a job's own pilots."""
SIGMA_MIN: Final = 1e-3


class Estimator(Protocol):
    """Says how long a job's tasks run. It keeps no state: what it learned is in the history."""

    @property
    def needs(self) -> Samples:
        """What ``samples`` must be."""

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return an estimate; None if there is nothing to go by, or if the job needs none.

        Args:
            features: of the job.
            history: of jobs that ended before it came.
            samples: durations of its tasks that have run, in milliseconds, shape (any,).
        """


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """Knows nothing (LAS, FIFO)."""

    needs: Samples = Samples.NONE

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return None."""
        return None


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows all: ``samples`` must be the durations of all tasks."""

    needs: Samples = Samples.ALL

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return the true mean."""
        return estimate_of(float(samples.mean()), 0.0) if len(samples) else None


@dataclass(frozen=True, slots=True)
class Pilots:
    """The mean of the pilots (section 5.1.2), with the standard error that their number and variation give it.

    The standard error is s / sqrt(m) * sqrt(1 - m / width), the last for drawing without replacement. One pilot says
    nothing of s, and few say little: s is estimated together with the variation within earlier jobs.
    """

    needs: Samples = Samples.PILOTS

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return the mean of the samples; None if there is none."""
        count = len(samples)
        mean_ms = float(samples.mean()) if count else 0.0
        if mean_ms <= 0.0:
            return None
        own = float(np.square(samples / mean_ms - 1.0).sum())
        left = max(0.0, 1.0 - count / features.width) if features.width else 1.0
        degrees = count - 1 + VARIATION_DEGREES
        errors = [
            sqrt((own + VARIATION_DEGREES * variation**2) / degrees * left / count)
            for variation in (history.variation(features, 0.5), history.variation(features, 0.9))
        ]
        return estimate_of(mean_ms, *errors)


@dataclass(frozen=True, slots=True)
class ThreeSigma:
    """3Sigma: the distribution of the feature with the least past error, seen through 1 / runtime squared."""

    needs: Samples = Samples.NONE

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return the best expert's estimate; None if no earlier job has a feature in common."""
        return _from_history(features, history, "utility")


@dataclass(frozen=True, slots=True)
class ThreeSigmaTL:
    """3Sigma with SLearn's way with thin jobs: they need no estimate and go straight to the highest queue."""

    thin_limit: int = THIN_LIMIT
    needs: Samples = Samples.NONE

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return None for a thin job, else as `ThreeSigma`."""
        return None if features.width < self.thin_limit else _from_history(features, history, "utility")


@dataclass(frozen=True, slots=True)
class PointEstimate:
    """As 3Sigma, but with the median in place of the utility."""

    needs: Samples = Samples.NONE

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return the best expert's median; None if no earlier job has a feature in common."""
        return _from_history(features, history, "median")


@dataclass(frozen=True, slots=True)
class EarlierMedian:
    """The median of earlier jobs of the same application, else of the same user, else of all: a yardstick of ours.

    3Sigma must not be worse than this, or it is not at its full strength.
    """

    needs: Samples = Samples.NONE

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return the median, with no idea of its error; None if there is no earlier job."""
        median_ms = history.median_ms(features)
        return None if median_ms is None else estimate_of(median_ms, 1.0)


@dataclass(frozen=True, slots=True)
class Combined:
    """Ours: pilots and history, each with the weight of its certainty.

    The logarithms of both are averaged by inverse variance: the pilots' variance is their standard error's square, the
    history's the mean square of its expert's past errors. Whichever is missing, the other speaks alone.
    """

    needs: Samples = Samples.PILOTS

    def estimate(self, features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
        """Return the combination; None if there are neither pilots nor history."""
        return combined(
            Pilots().estimate(features, history, samples), PointEstimate().estimate(features, history, samples)
        )


def combined(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """Return two independent estimates of the same as one, by inverse variance of their logarithms."""
    if one is None or other is None:
        return one if other is None else other
    weights = [1.0 / max(SIGMA_MIN, found.sigma) ** 2 for found in (one, other)]
    shares = [weight / sum(weights) for weight in weights]
    mean = shares[0] * log(one.mean_ms) + shares[1] * log(other.mean_ms)
    wide = hypot(shares[0] * one.wide_sigma, shares[1] * other.wide_sigma)
    return estimate_of(exp(mean), 1.0 / sqrt(sum(weights)), wide)


def scaled_by_history(later: Estimate, sampled: Estimate, first: Estimate) -> Estimate:
    """Return the estimate of a later stage of a DAG whose first stage was sampled (SLearn-DAG, section 6).

    Args:
        later: history's estimate of the later stage.
        sampled: the pilots' estimate of the first stage.
        first: history's estimate of the first stage.
    """
    ratio = sampled.mean_ms / first.mean_ms
    return estimate_of(
        later.mean_ms * ratio, hypot(later.sigma, sampled.sigma), hypot(later.wide_sigma, sampled.wide_sigma)
    )


ESTIMATORS: Final[dict[str, Estimator]] = {
    "none": NoEstimate(),
    "oracle": Oracle(),
    "pilots": Pilots(),
    "3sigma": ThreeSigma(),
    "3sigma-tl": ThreeSigmaTL(),
    "point": PointEstimate(),
    "median": EarlierMedian(),
    "combined": Combined(),
}


def _from_history(features: JobFeatures, history: History, point: str) -> Estimate | None:
    found = history.predict(features, point)
    return None if found is None else estimate_of(found.mean_ms, max(SIGMA_MIN, found.sigma), found.wide_sigma)
