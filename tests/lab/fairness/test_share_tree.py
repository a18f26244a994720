"""While tasks come and go, the shares, and who is next, are those of the paper's algorithms."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.fairness import paper_algorithms as paper
from tests.lab.fairness.trees import trees

from treadle_lab.fairness.algorithms import NAIVE, ShareTree
from treadle_lab.fairness.fluid import HDRF, Group, Leaf, Rule, Tree


class FromScratch:
    """What `paper` needs to know, kept in the plainest way."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.running = [0] * len(tree.leaves)
        self.waiting = [leaf.tasks for leaf in tree.leaves]
        self.homeless = [False] * len(tree.leaves)

    def used(self) -> list[Fraction]:
        return [sum((n * d[p] for n, d in self._held()), Fraction(0)) for p in range(len(self.tree.resources))]

    def _held(self) -> list[tuple[int, list[Fraction]]]:
        return [(n, self.tree.demand_share(leaf)) for n, leaf in zip(self.running, self.tree.leaves, strict=True)]

    def shares(self, rule: Rule) -> dict[str, paper.NodeShare]:
        held = {
            leaf.name: [n * amount for amount in demand]
            for leaf, (n, demand) in zip(self.tree.leaves, self._held(), strict=True)
        }
        blocked = [leaf.name for n, leaf in enumerate(self.tree.leaves) if self.waiting[n] == 0 or self.homeless[n]]
        return paper.update_shares(self.tree, rule, held, [amount >= 1 for amount in self.used()], blocked)

    def fits(self, leaf: int) -> bool:
        demand = self.tree.demand_share(self.tree.leaves[leaf])
        return all(amount + used <= 1 for amount, used in zip(demand, self.used(), strict=True))


@pytest.mark.parametrize("rule", [HDRF, NAIVE], ids=["hdrf", "naive"])
@given(tree=trees(finite=True, whole=True), data=st.data())
def test_shares_are_the_paper_s(rule: Rule, tree: Tree, data: st.DataObject) -> None:
    shares, plain = ShareTree(tree, rule), FromScratch(tree)
    for _ in range(data.draw(st.integers(0, 40))):
        leaf = data.draw(st.integers(0, len(tree.leaves) - 1))
        step = data.draw(st.sampled_from(("next", "next", "next", "start", "end", "move", "tasks")))
        if step == "next":
            chosen = shares.next_leaf()
            if chosen is None:
                continue
            leaf = chosen
        if step in ("next", "start") and plain.waiting[leaf] != 0:
            if plain.fits(leaf):
                shares.allocate(leaf)
                plain.running[leaf] += 1
                waiting = plain.waiting[leaf]
                plain.waiting[leaf] = None if waiting is None else waiting - 1
            else:
                shares.set_placeable(leaf, False)
                plain.homeless[leaf] = True
        elif step == "end" and plain.running[leaf]:
            again = data.draw(st.booleans())
            shares.release(leaf, again=again)
            plain.running[leaf] -= 1
            waiting = plain.waiting[leaf]
            plain.waiting[leaf] = None if waiting is None else waiting + again
        elif step == "move":
            plain.homeless[leaf] = not plain.homeless[leaf]
            shares.set_placeable(leaf, not plain.homeless[leaf])
        elif step == "tasks":
            plain.waiting[leaf] = data.draw(st.none() | st.integers(0, 5))
            shares.set_pending(leaf, plain.waiting[leaf])
        expected = plain.shares(rule)
        owed = paper.next_leaf(tree, expected)
        following = shares.next_leaf()
        assert (None if following is None else tree.leaves[following].name) == (None if owed is None else owed.name)
        assert shares.shares() == {name: state.share for name, state in expected.items()}


def test_what_cannot_happen_is_refused() -> None:
    tree = Tree({"cpu": Fraction(4)}, Group("root", (Leaf("a", {"cpu": Fraction(1)}, tasks=1),)))
    shares = ShareTree(tree, HDRF)
    with pytest.raises(ValueError, match="a has no task running"):
        shares.release(0)
    shares.allocate(0)
    with pytest.raises(ValueError, match="a has no task waiting"):
        shares.allocate(0)
    assert shares.next_leaf() is None
    shares.release(0)
    assert shares.next_leaf() == 0
    assert shares.waiting(0) == 1
