"""How long a stage's tasks will take, by its earlier runs.

The median of the means of the runs that are remembered, as 3Sigma's point estimate has it (SLearn, NSDI 2022, section
5.1.3). How far off it may be is seen by doing the same for each of those runs with the runs before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt
from statistics import median
from typing import Final, NamedTuple

from treadle.history.profile import StageProfile

SIGMA_MAX: Final = 10.0
"""Of a logarithm: nothing is told to be further off."""


class Prediction(NamedTuple):
    """What earlier runs say of a stage."""

    duration_ms: int
    deviation_ms: int
    """The standard deviation of the estimate; -1 if there was one run only, or its containers were of another size."""
    runs: int
    """How many runs it goes by."""


def predicted(stage: StageProfile, demand: Mapping[str, int]) -> Prediction | None:
    """Return how long tasks of a stage will take; None if none was measured.

    Args:
        stage: its profile
        demand: what its containers ask for now, by resource; with other containers than the latest runs had, tasks may
            take another time, so that nothing is said of the deviation
    """
    means_ms = [run.mean_ms for run in stage.recent if run.mean_ms > 0]
    if not means_ms:
        return None
    duration_ms = max(1, round(median(means_ms)))
    alike = not stage.demand or all(demand.get(name, amount) == amount for name, amount in stage.demand.items())
    deviation_ms = round(duration_ms * _sigma(means_ms)) if alike and len(means_ms) > 1 else -1
    return Prediction(duration_ms, deviation_ms, len(means_ms))


def _sigma(means_ms: Sequence[int]) -> float:
    """Return the root mean square of the logarithms of past errors, wider the fewer these are."""
    runs = len(means_ms)
    errors = (log(median(means_ms[:at]) / means_ms[at]) for at in range(1, runs))
    square = sum(error * error for error in errors) / (runs - 1)
    return min(SIGMA_MAX, sqrt(square * runs / (runs - 1)))
