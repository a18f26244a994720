from __future__ import annotations

import random
from fractions import Fraction

import pytest

from treadle_lab.fairness.algorithms import ALGORITHMS, allocate_fluid
from treadle_lab.fairness.fluid import HDRF, Group, Leaf, Tree, TreeError, fill

ONE = Fraction(1)


def leaf(name: str, weight: int = 1, tasks: int | None = None, **demand: int) -> Leaf:
    return Leaf(name, {resource: Fraction(amount) for resource, amount in demand.items()}, Fraction(weight), tasks)


def tree(*children: Group | Leaf, **capacity: int) -> Tree:
    return Tree({name: Fraction(amount) for name, amount in capacity.items()}, Group("root", children))


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        pytest.param(
            tree(Group("a", (leaf("a1", 3, cpu=1), leaf("a2", cpu=2)), ONE * 2), leaf("b", cpu=1), cpu=12),
            {"a1": 6, "a2": 1, "b": 4},
            id="weights at every level split one resource",
        ),
        pytest.param(
            tree(Group("a", (leaf("a1", cpu=1, tasks=1), leaf("a2", cpu=1))), leaf("b", cpu=1), cpu=10),
            {"a1": 1, "a2": 4, "b": 5},
            id="what a leaf does not want stays in its group",
        ),
        pytest.param(
            tree(Group("a", (leaf("a1", cpu=1, tasks=1), leaf("a2", cpu=1, tasks=2))), leaf("b", cpu=1), cpu=10),
            {"a1": 1, "a2": 2, "b": 7},
            id="what a group does not want goes to its siblings",
        ),
        pytest.param(
            tree(leaf("a", cpu=1, fpga=1), leaf("b", cpu=1), cpu=10, fpga=0), {"a": 0, "b": 10}, id="none of a resource"
        ),
        pytest.param(tree(leaf("a", cpu=40), leaf("b", cpu=1), cpu=10), {"a": Fraction(1, 8), "b": 5}, id="large task"),
        pytest.param(tree(leaf("a", tasks=7, cpu=0), leaf("b", cpu=1), cpu=10), {"a": 7, "b": 10}, id="needs nothing"),
    ],
)
def test_small_trees_are_filled(problem: Tree, expected: dict[str, Fraction | int]) -> None:
    assert fill(problem, HDRF) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_empty_tree_and_an_empty_cluster(algorithm: str) -> None:
    assert allocate_fluid(tree(cpu=10), algorithm).tasks == {}
    assert allocate_fluid(tree(leaf("a", cpu=1), cpu=0), algorithm).tasks == {"a": 0}


def test_ten_levels() -> None:
    node: Group | Leaf = leaf("deep", cpu=1)
    for level in range(10):
        node = Group(f"g{level}", (node, leaf(f"l{level}", cpu=1)))
    shares = fill(tree(node, cpu=1024), HDRF)
    assert shares["deep"] == 1
    assert [shares[f"l{level}"] for level in range(10)] == [2**level for level in range(10)]


def test_ten_thousand_leaves_exactly() -> None:
    groups = [
        Group(
            f"g{g}", tuple(leaf(f"l{g}.{i}", 1 + i % 3, 1 + (g + i) % 7, cpu=1 + i % 4, gpu=g % 3) for i in range(100))
        )
        for g in range(100)
    ]
    problem = tree(*groups, cpu=40_000, gpu=20_000)
    tasks = fill(problem, HDRF)
    used = {r: sum(tasks[x.name] * x.demand[r] for x in problem.leaves) for r in problem.resources}
    assert all(0 < tasks[x.name] <= (x.tasks or 0) for x in problem.leaves)
    assert used["cpu"] == 40_000
    assert used["gpu"] <= 20_000


def test_thousands_of_unlike_demands_to_twelve_digits() -> None:
    """No pool is exceeded, and what is full is full to twelve digits: see the rounding in `fluid`."""
    rng = random.Random(7)
    leaves = [
        Leaf(f"l{i}", {name: Fraction(str(rng.uniform(0.1, 9))) for name in ("cpu", "gpu")}, ONE * rng.randint(1, 4))
        for i in range(3000)
    ]
    groups = [Group(f"g{g}", tuple(leaves[g::30])) for g in range(30)]
    problem = tree(*groups, cpu=1000, gpu=2000)
    tasks = fill(problem, HDRF)
    cpu = sum(tasks[x.name] * x.demand["cpu"] for x in leaves)
    gpu = sum(tasks[x.name] * x.demand["gpu"] for x in leaves)
    assert 1000 * (1 - Fraction(1, 10**10)) <= cpu <= 1000
    assert gpu <= 2000


def test_a_leaf_in_a_fifo_group_waits_for_the_one_before_it() -> None:
    queue = Group("a", (leaf("a1", cpu=1, tasks=3), leaf("a2", cpu=1)), scheduler="fifo")
    assert fill(tree(queue, leaf("b", cpu=1), cpu=10), HDRF) == {"a1": 3, "a2": 2, "b": 5}
    assert fill(tree(queue, leaf("b", cpu=1), cpu=4), HDRF) == {"a1": 2, "a2": 0, "b": 2}


def test_filling_goes_on_from_what_is_held() -> None:
    two = tree(leaf("a", cpu=1), leaf("b", cpu=1), cpu=10)
    assert fill(two, HDRF, {"a": ONE * 8}) == {"a": 8, "b": 2}
    with pytest.raises(ValueError, match="more than the pool"):
        fill(two, HDRF, {"a": ONE * 11})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: leaf("a", 0, cpu=1), "a: weight is 0; a weight must be above 0"),
        (lambda: leaf("a", cpu=0), "a: its tasks need nothing"),
        (lambda: tree(leaf("a", cpu=1), leaf("a", cpu=1), cpu=1), "a: two nodes have this name"),
        (lambda: tree(leaf("a", gpu=1), cpu=1), "a: demand names gpu, which the cluster does not have"),
    ],
)
def test_nonsense_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(TreeError, match=message):
        make()
