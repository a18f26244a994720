"""Tables: records and amounts of resources, in numpy arrays that grow together.

A table has one structured array with a record a row, and, where there are amounts, an array (row, kind, resource).
Kernels take whole tables: few arrays with many fields compile several times faster than many arrays, and the fields
of a row lie together. Rows are found by the index that the shim gave out; a row that was never told has its fields'
defaults.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I32, I64, Records
from treadle.events import INDEX_MAX

# Kinds of amounts. A table has those that it needs; ASSUMED is what is proposed and not yet decided.
ASSUMED: Final = 0
FREE: Final = 1
USED: Final = 1
TOTAL: Final = 2
LIMIT: Final = 2
HEADROOM: Final = 2
MAXIMUM: Final = 2
GUARANTEED: Final = 3
PENDING: Final = 4
AM_LIMIT: Final = 5
AM_USED: Final = 6


class ModelError(ValueError):
    """Events that contradict the contract of docs/wire-format.md; a new snapshot is the remedy."""


def grown(column: npt.NDArray[Any], rows: int, fill: Any) -> npt.NDArray[Any]:
    """Return ``column`` with at least ``rows`` rows, the new ones set to ``fill``; capacity grows by half at least."""
    if len(column) >= rows:
        return column
    bigger = np.full((max(rows, len(column) + len(column) // 2, 16), *column.shape[1:]), fill, column.dtype)
    bigger[: len(column)] = column
    return bigger


def largest(index: I32, what: str) -> int:
    """Return the largest of ``index`` (-1 if empty) after checking that a table may have all of them."""
    if len(index) == 0:
        return -1
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= INDEX_MAX:
        raise ModelError(f"{what} index {low if low < 0 else high} is not in 0 to {INDEX_MAX - 1}")
    return high


def own(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy that kernels take: decoded columns may be read-only and unaligned, and numba compiles for each."""
    return np.array(column, order="C")


class Table:
    """Records with growable capacity; ``size`` is one more than the largest index in use."""

    def __init__(
        self, record: np.dtype[Any], amounts: tuple[int, ...] = (), defaults: dict[str, int] | None = None
    ) -> None:
        """Make room for a few rows.

        Args:
            record: the fields of a row
            amounts: what follows the row in the shape of the amounts: (kinds, resources), or nothing
            defaults: fields that are not 0 to begin with
        """
        self._default = np.zeros((), record)
        for name, value in (defaults or {}).items():
            self._default[name] = value
        self.at: Records = np.zeros(0, record)
        self.amounts: I64 = np.zeros((0, *amounts), np.int64)
        self.size = 0
        self.reserve(16)

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows. Arrays taken from the table before are stale afterwards."""
        self.at = grown(self.at, rows, self._default)
        self.amounts = grown(self.amounts, len(self.at), 0)

    def cover(self, index: I32, what: str) -> None:
        """Make room for every row in ``index``; raises `ModelError` if one cannot be an index."""
        rows = largest(index, what) + 1
        self.reserve(rows)
        self.size = max(self.size, rows)
