"""Jobs of a cell, drawn before any architecture runs, so that all run the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8

DAY_S: Final = 86_400.0


class JobKind(IntEnum):
    """The two kinds of jobs of Omega's section 2.1, and those of the specialised scheduler of its section 6."""

    BATCH = 0
    SERVICE = 1
    MAPREDUCE = 2


@dataclass(frozen=True, slots=True)
class Activities:
    """What MapReduce jobs do on their workers; a value for each job of a workload, 0 for what is no such job.

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
    """Jobs in order of arrival, each with tasks that are alike.

    Attributes:
        arrival_s: from the start of the run.
        kind: of `JobKind`.
        tasks: at least 1.
        duration_s: of each task.
        cpu: of a task, in thousandths of a CPU.
        memory: of a task, in MB.
        activities: of MapReduce jobs, whose tasks are the workers that were asked for; None: there are none.
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
    """How the jobs of one kind are drawn: exponential gaps, tasks (rounded up) and durations.

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
"""Of the reference simulator's synthetic workload; its runs show that a service job's tasks and duration are joint."""

TASK_CPU: Final = 1000
TASK_MEMORY_MB: Final = 2048


def drawn(
    seed: int,
    duration_s: float = DAY_S,
    batch_rate_factor: float = 1.0,
    *,
    batch: Draw = BATCH,
    service: Draw = SERVICE,
) -> CellWorkload:
    """Draw the jobs that arrive in a run.

    Args:
        seed: of the draw
        duration_s: of the run
        batch_rate_factor: by how much batch jobs come more often
        batch: how batch jobs are drawn
        service: how service jobs are drawn
    """
    batches, services = np.random.SeedSequence(seed).spawn(2)
    return merged(
        [
            _drawn(np.random.default_rng(batches), JobKind.BATCH, batch, batch.gap_s / batch_rate_factor, duration_s),
            _drawn(np.random.default_rng(services), JobKind.SERVICE, service, service.gap_s, duration_s),
        ]
    )


def merged(parts: Sequence[CellWorkload]) -> CellWorkload:
    """Return the jobs of several workloads in order of arrival, those of the first first where they come together."""
    order = np.argsort(np.concatenate([part.arrival_s for part in parts]), kind="stable")

    def all_of(values: Callable[[CellWorkload], np.ndarray]) -> np.ndarray:
        return np.concatenate([values(part) for part in parts])[order]

    def all_activities(name: str, kind: type[np.generic]) -> np.ndarray:
        return all_of(
            lambda part: np.zeros(len(part), kind) if part.activities is None else getattr(part.activities, name)
        )

    activities = None
    if any(part.activities is not None for part in parts):
        activities = Activities(
            all_activities("maps", np.int32),
            all_activities("map_s", np.float64),
            all_activities("reduces", np.int32),
            all_activities("reduce_s", np.float64),
        )
    return CellWorkload(
        all_of(lambda part: part.arrival_s),
        all_of(lambda part: part.kind),
        all_of(lambda part: part.tasks),
        all_of(lambda part: part.duration_s),
        all_of(lambda part: part.cpu),
        all_of(lambda part: part.memory),
        activities,
    )


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
