"""Runs points with several seeds, on all cores."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

from treadle.errors import UserError
from treadle_lab.models.cell.cell import Cell, Outcome, simulate_cell, warm_up
from treadle_lab.models.cell.running import NOTHING_RUNS, RunningJobs
from treadle_lab.models.cell.workload import DAY_S, CellWorkload, JobKind, drawn
from treadle_lab.models.cores import Progress, on_all_cores
from treadle_lab.papers.omega.points import Point

Row = dict[str, str | int | float]
"""A scheduler of a run; keys are `ROW_COLUMNS`."""

ROW_COLUMNS = (
    "architecture",
    "machines",
    "batch_rate_factor",
    "t_job_service_s",
    "scheduler",
    "wait_batch_s",
    "wait_service_s",
    "unscheduled_batch",
    "unscheduled_service",
    "cpu_utilisation",
    "busyness",
    "conflict_fraction",
    "successful_transactions",
    "failed_transactions",
    "failed_task_claims",
    "no_resource_attempts",
    "abandoned_jobs",
)


T = TypeVar("T")
R = TypeVar("R")


class Source(Hashable, Protocol):
    """Where jobs come from. Equal arguments give equal jobs."""

    def jobs(self, seed: int, batch_rate_factor: float) -> CellWorkload:
        """Return the jobs of a day."""
        ...

    def running(self, seed: int, cell: Cell) -> RunningJobs:
        """Return what runs in a cell at the start."""
        ...


class ReferenceDay:
    """The original simulator's workload, in a cell that is empty at the start."""

    def jobs(self, seed: int, batch_rate_factor: float) -> CellWorkload:
        """Return the jobs of a day."""
        return drawn(seed, DAY_S, batch_rate_factor)

    def running(self, seed: int, cell: Cell) -> RunningJobs:
        """Return nothing."""
        return NOTHING_RUNS


REFERENCE_DAY = ReferenceDay()


@dataclass(frozen=True, slots=True)
class Run:
    """One point with one seed.

    Attributes:
        point: what was run.
        seed: of the workload and of the choice of machines.
        outcome: its result.
        jobs: how many the day has.
        wall_s: how long the run took, without drawing the workload.
        cpu_s: the processor time that it took.
    """

    point: Point
    seed: int
    outcome: Outcome
    jobs: int
    wall_s: float
    cpu_s: float

    def rows(self) -> Iterator[Row]:
        """Yield a row for each scheduler."""
        point, outcome = self.point, self.outcome
        for scheduler in outcome.schedulers:
            values = (
                point.architecture,
                point.machines,
                point.batch_rate_factor,
                point.t_job_service_s,
                scheduler.name,
                outcome.wait_s[JobKind.BATCH],
                outcome.wait_s[JobKind.SERVICE],
                outcome.unscheduled[JobKind.BATCH],
                outcome.unscheduled[JobKind.SERVICE],
                outcome.cpu_utilisation,
                scheduler.busyness,
                scheduler.conflict_fraction,
                scheduler.successes,
                scheduler.failures,
                scheduler.failed_claims,
                scheduler.empty,
                scheduler.abandoned,
            )
            yield dict(zip(ROW_COLUMNS, values, strict=True))


def run_points(
    points: Sequence[Point], seeds: Sequence[int], progress: Progress | None = None, source: Source = REFERENCE_DAY
) -> list[Run]:
    """Run each point with each seed; the same seed draws the same jobs for every architecture.

    Args:
        points: what to run
        seeds: of each
        progress: called with the part that is done
        source: of the jobs

    Returns:
        Runs by point, then seed.
    """
    warm_up()
    wanted = [(point, seed) for point in points for seed in seeds]
    # by load and seed, so that each workload is drawn once
    order = sorted(range(len(wanted)), key=lambda at: (wanted[at][0].batch_rate_factor, wanted[at][1], at))
    done = on_all_cores(lambda at: _run(source, *wanted[at]), order, progress)
    runs = dict(zip(order, done, strict=True))
    return [runs[at] for at in range(len(wanted))]


@lru_cache(maxsize=8)
def _workload(source: Source, seed: int, batch_rate_factor: float) -> CellWorkload:
    return source.jobs(seed, batch_rate_factor)


@lru_cache(maxsize=8)
def _running(source: Source, seed: int, cell: Cell) -> RunningJobs:
    return source.running(seed, cell)


def _run(source: Source, point: Point, seed: int) -> Run:
    cell = Cell(point.machines)
    workload, running = _workload(source, seed, point.batch_rate_factor), _running(source, seed, cell)
    began_s, began_cpu_s = time.perf_counter(), time.thread_time()
    try:
        outcome = simulate_cell(cell, point.built, workload, point.decision, running=running, seed=seed)
    except ValueError as error:
        raise UserError(f"{point.architecture}, {point.machines} machines: {error}; take more machines") from None
    took_cpu_s = time.thread_time() - began_cpu_s
    return Run(point, seed, outcome, len(workload), time.perf_counter() - began_s, took_cpu_s)
