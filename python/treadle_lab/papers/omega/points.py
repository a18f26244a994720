"""Points of figures, and their runs with several seeds on all cores."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, TypeVar

from treadle.errors import UserError
from treadle_lab.models.cell.cell import (
    ARCHITECTURES,
    DAY_S,
    Architecture,
    Cell,
    CellWorkload,
    DecisionTime,
    JobKind,
    Outcome,
    drawn,
    shared_state,
    simulate_cell,
    warm_up,
)
from treadle_lab.models.cell.shared_state import NOTHING_RUNS, RunningJobs
from treadle_lab.models.cores import Progress, on_all_cores

COLUMNS: Final = ("architecture", "machines", "batch_rate_factor", "t_job_service_s")
MACHINES_MAX: Final = 100_000
FACTOR_MAX: Final = 100.0
POINTS_MAX: Final = 100_000
REMEDY: Final = f"a line is {','.join(COLUMNS)}, such as omega,500,1,10"


@dataclass(frozen=True, slots=True)
class Point:
    """What a run is of.

    Attributes:
        architecture: a name of `ARCHITECTURES`, or omegaN for N batch schedulers.
        machines: of the cell.
        batch_rate_factor: by how much batch jobs come more often than every 10 s.
        t_job_service_s: decision time of a service job (of every job with a single path), without its tasks.
        t_task_service_s: for each task of it.
        t_job_batch_s: decision time of a batch job.
    """

    architecture: str
    machines: int
    batch_rate_factor: float
    t_job_service_s: float
    t_task_service_s: float = 0.005
    t_job_batch_s: float = 0.1

    @property
    def built(self) -> Architecture:
        """The architecture."""
        found = ARCHITECTURES.get(self.architecture)
        if found is not None:
            return found
        count = int(self.architecture.removeprefix("omega"))
        return shared_state(self.architecture, f"shared state, {count} batch schedulers", count)

    @property
    def decision(self) -> dict[JobKind, DecisionTime]:
        """Decision times by kind of job."""
        return {
            JobKind.BATCH: DecisionTime(self.t_job_batch_s),
            JobKind.SERVICE: DecisionTime(self.t_job_service_s, self.t_task_service_s),
        }


def read_points(file: Path) -> list[Point]:
    """Read points of a CSV with a header, whose first four columns are `COLUMNS`; further columns are passed over.

    A point that stands there several times, as in a file of results, is one.

    Raises:
        UserError: what is wrong, with file, line and remedy.
    """
    found: dict[Point, None] = {}
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = csv.reader(stream)
            header = [name.strip() for name in next(rows, [])]
            if tuple(header[:4]) != COLUMNS:
                raise UserError(
                    f"{file}, line 1: the header is {','.join(header[:4])!r}; it must begin {','.join(COLUMNS)}"
                )
            for row in rows:
                if any(cell.strip() for cell in row):
                    found[_point(f"{file}, line {rows.line_num}", row)] = None
                if len(found) > POINTS_MAX:
                    raise UserError(f"{file}, line {rows.line_num}: more than {POINTS_MAX} points; make several files")
    except OSError as error:
        raise UserError(f"--points: {file}: {error.strerror}; name a CSV of points") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"--points: {file} is no CSV in UTF-8: {error}; {REMEDY}") from None
    if not found:
        raise UserError(f"--points: {file} has no point; {REMEDY}")
    return list(found)


def _point(where: str, row: Sequence[str]) -> Point:
    if len(row) < len(COLUMNS):
        raise UserError(f"{where}: {len(row)} columns; {REMEDY}")
    name = row[0].strip()
    if name not in ARCHITECTURES:
        raise UserError(f"{where}: architecture {name!r} is none; choose of {', '.join(ARCHITECTURES)}")
    machines = _number(where, row, 1, lambda value: value == int(value) and 1 <= value <= MACHINES_MAX)
    factor = _number(where, row, 2, lambda value: 0 < value <= FACTOR_MAX)
    t_job_s = _number(where, row, 3, lambda value: 0 <= value <= 1e6)
    return Point(name, int(machines), factor, t_job_s)


_RANGES: Final = (
    "",
    f"a whole number from 1 to {MACHINES_MAX}",
    f"above 0 and at most {FACTOR_MAX:g}",
    "0 to 1,000,000",
)


def _number(where: str, row: Sequence[str], at: int, holds: Callable[[float], bool]) -> float:
    try:
        value = float(row[at])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not holds(value):
        raise UserError(f"{where}: {COLUMNS[at]} is {row[at].strip()!r}; it must be {_RANGES[at]}")
    return value


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
