"""The engine's H-DRF and DRF against the same in exact numbers: the same leaf each time, on any tree."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.fake_rm import FakeRM, add
from tests.engine.parts import aim_of
from tests.engine.sleepers import sharing
from tests.lab.fairness.trees import trees

from treadle.engine import Engine
from treadle_lab.fairness.algorithms import NAIVE, ShareTree, flattened
from treadle_lab.fairness.fluid import HDRF, Group, Leaf, Rule, Tree, fill
from treadle_lab.fairness.steps import read_problem

COMMON = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
ENDLESS = 10_000
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "share"
EXACT = {"hdrf": HDRF, "repaired": HDRF, "static": NAIVE, "drf": NAIVE}


class Exact(ShareTree):
    """`ShareTree` where a resource is saturated when no node has room for the smallest ask that needs it."""

    def __init__(self, tree: Tree, rule: Rule) -> None:
        super().__init__(tree, rule)
        self.full: tuple[bool, ...] = tuple(not amount for amount in tree.capacity.values())

    def saturated(self) -> tuple[bool, ...]:
        return self.full


class Pair:
    """The engine on a small cluster, and what it should do: one queue and one application a leaf of the tree."""

    def __init__(self, tree: Tree, kind: str, nodes: int) -> None:
        self.tree, self.nodes = tree, nodes
        size = [int(amount) for amount in tree.capacity.values()]
        self.rm = FakeRM(counted=(1,) * len(size))
        for at in range(nodes):
            self.rm.node(f"n{at}", tuple(amount // nodes + (at < amount % nodes) for amount in size))
        root = self.rm.queue(-1, tuple(size))
        self.demands = [tuple(int(leaf.demand.get(name, 0)) for name in tree.resources) for leaf in tree.leaves]
        for position, (leaf, demand) in enumerate(zip(tree.leaves, self.demands, strict=True)):
            self.rm.application(self.rm.queue(root, tuple(size)))
            self.rm.ask(position, 0, ENDLESS if leaf.tasks is None else leaf.tasks, demand)
        given_tree = {child.name: self._given(child) for child in tree.root.children}
        of_kinds: dict[str, dict[str, Any]] = {"static": {"static": True}, "hdrf": {"as": "paper"}}
        parameters = of_kinds.get(kind, {})
        self.engine = Engine(sharing("drf" if kind == "drf" else "hdrf", tree=given_tree, **parameters))
        self.exact = Exact(flattened(tree) if kind == "drf" else tree, EXACT[kind])

    def _given(self, node: Group | Leaf) -> dict[str, Any]:
        weight = {"weight": float(node.weight)}
        if isinstance(node, Leaf):
            return weight | {"queue": f"q{1 + self.tree.leaves.index(node)}"}
        return weight | {"children": {child.name: self._given(child) for child in node.children}}

    def look(self, free: list[tuple[int, ...]]) -> None:
        """Tell the exact tree what is saturated, and who fits on no node."""
        asking = [d for leaf, d in enumerate(self.demands) if self.exact.waiting(leaf) != 0]
        self.exact.full = tuple(
            all(room[r] < min((d[r] for d in asking if d[r]), default=1) for room in free)
            for r in range(len(self.tree.resources))
        )
        for leaf, demand in enumerate(self.demands):
            fits = any(all(a <= b for a, b in zip(demand, room, strict=True)) for room in free)
            self.exact.set_placeable(leaf, fits)

    def decide(self, limit: int) -> list[int]:
        """Let the engine place this many; return the leaves."""
        self.engine.apply(self.rm.frame())
        made = self.engine.decide(1000 * self.rm.sequence, limit, sequence=self.rm.sequence)
        leaves: list[int] = made.application.tolist()
        self.rm.commit(made)
        return leaves

    def expect(self, tasks: int) -> list[int]:
        """Return which leaves should get this many tasks, one after the other (if more than one: on one node)."""
        free, leaves = [node.free for node in self.rm.nodes], []
        for _ in range(tasks):
            self.look(free)
            leaf = self.exact.next_leaf()
            if leaf is None:
                break
            self.exact.allocate(leaf)
            leaves.append(leaf)
            free[0] = add(free[0], self.demands[leaf], -1)
        return leaves

    def end(self, container: int, again: bool) -> None:
        leaf = self.rm.containers[container][0]
        self.rm.complete(container)
        endless = self.exact.waiting(leaf) is None
        self.exact.release(leaf, again=again)
        self.rm.applications[leaf].asks[0].count += again or endless

    def ask(self, leaf: int, tasks: int) -> None:
        self.rm.applications[leaf].asks[0].count = tasks
        self.exact.set_pending(leaf, tasks)


@given(tree=trees(finite=True, whole=True))
@COMMON
def test_leaves_aim_where_the_exact_filling_takes_them(tree: Tree) -> None:
    """Of what every leaf asks for, from empty; a leaf whose tasks no node can hold counts as one that asks nothing."""
    pair = Pair(tree, "repaired", nodes=1)
    pair.decide(1)
    size = {name: int(amount) for name, amount in tree.capacity.items()}
    none = {
        leaf.name: replace(leaf, tasks=0)
        for leaf in tree.leaves
        if any(amount > size[name] for name, amount in leaf.demand.items())
    }
    exact = fill(tree.with_leaves(none), HDRF)
    for position, leaf in enumerate(tree.leaves):
        expected = float(exact[leaf.name] * max(tree.demand_share(leaf)))
        assert aim_of(pair.engine, 1 + position) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("kind", ["hdrf", "static", "drf"])
@given(tree=trees(finite=True, whole=True), nodes=st.integers(1, 3), data=st.data())
@COMMON
def test_each_container_goes_to_the_leaf_owed_it(kind: str, tree: Tree, nodes: int, data: st.DataObject) -> None:
    pair = Pair(tree, kind, nodes)
    for _ in range(data.draw(st.integers(1, 20))):
        step = data.draw(st.sampled_from(("decide", "decide", "decide", "end", "ask")))
        if step == "decide":
            expected = pair.expect(1)
            assert pair.decide(1) == expected
        elif step == "end" and pair.rm.containers:
            pair.end(data.draw(st.integers(0, len(pair.rm.containers) - 1)), data.draw(st.booleans()))
        elif step == "ask":
            pair.ask(data.draw(st.integers(0, len(tree.leaves) - 1)), data.draw(st.integers(0, 5)))


@pytest.mark.parametrize(("kind", "in_the_end"), [("hdrf", [10, 5, 5, 0]), ("repaired", [8, 5, 5, 2])])
def test_a_leaf_beside_a_blocked_sibling_as_tasks_end(kind: str, in_the_end: list[int]) -> None:
    pair = Pair(read_problem(EXAMPLES / "counterexample-starvation.yaml").tree, kind, nodes=1)
    pair.decide(100)
    rng = random.Random(1)
    for _ in range(600):
        ended = rng.randrange(len(pair.rm.containers))
        pair.rm.applications[pair.rm.containers[ended][0]].asks[0].count += 1
        pair.rm.complete(ended)
        pair.decide(100)
    running = [leaf for leaf, *_ in pair.rm.containers]
    assert [running.count(leaf) for leaf in range(4)] == in_the_end


def unit(tree: Tree) -> Tree:
    """Return the tree with 1 for every demand that is not 0: then whoever fits nowhere needs a saturated resource."""
    ones = {
        leaf.name: Leaf(leaf.name, {r: Fraction(d > 0) for r, d in leaf.demand.items()}, leaf.weight, leaf.tasks)
        for leaf in tree.leaves
    }
    return tree.with_leaves(ones)


@pytest.mark.parametrize("kind", ["hdrf", "drf"])
@given(tree=trees(finite=True, whole=True).map(unit), data=st.data())
@COMMON
def test_many_containers_in_one_decide_go_where_they_should(kind: str, tree: Tree, data: st.DataObject) -> None:
    pair = Pair(tree, kind, nodes=1)
    for _ in range(data.draw(st.integers(1, 4))):
        limit = data.draw(st.integers(1, 100))
        expected = pair.expect(limit)
        assert pair.decide(limit) == expected
        for _ in range(data.draw(st.integers(0, min(8, len(pair.rm.containers))))):
            pair.end(data.draw(st.integers(0, len(pair.rm.containers) - 1)), again=True)
