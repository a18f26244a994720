"""Two levels, as in Mesos: an allocator offers all that is free to one scheduler, which nobody else sees then.

Omega's section 3.3 and figure 7. An offer goes to the scheduler with the least dominant share of those that ask, 1 s
after a request, an answer or an end of tasks, if so much is free; it takes 1 ms to arrive. The scheduler tries all
jobs of its queue on it, and what it offered is locked for as long as its decisions on all of them take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.simulator.event_queue import schedule
from treadle_lab.models.cell.state import (
    EventKind,
    Total,
    add_to_claim,
    begin_claim,
    decision_time,
    enqueue,
    first_fit,
    next_event,
    pick,
    put_back,
    use,
)
from treadle_lab.models.kernels import inner, kernel

if TYPE_CHECKING:
    from treadle_lab.models.cell.state import CellState

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
        _end(cell, subject)


@inner
def _request(cell: CellState, job: int) -> None:
    """Queue a job; its scheduler asks for offers."""
    enqueue(cell, job)
    scheduler = cell.scheduler[job]
    if cell.requested[scheduler] < 0:
        cell.requested[scheduler] = cell.totals[Total.REQUESTS]
        cell.totals[Total.REQUESTS] += 1
    _look(cell)


@inner
def _look(cell: CellState) -> None:
    """Let the allocator look for whom to offer what is free, in a while."""
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
    """Say whether a scheduler has a lesser dominant share than another, or an equal one and asked first."""
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
        found = first_fit(cell, 1 + offer, free_cpu, scheduler, job) if tried else 0
        if tried and found == 0:
            cell.empty[scheduler] += 1
        if found > 0:
            cell.successes[scheduler] += 1
            cell.useful_s[scheduler] += job_s
            claim = _take(cell, offer, job, found)
            if last < 0:
                cell.offer_claims[offer] = claim
            else:
                cell.claim_next[last] = claim
            last = claim
            cell.left[job] -= found
            free_cpu -= found * cell.cpu[job]
            free_memory -= found * cell.memory[job]
        put_back(cell, scheduler, job)
    cell.offer_cpu[offer] = free_cpu
    cell.offer_memory[offer] = free_memory
    if cell.head[scheduler] < 0:
        cell.requested[scheduler] = -1
    schedule(cell, cell.clock_s[0] + took_s, EventKind.ANSWERED, offer)


@inner
def _take(cell: CellState, offer: int, job: int, found: int) -> int:
    """Take what was chosen out of an offer; return the claim."""
    claim = begin_claim(cell, job)
    for at in range(found):
        machine = cell.chosen[at]
        cell.free_cpu[1 + offer, machine] -= cell.cpu[job]
        cell.free_memory[1 + offer, machine] -= cell.memory[job]
        add_to_claim(cell, claim, machine)
    return claim


@inner
def _answer(cell: CellState, offer: int) -> None:
    """Start what was claimed of an offer and unlock the rest."""
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
        _release(cell, cell.claim_machines[at], cell.cpu[job], cell.memory[job])
    scheduler = cell.scheduler[job]
    if scheduler >= 0:
        cell.held_cpu[scheduler] -= count * cell.cpu[job]
        cell.held_memory[scheduler] -= count * cell.memory[job]
    use(cell, -count * cell.cpu[job])
    _look(cell)
