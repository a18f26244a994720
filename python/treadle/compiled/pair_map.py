"""Growing maps from a pair of indices to an index, and stacks of free rows, usable inside kernels."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, I64, Records
from treadle.compiled.functions import inner, kernel


@inner
def take_from(free: I32, next_unused: I64) -> int:
    """Return a free row: the one freed last, or the next unused one."""
    if free[0] > 0:
        row = free[free[0]]
        free[0] -= 1
        return row
    next_unused[0] += 1
    return next_unused[0] - 1


@inner
def give_back(free: I32, row: int) -> None:
    """Free a row; its fields stay until it is reused."""
    free[0] += 1
    free[free[0]] = row


EMPTY: Final = -1
GONE: Final = -2

PAIR: Final = np.dtype([("key", "i8"), ("value", "i4")], align=True)


@inner
def pair(first: int, second: int) -> int:
    """Return the key of two indices below 2**31."""
    return int((np.int64(first) << 32) | np.int64(second))


@inner
def start_of(key: int, mask: int) -> int:
    """Return the first slot to probe for ``key`` (Fibonacci hashing: the high bits of a product)."""
    mixed = np.uint64(key) * np.uint64(11400714819323198485)
    return int(np.int64((mixed >> np.uint64(32)) & np.uint64(mask)))


@kernel
def find(pairs: Records, key: int) -> int:
    """Return the value of ``key``, or -1."""
    mask = len(pairs) - 1
    at = start_of(key, mask)
    while pairs[at].key != EMPTY:
        if pairs[at].key == key:
            return int(pairs[at].value)
        at = (at + 1) & mask
    return -1


@kernel
def put(pairs: Records, key: int, value: int) -> None:
    """Set ``key`` to ``value``. There must be an empty slot."""
    mask = len(pairs) - 1
    at = start_of(key, mask)
    removed = -1
    while pairs[at].key != EMPTY:
        if pairs[at].key == key:
            pairs[at].value = value
            return
        if pairs[at].key == GONE and removed < 0:
            removed = at
        at = (at + 1) & mask
    if removed >= 0:
        at = removed
    pairs[at].key = key
    pairs[at].value = value


@kernel
def remove(pairs: Records, key: int) -> int:
    """Remove ``key``; return its value, or -1 if it is missing. Its slot stays in use until the map grows."""
    mask = len(pairs) - 1
    at = start_of(key, mask)
    while pairs[at].key != EMPTY:
        if pairs[at].key == key:
            pairs[at].key = GONE
            return int(pairs[at].value)
        at = (at + 1) & mask
    return -1


@kernel
def copy_live(pairs: Records, bigger: Records) -> int:
    """Copy all pairs into an empty map; return their number."""
    live = 0
    for at in range(len(pairs)):
        if pairs[at].key >= 0:
            put(bigger, pairs[at].key, pairs[at].value)
            live += 1
    return live


@kernel
def rows_of_pairs(pairs: Records, first: I32, second: I32, size: int, rows: I32) -> int:
    """Write the values of pairs to ``rows``; missing ones get the next values from ``size`` on. Return the new size."""
    for i in range(len(first)):
        key = pair(first[i], second[i])
        row = find(pairs, key)
        if row < 0:
            row = size
            put(pairs, key, row)
            size += 1
        rows[i] = row
    return size


class PairMap:
    """A map (first, second) -> value of indices below 2**31 that kernels read and change.

    Call `reserve` before a kernel adds pairs: a kernel cannot make room.
    """

    def __init__(self) -> None:
        self.pairs: Records = self._empty(64)
        self._used = 0
        """Upper bound of the slots in use: pairs, removed pairs, and reservations."""

    @staticmethod
    def _empty(capacity: int) -> Records:
        # One write of whole records: writing one field of many records is several times as slow.
        block = np.zeros(min(capacity, 1024), PAIR)
        block["key"] = EMPTY
        return np.tile(block, capacity // len(block))

    def reserve(self, more: int) -> None:
        """Reserve space for ``more`` pairs, so that at most half of the slots are in use."""
        if 2 * (self._used + more) > len(self.pairs):
            live = int(np.count_nonzero(self.pairs["key"] >= 0))
            capacity = len(self.pairs)
            while capacity < 4 * (live + more):
                capacity *= 2
            bigger = self._empty(capacity)
            self._used = int(copy_live(self.pairs, bigger))
            self.pairs = bigger
        self._used += more

    def put(self, first: int, second: int, value: int) -> None:
        """Set the value of a pair."""
        self.reserve(1)
        put(self.pairs, (first << 32) | second, value)

    def find(self, first: int, second: int) -> int:
        """Return the value of a pair, or -1."""
        return int(find(self.pairs, (first << 32) | second))

    def remove(self, first: int, second: int) -> int:
        """Remove a pair; return its value, or -1 if it is missing."""
        return int(remove(self.pairs, (first << 32) | second))
