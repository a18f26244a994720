"""A cell with an architecture of schedulers: its jobs, its tables, and its simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64, U8
from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.models.cell_state import (
    NOTHING_RUNS,
    OFFER_CPU_MIN,
    CellState,
    RunningJobs,
    Total,
    place_running,
    run_cell,
)
from treadle_lab.models.kernels import blank

DAY_S: Final = 86_400.0


class JobKind(IntEnum):
    """The two kinds of jobs of Omega's section 2.1, and those of the specialised scheduler of its section 6."""

    BATCH = 0
    SERVICE = 1
    MAPREDUCE = 2


@dataclass(frozen=True, slots=True)
class Activities:
    """Activities of MapReduce jobs on their workers; a value for each job of a workload, 0 for other jobs.

    Attributes:
        maps: map activities.
        map_s: mean duration of one.
        reduces: reduce activities.
        reduce_s: mean duration of one.
    """

    maps: I32
    map_s: F64
    reduces: I32
    reduce_s: F64


@dataclass(frozen=True, slots=True)
class CellWorkload:
    """Jobs in order of arrival, each with identical tasks.

    Attributes:
        arrival_s: from the start of the run.
        kind: of `JobKind`.
        tasks: at least 1.
        duration_s: of each task.
        cpu: of a task, in thousandths of a CPU.
        memory: of a task, in MB.
        activities: of MapReduce jobs, whose tasks are the requested workers; None: there are none.
    """

    arrival_s: F64
    kind: U8
    tasks: I32
    duration_s: F64
    cpu: I64
    memory: I64
    activities: Activities | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)


@dataclass(frozen=True, slots=True)
class Draw:
    """Distributions of the jobs of one kind: exponential gaps, tasks (rounded up) and durations.

    Attributes:
        gap_s: mean time between two arrivals.
        tasks: mean number of tasks.
        duration_s: mean duration.
        joint: tasks and duration of a job come from one draw u, -mean x ln u each, so that wide jobs are long.
    """

    gap_s: float
    tasks: float
    duration_s: float
    joint: bool = False


BATCH: Final = Draw(gap_s=10.0, tasks=100.0, duration_s=100.0)
SERVICE: Final = Draw(gap_s=20.0, tasks=10.0, duration_s=500.0, joint=True)
"""Service jobs of the reference simulator's synthetic workload; its runs show that tasks and duration are joint."""

TASK_CPU: Final = 1000
TASK_MEMORY_MB: Final = 2048


def drawn(seed: int, duration_s: float = DAY_S, batch_rate_factor: float = 1.0) -> CellWorkload:
    """Draw the jobs that arrive in a run.

    Args:
        seed: of the draw
        duration_s: of the run
        batch_rate_factor: by how much batch jobs come more often
    """
    batches, services = np.random.SeedSequence(seed).spawn(2)
    return merged(
        [
            _drawn(np.random.default_rng(batches), JobKind.BATCH, BATCH, BATCH.gap_s / batch_rate_factor, duration_s),
            _drawn(np.random.default_rng(services), JobKind.SERVICE, SERVICE, SERVICE.gap_s, duration_s),
        ]
    )


def merged(parts: Sequence[CellWorkload]) -> CellWorkload:
    """Return the jobs of several workloads in order of arrival, those of the first first where they come together."""
    order = np.argsort(np.concatenate([part.arrival_s for part in parts]), kind="stable")

    def columns(names: Sequence[str], rows: Sequence[Any]) -> dict[str, Any]:
        return {name: np.concatenate([getattr(row, name) for row in rows])[order] for name in names}

    activities = None
    if any(part.activities is not None for part in parts):
        known = [part.activities or _no_activities(len(part)) for part in parts]
        activities = Activities(**columns(Activities.__slots__, known))
    return CellWorkload(**columns(CellWorkload.__slots__[:-1], parts), activities=activities)


def _no_activities(jobs: int) -> Activities:
    return Activities(np.zeros(jobs, np.int32), np.zeros(jobs), np.zeros(jobs, np.int32), np.zeros(jobs))


def arrivals(gaps_s: Callable[[int], F64], mean_s: float, duration_s: float) -> F64:
    """Return when jobs arrive in a run: sums of gaps.

    Args:
        gaps_s: draws this many gaps
        mean_s: roughly the mean of them
        duration_s: of the run
    """
    found: list[F64] = []
    last_s = 0.0
    while last_s < duration_s:
        more_s = gaps_s(max(64, int((duration_s - last_s) / mean_s)))
        found.append(last_s + np.cumsum(more_s))
        last_s = float(found[-1][-1])
    arrival_s = np.concatenate(found)
    return arrival_s[arrival_s < duration_s]


def _drawn(random: np.random.Generator, kind: JobKind, draw: Draw, gap_s: float, duration_s: float) -> CellWorkload:
    """Draw the jobs of one kind."""
    arrival_s = arrivals(lambda count: random.exponential(gap_s, count), gap_s, duration_s)
    jobs = len(arrival_s)
    size = -np.log(1.0 - random.random(jobs))
    length = size if draw.joint else -np.log(1.0 - random.random(jobs))
    return CellWorkload(
        arrival_s,
        np.full(jobs, kind, np.uint8),
        np.maximum(1.0, np.ceil(draw.tasks * size)).astype(np.int32),
        draw.duration_s * length,
        np.full(jobs, TASK_CPU, np.int64),
        np.full(jobs, TASK_MEMORY_MB, np.int64),
    )


@dataclass(frozen=True, slots=True)
class Architecture:
    """Schedulers over a cell.

    Attributes:
        name: as in tables of results.
        schedulers: their names; the kinds of jobs that each serves follow from `serves`.
        serves: for each kind of job the places of the schedulers that serve it, in turn.
        multi_path: a decision takes as long as its job's kind says; without it all take as long as a service job's.
        shared_state: several schedulers with private copies, which commit optimistically.
        offers: two levels, as in Mesos.
        coarse: a claim conflicts if its machine's sequence number has changed.
        gang: all claims of a transaction or none.
    """

    name: str
    schedulers: tuple[str, ...]
    serves: Mapping[JobKind, tuple[int, ...]]
    multi_path: bool = True
    shared_state: bool = False
    offers: bool = False
    coarse: bool = False
    gang: bool = False


def shared_state(name: str, batch: int = 1, *, coarse: bool = False, gang: bool = False) -> Architecture:
    """Return Omega's architecture with this many batch schedulers, among which batch jobs are dealt round robin."""
    names = ("S", *(f"B{number}" for number in range(1, batch + 1)))
    serves = {JobKind.SERVICE: (0,), JobKind.BATCH: tuple(range(1, batch + 1))}
    return Architecture(name, names, serves, shared_state=True, coarse=coarse, gang=gang)


def with_specialist() -> Architecture:
    """Return Omega's architecture with a scheduler of its own for MapReduce jobs (section 6)."""
    serves = {JobKind.SERVICE: (0,), JobKind.BATCH: (1,), JobKind.MAPREDUCE: (2,)}
    return Architecture("omega-mapreduce", ("S", "B1", "M1"), serves, shared_state=True)


_ALL = {JobKind.BATCH: (0,), JobKind.SERVICE: (0,)}

ARCHITECTURES: Final[dict[str, Architecture]] = {
    one.name: one
    for one in (
        Architecture("mono1", ("M",), _ALL, multi_path=False),
        Architecture("mono2", ("M",), _ALL),
        Architecture("mesos", ("S", "B"), {JobKind.SERVICE: (0,), JobKind.BATCH: (1,)}, offers=True),
        shared_state("omega"),
        shared_state("omega-seq", coarse=True),
        shared_state("omega-aon", gang=True),
        shared_state("omega-seq-aon", coarse=True, gang=True),
        shared_state("omega4", 4),
    )
}
"""The architectures of the reference's runs; `shared_state` makes others."""


MACHINE_CPU: Final = 4_000
MACHINE_MEMORY_MB: Final = 16_384


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """t_job + t_task x tasks, in seconds (section 4)."""

    job_s: float = 0.1
    task_s: float = 0.005


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of equal machines.

    Attributes:
        machines: how many.
        cpu: of each, in thousandths of a CPU.
        memory_mb: of each.
    """

    machines: int
    cpu: int = MACHINE_CPU
    memory_mb: int = MACHINE_MEMORY_MB


DEFAULT_DECISION: Final = DecisionTime()


def new_state(
    cell: Cell,
    architecture: Architecture,
    workload: CellWorkload,
    running: RunningJobs,
    decision: Mapping[JobKind, DecisionTime],
    workers: WorkerPolicy,
    seed: int,
    samples: int = 0,
    sample_s: float = 0.0,
) -> CellState:
    """Return the tables of a run at its start, with nothing placed yet."""
    machines, schedulers = cell.machines, len(architecture.schedulers)
    # what is locked in offers that are out together is each at least what is worth an offer
    offers = 1 + machines * cell.cpu // OFFER_CPU_MIN if architecture.offers else 0
    free_cpu = np.zeros((1 + offers, machines), np.int64)
    free_memory = np.zeros((1 + offers, machines), np.int64)
    free_cpu[0] = cell.cpu
    free_memory[0] = cell.memory_mb
    totals = np.zeros(len(Total), np.int64)
    totals[Total.FREE_CPU] = totals[Total.ALL_CPU] = machines * cell.cpu
    totals[Total.FREE_MEMORY] = totals[Total.ALL_MEMORY] = machines * cell.memory_mb
    most = _most_tasks(workload, running, workers)
    claims = int(most.sum()) + len(running) + 1
    # decisions, retries of all jobs, ends of claims, and offers
    events = schedulers + len(workload) + claims + 2 * offers
    mode = [architecture.shared_state, architecture.coarse, architecture.gang, workers, architecture.offers]
    seeds = np.random.SeedSequence([seed, 1]).generate_state(schedulers, np.uint64)
    none = {name: np.full(schedulers, -1, np.int32) for name in ("head", "tail", "deciding")}
    none |= {name: np.full(offers + 1, -1, np.int32) for name in ("offer_scheduler", "offer_claims")}
    sizes = {"R": len(most), "M": machines, "S": schedulers, "O": offers + 1, "U": samples}
    return blank(
        CellState,
        {**sizes, "W": int(most.max(initial=1)), "T": claims, "E": events},
        mode=np.array(mode, np.int32),
        totals=totals,
        clock_s=np.array([0.0, 0.0, 0.0, sample_s]),
        free_cpu=free_cpu,
        free_memory=free_memory,
        **_of_jobs(architecture, workload, running, decision),
        **none,
        random=odd(seeds),
        pool=np.tile(np.arange(machines, dtype=np.int32), (schedulers, 1)),
        requested=np.full(schedulers, -1, np.int64),
    )


def _most_tasks(workload: CellWorkload, running: RunningJobs, workers: WorkerPolicy) -> I32:
    """Return how many tasks each job can have at most."""
    most = workload.tasks
    if workers != WorkerPolicy.AS_REQUESTED and workload.activities is not None:
        most = np.maximum(most, np.maximum(workload.activities.maps, workload.activities.reduces))
    return np.concatenate([most, running.tasks])


def _of_jobs(
    architecture: Architecture, workload: CellWorkload, running: RunningJobs, decision: Mapping[JobKind, DecisionTime]
) -> dict[str, Any]:
    """Return the columns of jobs, those that run at the start last."""
    jobs, started = len(workload), len(running)
    kinds = [kind if architecture.multi_path else JobKind.SERVICE for kind in JobKind]
    decisions = [decision.get(kind, DEFAULT_DECISION) for kind in kinds]
    activities = workload.activities or _no_activities(jobs)
    tasks = np.concatenate([workload.tasks, running.tasks])

    def padded(values: np.ndarray, fill: float = 0) -> np.ndarray:
        return np.concatenate([values, np.full(started, fill, values.dtype)])

    return {
        "arrival_s": workload.arrival_s,
        "scheduler": padded(_dealt(architecture, workload), -1),
        "tasks": tasks,
        "duration_s": np.concatenate([workload.duration_s, running.left_s]),
        "cpu": np.concatenate([workload.cpu, running.cpu]),
        "memory": np.concatenate([workload.memory, running.memory]),
        "decision_s": padded(np.array([one.job_s for one in decisions])[workload.kind]),
        "decision_task_s": padded(np.array([one.task_s for one in decisions])[workload.kind]),
        "left": tasks.copy(),
        "waited_s": np.full(jobs + started, -1.0),
        "next": np.full(jobs + started, -1, np.int32),
        "maps": padded(activities.maps),
        "reduces": padded(activities.reduces),
        "map_s": padded(activities.map_s),
        "reduce_s": padded(activities.reduce_s),
    }


def odd(seeds: np.ndarray) -> np.ndarray:
    """Return the states that xorshift starts from: positive and not 0."""
    return (seeds >> np.uint64(1)).astype(np.int64) | 1


def _dealt(architecture: Architecture, workload: CellWorkload) -> I32:
    """Return the scheduler of each job: those that serve its kind in turn."""
    dealt = np.empty(len(workload), np.int32)
    served = np.zeros(len(workload), np.bool_)
    for kind, serving in architecture.serves.items():
        own = np.flatnonzero(workload.kind == kind)
        dealt[own] = np.array(serving, np.int32)[np.arange(len(own)) % len(serving)]
        served[own] = True
    if not served.all():
        raise ValueError(f"{architecture.name}: no scheduler serves jobs of kind {workload.kind[~served][0]}")
    return dealt


Flags = npt.NDArray[np.bool_]

SAMPLE_S: Final = 60.0
"""Between two samples of how much of the cell is used."""


@dataclass(frozen=True, slots=True)
class SchedulerOutcome:
    """The results of one scheduler.

    Attributes:
        name: of the scheduler.
        busyness: decision time of attempts that found room, over the time of the run.
        successes: transactions without a conflict.
        failures: transactions with one.
        failed_claims: tasks whose claims failed or were undone.
        empty: attempts that found no room.
        abandoned: jobs given up.
    """

    name: str
    busyness: float
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
    _run(state, duration_s, seed)
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
    _run(state, duration_s, seed)
    jobs = len(workload)
    details = Details(state.tasks[:jobs], state.attempts[:jobs] > 0, state.used / (cell.machines * cell.cpu))
    return _outcome(cell, architecture, workload, state, duration_s), details


def _run(state: CellState, duration_s: float, seed: int) -> None:
    """Place what runs at the start, then run."""
    if len(state.tasks) > len(state.arrival_s):
        without = place_running(state, int(odd(np.random.SeedSequence([seed, 2]).generate_state(1, np.uint64))[0]))
        if without:
            raise ValueError(f"{without} tasks that run at the start have no room in the cell")
    run_cell(state, float(duration_s))


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
    """Compile, or load compiled code, so that no run's time includes it."""
    one = np.array([1], np.int32), np.array([np.inf]), np.array([1], np.int64), np.array([1], np.int64)
    simulate_specialist(Cell(1), drawn(0, 1.0), WorkerPolicy.AS_REQUESTED, running=RunningJobs(*one), duration_s=1.0)


def _scheduler(state: CellState, at: int, name: str, duration_s: float) -> SchedulerOutcome:
    counts = ("successes", "failures", "failed_claims", "empty", "abandoned")
    busyness = (float(state.useful_s[at]) + float(state.wasted_s[at])) / duration_s
    return SchedulerOutcome(name, busyness, *(int(getattr(state, count)[at]) for count in counts))
