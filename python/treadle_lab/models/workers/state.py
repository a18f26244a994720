"""The tables of a run: jobs and tasks, workers with their queues of probes, groups of eligible workers, and events.

A probe stands in a worker's queue for a job, not for a task: the worker asks the job's scheduler for one when the probe
is taken (late binding). Where all is placed by least waiting a job has as many probes as tasks.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from treadle.compiled.array_types import F64, I32, I64, U8
from treadle.compiled.structs import tables
from treadle.simulator.event_queue import Queued


class EventKind(IntEnum):
    """What happens at an instant."""

    FREE = 0
    """A task of a worker has ended, or the worker learned that there is none; the subject is the worker."""
    DELIVER = 1
    """Probes arrive; the subject is the batch."""
    BEAT = 2
    """Views of the cluster are made anew."""


class Placement(IntEnum):
    """Who decides where a job's tasks run."""

    PROBES = 0
    """Random workers are probed; the first that have room get the tasks."""
    LEAST_WAITING = 1
    """One scheduler that knows all queues."""
    LEAST_WAITING_SEEN = 2
    """A scheduler with a view of the queues that is up to a beat old."""
    ONE_QUEUE = 3
    """One scheduler that binds a task when a worker is free."""


class Order(IntEnum):
    """Which probe of its queue a worker takes."""

    FIFO = 0
    EAGLE = 1
    """Least remaining work, sticky, long tasks at the head first."""
    SRPT = 2
    """Least remaining work."""
    PHOENIX = 3
    """As Eagle, and by demand over supply where the wait is long."""
    NONE = 4
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
    PROBES_MIN = 5
    """The fewest probes of a job."""
    FIRST_LONG = 6
    """The first worker of the long partition, which goes on to the last."""
    BY_CRV = 7
    """1: Phoenix' order of queues."""
    GATE = 8
    """1: that order holds only where a worker's wait is long."""
    SCARCITY = 9
    """1: who can choose keeps away from workers that others need."""
    NEGOTIATION = 10
    """1: soft constraints can be given up."""
    CONSTRAINED_RATIO = 11
    """Probes for each task of a job that cannot run everywhere."""


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
    """How many maps of long work are not used."""
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
    GATE = 3
    """The wait from which on it is long, in means of a short task."""
    SHORT_MEAN = 4
    """Mean duration of a short task."""
    NEWEST = 5
    """When the newest map was made that a job's probes have met."""
    SPARING = 6
    """How much work of others that a long task displaces counts against waiting."""


@tables
class Workers(NamedTuple):
    """Everything of a run. J jobs, T tasks, G groups of eligible workers, W workers, P probes, L maps of long work.

    Times in seconds from the start of the trace.
    """

    mode: I64
    totals: I64
    reals: F64

    arrival_s: F64  # (J), in order
    tasks: I32
    first_task: I64  # (J + 1)
    estimate_s: F64  # of each task
    is_long: U8
    group: I32  # of workers that meet all constraints
    hard_group: I32  # of those that meet the hard ones
    sent_to: I32  # the group that is probed: one of the two
    started: I32  # tasks that have
    ended_s: F64  # the last task's end
    relaxed: I32  # tasks that run where a soft constraint is not met
    reordered: I32  # tasks that were taken instead of the one that SRPT would have taken

    duration_s: F64  # (T)
    start_s: F64

    member_start: I64  # (G + 1): into members
    members: I32  # workers by index
    short_only: I64  # (G): how many of its members are in front of the long partition
    may_run: U8  # (G, W)
    crv: F64  # (G): demand over supply
    waiting: I32  # (G): tasks of short jobs that have not started
    asked_s: F64  # (G): work of jobs that have come, decayed

    head: I32  # (W): the first probe, or -1
    tail: I32
    queued: I32
    is_busy: U8
    runs_long: U8
    queued_long: I32
    long_since_s: F64  # when the long task that runs was taken, or -1
    long_estimate_s: F64
    work_s: F64  # that was placed by least waiting and has not ended
    running_s: F64  # the part of it that runs
    seen_s: F64  # the work as of the last beat
    met: I32  # the map of long work that it got with a long task, or -1
    met_s: F64
    need: F64  # work a second, decayed, by jobs that cannot run everywhere
    by_need: I32  # (W): workers, those first that are needed least
    needed: I64  # how many workers have each level of need
    rate: F64  # (W): tasks started, decayed; the sum of their durations and of their squares
    sum_s: F64
    square_s: F64
    wait_s: F64  # expected, Pollaczek-Khinchine

    long_maps: U8  # (L, bytes): a bit a worker, 1 where long work is
    map_uses: I32  # (L)
    free_maps: I32  # (L)

    probe_job: I32  # (P)
    probe_next: I32
    probe_before: I32
    passed_s: F64  # by how much others that came later have gone first

    batch_job: I32
    batch_start: I64
    batch_count: I32
    targets: I32

    event_s: F64
    event_order: I64
    event_kind: I32
    event_subject: I32

    open_jobs: I32  # (J): those that wait in the one queue

    best_s: F64  # (W): a heap of waits and workers
    best: I32
