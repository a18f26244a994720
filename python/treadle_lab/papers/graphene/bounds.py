"""What a batch's makespan could be: lower bounds of `treadle.planner.bounds`, and all jobs followed as one DAG."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from treadle.dag.dag import Dag
from treadle.dag.generate import RESOURCES
from treadle.planner.baselines import baseline
from treadle.planner.bounds import structure
from treadle.planner.graphene import plan
from treadle.planner.problem import compile_problem
from treadle.workload.job import Workload
from treadle_lab.papers.graphene.jobs import Mix

SCHEDULES: Final = 50
"""Candidate schedules of the plan for all jobs."""


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """From the first arrival to the last end, in milliseconds. No batch takes less than the first three.

    The last two can be reached: all jobs as one DAG, begun when the last has come, by one who knows everything, decides
    at every instant, leaves no room free for later and starts tasks without delay.
    """

    work_ms: int
    """The work of the busiest resource over what the cluster has; for those too that give out more than there is."""
    path_ms: int
    """The latest that a job would end which has the cluster to itself, task by task along its longest path."""
    planner_ms: int
    """The planner's bound on all jobs as one DAG, not less than the others; if nothing is given out twice."""
    one_plan_ms: int
    """By a plan."""
    one_breadth_first_ms: int
    """By breadth first."""


def bounds_of(workload: Workload, mix: Mix) -> BatchBounds:
    """Return what a batch could take on a cluster of alike machines.

    Raises:
        DagError: a task fits on no machine.
    """
    capacity, machines = dict.fromkeys(RESOURCES, 1.0), mix.machines
    first_ms = workload.jobs[0].arrival_ms
    apart = [structure(compile_problem(job.dag, capacity, machines)).bounds for job in workload.jobs]
    after_ms = [job.arrival_ms - first_ms for job in workload.jobs]
    whole = _one_dag(workload)
    together = structure(compile_problem(whole, capacity, machines)).bounds
    path_ms = max(after + each.critical_path for after, each in zip(after_ms, apart, strict=True))
    waves_ms = max(after + each.best for after, each in zip(after_ms, apart, strict=True))
    planned = plan(whole, capacity, machines, SCHEDULES)
    natural = baseline("bfs", whole, capacity, machines)
    return BatchBounds(
        work_ms=together.work,
        path_ms=path_ms,
        planner_ms=max(together.best, waves_ms, path_ms),
        one_plan_ms=workload.span_ms + planned.executed_makespan,
        one_breadth_first_ms=workload.span_ms + natural.executed_makespan,
    )


def _one_dag(workload: Workload) -> Dag:
    """Return the jobs' DAGs side by side, as if all came at once."""
    stages = []
    lengths = (1 + max((stage.id for stage in job.dag.stages), default=0) for job in workload.jobs)
    for job, first in zip(workload.jobs, accumulate(lengths, initial=0), strict=False):
        for stage in job.dag.stages:
            parents = tuple(first + parent for parent in stage.parents)
            singles = frozenset(first + parent for parent in stage.one_to_one)
            stages.append(replace(stage, id=first + stage.id, parents=parents, one_to_one=singles))
    return Dag("batch", tuple(stages))
