"""Which nodes an ask may use, where a part of the policy says that it may not use all.

A set is a bit a node. Request rows that may use the same nodes, as those of one application or with one constraint,
have one set between them. Where no part chooses nodes there is nothing to look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle.compiled.array_types import I32, U8
from treadle.compiled.functions import inner

if TYPE_CHECKING:
    import numpy.typing as npt

    from treadle.policy.state import Scratch


@inner
def may_use(scratch: Scratch, row: int, node: int) -> bool:
    """Say whether an ask may use a node, as far as parts choose nodes."""
    if len(scratch.row_nodes) == 0 or scratch.row_nodes[row] < 0:
        return True
    return bool((scratch.node_sets[scratch.row_nodes[row], node >> 3] >> (node & 7)) & 1)


@inner
def is_restricted(scratch: Scratch, row: int) -> bool:
    """Say whether there are nodes that an ask may not use."""
    return len(scratch.row_nodes) > 0 and scratch.row_nodes[row] >= 0


class NodeSets:
    """The sets of one decide. A row of which nothing is said may use any node."""

    def __init__(self, rows: int, nodes: int) -> None:
        """Begin with so many request rows and nodes."""
        self.row_nodes: I32 = np.full(rows, -1, np.int32)
        self._nodes = nodes
        self._sets: list[U8] = []

    def restrict(self, rows: npt.ArrayLike, nodes: npt.ArrayLike) -> None:
        """Let request rows use no other nodes than these, and of these only what they could use before.

        Args:
            rows: the rows, as indices
            nodes: True for each node that may be used; those beyond its end may not
        """
        may = np.zeros(self._nodes, bool)
        given = np.asarray(nodes, bool)
        may[: len(given)] = given
        packed = np.packbits(may, bitorder="little")
        at = np.asarray(rows, np.int64)
        for before in np.unique(self.row_nodes[at]).tolist():
            mine = at[self.row_nodes[at] == before]
            self._sets.append(packed if before < 0 else packed & self._sets[before])
            self.row_nodes[mine] = len(self._sets) - 1

    def sets(self) -> U8:
        """Return the sets: set, node / 8."""
        return np.array(self._sets, np.uint8).reshape(len(self._sets), (self._nodes + 7) // 8)
