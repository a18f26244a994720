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
        """Whether they are no further apart."""
        ours, theirs = self.means
        return abs(ours - theirs) <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Return it as a row of a document."""
        ours, theirs = self.means
        facts = {"scheduler": self.scheduler, "figure": self.figure, "ours": ours, "theirs": theirs}
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


def compare(runs: Sequence[Run], reference: Mapping[Key, list[Row]]) -> list[Comparison]:
    """Return all figures of points that both have."""
    ours: dict[Key, list[Row]] = {}
    for run in runs:
        for row in run.rows():
            ours.setdefault((run.point, str(row["scheduler"])), []).append(row)
    return [
        Comparison(*key, figure, _values(ours[key], figure), _values(theirs, figure))
        for key, theirs in reference.items()
        if key in ours
        for figure in TOLERANCES
    ]


def _values(rows: Sequence[Row], figure: str) -> list[float]:
    return [float(row[figure]) for row in rows]
