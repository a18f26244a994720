"""Cuts (Graphene, section 4.4): where all that comes after can only start when all that comes before has ended.

The parts are planned one by one; the plan of the whole is one after another.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treadle.planner.problem import I64, U8, Problem


def parts(full: U8) -> list[I64]:
    """Return the stages of each part, parts in order of time, stages in the DAG's order.

    ``full[a, b]``: all tasks of a end before any of b starts.
    """
    stages = len(full)
    order = np.argsort(full.sum(axis=0), kind="stable")
    # behind[k]: stages that all of order[k:] wait for in full
    behind = np.logical_and.accumulate(full[:, order[::-1]], axis=1)[:, ::-1].sum(axis=0)
    edges = [0, *(k for k in range(1, stages) if behind[k] == k), stages]
    return [np.sort(order[a:b]).astype(np.int64) for a, b in pairwise(edges)]


def part_problem(problem: Problem, stages: I64) -> Problem:
    """Return the problem of some of the stages, without the edges that lead out of them."""
    place = np.full(len(problem.tasks), -1, np.int64)
    place[stages] = np.arange(len(stages))
    before_at, before, before_single = _edges(problem.before_at, problem.before, problem.before_single, stages, place)
    after_at, after, after_single = _edges(problem.after_at, problem.after, problem.after_single, stages, place)
    groups = np.diff(problem.group_at)[stages]
    return problem._replace(
        tasks=problem.tasks[stages],
        duration=problem.duration[stages],
        demand=np.ascontiguousarray(problem.demand[stages]),
        before_at=before_at,
        before=before,
        before_single=before_single,
        after_at=after_at,
        after=after,
        after_single=after_single,
        group_at=np.concatenate(([0], np.cumsum(groups))).astype(np.int64),
    )


def _edges(at: I64, others: I64, single: U8, stages: I64, place: I64) -> tuple[I64, I64, U8]:
    kept = [np.flatnonzero(place[others[at[s] : at[s + 1]]] >= 0) + at[s] for s in stages]
    counts = np.array([len(edges) for edges in kept], np.int64)
    edges = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), place[others[edges]], single[edges]


def part_groups(problem: Problem, stages: I64) -> I64:
    """Return the groups of some of the stages."""
    ranges = [np.arange(problem.group_at[s], problem.group_at[s + 1]) for s in stages]
    return np.concatenate(ranges).astype(np.int64) if ranges else np.zeros(0, np.int64)
