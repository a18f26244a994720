"""Plans for jobs that run: from a DAG to the ranks that an engine is told (`treadle.events.PlanRanks`).

`plan_online` is a pure function of DAG, machines and budget. `PlanSource` remembers what it gave for equal DAGs, as
recurring jobs bring them again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from treadle.dag.dag import Dag, DagError
from treadle.planner.graphene import plan
from treadle.planner.plan import Plan
from treadle.planner.problem import compile_problem
from treadle.planner.workspace import Workspace

COUNT_MAX: Final = 10_000
"""A plan is made for at most so many machines."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What a job is planned on: alike machines."""

    capacity: Mapping[str, float]
    """Of one machine, by resource. What it does not name is not planned: demands for it are left out."""
    count: int


class Group(NamedTuple):
    """Machines of a cluster that are alike."""

    capacity: Mapping[str, float]
    machines: int


def machines_of(groups: Sequence[Group], share: float = 1.0) -> Machines:
    """Return alike machines that stand for a cluster, or for a ``share`` of it.

    Each is as large in every resource as the largest that there is, so that whatever fits somewhere fits; there are as
    many as the scarcest resource of the cluster allows.
    """
    names = sorted({name for group in groups for name, amount in group.capacity.items() if amount > 0})
    largest = {name: max(group.capacity.get(name, 0.0) for group in groups) for name in names}
    total = {name: sum(group.machines * group.capacity.get(name, 0.0) for group in groups) for name in names}
    count = min((total[name] / largest[name] for name in names), default=1.0)
    return Machines(largest, min(max(1, round(share * count)), COUNT_MAX))


def plan_online(dag: Dag, machines: Machines, schedules: int) -> Plan:
    """Return the plan of a DAG, the best of ``schedules`` candidates: the same on any computer.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    return plan(_planned_part(dag, machines), machines.capacity, machines.count, schedules)


def followed_ms(dag: Dag, machines: Machines, order: Sequence[int]) -> int:
    """Return the makespan if tasks are started in an order of the stages, whatever fits: as `Plan.executed_makespan`.

    Args:
        dag: whose durations are milliseconds
        machines: what it runs on
        order: the ids of all stages, the one to be served first in front

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    problem = compile_problem(_planned_part(dag, machines), machines.capacity, machines.count)
    place = {stage: at for at, stage in enumerate(order)}
    places = np.array([place[stage.id] for stage in dag.stages], np.int64)
    return Workspace(problem).follow(np.repeat(places, np.diff(problem.group_at)))


def _planned_part(dag: Dag, machines: Machines) -> Dag:
    """Return the DAG with demands for what machines have alone."""
    if all(name in machines.capacity for stage in dag.stages for name in stage.demand):
        return dag
    return Dag(
        dag.name,
        tuple(
            replace(stage, demand={name: stage.demand[name] for name in stage.demand if name in machines.capacity})
            for stage in dag.stages
        ),
    )


def critical_path_order(dag: Dag) -> tuple[int, ...]:
    """Return the stages' ids by the longest path of durations to the end, the longest first; parents before children.

    This is the order of the critical-path baseline for whoever gives stages priorities.
    """
    longest: dict[int, int] = dict.fromkeys((stage.id for stage in dag.stages), 0)
    for stage in reversed(dag.stages):
        longest[stage.id] += stage.duration_ms
        for parent in stage.parents:
            longest[parent] = max(longest[parent], longest[stage.id])
    place = {stage.id: at for at, stage in enumerate(dag.stages)}
    return tuple(sorted(longest, key=lambda stage: (-longest[stage], place[stage])))


def shape_of(dag: Dag) -> Hashable:
    """Return what a plan depends on: equal for DAGs that have the same plan."""
    return tuple(
        (
            stage.id,
            stage.tasks,
            stage.duration_ms,
            tuple(sorted(stage.demand.items())),
            stage.parents,
            tuple(sorted(stage.one_to_one)),
        )
        for stage in dag.stages
    )


class PlanSource:
    """Plans DAGs on the same machines with the same budget, and remembers the latest."""

    def __init__(self, machines: Machines, schedules: int, remembered: int = 0) -> None:
        """Begin with no plan.

        Args:
            machines: what all jobs are planned on
            schedules: candidates for each plan, at least one
            remembered: how many plans are kept
        """
        self.machines = machines
        self.planned = 0
        """Plans made so far, those that were remembered not counted."""
        self._schedules = max(schedules, 1)
        self._remembered = remembered
        self._plans: OrderedDict[Hashable, Plan | None] = OrderedDict()

    def plan(self, dag: Dag) -> Plan | None:
        """Return the plan of a DAG; None if it cannot be planned, since a task fits on no machine."""
        shape = shape_of(dag)
        if shape in self._plans:
            self._plans.move_to_end(shape)
            return self._plans[shape]
        try:
            found = plan_online(dag, self.machines, self._schedules)
        except DagError:
            found = None
        self.planned += 1
        self._plans[shape] = found
        while len(self._plans) > self._remembered:
            self._plans.popitem(last=False)
        return found
