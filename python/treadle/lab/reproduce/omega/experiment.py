"""Runs points with several seeds, on all cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from treadle.lab.reproduce.omega.points import Point
from treadle.simulator.cell.cell import Cell, Outcome, simulate_cell, warm_up
from treadle.simulator.cell.workload import DAY_S, CellWorkload, JobKind, drawn

Progress = Callable[[int, int], None]
"""Called with (runs done, all runs)."""

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


@dataclass(frozen=True, slots=True)
class Run:
    """One point with one seed.

    Attributes:
        point: what was run.
        seed: of the workload and of the choice of machines.
        outcome: what came of it.
        wall_s: how long the run took, without drawing the workload.
    """

    point: Point
    seed: int
    outcome: Outcome
    wall_s: float

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


def run_points(points: Sequence[Point], seeds: Sequence[int], progress: Progress | None = None) -> list[Run]:
    """Run each point with each seed; the same seed draws the same jobs for every architecture.

    Args:
        points: what to run
        seeds: of each
        progress: is told how far it is

    Returns:
        Runs by point, then seed.
    """
    warm_up()
    wanted = [(point, seed) for point in points for seed in seeds]
    # by load and seed, so that each workload is drawn once
    order = sorted(range(len(wanted)), key=lambda at: (wanted[at][0].batch_rate_factor, wanted[at][1], at))
    runs: dict[int, Run] = {}
    # compiled code runs without Python's lock
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for at, run in zip(order, pool.map(lambda at: _run(*wanted[at]), order), strict=True):
            runs[at] = run
            if progress is not None:
                progress(len(runs), len(wanted))
    return [runs[at] for at in range(len(wanted))]


@lru_cache(maxsize=8)
def _workload(seed: int, batch_rate_factor: float) -> CellWorkload:
    return drawn(seed, DAY_S, batch_rate_factor)


def _run(point: Point, seed: int) -> Run:
    workload = _workload(seed, point.batch_rate_factor)
    began_s = time.perf_counter()
    outcome = simulate_cell(Cell(point.machines), point.built, workload, point.decision, seed=seed)
    return Run(point, seed, outcome, time.perf_counter() - began_s)
