"""The worked examples of the H-DRF paper (SoCC 2013) and of Volcano's H-DRF, from docs/examples/share."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from treadle_lab.fairness.algorithms import NAIVE, WholeTasks, allocate_fluid, churn
from treadle_lab.fairness.fluid import HDRF, fill
from treadle_lab.fairness.steps import Problem, Step, compute_steps, read_problem

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "share"


def problem(name: str) -> Problem:
    return read_problem(EXAMPLES / f"{name}.yaml")


def steps(name: str, algorithm: str = "hdrf") -> list[Step]:
    return list(compute_steps(problem(name), algorithm))


def amounts(step: Step, resource: str) -> dict[str, Fraction]:
    return {leaf: result.resources[resource] for leaf, result in step.leaves.items()}


def shares(step: Step) -> dict[str, Fraction]:
    return {leaf: result.dominant_share for leaf, result in step.leaves.items()}


Amounts = dict[str, tuple[Fraction | int, ...]]
A: Amounts = {"n1.1": (5, 0), "n2.1": (5, 0), "n2.2": (0, 10)}
THIRD = Fraction(10, 3)
BOTH = ("hdrf", "hdrf-static")
ALL = (*BOTH, "drf-flat", "drf-naive", "capacity")
FIGURES: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Amounts]] = {
    # figure 4 b; without n2.2; and with it again
    ("test-a", BOTH, ("cpu", "gpu")): [A, A | {"n2.2": (0, 0)}, A],
    ("test-b", BOTH, ("cpu", "gpu")): [  # figure 5 b
        {"n1.1": (THIRD, 0), "n2.1": (THIRD, 0), "n3.1": (THIRD, 0), "n3.2": (0, 5), "n4.1": (0, 5)}
    ],
    ("test-c", BOTH, ("cpu", "gpu")): [  # figure 7
        {"n1.1": (6, 4), "n2.1": (3, 3), "n2.2": (1, 3)},
        {"n1.1": (5, THIRD), "n2.1": (5, 5), "n2.2": (0, 0)},
    ],
    ("slots", ALL, ("slots",)): [  # figure 2: with one resource all algorithms are the same
        {"n1.1": (240,), "n2.1": (48,), "n2.2.1": (96,), "n2.3": (96,)},
        {"n1.1": (240,), "n2.1": (48 + 32,), "n2.2.1": (96 + 64,), "n2.3": (0,)},
    ],
    ("volcano-rescaling", ("hdrf",), ("cpu", "memory")): [{"n1.1": (5, 5), "n2.1": (5, 0), "n2.2": (0, 5)}],
    ("volcano-blocking", ("hdrf",), ("cpu", "memory")): [
        {"n1.1": (10, 0), "n2.1": (10, 0), "n3.1": (10, 0), "n3.2": (0, 15), "n4.1": (0, 15)}
    ],
}


@pytest.mark.parametrize(
    ("figure", "algorithm"), [(figure, algorithm) for figure in FIGURES for algorithm in figure[1]], ids=str
)
def test_amounts_are_those_of_the_figures(figure: tuple[str, tuple[str, ...], tuple[str, ...]], algorithm: str) -> None:
    name, _, resources = figure
    found = [
        {leaf: tuple(result.resources[resource] for resource in resources) for leaf, result in step.leaves.items()}
        for step in steps(name, algorithm)
    ]
    assert found == FIGURES[figure]


def test_a_naive_drf_starves_n21_as_tasks_end() -> None:
    (start, *_) = steps("test-a", "drf-naive")
    assert {leaf: result.tasks for leaf, result in start.leaves.items()} == {"n1.1": 10, "n2.1": 0, "n2.2": 10}
    assert start.settled


def test_a_naive_drf_begins_as_the_paper_says() -> None:
    tree = problem("test-a").tree
    assert fill(tree, NAIVE) == {"n1.1": 5, "n2.1": 5, "n2.2": 10}


@pytest.mark.parametrize("portion", [Fraction(1), Fraction(1, 10), Fraction(1, 3)])
def test_a_hdrf_stays_so_as_tasks_end(portion: Fraction) -> None:
    tree = problem("test-a").tree
    assert churn(tree, HDRF, fill(tree, HDRF), portion).tasks == {"n1.1": 5, "n2.1": 5, "n2.2": 10}


def test_a2_hdrf_keeps_the_half_of_n2() -> None:
    (start,) = steps("test-a2")
    assert shares(start) == {"n1.1": Fraction(1, 2), "n2.1": Fraction(1, 2), "n2.2": Fraction(1, 2)}


def test_a2_flattened_weights_break_the_guarantee_of_n2() -> None:
    (start,) = steps("test-a2", "drf-flat")
    assert shares(start) == {"n1.1": Fraction(2, 3), "n2.1": Fraction(1, 3), "n2.2": Fraction(1, 3)}


def test_b_stays_so_as_tasks_end() -> None:
    tree = problem("test-b").tree
    start = fill(tree, HDRF)
    for portion in (Fraction(1), Fraction(1, 7)):
        assert churn(tree, HDRF, start, portion).tasks == start


@pytest.mark.parametrize("inverse", [10, 100, 1000, 10**6])
def test_b2_splits_the_cpus_up_to_epsilon(inverse: int) -> None:
    """5, 5 and 10 - 5 epsilon to first order; exactly, n2 counts M (1 + epsilon) and so n1 gets 1 + epsilon as much."""
    epsilon = Fraction(1, inverse)
    tree = problem("test-b2").tree
    leaf = tree.leaves[1]
    changed = type(leaf)(leaf.name, {"cpu": Fraction(1), "gpu": epsilon})
    tree = tree.with_leaves({leaf.name: changed})
    tasks = fill(tree, HDRF)
    level = 10 / (2 + epsilon)
    assert tasks == {"n1.1": level * (1 + epsilon), "n2.1": level, "n2.2": 10 - epsilon * level}
    assert abs(tasks["n1.1"] - 5) <= Fraction(5, 2) * epsilon
    assert abs(tasks["n2.1"] - 5) <= Fraction(5, 2) * epsilon
    assert abs(tasks["n2.2"] - (10 - 5 * epsilon)) <= Fraction(5, 2) * epsilon**2
    assert churn(tree, HDRF, tasks, Fraction(1, 10)).tasks == tasks


def test_b2_naive_drf_starves_n21() -> None:
    (start,) = steps("test-b2", "drf-naive")
    assert start.leaves["n2.1"].tasks < Fraction(1, 10**30)


def test_d_figure_9_to_one_task() -> None:
    start, without_n11, without_n22 = steps("test-d")
    cpus = 49 * 4
    ideal = {"n1.1": Fraction(8, 10), "n1.2": Fraction(1), "n2.1": Fraction(1, 10), "n2.2": Fraction(1, 10)}
    for leaf, share in ideal.items():
        assert abs(start.leaves[leaf].tasks - share * cpus) < 1
    assert sum(amounts(start, "cpu").values()) == cpus
    assert shares(without_n11) == {"n1.1": 0, "n1.2": 1, "n2.1": Fraction(1, 2), "n2.2": Fraction(1, 2)}
    assert shares(without_n22) == {"n1.1": 0, "n1.2": 1, "n2.1": 1, "n2.2": 0}


def test_whole_tasks_hold_test_a_while_they_end_and_naive_drf_loses_it() -> None:
    pool = problem("test-a").tree
    (server,) = read_problem(EXAMPLES / "volcano-rescaling.yaml").servers
    one_server = [type(server)(1, pool.capacity)]
    for rule, expected in ((HDRF, [5, 5, 10]), (NAIVE, [10, 0, 10])):
        cluster = WholeTasks(pool, one_server, rule)
        cluster.fill()
        assert cluster.tasks() == [5, 5, 10]
        assert cluster.churn()
        assert cluster.tasks() == expected


def test_capacity_counts_one_resource_if_set_so() -> None:
    """By memory alone a queue without memory is never ahead: what DefaultResourceCalculator does."""
    tree = problem("test-c").tree
    by_cpu = allocate_fluid(tree, "capacity", "cpu").tasks
    cpu = {leaf.name: by_cpu[leaf.name] * leaf.demand["cpu"] for leaf in tree.leaves}
    assert cpu["n1.1"] == cpu["n2.1"] + cpu["n2.2"]
    assert cpu["n2.1"] == cpu["n2.2"]
    assert allocate_fluid(tree, "capacity").tasks == fill(tree, NAIVE)
