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
AIMS_AT: Final = 3  # 1 while leaves below their aims are served, 0 while the tree is followed
EVENTS: Final = 4  # what the latest computation of aims took
COUNTERS: Final = 5

# Places in `Shares.clock`.
VIRTUAL_TIME: Final = 0  # what each node that may be served was owed since the decide began, for a weight of 1
WEIGHTS: Final = 1  # of the nodes that may be served, added up
UNITS: Final = 2  # the partition's capacity, in what a container counts
SERVED: Final = 3  # the highest key below its aim with which a leaf was served
CLOCKS: Final = 4

NEVER: Final = 1e300

FROM_QUEUE: Final = -1.0
"""As `given`: the weight is what the queue has been guaranteed in the partition."""

SHARE_NODE: Final = np.dtype(
    [
        ("share", "f8"),  # the dominant share
        ("key", "f8"),  # the same divided by weight; or the deficit when the virtual time was 0
        ("rank", "f8"),  # the same, rounded so that equals are equal
        ("weight", "f8"),  # share of its siblings' weights
        ("given", "f8"),  # weight as the tree gives it, or FROM_QUEUE
        ("entitled", "f8"),  # what the weights on its path give it
        (
            "wait",
            "f8",
        ),  # of a leaf: its turn by its aim (`treadle.policy.shares.aims.turn`), in steps; `NEVER`: by the tree
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


FILL: Final = np.dtype(
    [
        ("clock", "f8"),
        ("base", "f8"),  # the parent's clock when this one showed `clock`
        ("speed", "f8"),  # how much the clock advances in a unit of the parent's
        ("level", "f8"),  # of a group: the least weighted share among its children that are not blocked
        ("level_rate", "f8"),
        ("share", "f8"),
        ("share_rate", "f8"),
        ("limit", "f8"),  # of a leaf: the share with which it has all that it wants
        ("binds", "f8"),  # of a group: when its queue reaches a maximum, by its clock
        ("due", "f8"),  # when something changes at the node or below, by its clock
        ("rising", "i4"),  # children that move
        ("blocked", "u1"),
        ("moves", "u1"),
    ],
    align=True,
)
"""The state of a node; all is as of `clock`, and rates are per unit of the clock."""

# Rows of `Shares.filled`, by resource.
UNIT: Final = 0  # of a leaf: its vector when its dominant share is 1
MOST: Final = 1  # the maximum of the node's queue, as a fraction of the partition
OFF: Final = 2  # 1: does not count at this node, and who needs it is blocked
HAS: Final = 3  # the vector as the parent sees it, rescaled
HAS_RATE: Final = 4
REAL: Final = 5  # the vector that is taken from the pool
REAL_RATE: Final = 6
GIVEN: Final = 7  # its part of the parent's HAS_RATE
REAL_GIVEN: Final = 8  # its part of the parent's REAL_RATE
FILLED: Final = 9

# Columns of `Shares.aims`, before one for each resource: 1 if the asks need it.
AIM: Final = 0  # where the leaf is to be, in what its asks need
STEP: Final = 1  # what its smallest ask counts
AIMS: Final = 2

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
    aims: F64  # partition, node: AIM, STEP, and which resources its asks need; no partition unless leaves have aims
    unaimed: I64  # partition: work of decides since the aims were computed
    fill: Records  # `FILL` a node, if leaves have aims
    filled: F64  # node, UNIT to REAL_GIVEN, resource
    kappa: float  # how far the largest deficit may grow before fairness rules, as a part of the capacity
    slots: int  # 1 if a container counts 1, 0 if it counts its dominant demand


def shares_for(
    tree: Records, leaf_node: I32, resources: int, deficits: int = 0, kappa: float = 0.0, slots: int = 0, aims: int = 0
) -> Shares:
    """Return room for what kernels keep about ``tree``, with deficits or aims in so many partitions."""
    aimed = len(tree) if aims else 0
    tree["wait"] = NEVER
    return Shares(
        counters=np.zeros(COUNTERS, np.int64),
        nodes=tree,
        vectors=np.zeros((len(tree), VECTORS, resources)),
        matches=np.zeros(2 * len(tree), MATCH),
        leaf_node=leaf_node,
        resources=np.zeros(resources, RESOURCE),
        clock=np.zeros(CLOCKS),
        deficits=np.zeros((deficits, len(tree))),
        aims=np.zeros((aims, aimed, AIMS + resources)),
        unaimed=np.full(aims, 1 << 40, np.int64),
        fill=np.zeros(aimed, FILL),
        filled=np.zeros((aimed, FILLED, resources)),
        kappa=kappa,
        slots=slots,
    )


def no_tree(resources: int) -> Shares:
    """Return what a rule takes that needs no tree."""
    return shares_for(np.zeros(0, SHARE_NODE), np.zeros(0, np.int32), resources)
