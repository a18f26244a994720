"""A day like that of the paper's cluster C: jobs drawn from Google's trace of 2011, in a cell in use at the start.

As the paper's lightweight simulator does with traces that were not published: gaps, tasks and durations of the jobs of
each kind are drawn independently, from 1,001 quantiles with interpolation between neighbours, and shapes of tasks from
those of the jobs of the trace. What runs at the start is drawn too, until exactly so much of the cell's CPU is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64
from treadle.errors import UserError
from treadle.workload.traces.google import google_jobs, google_left_s
from treadle_lab.models.cell.cell import (
    DAY_S,
    MACHINE_CPU,
    MACHINE_MEMORY_MB,
    Cell,
    CellWorkload,
    JobKind,
    arrivals,
    merged,
)
from treadle_lab.models.cell.shared_state import RunningJobs

MACHINES: Final = 12_500
"""About as many as the traced cell had."""
BATCH_PRIORITY_MAX: Final = 8
"""Jobs of this priority and below are batch jobs: low priority or best effort (section 2.1)."""
START_PERCENT: Final = 60
LARGEST_CPU: Final = 2 * MACHINE_CPU
LARGEST_MEMORY_MB: Final = 2 * MACHINE_MEMORY_MB
"""Of the largest machine, of which the trace's asks are shares; most machines of the traced cell had half of it."""
HOLE_S: Final = (19.654 * 3600, 21.047 * 3600)
"""A part of the trace that the extract does not have: no gap between jobs spans it."""
QUANTILES: Final = 1_001


@dataclass(frozen=True, slots=True, eq=False)
class Distributions:
    """What the jobs of one kind are drawn from: quantiles."""

    gap_s: F64
    tasks: F64
    duration_s: F64


@dataclass(frozen=True, slots=True, eq=False)
class GoogleDay:
    """A source of days; see the module.

    Attributes:
        kinds: what is drawn of the jobs of each kind.
        tasks: of each job of the trace.
        cpu: of each of its tasks, in thousandths of a CPU.
        memory: of each of its tasks, in MB.
        left_s: how much longer each job ran that ran when the trace began.
        start_percent: of the cell's CPU, that is used at the start.
    """

    kinds: dict[JobKind, Distributions]
    tasks: I32
    cpu: I64
    memory: I64
    left_s: F64
    start_percent: int = START_PERCENT

    def jobs(self, seed: int, batch_rate_factor: float) -> CellWorkload:
        """Return the jobs of a day."""
        streams = np.random.SeedSequence([seed, 3]).spawn(len(self.kinds))
        factors = {JobKind.BATCH: batch_rate_factor}
        return merged(
            [
                self._drawn(np.random.default_rng(stream), kind, factors.get(kind, 1.0))
                for stream, kind in zip(streams, self.kinds, strict=True)
            ]
        )

    def running(self, seed: int, cell: Cell) -> RunningJobs:
        """Return what runs in a cell at the start; together it uses exactly `start_percent` of the CPU.

        Jobs are drawn from the trace, each with how much longer it runs, until the next would be too much; of that one
        there are as many tasks as have room, and one more that has what is left.

        Raises:
            UserError: the cell is too small for that.
        """
        random = np.random.default_rng(np.random.SeedSequence([seed, 4]))
        wanted = cell.machines * cell.cpu * self.start_percent // 100
        rows: list[int] = []
        left = wanted
        while left > 0:
            row = int(random.integers(len(self.tasks)))
            rows.append(row)
            left -= int(self.tasks[row]) * int(self.cpu[row])
        tasks, cpu, memory = self.tasks[rows].copy(), self.cpu[rows], self.memory[rows]
        left_s = random.choice(self.left_s, len(rows))
        if rows and left < 0:
            room = left + int(tasks[-1]) * int(cpu[-1])
            tasks[-1], rest = divmod(room, int(cpu[-1]))
            tasks = np.append(tasks, np.int32(rest > 0))
            cpu, memory, left_s = np.append(cpu, rest), np.append(memory, memory[-1]), np.append(left_s, left_s[-1])
        some = tasks > 0
        if int((tasks * memory)[some].sum()) > cell.machines * cell.memory_mb:
            raise UserError(
                f"a cell of {cell.machines} machines has no memory for what runs at the start of Google's day; "
                f"take more machines"
            )
        return RunningJobs(tasks[some], left_s[some], cpu[some], memory[some])

    def _drawn(self, random: np.random.Generator, kind: JobKind, factor: float) -> CellWorkload:
        """Draw the jobs of one kind."""
        tables = self.kinds[kind]

        def draw(quantiles: F64, count: int) -> F64:
            places = random.random(count) * (len(quantiles) - 1)
            return np.interp(places, np.arange(len(quantiles)), quantiles)

        mean_s = float(tables.gap_s.mean()) / factor
        arrival_s = arrivals(lambda count: draw(tables.gap_s, count) / factor, mean_s, DAY_S)
        jobs = len(arrival_s)
        tasks = np.maximum(1, np.ceil(draw(tables.tasks, jobs))).astype(np.int32)
        duration_s = draw(tables.duration_s, jobs)
        rows = random.integers(len(self.cpu), size=jobs)
        return CellWorkload(
            arrival_s, np.full(jobs, kind, np.uint8), tasks, duration_s, self.cpu[rows], self.memory[rows]
        )


def read_google_day(folder: Path, start_percent: int = START_PERCENT) -> GoogleDay:
    """Read the extract of Google's trace.

    Raises:
        UserError: it cannot be read, or is too little to draw from.
    """
    rows = list(google_jobs(folder))
    priority = np.array([row.priority for row in rows])
    submit_s = np.array([row.submit_ms for row in rows]) / 1000
    tasks = np.array([row.tasks for row in rows], np.int32)
    duration_s = np.array([row.durations_ms.mean() for row in rows]) / 1000
    kinds = {}
    for kind in (JobKind.BATCH, JobKind.SERVICE):
        own = (priority <= BATCH_PRIORITY_MAX) == (kind == JobKind.BATCH)
        arrived_s = np.sort(submit_s[own])
        spans = (arrived_s[:-1] < HOLE_S[1]) & (arrived_s[1:] > HOLE_S[0])
        gap_s = np.diff(arrived_s)[~spans]
        if not gap_s.any():
            raise UserError(f"{folder}: too few {kind.name.lower()} jobs to draw from; name the extract's folder")
        kinds[kind] = Distributions(_quantiles(gap_s), _quantiles(tasks[own]), _quantiles(duration_s[own]))
    left_s = google_left_s(folder)
    if not len(left_s):
        raise UserError(f"{folder}: no job of the jobs table runs when the trace begins; name the extract's folder")
    return GoogleDay(
        kinds,
        tasks,
        _asked(np.array([row.cpu for row in rows]), LARGEST_CPU),
        _asked(np.array([row.memory for row in rows]), LARGEST_MEMORY_MB),
        left_s,
        start_percent,
    )


def _quantiles(values: np.ndarray) -> F64:
    return np.asarray(np.quantile(values, np.linspace(0, 1, QUANTILES)), np.float64)


def _asked(shares: F64, largest: int) -> I64:
    """Return shares of the largest machine as whole units, at least 1."""
    return np.maximum(1, np.ceil(shares * largest)).astype(np.int64)
