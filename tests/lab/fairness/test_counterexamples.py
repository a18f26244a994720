"""Where the H-DRF paper's theorems fail, exactly. docs/hdrf-counterexamples.md describes them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from treadle_lab.fairness.algorithms import NAIVE, ServerClass, ShareTree, WholeTasks, allocate_whole, churn
from treadle_lab.fairness.fluid import HDRF, Rule, Tree, fill
from treadle_lab.fairness.steps import compute_steps, read_problem

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "share"


def tree(name: str) -> Tree:
    return read_problem(EXAMPLES / f"counterexample-{name}.yaml").tree


def slivers(problem: Tree, rule: Rule, grain: Fraction) -> dict[str, Fraction]:
    """Tasks by handing out slivers one by one, each `grain` of the leaf's dominant share: the paper's algorithm."""
    small = {}
    for leaf in problem.leaves:
        factor = grain / max(problem.demand_share(leaf))
        small[leaf.name] = replace(leaf, demand={name: amount * factor for name, amount in leaf.demand.items()})
    sliced = problem.with_leaves(small)
    demands = [sliced.demand_share(leaf) for leaf in sliced.leaves]
    free = [Fraction(1)] * len(problem.resources)
    shares = ShareTree(sliced, rule)
    while (number := shares.next_leaf()) is not None:
        left = [room - amount for room, amount in zip(free, demands[number], strict=True)]
        if min(left) < 0:
            shares.set_placeable(number, False)
        else:
            shares.allocate(number)
            free = left
    return {
        leaf.name: shares.tasks(number) * grain / max(problem.demand_share(leaf))
        for number, leaf in enumerate(problem.leaves)
    }


def useful(problem: Tree, liar: str, claim: dict[str, int], rule: Rule) -> tuple[Fraction, Fraction]:
    """How many of its real tasks a leaf can run when its claim is true, and when it is false."""
    (honest,) = (leaf for leaf in problem.leaves if leaf.name == liar)
    lie = replace(honest, demand={name: Fraction(amount) for name, amount in claim.items()})
    got = fill(problem.with_leaves({liar: lie}), rule)[liar]
    lying = min(got * claim[name] / amount for name, amount in honest.demand.items() if amount)
    return fill(problem, rule)[liar], lying


def test_theorem_1_what_was_filled_changes_as_tasks_end() -> None:
    problem = tree("tasks-end")
    filled = {"n1.1": Fraction(20, 3), "n2.1": Fraction(10, 3), "n2.2": 5, "n2.3": 5}
    assert fill(problem, HDRF) == fill(problem, NAIVE) == filled
    for portion in (Fraction(1), Fraction(1, 10)):
        ended = churn(problem, HDRF, fill(problem, HDRF), portion)
        assert ended.settled
        assert {name: round(tasks, 12) for name, tasks in ended.tasks.items()} == dict.fromkeys(filled, 5)


def test_theorem_1_fails_in_whole_tasks_too() -> None:
    problem = tree("tasks-end")
    cluster = WholeTasks(problem, [ServerClass(1, problem.capacity)], HDRF)
    cluster.fill()
    assert cluster.tasks() == [7, 3, 5, 5]
    assert cluster.churn()
    assert cluster.tasks() == [5, 5, 5, 5]


def test_a_leaf_starves_under_dynamic_hdrf_as_tasks_end() -> None:
    problem = tree("starvation")
    assert fill(problem, HDRF) == {"n1": 8, "n2.1": 5, "n2.2": 5, "n2.3": 2}
    ended = churn(problem, HDRF, fill(problem, HDRF))
    assert ended.tasks == {"n1": 10, "n2.1": 5, "n2.2": 5, "n2.3": 0}
    assert ended.settled
    cluster = WholeTasks(problem, [ServerClass(1, problem.capacity)], HDRF)
    cluster.fill()
    assert cluster.tasks() == [8, 5, 5, 2]
    assert cluster.churn()
    assert cluster.tasks() == [10, 5, 5, 0]


def test_gpus_left_over_count_for_a_group_as_tasks_end() -> None:
    problem = read_problem(EXAMPLES / "counterexample-leftovers.yaml")
    filled, ended = (
        [int(tasks) for tasks in allocate_whole(problem.tree, problem.servers, algorithm).tasks.values()]
        for algorithm in ("hdrf", "hdrf-dynamic")
    )
    assert (filled, ended) == ([5, 5, 9], [9, 1, 9])


def test_theorem_1_dynamic_and_static_filling_differ() -> None:
    problem = tree("static")
    dynamic, static = fill(problem, HDRF), fill(problem, NAIVE)
    assert (dynamic["n2.1"], dynamic["n3.2.2"]) == (Fraction(28, 27), Fraction(212, 297))
    assert (static["n2.1"], static["n3.2.2"]) == (Fraction(35, 33), Fraction(205, 297))
    assert {name for name in dynamic if dynamic[name] != static[name]} == {"n2.1", "n3.2.2"}
    for rule, expected in ((HDRF, dynamic), (NAIVE, static)):
        found = slivers(problem, rule, Fraction(1, 1500))
        assert all(abs(found[name] - expected[name]) < Fraction(1, 100) for name in expected)


@pytest.mark.parametrize("rule", [HDRF, NAIVE], ids=["dynamic", "static"])
def test_theorem_3_a_leaf_gains_by_a_lie(rule: Rule) -> None:
    """By hand: the CPUs are full at s = 3/14, or 5/24 with the lie; memory leaves 1 - 4/3 s to n2.2."""
    problem = tree("lie")
    truth, lie = useful(problem, "n2.2", {"cpu": 0, "gpu": 4, "memory": 5}, rule)
    assert truth == Fraction(10, 3) * (1 - Fraction(4, 3) * Fraction(3, 14))
    assert lie == Fraction(10, 3) * (1 - Fraction(4, 3) * Fraction(5, 24))
    assert lie > truth
    assert abs(slivers(problem, rule, Fraction(1, 1500))["n2.2"] - truth) < Fraction(1, 200)


@pytest.mark.parametrize("rule", [HDRF, NAIVE], ids=["dynamic", "static"])
def test_theorem_3_two_leaves_gain_by_a_lie_of_one_without_a_hierarchy(rule: Rule) -> None:
    """By hand: n4's memory ends at s = 2/3 of the GPUs' time, or at s = 1/2 with the lie, and n3 has the other GPUs."""
    problem = tree("coalition")
    assert useful(problem, "n1", {"cpu": 1, "gpu": 0, "memory": 1}, rule) == (Fraction(6), Fraction(6))
    truth = fill(problem, rule)
    (liar,) = (leaf for leaf in problem.leaves if leaf.name == "n1")
    claim = {"cpu": Fraction(1), "gpu": Fraction(0), "memory": Fraction(1)}
    lie = fill(problem.with_leaves({"n1": replace(liar, demand=claim)}), rule)
    assert (truth["n3"], truth["n4"]) == (Fraction(8), Fraction(4))
    assert (lie["n3"], lie["n4"]) == (Fraction(9), Fraction(3))


def test_theorem_5_no_population_monotonicity() -> None:
    with_n3, without_n3 = compute_steps(read_problem(EXAMPLES / "counterexample-population.yaml"), "hdrf")
    assert with_n3.leaves["n1"].dominant_share == Fraction(2, 3)
    assert without_n3.leaves["n1"].dominant_share == Fraction(3, 5)


@pytest.mark.parametrize("name", ["tasks-end", "starvation", "static", "lie", "coalition", "population"])
def test_the_guarantee_holds_on_all_of_them_when_filled(name: str) -> None:
    problem = tree(name)
    for rule in (HDRF, NAIVE):
        tasks = fill(problem, rule)
        weights = sum(child.weight for child in problem.root.children)
        for child in problem.root.children:
            below = Tree(problem.capacity, replace(problem.root, name="", children=(child,))).leaves
            use = [
                sum(tasks[x.name] * problem.demand_share(x)[p] for x in below) for p in range(len(problem.resources))
            ]
            assert max(use) >= child.weight / weights
