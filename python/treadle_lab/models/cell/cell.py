"""Runs a cell's workload under an architecture, and says how long jobs waited and how busy schedulers were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32
from treadle.policy.mapreduce_workers import WorkerPolicy
from treadle_lab.models.cell.architectures import ARCHITECTURES, Architecture, with_specialist
from treadle_lab.models.cell.offers import run_offers
from treadle_lab.models.cell.running import NOTHING_RUNS, RunningJobs, place_running
from treadle_lab.models.cell.shared_state import run_shared_state
from treadle_lab.models.cell.state import CellState
from treadle_lab.models.cell.tables import Cell as Cell
from treadle_lab.models.cell.tables import DecisionTime as DecisionTime
from treadle_lab.models.cell.tables import new_state, odd
from treadle_lab.models.cell.workload import DAY_S, CellWorkload, JobKind, drawn

Flags = npt.NDArray[np.bool_]

SAMPLE_S: Final = 60.0
"""Between two samples of how much of the cell is used."""


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
    """The result of a run.

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


@dataclass(frozen=True, slots=True, eq=False)
class Details:
    """Each job's outcome, and the usage at each instant.

    Attributes:
        workers: tasks of each job of the workload; of a MapReduce job the workers that it was given.
        tried: whether each job had an attempt.
        used: the share of the cell's CPU that was used at 0, `SAMPLE_S`, 2 x `SAMPLE_S`, ...
    """

    workers: I32
    tried: Flags
    used: F64


def simulate_cell(
    cell: Cell,
    architecture: Architecture,
    workload: CellWorkload,
    decision: Mapping[JobKind, DecisionTime],
    *,
    running: RunningJobs = NOTHING_RUNS,
    duration_s: float = DAY_S,
    seed: int = 0,
) -> Outcome:
    """Run a workload.

    Args:
        cell: the machines
        architecture: who schedules
        workload: the jobs
        decision: how long decisions take, by kind of job, else `DEFAULT_DECISION`; a single path takes the service
            jobs' for all
        running: jobs that run at the start; without any the cell is empty
        duration_s: of the run
        seed: of the schedulers' choice of machines

    Raises:
        ValueError: what runs at the start has no room in the cell.
    """
    state = new_state(cell, architecture, workload, running, decision, WorkerPolicy.AS_REQUESTED, seed)
    _run(state, architecture, duration_s, seed)
    return _outcome(cell, architecture, workload, state, duration_s)


def simulate_specialist(
    cell: Cell,
    workload: CellWorkload,
    workers: WorkerPolicy,
    *,
    running: RunningJobs = NOTHING_RUNS,
    duration_s: float = DAY_S,
    seed: int = 0,
) -> tuple[Outcome, Details]:
    """Run a workload under shared state with a scheduler of its own for MapReduce jobs, which gives them workers.

    Args:
        cell: the machines
        workload: the jobs, with the activities of those of MapReduce
        workers: how many each of these gets
        running: jobs that run at the start
        duration_s: of the run
        seed: of the schedulers' choice of machines

    Raises:
        ValueError: what runs at the start has no room in the cell.
    """
    architecture = with_specialist()
    samples = 1 + int(duration_s // SAMPLE_S)
    state = new_state(cell, architecture, workload, running, {}, workers, seed, samples, SAMPLE_S)
    _run(state, architecture, duration_s, seed)
    jobs = len(workload)
    details = Details(state.tasks[:jobs], state.attempts[:jobs] > 0, state.used / (cell.machines * cell.cpu))
    return _outcome(cell, architecture, workload, state, duration_s), details


def _run(state: CellState, architecture: Architecture, duration_s: float, seed: int) -> None:
    """Place what runs at the start, then run."""
    if len(state.tasks) > len(state.arrival_s):
        without = place_running(state, int(odd(np.random.SeedSequence([seed, 2]).generate_state(1, np.uint64))[0]))
        if without:
            raise ValueError(f"{without} tasks that run at the start have no room in the cell")
    (run_offers if architecture.offers else run_shared_state)(state, float(duration_s))


def _outcome(
    cell: Cell, architecture: Architecture, workload: CellWorkload, state: CellState, duration_s: float
) -> Outcome:
    jobs = len(workload)
    tried = state.attempts[:jobs] > 0
    wait_s, unscheduled = {}, {}
    for kind in JobKind:
        own = workload.kind == kind
        wait_s[kind] = float(state.waited_s[:jobs][own & tried].mean()) if (own & tried).any() else 0.0
        unscheduled[kind] = float((state.left[:jobs][own] > 0).mean()) if own.any() else 0.0
    return Outcome(
        wait_s,
        unscheduled,
        float(state.clock_s[2]) / (cell.machines * cell.cpu * duration_s),
        tuple(_scheduler(state, at, name, duration_s) for at, name in enumerate(architecture.schedulers)),
    )


def warm_up() -> None:
    """Compile, or read what was compiled before, so that no run's time has it."""
    workload = drawn(0, 100.0)
    for name in ("mono1", "mesos"):
        simulate_cell(Cell(10), ARCHITECTURES[name], workload, dict.fromkeys(JobKind, DecisionTime()), duration_s=1.0)


def warm_up_specialist() -> None:
    """Compile what `simulate_specialist` needs, or read what was compiled before."""
    warm_up()
    nothing = np.array([1], np.int32), np.array([np.inf]), np.array([1], np.int64), np.array([1], np.int64)
    simulate_specialist(
        Cell(1), drawn(0, 1.0), WorkerPolicy.AS_REQUESTED, running=RunningJobs(*nothing), duration_s=1.0
    )


def _scheduler(state: CellState, at: int, name: str, duration_s: float) -> SchedulerOutcome:
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
