"""The tree that a hierarchical scheduler shares a cluster by (H-DRF, SoCC 2013, section 2.1).

Every number is a `fractions.Fraction`: allocations computed from it are exact.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from treadle.errors import UserError

__all__ = ["Group", "Leaf", "Tree", "TreeError", "flattened"]

MAX_DEPTH = 64
"""Levels below the root that a tree may have: far more than any organisation, far less than Python's stack."""


class TreeError(UserError):
    """A tree that makes no sense; the message names the node or field, what is wrong and what to write instead."""


@dataclass(frozen=True)
class Leaf:
    """A job or user: the only kind of node that is given resources.

    `demand` is what one task needs, by resource, zero or positive; a resource that it does not name is not needed.
    `tasks` is how many tasks there are to run, None for more than any cluster can hold.
    """

    name: str
    demand: Mapping[str, Fraction]
    weight: Fraction = Fraction(1)
    tasks: int | None = None

    def __post_init__(self) -> None:
        _check_weight(self.name, self.weight)
        for resource, amount in self.demand.items():
            if not _is_finite(amount) or amount < 0:
                raise TreeError(
                    f"{self.name}: demand of {resource} is {amount}; a demand must be a finite number, 0 or more"
                )
        if self.tasks is not None and self.tasks < 0:
            raise TreeError(f"{self.name}: tasks is {self.tasks}; write 0 or more, or leave it out for endless work")
        if self.tasks is None and not any(self.demand.values()):
            raise TreeError(
                f"{self.name}: its tasks need nothing and it has endless work; give it a demand or a number of tasks"
            )


@dataclass(frozen=True)
class Group:
    """An internal node: a queue that shares what it gets among its children.

    `scheduler` is how: "fair" as the algorithm in use says, or "fifo", the first child that can run a task takes all
    (recursive scheduling, section 4.3).
    """

    name: str
    children: tuple[Group | Leaf, ...]
    weight: Fraction = Fraction(1)
    scheduler: str = "fair"

    def __post_init__(self) -> None:
        _check_weight(self.name, self.weight)
        if self.scheduler not in ("fair", "fifo"):
            raise TreeError(f"{self.name}: scheduler is {self.scheduler!r}; write fair or fifo")


@dataclass(frozen=True)
class Tree:
    """What there is to share, by resource (`capacity`), and the tree of those that share it.

    Raises `TreeError` for names that occur twice, a demand of a resource that `capacity` does not name, a tree that
    is too deep, and a capacity that is negative or not finite. A capacity of 0 is allowed: nobody gets any.
    """

    capacity: Mapping[str, Fraction]
    root: Group
    _leaves: tuple[Leaf, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for resource, amount in self.capacity.items():
            if not _is_finite(amount) or amount < 0:
                raise TreeError(f"resources: {resource} is {amount}; a capacity must be a finite number, 0 or more")
        leaves: list[Leaf] = []
        seen: set[str] = set()
        for node, depth in _walk(self.root, 0):
            if depth > MAX_DEPTH:
                raise TreeError(f"{node.name}: more than {MAX_DEPTH} levels below the root; make the tree flatter")
            if node.name in seen:
                raise TreeError(f"{node.name}: two nodes have this name; give each node a name of its own")
            seen.add(node.name)
            if isinstance(node, Leaf):
                self._check_resources(node)
                leaves.append(node)
        object.__setattr__(self, "_leaves", tuple(leaves))

    def _check_resources(self, leaf: Leaf) -> None:
        for resource in leaf.demand:
            if resource not in self.capacity:
                known = ", ".join(self.capacity) or "none"
                raise TreeError(
                    f"{leaf.name}: demand names {resource}, which the cluster does not have ({known}); correct the "
                    f"name, or add {resource}: 0 to the resources if nobody has any"
                )

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, in the order in which all vectors list them."""
        return tuple(self.capacity)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, from left to right."""
        return self._leaves

    def nodes(self) -> Iterator[Group | Leaf]:
        """All nodes, parents before their children, from left to right, beginning with the root."""
        return (node for node, _ in _walk(self.root, 0))

    def demand_share(self, leaf: Leaf) -> list[Fraction]:
        """Return what one task needs, each resource as a fraction of the cluster; 0 where the cluster has none."""
        return [
            Fraction(leaf.demand.get(name, 0)) / amount if amount else Fraction(0)
            for name, amount in self.capacity.items()
        ]

    def needs(self, leaf: Leaf) -> list[bool]:
        """Which resources a task of `leaf` needs, including those that the cluster has none of."""
        return [leaf.demand.get(name, 0) > 0 for name in self.capacity]

    def without(self, absent: Collection[str]) -> Tree:
        """Return the same tree without the named leaves, and without groups that are left empty. The root stays."""
        children = (_pruned(child, absent) for child in self.root.children)
        return replace(self, root=replace(self.root, children=tuple(c for c in children if c is not None)))

    def with_leaves(self, changed: Mapping[str, Leaf]) -> Tree:
        """Return the same tree with some leaves, by name, replaced by others."""
        return replace(self, root=_replaced(self.root, changed))


def flattened(tree: Tree) -> Tree:
    """Collapsed hierarchy (section 3.2): every leaf directly below the root, with the product of its path's shares.

    A node's share is its weight over the sum of its siblings' and its own.
    """
    leaves: list[Leaf] = []

    def collapse(group: Group, share: Fraction) -> None:
        total = sum((child.weight for child in group.children), Fraction(0))
        for child in group.children:
            portion = share * child.weight / total
            if isinstance(child, Leaf):
                leaves.append(replace(child, weight=portion))
            else:
                collapse(child, portion)

    collapse(tree.root, Fraction(1))
    return replace(tree, root=Group(tree.root.name, tuple(leaves)))


def _walk(node: Group | Leaf, depth: int) -> Iterator[tuple[Group | Leaf, int]]:
    stack = [(node, depth)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        if isinstance(node, Group):
            stack.extend((child, depth + 1) for child in reversed(node.children))


def _pruned(node: Group | Leaf, absent: Collection[str]) -> Group | Leaf | None:
    if isinstance(node, Leaf):
        return None if node.name in absent else node
    children = tuple(child for c in node.children if (child := _pruned(c, absent)) is not None)
    return replace(node, children=children) if children else None


def _replaced(group: Group, changed: Mapping[str, Leaf]) -> Group:
    return replace(
        group,
        children=tuple(
            _replaced(c, changed) if isinstance(c, Group) else changed.get(c.name, c) for c in group.children
        ),
    )


def _check_weight(name: str, weight: Fraction) -> None:
    if not _is_finite(weight) or weight <= 0:
        raise TreeError(f"{name}: weight is {weight}; a weight must be a finite number above 0")


def _is_finite(number: Fraction | float) -> bool:
    return isinstance(number, Fraction | int) or math.isfinite(number)


@dataclass(frozen=True)
class Rule:
    """The share of a node, given the vectors of what its children hold.

    `rescale`: a group's vector is the sum of its children's, each child that is not blocked first scaled to the least
    share among them (section 3.4, "Rescaling to Minimum Nodes"); otherwise the plain sum (section 3.3).
    `ignore_saturated`: resources that are fully used do not count in a share (end of section 3.4).
    `measured`: the resources that count, by name; None for all. CapacityScheduler's DefaultResourceCalculator counts
    memory alone, its DominantResourceCalculator all.
    """

    rescale: bool
    ignore_saturated: bool
    measured: frozenset[str] | None = None

    def counted(self, resources: Sequence[str], saturated: Sequence[bool]) -> list[int]:
        """Return the positions of the resources that count in a share, given which are saturated."""
        return [
            position
            for position, name in enumerate(resources)
            if (self.measured is None or name in self.measured) and not (self.ignore_saturated and saturated[position])
        ]


HDRF = Rule(rescale=True, ignore_saturated=True)
"""Dynamic H-DRF (Algorithms 2 to 4)."""

NAIVE = Rule(rescale=False, ignore_saturated=False)
"""Algorithm 1, which started from nothing defines the static allocation and kept running is naive H-DRF (3.3)."""
