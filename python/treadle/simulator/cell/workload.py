"""Jobs of a cell, drawn before any architecture runs, so that all run the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8

DAY_S: Final = 86_400.0


class JobKind(IntEnum):
    """The two kinds of jobs of Omega's section 2.1."""

    BATCH = 0
    SERVICE = 1


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
    """

    arrival_s: F64
    kind: U8
    tasks: I32
    duration_s: F64
    cpu: I64
    memory: I64

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
    parts = [
        _drawn(np.random.default_rng(batches), batch, batch.gap_s / batch_rate_factor, duration_s),
        _drawn(np.random.default_rng(services), service, service.gap_s, duration_s),
    ]
    arrival_s = np.concatenate([part[0] for part in parts])
    order = np.argsort(arrival_s, kind="stable")
    kind = np.repeat(np.array([JobKind.BATCH, JobKind.SERVICE], np.uint8), [len(part[0]) for part in parts])
    return CellWorkload(
        arrival_s[order],
        kind[order],
        np.concatenate([part[1] for part in parts])[order].astype(np.int32),
        np.concatenate([part[2] for part in parts])[order],
        np.full(len(order), TASK_CPU, np.int64),
        np.full(len(order), TASK_MEMORY_MB, np.int64),
    )


def _drawn(random: np.random.Generator, draw: Draw, gap_s: float, duration_s: float) -> tuple[F64, F64, F64]:
    """Return arrivals, tasks and durations of the jobs of one kind."""
    arrivals: list[F64] = []
    last_s = 0.0
    while last_s < duration_s:
        gaps_s = random.exponential(gap_s, max(64, int((duration_s - last_s) / gap_s)))
        arrivals.append(last_s + np.cumsum(gaps_s))
        last_s = float(arrivals[-1][-1])
    arrival_s = np.concatenate(arrivals)
    arrival_s = arrival_s[arrival_s < duration_s]
    size = -np.log(1.0 - random.random(len(arrival_s)))
    length = size if draw.joint else -np.log(1.0 - random.random(len(arrival_s)))
    return arrival_s, np.maximum(1.0, np.ceil(draw.tasks * size)), draw.duration_s * length
