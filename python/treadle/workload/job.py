"""A job for the simulator and the reproductions, and figures of many: work, counts, distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.dag import Dag
from treadle.workload.reading import WorkloadError


class Framework(StrEnum):
    """The framework whose application master the job has (docs/simulated-cluster.md)."""

    MAPREDUCE = "mapreduce"
    TEZ = "tez"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One submission. Empty fields are unknown."""

    id: str
    arrival_ms: int
    dag: Dag
    framework: Framework = Framework.TEZ
    name: str = ""
    user: str = ""
    queue: str = ""
    tags: tuple[str, ...] = ()
    hosts: dict[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """For a stage id: for each task the nodes that hold its input; stages missing here have no preference."""
    priority: int = 0
    """YARN's priority: the highest in a leaf comes first, if the ordering policy uses it."""
    requires: dict[int, str] = field(default_factory=dict)
    """Required node properties by stage ID (`treadle.constraints`)."""
    prefers: dict[int, str] = field(default_factory=dict)
    """Preferred node properties by stage ID, the most important first."""


def dealt(jobs: Iterable[Job], seed: int, begun: Mapping[tuple[str, int], int] | None = None) -> list[Job]:
    """Return jobs with the task durations of each stage permuted by the seed.

    Args:
        jobs: the jobs
        seed: seed of the permutation
        begun: by job and stage: number of its first tasks that keep their durations
    """
    jobs_dealt = []
    for at, job in enumerate(jobs):
        chance, stages = np.random.default_rng([seed, at]), []
        for stage in job.dag.stages:
            times, first = stage.durations(), (begun or {}).get((job.id, stage.id), 0)
            stages.append(
                replace(stage, durations_ms=np.concatenate([times[:first], chance.permutation(times[first:])]))
            )
        jobs_dealt.append(replace(job, dag=Dag(job.dag.name, tuple(stages))))
    return jobs_dealt


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs in order of arrival, and the names of the resources that their stages may ask for."""

    resources: tuple[str, ...]
    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()
    """Omissions and assumptions of a reader, a sentence each."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        known = set(self.resources)
        latest = 0
        for job in self.jobs:
            if job.arrival_ms < 0:
                raise WorkloadError(f"job {job.id}: arrival_ms is {job.arrival_ms}; it must not be negative")
            if job.arrival_ms < latest:
                raise WorkloadError(f"job {job.id} comes before the job in front of it; see `arranged`")
            if job.id in seen:
                raise WorkloadError(f"two jobs have the id {job.id}")
            for stage in job.dag.stages:
                if not known.issuperset(stage.demand):
                    extra = ", ".join(sorted(set(stage.demand) - known))
                    raise WorkloadError(f"job {job.id}: stage {stage.id} asks for {extra}, which `resources` lacks")
            seen.add(job.id)
            latest = job.arrival_ms

    @property
    def tasks(self) -> int:
        """Number of tasks of all jobs."""
        return sum(job.dag.tasks for job in self.jobs)

    @property
    def span_ms(self) -> int:
        """From the first arrival to the last."""
        return self.jobs[-1].arrival_ms - self.jobs[0].arrival_ms if self.jobs else 0


def arranged(jobs: Iterable[Job], notes: Iterable[str] = ()) -> Workload:
    """Return jobs given in any order as a workload: by arrival, then as given; resources by name."""
    ordered = tuple(sorted(jobs, key=lambda job: job.arrival_ms))
    names = {name for job in ordered for stage in job.dag.stages for name in stage.demand}
    return Workload(tuple(sorted(names)), ordered, tuple(notes))


Capacity = Mapping[str, float]
"""Capacity of a cluster by resource; a missing resource is unlimited."""


def job_work(job: Job) -> dict[str, float]:
    """Return a job's resource usage integrated over time, in the resource's units times milliseconds."""
    work: dict[str, float] = {}
    for stage in job.dag.stages:
        duration_ms = float(stage.durations().sum())
        for resource, amount in stage.demand.items():
            work[resource] = work.get(resource, 0.0) + amount * duration_ms
    return work


def loads(workload: Workload, capacity: Capacity) -> dict[str, float]:
    """Return the mean load of each resource of a cluster: arriving work over capacity times arrival span.

    The span runs from time 0 to the last arrival. All loads are 0 if all jobs arrive at time 0.
    """
    _check(capacity)
    end_ms = workload.jobs[-1].arrival_ms if workload.jobs else 0
    totals = dict.fromkeys(workload.resources, 0.0)
    for job in workload.jobs:
        for resource, work in job_work(job).items():
            totals[resource] += work
    return {
        resource: totals[resource] / (capacity[resource] * end_ms) if end_ms else 0.0
        for resource in workload.resources
        if resource in capacity
    }


def scaled_to_load(workload: Workload, capacity: Capacity, load: float) -> Workload:
    """Return the same jobs with all arrival times scaled to a mean load of the bottleneck resource.

    Args:
        workload: its last job must arrive after time 0.
        capacity: of the cluster; must name a resource that the jobs request.
        load: work that arrives over the cluster's capacity until the last arrival; above 0. As arrivals are whole
            milliseconds, its relative precision is one over the span.

    Raises:
        WorkloadError: one of these does not hold.
    """
    now = max(loads(workload, capacity).values(), default=0.0)
    if not 0.0 < load < float("inf"):
        raise WorkloadError(f"load is {load}: it must be a number above 0")
    if now <= 0.0:
        raise WorkloadError("the load cannot be scaled: no job arrives after time 0, or none asks for what is limited")
    factor = now / load
    jobs = tuple(replace(job, arrival_ms=round(job.arrival_ms * factor)) for job in workload.jobs)
    return replace(workload, jobs=jobs)


def _check(capacity: Capacity) -> None:
    for name, amount in capacity.items():
        if not 0.0 < amount < float("inf"):
            raise WorkloadError(f"capacity of {name} is {amount}: it must be a number above 0")


QUANTILES: Final = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Values and how often each occurs, so that equal tasks need not be counted one by one."""

    values: npt.NDArray[np.float64]
    """Ascending, shape (n,)."""
    counts: npt.NDArray[np.int64]
    """Shape (n,)."""

    @property
    def mean(self) -> float:
        """The mean; 0 if it is empty."""
        total = int(self.counts.sum())
        return float((self.values * self.counts).sum() / total) if total else 0.0

    def quantile(self, share: float) -> float:
        """Return the least value with at least this share of all values up to it; 0 if it is empty."""
        if not len(self.values):
            return 0.0
        ends = np.cumsum(self.counts)
        at = int(np.searchsorted(ends, share * ends[-1], side="left"))
        return float(self.values[min(at, len(ends) - 1)])


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """A workload's figures."""

    jobs: int
    stages: int
    tasks: int
    first_arrival_ms: int
    last_arrival_ms: int
    work: Mapping[str, float]
    """For each resource its amount times milliseconds."""
    distributions: Mapping[str, Weighted]
    """By name: job_tasks and job_stages, of a job; stage_tasks, of a stage; task_ms, a task's duration; job_ms, a job's
    tasks one after another; gap_ms, between arrivals."""
    frameworks: Mapping[str, int]
    queues: Mapping[str, int]
    users: int
    notes: tuple[str, ...]

    def mean_held(self, resource: str) -> float:
        """Return the average usage of a resource if every task runs, until the last job arrives; or 0."""
        return self.work[resource] / self.last_arrival_ms if self.last_arrival_ms else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return all figures as JSON; quantiles by percent."""
        return {
            "jobs": self.jobs,
            "stages": self.stages,
            "tasks": self.tasks,
            "first_arrival_ms": self.first_arrival_ms,
            "last_arrival_ms": self.last_arrival_ms,
            "resources": {
                name: {"work_ms": work, "mean_held": self.mean_held(name)} for name, work in self.work.items()
            },
            "distributions": {
                name: {"mean": found.mean, **{f"p{100 * share:g}": found.quantile(share) for share in QUANTILES}}
                for name, found in self.distributions.items()
            },
            "frameworks": dict(self.frameworks),
            "queues": dict(self.queues),
            "users": self.users,
            "notes": list(self.notes),
        }


def summarise(workload: Workload) -> Summary:
    """Return the figures of a workload, in one pass over its stages."""
    jobs = workload.jobs
    stages = [stage for job in jobs for stage in job.dag.stages]
    work = dict.fromkeys(workload.resources, 0.0)
    for job in jobs:
        for resource, amount in job_work(job).items():
            work[resource] += amount
    single = [stage for stage in stages if stage.durations_ms is None]
    several = [stage.durations_ms for stage in stages if stage.durations_ms is not None]
    durations = weighted(
        np.concatenate([np.array([stage.duration_ms for stage in single], np.int64), *several]),
        np.concatenate([np.array([stage.tasks for stage in single], np.int64), *(np.ones(len(d)) for d in several)]),
    )
    arrivals = [job.arrival_ms for job in jobs]
    return Summary(
        len(jobs),
        len(stages),
        workload.tasks,
        arrivals[0] if arrivals else 0,
        arrivals[-1] if arrivals else 0,
        work,
        {
            "job_tasks": weighted(job.dag.tasks for job in jobs),
            "job_stages": weighted(len(job.dag.stages) for job in jobs),
            "stage_tasks": weighted(stage.tasks for stage in stages),
            "task_ms": durations,
            "job_ms": weighted(sum(int(stage.durations().sum()) for stage in job.dag.stages) for job in jobs),
            "gap_ms": weighted(np.diff(arrivals)),
        },
        Counter(job.framework.value for job in jobs),
        Counter(job.queue for job in jobs if job.queue),
        len({job.user for job in jobs if job.user}),
        workload.notes,
    )


def weighted(
    values: Iterable[float] | npt.NDArray[np.int64], counts: npt.NDArray[np.float64] | None = None
) -> Weighted:
    """Return values, in any order, with how often each occurs."""
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.float64)
    distinct, places = np.unique(array, return_inverse=True)
    how_often = np.bincount(places, counts, len(distinct)) if len(array) else np.zeros(0)
    return Weighted(distinct, np.rint(how_often).astype(np.int64))
