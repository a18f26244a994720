"""History as 3Sigma keeps it by the letter of SLearn (NSDI 2022, sections 4.2, 4.3 and 5.1.3): trained once, whole.

`treadle_lab.readers.estimators.estimators` is stronger: windows, errors that are drawn together, wide jobs and thin
ones apart. Here a feature's value keeps all earlier jobs that have it; thin jobs and wide ones learn from each other.
Of a job's six features the one speaks whose value has the least mean relative error of its predictions so far. Chosen
by us, as the paper says only "least error": the error is |predicted - true| / true, without a bound; a value with
which nothing was predicted yet speaks only if all are such; of equals the first of the six.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import inf, nan, sqrt
from typing import Literal

import numpy as np

from treadle.workload.job import JobFeatures, JobRecord
from treadle_lab.readers.estimators.estimators import features_of

Point = Literal["utility", "median"]
"""What a distribution is reduced to: the runtime with its mean utility of 1 over runtime squared, or its median."""


@dataclass(slots=True)
class _Runtimes:
    """The mean task durations of earlier jobs."""

    utility: float = 0.0
    """The sum of 1 over duration squared."""
    ordered_ms: list[float] = field(default_factory=list)
    errors: float = 0.0
    predictions: int = 0

    def add(self, mean_ms: float) -> None:
        self.utility += mean_ms**-2.0
        insort(self.ordered_ms, mean_ms)

    def point(self, point: Point) -> float:
        count = len(self.ordered_ms)
        return sqrt(count / self.utility) if point == "utility" else self.ordered_ms[count // 2]

    def judge(self, point: Point, mean_ms: float) -> None:
        self.errors += abs(self.point(point) - mean_ms) / mean_ms
        self.predictions += 1

    @property
    def error(self) -> float:
        return self.errors / self.predictions if self.predictions else inf


class PaperHistory:
    """Earlier jobs; it learns from the first part of a trace, and from nothing after it."""

    def __init__(self, records: Iterable[JobRecord], point: Point) -> None:
        """Learn from records in order of submission."""
        self._point: Point = point
        self._runtimes: dict[Hashable, _Runtimes] = {}
        self._of_all = _Runtimes()
        for record in records:
            self._add(record)

    def mean_ms(self, features: JobFeatures) -> float:
        """Return how long a task of a job is expected to run; as of all jobs if it has nothing in common with any.

        Raises:
            ValueError: there is no earlier job.
        """
        best: _Runtimes | None = None
        for key in features_of(features):
            found = self._runtimes.get(key)
            if found is not None and (best is None or found.error < best.error):
                best = found
        best = self._of_all if best is None else best
        if not best.ordered_ms:
            raise ValueError("there is no earlier job")
        return best.point(self._point)

    def variation(self, features: JobFeatures) -> float:
        """Return the coefficient of variation of the earlier jobs that a job has most in common with (section 4.2).

        That is the least over its features of the standard deviation of their mean task durations over the mean; NaN if
        no value of a feature had two jobs.
        """
        alike = (self._runtimes.get(key) for key in features_of(features))
        known = [np.array(found.ordered_ms) for found in alike if found is not None and len(found.ordered_ms) > 1]
        return min((float(each.std() / each.mean()) for each in known), default=nan)

    def _add(self, record: JobRecord) -> None:
        mean_ms = max(1.0, record.mean_ms)
        for key in features_of(record.features):
            found = self._runtimes.setdefault(key, _Runtimes())
            if found.ordered_ms:
                found.judge(self._point, mean_ms)
            found.add(mean_ms)
        self._of_all.add(mean_ms)
