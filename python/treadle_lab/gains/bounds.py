"""Truths that no scheduler has: the order in which fair sharing ends jobs, and a bound on mean completion times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from treadle.simulator.records import path_ms
from treadle.workload.job import Job, Workload, job_work, loads


def pooled_ms(workload: Workload, capacity: Mapping[str, float]) -> list[float]:
    """Return each job's work on the busiest resource: how long it alone would keep all of that busy, in ms."""
    busy = loads(workload, capacity)
    name = max(busy, key=lambda resource: busy[resource])
    return [job_work(job).get(name, 0.0) / capacity[name] for job in workload.jobs]


def bound_ms(workload: Workload, capacity: Mapping[str, float]) -> float:
    """Return what no mean completion time is below: preemptive fluid SRPT of the pooled work, or the critical paths."""
    arrivals = [float(job.arrival_ms) for job in workload.jobs]
    pooled = srpt_mean(arrivals, pooled_ms(workload, capacity))
    return max(pooled, sum(path_ms(job.dag) for job in workload.jobs) / len(workload.jobs))


def srpt_mean(arrivals: Sequence[float], work: Sequence[float]) -> float:
    """Return the mean completion time on one machine of speed 1, the least remaining work first, preemptively.

    Args:
        arrivals: ascending
        work: of each job
    """
    waiting: list[tuple[float, float]] = []
    now, total = 0.0, 0.0
    for arrival, size in [*zip(arrivals, work, strict=True), (float("inf"), 0.0)]:
        while waiting and now < arrival:
            left, came = heappop(waiting)
            if now + left > arrival:
                heappush(waiting, (left - (arrival - now), came))
                now = arrival
            else:
                now += left
                total += now - came
        if size or arrival < float("inf"):
            now = max(now, arrival)
            heappush(waiting, (size, arrival))
    return total / len(arrivals)


def fair_finish(workload: Workload, capacity: Mapping[str, float]) -> Workload:
    """Return the jobs with priorities in the order in which fair sharing would end them, first the highest.

    Each leaf is a system of its own, in which its jobs share all of the pooled cluster equally.
    """
    work = pooled_ms(workload, capacity)
    tags = [0.0] * len(work)
    for queue in {job.queue for job in workload.jobs}:
        own = [at for at, job in enumerate(workload.jobs) if job.queue == queue]
        for at, tag in zip(
            own, finish_tags([float(workload.jobs[at].arrival_ms) for at in own], [work[at] for at in own]), strict=True
        ):
            tags[at] = tag
    ranks = {at: rank for rank, at in enumerate(sorted(range(len(work)), key=lambda at: -tags[at]))}
    return replace(workload, jobs=tuple(_ranked(job, ranks[at]) for at, job in enumerate(workload.jobs)))


def finish_tags(arrivals: Sequence[float], work: Sequence[float]) -> list[float]:
    """Return virtual times at which jobs end under processor sharing: they end in the order of these.

    Args:
        arrivals: ascending
        work: of each job
    """
    present: list[float] = []
    now, virtual, tags = 0.0, 0.0, []
    for arrival, size in zip(arrivals, work, strict=True):
        while present and now + (present[0] - virtual) * len(present) <= arrival:
            now += (present[0] - virtual) * len(present)
            virtual = heappop(present)
        if present:
            virtual += (arrival - now) / len(present)
        now = arrival
        tags.append(virtual + size)
        heappush(present, tags[-1])
    return tags


def _ranked(job: Job, rank: int) -> Job:
    return replace(job, priority=rank)
