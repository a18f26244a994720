"""A plan: in which order the tasks of one DAG should start; and lower bounds on its makespan.

The technical report's bound (arXiv 1604.07371) is the sum, over the parts between cuts, of the greatest of critical
path, work, and a critical path on which a stage counts with its work. `LowerBounds.best` contains that: every stage on
a path counts with the time that it alone takes in whole waves, before each stage whatever must have ended is counted as
work, and so is any set of stages between its earliest start and what must follow. Where a task takes more than half of
a machine, or more than a third, ..., work is counted by dual feasible functions (Fekete and Schepers, 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from treadle.compiled.functions import inner, kernel
from treadle.dag import Dag
from treadle.planner import problem as arrays
from treadle.planner.construct import construct
from treadle.planner.follow import breed, follow_plan
from treadle.planner.problem import F64, GROUPS_MAX, I64, U8, Problem, reversed_problem

_NO_RATES: Final = np.zeros(0, np.float64)


class Workspace:
    """Builds and follows schedules of one problem; each call overwrites the result of the one before.

    Not for two threads at once: every worker has its own.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.turned = reversed_problem(problem)
        self.schedule = arrays.new_schedule(problem)
        self.order = arrays.new_order(problem)
        tasks, stages = int(problem.tasks.sum()), len(problem.tasks)
        self.space = arrays.new_space(problem, min(2 * tasks + 4, 4 * stages + 2 * GROUPS_MAX))
        self.cluster = arrays.new_cluster(problem, min(tasks + stages + 1, 4096))
        """Both grow where they turn out too small."""
        self.key = np.zeros(int(problem.group_at[-1]), np.int64)
        self.rates = np.divide(1.0, problem.capacity, out=np.zeros(len(problem.capacity)), where=problem.capacity > 0)

    def construct(
        self, part: I64, code: tuple[int, int, int], forward_priority: I64, backward_priority: I64, steps: int = 3
    ) -> int:
        """Build a schedule with T first; ``code`` is order, direction of T, direction of S. Returns its makespan."""
        how = (part, *code, steps, forward_priority, backward_priority)
        return self.in_space(lambda: construct(self.problem, self.turned, self.space, self.schedule, self.order, *how))

    def breed(self, brood: arrays.Brood) -> None:
        """Make children and compute their makespans (`follow.breed`)."""
        while self._breed(brood) < 0:
            self._enlarge_cluster()

    def _breed(self, brood: arrays.Brood) -> int:
        where = (self.problem, self.turned, self.schedule, self.cluster, self.order)
        return int(breed(*where, brood, self.key, _NO_RATES))

    def follow(self, key: I64, duration: I64 | None = None) -> int:
        """Follow ranks by group, perhaps with other durations than planned. Returns the makespan."""
        problem = self.problem if duration is None else self.problem._replace(duration=duration)
        return self._follow(problem, key, _NO_RATES)

    def follow_backward(self, key: I64) -> int:
        """Follow ranks by group with time turned round: children first."""
        return self._follow(self.turned, key, _NO_RATES)

    def follow_packing(self) -> int:
        """Let machines take the ready tasks that pack best. Returns the makespan."""
        return self._follow(self.problem, self.schedule.low, self.rates)

    def _follow(self, problem: Problem, key: I64, rates: F64) -> int:
        given = key.copy() if key is self.schedule.low else key
        while True:
            length = follow_plan(problem, self.cluster, self.schedule, given, rates)
            if length >= 0:
                return int(length)
            self._enlarge_cluster()

    def in_space(self, attempt: Callable[[], int]) -> int:
        """Return what an attempt returns once the space is large enough for it."""
        while True:
            length = attempt()
            if length >= 0:
                return int(length)
            self.space = arrays.new_space(self.problem, 4 * self.space.time.shape[1])

    def _enlarge_cluster(self) -> None:
        self.cluster = arrays.new_cluster(self.problem, 4 * len(self.cluster.end))


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
    """Properties of a problem: reachability, durations of stages, earliest starts."""

    some: U8
    """[ancestor, descendant]"""
    full: U8
    """[ancestor, descendant]: all tasks of the one end before any of the other starts."""
    spans: I64
    """How long each stage takes on an empty cluster, in whole waves."""
    bounds: LowerBounds


def structure(problem: Problem) -> Structure:
    """Compute the structure of a problem."""
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
    return Structure(some, full, spans, LowerBounds(path, work, max(best, path, work)))


def fitting(problem: Problem) -> I64:
    """Return how many tasks of each stage run on one empty machine at once, at most all."""
    with np.errstate(divide="ignore"):
        copies = np.where(problem.demand > 0, problem.capacity // np.maximum(problem.demand, 1), problem.tasks[:, None])
    most = copies.min(axis=1, initial=2**62)
    fitting: I64 = np.maximum(1, np.minimum(most, np.maximum(problem.tasks, 1)))
    return fitting


def stage_spans(problem: Problem) -> I64:
    """Return how long each stage takes alone on an empty cluster: its waves are whole."""
    at_once = fitting(problem) * problem.machines
    return -(-problem.tasks // at_once) * problem.duration


def path_lengths(problem: Problem, lengths: I64 | None = None) -> I64:
    """Return the longest path from each stage's start to the end, a stage counting its duration or its ``lengths``."""
    lengths = problem.duration if lengths is None else lengths
    longest = np.zeros(len(problem.tasks), np.int64)
    stages = range(len(longest))
    for s in stages if problem.backward else reversed(stages):
        behind = problem.after[problem.after_at[s] : problem.after_at[s + 1]]
        longest[s] = lengths[s] + longest[behind].max(initial=0)
    return longest


def _shares_of_work(problem: Problem) -> F64:
    """Return, by resource and stage, how long the whole cluster is busy with a stage."""
    shares = problem.demand / np.maximum(problem.capacity, 1)
    amount: F64 = (problem.tasks * problem.duration / problem.machines)[None, :] * shares.T
    return amount


def _works(problem: Problem) -> F64:
    """Return work by measure and stage, as time of the whole cluster; each measure is a dual feasible function."""
    shares = problem.demand / np.maximum(problem.capacity, 1)
    works = []
    for share in shares.T:
        works.append(share)
        small = np.unique(share[(share > 0) & (share <= 0.5)])
        if len(small) > _THRESHOLDS_MAX:
            small = small[np.linspace(0, len(small) - 1, _THRESHOLDS_MAX).astype(np.int64)]
        works.extend(np.where(share > 1 - least + _EXACT, 1.0, np.where(share >= least, share, 0.0)) for least in small)
        for k in _ROUNDINGS:
            parts = (k + 1) * share
            exact = np.abs(parts - np.rint(parts)) < _EXACT * 10**4
            works.append(np.where(exact, share, np.floor(parts) / k))
    amount = problem.tasks * problem.duration / problem.machines
    measures = np.array([measure * amount for measure in works]).reshape(len(works), len(amount))
    return np.ascontiguousarray(np.unique(measures, axis=0)) if len(amount) else measures


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The ranks of a DAG's tasks."""

    dag: Dag
    ranks: Mapping[int, I64]
    """By stage ID: number of tasks of the DAG before each group's first. Ranks are a topological order of stages' first
    and last tasks. Task i of n is in group ``i * groups // n``; up to 64 tasks are a group each."""

    def scores(self, stage: int) -> F64:
        """Return tpriScore of each group of a stage (section 5): 1 for the task that starts first, 0 for the last."""
        scores: F64 = 1.0 - self.ranks[stage] / max(self.dag.tasks - 1, 1)
        return scores

    def stage_order(self) -> tuple[int, ...]:
        """Return the stages' ids by the starts of their first tasks, parents before children."""
        at = {stage.id: index for index, stage in enumerate(self.dag.stages)}
        first = {stage: int(ranks[0]) if len(ranks) else -1 for stage, ranks in self.ranks.items()}
        return tuple(sorted(at, key=lambda stage: (first[stage], at[stage])))


def group_sizes(tasks: int) -> I64:
    """Return how many tasks each rank group of a stage has."""
    groups = min(tasks, GROUPS_MAX)
    edges = -(-np.arange(groups + 1) * tasks // max(groups, 1))
    return np.diff(edges).astype(np.int64)


def group_ranks(dag: Dag, key: I64) -> I64:
    """Return how many tasks come before each group's first, if the group with the lowest key starts first.

    Groups of one key are in the DAG's order.
    """
    sizes = np.concatenate([group_sizes(stage.tasks) for stage in dag.stages] or [np.zeros(0, np.int64)])
    order = np.lexsort((np.arange(len(sizes)), key))
    ranks = np.zeros(len(sizes), np.int64)
    ranks[order] = np.cumsum(sizes[order]) - sizes[order]
    return ranks


def plan_by(dag: Dag, problem: Problem, key: I64) -> Plan:
    """Return the plan of ranks by group: the lowest starts first."""
    ranks = group_ranks(dag, key)
    groups = pairwise(problem.group_at.tolist())
    return Plan(dag, {stage.id: ranks[first:end] for stage, (first, end) in zip(dag.stages, groups, strict=True)})
