"""The state of a cell, how jobs arrive, and how schedulers get at machines: offers of two levels, transactions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, NamedTuple

import numpy as np
from numba.extending import register_jitable

from treadle.compiled.array_types import F64, I32, I64
from treadle.compiled.functions import tables
from treadle.policy.mapreduce import GLOBAL_CAP_PERCENT, RELATIVE_SIZE_MAX, WorkerPolicy, finish_s, useful_workers
from treadle_lab.models.kernels import Queued, inner, kernel, random_below, remove_first, schedule


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
    OFFERS = 4
    """1: schedulers decide on offers; 0: on the cell's state."""


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
    """Everything of a run. J jobs, R with those that run at the start, M machines, S schedulers, O offers, U samples.

    T tasks in all, at most W of a job; E events. CPU in thousandths of one, memory in MB, times in seconds from the
    start of the run.
    """

    mode: I32
    totals: I64
    clock_s: F64  # now; until when use is summed, and that sum in thousandths of CPU seconds; between two samples of it
    used: Annotated[I64, "U"]  # samples of the CPU that is used

    free_cpu: I64  # (1 + O, M): the cell's, then what is in each offer
    free_memory: I64

    arrival_s: F64  # (J)
    scheduler: I32  # (R), as all below; -1 of one that runs at the start
    tasks: I32
    duration_s: F64
    cpu: I64  # of a task
    memory: I64
    decision_s: F64  # of a decision on the job, and for each of its tasks
    decision_task_s: F64
    left: I32
    attempts: Annotated[I32, "R"]
    waited_s: F64  # from arrival to the first attempt; below 0 before
    next: I32  # in its scheduler's queue
    maps: I32  # of a MapReduce job, its map activities; 0 of any other
    reduces: I32
    map_s: F64  # of one activity
    reduce_s: F64

    head: I32  # (S)
    tail: I32
    deciding: I32  # the job, or -1
    took_s: Annotated[F64, "S"]  # the decision that goes on
    random: I64  # a sequence each
    pool: I32  # (S, M): machines, in any order
    epoch: Annotated[I32, "S"]  # of the private copy
    stamp: Annotated[I32, "S", "M"]
    more_cpu: Annotated[I64, "S", "M"]  # what the cell has more than the copy
    more_memory: Annotated[I64, "S", "M"]
    more_cpu_in_all: Annotated[I64, "S"]  # of all machines
    raised: Annotated[I32, "S", "M"]  # by how much others have raised the machine's sequence number since
    useful_s: Annotated[F64, "S"]  # decision time without a conflict, and with one
    wasted_s: Annotated[F64, "S"]
    successes: Annotated[I64, "S"]
    failures: Annotated[I64, "S"]
    failed_claims: Annotated[I64, "S"]
    empty: Annotated[I64, "S"]
    abandoned: Annotated[I64, "S"]

    chosen: Annotated[I32, "W"]  # machines that a decision has chosen
    claim_start: Annotated[I32, "T"]  # into claim_machines
    claim_count: Annotated[I32, "T"]
    claim_job: Annotated[I32, "T"]
    claim_next: Annotated[I32, "T"]  # of the same offer
    claim_machines: Annotated[I32, "T"]

    event_s: Annotated[F64, "E"]
    event_order: Annotated[I64, "E"]
    event_kind: Annotated[I32, "E"]
    event_subject: Annotated[I32, "E"]

    held_cpu: Annotated[I64, "S"]  # of the tasks that run, for Mesos' dominant shares
    held_memory: Annotated[I64, "S"]
    requested: I64  # (S): the number of its request for offers, or -1
    offer_scheduler: I32  # (O): or -1, of one that is not used
    offer_cpu: Annotated[I64, "O"]  # what of it is free
    offer_memory: Annotated[I64, "O"]
    offer_claims: I32  # (O): the first claim of its answer, or -1


RETRY_S: Final = 1.0
"""After which a job with tasks left joins the end of its queue."""
ATTEMPTS_IN_VAIN_MAX: Final = 100
ATTEMPTS_MAX: Final = 1000
"""A job is given up after more attempts than this, the former if no task of it has been placed."""


@inner
def renew(cell: CellState, scheduler: int, machine: int) -> None:
    """Take a machine into a scheduler's private copy as the cell has it, unless it is there since the copy was made."""
    if cell.stamp[scheduler, machine] != cell.epoch[scheduler]:
        cell.stamp[scheduler, machine] = cell.epoch[scheduler]
        cell.more_cpu[scheduler, machine] = 0
        cell.more_memory[scheduler, machine] = 0
        cell.raised[scheduler, machine] = 0


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
    cpu, memory, pool = cell.cpu[job], cell.memory[job], cell.pool
    tries, wanted, found = pool.shape[1], cell.left[job], 0
    while found < wanted and tries > 0 and room >= cpu:
        place = random_below(cell.random, scheduler, tries)
        machine = pool[scheduler, place]
        renew(cell, scheduler, machine)
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


register_jitable(finish_s)
register_jitable(useful_workers)


@register_jitable
def workers_for(policy: int, requested: int, useful: int, idle: int, below_cap: int) -> int:
    """Return the number of workers of a job: the smallest one with the shortest duration that the policy allows.

    Each worker up to `useful_workers` shortens the job, more do not, so no search is necessary.

    Args:
        policy: a `WorkerPolicy`
        requested: requested workers, which the job gets even if it has to wait for them
        useful: result of `useful_workers`
        idle: workers that fit now, the requested ones included
        below_cap: the same up to the cap of the cell's usage; only for `GLOBAL_CAP`
    """
    if policy == WorkerPolicy.AS_REQUESTED:
        return requested
    allowed = min(useful, idle)
    if policy == WorkerPolicy.RELATIVE_JOB_SIZE:
        allowed = min(allowed, RELATIVE_SIZE_MAX * requested)
    elif policy == WorkerPolicy.GLOBAL_CAP:
        allowed = min(allowed, below_cap)
    return max(requested, allowed)


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


OFFER_INTERVAL_S: Final = 1.0
OFFER_S: Final = 0.001
OFFER_CPU_MIN: Final = 100_000
OFFER_MEMORY_MIN: Final = 102_400
"""Less free CPU (thousandths) or memory (MB) than this is not offered."""


@kernel
def run_cell(cell: CellState, end_s: float) -> None:
    """Run a cell until an instant; what happens at it counts."""
    arrived = 0
    kind, subject = next_event(cell, arrived, end_s)
    while kind != EventKind.NOTHING:
        arrived += kind == EventKind.ARRIVED
        _happen(cell, kind, subject)
        kind, subject = next_event(cell, arrived, end_s)


@inner
def _happen(cell: CellState, kind: int, subject: int) -> None:
    if kind == EventKind.ARRIVED or kind == EventKind.RETRY:
        enqueue(cell, subject)
        if cell.mode[Mode.OFFERS] == 1:
            _request(cell, cell.scheduler[subject])
        else:
            _begin(cell, cell.scheduler[subject])
    elif kind == EventKind.DECIDED:
        _commit(cell, subject)
    elif kind == EventKind.OFFER:
        cell.totals[Total.OFFER_PENDING] = 0
        _offer(cell)
    elif kind == EventKind.OFFERED:
        _try(cell, subject)
    elif kind == EventKind.ANSWERED:
        _answer(cell, subject)
    else:
        _end(cell, subject)


@inner
def _request(cell: CellState, scheduler: int) -> None:
    """Let a scheduler with a job in its queue request offers."""
    if cell.requested[scheduler] < 0:
        cell.requested[scheduler] = cell.totals[Total.REQUESTS]
        cell.totals[Total.REQUESTS] += 1
    _look(cell)


@inner
def _look(cell: CellState) -> None:
    """Schedule the allocator's next search for a scheduler to offer free resources to."""
    if cell.totals[Total.OFFER_PENDING] == 0:
        cell.totals[Total.OFFER_PENDING] = 1
        schedule(cell, cell.clock_s[0] + OFFER_INTERVAL_S, EventKind.OFFER, 0)


@inner
def _offer(cell: CellState) -> None:
    """Lock all that is free in an offer to the one that asks with the least dominant share."""
    totals = cell.totals
    if totals[Total.FREE_CPU] < OFFER_CPU_MIN or totals[Total.FREE_MEMORY] < OFFER_MEMORY_MIN:
        return
    chosen = -1
    for scheduler in range(len(cell.requested)):
        if cell.requested[scheduler] >= 0 and (chosen < 0 or _before(cell, scheduler, chosen)):
            chosen = scheduler
    if chosen < 0:
        return
    offer = 0
    while cell.offer_scheduler[offer] >= 0:
        offer += 1
    cell.offer_scheduler[offer] = chosen
    cell.offer_claims[offer] = -1
    free_cpu, free_memory = cell.free_cpu, cell.free_memory
    for machine in range(free_cpu.shape[1]):
        free_cpu[1 + offer, machine] = free_cpu[0, machine]
        free_cpu[0, machine] = 0
    for machine in range(free_cpu.shape[1]):
        free_memory[1 + offer, machine] = free_memory[0, machine]
        free_memory[0, machine] = 0
    cell.offer_cpu[offer] = totals[Total.FREE_CPU]
    cell.offer_memory[offer] = totals[Total.FREE_MEMORY]
    totals[Total.FREE_CPU] = 0
    totals[Total.FREE_MEMORY] = 0
    schedule(cell, cell.clock_s[0] + OFFER_S, EventKind.OFFERED, offer)


@inner
def _before(cell: CellState, a: int, b: int) -> bool:
    """Return whether a scheduler has a smaller dominant share than another, or an equal one and an earlier request."""
    share_a, share_b = _share(cell, a), _share(cell, b)
    return share_a < share_b or (share_a == share_b and cell.requested[a] < cell.requested[b])


@inner
def _share(cell: CellState, scheduler: int) -> float:
    cpu = cell.held_cpu[scheduler] / cell.totals[Total.ALL_CPU]
    memory = cell.held_memory[scheduler] / cell.totals[Total.ALL_MEMORY]
    return max(cpu, memory)


@inner
def _try(cell: CellState, offer: int) -> None:
    """Try each job of the queue on an offer while anything of it is free; the answer comes when all are decided on."""
    scheduler = cell.offer_scheduler[offer]
    took_s = 0.0
    last = -1
    free_cpu, free_memory = cell.offer_cpu[offer], cell.offer_memory[offer]
    while cell.head[scheduler] >= 0 and free_cpu > 0 and free_memory > 0:
        job = pick(cell, scheduler)
        job_s = decision_time(cell, job)
        took_s += job_s
        cell.attempts[job] += 1
        cell.epoch[scheduler] += 1
        # As the original: with exactly a task's CPU left a job is not placed, though jobs are tried while any is left.
        # Once in a while a whole queue is so tried in vain, and the answer to the offer is late by all these decisions.
        tried = free_cpu > cell.cpu[job]
        machines = first_fit(cell, 1 + offer, free_cpu, scheduler, job) if tried else 0
        if tried and machines == 0:
            cell.empty[scheduler] += 1
        if machines > 0:
            cell.successes[scheduler] += 1
            cell.useful_s[scheduler] += job_s
            claim = _take(cell, offer, job, machines)
            if last < 0:
                cell.offer_claims[offer] = claim
            else:
                cell.claim_next[last] = claim
            last = claim
            cell.left[job] -= machines
            free_cpu -= machines * cell.cpu[job]
            free_memory -= machines * cell.memory[job]
        put_back(cell, scheduler, job)
    cell.offer_cpu[offer] = free_cpu
    cell.offer_memory[offer] = free_memory
    if cell.head[scheduler] < 0:
        cell.requested[scheduler] = -1
    schedule(cell, cell.clock_s[0] + took_s, EventKind.ANSWERED, offer)


@inner
def _take(cell: CellState, offer: int, job: int, machines: int) -> int:
    """Take the chosen resources from an offer; return the claim."""
    claim = begin_claim(cell, job)
    for at in range(machines):
        machine = cell.chosen[at]
        cell.free_cpu[1 + offer, machine] -= cell.cpu[job]
        cell.free_memory[1 + offer, machine] -= cell.memory[job]
        add_to_claim(cell, claim, machine)
    return claim


@inner
def _answer(cell: CellState, offer: int) -> None:
    """Start the claimed tasks of an offer and unlock the rest."""
    scheduler = cell.offer_scheduler[offer]
    free_cpu, free_memory = cell.free_cpu, cell.free_memory
    for machine in range(free_cpu.shape[1]):
        free_cpu[0, machine] += free_cpu[1 + offer, machine]
    for machine in range(free_cpu.shape[1]):
        free_memory[0, machine] += free_memory[1 + offer, machine]
    cell.totals[Total.FREE_CPU] += cell.offer_cpu[offer]
    cell.totals[Total.FREE_MEMORY] += cell.offer_memory[offer]
    claim = cell.offer_claims[offer]
    while claim >= 0:
        job, count = cell.claim_job[claim], cell.claim_count[claim]
        use(cell, count * cell.cpu[job])
        cell.held_cpu[scheduler] += count * cell.cpu[job]
        cell.held_memory[scheduler] += count * cell.memory[job]
        schedule(cell, cell.clock_s[0] + cell.duration_s[job], EventKind.ENDED, claim)
        claim = cell.claim_next[claim]
    cell.offer_scheduler[offer] = -1
    _look(cell)


@inner
def _release(cell: CellState, machine: int, cpu: int, memory: int) -> None:
    cell.free_cpu[0, machine] += cpu
    cell.free_memory[0, machine] += memory
    cell.totals[Total.FREE_CPU] += cpu
    cell.totals[Total.FREE_MEMORY] += memory


@inner
def _end(cell: CellState, claim: int) -> None:
    """End the tasks of a claim, which have the same duration."""
    job, start, count = cell.claim_job[claim], cell.claim_start[claim], cell.claim_count[claim]
    for at in range(start, start + count):
        _changed(cell, cell.claim_machines[at], cell.cpu[job], cell.memory[job], 0, -1)
    use(cell, -count * cell.cpu[job])
    if cell.mode[Mode.OFFERS] == 0:
        return
    scheduler = cell.scheduler[job]
    if scheduler >= 0:
        cell.held_cpu[scheduler] -= count * cell.cpu[job]
        cell.held_memory[scheduler] -= count * cell.memory[job]
    _look(cell)


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """Running jobs at the start, each with identical tasks.

    Attributes:
        tasks: at least 1.
        left_s: remaining time of each task; infinite if beyond any run.
        cpu: of a task, in thousandths of a CPU.
        memory: of a task, in MB.
    """

    tasks: I32
    left_s: F64
    cpu: I64
    memory: I64

    def __len__(self) -> int:
        return len(self.tasks)


NOTHING_RUNS: Final = RunningJobs(
    np.empty(0, np.int32), np.empty(0, np.float64), np.empty(0, np.int64), np.empty(0, np.int64)
)


@kernel
def place_running(cell: CellState, random: int) -> int:
    """Place the running jobs at the start, which belong to no scheduler; return the number of tasks without room.

    Args:
        cell: of the run, empty
        random: of the choice of machines, odd; the schedulers' own choices do not depend on it
    """
    kept = cell.random[0]
    cell.random[0] = random
    without = 0
    for job in range(len(cell.arrival_s), len(cell.tasks)):
        cell.epoch[0] += 1
        cpu, memory = cell.cpu[job], cell.memory[job]
        machines = first_fit(cell, 0, cell.totals[Total.FREE_CPU], 0, job)
        claim = begin_claim(cell, job)
        for at in range(machines):
            machine = cell.chosen[at]
            _release(cell, machine, -cpu, -memory)
            add_to_claim(cell, claim, machine)
        cell.left[job] -= machines
        without += cell.left[job]
        use(cell, machines * cpu)
        if machines > 0 and cell.duration_s[job] < np.inf:
            schedule(cell, cell.duration_s[job], EventKind.ENDED, claim)
    cell.epoch[0] += 1
    cell.random[0] = kept
    cell.totals[Total.SAMPLES] = 0
    return without


@inner
def _begin(cell: CellState, scheduler: int) -> None:
    """Let an idle scheduler pick its next job; its private copy is made now."""
    if cell.deciding[scheduler] >= 0 or cell.head[scheduler] < 0:
        return
    job = pick(cell, scheduler)
    if cell.maps[job] > 0 and cell.attempts[job] == 0 and cell.mode[Mode.WORKERS] != WorkerPolicy.AS_REQUESTED:
        give_workers(cell, job)
    cell.deciding[scheduler] = job
    cell.epoch[scheduler] += 1
    cell.more_cpu_in_all[scheduler] = 0
    took_s = decision_time(cell, job)
    cell.took_s[scheduler] = took_s
    schedule(cell, cell.clock_s[0] + took_s, EventKind.DECIDED, scheduler)


@inner
def _changed(cell: CellState, machine: int, cpu: int, memory: int, raised: int, by: int) -> None:
    """Change the free resources of a machine; copies in use by others keep the old values."""
    _release(cell, machine, cpu, memory)
    if cell.mode[Mode.PRIVATE] == 0:
        return
    for scheduler in range(len(cell.deciding)):
        if scheduler == by or cell.deciding[scheduler] < 0:
            continue
        renew(cell, scheduler, machine)
        cell.more_cpu[scheduler, machine] += cpu
        cell.more_cpu_in_all[scheduler] += cpu
        cell.more_memory[scheduler, machine] += memory
        cell.raised[scheduler, machine] += raised


@inner
def _commit(cell: CellState, scheduler: int) -> None:
    """End a decision: choose machines, claim them, and count the outcome."""
    job = cell.deciding[scheduler]
    cell.attempts[job] += 1
    room = cell.totals[Total.FREE_CPU] - cell.more_cpu_in_all[scheduler]
    machines = first_fit(cell, 0, room, scheduler, job)
    if machines == 0:
        cell.empty[scheduler] += 1
    else:
        failed = _transact(cell, scheduler, job, machines)
        if failed > 0:
            cell.failures[scheduler] += 1
            cell.failed_claims[scheduler] += failed
            cell.wasted_s[scheduler] += cell.took_s[scheduler]
        else:
            cell.successes[scheduler] += 1
            cell.useful_s[scheduler] += cell.took_s[scheduler]
    cell.deciding[scheduler] = -1
    put_back(cell, scheduler, job)
    _begin(cell, scheduler)


@inner
def _transact(cell: CellState, scheduler: int, job: int, machines: int) -> int:
    """Claim the chosen machines; return how many claims failed, those that were undone among them."""
    claim = begin_claim(cell, job)
    cpu, memory = cell.cpu[job], cell.memory[job]
    failed = 0
    for at in range(machines):
        machine = cell.chosen[at]
        if _conflicts(cell, scheduler, machine, cpu, memory):
            failed += 1
            if cell.mode[Mode.GANG] == 1:
                break
        else:
            _changed(cell, machine, -cpu, -memory, 1, scheduler)
            add_to_claim(cell, claim, machine)
    if failed > 0 and cell.mode[Mode.GANG] == 1:
        failed += _undo(cell, scheduler, claim)
    count = cell.claim_count[claim]
    if count > 0:
        cell.left[job] -= count
        use(cell, count * cpu)
        schedule(cell, cell.clock_s[0] + cell.duration_s[job], EventKind.ENDED, claim)
    else:
        cell.totals[Total.CLAIMS] = claim
    return failed


@inner
def _conflicts(cell: CellState, scheduler: int, machine: int, cpu: int, memory: int) -> bool:
    """Say whether a claim conflicts: coarse, its machine's number is not that of the copy; fine, it does not fit.

    A claim carries the number of the copy, raised by the transaction's earlier claims there, whatever their outcome.
    So after others have raised it by n, the first n claims conflict and have caught up with it then.
    """
    if cell.mode[Mode.COARSE] == 1 and cell.raised[scheduler, machine] > 0:
        cell.raised[scheduler, machine] -= 1
        return True
    return cell.free_cpu[0, machine] < cpu or cell.free_memory[0, machine] < memory


@inner
def _undo(cell: CellState, scheduler: int, claim: int) -> int:
    """Take a transaction's claims back, and return how many there were; the machines' numbers stay raised."""
    job, count, start = cell.claim_job[claim], cell.claim_count[claim], cell.claim_start[claim]
    for at in range(start, start + count):
        _changed(cell, cell.claim_machines[at], cell.cpu[job], cell.memory[job], 0, scheduler)
    cell.totals[Total.CLAIMED_MACHINES] = start
    cell.claim_count[claim] = 0
    return count
