"""The theorems of the H-DRF paper on random trees, divisible resources. test_counterexamples has those that fail."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lab.fairness.trees import amounts, dominant_shares, guarantees, trees, uses, without_demand
from tests.support.examples import few

from treadle_lab.fairness.algorithms import NAIVE, ShareTree, flattened
from treadle_lab.fairness.fluid import HDRF, Group, Leaf, Rule, Tree, fill

RULES = pytest.mark.parametrize("rule", [HDRF, NAIVE], ids=["dynamic", "static"])


@RULES
@given(tree=trees(finite=True))
def test_fits_and_leaves_nothing_that_somebody_could_use(rule: Rule, tree: Tree) -> None:
    tasks = fill(tree, rule)
    used = uses(tree, tasks)[tree.root.name]
    assert all(0 <= amount <= 1 for amount in used)
    for leaf in tree.leaves:
        satisfied = leaf.tasks is not None and tasks[leaf.name] == leaf.tasks
        stopped = any(n and amount == 1 for n, amount in zip(tree.needs(leaf), used, strict=True))
        assert satisfied or stopped


@RULES
@given(tree=trees(finite=True))
def test_theorem_2_group_guarantee(rule: Rule, tree: Tree) -> None:
    """Every node that wants more has at least its guarantee, whether or not its siblings use theirs."""
    tasks = fill(tree, rule)
    shares = dominant_shares(tree, tasks)
    satisfied = without_demand(tree, tasks)
    for node, guarantee in guarantees(tree).items():
        assert node in satisfied or shares[node] >= guarantee


@RULES
@given(tree=trees())
def test_nobody_starves(rule: Rule, tree: Tree) -> None:
    assert all(tasks > 0 for tasks in fill(tree, rule).values())


@RULES
@given(tree=trees(finite=True), data=st.data())
def test_a_leaf_that_asks_for_more_has_no_less(rule: Rule, tree: Tree, data: st.DataObject) -> None:
    leaf = data.draw(st.sampled_from(tree.leaves))
    few = data.draw(st.integers(0, 6))
    for many in (few + 1, None):
        less, more = (fill(tree.with_leaves({leaf.name: replace(leaf, tasks=each)}), rule) for each in (few, many))
        assert more[leaf.name] >= less[leaf.name]


@given(tree=trees(), data=st.data())
def test_theorem_4_a_subtree_may_have_another_scheduler(tree: Tree, data: st.DataObject) -> None:
    """With first in, first out inside one group, the group and all nodes outside it keep their guarantees."""
    groups = [node for node in tree.nodes() if isinstance(node, Group)]
    chosen = data.draw(st.sampled_from(groups))
    tree = replace(tree, root=_as_fifo(tree.root, chosen.name))
    inside = {node.name for child in chosen.children for node in Tree(tree.capacity, Group("", (child,))).nodes()}
    shares = dominant_shares(tree, fill(tree, HDRF))
    for node, guarantee in guarantees(tree).items():
        assert node in inside or shares[node] >= guarantee


@RULES
@given(tree=trees(finite=True), data=st.data())
def test_a_group_with_one_child_is_that_child(rule: Rule, tree: Tree, data: st.DataObject) -> None:
    if not tree.leaves:
        return
    leaf = data.draw(st.sampled_from(tree.leaves))
    wrapped = replace(tree, root=_wrapped(tree.root, leaf.name))
    assert fill(wrapped, rule) == fill(tree, rule)


@RULES
@given(tree=trees(), factor=st.fractions(Fraction(1, 9), 9))
def test_the_size_of_tasks_does_not_matter(rule: Rule, tree: Tree, factor: Fraction) -> None:
    """Section 4: <3 GB, 2 CPUs> is treated the same as <6 GB, 4 CPUs>."""
    leaf = tree.leaves[0]
    scaled = replace(leaf, demand={name: amount * factor for name, amount in leaf.demand.items()})
    tasks = fill(tree.with_leaves({leaf.name: scaled}), rule)
    tasks[leaf.name] *= factor
    assert tasks == fill(tree, rule)


@given(tree=trees(), data=st.data())
def test_theorem_3_nobody_gains_by_a_lie_without_a_hierarchy(tree: Tree, data: st.DataObject) -> None:
    """For flat, weighted DRF; with a hierarchy it fails: test_counterexamples."""
    flat = flattened(tree)
    liar = data.draw(st.sampled_from(flat.leaves))
    claim = {name: data.draw(amounts) for name in flat.resources}
    if not any(claim.values()):
        return
    got = fill(flat.with_leaves({liar.name: replace(liar, demand=claim)}), HDRF)[liar.name]
    useful = min(got * claim[name] / amount for name, amount in liar.demand.items() if amount)
    assert useful <= fill(flat, HDRF)[liar.name]


@given(tree=trees(), data=st.data())
def test_theorem_3_not_all_of_a_coalition_gain_without_a_hierarchy(tree: Tree, data: st.DataObject) -> None:
    """Somebody in it gains nothing. The theorem says more, and fails: test_counterexamples."""
    flat = flattened(tree)
    gains = _gains(flat, data.draw(_coalitions(flat)))
    assert not all(gain > 0 for gain in gains)


@given(tree=trees(), data=st.data())
def test_theorem_3_as_the_paper_has_it_where_everybody_needs_everything(tree: Tree, data: st.DataObject) -> None:
    """Without a hierarchy no coalition gains in which nobody loses, if all demands are above 0."""
    flat = flattened(tree)
    needy = {leaf.name: replace(leaf, demand={n: d + 1 for n, d in leaf.demand.items()}) for leaf in flat.leaves}
    flat = flat.with_leaves(needy)
    gains = _gains(flat, data.draw(_coalitions(flat)))
    assert min(gains) < 0 or max(gains) == 0


@RULES
@settings(max_examples=few(10))
@given(tree=trees(whole=True))
def test_slivers_by_the_paper_come_to_the_same(rule: Rule, tree: Tree) -> None:
    """Algorithms 2 to 4 with slivers of 1/300 of a dominant share."""
    grain = Fraction(1, 300)
    slivers = {}
    for leaf in tree.leaves:
        dominant = max(tree.demand_share(leaf))
        slivers[leaf.name] = replace(leaf, demand={n: d / dominant * grain for n, d in leaf.demand.items()})
    shares = ShareTree(tree.with_leaves(slivers), rule)
    demands = [tree.with_leaves(slivers).demand_share(leaf) for leaf in slivers.values()]
    free = [Fraction(1)] * len(tree.resources)
    while (leaf_number := shares.next_leaf()) is not None:
        if any(amount > room for amount, room in zip(demands[leaf_number], free, strict=True)):
            shares.set_placeable(leaf_number, False)
            continue
        shares.allocate(leaf_number)
        free = [room - amount for room, amount in zip(free, demands[leaf_number], strict=True)]
    exact = fill(tree, rule)
    for number, leaf in enumerate(tree.leaves):
        share = exact[leaf.name] * max(tree.demand_share(leaf))
        assert abs(share - shares.tasks(number) * grain) <= (len(tree.leaves) + 4) * 2 * grain


@st.composite
def _coalitions(draw: st.DrawFn, tree: Tree) -> dict[str, Leaf]:
    """Up to three leaves and what they say that they need."""
    liars = draw(st.lists(st.sampled_from(tree.leaves), min_size=1, max_size=3, unique_by=lambda leaf: leaf.name))
    claims = {leaf.name: {name: draw(amounts) for name in tree.resources} for leaf in liars}
    return {leaf.name: replace(leaf, demand=claims[leaf.name]) for leaf in liars if any(claims[leaf.name].values())}


def _gains(tree: Tree, claims: dict[str, Leaf]) -> list[Fraction]:
    """How many more of their real tasks leaves run when they say that they need something else; 0 if nobody does."""
    truth, lie = fill(tree, HDRF), fill(tree.with_leaves(claims), HDRF)
    gains = [Fraction(0)]
    for leaf in tree.leaves:
        if leaf.name in claims:
            claim = claims[leaf.name].demand
            useful = min(lie[leaf.name] * claim[name] / amount for name, amount in leaf.demand.items() if amount)
            gains.append(useful - truth[leaf.name])
    return gains[1:] or gains


def _as_fifo(group: Group, name: str) -> Group:
    children = tuple(_as_fifo(child, name) if isinstance(child, Group) else child for child in group.children)
    return replace(group, children=children, scheduler="fifo" if group.name == name else group.scheduler)


def _wrapped(group: Group, name: str) -> Group:
    def wrap(child: Group | Leaf) -> Group | Leaf:
        if isinstance(child, Group):
            return _wrapped(child, name)
        return Group(f"around {name}", (child,), child.weight) if child.name == name else child

    return replace(group, children=tuple(wrap(child) for child in group.children))
