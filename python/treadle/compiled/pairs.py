"""A map from pairs of indices to an index, in one array of records (open addressing, linear probing)."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, Records
from treadle.compiled.functions import inner, kernel

EMPTY: Final = -1
GONE: Final = -2

PAIR: Final = np.dtype([("key", "i8"), ("value", "i4")], align=True)


@inner
def pair(first: int, second: int) -> int:
    """Return the key of two indices below 2**31."""
    return int((np.int64(first) << 32) | np.int64(second))


@inner
def start_of(key: int, mask: int) -> int:
    """Return where the search for ``key`` starts (Fibonacci hashing: the high bits of a product)."""
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
    grave = -1
    while pairs[at].key != EMPTY:
        if pairs[at].key == key:
            pairs[at].value = value
            return
        if pairs[at].key == GONE and grave < 0:
            grave = at
        at = (at + 1) & mask
    if grave >= 0:
        at = grave
    pairs[at].key = key
    pairs[at].value = value


@kernel
def remove(pairs: Records, key: int) -> int:
    """Forget ``key``; return its value, or -1 if it was not there. Its slot stays in use until the map grows."""
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
    """Copy what is there into an empty map; return how many pairs there were."""
    live = 0
    for at in range(len(pairs)):
        if pairs[at].key >= 0:
            put(bigger, pairs[at].key, pairs[at].value)
            live += 1
    return live


@kernel
def rows_of_pairs(pairs: Records, first: I32, second: I32, size: int, rows: I32) -> int:
    """Write the values of pairs to ``rows``; new ones get the next values from ``size`` on. Return the new size."""
    for i in range(len(first)):
        key = pair(first[i], second[i])
        row = find(pairs, key)
        if row < 0:
            row = size
            put(pairs, key, row)
            size += 1
        rows[i] = row
    return size
