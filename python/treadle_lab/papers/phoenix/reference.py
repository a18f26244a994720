"""Runs of the original simulator of Hawk and Eagle, and how far the figures here are from them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.errors import UserError
from treadle_lab.papers.phoenix.experiment import Run

COLUMNS: Final = ("system", "slots", "class", "jobs", "mean_s", "p50_s", "p90_s", "p99_s")
FIGURES: Final = ("mean_s", "p50_s", "p90_s", "p99_s")
TOLERANCES: Final = {
    "short": {"mean_s": 0.04, "p50_s": 0.04, "p90_s": 0.04, "p99_s": 0.07},
    "long": {"mean_s": 0.02, "p50_s": 0.04, "p90_s": 0.04},
}
"""Shares that a figure may be off. The P99 of long jobs has two modes, 22 % apart, and is not judged."""
DLWL_TOLERANCE: Final = 0.06
DLWL_FILE: Final = "dlwl.csv"
"""Beside the original's: figures of a replay, at a number of workers that is inferred."""

Figures = dict[tuple[str, int, str, int], dict[str, float]]
"""By system, slots, class and number of jobs."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure here, mean over seeds, beside the original's."""

    system: str
    slots: int
    kind: str
    figure: str
    here: float
    original: float
    tolerance: float

    @property
    def off(self) -> float:
        """By which share the figure here is larger."""
        return self.here / self.original - 1

    @property
    def within(self) -> bool:
        """Whether that is tolerated."""
        return abs(self.off) <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Return it for results."""
        return {**asdict(self), "off": self.off, "within": self.within}


def read_references(file: Path) -> Figures:
    """Read the original's figures, and DLWL's beside them if they are there.

    Raises:
        UserError: a file is none.
    """
    other = file.with_name(DLWL_FILE)
    return read_reference(file) | (read_reference(other) if other.is_file() else {})


def read_reference(file: Path) -> Figures:
    """Read a file of figures.

    Raises:
        UserError: the file is none.
    """
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            return {
                (row["system"], int(row["slots"]), row["class"], int(row["jobs"])): {
                    figure: float(row[figure]) for figure in FIGURES
                }
                for row in csv.DictReader(stream)
            }
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file}: no table of {','.join(COLUMNS)} ({error}); fetch it again") from None


def compare(runs: Sequence[Run], originals: Figures) -> list[Comparison]:
    """Compare the means over seeds with the original's, where it ran the same."""
    found = []
    for system in dict.fromkeys(run.system for run in runs):
        own = [run for run in runs if run.system == system]
        for row in own[0].rows:
            kind, slots, jobs = str(row["class"]), int(row["slots"] or 0), int(row["jobs"] or 0)
            original = originals.get((system, slots, kind, jobs))
            if original is None or row["faster"] != 1.0:
                continue
            for figure, tolerance in TOLERANCES[kind].items():
                here = float(np.mean([run.figure(kind, figure) for run in own]))
                allowed = DLWL_TOLERANCE if system == "dlwl" else tolerance
                found.append(Comparison(system, slots, kind, figure, here, original[figure], allowed))
    return found
