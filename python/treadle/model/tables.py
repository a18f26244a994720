"""Growing tables (records and resource amounts), names by index, and the view of all tables for kernels.

A table has one structured array with one record per row and, where needed, an array of amounts (row, kind, resource).
Kernels take whole tables: few arrays with many fields compile several times faster than many arrays, and the fields of
a row are adjacent in memory. The shim assigns row indices; a row without an event has default values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import tables
from treadle.compiled.pair_map import PairMap
from treadle.events import INDEX_MAX

V = TypeVar("V")

MAX_PARTITIONS: Final = 64
"""Upper bound of node labels, for tables with one column per partition."""


class Names:
    """Texts by index, and the partitions among them, numbered from 0 (the default partition, the empty text)."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._index: dict[str, int] = {}
        self.partitions: list[int] = [0]
        self.first_node: I32 = np.full(64, -1, np.int32)
        """The first node with each name, or -1; `next_same_name` of `NODE` links the others."""
        self._partition: I32 = np.full(64, -1, np.int32)
        self._partition[0] = 0

    def add(self, event: events.Names) -> None:
        """Add texts with their indices; a reused index means the new text from now on."""
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
        """Check that every ``index`` has a text; raise `ModelError` otherwise."""
        if (high := highest(index)) >= len(self.texts):
            raise ModelError(f"a name index, {high}, was never sent; there are {len(self.texts)} names")

    def partitions_of(self, index: I32) -> I32:
        """Return the partition numbers of names; an unknown one gets the next number."""
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


# Kinds of amounts; each table has only some. ASSUMED are proposals in flight.
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
"""Guarantees of sibling queues that this subtree must leave free."""


class ModelError(ValueError):
    """Events that contradict the contract of docs/wire-format.md; a new snapshot is the remedy."""


def grown(column: npt.NDArray[Any], rows: int, fill: Any) -> npt.NDArray[Any]:
    """Return ``column`` with at least ``rows`` rows, the new ones set to ``fill``; capacity grows by half at least."""
    if len(column) >= rows:
        return column
    bigger = np.zeros((max(rows, len(column) + len(column) // 2, 16), *column.shape[1:]), column.dtype)
    bigger[: len(column)] = column
    if np.asarray(fill, column.dtype).tobytes().strip(b"\0"):
        # Nothing to write otherwise: untouched memory costs nothing.
        bigger[len(column) :] = fill
    return bigger


def highest(index: I32) -> int:
    """Return the maximum of indices, -1 if there is none; a negative one counts as one above all valid indices."""
    # Array methods take twice as long as a loop for the few elements of most events.
    return int(np.maximum.reduce(index.view(np.uint32))) if len(index) else -1


def largest(index: I32, what: str) -> int:
    """Return the maximum of ``index`` (-1 if empty); raise `ModelError` if it is not a valid row index."""
    if (high := highest(index)) >= INDEX_MAX:
        raise ModelError(f"{what} index {np.uint32(high).astype(np.int32)} is not in 0 to {INDEX_MAX - 1}")
    return high


def own(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an aligned, writable copy for kernels: numba would compile decoded columns separately."""
    return np.array(column, order="C")


def chain(records: Records, first: Any, link: str = "next") -> Iterator[int]:
    """Yield the rows of a linked list, from ``first`` on; -1 ends it. By ``parent``: a queue and its ancestors."""
    row = int(first)
    while row >= 0:
        yield row
        row = int(records[link][row])


def renumbered(by_index: Mapping[int, V], new: I32) -> dict[int, V]:
    """Return values by their indices after a snapshot; ``new`` maps old indices to these, -1 for none."""
    return {int(new[at]): value for at, value in by_index.items() if at < len(new) and new[at] >= 0}


class Table:
    """Records with growable capacity; ``size`` is one more than the largest index in use."""

    def __init__(
        self, record: np.dtype[Any], amounts: tuple[int, ...] = (), defaults: dict[str, int] | None = None
    ) -> None:
        """Create a table with a few rows.

        Args:
            record: the fields of a row
            amounts: shape of the amounts after the row dimension: (kinds, resources), or empty
            defaults: initial values of fields other than 0
        """
        self._default = np.zeros((), record)
        for name, value in (defaults or {}).items():
            self._default[name] = value
        self.at: Records = np.zeros(0, record)
        self.amounts: I64 = np.zeros((0, *amounts), np.int64)
        self.size = 0
        self.reserve(16)

    def reserve(self, rows: int) -> None:
        """Grow to at least ``rows`` rows. Arrays taken from the table before are outdated afterwards."""
        self.at = grown(self.at, rows, self._default)
        self.amounts = grown(self.amounts, len(self.at), 0)

    def cover(self, index: I32, what: str) -> None:
        """Grow to contain every row in ``index``; raises `ModelError` if one is not a valid index."""
        rows = largest(index, what) + 1
        self.reserve(rows)
        self.size = max(self.size, rows)


class RowTable(Table):
    """A table whose rows kernels take and free (`treadle.compiled.pair_map`), and find in ``index``."""

    def __init__(
        self, record: np.dtype[Any], amounts: tuple[int, ...] = (), defaults: dict[str, int] | None = None
    ) -> None:
        super().__init__(record, amounts, defaults)
        self.index = PairMap()
        self.free: I32 = np.zeros(16, np.int32)
        self.next_unused: I64 = np.zeros(1, np.int64)

    def make_room(self, more: int) -> None:
        """Make room for so many further rows."""
        self.reserve(int(self.next_unused[0]) + more)
        self.free = grown(self.free, len(self.at) + 1, 0)
        self.index.reserve(more)


@tables
class View(NamedTuple):
    """All tables, as kernels take them. Outdated after the next event."""

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
