"""Whole tasks on random servers: nothing over capacity, nothing run that was not asked, nothing left that fits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.fairness.trees import RESOURCES, amounts

from treadle_lab.fairness.algorithms import NAIVE, ServerClass, WholeTasks, total_capacity
from treadle_lab.fairness.fluid import HDRF, Group, Leaf, Rule, Tree


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Tree, list[ServerClass]]:
    """Up to three classes of up to three servers, and two groups of leaves."""
    servers = [
        ServerClass(draw(st.integers(1, 3)), {name: draw(st.integers(0, 8).map(Fraction)) for name in RESOURCES})
        for _ in range(draw(st.integers(1, 3)))
    ]
    leaves = [
        Leaf(f"l{n}", {name: draw(amounts) for name in RESOURCES}, tasks=draw(st.integers(0, 9)))
        for n in range(draw(st.integers(2, 6)))
    ]
    half = len(leaves) // 2
    root = Group("root", (Group("a", tuple(leaves[:half])), Group("b", tuple(leaves[half:]), Fraction(2))))
    return Tree(total_capacity(servers), root), servers


@pytest.mark.parametrize("rule", [HDRF, NAIVE], ids=["hdrf", "naive"])
@pytest.mark.parametrize("headroom", [False, True])
@given(cluster=clusters(), data=st.data())
def test_invariants(rule: Rule, headroom: bool, cluster: tuple[Tree, list[ServerClass]], data: st.DataObject) -> None:
    tree, servers = cluster
    tasks = WholeTasks(tree, servers, rule, headroom=headroom)
    tasks.fill()
    assert_invariants(tree, servers, tasks, work_conserving=not headroom)
    for _ in range(data.draw(st.integers(0, 8))):
        running = [leaf for leaf, places in enumerate(tasks.placements()) if places]
        if not running:
            return
        tasks.end(data.draw(st.sampled_from(running)))
        tasks.fill()
        assert_invariants(tree, servers, tasks, work_conserving=not headroom)


def assert_invariants(tree: Tree, servers: list[ServerClass], tasks: WholeTasks, *, work_conserving: bool) -> None:
    free = [dict(group.capacity) for group in servers for _ in range(group.count)]
    for leaf, places in zip(tree.leaves, tasks.placements(), strict=True):
        assert len(places) <= (leaf.tasks or 0)
        for server in places:
            for name, amount in leaf.demand.items():
                free[server][name] -= amount
    assert all(amount >= 0 for room in free for amount in room.values())
    for leaf, count in zip(tree.leaves, tasks.tasks(), strict=True):
        if work_conserving and count < (leaf.tasks or 0):
            assert not any(all(room[name] >= amount for name, amount in leaf.demand.items()) for room in free)
