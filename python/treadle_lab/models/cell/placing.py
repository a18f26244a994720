"""Randomised first fit, and what is true of every architecture: claims of tasks, their ends, decisions in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.simulator.event_queue import schedule
from treadle_lab.models.cell.state import EventKind, Total
from treadle_lab.models.kernels import inner

if TYPE_CHECKING:
    from treadle_lab.models.cell.state import CellState

RETRY_S: Final = 1.0
"""After which a job with tasks left joins the end of its queue."""
ATTEMPTS_IN_VAIN_MAX: Final = 100
ATTEMPTS_MAX: Final = 1000
"""A job is given up after more attempts than this, the former if no task of it has been placed."""


@inner
def below(cell: CellState, scheduler: int, bound: int) -> int:
    """Return a random number from 0 to below a bound, at most 2^31: xorshift64*, a sequence for each scheduler."""
    value = cell.random[scheduler]
    value ^= (value >> 12) & 0xFFFFFFFFFFFFF
    value ^= value << 25
    value ^= (value >> 27) & 0x1FFFFFFFFF
    cell.random[scheduler] = value
    high = ((value * 2685821657736338717) >> 33) & 0x7FFFFFFF
    return (high * bound) >> 31


@inner
def first_fit(cell: CellState, at: int, room: int, scheduler: int, job: int) -> int:
    """Choose machines for a job's tasks, into `chosen`; return for how many.

    Random machines are tried; one that takes a task may be tried again, one that takes none is not. What is chosen is
    taken from the scheduler's private copy.

    Args:
        cell: of the run
        at: the row of `free_cpu` on which the copy is based: the cell's, or an offer's
        room: CPU that is free in the copy, on all machines together
        scheduler: who chooses
        job: for whose tasks
    """
    cpu, memory, epoch = cell.cpu[job], cell.memory[job], cell.epoch[scheduler]
    pool, stamp = cell.pool, cell.stamp
    tries, wanted, found = pool.shape[1], cell.left[job], 0
    while found < wanted and tries > 0 and room >= cpu:
        place = below(cell, scheduler, tries)
        machine = pool[scheduler, place]
        if stamp[scheduler, machine] != epoch:
            stamp[scheduler, machine] = epoch
            cell.more_cpu[scheduler, machine] = 0
            cell.more_memory[scheduler, machine] = 0
            cell.raised[scheduler, machine] = 0
        if (
            cell.free_cpu[at, machine] - cell.more_cpu[scheduler, machine] >= cpu
            and cell.free_memory[at, machine] - cell.more_memory[scheduler, machine] >= memory
        ):
            cell.more_cpu[scheduler, machine] += cpu
            cell.more_memory[scheduler, machine] += memory
            cell.chosen[found] = machine
            found += 1
            room -= cpu
        else:
            tries -= 1
            pool[scheduler, place] = pool[scheduler, tries]
            pool[scheduler, tries] = machine
    return found


@inner
def begin_claim(cell: CellState, job: int) -> int:
    """Return a new claim of a job's, without machines."""
    claim = cell.totals[Total.CLAIMS]
    cell.totals[Total.CLAIMS] = claim + 1
    cell.claim_start[claim] = cell.totals[Total.CLAIMED_MACHINES]
    cell.claim_count[claim] = 0
    cell.claim_job[claim] = job
    cell.claim_next[claim] = -1
    return claim


@inner
def add_to_claim(cell: CellState, claim: int, machine: int) -> None:
    """Add a machine on which a task of the latest claim runs."""
    at = cell.totals[Total.CLAIMED_MACHINES]
    cell.totals[Total.CLAIMED_MACHINES] = at + 1
    cell.claim_machines[at] = machine
    cell.claim_count[claim] += 1


@inner
def enqueue(cell: CellState, job: int) -> None:
    """Put a job at the end of its scheduler's queue."""
    scheduler = cell.scheduler[job]
    cell.next[job] = -1
    if cell.tail[scheduler] >= 0:
        cell.next[cell.tail[scheduler]] = job
    else:
        cell.head[scheduler] = job
    cell.tail[scheduler] = job


@inner
def pick(cell: CellState, scheduler: int) -> int:
    """Take the first job of a queue, which is not empty: an attempt begins, and with the first one its wait ends."""
    job = cell.head[scheduler]
    cell.head[scheduler] = cell.next[job]
    if cell.head[scheduler] < 0:
        cell.tail[scheduler] = -1
    if cell.waited_s[job] < 0:
        cell.waited_s[job] = cell.clock_s[0] - cell.arrival_s[job]
    return job


@inner
def decision_time(cell: CellState, job: int) -> float:
    """Return the decision time of an attempt: t_job + t_task for each task that is left (section 4)."""
    return cell.decision_s[job] + cell.decision_task_s[job] * cell.left[job]


@inner
def put_back(cell: CellState, scheduler: int, job: int) -> None:
    """After an attempt: let a job of which tasks are left try again, unless it has too many attempts."""
    if cell.left[job] == 0:
        return
    in_vain = cell.left[job] == cell.tasks[job] and cell.attempts[job] > ATTEMPTS_IN_VAIN_MAX
    if in_vain or cell.attempts[job] > ATTEMPTS_MAX:
        cell.abandoned[scheduler] += 1
    else:
        schedule(cell, cell.clock_s[0] + RETRY_S, EventKind.RETRY, job)


@inner
def use(cell: CellState, cpu: int) -> None:
    """Change how much of the cell is used; what was used until now is summed, and sampled."""
    totals = cell.totals
    while totals[Total.SAMPLES] < len(cell.used) and totals[Total.SAMPLES] * cell.clock_s[3] <= cell.clock_s[0]:
        cell.used[totals[Total.SAMPLES]] = totals[Total.USED_CPU]
        totals[Total.SAMPLES] += 1
    cell.clock_s[2] += cell.totals[Total.USED_CPU] * (cell.clock_s[0] - cell.clock_s[1])
    cell.clock_s[1] = cell.clock_s[0]
    cell.totals[Total.USED_CPU] += cpu
