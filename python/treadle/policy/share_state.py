"""The tree that a cluster is shared by, as kernels take it, and what they keep beside each of its nodes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, Records
from treadle.compiled.structs import tables

# Where a node stands among its siblings (SHARE_NODE.kind), and the sums of its parent that count it.
OWED: Final = 0
LAST: Final = 1  # its weight is 0: served when no sibling with a weight can be
BLOCKED: Final = 2

# Further rows of `Shares.vectors`.
USE: Final = 3  # what the node counts for, as fractions of the partition
PART: Final = 4  # what of it is in a sum of the parent's
VECTORS: Final = 5

# Places in `Shares.counters`.
WITNESS: Final = 0  # the place in the list of open nodes where an ask last found room
CHECKS_LEFT: Final = 1  # so often one may still look whether an ask fits a node before it must be taken for granted
SATURATED: Final = 2  # 1 if a resource was saturated since everything was computed
COUNTERS: Final = 3

# Places in `Shares.clock`.
VIRTUAL_TIME: Final = 0  # what each node that may be served was owed since the decide began, for a weight of 1
WEIGHTS: Final = 1  # of the nodes that may be served, added up
UNITS: Final = 2  # the partition's capacity, in what a container counts
CLOCKS: Final = 3

FROM_QUEUE: Final = -1.0
"""As `given`: the weight is what the queue has been guaranteed in the partition."""

SHARE_NODE: Final = np.dtype(
    [
        ("share", "f8"),  # the dominant share
        ("key", "f8"),  # the same divided by weight; or the deficit when the virtual time was 0
        ("rank", "f8"),  # the same, rounded so that equals are equal
        ("weight", "f8"),  # share of its siblings' weights
        ("given", "f8"),  # weight as the tree gives it, or FROM_QUEUE
        ("served_rank", "f8"),  # of a group: the highest rank with which a child was served; -1: none was
        ("asks", "i8"),  # of a leaf: containers that it could still get as far as is known
        ("parent", "i4"),
        ("first_child", "i4"),
        ("child_count", "i4"),
        ("queue", "i4"),  # -1: a group that is no queue
        ("head", "i4"),  # of a leaf: its next application, or -1
        ("leaf", "u1"),
        ("kind", "u1"),
        ("sum", "u1"),  # which sum of its parent's counts it
    ],
    align=True,
)
"""A node of the tree. The root is node 0; the children of a node stand side by side, after it, in order."""

RESOURCE: Final = np.dtype(
    [
        ("least", "i8"),  # the smallest ask that is not 0; 1 if nobody asks for any
        ("nodes", "i8"),  # nodes with room for that
        ("asked", "u1"),  # somebody asks for some
        ("counts", "u1"),  # in a share
        ("saturated", "u1"),  # nothing that needs it can be placed
    ],
    align=True,
)


MATCH: Final = np.dtype(
    [
        ("deadline", "f8"),  # the virtual time at which this match or one below it may end otherwise
        ("owed", "i4"),  # the node that wins by what it is owed
        ("first", "i4"),  # the one that wins by the order of its next application
    ],
    align=True,
)


@tables
class Shares(NamedTuple):
    """What the rules of sharing keep; nothing outlives a decide but the layout of the tree and the deficits."""

    counters: I64
    nodes: Records
    vectors: F64  # node, sums by kind (OWED, LAST, BLOCKED), USE, PART; resource
    matches: Records  # a tournament for the children of each node, beginning at 2 x its first child
    leaf_node: I32  # the node of each queue that is a leaf; -1: it gets nothing
    resources: Records
    clock: F64  # VIRTUAL_TIME, WEIGHTS, UNITS
    deficits: F64  # partition, node: what it is owed between decides; no partition unless the share has deficits
    kappa: float  # how far the largest deficit may grow before fairness rules, as a part of the capacity
    slots: int  # 1 if a container counts 1, 0 if it counts its dominant demand


def shares_for(
    tree: Records, leaf_node: I32, resources: int, partitions: int = 0, kappa: float = 0.0, slots: int = 0
) -> Shares:
    """Return room for what kernels keep about ``tree``."""
    return Shares(
        counters=np.zeros(COUNTERS, np.int64),
        nodes=tree,
        vectors=np.zeros((len(tree), VECTORS, resources)),
        matches=np.zeros(2 * len(tree), MATCH),
        leaf_node=leaf_node,
        resources=np.zeros(resources, RESOURCE),
        clock=np.zeros(CLOCKS),
        deficits=np.zeros((partitions, len(tree))),
        kappa=kappa,
        slots=slots,
    )


def no_tree(resources: int) -> Shares:
    """Return what a rule takes that needs no tree."""
    return shares_for(np.zeros(0, SHARE_NODE), np.zeros(0, np.int32), resources)
