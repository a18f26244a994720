"""Lower bounds on a DAG's makespan: critical path, work per resource, the paper's, and a better one.

The technical report's bound (arXiv 1604.07371) is the sum, over the parts between cuts, of the greatest of critical
path, work, and a critical path on which a stage counts with its work. `LowerBounds.best` contains that: every stage on
a path counts with the time that it alone takes in whole waves, before each stage whatever must have ended is counted as
work, and so is any set of stages between its earliest start and what must follow. Where a task takes more than half of
a machine, or more than a third, ..., work is counted by dual feasible functions (Fekete and Schepers, 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.compiled.functions import inner, kernel
from treadle.planner.problem import F64, I64, U8, Problem, reversed_problem


@kernel
def reach(problem: Problem, some: U8, full: U8) -> None:
    """Fill two matrices [ancestor, descendant]: connected at all, and all tasks of the one end before any of the other.

    Only a barrier on the way makes it all tasks.
    """
    for s in range(len(problem.tasks)):
        for e in range(problem.before_at[s], problem.before_at[s + 1]):
            parent, barrier = problem.before[e], problem.before_single[e] == 0
            some[parent, s] = 1
            if barrier:
                full[parent, s] = 1
            for a in range(parent):
                if some[a, parent]:
                    some[a, s] = 1
                    if barrier or full[a, parent]:
                        full[a, s] = 1


@inner
def ceiling(amount: float) -> int:
    """Return the least whole number that is not below ``amount``, rounding errors aside."""
    return int(np.ceil(amount - 1e-6 - amount * 1e-12))


@kernel
def earliest_starts(problem: Problem, full: U8, spans: I64, works: F64, head: I64, end: I64, order: I64) -> None:
    """Fill the least start of any task of each stage, and the least end of its last.

    ``full`` is [before, after] in the problem's direction of time; ``spans`` is what a stage alone takes; ``works``
    (measures, stages) is work as shares of the cluster's. Whatever ends before a stage has to have been worked off
    before it; what of that starts at h or later, after h.
    """
    stages = len(problem.tasks)
    for count in range(stages):
        s = stages - 1 - count if problem.backward else count
        start = last = 0
        for e in range(problem.before_at[s], problem.before_at[s + 1]):
            other = problem.before[e]
            if problem.before_single[e]:
                start = max(start, head[other] + problem.duration[other])
                last = max(last, end[other] + problem.duration[s])
            else:
                start = max(start, end[other])
        for k in range(len(works)):
            work = 0.0
            for i in range(count):  # latest start first
                other = order[i]
                if full[other, s]:
                    work += works[k, other]
                    if work > 0.0:
                        start = max(start, head[other] + ceiling(work))
        head[s] = start
        end[s] = max(start + spans[s], last)
        at = count
        while at > 0 and head[order[at - 1]] < start:
            order[at] = order[at - 1]
            at -= 1
        order[at] = s


@kernel
def work_bound(works: F64, head: I64, tail: I64, order: I64) -> int:
    """Return the greatest h + q + work of all stages that start at h or later and have q or more behind them.

    ``order`` has the stages by ``head``, latest first.
    """
    best, stages = 0, len(order)
    for k in range(len(works)):
        for i in range(stages):
            least_tail = tail[order[i]]
            if i > 0 and tail[order[i - 1]] == least_tail:
                continue
            work = 0.0
            for j in range(stages):
                s = order[j]
                if tail[s] >= least_tail and works[k, s] > 0.0:
                    work += works[k, s]
                    best = max(best, head[s] + least_tail + ceiling(work))
    return best


_THRESHOLDS_MAX: Final = 8
_ROUNDINGS: Final = (1, 2, 3, 4, 5)
_EXACT: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """No schedule is shorter than any of these, in the DAG's unit of time."""

    critical_path: int
    work: int
    best: int


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What follows from a problem alone: who is behind whom, how long stages take, how early they can start."""

    some: U8
    """[ancestor, descendant]"""
    full: U8
    """[ancestor, descendant]: all tasks of the one end before any of the other starts."""
    spans: I64
    """How long each stage takes on an empty cluster, in whole waves."""
    heads: I64
    """Least start of any task of each stage."""
    tails: I64
    """Least time from any task's end to the DAG's."""
    bounds: LowerBounds


def structure(problem: Problem) -> Structure:
    """Compute all that."""
    stages = len(problem.tasks)
    some, full = (np.zeros((stages, stages), np.uint8) for _ in range(2))
    reach(problem, some, full)
    spans = stage_spans(problem)
    works = _works(problem)
    heads, tails = np.zeros(stages, np.int64), np.zeros(stages, np.int64)
    order, ends = np.zeros(stages, np.int64), np.zeros(stages, np.int64)
    turned = reversed_problem(problem)
    earliest_starts(turned, np.ascontiguousarray(full.T), spans, works, tails, ends, order)
    earliest_starts(problem, full, spans, works, heads, ends, order)
    best = max(int((ends + tails).max(initial=0)), int(work_bound(works, heads, tails, order)))
    path = int(path_lengths(problem).max(initial=0))
    work = max((int(np.ceil(total - 1e-6)) for total in _shares_of_work(problem).sum(axis=1)), default=0)
    return Structure(some, full, spans, heads, tails, LowerBounds(path, work, max(best, path, work)))


def fitting(problem: Problem) -> I64:
    """Return how many tasks of each stage run on one empty machine at once, at most all."""
    with np.errstate(divide="ignore"):
        copies = np.where(problem.demand > 0, problem.capacity // np.maximum(problem.demand, 1), problem.tasks[:, None])
    most = copies.min(axis=1, initial=2**62)
    found: I64 = np.maximum(1, np.minimum(most, np.maximum(problem.tasks, 1)))
    return found


def stage_spans(problem: Problem) -> I64:
    """Return how long each stage takes alone on an empty cluster: its waves are whole."""
    at_once = fitting(problem) * problem.machines
    return -(-problem.tasks // at_once) * problem.duration


def path_lengths(problem: Problem, lengths: I64 | None = None) -> I64:
    """Return the longest path from each stage's start to the end, a stage counting its duration or its ``lengths``."""
    lengths = problem.duration if lengths is None else lengths
    found = np.zeros(len(problem.tasks), np.int64)
    stages = range(len(found))
    for s in stages if problem.backward else reversed(stages):
        behind = problem.after[problem.after_at[s] : problem.after_at[s + 1]]
        found[s] = lengths[s] + found[behind].max(initial=0)
    return found


def _shares_of_work(problem: Problem) -> F64:
    """Return, by resource and stage, how long the whole cluster is busy with a stage."""
    shares = problem.demand / np.maximum(problem.capacity, 1)
    amount: F64 = (problem.tasks * problem.duration / problem.machines)[None, :] * shares.T
    return amount


def _works(problem: Problem) -> F64:
    """Return work by measure and stage, as time of the whole cluster; each measure is a dual feasible function."""
    shares = problem.demand / np.maximum(problem.capacity, 1)
    found = []
    for share in shares.T:
        found.append(share)
        small = np.unique(share[(share > 0) & (share <= 0.5)])
        if len(small) > _THRESHOLDS_MAX:
            small = small[np.linspace(0, len(small) - 1, _THRESHOLDS_MAX).astype(np.int64)]
        found.extend(np.where(share > 1 - least + _EXACT, 1.0, np.where(share >= least, share, 0.0)) for least in small)
        for k in _ROUNDINGS:
            parts = (k + 1) * share
            exact = np.abs(parts - np.rint(parts)) < _EXACT * 10**4
            found.append(np.where(exact, share, np.floor(parts) / k))
    amount = problem.tasks * problem.duration / problem.machines
    measures = np.array([measure * amount for measure in found]).reshape(len(found), len(amount))
    return np.ascontiguousarray(np.unique(measures, axis=0)) if len(amount) else measures
