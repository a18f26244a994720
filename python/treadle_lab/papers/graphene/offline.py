"""Plans of DAGs alone beside bounds and other planners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from treadle.dag.dag import Dag, Instance
from treadle.dag.generate import RESOURCES, Shape, generate
from treadle.planner import baselines
from treadle.planner.baselines import baseline
from treadle.planner.bounds import structure
from treadle.planner.graphene import Options, plan
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


ALGORITHMS: Final = ("graphene", "graphene-paper", *baselines.NAMES)
SHARES: Final = (0.0, 0.25, 0.5, 0.75)
"""Of long small stages, and of fragmenting ones: the range of the generator's parameters."""

Progress = Callable[[str, int, int], None]
"""Called with (what runs, how much is done, of how much) now and then."""


@dataclass(frozen=True, slots=True)
class Offline:
    """Executed makespans of single DAGs, by algorithm one number a DAG."""

    bound: list[int]
    makespans: dict[str, list[int]]

    def over_bound(self, algorithm: str) -> list[float]:
        """Return how many times the lower bound each DAG takes."""
        return [each / bound for each, bound in zip(self.makespans[algorithm], self.bound, strict=True)]

    def shorter_percent(self, algorithm: str, than: str = "bfs") -> list[float]:
        """Return by how much each DAG is shorter than by another algorithm, in percent of that."""
        pairs = zip(self.makespans[algorithm], self.makespans[than], strict=True)
        return [100.0 * (1.0 - ours / theirs) for ours, theirs in pairs]


def makespan(algorithm: str, instance: Instance, schedules: int) -> tuple[int, int]:
    """Return a DAG's executed makespan by an algorithm, and the best lower bound known."""
    where = (instance.dag, instance.capacity, instance.machines)
    if algorithm in baselines.NAMES:
        found = baselines.baseline(algorithm, *where)
    else:
        found = plan(*where, schedules, options=Options(paper=algorithm == "graphene-paper"))
    return found.executed_makespan, found.bounds.best


def compare_offline(
    seeds: range,
    shape: Shape | None = None,
    algorithms: tuple[str, ...] = ALGORITHMS,
    schedules: int = 400,
    progress: Progress | None = None,
) -> Offline:
    """Plan one generated DAG a seed by each algorithm."""
    bounds: list[int] = []
    makespans: dict[str, list[int]] = {name: [] for name in algorithms}
    for number, seed in enumerate(seeds):
        if progress is not None:
            progress("offline", number, len(seeds))
        instance = generate(seed, shape)
        bound = 0
        for name in algorithms:
            executed, known = makespan(name, instance, schedules)
            makespans[name].append(executed)
            bound = max(bound, known)
        bounds.append(bound)
    return Offline(bounds, makespans)


def sweep_offline(seeds: range, schedules: int, progress: Progress | None = None) -> dict[tuple[float, float], Offline]:
    """Return plans and breadth first over the generator's range, by shares of long and of fragmenting stages."""
    found = {}
    points = [(long_share, fragmenting) for long_share in SHARES for fragmenting in SHARES]
    for number, (long_share, fragmenting) in enumerate(points):
        if progress is not None:
            progress("offline, over the generator's range", number, len(points))
        shape = replace(Shape(), long_share=long_share, fragmenting_share=fragmenting)
        found[long_share, fragmenting] = compare_offline(seeds, shape, ("graphene", "bfs"), schedules)
    return found
