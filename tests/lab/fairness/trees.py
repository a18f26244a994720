"""Random trees, and what the theorems say about their nodes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction

from hypothesis import strategies as st

from treadle_lab.fairness.fluid import Group, Leaf, Tree

RESOURCES = ("cpu", "gpu", "memory")
amounts = st.integers(0, 4).map(Fraction)


@st.composite
def trees(draw: st.DrawFn, finite: bool = False, whole: bool = False) -> Tree:
    """Up to four levels and some twenty leaves, two or three resources, weights, zero demands; endless or few tasks."""
    resources = RESOURCES[: draw(st.integers(2, 3))]
    counter = iter(range(10_000))

    def node(depth: int) -> Group | Leaf:
        name = f"x{next(counter)}"
        weight = Fraction(draw(st.integers(1, 4)), draw(st.sampled_from((1, 1, 3))))
        if depth and draw(st.booleans()):
            children = draw(st.integers(1, 3))
            return Group(name, tuple(node(depth - 1) for _ in range(children)), weight)
        demand = {resource: draw(amounts) for resource in resources}
        if not any(demand.values()):
            demand[draw(st.sampled_from(resources))] = Fraction(1)
        tasks = draw(st.none() | st.integers(0, 12)) if finite else None
        return Leaf(name, demand, weight, tasks)

    children = draw(st.integers(1, 4))
    size = draw(st.integers(6, 20)) if whole else draw(st.sampled_from((1, 10, 12)))
    root = Group("root", tuple(node(3) for _ in range(children)))
    return Tree({resource: Fraction(size) for resource in resources}, root)


def random_tree(rng: random.Random) -> Tree:
    """Return a tree of up to three levels from a seed, for counting how often something happens."""
    resources = RESOURCES[: rng.randint(2, 3)]
    counter = iter(range(10_000))

    def node(depth: int) -> Group | Leaf:
        name = f"x{next(counter)}"
        weight = Fraction(rng.randint(1, 3))
        if not depth or rng.random() < 0.4:
            demand = {resource: Fraction(rng.randint(0, 3)) for resource in resources}
            if not any(demand.values()):
                demand[rng.choice(resources)] = Fraction(1)
            return Leaf(name, demand, weight)
        return Group(name, tuple(node(depth - 1) for _ in range(rng.randint(1, 3))), weight)

    root = Group("root", tuple(node(2) for _ in range(rng.randint(2, 3))))
    return Tree({resource: Fraction(10) for resource in resources}, root)


def uses(tree: Tree, tasks: Mapping[str, Fraction]) -> dict[str, list[Fraction]]:
    """Return what each node really holds, all that is below it, as fractions of the cluster."""
    held: dict[str, list[Fraction]] = {}
    for node in reversed(list(tree.nodes())):
        if isinstance(node, Leaf):
            held[node.name] = [amount * tasks[node.name] for amount in tree.demand_share(node)]
        else:
            vectors = [held[child.name] for child in node.children]
            held[node.name] = [sum(column, Fraction(0)) for column in zip(*vectors, strict=True)]
    return held


def dominant_shares(tree: Tree, tasks: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return what each node really holds of its dominant resource."""
    return {name: max(use) for name, use in uses(tree, tasks).items()}


def guarantees(tree: Tree) -> dict[str, Fraction]:
    """Return each node's hierarchical share guarantee (section 2.1): the product of its path's shares by weight."""
    shares = {tree.root.name: Fraction(1)}
    for node in tree.nodes():
        if isinstance(node, Group):
            total = sum((child.weight for child in node.children), Fraction(0))
            for child in node.children:
                shares[child.name] = shares[node.name] * child.weight / total
    return shares


def without_demand(tree: Tree, tasks: Mapping[str, Fraction]) -> set[str]:
    """Return the nodes that have all that they asked for."""
    satisfied: set[str] = set()
    for node in reversed(list(tree.nodes())):
        if isinstance(node, Leaf):
            if node.tasks is not None and tasks[node.name] >= node.tasks:
                satisfied.add(node.name)
        elif all(child.name in satisfied for child in node.children):
            satisfied.add(node.name)
    return satisfied
