"""Durations in little space: a DDSketch, whose merge is the sketch of all the values together.

DDSketch (Masson, Rim and Lee, VLDB 2019) counts values in buckets whose bounds grow by a constant factor. Quantiles are
within `RELATIVE_ACCURACY` of the truth, merging loses nothing, and equal values in any order give equal sketches.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate, repeat, takewhile
from operator import mul
from typing import Any, Final, Self

RELATIVE_ACCURACY: Final = 0.01

DURATION_MAX_MS: Final = 10 * 366 * 86_400_000
"""Ten years: what is said to have run longer was measured by a clock that was set."""

_FACTOR: Final = (1 + RELATIVE_ACCURACY) / (1 - RELATIVE_ACCURACY)
# By multiplications alone, which every machine rounds alike; logarithms are rounded differently here and there.
_BOUNDS: Final = (
    *takewhile(lambda bound: bound < DURATION_MAX_MS, accumulate(repeat(_FACTOR), mul, initial=1.0)),
    float(DURATION_MAX_MS),
)
"""Bucket k > 0 holds what is above the bound before and not above bound k; bucket 0 holds 0 and 1."""


class DurationSketch:
    """How long tasks ran: count, mean, deviation, extremes and quantiles, in milliseconds.

    Durations are whole milliseconds, so count, mean, deviation and extremes are exact.
    """

    __slots__ = ("_buckets", "_count", "_maximum", "_minimum", "_squares", "_sum")

    def __init__(self, durations_ms: Iterable[int] = ()) -> None:
        self._buckets: dict[int, int] = {}
        self._count = self._sum = self._squares = 0
        self._minimum = self._maximum = 0
        for duration_ms in durations_ms:
            self.add(duration_ms)

    def add(self, duration_ms: int) -> None:
        """Count a duration.

        A negative one, which a clock that was set back makes, is taken for 0; more than `DURATION_MAX_MS` for that.
        """
        value = max(0, min(int(duration_ms), DURATION_MAX_MS))
        bucket = bisect_left(_BOUNDS, value)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._minimum = min(self._minimum, value) if self._count else value
        self._maximum = max(self._maximum, value)
        self._count += 1
        self._sum += value
        self._squares += value * value

    def merge(self, other: Self) -> None:
        """Count all that another sketch has counted; the other stays as it is."""
        if other._count == 0:
            return
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._minimum = min(self._minimum, other._minimum) if self._count else other._minimum
        self._maximum = max(self._maximum, other._maximum)
        self._count += other._count
        self._sum += other._sum
        self._squares += other._squares

    @property
    def count(self) -> int:
        """How many durations were added."""
        return self._count

    @property
    def buckets(self) -> int:
        """How many buckets it takes: what its size goes by."""
        return len(self._buckets)

    @property
    def mean_ms(self) -> float:
        """The mean; NaN if there is none."""
        return self._sum / self._count if self._count else math.nan

    @property
    def deviation_ms(self) -> float:
        """The sample standard deviation; NaN with fewer than two durations."""
        if self._count < 2:
            return math.nan
        spread = self._count * self._squares - self._sum * self._sum
        return math.sqrt(spread / (self._count * (self._count - 1)))

    def quantile_ms(self, quantile: float) -> float:
        """Return the duration at a quantile from 0 to 1, within `RELATIVE_ACCURACY`; NaN if there is none.

        The quantile q of n durations is the one at place ``floor(q * (n - 1))`` of them in ascending order, from 0.

        Raises:
            ValueError: ``quantile`` is none.
        """
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"a quantile is from 0 to 1, not {quantile}")
        if self._count == 0:
            return math.nan
        place = math.floor(quantile * (self._count - 1))
        for bucket in sorted(self._buckets):
            place -= self._buckets[bucket]
            if place < 0:
                # as far from the one bound of the bucket as from the other, relative to the value
                value = 2 * _BOUNDS[bucket] / (_FACTOR + 1) if bucket else 1.0
                return min(max(value, float(self._minimum)), float(self._maximum))
        raise AssertionError("the buckets hold as many durations as were counted")

    def to_json(self) -> dict[str, Any]:
        """Return a document of which `from_json` makes an equal sketch."""
        return {
            "sum": self._sum,
            "squares": self._squares,
            "min": self._minimum,
            "max": self._maximum,
            "buckets": {str(bucket): self._buckets[bucket] for bucket in sorted(self._buckets)},
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Return the sketch of a document.

        Raises:
            ValueError: it is none of `to_json`'s.
        """
        if not isinstance(document, Mapping) or not isinstance(document.get("buckets"), Mapping):
            raise ValueError("durations are a mapping with sum, squares, min, max and buckets")
        sketch = cls()
        sketch._buckets = dict(_bucket(key, count) for key, count in document["buckets"].items())
        sketch._count = sum(sketch._buckets.values())
        sketch._sum, sketch._squares = _whole(document, "sum"), _whole(document, "squares")
        sketch._minimum, sketch._maximum = _whole(document, "min"), _whole(document, "max")
        sketch._check()
        return sketch

    def _check(self) -> None:
        low, high, count = self._minimum, self._maximum, self._count
        if not low <= high <= DURATION_MAX_MS or not low * count <= self._sum <= high * count:
            raise ValueError("the sum of durations does not lie between their extremes")
        if not self._sum**2 <= count * self._squares <= count * self._sum * high:
            raise ValueError("the squares of durations contradict their sum")
        if count and {bisect_left(_BOUNDS, low), bisect_left(_BOUNDS, high)} != {
            min(self._buckets),
            max(self._buckets),
        }:
            raise ValueError("the extremes of durations contradict their buckets")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DurationSketch) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DurationSketch(count={self.count}, mean_ms={self.mean_ms:.6g})"


def _bucket(key: object, count: object) -> tuple[int, int]:
    if not isinstance(key, str) or not key.isascii() or not key.isdigit() or len(key) > 4 or int(key) >= len(_BOUNDS):
        raise ValueError(f"{key!r} is no bucket of durations")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < 2**53:
        raise ValueError(f"bucket {key} of durations holds {count!r}, which is no count")
    return int(key), count


def _whole(document: Mapping[Any, Any], field: str) -> int:
    value = document.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{field} of durations must be a whole number, not {value!r}")
    return value
