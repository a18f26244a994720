"""Which nodes an ask may use, where its constraints or a part of the policy say that it may not use all.

A set is a bit a node. Request rows that may use the same nodes, as those of one application or with one constraint,
have one set between them. Where there are no constraints and no part chooses nodes there is nothing to look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle.compiled.array_types import I32, U8
from treadle.compiled.functions import inner
from treadle.model.classes import Classes
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.own_tags import counts_allow
from treadle.policy.state import Scratch

if TYPE_CHECKING:
    import numpy.typing as npt


@inner
def set_of(scratch: Scratch, row: int) -> int:
    """Return the set of nodes that an ask may use, -1 for all."""
    return scratch.row_nodes[row] if len(scratch.row_nodes) > 0 else -1


@inner
def in_set(node_sets: U8, chosen: int, node: int) -> bool:
    """Say whether a node is in a set."""
    return bool((node_sets[chosen, node >> 3] >> (node & 7)) & 1)


@inner
def may_use(scratch: Scratch, row: int, node: int) -> bool:
    """Return whether an ask may go to a node, by its constraints and the choices of parts. Nothing else checks this."""
    chosen = scratch.row_nodes[row] if len(scratch.row_nodes) > 0 else -1
    if chosen >= 0 and not (scratch.node_sets[chosen, node >> 3] >> (node & 7)) & 1:
        return False
    if len(scratch.tags.row_bounds) == 0 or scratch.tags.row_bounds[row] < 0:
        return True
    return counts_allow(scratch.node_sets, scratch.tags, row, node)


@inner
def counts_own(scratch: Scratch, row: int) -> bool:
    """Say whether an ask's nodes depend on where containers of its application are."""
    return len(scratch.tags.row_bounds) > 0 and scratch.tags.row_bounds[row] >= 0


@inner
def is_restricted(scratch: Scratch, row: int) -> bool:
    """Say whether there are nodes that an ask may not use."""
    return set_of(scratch, row) >= 0 or counts_own(scratch, row)


def sets_for(cluster: Cluster, view: View) -> NodeSets:
    """Return what constraints say of a decide's asks; application masters may run anywhere."""
    classes = cluster.classes
    sets = NodeSets(len(view.rows), len(view.nodes), classes if classes.active else None)
    if classes.active:
        bound = np.flatnonzero(sets.row_nodes >= 0)
        masters = view.apps["awaiting_am"][view.rows["application"][bound]] == 1
        sets.row_nodes[bound[masters]] = -1
    return sets


class NodeSets:
    """The sets of one decide. A row of which nothing is said may use any node."""

    def __init__(self, rows: int, nodes: int, classes: Classes | None = None) -> None:
        """Begin with this many request rows and nodes, and what constraints say of them."""
        self.row_nodes: I32 = np.full(rows, -1, np.int32)
        self._nodes = nodes
        self._sets: list[U8] = []
        self._of_classes: U8 = np.zeros((0, (nodes + 7) // 8), np.uint8)
        if classes is not None:
            self.row_nodes[:] = classes.row_class[:rows]
            self._of_classes = classes.packed

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
            self._sets.append(packed if before < 0 else packed & self._set(before))
            self.row_nodes[mine] = len(self._of_classes) + len(self._sets) - 1

    def _set(self, at: int) -> U8:
        of_classes = len(self._of_classes)
        return self._of_classes[at, : (self._nodes + 7) // 8] if at < of_classes else self._sets[at - of_classes]

    def sets(self) -> U8:
        """Return the sets: set, node / 8. Those of classes come first."""
        if not self._sets:
            return self._of_classes
        wide = (self._nodes + 7) // 8
        return np.concatenate([self._of_classes[:, :wide], np.array(self._sets, np.uint8).reshape(-1, wide)])
