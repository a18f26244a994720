"""What a rejection teaches: who is left alone, and for how many decides.

The RM's reason says whose mistake it was: the pair of request row and node (another node may do), the node, or the
row. That one is not proposed again for a number of decides that doubles with each rejection in a row, up to
`LONGEST`. Counts of decides, not clocks: the same events give the same proposals.
"""

from __future__ import annotations

import numpy as np

from treadle.compiled.array_types import I32, U8, Records
from treadle.compiled.pair_map import PairMap
from treadle.events import Fate

SHORTEST = 4
LONGEST = 1024
MAX_PAIRS = 1 << 16

_PAIR = {Fate.BLACKLISTED, Fate.WRONG_PARTITION, Fate.LOCALITY, Fate.CONSTRAINT, Fate.NODE_FULL}
_NODE = {Fate.UNKNOWN_NODE, Fate.NODE_NOT_RUNNING, Fate.NODE_STALE, Fate.NODE_RESERVED}
_APPLICATION = {
    Fate.UNKNOWN_APPLICATION,
    Fate.FINISHED_ATTEMPT,
    Fate.STOPPED_ATTEMPT,
    Fate.INACTIVE_APPLICATION,
}
_NOBODY = {Fate.COMMITTED, Fate.OBSERVED, Fate.OVER_BATCH, Fate.LEASE_LOST, Fate.NOT_READY}


class Rejections:
    """Cool-downs after rejections."""

    def __init__(self) -> None:
        self.excluded = PairMap()
        """(row, node) -> the decide from which the node may be proposed for the row again (31 bits of it)."""
        self.last_cool = 0
        """No cool-down lasts beyond this decide."""
        self._pairs = 0

    def learn(
        self,
        nodes: Records,
        apps: Records,
        rows: Records,
        batch: Records,
        positions: I32,
        fates: U8,
        decide: int,
    ) -> None:
        """Take the fates of proposals of ``batch``; ``decide`` is the number of the next decide."""
        for at in np.flatnonzero(fates):
            position, fate = int(positions[at]), int(fates[at])
            if not 0 <= position < len(batch) or fate in _NOBODY:
                continue
            row, node, app = (
                int(batch["row"][position]),
                int(batch["node"][position]),
                int(batch["application"][position]),
            )
            until = decide + min(SHORTEST << int(rows["cool_level"][row]), LONGEST)
            if rows["cool_level"][row] < 20:
                rows["cool_level"][row] += 1
            self.last_cool = max(self.last_cool, until)
            if fate in _PAIR:
                self._exclude(rows, row, node, until)
            elif fate in _NODE:
                nodes["cool_until"][node] = until
            elif fate in _APPLICATION:
                apps["cool_until"][app] = until
            else:
                rows["cool_until"][row] = until

    def follow(self, before: Rejections, new_row: I32, new_node: I32, rows: Records, decide: int) -> None:
        """Take over the cool-downs of a model before a snapshot that have not ended by ``decide``.

        ``new_row`` and ``new_node`` have the new index of each old one, -1 for none; ``rows`` are the new rows.
        """
        self.last_cool = before.last_cool
        pairs = before.excluded.pairs[before.excluded.pairs["key"] >= 0]
        pairs = pairs[pairs["value"] > (decide & 0x7FFFFFFF)]
        row, node = new_row[pairs["key"] >> 32], new_node[pairs["key"] & 0xFFFFFFFF]
        stayed = (row >= 0) & (node >= 0)
        order = np.argsort(pairs["key"][stayed])
        for at in order.tolist():
            self._exclude(rows, int(row[stayed][at]), int(node[stayed][at]), int(pairs["value"][stayed][at]))

    def _exclude(self, rows: Records, row: int, node: int, until: int) -> None:
        """Keep ``row`` off ``node``. Too many pairs are all forgotten, which only ends cool-downs early."""
        if self._pairs >= MAX_PAIRS:
            self.excluded = PairMap()
            self._pairs = 0
        self._pairs += 1
        rows["exclusions"][row] += 1
        self.excluded.put(row, node, until & 0x7FFFFFFF)
