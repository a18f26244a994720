"""Tables of columns: numpy arrays of equal length that grow together.

A table is a NamedTuple of arrays, so that a numba kernel takes it whole and reads ``nodes.free[n, r]``. Rows are found by the
index that the shim gave out; a row that was never told is all zeros (or the column's fill).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

C = TypeVar("C", bound=tuple[Any, ...])

MAX_ROWS = 1 << 22
"""The largest index that a table takes. The shim's indices start at 0 after each snapshot, so more is a sign of damage."""


class ModelError(ValueError):
    """Events that contradict the contract of docs/wire-format.md; a new snapshot is the remedy."""


def grown(column: npt.NDArray[Any], rows: int, fill: int) -> npt.NDArray[Any]:
    """Return ``column`` with at least ``rows`` rows, the new ones set to ``fill``; capacity at least doubles."""
    if len(column) >= rows:
        return column
    bigger = np.full((max(rows, 2 * len(column), 16), *column.shape[1:]), fill, column.dtype)
    bigger[: len(column)] = column
    return bigger


def largest(index: npt.NDArray[np.int32], what: str) -> int:
    """Return the largest of ``index`` (-1 if empty) after checking that all of them are indices that a table may have."""
    if len(index) == 0:
        return -1
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= MAX_ROWS:
        raise ModelError(f"{what} index {low if low < 0 else high} is outside 0..{MAX_ROWS - 1}")
    return high


class Table(Generic[C]):
    """Columns with growable capacity; ``size`` is one more than the largest index in use."""

    def __init__(self, make: Callable[[Iterable[Any]], C], columns: C, fills: dict[str, int] | None = None) -> None:
        self.columns = columns
        self.size = 0
        self._make = make
        names: tuple[str, ...] = getattr(columns, "_fields")  # noqa: B009 (a NamedTuple's, unknown to the type of C)
        self._fills = tuple((fills or {}).get(name, 0) for name in names)
        self.reserve(16)

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows. Arrays taken from `columns` before are stale afterwards."""
        if len(self.columns[0]) < rows:
            pairs = zip(self.columns, self._fills, strict=True)
            self.columns = self._make(grown(column, rows, fill) for column, fill in pairs)

    def cover(self, index: npt.NDArray[np.int32], what: str) -> None:
        """Make room for every row in ``index``; raises `ModelError` if one cannot be an index."""
        rows = largest(index, what) + 1
        self.reserve(rows)
        self.size = max(self.size, rows)
