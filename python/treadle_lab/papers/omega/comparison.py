"""Comparison of Omega's runs with the original simulator's, within a stated tolerance."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.errors import UserError
from treadle_lab.papers.omega.points import Point, Row, Run

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

Key = tuple[Point, str]
"""A point and the name of a scheduler."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of one figure over seeds."""

    mean: float
    sd: float
    n: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one scheduler at one point, ours and the original's."""

    point: Point
    scheduler: str
    figure: str
    ours: Spread
    theirs: Spread

    @property
    def tolerance(self) -> float:
        """Return the maximum difference of the means: 4 sd sqrt(1/n + 1/m), with the larger deviation, and a margin."""
        sd = max(self.ours.sd, self.theirs.sd)
        return DEVIATIONS * sd * sqrt(1 / self.ours.n + 1 / self.theirs.n) + TOLERANCES[self.figure]

    @property
    def within(self) -> bool:
        """Whether they are no further apart."""
        return abs(self.ours.mean - self.theirs.mean) <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Return it as a row of a document."""
        facts = {"scheduler": self.scheduler, "figure": self.figure, "ours": self.ours.mean, "theirs": self.theirs.mean}
        return asdict(self.point) | facts | {"tolerance": self.tolerance, "within": self.within}


def read_reference(file: Path) -> dict[Key, list[Row]]:
    """Return the original's rows by point and scheduler.

    Raises:
        UserError: the file cannot be read as such.
    """
    reference: dict[Key, list[Row]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                point = Point(
                    row["architecture"],
                    int(row["machines"]),
                    float(row["batch_rate_factor"]),
                    float(row["t_job_service_s"]),
                )
                values: Row = {name: float(row[name]) for name in TOLERANCES}
                reference.setdefault((point, row["scheduler"]), []).append(values)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{file}: not a file of the reference's runs ({error}); see data/omega-simulator/README.md"
        ) from None
    return reference


def spread_of(rows: Sequence[Row], figure: str) -> Spread:
    """Return the spread of one figure of rows of one scheduler at one point."""
    values = [float(row[figure]) for row in rows]
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values))


def compare(runs: Sequence[Run], reference: Mapping[Key, list[Row]]) -> list[Comparison]:
    """Return all figures of points that both have."""
    ours: dict[Key, list[Row]] = {}
    for run in runs:
        for row in run.rows():
            ours.setdefault((run.point, str(row["scheduler"])), []).append(row)
    return [
        Comparison(key[0], key[1], figure, spread_of(ours[key], figure), spread_of(theirs, figure))
        for key, theirs in reference.items()
        if key in ours
        for figure in TOLERANCES
    ]
