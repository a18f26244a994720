"""What no schedule can do without: reachability, earliest starts, and lower bounds on the makespan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle.compiled.functions import inner, kernel

if TYPE_CHECKING:
    from treadle.planner.problem import F64, I64, U8, Problem


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
