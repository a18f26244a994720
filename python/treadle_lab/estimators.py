"""Estimators of task durations from earlier runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import exp, hypot, log, sqrt
from statistics import median
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Durations = npt.NDArray[np.int64]

Z90: Final = 1.6449
"""Deviations on either side of the mean that contain 90 % of a normal distribution."""

SIGMA_MAX: Final = 10.0
"""The most uncertain that an estimate is: a factor of e to the 10th."""


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """The properties of a new job: the six features of 3Sigma (SLearn, NSDI 2022, section 4.2)."""

    application: str
    """The program (in Google's trace the logical job name)."""
    name: str
    user: str
    submit_ms: int
    """As in the trace, not scaled: day and hour are features."""
    cpu: float
    """Requested by a task, in whatever unit the trace has; as ``memory``."""
    memory: float
    width: int
    """Number of tasks, including unfinished ones."""


@dataclass(frozen=True, slots=True, eq=False)
class JobRecord:
    """A job that has run."""

    id: str
    features: JobFeatures
    durations_ms: npt.NDArray[np.int64] = field(repr=False)
    """Durations of its tasks in ms, shape (tasks,), at least one."""

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.durations_ms)

    @property
    def mean_ms(self) -> float:
        """The mean duration of its tasks."""
        return float(self.durations_ms.mean())


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


WINDOWS: Final = (1, 8, 64, 256)
"""Latest jobs that an expert looks at."""
ERRORS_KEPT: Final = 128
ERROR_MAX: Final = 2.0
"""Cap of a log error, about a factor of 7: so one outlier does not silence an expert."""
PRIOR_WEIGHT: Final = 1.0
"""Weight of the error of all experts of a kind, in predictions of one expert."""
THIN_LIMIT: Final = 3
VARIATION: Final = 0.5
"""The coefficient of variation within a job before any was seen."""
VARIATIONS_KEPT: Final = 128
VARIATIONS_MIN: Final = 3
"""Jobs that must share a feature before their variation counts."""

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000

Point = Callable[[Collection[float]], float]
"""Makes one number of the means of earlier jobs."""


def utility_point(means_ms: Collection[float]) -> float:
    """Return the duration whose utility, 1 over its square, is the mean utility of the distribution (section 4.3)."""
    return 1.0 / sqrt(sum(mean**-2.0 for mean in means_ms) / len(means_ms))


POINTS: Final[dict[str, Point]] = {"utility": utility_point, "median": median}
"""By name; the median is Point-Est's (section 5.1.3)."""


_Key = tuple[str, bool, Hashable]
"""A feature, whether the job is thin, the feature's value."""


class Prediction(NamedTuple):
    """The prediction of the best expert."""

    mean_ms: float
    sigma: float
    """The root mean square of the logarithms of its past errors, predicted over true."""
    wide_sigma: float
    """The 90 % quantile of past errors over that of a standard normal distribution."""
    feature: str
    jobs: int
    """Number of earlier jobs used."""


@dataclass(slots=True)
class _Errors:
    """The latest errors of one expert, or all of one kind."""

    total: float = 0.0
    squares: float = 0.0
    count: int = 0


@dataclass(slots=True)
class _Group:
    """Earlier jobs with one value of one feature."""

    means_ms: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOWS[-1]))
    errors: dict[tuple[str, int], deque[float]] = field(default_factory=dict)
    variations: deque[float] = field(default_factory=lambda: deque(maxlen=VARIATIONS_KEPT))


class History:
    """Earlier jobs: it depends on nothing but the order in which they are added."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}
        self._kinds: dict[tuple[str, bool, str, int], _Errors] = {}
        self._variations: deque[float] = deque(maxlen=8 * VARIATIONS_KEPT)
        self._means_ms: dict[bool, deque[float]] = {}
        """Mean durations of all jobs, by whether they are thin."""

    def add(self, record: JobRecord) -> None:
        """Learn from a job that has ended: how wrong each expert would have been, and then its duration."""
        mean_ms = max(1e-3, record.mean_ms)
        variation = [float(record.durations_ms.std(ddof=1)) / mean_ms] if record.tasks >= THIN_LIMIT else []
        self._variations.extend(variation)
        thin = record.features.width < THIN_LIMIT
        self._means_ms.setdefault(thin, deque(maxlen=WINDOWS[-1])).append(mean_ms)
        for feature, key in _keys(record.features):
            group = self._groups.setdefault(key, _Group())
            if group.means_ms:
                self._judge(feature, key[1], group, mean_ms)
            group.means_ms.append(mean_ms)
            group.variations.extend(variation)

    def predict(self, features: JobFeatures, point: str) -> Prediction | None:
        """Return the prediction of the expert with the least past error, None if no earlier job has a common feature.

        Args:
            features: of the job.
            point: a name of `POINTS`.
        """
        best: tuple[float, str, _Group, int] | None = None
        thin = features.width < THIN_LIMIT
        for feature, key in _keys(features):
            group = self._groups.get(key)
            if group is None:
                continue
            for window in _windows(len(group.means_ms)):
                score = self._score(feature, thin, group, point, window)
                if best is None or score < best[0]:
                    best = score, feature, group, window
        if best is None:
            return None
        _, feature, group, window = best
        means = list(group.means_ms)[-window:]
        return Prediction(
            POINTS[point](means), *self._deviations(feature, thin, group, point, window), feature, len(means)
        )

    def median_ms(self, features: JobFeatures) -> float | None:
        """Return the median of earlier jobs of the same application, else of the same user, else of all.

        A yardstick for `predict`. Wide jobs go by wide ones and thin by thin ones, and by the latest 256. None if there
        is none.
        """
        thin = features.width < THIN_LIMIT
        for key in (("application", thin, features.application), ("user", thin, features.user)):
            group = self._groups.get(key) if key[2] != "" else None
            if group is not None and group.means_ms:
                return median(group.means_ms)
        of_all = self._means_ms.get(thin)
        return median(of_all) if of_all else None

    def variation(self, features: JobFeatures, share: float) -> float:
        """Return the coefficient of variation of durations within a job that this share of earlier jobs stayed below.

        Earlier jobs are those of its name, else its application, else its user, else all.
        """
        for _, key in islice(_keys(features), 3):
            group = self._groups.get(key)
            if group is not None and len(group.variations) >= VARIATIONS_MIN:
                return _quantile(group.variations, share)
        return _quantile(self._variations, share) if len(self._variations) >= VARIATIONS_MIN else VARIATION

    def _judge(self, feature: str, thin: bool, group: _Group, mean_ms: float) -> None:
        means = list(group.means_ms)
        for name, point in POINTS.items():
            for window in _windows(len(means)):
                error = min(ERROR_MAX, abs(log(point(means[-window:]) / mean_ms)))
                kept = group.errors.setdefault((name, window), deque(maxlen=ERRORS_KEPT))
                kept.append(error)
                kind = self._kinds.setdefault((feature, thin, name, window), _Errors())
                kind.total += error
                kind.squares += error * error
                kind.count += 1

    def _score(self, feature: str, thin: bool, group: _Group, point: str, window: int) -> float:
        """Return an expert's mean error."""
        kind = self._kinds.get((feature, thin, point, window))
        common = kind.total / kind.count if kind else 1.0
        own = group.errors.get((point, window), ())
        return (sum(own) + PRIOR_WEIGHT * common) / (len(own) + PRIOR_WEIGHT)

    def _deviations(self, feature: str, thin: bool, group: _Group, point: str, window: int) -> tuple[float, float]:
        """Return an expert's root mean square error, and its wide deviation (see `Prediction`)."""
        kind = self._kinds.get((feature, thin, point, window))
        common_square = kind.squares / kind.count if kind else 1.0
        own = group.errors.get((point, window), ())
        weight = len(own) + PRIOR_WEIGHT
        square = (sum(error * error for error in own) + PRIOR_WEIGHT * common_square) / weight
        worst = _quantile([*own, Z90 * sqrt(common_square)], 0.9)
        return sqrt(square), worst / Z90


def _quantile(values: Collection[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def learned(records: Sequence[JobRecord]) -> History:
    """Return the history of records in their order."""
    history = History()
    for record in records:
        history.add(record)
    return history


def features_of(features: JobFeatures) -> Iterator[tuple[str, Hashable]]:
    """Yield each of 3Sigma's six features that the job has (SLearn, section 4.2) with its value."""
    values: tuple[tuple[str, Hashable], ...] = (
        ("name", features.name),
        ("application", features.application),
        ("user", features.user),
        ("requested", (features.cpu, features.memory)),
        ("hour", features.submit_ms // HOUR_MS % 24),
        ("day", features.submit_ms // DAY_MS % 7),
    )
    return (each for each in values if each[1] != "")


def _keys(features: JobFeatures) -> Iterator[tuple[str, _Key]]:
    """Yield each feature with its value, for jobs of the same kind, wide or thin."""
    thin = features.width < THIN_LIMIT
    for feature, value in features_of(features):
        yield feature, (feature, thin, value)


def _windows(jobs: int) -> Iterator[int]:
    """Yield the windows, and of those that hold all jobs only the shortest."""
    for window in WINDOWS:
        yield window
        if window >= jobs:
            return


VARIATION_DEGREES: Final = 2.0
"""Degrees of freedom of the variation within earlier jobs, relative to that of a job's own pilots."""
SIGMA_MIN: Final = 1e-3


Estimator = Callable[[JobFeatures, History, Durations], Estimate | None]
"""Estimates a job's task duration; it is stateless, since learned values are in the history.

Arguments are the job's features, a history of jobs that ended before its arrival, and durations of its ended tasks in
milliseconds, shape (any,): pilots or, for the oracle, all; other estimators ignore them. It returns None without any
information."""


def oracle(_features: JobFeatures, _history: History, samples: Durations) -> Estimate | None:
    """Return the true mean: ``samples`` must be the durations of all tasks."""
    return estimate_of(float(samples.mean()), 0.0) if len(samples) else None


def pilots(features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
    """Return the mean of the pilots (section 5.1.2), with the standard error that their number and variation give it.

    The standard error is s / sqrt(m) * sqrt(1 - m / width), the last for drawing without replacement. One pilot says
    nothing of s, and few say little: s is estimated together with the variation within earlier jobs.
    """
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


def three_sigma(features: JobFeatures, history: History, _samples: Durations) -> Estimate | None:
    """Return 3Sigma's: the distribution of the feature with the least past error, seen through 1 / runtime squared."""
    return _from_history(features, history, "utility")


def point_estimate(features: JobFeatures, history: History, _samples: Durations) -> Estimate | None:
    """Return Point-Est's: as 3Sigma's, but with the median in place of the utility."""
    return _from_history(features, history, "median")


def earlier_median(features: JobFeatures, history: History, _samples: Durations) -> Estimate | None:
    """Return the median of earlier jobs of the same application, else of the same user, else of all, a yardstick.

    3Sigma must not be worse than this, or it is not at its full strength. There is no idea of its error.
    """
    median_ms = history.median_ms(features)
    return None if median_ms is None else estimate_of(median_ms, 1.0)


def pilots_and_history(features: JobFeatures, history: History, samples: Durations) -> Estimate | None:
    """Return ours: pilots and history, each with the weight of its certainty.

    The logarithms of both are averaged by inverse variance: the pilots' variance is their standard error's square, the
    history's the mean square of its expert's past errors. Whichever is missing, the other speaks alone.
    """
    return combined(pilots(features, history, samples), point_estimate(features, history, samples))


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
    "oracle": oracle,
    "pilots": pilots,
    "3sigma": three_sigma,
    "point": point_estimate,
    "median": earlier_median,
    "combined": pilots_and_history,
}


def _from_history(features: JobFeatures, history: History, point: str) -> Estimate | None:
    found = history.predict(features, point)
    return None if found is None else estimate_of(found.mean_ms, max(SIGMA_MIN, found.sigma), found.wide_sigma)


def pilots_wanted(width: int, ratio: float = 0.03) -> int:
    """Return how many tasks to sample: max(1, ratio * width), rounded down (section 4.3)."""
    return max(1, int(ratio * width))
