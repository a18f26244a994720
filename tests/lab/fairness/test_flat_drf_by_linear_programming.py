"""An independent check of weighted flat DRF: progressive filling by a linear-programming solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog
from tests.lab.fairness.trees import trees

from treadle_lab.fairness.algorithms import allocate_fluid, flattened
from treadle_lab.fairness.fluid import Tree


def by_linear_programming(tree: Tree) -> dict[str, float]:
    """Raise the least weighted dominant share as far as it goes, keep those that cannot follow, and again.

    Variables: the tasks of each leaf, then the common level.
    """
    leaves = tree.leaves
    use = np.array([[float(a) for a in tree.demand_share(leaf)] for leaf in leaves])
    dominant, weights = use.max(axis=1), np.array([float(leaf.weight) for leaf in leaves])
    limits = [None if leaf.tasks is None else float(leaf.tasks) for leaf in leaves]
    fixed: dict[int, float] = {}
    while len(fixed) < len(leaves):
        rising = [n for n in range(len(leaves)) if n not in fixed]
        equal = [
            [-weights[n] if c == len(leaves) else dominant[n] * (c == n) for c in range(len(leaves) + 1)]
            for n in rising
        ]
        capacity = np.hstack([use.T, np.zeros((use.shape[1], 1))])
        bounds = [(fixed[n], fixed[n]) if n in fixed else (0.0, limits[n]) for n in range(len(leaves))]
        objective = np.zeros(len(leaves) + 1)
        objective[-1] = -1
        best = linprog(
            objective, capacity, np.ones(use.shape[1]) + 1e-12, equal, np.zeros(len(rising)), [*bounds, (0.0, None)]
        )
        assert best.status == 0, best.message
        room = 1 - use.T @ best.x[:-1]
        for n in rising:
            full = any(need > 0 and left < 1e-9 for need, left in zip(use[n], room, strict=True))
            limit = limits[n]
            if full or (limit is not None and best.x[n] >= limit - 1e-9):
                fixed[n] = max(best.x[n], 0.0)
    return {leaf.name: fixed[n] for n, leaf in enumerate(leaves)}


@given(tree=trees(finite=True))
def test_flat_drf_agrees_with_a_solver(tree: Tree) -> None:
    exact = allocate_fluid(tree, "drf-flat").tasks
    expected = by_linear_programming(flattened(tree))
    assert {name: float(tasks) for name, tasks in exact.items()} == pytest.approx(expected, rel=1e-6, abs=1e-7)
