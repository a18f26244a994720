"""Where the engine aims, beside H-DRF with maxima by whole small tasks: nothing else is held against maxima."""

from __future__ import annotations

import random

import pytest
from tests.engine.fake_rm import FakeRM
from tests.engine.parts import aim_of

from treadle.config.settings import default_settings, with_parts
from treadle.engine import Engine
from treadle.policy.catalogue import register_parts

from .naive_filling import Node, fill, random_tree

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
