"""Nodes that a request may use, where constraints or a part of the policy exclude some.

A set has one bit per node. Request rows with the same nodes, such as those of one application or with one constraint,
share a set. Without constraints and node selection by a part there is nothing to check.
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
    """Return the set of nodes that a row may use, -1 for all."""
    return scratch.row_nodes[row] if len(scratch.row_nodes) > 0 else -1


@inner
def in_set(node_sets: U8, chosen: int, node: int) -> bool:
    """Return whether a node is in a set."""
    return bool((node_sets[chosen, node >> 3] >> (node & 7)) & 1)


@inner
def may_use(scratch: Scratch, row: int, node: int) -> bool:
    """Return whether a row may use a node, by constraints and choices of parts. Nothing else checks this."""
    chosen = scratch.row_nodes[row] if len(scratch.row_nodes) > 0 else -1
    if chosen >= 0 and not (scratch.node_sets[chosen, node >> 3] >> (node & 7)) & 1:
        return False
    if len(scratch.tags.row_bounds) == 0 or scratch.tags.row_bounds[row] < 0:
        return True
    return counts_allow(scratch.node_sets, scratch.tags, row, node)


@inner
def counts_own(scratch: Scratch, row: int) -> bool:
    """Return whether a row's nodes depend on where its application's containers are."""
    return len(scratch.tags.row_bounds) > 0 and scratch.tags.row_bounds[row] >= 0


@inner
def is_restricted(scratch: Scratch, row: int) -> bool:
    """Return whether some nodes are excluded for a row."""
    return set_of(scratch, row) >= 0 or counts_own(scratch, row)


def rows_bound(cluster: Cluster, view: View) -> I32:
    """Return the set of nodes of each request row by its constraints; AMs may use any node."""
    found: I32 = np.array(cluster.classes.row_class[: len(view.rows)])
    bound = np.flatnonzero(found >= 0)
    masters = view.apps["awaiting_am"][view.rows["application"][bound]] == 1
    found[bound[masters]] = ANY_NODE
    return found
