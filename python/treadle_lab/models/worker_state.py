"""Traces of jobs, and the state of workers that run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64, U8
from treadle.compiled.functions import tables
from treadle.workload.clusters import google_jobs
from treadle_lab.models.kernels import Queued, inner, random_below


class EventKind(IntEnum):
    """Kinds of events."""

    FREE = 0
    """A task of a worker has ended, or there is none for it; the subject is the worker."""
    DELIVER = 1
    """Probes arrive; the subject is the batch."""
    BEAT = 2
    """Phoenix takes stock."""


class Placement(IntEnum):
    """The component that places a job's tasks."""

    PROBES = 0
    """Random workers are probed; the first that have room get the tasks."""
    LEAST_WAITING = 1
    """One scheduler that knows all queues."""
    ONE_QUEUE = 2
    """One scheduler that binds a task when a worker is free."""


class Order(IntEnum):
    """Which probe of its queue a worker takes."""

    FIFO = 0
    EAGLE = 1
    """Least remaining work, sticky, long tasks at the head first."""
    PHOENIX = 2
    """The same as Eagle, and by demand over supply where the wait is long."""
    NONE = 3
    """Workers have no queues."""


class Mode(IntEnum):
    """Places of what holds for a whole run, in `Workers.mode`."""

    LONG = 0
    """`Placement` of long jobs."""
    SHORT = 1
    """`Placement` of short jobs."""
    ORDER = 2
    """`Order` of queues."""
    STEAL = 3
    """1: idle workers ask others for short probes."""
    AVOID = 4
    """1: probes are refused where long work runs or waits."""
    FIRST_LONG = 5
    """The first worker of the long partition, which goes on to the last."""
    BY_CRV = 6
    """1: Phoenix' order of queues."""
    GATE = 7
    """1: that order holds only where a worker's wait is long."""
    SCARCITY = 8
    """1: who can choose keeps away from workers that others need."""
    NEGOTIATION = 9
    """1: soft constraints can be given up."""


class Total(IntEnum):
    """Places of counters in `Workers.totals`."""

    EVENTS = Queued.EVENTS
    ORDER = Queued.ORDER
    FREE_PROBE = 2
    """The first probe that is not used."""
    RANDOM = 3
    BATCHES = 4
    TARGETS = 5
    FREE_MAPS = 6
    """Number of unused maps of long work."""
    UNFINISHED = 7
    BEATS = 8
    OPEN = 9
    """Jobs that wait in the one queue."""


class Real(IntEnum):
    """Places of numbers that are no counters, in `Workers.reals`."""

    NOW = 0
    BEAT = 1
    """Between two beats; 0 without any."""
    RELAXED_SLOWDOWN = 2
    """By how much longer a task runs where a soft constraint of it is not met."""
    SHORT_MEAN = 3
    """Mean duration of a short task."""
    NEWEST = 4
    """When the newest map was made that a job's probes have met."""


@tables
class Workers(NamedTuple):
    """Everything of a run. J jobs, T tasks, G groups of eligible workers, W workers, P probes, L maps of long work.

    K batches of probes, E events, N levels of need. Times in seconds from the start of the trace.
    """

    mode: I64
    totals: I64
    reals: F64

    arrival_s: F64  # (J), in order
    tasks: I32
    first_task: I64  # (J + 1)
    probes: I32  # or tasks, where they are placed
    estimate_s: F64  # of each task
    is_long: U8
    group: I32  # of workers that meet all constraints
    hard_group: I32  # of those that meet the hard ones
    sent_to: I32  # the group that is probed: one of the two
    started: Annotated[I32, "J"]  # tasks that have
    ended_s: Annotated[F64, "J"]  # the last task's end
    relaxed: Annotated[I32, "J"]  # tasks that run where a soft constraint is not met
    reordered: Annotated[I32, "J"]  # tasks that were taken instead of the one that SRPT would have taken

    duration_s: F64  # (T)
    start_s: Annotated[F64, "T"]

    member_start: I64  # (G + 1): into members
    members: I32  # workers by index
    short_only: I64  # (G): how many of its members are in front of the long partition
    may_run: U8  # (G, W)
    crv: Annotated[F64, "G"]  # demand over supply
    waiting: Annotated[I32, "G"]  # tasks of short jobs that have not started
    asked_s: Annotated[F64, "G"]  # work of jobs that have come, decayed

    head: I32  # (W): the first probe, or -1
    tail: I32
    queued: Annotated[I32, "W"]
    is_busy: Annotated[U8, "W"]
    runs_long: Annotated[U8, "W"]
    queued_long: Annotated[I32, "W"]
    long_since_s: F64  # when the long task that runs was taken, or -1
    long_estimate_s: Annotated[F64, "W"]
    work_s: Annotated[F64, "W"]  # that was placed by least waiting and has not ended
    running_s: Annotated[F64, "W"]  # the part of it that runs
    met: I32  # the map of long work that it got with a long task, or -1
    met_s: F64
    need: Annotated[F64, "W"]  # work a second, decayed, by jobs that cannot run everywhere
    by_need: I32  # (W): workers, those first that are needed least
    needed: Annotated[I64, "N"]  # how many workers have each level of need
    rate: Annotated[F64, "W"]  # tasks started, decayed; the sum of their durations and of their squares
    sum_s: Annotated[F64, "W"]
    square_s: Annotated[F64, "W"]
    wait_s: Annotated[F64, "W"]  # expected, Pollaczek-Khinchine

    long_maps: Annotated[U8, "L", "B"]  # a bit a worker, 1 where long work is
    map_uses: Annotated[I32, "L"]
    free_maps: I32  # (L)

    probe_job: Annotated[I32, "P"]
    probe_next: I32
    probe_before: Annotated[I32, "P"]
    passed_s: Annotated[F64, "P"]  # by how much others that came later have gone first

    batch_job: Annotated[I32, "K"]
    batch_start: Annotated[I64, "K"]
    batch_count: Annotated[I32, "K"]
    targets: Annotated[I32, "P"]

    event_s: Annotated[F64, "E"]
    event_order: Annotated[I64, "E"]
    event_kind: Annotated[I32, "E"]
    event_subject: Annotated[I32, "E"]

    open_jobs: Annotated[I32, "J"]  # those that wait in the one queue

    best_s: Annotated[F64, "W"]  # a heap of waits and workers
    best: Annotated[I32, "W"]


@inner
def below(run: Workers, bound: int) -> int:
    """Return a random number from 0 to below a bound."""
    return random_below(run.totals, Total.RANDOM, bound)


@inner
def size(run: Workers, group: int) -> int:
    """Return how many workers a group has."""
    return run.member_start[group + 1] - run.member_start[group]


@inner
def long_part(run: Workers, group: int) -> int:
    """Return the start of a group's members in the long partition; all members if there is none."""
    short_only = run.short_only[group]
    return run.member_start[group] + (0 if short_only == size(run, group) else short_only)


@inner
def draw_of_first(run: Workers, group: int, count: int) -> int:
    """Return a random worker of some at the front of a group."""
    return run.members[run.member_start[group] + below(run, count)]


@inner
def draw(run: Workers, group: int) -> int:
    """Return a random worker of a group."""
    return draw_of_first(run, group, size(run, group))


@inner
def draw_long_part(run: Workers, group: int) -> int:
    """Return a random worker of a group in the long partition, or of all of the group if it has none there."""
    start = long_part(run, group)
    return run.members[start + below(run, run.member_start[group + 1] - start)]


@inner
def short_part(run: Workers, group: int) -> int:
    """Return how many workers a group has in front of the long partition; all of them if it has none there."""
    short_only = run.short_only[group]
    return short_only if short_only > 0 else size(run, group)


@inner
def is_marked(run: Workers, at: int, worker: int) -> bool:
    """Whether a map says that a worker has long work."""
    return (run.long_maps[at, worker >> 3] >> (worker & 7)) & 1 != 0


@inner
def draw_unmarked(run: Workers, group: int, at: int) -> int:
    """Return a random worker of a group without long work according to a map; -1 if there is none.

    Those in front of the long partition never have any, but a group without one in it has long work there too.
    """
    for _ in range(64):
        worker = draw(run, group)
        if not is_marked(run, at, worker):
            return worker
    start, end = run.member_start[group], run.member_start[group + 1]
    found = 0
    for place in range(start, end):
        found += 0 if is_marked(run, at, run.members[place]) else 1
    if found == 0:
        return -1
    wanted = below(run, found)
    for place in range(start, end):
        if not is_marked(run, at, run.members[place]):
            if wanted == 0:
                return run.members[place]
            wanted -= 1
    return -1


CAP: Final = 5.0
"""A probe can be overtaken by tasks of up to this multiple of its estimate in total."""


@inner
def append(run: Workers, worker: int, job: int) -> None:
    """Append a new probe of a job to a worker's queue."""
    probe = run.totals[Total.FREE_PROBE]
    run.totals[Total.FREE_PROBE] = run.probe_next[probe]
    run.probe_job[probe] = job
    run.passed_s[probe] = 0.0
    run.probe_next[probe] = -1
    last = run.tail[worker]
    run.probe_before[probe] = last
    if last < 0:
        run.head[worker] = probe
    else:
        run.probe_next[last] = probe
    run.tail[worker] = probe
    run.queued[worker] += 1


@inner
def remove(run: Workers, worker: int, probe: int) -> None:
    """Take a probe out of a worker's queue."""
    before, after = run.probe_before[probe], run.probe_next[probe]
    if before < 0:
        run.head[worker] = after
    else:
        run.probe_next[before] = after
    if after < 0:
        run.tail[worker] = before
    else:
        run.probe_before[after] = before
    run.queued[worker] -= 1
    run.probe_next[probe] = run.totals[Total.FREE_PROBE]
    run.totals[Total.FREE_PROBE] = probe


@inner
def remaining_s(run: Workers, job: int) -> float:
    """Return a job's estimated work that has not started."""
    return run.estimate_s[job] * (run.tasks[job] - run.started[job])


GAP_S: Final = 0.01
"""Between jobs that are submitted at the same instant."""
GOOGLE_GAP_S: Final = 0.02
"""At least between two jobs of the extract of Google's trace."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in order of arrival.

    Attributes:
        name: of the trace.
        arrival_s: from 0, each later than the one before.
        tasks: of each job.
        duration_s: whole seconds, of the first job's tasks, then the second's, ...
        mean_s: of a job's tasks, cut to whole seconds; what schedulers believe each task to last.
        cutoff_s: a job with a higher mean is long.
        long_percent: of the workers, which long jobs may use.
    """

    name: str
    arrival_s: F64
    tasks: I32
    duration_s: F64
    mean_s: F64
    cutoff_s: float = 1129.532
    long_percent: float = 83.0

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self.arrival_s)

    @property
    def first_task(self) -> I64:
        """Where each job's durations begin, and the end of the last: shape (jobs + 1,)."""
        return np.concatenate([[0], np.cumsum(self.tasks, dtype=np.int64)]).astype(np.int64)

    @property
    def is_long(self) -> Flags:
        """Whether each job is long."""
        return self.mean_s > self.cutoff_s

    def faster(self, times: float) -> Trace:
        """Return the jobs with arrival times divided by a number."""
        return replace(self, arrival_s=apart(self.arrival_s / times))

    def offered_load(self, slots: int) -> float:
        """Return the work that arrives, over what this many slots can do from the first arrival to the last."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        return float(self.duration_s.sum()) / (slots * span_s) if span_s > 0 else float("inf")

    def every(self, step: int) -> Trace:
        """Return every ``step``-th job."""
        first = self.first_task
        jobs = range(0, len(self), step)
        return replace(
            self,
            arrival_s=self.arrival_s[::step].copy(),
            tasks=self.tasks[::step].copy(),
            duration_s=np.concatenate([self.duration_s[first[job] : first[job + 1]] for job in jobs]),
            mean_s=self.mean_s[::step].copy(),
        )


def apart(arrival_s: F64, least_s: float = 0.0) -> F64:
    """Return arrivals that rise: jobs of the same instant, or closer than this many seconds, are pushed apart."""
    result = np.array(arrival_s, np.float64)
    last = -np.inf
    for at, value in enumerate(result):
        last = value if value > last and value >= last + least_s else last + (least_s or GAP_S)
        result[at] = last
    return result


def trace_of(name: str, arrival_s: Sequence[float], durations: Sequence[npt.ArrayLike]) -> Trace:
    """Return a trace of jobs in any order, whose durations are in seconds.

    Args:
        name: of the trace.
        arrival_s: of each job.
        durations: of each job's tasks.
    """
    order = np.argsort(np.asarray(arrival_s), kind="stable")
    lists = [np.asarray(durations[at], np.float64) for at in order]
    mean = [float(one.mean()) for one in lists]
    return Trace(
        name,
        apart(np.asarray(arrival_s, np.float64)[order]),
        np.array([len(one) for one in lists], np.int32),
        np.floor(np.concatenate(lists)),
        np.floor(np.array(mean)),
    )


def google_trace(folder: Path) -> Trace:
    """Read Google's extract: its folder, or its tasks table.

    Raises:
        WorkloadError: an error, with file and line.
    """
    jobs = list(google_jobs(folder))
    start_ms = min(job.submit_ms for job in jobs)
    arrival_s = [(job.submit_ms - start_ms) / 1000 for job in jobs]
    trace = trace_of("google", arrival_s, [job.durations_ms / 1000 for job in jobs])
    return replace(trace, arrival_s=apart(np.sort(np.array(arrival_s)), GOOGLE_GAP_S))
