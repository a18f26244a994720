"""Points of Omega's sweeps, their jobs and their runs; a comparison with runs of the original simulator.

Jobs are those of the original simulator, or of a day like cluster C's, drawn from Google's trace.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from treadle.compiled.array_types import F64, I32, I64
from treadle.errors import UserError
from treadle.workload.clusters import JOBS_FILE, JOBS_HEADER, WINDOW_MS, GoogleEnd, google_jobs
from treadle.workload.reading import needed_file, read_rows
from treadle_lab.models.cell import (
    ARCHITECTURES,
    DAY_S,
    MACHINE_CPU,
    MACHINE_MEMORY_MB,
    Architecture,
    Cell,
    CellWorkload,
    DecisionTime,
    JobKind,
    Outcome,
    arrivals,
    drawn,
    merged,
    shared_state,
    simulate_cell,
    warm_up,
)
from treadle_lab.models.cell_state import NOTHING_RUNS, RunningJobs
from treadle_lab.models.kernels import Progress, on_all_cores


@dataclass(frozen=True, slots=True)
class Point:
    """The parameters of a run.

    Attributes:
        architecture: a name of `ARCHITECTURES`, or omegaN for N batch schedulers.
        machines: number of machines of the cell.
        batch_rate_factor: arrival rate of batch jobs, relative to one every 10 s.
        t_job_service_s: decision time of a service job (of every job with a single path), without its tasks.
        t_task_service_s: additional decision time for each of its tasks.
        t_job_batch_s: decision time of a batch job.
    """

    architecture: str
    machines: int
    batch_rate_factor: float = 1.0
    t_job_service_s: float = 0.1
    t_task_service_s: float = 0.005
    t_job_batch_s: float = 0.1

    @property
    def built(self) -> Architecture:
        """The architecture."""
        known = ARCHITECTURES.get(self.architecture)
        return known or shared_state(self.architecture, int(self.architecture.removeprefix("omega")))

    @property
    def decision(self) -> dict[JobKind, DecisionTime]:
        """Decision times by kind of job."""
        return {
            JobKind.BATCH: DecisionTime(self.t_job_batch_s),
            JobKind.SERVICE: DecisionTime(self.t_job_service_s, self.t_task_service_s),
        }


SchedulerRow = dict[str, str | int | float]
"""The figures of one scheduler in a run, by column."""


class ReferenceDay:
    """The original simulator's workload, in a cell that is empty at the start."""

    def jobs(self, seed: int, batch_rate_factor: float) -> CellWorkload:
        """Return the jobs of a day."""
        return drawn(seed, DAY_S, batch_rate_factor)

    def running(self, seed: int, cell: Cell) -> RunningJobs:
        """Return no running jobs."""
        return NOTHING_RUNS


REFERENCE_DAY = ReferenceDay()


@dataclass(frozen=True, slots=True)
class Run:
    """One point with one seed.

    Attributes:
        point: the point.
        seed: of the workload and of the choice of machines.
        outcome: its result.
    """

    point: Point
    seed: int
    outcome: Outcome

    def rows(self) -> Iterator[SchedulerRow]:
        """Yield a row for each scheduler."""
        outcome = self.outcome
        for scheduler in outcome.schedulers:
            yield {
                "scheduler": scheduler.name,
                "wait_batch_s": outcome.wait_s[JobKind.BATCH],
                "wait_service_s": outcome.wait_s[JobKind.SERVICE],
                "unscheduled_batch": outcome.unscheduled[JobKind.BATCH],
                "unscheduled_service": outcome.unscheduled[JobKind.SERVICE],
                "cpu_utilisation": outcome.cpu_utilisation,
                "busyness": scheduler.busyness,
                "conflict_fraction": scheduler.conflict_fraction,
                "successful_transactions": scheduler.successes,
                "failed_transactions": scheduler.failures,
                "failed_task_claims": scheduler.failed_claims,
                "no_resource_attempts": scheduler.empty,
                "abandoned_jobs": scheduler.abandoned,
            }


def run_points(
    points: Sequence[Point], seeds: Sequence[int], progress: Progress | None = None, source: Source = REFERENCE_DAY
) -> list[Run]:
    """Run each point with each seed; the same seed draws the same jobs for every architecture.

    Args:
        points: the points
        seeds: the seeds of each point
        progress: see `Progress`
        source: draws the jobs; equal arguments give equal jobs

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
    try:
        outcome = simulate_cell(cell, point.built, workload, point.decision, running=running, seed=seed)
    except ValueError as error:
        raise UserError(f"{point.architecture}, {point.machines} machines: {error}; take more machines") from None
    return Run(point, seed, outcome)


MACHINES: Final = 12_500
"""About as many as the traced cell had."""
BATCH_PRIORITY_MAX: Final = 8
"""Jobs of this priority and below are batch jobs: low priority or best effort (section 2.1)."""
START_PERCENT: Final = 60
LARGEST_CPU: Final = 2 * MACHINE_CPU
LARGEST_MEMORY_MB: Final = 2 * MACHINE_MEMORY_MB
"""Memory of the largest machine, of which the trace's requests are fractions; most traced machines had half of it."""
HOLE_S: Final = (19.654 * 3600, 21.047 * 3600)
"""A part of the trace that the extract does not have: no gap between jobs spans it."""
QUANTILES: Final = 1_001


@dataclass(frozen=True, slots=True, eq=False)
class Distributions:
    """Distributions of jobs of one kind, as quantiles."""

    gap_s: F64
    tasks: F64
    duration_s: F64


@dataclass(frozen=True, slots=True, eq=False)
class GoogleDay:
    """A source of days, drawn from Google's trace of 2011.

    Attributes:
        kinds: distributions of the jobs of each kind.
        tasks: of each job of the trace.
        cpu: of each of its tasks, in thousandths of a CPU.
        memory: of each of its tasks, in MB.
        left_s: remaining time of each job that was running at the start of the trace.
        start_percent: used percentage of the cell's CPU at the start.
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
        """Return the running jobs of a cell at the start; together they use exactly `start_percent` of the CPU.

        Jobs are drawn from the trace, each with its remaining time, until the next would be too large; of that one as
        many tasks run as fit, and one more with the rest.

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


Source: TypeAlias = ReferenceDay | GoogleDay


def google_left_s(path: Path) -> F64:
    """Return the remaining time of each job that runs when the trace's window begins; infinite: beyond its 29 days.

    Args:
        path: the jobs table, or the folder with it.

    Raises:
        WorkloadError: there is no jobs table, or a row is wrong.
    """
    table = needed_file(path, JOBS_FILE, "name the folder of the Google 2011 extract") if path.is_dir() else path
    left_s = []
    for _, row in read_rows(table, GoogleEnd, JOBS_HEADER):
        if row.submit_ms > WINDOW_MS:
            break
        if row.end_ms is None or row.end_ms > WINDOW_MS:
            left_s.append(np.inf if row.end_ms is None else (row.end_ms - WINDOW_MS) / 1000)
    return np.array(left_s)


def read_google_day(folder: Path) -> GoogleDay:
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
        _whole_units(np.array([row.cpu for row in rows]), LARGEST_CPU),
        _whole_units(np.array([row.memory for row in rows]), LARGEST_MEMORY_MB),
        left_s,
    )


def _quantiles(values: np.ndarray) -> F64:
    return np.asarray(np.quantile(values, np.linspace(0, 1, QUANTILES)), np.float64)


def _whole_units(shares: F64, largest: int) -> I64:
    """Return shares of the largest machine as whole units, at least 1."""
    return np.maximum(1, np.ceil(shares * largest)).astype(np.int64)


TOLERANCES: Final = {
    "wait_batch_s": 0.01,
    "wait_service_s": 0.01,
    "unscheduled_batch": 0.002,
    "unscheduled_service": 0.002,
    "cpu_utilisation": 0.005,
    "busyness": 0.002,
    "conflict_fraction": 0.003,
}
"""Compared figures with their tolerance in addition to random variation."""

DEVIATIONS: Final = 4.0
"""How many standard deviations of the difference count as random variation."""

Key = tuple[Point, str]
"""A point and the name of a scheduler."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one scheduler at one point, ours and the original's."""

    point: Point
    scheduler: str
    figure: str
    ours: Sequence[float]
    """A value by seed."""
    theirs: Sequence[float]

    @property
    def means(self) -> tuple[float, float]:
        """Return both means over seeds."""
        return float(np.mean(self.ours)), float(np.mean(self.theirs))

    @property
    def tolerance(self) -> float:
        """Return the maximum difference of the means: 4 sd sqrt(1/n + 1/m), with the larger deviation, and a margin."""
        n, m = len(self.ours), len(self.theirs)
        sd = max(float(np.std(each, ddof=1)) if len(each) > 1 else 0.0 for each in (self.ours, self.theirs))
        return DEVIATIONS * sd * sqrt(1 / n + 1 / m) + TOLERANCES[self.figure]

    @property
    def within(self) -> bool:
        """Whether the means differ by at most the tolerance."""
        ours, theirs = self.means
        return abs(ours - theirs) <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Return it as a row of a document."""
        ours, theirs = self.means
        facts = {"scheduler": self.scheduler, "figure": self.figure, "ours": ours, "theirs": theirs}
        return asdict(self.point) | facts | {"tolerance": self.tolerance, "within": self.within}


def read_reference(file: Path) -> dict[Key, list[SchedulerRow]]:
    """Return the original's rows by point and scheduler.

    Raises:
        UserError: the file cannot be read as such.
    """
    reference: dict[Key, list[SchedulerRow]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                point = Point(
                    row["architecture"],
                    int(row["machines"]),
                    float(row["batch_rate_factor"]),
                    float(row["t_job_service_s"]),
                )
                values: SchedulerRow = {name: float(row[name]) for name in TOLERANCES}
                reference.setdefault((point, row["scheduler"]), []).append(values)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{file}: not a file of the reference's runs ({error}); see data/omega-simulator/README.md"
        ) from None
    return reference


def compare(runs: Sequence[Run], reference: Mapping[Key, list[SchedulerRow]]) -> list[Comparison]:
    """Return the comparisons of all figures of all points in both."""
    ours: dict[Key, list[SchedulerRow]] = {}
    for run in runs:
        for row in run.rows():
            ours.setdefault((run.point, str(row["scheduler"])), []).append(row)
    return [
        Comparison(*key, figure, _values(ours[key], figure), _values(theirs, figure))
        for key, theirs in reference.items()
        if key in ours
        for figure in TOLERANCES
    ]


def _values(rows: Sequence[SchedulerRow], figure: str) -> list[float]:
    return [float(row[figure]) for row in rows]
