"""Runs workers until every job has ended: arrivals, probes that come, tasks that end, idle workers that steal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.simulator.event_queue import remove_first, schedule
from treadle_lab.models.kernels import inner, kernel
from treadle_lab.models.workers.probing import (
    MESSAGE_S,
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
    see_queues,
    send,
    wait_for_workers,
)
from treadle_lab.models.workers.state import EventKind, Mode, Order, Real, Total, append, below, remove

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers

CONTACTS: Final = 10
"""How many others an idle worker asks for probes."""


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
            if run.mode[Mode.ORDER] >= Order.PHOENIX:
                look(run)
            else:
                see_queues(run)
            if run.totals[Total.UNFINISHED] > 0:
                schedule(run, run.reals[Real.NOW] + run.reals[Real.BEAT], EventKind.BEAT, 0)


@inner
def _deliver(run: Workers, batch: int) -> None:
    """Let probes stand at the ends of queues."""
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
    """Let a worker ask for a task of the job of its next probe, and run it if there is one."""
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
    """Let a worker go on, whose task has ended or who got none."""
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
