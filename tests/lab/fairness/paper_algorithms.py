"""Algorithms 3 and 4 of the H-DRF paper, word for word: every share anew for every task.

This is the definition that `ShareTree` is held against.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from treadle_lab.fairness.fluid import Group, Leaf, Rule, Tree

__all__ = ["NodeShare", "next_leaf", "update_shares"]


@dataclass(frozen=True)
class NodeShare:
    """What a node counts for: its share, the (rescaled) vector it hands up, whether it is blocked."""

    share: Fraction
    use: tuple[Fraction, ...]
    blocked: bool


def update_shares(
    tree: Tree,
    rule: Rule,
    held: Mapping[str, Sequence[Fraction]],
    saturated: Sequence[bool],
    blocked: Collection[str] = (),
) -> dict[str, NodeShare]:
    """Compute UpdateS of Algorithm 3 for every node, by name.

    `held` is what each leaf has, as fractions of the cluster; a leaf is blocked if it is in `blocked` (it has no more
    tasks, or none that fits anywhere) or needs a resource that is saturated.
    """
    counted = rule.counted(tree.resources, saturated)
    shares: dict[str, NodeShare] = {}

    def update(node: Group | Leaf) -> NodeShare:
        if isinstance(node, Leaf):
            use = tuple(held[node.name])
            stopped = node.name in blocked or any(n and s for n, s in zip(tree.needs(node), saturated, strict=True))
        else:
            use, stopped = total(node, [update(child) for child in node.children])
        shares[node.name] = NodeShare(max((use[p] for p in counted), default=Fraction(0)), use, stopped)
        return shares[node.name]

    def total(group: Group, states: list[NodeShare]) -> tuple[tuple[Fraction, ...], bool]:
        pairs = list(zip(group.children, states, strict=True))
        least = min((state.share / child.weight for child, state in pairs if not state.blocked), default=None)
        vectors = []
        for child, state in pairs:
            factor = Fraction(1)
            if rule.rescale and group.scheduler == "fair" and least is not None and not state.blocked:
                factor = least * child.weight / state.share if state.share else Fraction(0)
            vectors.append([factor * amount for amount in state.use])
        use = tuple(sum(column, Fraction(0)) for column in zip(*vectors, strict=True))
        return use or (Fraction(0),) * len(saturated), least is None

    update(tree.root)
    return shares


def next_leaf(tree: Tree, shares: Mapping[str, NodeShare]) -> Leaf | None:
    """Walk down as in Algorithm 4: who gets the next task? The leftmost of equals; None when all are blocked."""
    node: Group | Leaf = tree.root
    while isinstance(node, Group):
        children = [child for child in node.children if not shares[child.name].blocked]
        if not children:
            return None
        if node.scheduler == "fifo":
            node = children[0]
        else:
            node = min(children, key=lambda child: shares[child.name].share / child.weight)
    return node
