"""The state of a cell, and how jobs arrive and are placed."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from treadle.compiled.array_types import F64, I32, I64
from treadle.compiled.structs import tables
from treadle.policy.mapreduce import GLOBAL_CAP_PERCENT, finish_s, useful_workers, workers_for
from treadle_lab.models.kernels import Queued, inner, remove_first, schedule


class EventKind(IntEnum):
    """Kinds of events."""

    NOTHING = -1
    """Nothing more until the run ends."""
    ENDED = 0
    """The tasks of a claim have ended; the subject is the claim."""
    DECIDED = 1
    """A scheduler has decided on its job; the subject is the scheduler."""
    RETRY = 2
    """A job with tasks left joins the end of its queue; the subject is the job."""
    OFFER = 3
    """Mesos' allocator looks for a scheduler to offer free resources to."""
    OFFERED = 4
    """An offer has reached its scheduler; the subject is the offer."""
    ANSWERED = 5
    """A scheduler answers an offer; the subject is the offer."""
    ARRIVED = 6
    """A job arrives; the subject is the job. It stands in no queue of events: the workload has the times."""


class Mode(IntEnum):
    """Places of what holds for a whole run, in `CellState.mode`."""

    PRIVATE = 0
    """1: a scheduler decides on the cell's state when it picked the job; 0: on that at the end of the decision."""
    COARSE = 1
    """1: a claim conflicts if its machine's sequence number has changed; 0: if its resources are gone."""
    GANG = 2
    """1: all claims of a transaction or none."""
    WORKERS = 3
    """Parallelism of MapReduce jobs, a `treadle.policy.mapreduce.WorkerPolicy`."""


class Total(IntEnum):
    """Places of counters in `CellState.totals`."""

    EVENTS = Queued.EVENTS
    ORDER = Queued.ORDER
    CLAIMS = 2
    CLAIMED_MACHINES = 3
    USED_CPU = 4
    FREE_CPU = 5
    """CPU that is neither used nor locked in an offer."""
    FREE_MEMORY = 6
    ALL_CPU = 7
    ALL_MEMORY = 8
    OFFER_PENDING = 9
    """1 if the allocator is going to look."""
    REQUESTS = 10
    """Number of times that a scheduler has started to request offers."""
    SAMPLES = 11
    """Number of samples of the cell's usage."""


@tables
class CellState(NamedTuple):
    """Everything of a run. J jobs, R that run at the start, M machines, S schedulers, O offers, T tasks in all.

    CPU in thousandths of one, memory in MB, times in seconds from the start of the run.
    """

    mode: I32
    totals: I64
    clock_s: F64  # now; until when use is summed, and that sum in thousandths of CPU seconds; between two samples of it
    used: I64  # samples of the CPU that is used

    free_cpu: I64  # (1 + O, M): the cell's, then what is in each offer
    free_memory: I64

    arrival_s: F64  # (J)
    scheduler: I32  # (J + R), as all below; -1 of one that runs at the start
    tasks: I32
    duration_s: F64
    cpu: I64  # of a task
    memory: I64
    decision_s: F64  # of a decision on the job, and for each of its tasks
    decision_task_s: F64
    left: I32
    attempts: I32
    waited_s: F64  # from arrival to the first attempt; below 0 before
    next: I32  # in its scheduler's queue
    maps: I32  # of a MapReduce job, its map activities; 0 of any other
    reduces: I32
    map_s: F64  # of one activity
    reduce_s: F64

    head: I32  # (S)
    tail: I32
    deciding: I32  # the job, or -1
    took_s: F64  # the decision that goes on
    random: I64
    pool: I32  # (S, M): machines, in any order
    epoch: I32  # of the private copy
    stamp: I32  # (S, M)
    more_cpu: I64  # (S, M): what the cell has more than the copy
    more_memory: I64
    more_cpu_in_all: I64  # (S): of all machines
    raised: I32  # (S, M): by how much others have raised the machine's sequence number since
    useful_s: F64  # (S): decision time without a conflict, and with one
    wasted_s: F64
    successes: I64
    failures: I64
    failed_claims: I64
    empty: I64
    abandoned: I64

    chosen: I32  # machines that a decision has chosen
    claim_start: I32  # (T): into claim_machines
    claim_count: I32
    claim_job: I32
    claim_next: I32  # of the same offer
    claim_machines: I32  # (T)

    event_s: F64
    event_order: I64
    event_kind: I32
    event_subject: I32

    held_cpu: I64  # (S): of the tasks that run, for Mesos' dominant shares
    held_memory: I64
    requested: I64  # (S): the number of its request for offers, or -1
    offer_scheduler: I32  # (O): or -1, of one that is not used
    offer_cpu: I64  # (O): what of it is free
    offer_memory: I64
    offer_claims: I32  # (O): the first claim of its answer, or -1


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
    """Choose machines for a job's tasks, into `chosen`; return the number of tasks.

    Random machines are tried; one that fits a task may be tried again, others are not. Chosen resources are subtracted
    from the scheduler's private copy.

    Args:
        cell: of the run
        at: the row of `free_cpu` on which the copy is based: the cell's, or an offer's
        room: free CPU in the copy, on all machines together
        scheduler: the scheduler
        job: the job
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
    """After an attempt, let a job with remaining tasks try again, unless it has too many attempts."""
    if cell.left[job] == 0:
        return
    in_vain = cell.left[job] == cell.tasks[job] and cell.attempts[job] > ATTEMPTS_IN_VAIN_MAX
    if in_vain or cell.attempts[job] > ATTEMPTS_MAX:
        cell.abandoned[scheduler] += 1
    else:
        schedule(cell, cell.clock_s[0] + RETRY_S, EventKind.RETRY, job)


@inner
def use(cell: CellState, cpu: int) -> None:
    """Change the used CPU of the cell; the usage until now is integrated, and sampled."""
    totals = cell.totals
    while totals[Total.SAMPLES] < len(cell.used) and totals[Total.SAMPLES] * cell.clock_s[3] <= cell.clock_s[0]:
        cell.used[totals[Total.SAMPLES]] = totals[Total.USED_CPU]
        totals[Total.SAMPLES] += 1
    cell.clock_s[2] += cell.totals[Total.USED_CPU] * (cell.clock_s[0] - cell.clock_s[1])
    cell.clock_s[1] = cell.clock_s[0]
    cell.totals[Total.USED_CPU] += cpu


@inner
def give_workers(cell: CellState, job: int) -> None:
    """Set a job's number of workers by the policy, and its predicted duration."""
    totals, cpu, memory = cell.totals, cell.cpu[job], cell.memory[job]
    idle = min(totals[Total.FREE_CPU] // cpu, totals[Total.FREE_MEMORY] // memory)
    used = totals[Total.ALL_CPU] - totals[Total.FREE_CPU]
    below_cap = max(0, totals[Total.ALL_CPU] * GLOBAL_CAP_PERCENT // 100 - used) // cpu
    maps, reduces = cell.maps[job], cell.reduces[job]
    useful = useful_workers(maps, reduces)
    workers = workers_for(cell.mode[Mode.WORKERS], cell.tasks[job], useful, idle, below_cap)
    cell.tasks[job] = workers
    cell.left[job] = workers
    cell.duration_s[job] = finish_s(workers, maps, cell.map_s[job], reduces, cell.reduce_s[job])


@inner
def next_event(cell: CellState, arrived: int, end_s: float) -> tuple[int, int]:
    """Set the clock to the next event or arrival and return its kind and subject; events come second.

    Args:
        cell: of the run
        arrived: how many jobs have arrived
        end_s: when the run ends; what happens at it counts. After that the clock is there, and the kind `NOTHING`.
    """
    arrives = arrived < len(cell.arrival_s)
    if cell.totals[Total.EVENTS] > 0 and (not arrives or cell.event_s[0] < cell.arrival_s[arrived]):
        now, kind, subject = cell.event_s[0], cell.event_kind[0], cell.event_subject[0]
        if now <= end_s:
            cell.clock_s[0] = now
            remove_first(cell)
            return kind, subject
    elif arrives and cell.arrival_s[arrived] <= end_s:
        cell.clock_s[0] = cell.arrival_s[arrived]
        return EventKind.ARRIVED.value, arrived
    cell.clock_s[0] = end_s
    use(cell, 0)
    return EventKind.NOTHING.value, -1
