"""Tables: records and amounts of resources in arrays that grow together, texts, all tables as kernels take them.

A table has one structured array with a record a row, and, where there are amounts, an array (row, kind, resource).
Kernels take whole tables: few arrays with many fields compile several times faster than many arrays, and the fields
of a row lie together. Rows are found by the index that the shim gave out; a row that no event has named has its fields'
defaults.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.structs import tables
from treadle.events import INDEX_MAX

MAX_PARTITIONS = 64
"""More node labels than a cluster has; bounds the tables that have a column for each."""


class Names:
    """Texts by index, and the partitions among them numbered from 0 (the default partition, the empty text)."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._index: dict[str, int] = {}
        self.partitions: list[int] = [0]
        self.first_node: I32 = np.full(64, -1, np.int32)
        """For each name the first node that bears it, or -1; `next_same_name` of `NODE` has the others."""
        self._partition: I32 = np.full(64, -1, np.int32)
        self._partition[0] = 0

    def add(self, event: events.Names) -> None:
        """Take texts with their indices; one that has an index of before stands for that one's text from now on."""
        for at in event.index or ():
            if at < len(self.texts) and self._index.get(self.texts[at]) == at:
                del self._index[self.texts[at]]
        known = len(self.texts)
        event.into(self.texts)
        for at, text in zip(event.index or range(known, len(self.texts)), event.texts, strict=True):
            self._index.setdefault(text, at)
        self.first_node = grown(self.first_node, len(self.texts), -1)
        self._partition = grown(self._partition, len(self.texts), -1)

    def index_of(self, text: str) -> int:
        """Return the index of a text, -1 if it was never sent."""
        return self._index.get(text, -1)

    def check(self, index: I32) -> None:
        """Raise `ModelError` unless every one of ``index`` was given to a text."""
        if not len(index):
            return
        low, high = bounds_of(index)
        if low < 0 or high >= len(self.texts):
            raise ModelError(f"name index {high} was never sent; there are {len(self.texts)} names")

    def partitions_of(self, index: I32) -> I32:
        """Return the numbers of the partitions with these names; one not seen before gets the next number."""
        self.check(index)
        numbers: I32 = self._partition[index]
        if len(numbers) and np.minimum.reduce(numbers) < 0:
            for name in sorted({int(name) for name in index[numbers < 0]}):
                if len(self.partitions) == MAX_PARTITIONS:
                    raise ModelError(f"more than {MAX_PARTITIONS} partitions")
                self._partition[name] = len(self.partitions)
                self.partitions.append(name)
            numbers = self._partition[index]
        return numbers


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
SIBLING_RESERVE: Final = 7
"""What queues beside a queue are owed, and its own branch leaves to them."""


class ModelError(ValueError):
    """Events that contradict the contract of docs/wire-format.md; a new snapshot is the remedy."""


def grown(column: npt.NDArray[Any], rows: int, fill: Any) -> npt.NDArray[Any]:
    """Return ``column`` with at least ``rows`` rows, the new ones set to ``fill``; capacity grows by half at least."""
    if len(column) >= rows:
        return column
    bigger = np.zeros((max(rows, len(column) + len(column) // 2, 16), *column.shape[1:]), column.dtype)
    bigger[: len(column)] = column
    if np.asarray(fill, column.dtype).tobytes().strip(b"\0"):
        # else there is nothing to write, and memory that nobody has written costs nothing yet
        bigger[len(column) :] = fill
    return bigger


def bounds_of(index: I32) -> tuple[int, int]:
    """Return the least and the largest of indices."""
    # Arrays' own methods take twice as long for the few that most events have.
    return int(np.minimum.reduce(index)), int(np.maximum.reduce(index))


def largest(index: I32, what: str) -> int:
    """Return the largest of ``index`` (-1 if empty) after checking that a table may have all of them."""
    if len(index) == 0:
        return -1
    low, high = bounds_of(index)
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


@tables
class View(NamedTuple):
    """All tables, as kernels take them. Stale after the next event."""

    nodes: Records
    node_amounts: I64
    queues: Records
    children: I32
    limit_known: U8
    limit_amounts: I64
    user_amounts: I64
    apps: Records
    app_amounts: I64
    rows: Records
    capability: I64
    places: Records
    user_index: Records
    place_index: Records
    blacklist: Records
    excluded: Records
    first_node: I32
    counted: U8
    hints: Records
    hint_capability: I64
    groups: Records
    group_amounts: I64
    group_index: Records
    tasks: Records
