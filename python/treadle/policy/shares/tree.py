"""The tree that a cluster is shared by: the queues' own tree or a configured one, and its arrays for kernels.

A configured tree has the same format as in `treadle lab share`, with queues as leaves (docs/queue-shares.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from treadle.compiled.array_types import F64, I32, I64, Records
from treadle.compiled.functions import tables
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster

# Kinds of nodes (SHARE_NODE.kind), and the sums of the parent that count them.
OWED: Final = 0
LAST: Final = 1  # weight 0: served when no sibling with a weight can be
BLOCKED: Final = 2

# Additional rows of `Shares.vectors`.
USE: Final = 3  # the node's vector, as fractions of the partition
PART: Final = 4  # its contribution to a sum of the parent
VECTORS: Final = 5

# Places in `Shares.counters`.
WITNESS: Final = 0  # position in the list of open nodes where a request last found room
CHECKS_LEFT: Final = 1  # remaining checks whether a request fits a node; then it is assumed
SATURATED: Final = 2  # 1 if a resource became saturated since the last computation
AIMS_AT: Final = 3  # 1 while leaves below their aims are served, 0 while the tree decides
EVENTS: Final = 4  # number of events in the latest computation of aims
COUNTERS: Final = 5

# Places in `Shares.clock`.
VIRTUAL_TIME: Final = 0  # entitlement per unit of weight of each servable node since the cycle began
WEIGHTS: Final = 1  # total weight of the servable nodes
UNITS: Final = 2  # the partition's capacity, in units of a container's size
SERVED: Final = 3  # highest key of a leaf below its aim that was served
CLOCKS: Final = 4

NEVER: Final = 1e300

FROM_QUEUE: Final = -1.0
"""Value of `given`: the weight is the queue's guarantee in the partition."""

SHARE_NODE: Final = np.dtype(
    [
        ("share", "f8"),  # dominant share
        ("key", "f8"),  # the same divided by weight; or the deficit at virtual time 0
        ("rank", "f8"),  # the same, rounded for exact ties
        ("weight", "f8"),  # fraction of its siblings' weights
        ("given", "f8"),  # weight in the tree, or FROM_QUEUE
        ("entitled", "f8"),  # share given by the weights on its path
        ("wait", "f8"),  # leaf: its rank by aim (`treadle.policy.shares.aims`), in steps; `NEVER`: by the tree
        ("served_rank", "f8"),  # group: the highest rank of a served child; -1: none
        ("asks", "i8"),  # leaf: upper bound of the containers that it can still get
        ("parent", "i4"),
        ("first_child", "i4"),
        ("child_count", "i4"),
        ("queue", "i4"),  # -1: a group without a queue
        ("head", "i4"),  # leaf: its next application, or -1
        ("leaf", "u1"),
        ("kind", "u1"),
        ("sum", "u1"),  # which sum of its parent includes it
    ],
    align=True,
)
"""A node of the tree. The root is node 0; a node's children are contiguous, after it, in order."""

RESOURCE: Final = np.dtype(
    [
        ("least", "i8"),  # the smallest request above 0; 1 without any
        ("nodes", "i8"),  # number of nodes with room for it
        ("asked", "u1"),  # whether any request needs it
        ("counts", "u1"),  # counted in shares
        ("saturated", "u1"),  # no request that needs it can be placed
    ],
    align=True,
)

FILL: Final = np.dtype(
    [
        ("clock", "f8"),
        ("base", "f8"),  # the parent's clock at the time of `clock`
        ("speed", "f8"),  # advance of the clock per unit of the parent's
        ("level", "f8"),  # group: the least weighted share among its children that are not blocked
        ("level_rate", "f8"),
        ("share", "f8"),
        ("share_rate", "f8"),
        ("limit", "f8"),  # leaf: the share at which it has all that it requests
        ("binds", "f8"),  # group: when its queue reaches a maximum, by its clock
        ("due", "f8"),  # when the node or its subtree changes next, by its clock
        ("rising", "i4"),  # number of rising children
        ("blocked", "u1"),
        ("moves", "u1"),
    ],
    align=True,
)
"""The filling state of a node at the time of `clock`; rates are per unit of the clock."""

# Rows of `Shares.filled`, by resource.
UNIT: Final = 0  # leaf: its vector at a dominant share of 1
MOST: Final = 1  # the maximum of the node's queue, as a fraction of the partition
OFF: Final = 2  # 1: saturated at this node; children that need it are blocked
HAS: Final = 3  # the rescaled vector, as the parent uses it
HAS_RATE: Final = 4
REAL: Final = 5  # the actual vector, taken from the partition
REAL_RATE: Final = 6
GIVEN: Final = 7  # its contribution to the parent's HAS_RATE
REAL_GIVEN: Final = 8  # its contribution to the parent's REAL_RATE
FILLED: Final = 9

# Columns of `Shares.aims`, followed by one per resource: 1 if the requests need it.
AIM: Final = 0  # the leaf's aim, in the resources of its requests
STEP: Final = 1  # size of its smallest request
AIMS: Final = 2

MATCH: Final = np.dtype(
    [
        ("deadline", "f8"),  # the virtual time when the result of this match, or one below it, may change
        ("owed", "i4"),  # the winner by deficit
        ("first", "i4"),  # the winner by the order of its next application
    ],
    align=True,
)


@tables
class Shares(NamedTuple):
    """The arrays of sharing rules; only the tree's layout and `kept` outlive a cycle."""

    counters: I64
    nodes: Records
    vectors: F64  # node, sums by kind (OWED, LAST, BLOCKED), USE, PART; resource
    matches: Records  # a tournament of each node's children, starting at 2 x its first child
    leaf_node: I32  # the node of each leaf queue; -1: it gets nothing
    resources: Records
    clock: F64  # VIRTUAL_TIME, WEIGHTS, UNITS
    kept: F64  # partition, node: a number that the share keeps between cycles; empty unless it keeps one
    aims: F64  # partition, node: AIM, STEP, and resources that its requests need; empty without aims
    unaimed: I64  # partition: work of cycles since the last computation of aims
    fill: Records  # `FILL` by node, if leaves have aims
    filled: F64  # node, UNIT to REAL_GIVEN, resource
    kappa: float  # maximum of the largest deficit before fairness decides, as a fraction of the capacity
    slots: int  # 1 if a container's size is 1, 0 if it is its dominant demand


def shares_for(
    tree: Records, leaf_node: I32, resources: int, kept: int = 0, kappa: float = 0.0, slots: int = 0, aims: int = 0
) -> Shares:
    """Return the arrays for ``tree``, with kept numbers or aims for so many partitions."""
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
        kept=np.zeros((kept, len(tree))),
        aims=np.zeros((aims, aimed, AIMS + resources)),
        unaimed=np.full(aims, 1 << 40, np.int64),
        fill=np.zeros(aimed, FILL),
        filled=np.zeros((aimed, FILLED, resources)),
        kappa=kappa,
        slots=slots,
    )


def no_tree(resources: int) -> Shares:
    """Return the arrays for a rule without a tree."""
    return shares_for(np.zeros(0, SHARE_NODE), np.zeros(0, np.int32), resources)


MAX_DEPTH: Final = 64


class TreeNode(Parameters):
    """A node of a configured tree: a group if it has children, else a leaf queue."""

    weight: float = Field(
        default=1.0, ge=0.0, le=1e9, description="Its share is this over the sum of its siblings' and its own."
    )
    queue: str | None = Field(default=None, min_length=1, description="The leaf queue's path; the name if left out.")
    children: dict[str, TreeNode] = Field(default={}, description="The nodes that share what this one gets.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> TreeNode:
        if self.children and self.queue is not None:
            raise ValueError("a node with children is not a queue; leave out one of `queue` and `children`")
        return self


class TreeParameters(Parameters):
    """Common parameters of the shares with a tree."""

    weights: str = Field(
        default="guaranteed",
        pattern="^(guaranteed|equal)$",
        description="In the queues' own tree: guaranteed (each queue's guarantee in the RM), or equal.",
    )
    tree: dict[str, TreeNode] = Field(
        default={},
        description="A tree to share by instead of the queues' own: its first nodes by name (docs/queue-shares.md).",
    )

    @model_validator(mode="after")
    def _names_queues_once(self) -> TreeParameters:
        seen: set[str] = set()
        for path, depth in _leaves(self.tree, 1):
            if depth > MAX_DEPTH:
                raise ValueError(f"{path} is more than {MAX_DEPTH} levels below the root; make the tree flatter")
            if path in seen:
                raise ValueError(f"the queue {path} is in the tree twice; keep one")
            seen.add(path)
        return self


def _leaves(tree: dict[str, TreeNode], depth: int) -> Iterator[tuple[str, int]]:
    for name, node in tree.items():
        if node.children:
            yield from _leaves(node.children, depth + 1)
        else:
            yield node.queue or name, depth


class ShareTree:
    """Builds the arrays of the tree, again only when the queues have changed."""

    def __init__(
        self,
        parameters: TreeParameters,
        *,
        flat: bool,
        keeps: bool = False,
        kappa: float = 0.0,
        slots: bool = False,
        aims: bool = False,
    ) -> None:
        """Prepare ``flat``, with all leaves directly below the root, or the tree as it is.

        With ``keeps`` the share keeps a number for each leaf and partition. With ``aims`` leaves have aims. ``kappa``
        and ``slots`` are those of `Shares`.
        """
        self._parameters = parameters
        self._flat = flat
        self._keeps = keeps
        self._kappa = kappa
        self._slots = slots
        self._aims = aims
        self._children: I32 | None = None
        self._paths: tuple[str, ...] = ()
        """The queue path of each node of the tree; empty for a group without a queue."""
        self._partitions: tuple[str, ...] = ()
        """Names of the partitions, by number."""
        self._shares: Shares | None = None
        self.warnings: tuple[str, ...] = ()

    def shares(self, cluster: Cluster) -> Shares:
        """Return the arrays for a cluster's queues, with their lasting state."""
        partitions = len(cluster.names.partitions)
        kept, aims = (partitions if self._keeps else 0), (partitions if self._aims else 0)
        known = self._shares
        stale = known is None or len(known.kept) < kept or len(known.aims) < aims
        if known is None or stale or self._children is not cluster.queues.children:
            self._children = cluster.queues.children
            layout = _Layout(cluster, self._parameters, flat=self._flat)
            self.warnings = tuple(layout.warnings)
            nodes, leaf_node = layout.records()
            made = shares_for(nodes, leaf_node, len(cluster.counted), kept, self._kappa, int(self._slots), aims)
            texts = cluster.names.texts
            queues = nodes["queue"].tolist()
            paths = tuple(texts[cluster.queues.at["path"][queue]] if queue >= 0 else "" for queue in queues)
            names = tuple(texts[name] for name in cluster.names.partitions)
            if known is not None:
                self._carry(known, made, paths, names)
            self._shares, self._paths, self._partitions = made, paths, names
            known = made
        return known

    def _carry(self, old: Shares, new: Shares, paths: Sequence[str], partitions: Sequence[str]) -> None:
        """Carry over the kept numbers of queues by path: a snapshot changes their indices."""
        before = {path: at for at, path in enumerate(self._paths) if path}
        stayed = [(before[path], at) for at, path in enumerate(paths) if path in before]
        if not stayed or not len(new.kept):
            return
        was, now = np.array(stayed).T
        for number, name in enumerate(partitions):
            if name in self._partitions:
                new.kept[number, now] = old.kept[self._partitions.index(name), was]


@dataclass
class _Node:
    queue: int
    weight: float
    children: list[_Node] = field(default_factory=list)


class _Layout:
    """The tree of a cluster's queues, or the configured one matched with the cluster's queues."""

    def __init__(self, cluster: Cluster, parameters: TreeParameters, *, flat: bool) -> None:
        self.warnings: list[str] = []
        self._queues = cluster.queues
        self._equal = parameters.weights == "equal"
        exists, leaf = self._queues.at["exists"] == 1, self._queues.at["leaf"] == 1
        texts = cluster.names.texts
        self._leaves = {texts[self._queues.at["path"][at]]: int(at) for at in np.flatnonzero(exists & leaf)}
        if parameters.tree:
            self._top = self._configured(parameters.tree) + self._left_out()
        else:
            roots = np.flatnonzero(exists & (self._queues.at["parent"] < 0))
            self._top = self._below(int(roots[0])) if len(roots) else []
        if flat:
            self._top = list(self._flattened(self._top, 1.0))

    def _below(self, queue: int) -> list[_Node]:
        """Return the nodes of a queue's children, by the RM's tree."""
        first, count = int(self._queues.at["first_child"][queue]), int(self._queues.at["child_count"][queue])
        weight = 1.0 if self._equal else FROM_QUEUE
        children = self._queues.children[first : first + count].tolist()
        return [_Node(child, weight, self._below(child)) for child in children]

    def _configured(self, tree: dict[str, TreeNode]) -> list[_Node]:
        nodes = []
        for name, node in tree.items():
            if node.children:
                nodes.append(_Node(-1, node.weight, self._configured(node.children)))
            elif (node.queue or name) in self._leaves:
                nodes.append(_Node(self._leaves.pop(node.queue or name), node.weight))
            else:
                self.warnings.append(
                    f"share: the tree names {node.queue or name}, which is not a leaf queue of this cluster"
                )
        return nodes

    def _left_out(self) -> list[_Node]:
        """Return the queues outside the configured tree, served when no queue in it can be."""
        for path in self._leaves:
            self.warnings.append(f"share: the tree does not name queue {path}, which gets only what the others leave")
        return [_Node(queue, 0.0) for queue in self._leaves.values()]

    def _flattened(self, nodes: list[_Node], share: float) -> Iterator[_Node]:
        """Yield the leaves; configured weights (fractions among siblings) multiply along paths (section 3.2)."""
        total = sum(node.weight for node in nodes)
        for node in nodes:
            collapsed = node.weight if node.weight == FROM_QUEUE or self._equal else 0.0
            if not collapsed and total:
                collapsed = share * node.weight / total
            if node.children:
                yield from self._flattened(node.children, collapsed)
            elif self._queues.at["leaf"][node.queue]:
                yield _Node(node.queue, collapsed)

    def records(self) -> tuple[Records, I32]:
        """Number the nodes so that siblings are contiguous, after their parent; the root is 0.

        Returns the records, and the node of each queue or -1.
        """
        order, parents = [_Node(-1, 1.0, self._top)], [-1]
        firsts = []
        for node in order:  # it grows during the loop
            firsts.append(len(order))
            parents += [len(firsts) - 1] * len(node.children)
            order += node.children
        nodes = np.zeros(len(order), SHARE_NODE)
        nodes["parent"], nodes["first_child"] = parents, firsts
        nodes["child_count"] = [len(node.children) for node in order]
        nodes["queue"] = [node.queue for node in order]
        nodes["given"] = [node.weight for node in order]
        leaf = np.array([node.queue >= 0 and self._queues.at["leaf"][node.queue] == 1 for node in order])
        nodes["leaf"] = leaf
        leaf_node: I32 = np.full(len(self._queues.at) + 1, -1, np.int32)
        leaf_node[nodes["queue"][leaf]] = np.flatnonzero(leaf)
        return nodes, leaf_node
