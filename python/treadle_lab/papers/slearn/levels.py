"""The ten levels of SLearn's generic scheduler (NSDI 2022, sections 5.1.1 and 5.2.1)."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.array_types import F64, I64

LEVELS: Final = 10
THRESHOLDS_MS: Final = 10.0 ** np.arange(6, 6 + LEVELS - 1)
"""Between the levels."""
WEIGHT_FACTOR: Final = 10.0
SAMPLING_LEVEL: Final = 1
"""Of jobs whose pilots have not ended, counted from 0."""


def levels(size_ms: F64) -> I64:
    """Return the level of each size."""
    return np.searchsorted(THRESHOLDS_MS, size_ms)
