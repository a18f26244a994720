"""The tree that a cluster is shared by, as kernels take it, and what they keep beside each of its nodes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from treadle.model.types import F64, I32, I64, Records

CAPACITY: Final = 0  # the CapacityScheduler's order of queues; the tree is not used
HDRF: Final = 1  # dynamic H-DRF
NAIVE: Final = 2  # DRF level by level without rescaling: static H-DRF, or DRF if the tree is flat

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
COUNTERS: Final = 2

FROM_QUEUE: Final = -1.0
"""As `given`: the weight is what the queue has been guaranteed in the partition."""

SHARE_NODE: Final = np.dtype(
    [
        ("share", "f8"),  # the dominant share
        ("key", "f8"),  # the same divided by weight
        ("rank", "f8"),  # the same, rounded so that equals are equal
        ("weight", "f8"),  # share of its siblings' weights
        ("given", "f8"),  # weight as the tree gives it, or FROM_QUEUE
        ("asks", "i8"),  # of a leaf: containers that it could still get as far as is known
        ("parent", "i4"),
        ("first_child", "i4"),
        ("child_count", "i4"),
        ("queue", "i4"),  # -1: a group that is no queue
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
        ("counts", "u1"),  # in a share
        ("saturated", "u1"),  # nothing that needs it can be placed
    ],
    align=True,
)


class Shares(NamedTuple):
    """What the rules of sharing keep; nothing outlives a decide but the layout of the tree."""

    counters: I64
    nodes: Records
    vectors: F64  # node, sums by kind (OWED, LAST, BLOCKED), USE, PART; resource
    winners: I32  # a tournament for the children of each node, beginning at 2 x its first child
    leaf_node: I32  # the node of each queue that is a leaf; -1: it gets nothing
    resources: Records


def shares_for(tree: Records, leaf_node: I32, resources: int) -> Shares:
    """Return room for what kernels keep about ``tree``."""
    return Shares(
        counters=np.zeros(COUNTERS, np.int64),
        nodes=tree,
        vectors=np.zeros((len(tree), VECTORS, resources)),
        winners=np.zeros(2 * len(tree), np.int32),
        leaf_node=leaf_node,
        resources=np.zeros(resources, RESOURCE),
    )


def no_tree(resources: int) -> Shares:
    """Return what a rule takes that needs no tree."""
    return shares_for(np.zeros(0, SHARE_NODE), np.zeros(0, np.int32), resources)
