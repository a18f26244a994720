"""Points of the sweeps: an architecture, a cell, a load, and how long decisions take. Read from CSV, or of a figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.simulator.cell.architectures import ARCHITECTURES, Architecture, shared_state
from treadle.simulator.cell.cell import DecisionTime
from treadle.simulator.cell.workload import JobKind

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


_T_JOB_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_T_TASK_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0)
_MODES = ("omega", "omega-seq", "omega-aon", "omega-seq-aon")
_MACHINES = 500
_LARGE = 5_000
"""Machines of the sweep of rates: with 500 ten times the batch jobs have no room."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper.

    Attributes:
        number: of it.
        title: what it shows.
        points: what is run for it.
        quick: what of it `--quick` runs.
    """

    number: str
    title: str
    points: tuple[Point, ...]
    quick: tuple[Point, ...]


def _over_t_job(architectures: Sequence[str], t_job_s: Sequence[float]) -> tuple[Point, ...]:
    return tuple(Point(name, _MACHINES, 1.0, t_s) for name in architectures for t_s in t_job_s)


def _rates(counts: Sequence[int], factors: Sequence[int]) -> tuple[Point, ...]:
    return tuple(Point(_omega(count), _LARGE, float(factor), 0.1) for count in counts for factor in factors)


def _surface(t_job_s: Sequence[float], t_task_s: Sequence[float]) -> tuple[Point, ...]:
    names = ("mono1", "mono2", "mesos", "omega", "omega-seq-aon")
    return tuple(Point(name, _MACHINES, 1.0, job, task) for name in names for job in t_job_s for task in t_task_s)


def _balanced(t_job_s: Sequence[float]) -> tuple[Point, ...]:
    return tuple(Point(_omega(n), _LARGE, 1.0, 0.1, t_job_batch_s=t_s) for n in (1, 3) for t_s in t_job_s)


def _omega(batch_schedulers: int) -> str:
    return "omega" if batch_schedulers == 1 else f"omega{batch_schedulers}"


_SHORT = (0.1, 1.0, 10.0, 100.0)
_BATCH_S = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0)

FIGURES: Final[dict[str, Figure]] = {
    one.number: one
    for one in (
        Figure(
            "5",
            "wait against t_job",
            _over_t_job(("mono1", "mono2", "omega"), _T_JOB_S),
            _over_t_job(("mono1", "mono2", "omega"), _SHORT),
        ),
        Figure(
            "6",
            "busyness against t_job",
            _over_t_job(("mono1", "mono2", "omega"), _T_JOB_S),
            _over_t_job(("mono1", "mono2", "omega"), _SHORT),
        ),
        Figure("7", "two levels (Mesos)", _over_t_job(("mesos",), _T_JOB_S), _over_t_job(("mesos",), _SHORT)),
        Figure(
            "8",
            "rate of batch jobs, 1 to 32 batch schedulers",
            _rates((1, 2, 4, 8, 16, 32), range(1, 11)),
            _rates((1, 4), (1, 4, 10)),
        ),
        Figure(
            "10",
            "busyness against t_job and t_task",
            _surface(_T_JOB_S, _T_TASK_S),
            _surface((0.1, 10.0), (0.005, 0.5)),
        ),
        Figure(
            "13", "batch jobs dealt among three schedulers", _balanced(_BATCH_S), _balanced((4.0, 10.0, 20.0, 30.0))
        ),
        Figure(
            "14",
            "coarse conflicts, gang transactions",
            _over_t_job(_MODES, _T_JOB_S[:-2]),
            _over_t_job(_MODES, (10.0,)),
        ),
    )
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
