"""Runs a cell's workload under an architecture, and says how long jobs waited and how busy schedulers were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64, I32
from treadle.simulator.cell.architectures import ARCHITECTURES, Architecture
from treadle.simulator.cell.offers import OFFER_CPU_MIN, run_offers
from treadle.simulator.cell.shared_state import run_shared_state
from treadle.simulator.cell.state import CellState, Total
from treadle.simulator.cell.workload import DAY_S, CellWorkload, JobKind, drawn

MACHINE_CPU: Final = 4_000
MACHINE_MEMORY_MB: Final = 16_384


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """t_job + t_task x tasks, in seconds (section 4)."""

    job_s: float = 0.1
    task_s: float = 0.005


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of equal machines, empty at the start.

    Attributes:
        machines: how many.
        cpu: of each, in thousandths of a CPU.
        memory_mb: of each.
    """

    machines: int
    cpu: int = MACHINE_CPU
    memory_mb: int = MACHINE_MEMORY_MB


@dataclass(frozen=True, slots=True)
class SchedulerOutcome:
    """What one scheduler did.

    Attributes:
        name: of the scheduler.
        busyness: decision time of attempts that found room, over the time of the run.
        wasted: the part of it that went into transactions with a conflict.
        successes: transactions without a conflict.
        failures: transactions with one.
        failed_claims: tasks whose claims failed or were undone.
        empty: attempts that found no room.
        abandoned: jobs given up.
    """

    name: str
    busyness: float
    wasted: float
    successes: int
    failures: int
    failed_claims: int
    empty: int
    abandoned: int

    @property
    def conflict_fraction(self) -> float:
        """Conflicts per successful transaction; 3 means four attempts each (section 4.3)."""
        return self.failures / self.successes if self.successes else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        wait_s: by kind of job the mean time from arrival to the first attempt, of jobs that were tried; 0 of none.
        unscheduled: by kind of job the share of jobs with a task that was never placed.
        cpu_utilisation: of the cell's CPU, mean over the run.
        schedulers: what each did.
    """

    wait_s: Mapping[JobKind, float]
    unscheduled: Mapping[JobKind, float]
    cpu_utilisation: float
    schedulers: tuple[SchedulerOutcome, ...]


def simulate_cell(
    cell: Cell,
    architecture: Architecture,
    workload: CellWorkload,
    decision: Mapping[JobKind, DecisionTime],
    *,
    duration_s: float = DAY_S,
    seed: int = 0,
) -> Outcome:
    """Run a workload.

    Args:
        cell: the machines
        architecture: who schedules
        workload: the jobs
        decision: how long decisions take, by kind of job; a single path takes the service jobs' for all
        duration_s: of the run
        seed: of the schedulers' choice of machines
    """
    state = _state(cell, architecture, workload, decision, seed)
    (run_offers if architecture.offers else run_shared_state)(state, duration_s)
    tried = state.waited_s >= 0
    wait_s, unscheduled = {}, {}
    for kind in JobKind:
        own = workload.kind == kind
        wait_s[kind] = float(state.waited_s[own & tried].mean()) if (own & tried).any() else 0.0
        unscheduled[kind] = float((state.left[own] > 0).mean()) if own.any() else 0.0
    return Outcome(
        wait_s,
        unscheduled,
        float(state.clock_s[2]) / (cell.machines * cell.cpu * duration_s),
        tuple(_outcome(state, at, name, duration_s) for at, name in enumerate(architecture.schedulers)),
    )


def warm_up() -> None:
    """Compile, or read what was compiled before, so that no run's time has it."""
    workload = drawn(0, 100.0)
    for name in ("mono1", "mesos"):
        simulate_cell(Cell(10), ARCHITECTURES[name], workload, dict.fromkeys(JobKind, DecisionTime()), duration_s=1.0)


def _outcome(state: CellState, at: int, name: str, duration_s: float) -> SchedulerOutcome:
    useful_s, wasted_s = float(state.useful_s[at]), float(state.wasted_s[at])
    return SchedulerOutcome(
        name,
        (useful_s + wasted_s) / duration_s,
        wasted_s / duration_s,
        int(state.successes[at]),
        int(state.failures[at]),
        int(state.failed_claims[at]),
        int(state.empty[at]),
        int(state.abandoned[at]),
    )


def _state(
    cell: Cell,
    architecture: Architecture,
    workload: CellWorkload,
    decision: Mapping[JobKind, DecisionTime],
    seed: int,
) -> CellState:
    machines, schedulers, jobs = cell.machines, len(architecture.schedulers), len(workload)
    tasks = int(workload.tasks.sum())
    # what is locked in offers that are out together is each at least what is worth an offer
    offers = 1 + machines * cell.cpu // OFFER_CPU_MIN if architecture.offers else 0
    free_cpu = np.zeros((1 + offers, machines), np.int64)
    free_memory = np.zeros((1 + offers, machines), np.int64)
    free_cpu[0] = cell.cpu
    free_memory[0] = cell.memory_mb
    totals = np.zeros(len(Total), np.int64)
    totals[Total.FREE_CPU] = totals[Total.ALL_CPU] = machines * cell.cpu
    totals[Total.FREE_MEMORY] = totals[Total.ALL_MEMORY] = machines * cell.memory_mb
    seeds = np.random.SeedSequence([seed, 1]).generate_state(schedulers, np.uint64)
    decision_s, decision_task_s = _decision_times(architecture, workload, decision)
    # decisions, retries of all jobs, ends of claims, and offers
    events = schedulers + jobs + tasks + 2 * offers + 1
    mode = [architecture.shared_state, architecture.coarse, architecture.gang]

    def of_jobs(kind: type[np.generic], fill: float = 0) -> np.ndarray:
        return np.full(jobs, fill, kind)

    def of_schedulers(kind: type[np.generic], fill: float = 0) -> np.ndarray:
        return np.full(schedulers, fill, kind)

    def of_pairs(kind: type[np.generic]) -> np.ndarray:
        return np.zeros((schedulers, machines), kind)

    return CellState(
        mode=np.array(mode, np.int32),
        totals=totals,
        clock_s=np.zeros(3),
        free_cpu=free_cpu,
        free_memory=free_memory,
        arrival_s=workload.arrival_s,
        scheduler=_dealt(architecture, workload),
        tasks=workload.tasks,
        duration_s=workload.duration_s,
        cpu=workload.cpu,
        memory=workload.memory,
        decision_s=decision_s,
        decision_task_s=decision_task_s,
        left=workload.tasks.copy(),
        attempts=of_jobs(np.int32),
        waited_s=of_jobs(np.float64, -1.0),
        next=of_jobs(np.int32, -1),
        head=of_schedulers(np.int32, -1),
        tail=of_schedulers(np.int32, -1),
        deciding=of_schedulers(np.int32, -1),
        took_s=of_schedulers(np.float64),
        random=(seeds >> np.uint64(1)).astype(np.int64) | 1,
        pool=np.tile(np.arange(machines, dtype=np.int32), (schedulers, 1)),
        epoch=of_schedulers(np.int32),
        stamp=of_pairs(np.int32),
        more_cpu=of_pairs(np.int64),
        more_memory=of_pairs(np.int64),
        more_cpu_in_all=of_schedulers(np.int64),
        raised=of_pairs(np.int32),
        useful_s=of_schedulers(np.float64),
        wasted_s=of_schedulers(np.float64),
        successes=of_schedulers(np.int64),
        failures=of_schedulers(np.int64),
        failed_claims=of_schedulers(np.int64),
        empty=of_schedulers(np.int64),
        abandoned=of_schedulers(np.int64),
        chosen=np.empty(int(workload.tasks.max(initial=1)), np.int32),
        claim_start=np.empty(tasks + 1, np.int32),
        claim_count=np.empty(tasks + 1, np.int32),
        claim_job=np.empty(tasks + 1, np.int32),
        claim_next=np.empty(tasks + 1, np.int32),
        claim_machines=np.empty(tasks + 1, np.int32),
        event_s=np.empty(events),
        event_order=np.empty(events, np.int64),
        event_kind=np.empty(events, np.int32),
        event_subject=np.empty(events, np.int32),
        held_cpu=of_schedulers(np.int64),
        held_memory=of_schedulers(np.int64),
        requested=of_schedulers(np.int64, -1),
        offer_scheduler=np.full(offers + 1, -1, np.int32),
        offer_claims=np.full(offers + 1, -1, np.int32),
    )


def _dealt(architecture: Architecture, workload: CellWorkload) -> I32:
    """Return the scheduler of each job: those that serve its kind in turn."""
    dealt = np.empty(len(workload), np.int32)
    for kind, serving in architecture.serves.items():
        own = np.flatnonzero(workload.kind == kind)
        dealt[own] = np.array(serving, np.int32)[np.arange(len(own)) % len(serving)]
    return dealt


def _decision_times(
    architecture: Architecture, workload: CellWorkload, decision: Mapping[JobKind, DecisionTime]
) -> tuple[F64, F64]:
    """Return t_job and t_task of each job."""
    kinds = [kind if architecture.multi_path else JobKind.SERVICE for kind in JobKind]
    job_s = np.array([decision[kind].job_s for kind in kinds])
    task_s = np.array([decision[kind].task_s for kind in kinds])
    return job_s[workload.kind], task_s[workload.kind]
