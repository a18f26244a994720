"""Growing maps from a pair of indices to an index, usable inside kernels."""

from __future__ import annotations

import numpy as np

from treadle.compiled import pairs as kernel
from treadle.compiled.array_types import Records


class PairMap:
    """A map (first, second) -> value of indices below 2**31 that kernels read and change.

    Whoever lets a kernel add pairs must call `reserve` before: a kernel cannot make room.
    """

    def __init__(self) -> None:
        self.pairs: Records = self._empty(64)
        self._used = 0
        """No more slots than these are in use: pairs, removed ones, and what was reserved."""

    @staticmethod
    def _empty(capacity: int) -> Records:
        pairs = np.zeros(capacity, kernel.PAIR)
        pairs["key"] = kernel.EMPTY
        return pairs

    def reserve(self, more: int) -> None:
        """Make room for ``more`` further pairs: at most half of the slots are in use afterwards."""
        if 2 * (self._used + more) > len(self.pairs):
            live = int(np.count_nonzero(self.pairs["key"] >= 0))
            capacity = len(self.pairs)
            while capacity < 4 * (live + more):
                capacity *= 2
            bigger = self._empty(capacity)
            self._used = int(kernel.copy_live(self.pairs, bigger))
            self.pairs = bigger
        self._used += more

    def put(self, first: int, second: int, value: int) -> None:
        """Set the value of a pair."""
        self.reserve(1)
        kernel.put(self.pairs, (first << 32) | second, value)

    def find(self, first: int, second: int) -> int:
        """Return the value of a pair, or -1."""
        return int(kernel.find(self.pairs, (first << 32) | second))

    def remove(self, first: int, second: int) -> int:
        """Forget a pair; return the value that it had, or -1."""
        return int(kernel.remove(self.pairs, (first << 32) | second))
