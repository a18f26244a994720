"""How much work a workload brings, and the same workload with its arrivals stretched to a wanted load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from treadle.workload.job import Job, Workload
from treadle.workload.traces.errors import WorkloadError

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

    It is met to one in a thousand, or as nearly as 30 steps come to it: as jobs pass from window to window the mean
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
