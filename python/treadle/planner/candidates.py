"""Candidate schedules and their comparison, within a budget.

The search divides a DAG at its cuts; the overall plan is the concatenation of the parts' plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from treadle.planner.construct import CHILDREN, CSP, PARENTS, PSC, SCP, SIBLINGS, SPC, TROUBLESOME
from treadle.planner.plan import Structure, Workspace
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
    """Return the problem restricted to some stages, without edges to others."""
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
"""The grid's step; the paper's value is missing from our copy."""

Code = tuple[int, int, int]
"""Order of the other subsets, direction of T, direction of S if it comes right after T."""


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
    """Return how full a machine gets with tasks of a stage alone, in their bottleneck resource.

    The paper's score is low for every small stage, since it cannot fill a cluster; this one is low only for tasks that
    leave resources unused in any number.
    """
    shares = (problem.demand / np.maximum(problem.capacity, 1)).max(axis=1, initial=0.0)
    k = np.where(shares > 0, np.floor(1 / np.maximum(shares, 1e-9) + 1e-6), 1)
    scores: F64 = np.where(shares > 0, np.minimum(k * shares, 1.0), 1.0)
    return scores


def divisions(problem: Problem, structure: Structure, *, paper_only: bool) -> Iterator[I64]:
    """Yield each division of the stages into T, S, P, C (`kernel.construct`), no T twice, T never empty.

    All of {LongScore >= l or FragScore <= f}, closed, for l and f on the grid; unless ``paper_only`` also with the
    packing score for the FragScore. Thresholds that pick the same stages count once, and so do sets seen before.
    """
    seen: set[bytes] = set()
    by_length = _picks(long_scores(problem), at_least=True)
    by_fragments = [_picks(frag_scores(problem, structure.spans), at_least=False)]
    if not paper_only:
        by_fragments.insert(0, _picks(packing_scores(problem), at_least=False))
    for fragments in by_fragments:
        for fragmenting in fragments:
            for long in by_length:
                troublesome = _closure(long | fragmenting, structure)
                if troublesome.any() and troublesome.tobytes() not in seen:
                    seen.add(troublesome.tobytes())
                    yield _divide(troublesome, structure)


def codes(part: I64) -> list[Code]:
    """Return the orders and directions that differ for a division: fewer if subsets are empty."""
    there = [bool((part == subset).any()) for subset in range(4)]
    codes: list[Code] = []
    for direction in (0, 1):
        if not there[SIBLINGS]:
            codes.append((SCP, direction, 0))
            if there[PARENTS] and there[CHILDREN]:
                codes.append((SPC, direction, 0))
            continue
        after_t = (SCP, SPC) if there[PARENTS] and there[CHILDREN] else (SCP,)
        codes.extend((order, direction, siblings) for order in after_t for siblings in (0, 1))
        codes.extend((order, direction, 0) for order, first in ((PSC, PARENTS), (CSP, CHILDREN)) if there[first])
    return codes


def _picks(scores: F64, *, at_least: bool) -> list[npt.NDArray[np.bool_]]:
    """Return the distinct sets that the grid's thresholds select, the empty one first."""
    picks = {b"": np.zeros(len(scores), np.bool_)}
    for threshold in np.arange(1, round(1 / STEP) + 1) * STEP:
        picked = scores >= threshold - 1e-9 if at_least else scores <= threshold + 1e-9
        if picked.any():
            picks.setdefault(picked.tobytes(), picked)
    return list(picks.values())


def _closure(picked: npt.NDArray[np.bool_], structure: Structure) -> npt.NDArray[np.bool_]:
    """Return the selected stages and all on a path between two of them."""
    below = structure.some[picked].any(axis=0)
    above = structure.some[:, picked].any(axis=1)
    closed: npt.NDArray[np.bool_] = picked | (below & above)
    return closed


def _divide(troublesome: npt.NDArray[np.bool_], structure: Structure) -> I64:
    part = np.full(len(troublesome), SIBLINGS, np.int64)
    part[structure.some[:, troublesome].any(axis=1)] = PARENTS
    part[structure.some[troublesome].any(axis=0)] = CHILDREN
    part[troublesome] = TROUBLESOME
    return part


class Budget(Protocol):
    """Decides whether a search may make another step."""

    def allows(self, used: int, cost: int) -> bool:
        """Return whether ``cost`` more schedules may be built after ``used``."""


@dataclass(frozen=True, slots=True)
class Schedules:
    """Limits the number of candidate schedules: the same plan on any machine."""

    most: int

    def allows(self, used: int, cost: int) -> bool:
        """Return whether ``cost`` more schedules may be built after ``used``."""
        return used + cost <= self.most


ELITE: Final = 40


class Objective(Enum):
    """The figure by which candidates are compared."""

    PLANNED = "planned"
    """The makespan in space-time."""
    EXECUTED = "executed"
    """The makespan when the ranks are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How to build a candidate: by a division and priorities, or by following ``key``."""

    part: I64 | None = None
    code: Code = (0, 0, 0)
    forward: I64 | None = None
    backward: I64 | None = None
    key: I64 | None = None
    troublesome: bool = False
    """Whether ``part`` is a division with troublesome stages, rather than a list of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A schedule with its makespan."""

    worth: int
    planned: int
    key: I64
    """Planned starts by group: the ranks."""
    order: I64
    """The stages by start."""
    rebuild: Callable[[Workspace], int]
    """Builds the planned schedule again."""
    troublesome: npt.NDArray[np.bool_] | None = None


@dataclass(slots=True)
class Best:
    """The best candidate, and some more of the best."""

    first: Candidate | None = None
    elite: list[Candidate] = field(default_factory=list)

    @property
    def worth(self) -> int:
        """The makespan of the best candidate."""
        return 2**62 if self.first is None else self.first.worth

    def add(self, candidate: Candidate) -> None:
        """Add a candidate; of equally good ones the first stays."""
        if candidate.worth < self.worth:
            self.first = candidate
        if len(self.elite) < ELITE or candidate.worth < self.elite[-1].worth:
            if any(other.worth == candidate.worth and np.array_equal(other.key, candidate.key) for other in self.elite):
                return
            self.elite.append(candidate)
            self.elite.sort(key=lambda other: other.worth)
            del self.elite[ELITE:]


def order_of(starts: I64) -> I64:
    """Return stages by start, in the DAG's order where starts are equal."""
    return np.lexsort((np.arange(len(starts)), starts)).astype(np.int64)


def schedules_of(objective: Objective, recipe: Recipe, *, improve: bool) -> int:
    """Return how many schedules `build` builds."""
    if objective is Objective.EXECUTED:
        return (1 if recipe.key is not None else 2) + (2 if improve else 0)
    return 1 + (3 if improve else 0)


def build(work: Workspace, objective: Objective, recipe: Recipe, *, improve: bool) -> Candidate:
    """Build a candidate; with ``improve`` also improve it forward and backward."""
    if objective is Objective.EXECUTED:
        return _build_executed(work, recipe, improve=improve)
    planned = _build_first(work, recipe)
    mark = _mark(recipe)
    order = order_of(work.schedule.first)
    again = partial(_build_first, recipe=recipe)
    candidate = Candidate(planned, planned, work.schedule.low.copy(), order, again, mark)
    if not improve:
        return candidate
    improved = order.copy()
    length = work.justify(improved, 1)
    if length >= planned:
        return candidate
    return placed_by_list(work, length, improved, mark)


def placed_by_list(work: Workspace, length: int, order: I64, mark: npt.NDArray[np.bool_] | None = None) -> Candidate:
    """Return the candidate that placing a list has just made."""
    key, starts = work.schedule.low.copy(), order_of(work.schedule.first)
    return Candidate(length, length, key, starts, lambda again: again.justify(order.copy(), 0), mark)


def followed(work: Workspace, length: int, key: I64, mark: npt.NDArray[np.bool_] | None = None) -> Candidate:
    """Return the candidate that following ranks has just made: it is the planned schedule."""
    return Candidate(length, length, key, order_of(work.schedule.first), lambda again: again.follow(key), mark)


def _build_first(work: Workspace, recipe: Recipe) -> int:
    if recipe.key is not None:
        return work.follow(recipe.key)
    assert recipe.part is not None
    assert recipe.forward is not None
    assert recipe.backward is not None
    return work.construct(recipe.part, recipe.code, recipe.forward, recipe.backward)


def _build_executed(work: Workspace, recipe: Recipe, *, improve: bool) -> Candidate:
    planned = _build_first(work, recipe)
    mark = _mark(recipe)
    if recipe.key is None:
        key = work.schedule.low.copy()
        executed = work.follow(key)
        again = partial(_build_first, recipe=recipe)
        candidate = Candidate(executed, planned, key, order_of(work.schedule.first), again, mark)
    else:
        candidate = followed(work, planned, recipe.key, mark)
    if not improve:
        return candidate
    work.follow_backward(_turned_key(work))
    key = _turned_key(work)
    length = work.follow(key)
    return followed(work, length, key, mark) if length < candidate.worth else candidate


def _turned_key(work: Workspace) -> I64:
    """Return the ranks of the reversed problem from the schedule just built: the latest end first."""
    lengths = np.repeat(work.problem.duration, np.diff(work.problem.group_at))
    return -(work.schedule.high + lengths)


def _mark(recipe: Recipe) -> npt.NDArray[np.bool_] | None:
    return recipe.part == 0 if recipe.troublesome and recipe.part is not None else None


def levels(problem: Problem) -> I64:
    """Return the length in stages of the longest path to each stage, for breadth-first order."""
    # The same as `Dag.levels`, for problems: a part of a DAG, or a reversed one. networkx takes 3.5 times as long to
    # build and sort a graph (34 stages), and a plan would repeat that for every part.
    levels = np.zeros(len(problem.tasks), np.int64)
    for s in range(len(levels)):
        before = problem.before[problem.before_at[s] : problem.before_at[s + 1]]
        levels[s] = 1 + levels[before].max(initial=-1)
    return levels


def labels(problem: Problem, structure: Structure) -> I64:
    """Return Coffman and Graham's labels (Acta Informatica 1, 1972), the highest to start first.

    From the end: among the stages whose successors all have labels, the one whose successors' labels, in descending
    order, come first lexicographically. Successors are those of the transitive reduction; a stage's tasks are identical
    and have consecutive labels, so one represents them.
    """
    children = _reduced(problem, structure)
    label = np.zeros(len(problem.tasks), np.int64)
    waiting = [len(successors) for successors in children]
    parents: list[list[int]] = [[] for _ in children]
    for s, successors in enumerate(children):
        for child in successors:
            parents[child].append(s)
    ready: list[tuple[list[int], int]] = [([], s) for s in range(len(children)) if waiting[s] == 0]
    for value in range(1, len(children) + 1):
        chosen = min(ready)
        ready.remove(chosen)
        s = chosen[1]
        label[s] = value
        for parent in parents[s]:
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append((sorted((int(label[c]) for c in children[parent]), reverse=True), parent))
    return label


def _reduced(problem: Problem, structure: Structure) -> list[list[int]]:
    """Return each stage's children, without those that are behind another child as well."""
    # The same as `Dag.reduced`; networkx takes 2.6 times as long (34 stages), since it cannot use the existing closure.
    children = []
    for s in range(len(problem.tasks)):
        direct = problem.after[problem.after_at[s] : problem.after_at[s + 1]]
        behind = np.logical_or.reduce(structure.some[direct], axis=0)
        children.append([int(child) for child in direct if not behind[child]])
    return children
