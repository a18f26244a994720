"""The tree that a cluster is shared by: the queues' own, or one that treadle.yaml gives.

Given trees are written as `treadle share` reads them, with queues for leaves::

    tree:
      production: {weight: 3, children: {root.etl: {}, root.reports: {weight: 2}}}
      research: {weight: 1, children: {cpu: {queue: root.batch}, gpu: {queue: root.models}}}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pydantic import Field, model_validator

from treadle.compiled.array_types import I32, Records
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.policy.share_state import FROM_QUEUE, SHARE_NODE, Shares, shares_for

MAX_DEPTH: Final = 64


class TreeNode(Parameters):
    """A node of a given tree: a group if it has children, else a leaf queue."""

    weight: float = Field(default=1.0, ge=0.0, le=1e9, description="Of what the node's siblings and it weigh.")
    queue: str | None = Field(default=None, min_length=1, description="The leaf queue's path; the name if left out.")
    children: dict[str, TreeNode] = Field(default={}, description="The nodes that share what this one gets.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> TreeNode:
        if self.children and self.queue is not None:
            raise ValueError("a node with children is no queue; leave out one of `queue` and `children`")
        return self


class TreeParameters(Parameters):
    """What the shares that follow a tree have in common."""

    weights: str = Field(
        default="guaranteed",
        pattern="^(guaranteed|equal)$",
        description="In the queues' own tree: guaranteed (what the RM guarantees each queue), or equal.",
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
    """Lays the tree out for kernels, and does so again only when the queues have changed."""

    def __init__(
        self,
        parameters: TreeParameters,
        *,
        flat: bool,
        kappa: float | None = None,
        slots: bool = False,
        aims: bool = False,
    ) -> None:
        """Prepare for ``flat``, all leaves directly below the root, or for the tree as it is.

        With ``kappa`` there are deficits: in slots, or in dominant shares. With ``aims`` leaves have aims.
        """
        self._parameters = parameters
        self._flat = flat
        self._kappa = kappa
        self._slots = slots
        self._aims = aims
        self._children: I32 | None = None
        self._paths: tuple[str, ...] = ()
        """Of the queue of each node of the tree; empty for a group that is no queue."""
        self._partitions: tuple[str, ...] = ()
        """Their names, by number."""
        self._shares: Shares | None = None
        self.warnings: tuple[str, ...] = ()

    def shares(self, cluster: Cluster) -> Shares:
        """Return the tree of a cluster's queues, with what kernels kept on it."""
        partitions = len(cluster.names.partitions)
        deficits, aims = (0 if self._kappa is None else partitions), (partitions if self._aims else 0)
        known = self._shares
        stale = known is None or len(known.deficits) < deficits or len(known.aims) < aims
        if known is None or stale or self._children is not cluster.queues.children:
            self._children = cluster.queues.children
            layout = _Layout(cluster, self._parameters, flat=self._flat)
            self.warnings = tuple(layout.warnings)
            nodes, leaf_node = layout.records()
            made = shares_for(
                nodes, leaf_node, len(cluster.counted), deficits, self._kappa or 0.0, int(self._slots), aims
            )
            texts = cluster.names.texts
            queues = nodes["queue"].tolist()
            paths = tuple(texts[cluster.queues.at["path"][queue]] if queue >= 0 else "" for queue in queues)
            names = tuple(texts[name] for name in cluster.names.partitions)
            if known is not None:
                self._carry_deficits(known, made, paths, names)
            self._shares, self._paths, self._partitions = made, paths, names
            known = made
        return known

    def _carry_deficits(self, old: Shares, new: Shares, paths: Sequence[str], partitions: Sequence[str]) -> None:
        """Let queues that stay keep their deficits, whatever their indices are after a snapshot."""
        before = {path: at for at, path in enumerate(self._paths) if path}
        stayed = [(before[path], at) for at, path in enumerate(paths) if path in before]
        if not stayed or not len(new.deficits):
            return
        was, now = np.array(stayed).T
        for number, name in enumerate(partitions):
            if name in self._partitions:
                new.deficits[number, now] = old.deficits[self._partitions.index(name), was]


@dataclass
class _Node:
    queue: int
    weight: float
    children: list[_Node] = field(default_factory=list)


class _Layout:
    """The tree of a cluster's queues, or the given one with its queues found in the cluster."""

    def __init__(self, cluster: Cluster, parameters: TreeParameters, *, flat: bool) -> None:
        self.warnings: list[str] = []
        self._queues = cluster.queues
        self._equal = parameters.weights == "equal"
        exists, leaf = self._queues.at["exists"] == 1, self._queues.at["leaf"] == 1
        texts = cluster.names.texts
        self._leaves = {texts[self._queues.at["path"][at]]: int(at) for at in np.flatnonzero(exists & leaf)}
        if parameters.tree:
            self._top = self._given(parameters.tree) + self._left_out()
        else:
            roots = np.flatnonzero(exists & (self._queues.at["parent"] < 0))
            self._top = self._own(int(roots[0])) if len(roots) else []
        if flat:
            self._top = list(self._flattened(self._top, 1.0))

    def _own(self, queue: int) -> list[_Node]:
        first, count = int(self._queues.at["first_child"][queue]), int(self._queues.at["child_count"][queue])
        weight = 1.0 if self._equal else FROM_QUEUE
        return [
            _Node(child, weight, self._own(child)) for child in self._queues.children[first : first + count].tolist()
        ]

    def _given(self, tree: dict[str, TreeNode]) -> list[_Node]:
        nodes = []
        for name, node in tree.items():
            if node.children:
                nodes.append(_Node(-1, node.weight, self._given(node.children)))
            elif (node.queue or name) in self._leaves:
                nodes.append(_Node(self._leaves.pop(node.queue or name), node.weight))
            else:
                self.warnings.append(
                    f"share: the tree names {node.queue or name}, which is no leaf queue of this cluster"
                )
        return nodes

    def _left_out(self) -> list[_Node]:
        """Return what the given tree does not name: served when nobody in it can be."""
        for path in self._leaves:
            self.warnings.append(f"share: the tree does not name queue {path}, which gets only what the others leave")
        return [_Node(queue, 0.0) for queue in self._leaves.values()]

    def _flattened(self, nodes: list[_Node], share: float) -> Iterator[_Node]:
        """Yield the leaves; given weights, as parts of their siblings', are multiplied along paths (section 3.2)."""
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
        """Number the nodes so that siblings stand side by side, after their parent; the root is 0.

        Returns the records, and the node of each queue or -1.
        """
        order, parents = [_Node(-1, 1.0, self._top)], [-1]
        firsts = []
        for node in order:  # which grows meanwhile
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
