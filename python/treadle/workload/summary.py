"""Figures of a workload: counts, work by resource, and how widths, durations and gaps are distributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.workload.job import Workload, job_work

QUANTILES: Final = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Values and how often each occurs, so that tasks that are alike need not be counted one by one."""

    values: npt.NDArray[np.float64]
    """Ascending, shape (n,)."""
    counts: npt.NDArray[np.int64]
    """Shape (n,)."""

    @property
    def mean(self) -> float:
        """The mean; 0 if there is nothing."""
        total = int(self.counts.sum())
        return float((self.values * self.counts).sum() / total) if total else 0.0

    def quantile(self, share: float) -> float:
        """Return the least value that at least this share of all is not above; 0 if there is nothing."""
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
        """Return how much of a resource is held on average if every task runs, until the last job arrives; or 0."""
        return self.work[resource] / self.last_arrival_ms if self.last_arrival_ms else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return all figures as JSON has them; quantiles by percent."""
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
                name: {
                    "mean": found.mean,
                    **{f"p{100 * share:g}": found.quantile(share) for share in QUANTILES},
                }
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
    found, places = np.unique(array, return_inverse=True)
    how_often = np.bincount(places, counts, len(found)) if len(array) else np.zeros(0)
    return Weighted(found, np.rint(how_often).astype(np.int64))
