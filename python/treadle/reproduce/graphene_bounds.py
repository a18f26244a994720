"""What no scheduler can beat: lower bounds on the makespan of a batch, by those of `treadle.planner.bounds`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from treadle.dag.dag import Dag
from treadle.dag.generate import RESOURCES
from treadle.planner.bounds import structure
from treadle.planner.problem import compile_problem
from treadle.reproduce.graphene_jobs import Mix
from treadle.workload.job import Workload


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """From the first arrival to the last end, no batch takes less than these, in milliseconds."""

    work_ms: int
    """The work of the busiest resource over what the cluster has; for those too that give out more than there is."""
    path_ms: int
    """The latest that a job would end which has the cluster to itself, task by task along its longest path."""
    planner_ms: int
    """The planner's bound on all jobs as one DAG, not less than the others; if nothing is given out twice."""


def bounds_of(workload: Workload, mix: Mix) -> BatchBounds:
    """Return the bounds of a batch on a cluster of alike machines.

    Raises:
        DagError: a task fits on no machine.
    """
    capacity = dict.fromkeys(RESOURCES, 1.0)
    first_ms = workload.jobs[0].arrival_ms
    apart = [structure(compile_problem(job.dag, capacity, mix.machines)).bounds for job in workload.jobs]
    after_ms = [job.arrival_ms - first_ms for job in workload.jobs]
    together = structure(compile_problem(_one_dag(workload), capacity, mix.machines)).bounds
    path_ms = max(after + each.critical_path for after, each in zip(after_ms, apart, strict=True))
    waves_ms = max(after + each.best for after, each in zip(after_ms, apart, strict=True))
    return BatchBounds(together.work, path_ms, max(together.best, waves_ms, path_ms))


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
