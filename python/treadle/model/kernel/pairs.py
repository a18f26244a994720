"""A map from pairs of indices to an index, as two flat arrays (open addressing, linear probing)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from treadle.model.types import I32, I64

EMPTY = -1
GONE = -2


@njit(cache=True, nogil=True)
def slot_of(key: int, mask: int) -> int:
    """Return where the search for ``key`` starts (Fibonacci hashing: the high bits of a product)."""
    mixed = np.uint64(key) * np.uint64(11400714819323198485)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(mask))


@njit(cache=True, nogil=True)
def pair(first: int, second: int) -> int:
    """Return the key of two indices below 2**31."""
    return (np.int64(first) << 32) | np.int64(second)


@njit(cache=True, nogil=True)
def find(keys: I64, values: I32, key: int) -> int:
    """Return the value of ``key``, or -1."""
    mask = len(keys) - 1
    at = slot_of(key, mask)
    while keys[at] != EMPTY:
        if keys[at] == key:
            return values[at]
        at = (at + 1) & mask
    return -1


@njit(cache=True, nogil=True)
def put(keys: I64, values: I32, key: int, value: int) -> bool:
    """Set ``key`` to ``value``; True if a slot that was never used was taken. There must be one free slot."""
    mask = len(keys) - 1
    at = slot_of(key, mask)
    grave = -1
    while keys[at] != EMPTY:
        if keys[at] == key:
            values[at] = value
            return False
        if keys[at] == GONE and grave < 0:
            grave = at
        at = (at + 1) & mask
    fresh = grave < 0
    if not fresh:
        at = grave
    keys[at] = key
    values[at] = value
    return fresh


@njit(cache=True, nogil=True)
def remove(keys: I64, values: I32, key: int) -> int:
    """Forget ``key``; return its value, or -1 if it was not there. The slot stays used until the next `rehash`."""
    mask = len(keys) - 1
    at = slot_of(key, mask)
    while keys[at] != EMPTY:
        if keys[at] == key:
            keys[at] = GONE
            return values[at]
        at = (at + 1) & mask
    return -1


@njit(cache=True, nogil=True)
def rehash(keys: I64, values: I32, new_keys: I64, new_values: I32) -> int:
    """Copy the live pairs into empty arrays; return how many there were."""
    live = 0
    for at in range(len(keys)):
        if keys[at] >= 0:
            put(new_keys, new_values, keys[at], values[at])
            live += 1
    return live


def empty_keys(capacity: int) -> npt.NDArray[np.int64]:
    """Return the keys of an empty map; ``capacity`` is a power of two."""
    return np.full(capacity, EMPTY, np.int64)
