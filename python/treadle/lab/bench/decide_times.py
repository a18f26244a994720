"""How long decisions took between two readings of the shim's bean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

COUNTS: Final = "DecideCounts"
"""The bean's attribute: the largest value of each bucket, a colon, how many; with blanks between."""


def quantile_us(before: Mapping[str, Any], after: Mapping[str, Any], share: float) -> float:
    """Return what a share of the decisions between two readings did not exceed; nan if there were none."""
    counts = _between(before, after)
    rank = math.ceil(share * counts.total())
    for value, count in sorted(counts.items()):
        rank -= count
        if rank <= 0 < count:
            return float(value)
    return math.nan


def decisions(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Return how many decisions there were between two readings."""
    return _between(before, after).total()


def _between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Counter[int]:
    counts = Counter(_counts(after))
    counts.subtract(_counts(before))
    return counts


def _counts(reading: Mapping[str, Any]) -> dict[int, int]:
    pairs = (pair.split(":") for pair in str(reading.get(COUNTS, "")).split())
    return {int(value): int(count) for value, count in pairs}
