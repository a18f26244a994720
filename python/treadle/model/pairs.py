"""Growing maps from a pair of indices to an index, usable inside kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.model.kernel import pairs as kernel
from treadle.model.types import I32, I64


class PairColumns(NamedTuple):
    """The arrays of a map, for `treadle.model.kernel.pairs.find`; ``used[0]`` counts slots that are not empty."""

    keys: I64
    values: I32
    used: I64


class PairMap:
    """A map (first, second) -> value of indices below 2**31 that kernels read and change.

    Whoever adds pairs, here or in a kernel, must call `reserve` before: a kernel cannot make room.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.columns = PairColumns(kernel.empty_keys(capacity), np.zeros(capacity, np.int32), np.zeros(1, np.int64))

    def reserve(self, more: int) -> None:
        """Make room for ``more`` further pairs: at most half of the slots are in use afterwards."""
        keys, values, used = self.columns
        if 2 * (int(used[0]) + more) <= len(keys):
            return
        live = int(np.count_nonzero(keys >= 0))
        capacity = len(keys)
        while capacity < 4 * (live + more):
            capacity *= 2
        bigger = PairColumns(kernel.empty_keys(capacity), np.zeros(capacity, np.int32), used)
        used[0] = kernel.rehash(keys, values, bigger.keys, bigger.values)
        self.columns = bigger

    def put(self, first: int, second: int, value: int) -> None:
        """Set the value of a pair."""
        self.reserve(1)
        keys, values, used = self.columns
        used[0] += bool(kernel.put(keys, values, (first << 32) | second, value))

    def find(self, first: int, second: int) -> int:
        """Return the value of a pair, or -1."""
        keys, values, _ = self.columns
        return int(kernel.find(keys, values, (first << 32) | second))

    def remove(self, first: int, second: int) -> int:
        """Forget a pair; return the value that it had, or -1."""
        keys, values, _ = self.columns
        return int(kernel.remove(keys, values, (first << 32) | second))
