"""Lets numba load or compile all kernels of the planner, so that no budget of time pays for it."""

from __future__ import annotations

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.planner.bounds import structure
from treadle.planner.breed import FOLLOWED, IN_SPACE
from treadle.planner.problem import compile_problem
from treadle.planner.workspace import Workspace


def warm_up() -> None:
    """Call every kernel once."""
    dag = Dag("warm-up", (Stage(0, 1, 1, {"cpu": 1.0}), Stage(1, 2, 1, {"cpu": 1.0}, (0,))))
    problem = compile_problem(dag, {"cpu": 1.0}, 1)
    structure(problem)
    work = Workspace(problem)
    order, together = np.arange(2), np.zeros(2, np.int64)
    work.construct(together, (0, 0, 0), order, order)
    work.justify(order.copy(), 1)
    work.follow(np.zeros(3, np.int64))
    work.follow_backward(np.zeros(3, np.int64))
    work.follow_packing()
    lists, worths = np.array([order]), np.zeros(1, np.int64)
    for mode in (IN_SPACE, FOLLOWED):
        work.breed(lists, worths, lists.copy(), worths.copy(), 0, 1, np.ones(1, np.uint64), 0, 1, mode)
