"""The tables of a run, made of its cell, its architecture and its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import I32
from treadle.policy.mapreduce_workers import WorkerPolicy
from treadle.simulator.event_queue import event_columns
from treadle_lab.models.cell.architectures import Architecture
from treadle_lab.models.cell.offers import OFFER_CPU_MIN
from treadle_lab.models.cell.running import RunningJobs
from treadle_lab.models.cell.state import CellState, Total
from treadle_lab.models.cell.workload import Activities, CellWorkload, JobKind

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
    mode = [architecture.shared_state, architecture.coarse, architecture.gang, workers]
    return CellState(
        mode=np.array(mode, np.int32),
        totals=totals,
        clock_s=np.array([0.0, 0.0, 0.0, sample_s]),
        used=np.zeros(samples, np.int64),
        free_cpu=free_cpu,
        free_memory=free_memory,
        **_of_jobs(architecture, workload, running, decision),
        **_of_schedulers(schedulers, machines, seed),
        chosen=np.empty(int(most.max(initial=1)), np.int32),
        claim_start=np.empty(claims, np.int32),
        claim_count=np.empty(claims, np.int32),
        claim_job=np.empty(claims, np.int32),
        claim_next=np.empty(claims, np.int32),
        claim_machines=np.empty(claims, np.int32),
        **event_columns(events),
        offer_scheduler=np.full(offers + 1, -1, np.int32),
        offer_cpu=np.zeros(offers + 1, np.int64),
        offer_memory=np.zeros(offers + 1, np.int64),
        offer_claims=np.full(offers + 1, -1, np.int32),
    )


def _most_tasks(workload: CellWorkload, running: RunningJobs, workers: WorkerPolicy) -> I32:
    """Return how many tasks each job can have at most."""
    most = workload.tasks
    if workers != WorkerPolicy.AS_REQUESTED and workload.activities is not None:
        most = np.maximum(most, np.maximum(workload.activities.maps, workload.activities.reduces))
    return np.concatenate([most, running.tasks])


def _of_jobs(
    architecture: Architecture,
    workload: CellWorkload,
    running: RunningJobs,
    decision: Mapping[JobKind, DecisionTime],
) -> dict[str, Any]:
    """Return the columns of jobs, those that run at the start last."""
    jobs, started = len(workload), len(running)
    kinds = [kind if architecture.multi_path else JobKind.SERVICE for kind in JobKind]
    decisions = [decision.get(kind, DEFAULT_DECISION) for kind in kinds]
    none = Activities(np.zeros(jobs, np.int32), np.zeros(jobs), np.zeros(jobs, np.int32), np.zeros(jobs))
    activities = workload.activities or none
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
        "attempts": np.zeros(jobs + started, np.int32),
        "waited_s": np.full(jobs + started, -1.0),
        "next": np.full(jobs + started, -1, np.int32),
        "maps": padded(activities.maps),
        "reduces": padded(activities.reduces),
        "map_s": padded(activities.map_s),
        "reduce_s": padded(activities.reduce_s),
    }


def _of_schedulers(schedulers: int, machines: int, seed: int) -> dict[str, Any]:
    """Return the columns of schedulers."""

    def of_each(kind: type[np.generic], fill: float = 0) -> np.ndarray:
        return np.full(schedulers, fill, kind)

    def of_pairs(kind: type[np.generic]) -> np.ndarray:
        return np.zeros((schedulers, machines), kind)

    seeds = np.random.SeedSequence([seed, 1]).generate_state(schedulers, np.uint64)
    return {
        "head": of_each(np.int32, -1),
        "tail": of_each(np.int32, -1),
        "deciding": of_each(np.int32, -1),
        "took_s": of_each(np.float64),
        "random": odd(seeds),
        "pool": np.tile(np.arange(machines, dtype=np.int32), (schedulers, 1)),
        "epoch": of_each(np.int32),
        "stamp": of_pairs(np.int32),
        "more_cpu": of_pairs(np.int64),
        "more_memory": of_pairs(np.int64),
        "more_cpu_in_all": of_each(np.int64),
        "raised": of_pairs(np.int32),
        "useful_s": of_each(np.float64),
        "wasted_s": of_each(np.float64),
        "successes": of_each(np.int64),
        "failures": of_each(np.int64),
        "failed_claims": of_each(np.int64),
        "empty": of_each(np.int64),
        "abandoned": of_each(np.int64),
        "held_cpu": of_each(np.int64),
        "held_memory": of_each(np.int64),
        "requested": of_each(np.int64, -1),
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
