"""Troublesome tasks, and the cuts of a DAG between which they are looked for.

The parts are planned one by one; the plan of the whole is one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.planner.bounds import Structure
from treadle.planner.construct import CHILDREN, CSP, PARENTS, PSC, SCP, SIBLINGS, SPC, TROUBLESOME
from treadle.planner.problem import F64, I64, U8, Problem


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


STEP: Final = 0.1
"""The grid's step; the paper's is lost."""

Code = tuple[int, int, int]
"""Order of the other subsets, direction of T, direction of S where it comes right after T."""


def long_scores(problem: Problem) -> F64:
    """Return duration over the longest duration."""
    longest = problem.duration.max(initial=0)
    scores: F64 = problem.duration / max(int(longest), 1)
    return scores


def frag_scores(problem: Problem, spans: I64) -> F64:
    """Return the paper's FragScore: a stage's work over the time that packing it takes, both on the whole cluster."""
    shares = (problem.demand / np.maximum(problem.capacity, 1)).max(axis=1, initial=0.0)
    work = problem.tasks * problem.duration / problem.machines * shares
    scores: F64 = np.divide(work, spans, out=np.ones(len(spans)), where=spans > 0)
    return scores


def packing_scores(problem: Problem) -> F64:
    """Return how full a machine gets with a stage's tasks alone, in the resource that they fill most.

    The paper's score is low for whatever is small, as nothing small fills a cluster; this one is low only for tasks
    that leave room unused however many there are.
    """
    shares = (problem.demand / np.maximum(problem.capacity, 1)).max(axis=1, initial=0.0)
    k = np.where(shares > 0, np.floor(1 / np.maximum(shares, 1e-9) + 1e-6), 1)
    scores: F64 = np.where(shares > 0, np.minimum(k * shares, 1.0), 1.0)
    return scores


def divisions(problem: Problem, found: Structure, *, paper_only: bool) -> Iterator[I64]:
    """Yield each division of the stages into T, S, P, C (`kernel.construct`), no T twice, T never empty.

    All of {LongScore >= l or FragScore <= f}, closed, for l and f on the grid; unless ``paper_only`` also with the
    packing score for the FragScore. Thresholds that pick the same stages count once, and so do sets seen before.
    """
    seen: set[bytes] = set()
    by_length = _picks(long_scores(problem), at_least=True)
    by_fragments = [_picks(frag_scores(problem, found.spans), at_least=False)]
    if not paper_only:
        by_fragments.insert(0, _picks(packing_scores(problem), at_least=False))
    for fragments in by_fragments:
        for fragmenting in fragments:
            for long in by_length:
                troublesome = _closure(long | fragmenting, found)
                if troublesome.any() and troublesome.tobytes() not in seen:
                    seen.add(troublesome.tobytes())
                    yield _divide(troublesome, found)


def codes(part: I64) -> list[Code]:
    """Return the orders and directions that differ for a division: fewer if subsets are empty."""
    there = [bool((part == subset).any()) for subset in range(4)]
    found: list[Code] = []
    for direction in (0, 1):
        if not there[SIBLINGS]:
            found.append((SCP, direction, 0))
            if there[PARENTS] and there[CHILDREN]:
                found.append((SPC, direction, 0))
            continue
        after_t = (SCP, SPC) if there[PARENTS] and there[CHILDREN] else (SCP,)
        found.extend((order, direction, siblings) for order in after_t for siblings in (0, 1))
        found.extend((order, direction, 0) for order, first in ((PSC, PARENTS), (CSP, CHILDREN)) if there[first])
    return found


def _picks(scores: F64, *, at_least: bool) -> list[npt.NDArray[np.bool_]]:
    """Return the different sets that the grid's thresholds pick, the empty one first."""
    found = {b"": np.zeros(len(scores), np.bool_)}
    for threshold in np.arange(1, round(1 / STEP) + 1) * STEP:
        picked = scores >= threshold - 1e-9 if at_least else scores <= threshold + 1e-9
        if picked.any():
            found.setdefault(picked.tobytes(), picked)
    return list(found.values())


def _closure(picked: npt.NDArray[np.bool_], found: Structure) -> npt.NDArray[np.bool_]:
    """Return the stages picked and all on a path between two of them."""
    below = found.some[picked].any(axis=0)
    above = found.some[:, picked].any(axis=1)
    closed: npt.NDArray[np.bool_] = picked | (below & above)
    return closed


def _divide(troublesome: npt.NDArray[np.bool_], found: Structure) -> I64:
    part = np.full(len(troublesome), SIBLINGS, np.int64)
    part[found.some[:, troublesome].any(axis=1)] = PARENTS
    part[found.some[troublesome].any(axis=0)] = CHILDREN
    part[troublesome] = TROUBLESOME
    return part
