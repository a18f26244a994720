"""The paper's figures, and the loads at which it was reproduced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I64

LEVELS: Final = 10
THRESHOLDS_MS: Final = 10.0 ** np.arange(6, 6 + LEVELS - 1)
"""Between the levels."""
WEIGHT_FACTOR: Final = 10.0
SAMPLING_LEVEL: Final = 1
"""Level of jobs whose pilots have not ended, counted from 0."""


def levels(size_ms: F64) -> I64:
    """Return the level of each size."""
    return np.searchsorted(THRESHOLDS_MS, size_ms)


NODES: Final = 150
JOBS: Final = 1_250
"""Drawn from the second half of the trace."""
LOAD: Final = 1.01
"""The mean of the windows' (table 5)."""
DAGS: Final = 900
"""About this many."""

SPEEDUP_MEAN: Final = {
    "3sigma": 1.56,
    "3sigma-paper": 1.56,
    "3sigma-tl": 1.55,
    "point": 2.17,
    "point-paper": 2.17,
    "las": 1.65,
}
SPEEDUP_P50: Final = {"3sigma": 1.00, "3sigma-paper": 1.00}
ERROR_P50: Final = {"pilots": 13.68, "3sigma": 21.39, "3sigma-paper": 21.39}
"""Section 4.3 has 9.15 for pilots."""
ERROR_P90: Final = {"pilots": 49.95, "3sigma": 294.52, "3sigma-paper": 294.52}
RIGHT_QUEUE: Final = {"pilots": 86.45, "3sigma": 76.20, "3sigma-paper": 76.20}


class Figures(NamedTuple):
    """The paper's figures of one experiment, by scheme or estimator."""

    speedup_mean: Mapping[str, float]
    speedup_p50: Mapping[str, float]
    error_p50: Mapping[str, float]
    error_p90: Mapping[str, float]
    right_queue: Mapping[str, float]


OF_JOBS: Final = Figures(SPEEDUP_MEAN, SPEEDUP_P50, ERROR_P50, ERROR_P90, RIGHT_QUEUE)
OF_DAGS: Final = Figures(
    {"3sigma": 1.26, "3sigma-paper": 1.26, "point": 1.74, "point-paper": 1.74, "las": 2.15},
    {},
    {"pilots": 33.90, "3sigma": 47.21, "3sigma-paper": 47.21},
    {},
    {},
)
"""Figures for another trace, Google's of 2019. The introduction has 1.25 over 3Sigma."""
