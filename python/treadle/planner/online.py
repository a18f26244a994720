"""Plans for jobs that run: from a DAG to the ranks that an engine is told (`treadle.events.PlanRanks`).

`plan_online` is a pure function of DAG, machines and budget. `PlanSource` remembers what it gave for equal DAGs, as
recurring jobs bring them again and again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from treadle.dag.dag import Dag, DagError
from treadle.planner.graphene import plan
from treadle.planner.plan import Plan
from treadle.planner.problem import GROUPS_MAX

_log = logging.getLogger(__name__)

COUNT_MAX: Final = 10_000
"""A plan is made for at most so many machines."""

WORK_MAX: Final = 100_000_000
"""Candidate schedules times stages times groups of tasks of a plan, some seconds of one core at most: a large DAG has
fewer candidates, so that others are not kept waiting."""


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


def schedules_max(dag: Dag) -> int:
    """Return of how many candidate schedules a plan of a DAG is chosen at most (`WORK_MAX`)."""
    groups = sum(min(stage.tasks, GROUPS_MAX) for stage in dag.stages)
    return max(1, WORK_MAX // max(len(dag.stages) * groups, 1))


class PlanSource:
    """Plans DAGs on the same machines with the same budget, and remembers the latest."""

    def __init__(self, machines: Machines, schedules: int, remembered: int = 0) -> None:
        """Begin with no plan.

        Args:
            machines: what all jobs are planned on
            schedules: candidates for each plan, at least one; fewer for DAGs with which that would exceed `WORK_MAX`
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
            found = plan_online(dag, self.machines, min(self._schedules, schedules_max(dag)))
        except DagError as error:
            _log.info("not planned: %s", error)
            found = None
        self.planned += 1
        self._plans[shape] = found
        while len(self._plans) > self._remembered:
            self._plans.popitem(last=False)
        return found
