"""Which stages are placed first (Graphene, section 4.1): troublesome sets, their closure, and the four subsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.planner.bounds import Structure
from treadle.planner.construct import CHILDREN, CSP, PARENTS, PSC, SCP, SIBLINGS, SPC, TROUBLESOME
from treadle.planner.problem import F64, I64, Problem

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
