"""Access of schedulers to a cell's machines: two-level offers, and transactions on shared state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64
from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.models.cell_state import (
    EventKind,
    Mode,
    Total,
    add_to_claim,
    begin_claim,
    decision_time,
    enqueue,
    first_fit,
    give_workers,
    next_event,
    pick,
    put_back,
    use,
)
from treadle_lab.models.kernels import inner, kernel, schedule

if TYPE_CHECKING:
    from treadle_lab.models.cell_state import CellState


OFFER_INTERVAL_S: Final = 1.0
OFFER_S: Final = 0.001
OFFER_CPU_MIN: Final = 100_000
OFFER_MEMORY_MIN: Final = 102_400
"""Less free CPU (thousandths) or memory (MB) than this is not offered."""


@kernel
def run_offers(cell: CellState, end_s: float) -> None:
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
        _request(cell, subject)
    elif kind == EventKind.OFFER:
        cell.totals[Total.OFFER_PENDING] = 0
        _offer(cell)
    elif kind == EventKind.OFFERED:
        _try(cell, subject)
    elif kind == EventKind.ANSWERED:
        _answer(cell, subject)
    else:
        _end_offered(cell, subject)


@inner
def _request(cell: CellState, job: int) -> None:
    """Queue a job; its scheduler requests offers."""
    enqueue(cell, job)
    scheduler = cell.scheduler[job]
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
def _end_offered(cell: CellState, claim: int) -> None:
    """End the tasks of a claim, which have the same duration."""
    job, start, count = cell.claim_job[claim], cell.claim_start[claim], cell.claim_count[claim]
    for at in range(start, start + count):
        _release(cell, cell.claim_machines[at], cell.cpu[job], cell.memory[job])
    scheduler = cell.scheduler[job]
    if scheduler >= 0:
        cell.held_cpu[scheduler] -= count * cell.cpu[job]
        cell.held_memory[scheduler] -= count * cell.memory[job]
    use(cell, -count * cell.cpu[job])
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
            cell.free_cpu[0, machine] -= cpu
            cell.free_memory[0, machine] -= memory
            add_to_claim(cell, claim, machine)
        cell.totals[Total.FREE_CPU] -= machines * cpu
        cell.totals[Total.FREE_MEMORY] -= machines * memory
        cell.left[job] -= machines
        without += cell.left[job]
        use(cell, machines * cpu)
        if machines > 0 and cell.duration_s[job] < np.inf:
            schedule(cell, cell.duration_s[job], EventKind.ENDED, claim)
    cell.epoch[0] += 1
    cell.random[0] = kept
    cell.totals[Total.SAMPLES] = 0
    return without


@kernel
def run_shared_state(cell: CellState, end_s: float) -> None:
    """Run a cell until an instant; what happens at it counts."""
    arrived = 0
    kind, subject = next_event(cell, arrived, end_s)
    while kind != EventKind.NOTHING:
        arrived += kind == EventKind.ARRIVED
        if kind == EventKind.DECIDED:
            _commit(cell, subject)
        elif kind == EventKind.ENDED:
            _end_shared(cell, subject)
        else:
            _queue(cell, subject)
        kind, subject = next_event(cell, arrived, end_s)


@inner
def _queue(cell: CellState, job: int) -> None:
    enqueue(cell, job)
    _begin(cell, cell.scheduler[job])


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
    cell.free_cpu[0, machine] += cpu
    cell.free_memory[0, machine] += memory
    cell.totals[Total.FREE_CPU] += cpu
    cell.totals[Total.FREE_MEMORY] += memory
    if cell.mode[Mode.PRIVATE] == 0:
        return
    for scheduler in range(len(cell.deciding)):
        if scheduler == by or cell.deciding[scheduler] < 0:
            continue
        if cell.stamp[scheduler, machine] != cell.epoch[scheduler]:
            cell.stamp[scheduler, machine] = cell.epoch[scheduler]
            cell.more_cpu[scheduler, machine] = 0
            cell.more_memory[scheduler, machine] = 0
            cell.raised[scheduler, machine] = 0
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


@inner
def _end_shared(cell: CellState, claim: int) -> None:
    """End the tasks of a claim, which have the same duration."""
    job, start = cell.claim_job[claim], cell.claim_start[claim]
    for at in range(start, start + cell.claim_count[claim]):
        _changed(cell, cell.claim_machines[at], cell.cpu[job], cell.memory[job], 0, -1)
    use(cell, -cell.claim_count[claim] * cell.cpu[job])
