"""Schedulers of worker queues, and a run of one on a trace."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64
from treadle_lab.models.kernels import blank, inner, kernel, remove_first, schedule
from treadle_lab.models.probing import (
    HEARTBEAT_S,
    MESSAGE_S,
    NEED_LEVELS,
    PROBE_RATIO,
    ROUND_TRIP_S,
    count_arrival,
    count_start,
    hand_map,
    idle_worker,
    is_placed,
    job_for,
    look,
    new_map,
    next_probe,
    pass_those_before,
    send,
    wait_for_workers,
)
from treadle_lab.models.worker_state import (
    EventKind,
    Mode,
    Order,
    Placement,
    Real,
    Total,
    Trace,
    Workers,
    append,
    below,
    remove,
    trace_of,
)

CONTACTS: Final = 10
"""Number of other workers that an idle worker asks for probes."""


@kernel
def run_workers(run: Workers) -> None:
    """Run to the end."""
    arrived, jobs = 0, len(run.arrival_s)
    if run.reals[Real.BEAT] > 0.0:
        schedule(run, 0.0, EventKind.BEAT, 0)
    while arrived < jobs or run.totals[Total.EVENTS] > 0:
        if arrived < jobs and (run.totals[Total.EVENTS] == 0 or run.arrival_s[arrived] <= run.event_s[0]):
            run.reals[Real.NOW] = run.arrival_s[arrived]
            if run.mode[Mode.ORDER] == Order.NONE:
                _bind(run, arrived)
            else:
                send(run, arrived)
            arrived += 1
            continue
        run.reals[Real.NOW] = run.event_s[0]
        kind, subject = run.event_kind[0], run.event_subject[0]
        remove_first(run)
        if kind == EventKind.FREE:
            _free(run, subject)
        elif kind == EventKind.DELIVER:
            _deliver(run, subject)
        else:
            look(run)
            if run.totals[Total.UNFINISHED] > 0:
                schedule(run, run.reals[Real.NOW] + run.reals[Real.BEAT], EventKind.BEAT, 0)


@inner
def _deliver(run: Workers, batch: int) -> None:
    """Append probes to queues."""
    job, start = run.batch_job[batch], run.batch_start[batch]
    placed = is_placed(run, job)
    at = new_map(run) if placed and run.mode[Mode.AVOID] != 0 else -1
    for place in range(start, start + run.batch_count[batch]):
        worker = run.targets[place]
        append(run, worker, job)
        if placed:
            run.queued_long[worker] += 1
            if at >= 0:
                hand_map(run, worker, at)
        if run.is_busy[worker] == 0:
            _take(run, worker)


@inner
def _take(run: Workers, worker: int) -> None:
    """Let a worker request a task of the job of its next probe, and run it if there is one."""
    probe = next_probe(run, worker)
    job, now_s = run.probe_job[probe], run.reals[Real.NOW]
    placed = is_placed(run, job)
    run.is_busy[worker] = 1
    run.runs_long[worker] = 1 if placed else 0
    run.long_since_s[worker] = now_s if placed else -1.0
    run.running_s[worker] = 0.0
    if placed:
        run.queued_long[worker] -= 1
        run.long_estimate_s[worker] = run.estimate_s[job]
    if run.started[job] == run.tasks[job]:
        remove(run, worker, probe)
        schedule(run, now_s + ROUND_TRIP_S, EventKind.FREE, worker)
        return
    if placed:
        run.running_s[worker] = run.estimate_s[job]
    _start(run, worker, job)
    order = run.mode[Mode.ORDER]
    if (order == Order.EAGLE or order == Order.PHOENIX) and run.is_long[job] == 0:
        pass_those_before(run, worker, probe)  # and it stays: sticky
    else:
        remove(run, worker, probe)


@inner
def _bind(run: Workers, job: int) -> None:
    """Start what a job in the one queue can start at idle workers, those first that others need least."""
    run.reals[Real.NOW] += MESSAGE_S  # until the scheduler knows of the job
    count_arrival(run, job)
    place = idle_worker(run, job, 0)
    while place >= 0 and run.started[job] < run.tasks[job]:
        _start(run, run.by_need[place], job)
        place = idle_worker(run, job, place + 1)
    if run.started[job] < run.tasks[job]:
        wait_for_workers(run, job)


@inner
def _start(run: Workers, worker: int, job: int) -> None:
    """Start a job's next task."""
    now_s = run.reals[Real.NOW]
    task = run.first_task[job] + run.started[job]
    run.is_busy[worker] = 1
    run.started[job] += 1
    run.totals[Total.UNFINISHED] -= 1
    run.start_s[task] = now_s + ROUND_TRIP_S
    took_s = run.duration_s[task]
    if run.may_run[run.group[job], worker] == 0:
        took_s *= run.reals[Real.RELAXED_SLOWDOWN]
        run.relaxed[job] += 1
    if run.mode[Mode.ORDER] >= Order.PHOENIX:
        count_start(run, worker, job, took_s)
    ends_s = run.start_s[task] + took_s
    run.ended_s[job] = max(run.ended_s[job], ends_s)
    schedule(run, ends_s, EventKind.FREE, worker)


@inner
def _free(run: Workers, worker: int) -> None:
    """Continue a worker whose task has ended or that got none."""
    run.work_s[worker] -= run.running_s[worker]
    run.running_s[worker] = 0.0
    run.is_busy[worker] = 0
    run.runs_long[worker] = 0
    run.long_since_s[worker] = -1.0
    if run.mode[Mode.ORDER] == Order.NONE:
        job = job_for(run, worker)
        if job >= 0:
            _start(run, worker, job)
    elif run.head[worker] >= 0:
        _take(run, worker)
    elif run.mode[Mode.STEAL] != 0:
        first = run.mode[Mode.FIRST_LONG]
        for _ in range(CONTACTS):
            if _steal(run, worker, first + below(run, len(run.head) - first)):
                break


@inner
def _steal(run: Workers, thief: int, victim: int) -> bool:
    """Take the short probes behind a worker's first long task, up to the next; return whether there were any."""
    probe = run.head[victim]
    if run.runs_long[victim] == 0:
        while probe >= 0 and not run.is_long[run.probe_job[probe]]:
            probe = run.probe_next[probe]
    while probe >= 0 and run.is_long[run.probe_job[probe]]:
        probe = run.probe_next[probe]
    found = False
    while probe >= 0 and not run.is_long[run.probe_job[probe]]:
        following, job = run.probe_next[probe], run.probe_job[probe]
        if run.may_run[run.sent_to[job], thief] != 0:
            found = True
            remove(run, victim, probe)
            append(run, thief, job)
            if run.is_busy[thief] == 0:
                _take(run, thief)
        probe = following
    return found


Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Eligible:
    """The workers that may run each group's jobs; group 0 is all workers.

    Attributes:
        workers: of each group, shape (groups, workers).
        full: each job's group by all its constraints, soft ones too.
        hard: each job's group by its hard constraints.
        constrained: whether each job has a constraint.
    """

    workers: Flags
    full: I32
    hard: I32
    constrained: Flags


def unconstrained(jobs: int, workers: int) -> Eligible:
    """Return that every job may run everywhere."""
    nothing = np.zeros(jobs, np.int32)
    return Eligible(np.ones((1, workers), np.bool_), nothing, nothing, np.zeros(jobs, np.bool_))


class Groups:
    """Collects groups; the same workers are one group."""

    def __init__(self, workers: int) -> None:
        """Start with the group of all workers."""
        self.rows: list[Flags] = [np.ones(workers, np.bool_)]
        self._known = {self.rows[0].tobytes(): 0}

    def number(self, workers: Flags) -> int:
        """Return a group's number."""
        key = workers.tobytes()
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(workers)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class System:
    """A scheduler.

    Attributes:
        name: as in tables of results.
        long: who places the tasks of long jobs.
        short: who places those of short jobs.
        order: of queues.
        steals: whether idle workers ask others for probes.
        avoids: whether short probes keep away from long work.
        probes_min: the fewest probes of a job.
        constrained_ratio: probes for each task of a job that cannot run everywhere.
        partitioned: whether long jobs keep to the long partition.
        constrained: whether constraints hold; without that each job runs anywhere.
        by_crv: whether queues are ordered by demand over supply.
        gated: whether that holds only where the wait is long.
        spares: whether those that can choose keep away from workers that others need.
        negotiates: whether soft constraints can be given up.
    """

    name: str
    long: Placement
    short: Placement
    order: Order
    steals: bool = False
    avoids: bool = False
    probes_min: int = 1
    constrained_ratio: int = PROBE_RATIO
    partitioned: bool = True
    constrained: bool = False
    by_crv: bool = False
    gated: bool = False
    spares: bool = False
    negotiates: bool = False

    @property
    def is_phoenix(self) -> bool:
        """Whether it counts what Phoenix counts: the one queue spares workers too."""
        return self.order >= Order.PHOENIX


EAGLE_PROBES_MIN: Final = 20

_PROBES, _CENTRAL = Placement.PROBES, Placement.LEAST_WAITING
_PLAIN: Final = (
    System("sparrow", _PROBES, _PROBES, Order.FIFO, partitioned=False),
    System("hawk", _CENTRAL, _PROBES, Order.FIFO, steals=True),
    System("eagle", _CENTRAL, _PROBES, Order.EAGLE, avoids=True, probes_min=EAGLE_PROBES_MIN),
    System("clwl", _CENTRAL, _CENTRAL, Order.FIFO),
)
_PHOENIX: Final = System(
    "phoenix",
    _CENTRAL,
    _PROBES,
    Order.PHOENIX,
    avoids=True,
    probes_min=EAGLE_PROBES_MIN,
    constrained=True,
    by_crv=True,
    gated=True,
    constrained_ratio=4,
    spares=True,
    negotiates=True,
)

_ONE_QUEUE: Final = System(
    "one-queue-srpt-c",
    Placement.ONE_QUEUE,
    Placement.ONE_QUEUE,
    Order.NONE,
    partitioned=False,
    constrained=True,
    spares=True,
)

SYSTEMS: Final[dict[str, System]] = {
    one.name: one
    for one in (
        *_PLAIN,
        *(replace(one, name=f"{one.name}-c", constrained=True) for one in _PLAIN),
        _PHOENIX,
        _ONE_QUEUE,
        replace(_PHOENIX, name="phoenix-without-order", by_crv=False),
        replace(_PHOENIX, name="phoenix-without-gate", gated=False),
        replace(_PHOENIX, name="phoenix-without-scarcity", spares=False),
        replace(_PHOENIX, name="phoenix-without-negotiation", negotiates=False),
    )
}
"""By name."""


RELAXED_SLOWDOWN: Final = 1.25


def new_workers(
    system: System, trace: Trace, eligible: Eligible, seed: int, relaxed_slowdown: float = RELAXED_SLOWDOWN
) -> Workers:
    """Return the tables of a run at its start."""
    jobs, workers = len(trace), eligible.workers.shape[1]
    first_long = int((100 - trace.long_percent) * workers / 100) if system.partitioned else 0
    is_long = trace.is_long
    placements = np.where(is_long, system.long, system.short)
    ratio = np.where((eligible.full > 0) & system.constrained, system.constrained_ratio, PROBE_RATIO)
    sends = np.maximum(ratio * trace.tasks, system.probes_min)
    probes = np.where(placements == Placement.PROBES, sends, trace.tasks).astype(np.int32)
    sent = int(probes.sum())
    totals = np.zeros(len(Total), np.int64)
    totals[Total.RANDOM] = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1)) | 1
    totals[Total.UNFINISHED] = len(trace.duration_s)
    maps = min(int(is_long.sum()), workers) + 2 if system.avoids else 1
    totals[Total.FREE_MAPS] = maps
    batches = 2 * jobs + 1
    rows = eligible.workers if system.constrained else np.ones((1, workers), np.bool_)
    sizes = {"J": jobs, "T": len(trace.duration_s), "G": len(rows), "W": workers, "P": sent, "K": batches}
    return blank(
        Workers,
        {**sizes, "L": maps, "B": (workers + 7) // 8, "N": NEED_LEVELS + 1, "E": workers + batches + 1},
        mode=_mode(system, first_long),
        totals=totals,
        reals=_reals(system, trace, relaxed_slowdown),
        **_of_jobs(system, trace, eligible),
        probes=probes,
        **_of_groups(rows, first_long),
        **{name: np.full(workers, -1, np.int32) for name in ("head", "tail", "met")},
        **{name: np.full(workers, -1.0) for name in ("long_since_s", "met_s")},
        free_maps=np.arange(maps, dtype=np.int32),
        probe_next=np.arange(1, sent + 1, dtype=np.int32),
        by_need=np.arange(workers, dtype=np.int32),
    )


def _mode(system: System, first_long: int) -> I64:
    """Return what holds for the whole run, by `Mode`."""
    mode = np.zeros(len(Mode), np.int64)
    mode[[Mode.LONG, Mode.SHORT, Mode.ORDER]] = system.long, system.short, system.order
    mode[[Mode.STEAL, Mode.AVOID, Mode.FIRST_LONG]] = system.steals, system.avoids, first_long
    mode[[Mode.BY_CRV, Mode.GATE]] = system.by_crv, system.gated
    mode[[Mode.SCARCITY, Mode.NEGOTIATION]] = system.spares, system.negotiates
    return mode


def _reals(system: System, trace: Trace, relaxed_slowdown: float) -> F64:
    """Return the numbers of the run, by `Real`, at its start."""
    reals = np.zeros(len(Real))
    if system.is_phoenix:
        reals[Real.BEAT] = HEARTBEAT_S
    reals[Real.RELAXED_SLOWDOWN] = relaxed_slowdown
    short = np.repeat(~trace.is_long, trace.tasks)
    reals[Real.SHORT_MEAN] = float(trace.duration_s[short].mean()) if short.any() else 1.0
    return reals


def _of_jobs(system: System, trace: Trace, eligible: Eligible) -> dict[str, Any]:
    """Return the columns of jobs and tasks."""
    jobs = len(trace)
    nothing = np.zeros(jobs, np.int32)
    full = eligible.full if system.constrained else nothing
    # Every n-th job of a trace is a view with gaps, which the compiler would take for another kind of table.
    columns = {
        "arrival_s": trace.arrival_s,
        "tasks": trace.tasks,
        "first_task": trace.first_task,
        "estimate_s": trace.mean_s,
        "duration_s": trace.duration_s,
    }
    return {
        **{name: np.ascontiguousarray(column) for name, column in columns.items()},
        "is_long": trace.is_long.astype(np.uint8),
        "group": full,
        "hard_group": eligible.hard if system.constrained else nothing,
        "sent_to": full.copy(),
    }


def _of_groups(rows: Flags, first_long: int) -> dict[str, Any]:
    """Return the columns of groups, whose workers are in rows."""
    groups, members = np.nonzero(rows)
    counts = np.bincount(groups, minlength=len(rows))
    return {
        "member_start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "members": members.astype(np.int32),
        "short_only": rows[:, :first_long].sum(axis=1).astype(np.int64),
        "may_run": rows.astype(np.uint8),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of a run.

    Attributes:
        response_s: of each job, from its arrival to the end of its last task.
        queued_s: of each task, from its job's arrival to its start.
        relaxed: of each job, tasks that ran where one of their soft constraints is not met.
        reordered: of each job, tasks taken instead of SRPT's choice.
        cpu_s: processor time of the run, without making its tables.
    """

    response_s: F64
    queued_s: F64
    relaxed: I32
    reordered: I32
    cpu_s: float


def simulate_workers(
    system: System,
    trace: Trace,
    slots: int,
    eligible: Eligible | None = None,
    *,
    seed: int = 0,
    relaxed_slowdown: float = RELAXED_SLOWDOWN,
) -> Outcome:
    """Run a trace to its end.

    Args:
        system: who schedules
        trace: the jobs
        slots: how many workers there are, each with one slot
        eligible: who may run where; default: every job everywhere
        seed: of all draws
        relaxed_slowdown: by how much longer a task runs where a soft constraint of it is not met
    """
    state = new_workers(system, trace, eligible or unconstrained(len(trace), slots), seed, relaxed_slowdown)
    began_s = time.thread_time()
    run_workers(state)
    cpu_s = time.thread_time() - began_s
    return Outcome(
        state.ended_s - trace.arrival_s,
        state.start_s - np.repeat(trace.arrival_s, trace.tasks),
        state.relaxed,
        state.reordered,
        cpu_s,
    )


def warm_up() -> None:
    """Compile, or load compiled code, so that no run's time includes it."""
    simulate_workers(SYSTEMS["eagle"], trace_of("none", [0.0], [[1.0]]), 1)
