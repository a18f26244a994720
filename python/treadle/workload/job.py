"""A job as the simulator and the reproductions see it, its features, and how much work jobs bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from treadle.dag.dag import Dag
from treadle.workload.traces.reading import WorkloadError


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """What is known of a job when it comes: the six features of 3Sigma (SLearn, NSDI 2022, section 4.2)."""

    application: str
    """What runs (in Google's trace the logical job name)."""
    name: str
    user: str
    submit_ms: int
    """As in the trace, not as scaled: day and hour are features."""
    cpu: float
    """Requested by a task, in whatever unit the trace has; as ``memory``."""
    memory: float
    width: int
    """How many tasks it has, whether or not all of them were seen to finish."""


@dataclass(frozen=True, slots=True, eq=False)
class JobRecord:
    """A job that has run."""

    id: str
    features: JobFeatures
    durations_ms: npt.NDArray[np.int64] = field(repr=False)
    """Of its tasks, shape (tasks,), at least one."""
    end_ms: int | None = None
    """When it ended, on the clock of ``features.submit_ms``; None if nobody knows."""

    @property
    def tasks(self) -> int:
        """How many tasks it has."""
        return len(self.durations_ms)

    @property
    def mean_ms(self) -> float:
        """The mean duration of its tasks."""
        return float(self.durations_ms.mean())


class Framework(StrEnum):
    """Which application master's behaviour a job shows to the ResourceManager (docs/simulated-cluster.md)."""

    MAPREDUCE = "mapreduce"
    TEZ = "tez"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One submission. What is empty is not known."""

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
    """YARN's: of a leaf's applications the one with the highest comes first, where the order goes by it."""
    requires: dict[int, str] = field(default_factory=dict)
    """For a stage id what its nodes must be (`treadle.constraints.expression`)."""
    prefers: dict[int, str] = field(default_factory=dict)
    """For a stage id what its nodes should be, the most important condition first."""


def dealt(jobs: Iterable[Job], seed: int, begun: Mapping[tuple[str, int], int] | None = None) -> list[Job]:
    """Return jobs with the times of each stage's tasks dealt out anew, by the seed.

    Args:
        jobs: the jobs
        seed: of the chance
        begun: by job and stage: how many of its first tasks keep their times
    """
    found = []
    for at, job in enumerate(jobs):
        chance, stages = np.random.default_rng([seed, at]), []
        for stage in job.dag.stages:
            times, first = stage.durations(), (begun or {}).get((job.id, stage.id), 0)
            stages.append(
                replace(stage, durations_ms=np.concatenate([times[:first], chance.permutation(times[first:])]))
            )
        found.append(replace(job, dag=Dag(job.dag.name, tuple(stages))))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs in order of arrival, and the names of the resources that their stages may ask for."""

    resources: tuple[str, ...]
    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()
    """What a reader left out of the file or had to assume, a sentence each."""

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
        """How many tasks all jobs have together."""
        return sum(job.dag.tasks for job in self.jobs)

    @property
    def span_ms(self) -> int:
        """From the first arrival to the last."""
        return self.jobs[-1].arrival_ms - self.jobs[0].arrival_ms if self.jobs else 0


def arranged(jobs: Iterable[Job], notes: Iterable[str] = ()) -> Workload:
    """Return jobs given in any order as a workload: by arrival, else as given; resources by name."""
    ordered = tuple(sorted(jobs, key=lambda job: job.arrival_ms))
    names = {name for job in ordered for stage in job.dag.stages for name in stage.demand}
    return Workload(tuple(sorted(names)), ordered, tuple(notes))


Capacity = Mapping[str, float]
"""What a cluster has of each resource; a resource that is missing is not limited."""

_STEPS_MAX = 30
_PRECISION = 0.001


def job_work(job: Job) -> dict[str, float]:
    """Return what a job holds of each resource summed over time, in the resource's units times milliseconds."""
    work: dict[str, float] = {}
    for stage in job.dag.stages:
        duration_ms = float(stage.durations().sum())
        for resource, amount in stage.demand.items():
            work[resource] = work.get(resource, 0.0) + amount * duration_ms
    return work


def cluster_ms(job: Job, capacity: Capacity) -> float:
    """Return for how many milliseconds a job alone would keep the whole cluster busy in its dominant resource."""
    return max((work / capacity[name] for name, work in job_work(job).items() if name in capacity), default=0.0)


def loads(workload: Workload, capacity: Capacity) -> dict[str, float]:
    """Return the mean load of each resource of a cluster: work that arrives over capacity times arrival span.

    The span runs from time 0 to the last arrival. All is 0 if all jobs arrive at time 0, as then there is no rate.
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


def window_loads(
    workload: Workload, capacity: Capacity, window_ms: int = 1_000_000, step_ms: int = 100_000
) -> npt.NDArray[np.float64]:
    """Return the load of each sliding window, as in table 5 of SLearn (NSDI 2022), shape (windows,).

    A window's load is the work of the jobs that arrive in it, in each job's dominant resource, over the work that the
    cluster can do in ``window_ms``. Windows start at the first arrival and every ``step_ms`` after it, up to the last
    that ends by the last arrival; a workload shorter than a window has one.
    """
    if window_ms < 1 or step_ms < 1:
        raise WorkloadError("window_ms and step_ms must be at least 1")
    _check(capacity)
    if not workload.jobs:
        return np.zeros(0)
    arrivals = np.array([job.arrival_ms for job in workload.jobs], np.int64)
    total = np.concatenate([[0.0], np.cumsum([cluster_ms(job, capacity) for job in workload.jobs])])
    last_start = max(arrivals[0], arrivals[-1] - window_ms)
    starts = np.arange(arrivals[0], last_start + 1, step_ms)
    first = np.searchsorted(arrivals, starts)
    end = np.searchsorted(arrivals, starts + window_ms)
    return np.asarray((total[end] - total[first]) / window_ms)


def scaled_to_load(workload: Workload, capacity: Capacity, load: float) -> Workload:
    """Return the same jobs with all arrival times multiplied so that the most loaded resource has a mean load.

    Args:
        workload: its last job must arrive after time 0.
        capacity: of the cluster; must name a resource that the jobs ask for.
        load: work that arrives over what the cluster can do until the last arrival; above 0. As arrivals are whole
            milliseconds, it is met to one part in the span.

    Raises:
        WorkloadError: one of these does not hold.
    """
    return _stretched(workload, _factor(max(loads(workload, capacity).values(), default=0.0), load))


def scaled_to_window_load(workload: Workload, capacity: Capacity, load: float) -> Workload:
    """Return the same jobs with all arrival times multiplied so that the mean of `window_loads` is ``load``.

    It is met to one in a thousand, or as nearly as 30 steps can: as jobs pass from window to window the mean
    moves in jumps.

    Raises:
        WorkloadError: as `scaled_to_load`.
    """
    factor = _factor(max(loads(workload, capacity).values(), default=0.0), load)
    best = (float("inf"), workload)
    for _ in range(_STEPS_MAX):
        scaled = _stretched(workload, factor)
        mean = float(window_loads(scaled, capacity).mean())
        best = min(best, (abs(mean / load - 1.0), scaled), key=lambda found: found[0])
        if best[0] < _PRECISION or mean <= 0.0:
            break
        factor *= mean / load
    return best[1]


def _factor(now: float, load: float) -> float:
    if not 0.0 < load < float("inf"):
        raise WorkloadError(f"load is {load}: it must be a number above 0")
    if now <= 0.0:
        raise WorkloadError("the load cannot be scaled: no job arrives after time 0, or none asks for what is limited")
    return now / load


def _stretched(workload: Workload, factor: float) -> Workload:
    jobs = tuple(replace(job, arrival_ms=round(job.arrival_ms * factor)) for job in workload.jobs)
    return Workload(workload.resources, jobs, workload.notes)


def _check(capacity: Capacity) -> None:
    for name, amount in capacity.items():
        if not 0.0 < amount < float("inf"):
            raise WorkloadError(f"capacity of {name} is {amount}: it must be a number above 0")
