"""Where the engine aims, beside H-DRF with maxima by whole small tasks: nothing else is held against maxima."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.engine.fake_rm import FakeRM
from tests.engine.parts import aim_of

from treadle.config.settings import default_settings, with_parts
from treadle.engine import Engine
from treadle.policy.catalogue import register_parts

# H-DRF with maxima by whole small tasks: the leaf served next is found from all that leaves have, each time. It
# shares nothing with the compiled filling: no clocks, no events, no rates. A resource in which a node is at its
# maximum is saturated for that node and all below it; at the root the maximum is the cluster.


@dataclass
class Node:
    """A node of a tree; a leaf has a demand and so many tasks."""

    weight: int
    maximum: list[int]
    children: list[Node] = field(default_factory=list)
    demand: tuple[int, ...] = ()
    tasks: int = 0
    real: list[int] = field(default_factory=list)
    """What it holds."""
    use: list[float] = field(default_factory=list)
    """What it counts as, rescaled, as parts of the cluster."""
    share: float = 0.0
    blocked: bool = False

    def leaves(self) -> Iterator[Node]:
        """Yield the leaves at and below it, from the left."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def random_tree(rng: random.Random, capacity: int) -> Node:
    """Return a tree of up to four levels with maxima, whose leaves ask for few or for endless tasks."""
    resources = rng.randint(2, 3)

    def node(levels: int, root: bool = False) -> Node:
        maximum = [capacity] * resources
        for r in range(resources):
            if not root and rng.random() < 0.3:
                maximum[r] = rng.randint(capacity // 12, capacity)
        made = Node(rng.randint(1, 3), maximum, real=[0] * resources)
        if root or (levels and rng.random() < 0.5):
            made.children = [node(levels - 1) for _ in range(rng.randint(1 + root, 3))]
        else:
            dominant = rng.randrange(resources)
            made.demand = tuple(3 if r == dominant else rng.choice((0, 0, 1, 2, 3)) for r in range(resources))
            made.tasks = rng.choice((10 * capacity, 10 * capacity, rng.randint(0, capacity // 4)))
        return made

    return node(rng.randint(1, 3), root=True)


def fill(root: Node) -> None:
    """Give a task after the other to the leaf that the tree serves next, until none can have one."""
    capacity = root.maximum
    while True:
        _update(root, [False] * len(capacity), capacity)
        if root.blocked:
            return
        path = [root]
        while path[-1].children:
            active = [child for child in path[-1].children if not child.blocked]
            path.append(min(active, key=lambda child: child.share / child.weight))
        path[-1].tasks -= 1
        for node in path:
            node.real = [has + amount for has, amount in zip(node.real, path[-1].demand, strict=True)]


def _update(node: Node, above: list[bool], capacity: list[int]) -> None:
    """Compute what a node and all below it count as: Algorithm 3, with what is saturated by node."""
    off = list(above)
    for r, most in enumerate(node.maximum):
        needs = [leaf.demand[r] for leaf in node.leaves() if leaf.demand[r] and leaf.tasks]
        off[r] |= bool(needs) and node.real[r] + max(needs) > most
    if node.children:
        for child in node.children:
            _update(child, off, capacity)
        active = [child for child in node.children if not child.blocked]
        node.blocked = not active
        least = min((child.share / child.weight for child in active), default=0.0)
        node.use = [0.0] * len(capacity)
        for child in node.children:
            factor = 1.0 if child.blocked else least * child.weight / child.share if child.share else 0.0
            node.use = [has + factor * part for has, part in zip(node.use, child.use, strict=True)]
    else:
        node.use = [has / most for has, most in zip(node.real, capacity, strict=True)]
        node.blocked = not node.tasks or any(stopped and need for stopped, need in zip(off, node.demand, strict=True))
    node.share = max((part for part, stopped in zip(node.use, off, strict=True) if not stopped), default=0.0)


CAPACITY = 900
SEEDS = pytest.mark.parametrize(
    "seeds", [range(30), pytest.param(range(30, 1500), marks=pytest.mark.slow)], ids=["quick", "all"]
)


def aims(root: Node) -> list[float]:
    """Return where the engine aims at each leaf of a tree, from the left, on one node that has nothing to do."""
    rm = FakeRM(counted=(1,) * len(root.maximum))
    rm.node("n", tuple(root.maximum))
    queues = []

    def add(node: Node, parent: int, guaranteed: int) -> None:
        queue = rm.queue(parent, (guaranteed,) * len(root.maximum), tuple(node.maximum))
        total = sum(child.weight for child in node.children)
        for child in node.children:
            add(child, queue, guaranteed * child.weight // total)
        if not node.children:
            queues.append(queue)
            rm.ask(rm.application(queue), 0, node.tasks, node.demand)

    add(root, -1, 1 << 40)
    register_parts()
    engine = Engine(with_parts(default_settings(), {"share": "hdrf"}))
    engine.apply(rm.frame())
    engine.decide(5000, 1, sequence=rm.sequence)
    return [aim_of(engine, queue) for queue in queues]


@SEEDS
def test_leaves_aim_where_whole_small_tasks_take_them_below_maxima(seeds: range) -> None:
    bound = 0
    for seed in seeds:
        root = random_tree(random.Random(seed), CAPACITY)
        found = aims(root)
        fill(root)
        leaves = list(root.leaves())
        bound += any(
            node.real[r] + 3 > most for node in _nodes(root) if node is not root for r, most in enumerate(node.maximum)
        )
        for number, (leaf, aim) in enumerate(zip(leaves, found, strict=True)):
            expected = max(leaf.real) / CAPACITY
            assert aim == pytest.approx(expected, abs=(len(leaves) + 4) * 2 / CAPACITY), (seed, number)
    assert bound > len(seeds) // 3  # in so many a maximum bound


def _nodes(node: Node) -> list[Node]:
    return [node, *(below for child in node.children for below in _nodes(child))]
