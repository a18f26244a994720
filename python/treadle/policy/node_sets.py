"""Which nodes an ask may use, where its constraints or a part of the policy say that it may not use all.

A set is a bit a node. Request rows that may use the same nodes, as those of one application or with one constraint,
have one set between them. Where there are no constraints and no part chooses nodes there is nothing to look at.
"""

from __future__ import annotations

import numpy as np

from treadle.compiled.array_types import I32, U8
from treadle.compiled.functions import inner
from treadle.model.classes import ANY_NODE
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.own_tags import counts_allow
from treadle.policy.state import Scratch


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


def rows_bound(cluster: Cluster, view: View) -> I32:
    """Return the set of nodes that each request row may use, by its constraints; application masters run anywhere."""
    found: I32 = np.array(cluster.classes.row_class[: len(view.rows)])
    bound = np.flatnonzero(found >= 0)
    masters = view.apps["awaiting_am"][view.rows["application"][bound]] == 1
    found[bound[masters]] = ANY_NODE
    return found
