"""Results of section 5.3.2 over seeds, beside figure 13 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from rich.table import Table

from treadle.compiled.array_types import F64
from treadle.lab.harness.tables import empty_table
from treadle.lab.reproduce.hdrf.comparison import HDRF
from treadle.lab.reproduce.hdrf.large import LENGTH_S, SCHEMES, SLOTS, LargeRun
from treadle.lab.reproduce.hdrf.slots import BINS, percent_longer, shown
from treadle.simulate.statistics import Interval, interval_of

PAPER_GAIN: Final[Mapping[str, tuple[int, ...]]] = {
    "slots-10": (83, 82, 80, 80),
    "slots-12": (68, 67, 65, 64),
    "slots-14": (48, 47, 47, 44),
}
"""Figure 13: by how many percent response times are better with H-DRF, by `BINS`."""


class LargeReport:
    """Figures by load and scheme, with intervals over seeds."""

    def __init__(self, runs: Sequence[LargeRun], found: Sequence[dict[str, Any]]) -> None:
        """Take runs and their results."""
        self._found = {(run.load, run.scheme, run.seed): each for run, each in zip(runs, found, strict=True)}
        self.loads = list(dict.fromkeys(run.load for run in runs))
        self.seeds = list(dict.fromkeys(run.seed for run in runs))

    def at_a_time(self, load: float, scheme: str) -> Interval:
        """Return how many tasks run at a time in the mean, of those that ended."""
        return interval_of([self._found[load, scheme, seed]["at_a_time"] for seed in self.seeds])

    def ended(self, load: float, scheme: str) -> Interval:
        """Return the percentage of jobs that had ended when the run was stopped."""
        return interval_of(
            [100.0 * float(np.isfinite(self._response_s[load, scheme, seed]).mean()) for seed in self.seeds]
        )

    def gain(self, load: float, scheme: str, size: str) -> Interval:
        """Return by how many percent of those under H-DRF response times of jobs of a size are longer, in the mean.

        Jobs count that ended under both.
        """
        pairs = [self._means_s(load, scheme, seed, size) for seed in self.seeds]
        return percent_longer([theirs for theirs, _ in pairs], [ours for _, ours in pairs])

    @cached_property
    def _response_s(self) -> dict[tuple[float, str, int], F64]:
        """Return the jobs' response times of each run; NaN of those that had not ended."""
        return {
            key: np.array([np.nan if value is None else value for value in each["response_s"]])
            for key, each in self._found.items()
        }

    def _means_s(self, load: float, scheme: str, seed: int, size: str) -> tuple[float, float]:
        theirs, ours = self._response_s[load, scheme, seed], self._response_s[load, HDRF, seed]
        tasks, (least, most) = np.array(self._found[load, HDRF, seed]["tasks"]), BINS[size]
        both = (tasks >= least) & (tasks < most) & np.isfinite(theirs) & np.isfinite(ours)
        return (float(theirs[both].mean()), float(ours[both].mean())) if both.any() else (float("nan"), float("nan"))

    def table(self) -> Table:
        """Return what is printed."""
        table = empty_table(
            "H-DRF over schedulers of slots on 1,200 servers",
            ("load", ""),
            ("tasks at a time", "jobs ended (%)", *(f"gain, {size} (%)" for size in BINS)),
        )
        for load in self.loads:
            for scheme in SCHEMES:
                gains = [""] * len(BINS) if scheme == HDRF else [shown(self.gain(load, scheme, size)) for size in BINS]
                at_a_time = shown(self.at_a_time(load, scheme))
                table.add_row(f"{load:g}", scheme, at_a_time, shown(self.ended(load, scheme)), *gains)
        for scheme, row in PAPER_GAIN.items():
            table.add_row("paper", scheme, "", "", *map(str, row))
        return table

    def as_json(self) -> dict[str, Any]:
        """Return everything for ``--json`` but the times of single jobs."""
        return {
            "section": "5.3.2",
            "seeds": self.seeds,
            "length_s": LENGTH_S,
            "jobs": [len(self._found[load, HDRF, self.seeds[0]]["tasks"]) for load in self.loads],
            "loads": {f"{load:g}": self._of_load(load) for load in self.loads},
            "paper": {"gain_percent": {name: list(row) for name, row in PAPER_GAIN.items()}},
        }

    def _of_load(self, load: float) -> dict[str, Any]:
        return {
            scheme: {
                "at_a_time": self.at_a_time(load, scheme).as_json(),
                "ended_percent": self.ended(load, scheme).as_json(),
                "gain_percent": {size: self.gain(load, scheme, size).as_json() for size in BINS}
                if scheme in SLOTS
                else {},
            }
            for scheme in SCHEMES
        }
