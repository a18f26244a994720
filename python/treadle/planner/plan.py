"""A plan: in which order the tasks of one DAG should start.

From ranks to a plan: follow them, place them, return them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from treadle.dag.dag import Dag
from treadle.planner.bounds import LowerBounds
from treadle.planner.problem import F64, GROUPS_MAX, I64
from treadle.planner.workspace import Workspace


class Placement(NamedTuple):
    """``tasks`` tasks of a stage that run at once on a machine, ``times`` times one after another."""

    start: int
    stage: int
    """The stage's id."""
    machine: int
    tasks: int
    times: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The ranks of a DAG's tasks, and the schedule's figures. Times are in the DAG's unit."""

    dag: Dag
    algorithm: str
    makespan: int
    """Of the planned schedule."""
    executed_makespan: int
    """When the ranks are followed by machines that never leave room unused that a task which may start fits into."""
    bounds: LowerBounds
    schedules: int
    """Candidate schedules built to find it."""
    starts: Mapping[int, I64]
    """By stage id: planned start of the first task of each group, ascending. Task i of n is in group
    ``i * groups // n``; up to 64 tasks are a group each."""
    ranks: Mapping[int, I64]
    """By stage id: how many tasks of the DAG come before each group's first. Ranks are a topological order of stages'
    first and last tasks."""
    troublesome: frozenset[int] = frozenset()
    """Ids of the stages placed first, if the plan was made that way."""
    placements: tuple[Placement, ...] = field(default=(), repr=False)
    """The planned schedule, if it was asked for."""

    def rank(self, stage: int, task: int) -> int:
        """Return the rank of a task: from 0 to the number of tasks less one."""
        ranks = self.ranks[stage]
        tasks = next(found.tasks for found in self.dag.stages if found.id == stage)
        group = task * len(ranks) // tasks
        return int(ranks[group]) + task - -(-group * tasks // len(ranks))

    def scores(self, stage: int) -> F64:
        """Return tpriScore of each group of a stage (section 5): 1 for the task that starts first, 0 for the last."""
        scores: F64 = 1.0 - self.ranks[stage] / max(self.dag.tasks - 1, 1)
        return scores

    def stage_score(self, stage: int) -> float:
        """Return the mean of a stage's scores: for application masters that give one priority to all its tasks."""
        scores = self.scores(stage)
        return float(scores.mean()) if len(scores) else 0.0

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


class Ranking(NamedTuple):
    """The result of an algorithm."""

    key: I64
    """By group: the lowest starts first."""
    low: I64
    """By group: the planned start of its first task."""
    planned: int
    """Makespan of the planned schedule."""
    troublesome: tuple[int, ...]
    """Stages, by place in the DAG."""
    rows: I64
    """The planned schedule (`kernel.arrays.Record`), if it was asked for."""
    executed: int | None = None
    """Makespan of the algorithm's own rule where that does not follow ranks."""


def finish(dag: Dag, work: Workspace, algorithm: str, ranking: Ranking, bounds: LowerBounds, schedules: int) -> Plan:
    """Return the plan of some ranks; it is followed once."""
    executed = work.follow(ranking.key) if ranking.executed is None else ranking.executed
    ids = [stage.id for stage in dag.stages]
    group_at = work.problem.group_at
    ranks = group_ranks(dag, ranking.key)
    return Plan(
        dag=dag,
        algorithm=algorithm,
        makespan=ranking.planned,
        executed_makespan=executed,
        bounds=bounds,
        schedules=schedules,
        starts={stage: ranking.low[group_at[at] : group_at[at + 1]] for at, stage in enumerate(ids)},
        ranks={stage: ranks[group_at[at] : group_at[at + 1]] for at, stage in enumerate(ids)},
        troublesome=frozenset(ids[at] for at in ranking.troublesome),
        placements=tuple(
            Placement(start, ids[stage], machine, tasks, times)
            for start, stage, machine, tasks, times in ranking.rows.tolist()
        ),
    )
