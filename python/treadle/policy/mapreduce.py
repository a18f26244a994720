"""The gate of a MapReduce engine: limits the parallelism of jobs (Omega, section 6).

A worker is a container that runs maps or reduces. Unmodified MapReduce requests all its maps at once, so the scheduler
has to limit how many run at a time. Users request a number of workers; there are usually more activities than workers.
With idle resources a job can have more workers than requested and finish sooner.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from treadle.compiled.array_types import I64, Records
from treadle.config.parts import Parameters
from treadle.constraints import WORKERS
from treadle.events import ApplicationState
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, PENDING, TOTAL, View, chain
from treadle.policy.parts import Gate
from treadle.yarn.codes import REDUCE

RELATIVE_SIZE_MAX: Final = 4
"""Maximum workers with `WorkerPolicy.RELATIVE_JOB_SIZE`, as a multiple of the requested ones."""
GLOBAL_CAP_PERCENT: Final = 60
"""Percent of the cell's CPU above which `WorkerPolicy.GLOBAL_CAP` grants no additional workers."""


class WorkerPolicy(IntEnum):
    """Which jobs may use idle resources, and how much of them (section 6.1)."""

    AS_REQUESTED = 0
    """No job."""
    MAX_PARALLELISM = 1
    """Any job that would finish sooner."""
    RELATIVE_JOB_SIZE = 2
    """Any job that would finish sooner, up to four times its requested workers."""
    GLOBAL_CAP = 3
    """Any job that would finish sooner, while less than 60 % of the cell is used."""


def finish_s(workers: int, maps: int, map_s: float, reduces: int, reduce_s: float) -> float:
    """Return the predicted duration of a job in seconds: all maps, then all reduces, with linear speed-up by workers.

    Args:
        workers: at least 1
        maps: number of maps, at least 1
        map_s: mean duration of a map, in seconds
        reduces: number of reduces, or 0
        reduce_s: mean duration of a reduce, in seconds
    """
    return map_s * max(1.0, maps / workers) + (reduce_s * max(1.0, reduces / workers) if reduces > 0 else 0.0)


def useful_workers(maps: int, reduces: int) -> int:
    """Return the smallest number of workers with the minimum duration: the size of the larger wave."""
    return max(maps, reduces)


WORKERS_MAX: Final = 1_000_000
NOT_ASKED: Final = -1
"""Priority of a hint for a stage without requests so far."""
STEPS_MAX: Final = 1024
"""Maximum number of steps that distribute spare resources."""


def workers_of(tags: Collection[str]) -> int:
    """Return the number of workers that tags request, the largest of several; 0 without a valid one."""
    counts = [tag.removeprefix(WORKERS) for tag in tags if tag.startswith(WORKERS)]
    return max((min(int(each), WORKERS_MAX) for each in counts if each.isascii() and each.isdigit()), default=0)


@dataclass(slots=True)
class MapReduceJob:
    """A job whose AM is running."""

    application: int
    base: int
    """Workers that the job has under any policy."""
    maps: int = 0
    """Remaining maps: requested and running ones."""
    reduces: int = 0
    map_s: float = 0.0
    reduce_s: float = 0.0
    running: int = 0
    """Workers in use, proposed ones included."""
    open: int = 0
    """Requested containers that are not proposed yet."""
    row: int = -1
    """Its first request row."""
    workers: int = 0
    """The worker limit."""

    def left_s(self, workers: int) -> float:
        """Return the predicted remaining duration in seconds; a job without known tasks counts as one map."""
        if self.maps == 0 and self.reduces > 0:
            return float(finish_s(max(workers, 1), self.reduces, self.reduce_s, 0, 0.0))
        return float(finish_s(max(workers, 1), max(self.maps, 1), self.map_s, self.reduces, self.reduce_s))

    def gain_s(self) -> float:
        """Return by how many seconds one more worker would shorten the job."""
        return self.left_s(self.workers) - self.left_s(self.workers + 1)


def jobs_of(cluster: Cluster, view: View, default_workers: int, default_s: float) -> list[MapReduceJob]:
    """Return the running MapReduce jobs, sorted by ID; a job whose AM waits is not included."""
    mapreduce = cluster.names.index_of("MAPREDUCE")
    apps = view.apps[: cluster.apps.size]
    runs = (apps["type"] == mapreduce) & (apps["state"] == int(ApplicationState.ACTIVE)) & (apps["awaiting_am"] == 0)
    if mapreduce < 0 or not runs.any():
        return []
    jobs = {
        app: MapReduceJob(app, workers_of(cluster.tags(app)) or default_workers)
        for app in sorted(
            np.flatnonzero(runs).tolist(), key=lambda app: (int(apps["cluster_timestamp"][app]), int(apps["id"][app]))
        )
    }
    seen = _add_tasks(cluster, view, jobs, default_s)
    _add_asks(cluster, view, jobs)
    _add_hints(cluster, view, jobs, seen)
    for job in jobs.values():
        # The RM's count, AM included, if larger.
        job.running = max(job.running, int(apps[job.application]["containers"]) - 1)
        job.running += int(apps[job.application]["assumed_count"])
    return list(jobs.values())


def _add_tasks(
    cluster: Cluster, view: View, jobs: dict[int, MapReduceJob], default_s: float
) -> Collection[tuple[int, bool]]:
    """Add running tasks, and mean durations of ended ones; return the (job, is_reduce) pairs with ended tasks."""
    groups = view.groups[: cluster.groups.size]
    ended: dict[tuple[int, bool], tuple[int, int]] = {}
    for group in groups[_of_jobs(groups, jobs) & (groups["priority"] > 0)]:
        job = jobs[int(group["application"])]
        reduces, running = int(group["priority"]) == REDUCE, int(group["running"])
        job.running += running
        if reduces:
            job.reduces += running
        else:
            job.maps += running
        count, total_ms = ended.get((job.application, reduces), (0, 0))
        ended[job.application, reduces] = count + int(group["ended"]), total_ms + int(group["ended_ms"])
    for job in jobs.values():
        means = []
        for reduces in (False, True):
            count, total_ms = ended.get((job.application, reduces), (0, 0))
            means.append(total_ms / count / 1000 if count else default_s)
        job.map_s, job.reduce_s = means
    return {which for which, (count, _) in ended.items() if count}


def _add_asks(cluster: Cluster, view: View, jobs: dict[int, MapReduceJob]) -> None:
    rows = view.rows[: cluster.requests.size]
    for at in np.flatnonzero(_of_jobs(rows, jobs) & (rows["count"] > 0)).tolist():
        row = rows[at]
        job = jobs[int(row["application"])]
        if int(row["priority"]) == REDUCE:
            job.reduces += int(row["count"])
        else:
            job.maps += int(row["count"])
        job.open += max(int(row["count"]) - int(row["assumed"]), 0)
        if job.row < 0 or int(row["priority"]) < int(rows[job.row]["priority"]):
            job.row = at


def _add_hints(cluster: Cluster, view: View, jobs: dict[int, MapReduceJob], seen: Collection[tuple[int, bool]]) -> None:
    """Apply hints: numbers of remaining tasks, and durations where no task has ended yet.

    A hinted duration excludes the container's wait for the AM and its start. Hints without a priority belong to stages
    without requests so far, which are reduces: maps come first.
    """
    hints = view.hints[: cluster.hints.size]
    for hint in hints[_of_jobs(hints, jobs)]:
        job = jobs[int(hint["application"])]
        duration_s, tasks = int(hint["duration_ms"]) / 1000, int(hint["tasks"])
        reduces = int(hint["priority"]) in (REDUCE, NOT_ASKED)
        counts = duration_s > 0 and (job.application, reduces) not in seen
        if reduces:
            job.reduces = max(job.reduces, tasks)
            job.reduce_s = duration_s if counts else job.reduce_s
        else:
            job.maps = max(job.maps, tasks)
            job.map_s = duration_s if counts else job.map_s


def _of_jobs(records: Records, jobs: Collection[int]) -> NDArray[np.bool_]:
    """Return which records belong to these applications; -1 is none."""
    return np.isin(records["application"], np.fromiter(jobs, np.int32, len(jobs)))


class Room:
    """Free resources of the default partition, and the demand for them."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        nodes = view.nodes[: cluster.nodes.size]
        here = (nodes["state"] == 1) & (nodes["partition"] == 0)
        amounts = view.node_amounts[: cluster.nodes.size][here]
        self.counted = np.asarray(view.counted, bool)
        self.total: I64 = amounts[:, TOTAL].sum(axis=0)
        self.free: I64 = (amounts[:, FREE] - amounts[:, ASSUMED]).sum(axis=0)

    def take(self, capability: I64, count: int) -> None:
        """Subtract the resources of ``count`` containers, down to 0."""
        self.free = np.maximum(self.free - capability * count, 0)

    def fits(self, capability: I64, count: int, percent: int = 100) -> bool:
        """Return whether this many fit, with at most ``percent`` of the partition in use afterwards."""
        left = self.free - capability * count
        least = self.total * (100 - percent) // 100
        return bool((left >= least)[self.counted].all())


def give_workers(cluster: Cluster, view: View, jobs: Sequence[MapReduceJob], policy: WorkerPolicy) -> None:
    """Set the worker limit of each job.

    Each has its base width. Resources beyond that and beyond all other requests go, one worker at a time, to the job
    that finishes soonest with it, as far as the policy allows; a job keeps its workers until they end.
    """
    room = Room(cluster, view)
    capability = view.capability
    for job in jobs:
        job.workers = min(job.base, useful_workers(job.maps, job.reduces))
        if job.row >= 0:
            room.take(capability[job.row], min(max(job.workers - job.running, 0), job.open))
        job.workers = max(job.workers, job.running)
    if policy is WorkerPolicy.AS_REQUESTED:
        return
    _take_others(cluster, view, jobs, room)
    asking = [job for job in jobs if job.row >= 0 and view.rows[job.row]["partition"] == 0]
    _give_spare(room, capability, asking, policy)


def _take_others(cluster: Cluster, view: View, jobs: Sequence[MapReduceJob], room: Room) -> None:
    """Subtract other requests: the queues' pending resources without these jobs, or what this engine sees."""
    rows = view.rows[: cluster.requests.size]
    count = np.maximum(rows["count"].astype(np.int64) - rows["assumed"], 0)
    count[rows["application"] < 0] = 0
    of_mine = _of_jobs(rows, [job.application for job in jobs])
    capability = view.capability[: cluster.requests.size]
    others = (capability * np.where(of_mine, 0, count)[:, None]).sum(axis=0)
    own = (capability * np.where(of_mine, count, 0)[:, None]).sum(axis=0)
    queues = cluster.queues.at[: cluster.queues.size]
    roots = np.flatnonzero((queues["exists"] == 1) & (queues["parent"] < 0))
    if len(roots):
        pending = view.limit_amounts[roots[0], 0, PENDING]
        others = np.maximum(others, pending - own)
    room.take(others, 1)


def _give_spare(room: Room, capability: I64, jobs: Sequence[MapReduceJob], policy: WorkerPolicy) -> None:
    percent = GLOBAL_CAP_PERCENT if policy is WorkerPolicy.GLOBAL_CAP else 100

    def most(job: MapReduceJob) -> int:
        allowed = min(useful_workers(job.maps, job.reduces), job.running + job.open)
        return min(allowed, RELATIVE_SIZE_MAX * job.base) if policy is WorkerPolicy.RELATIVE_JOB_SIZE else allowed

    bounds = {job.application: most(job) for job in jobs}
    step = max(1, sum(max(bounds[job.application] - job.workers, 0) for job in jobs) // STEPS_MAX)
    heap = [(-job.gain_s(), at) for at, job in enumerate(jobs) if job.workers < bounds[job.application]]
    heapq.heapify(heap)
    while heap:
        _, at = heapq.heappop(heap)
        job = jobs[at]
        count = min(step, bounds[job.application] - job.workers)
        # A step that does not fit as a whole may fit in part.
        while count > 0 and not room.fits(capability[job.row], count, percent):
            count //= 2
        if count == 0:
            continue
        room.take(capability[job.row], count)
        job.workers += count
        if job.workers < bounds[job.application]:
            heapq.heappush(heap, (-job.gain_s(), at))


class ParallelismParameters(Parameters):
    """Parameters of the gate `parallelism`."""

    mode: Literal["as_requested", "max_parallelism", "relative_job_size", "global_cap"] = Field(
        default="max_parallelism",
        description="Which jobs may use idle resources. as_requested: none. max_parallelism: any job that would end "
        "sooner. relative_job_size: the same, up to four times its base width. global_cap: the same, while "
        "less than 60 % of the cluster is used.",
    )
    workers: int = Field(
        default=10,
        ge=1,
        le=WORKERS_MAX,
        description="The base width of a job without the tag treadle:workers=N: this many of its tasks run at a time "
        "whatever the mode says.",
    )
    default_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run of which nothing is known."
    )


class ParallelismGate(Gate, kind="parallelism", parameters=ParallelismParameters):
    """As many tasks of a MapReduce job at a time as the mode says; all else is served at once."""

    def __init__(self, parameters: ParallelismParameters) -> None:
        self._parameters = parameters
        self.jobs: list[MapReduceJob] = []
        """The jobs and their limits from the latest call of the gate."""

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Hold back requests beyond each job's worker limit."""
        chosen = self._parameters
        rows["may"] = 1
        self.jobs = jobs_of(cluster, view, chosen.workers, chosen.default_ms / 1000)
        give_workers(cluster, view, self.jobs, WorkerPolicy[chosen.mode.upper()])
        left = {job.application: max(job.workers - job.running, 0) for job in self.jobs}
        held = False
        asks = [at for app in left for at in chain(view.rows, view.apps[app]["first_row"])]
        # All maps, then reduces, which wait for the maps and would hold their workers.
        for at in sorted(asks, key=lambda at: int(view.rows[at]["priority"]) == REDUCE):
            app = int(view.rows[at]["application"])
            wanted = max(int(view.rows[at]["count"]) - int(view.rows[at]["assumed"]), 0)
            quota = min(wanted, left[app])
            left[app] -= quota
            rows[at]["quota"] = quota
            rows[at]["may"] = quota > 0
            held |= quota < wanted
        self.waits_for = "workers of MapReduce jobs" if held else ""
