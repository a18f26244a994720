"""Points of the sweeps: an architecture, a cell, a load, and how long decisions take. Read from CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle_lab.models.cell.architectures import ARCHITECTURES, Architecture, shared_state
from treadle_lab.models.cell.cell import DecisionTime
from treadle_lab.models.cell.workload import JobKind

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
