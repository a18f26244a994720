"""Results of section 5.2 over seeds, beside figure 11 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from rich.table import Table

from treadle.simulate.statistics import Interval, interval_of, interval_of_ratio
from treadle.tables import empty_table
from treadle_lab.papers.hdrf.facebook import HDRF, LEAVES, TITLES

PAPER_TASKS: Final[Mapping[str, tuple[int, ...]]] = {"naive": (1, 48, 6, 11, 6, 158), HDRF: (83, 49, 9, 14, 8, 84)}
"""Figure 11a, by leaf."""
PAPER_STOCK: Final = (79, 21, 9, 14, 7, 77)
"""Of the unchanged capacity scheduler of Hadoop 2.0.2, which leaves GPUs idle; no scheme here does."""
PAPER_GAIN: Final = (413, 3, -99, -22, 77, -72)
"""Figure 11b, H-DRF over naive H-DRF, in percent. 77 has probably lost its sign."""
PAPER_GAIN_STOCK: Final = (33, 254, 6, 16, 31, 10)
"""The same over the unchanged capacity scheduler."""

Found = Mapping[tuple[str, int], dict[str, Any]]
"""What `run_scheme` returned, by scheme and seed."""


class Comparison:
    """Figures by scheme and leaf, each with its interval over seeds."""

    def __init__(self, runs: Sequence[tuple[str, int]], found: Sequence[dict[str, Any]]) -> None:
        """Take runs, each a scheme and a seed, and their results."""
        self._found: Found = dict(zip(runs, found, strict=True))
        self.schemes = list(dict.fromkeys(scheme for scheme, _ in runs))
        self.seeds = list(dict.fromkeys(seed for _, seed in runs))

    def _values(self, scheme: str, figure: str, leaf: str) -> list[float]:
        values = (self._found[scheme, seed][figure][leaf] for seed in self.seeds)
        return [float("nan") if value is None else value for value in values]

    def median_tasks(self, scheme: str, leaf: str) -> Interval:
        """Return how many tasks of a leaf run at a time."""
        return interval_of(self._values(scheme, "median_tasks", leaf))

    def response_ratio(self, scheme: str, leaf: str) -> Interval:
        """Return the mean response time of a leaf's jobs over that under H-DRF."""
        return interval_of_ratio(self._values(scheme, "response_s", leaf), self._values(HDRF, "response_s", leaf))

    def as_json(self) -> dict[str, Any]:
        """Return everything for `--json`."""
        return {
            "section": "5.2",
            "seeds": self.seeds,
            "schemes": self.by_scheme(),
            "paper": {"median_tasks": {name: list(row) for name, row in (*PAPER_TASKS.items(), ("stock", PAPER_STOCK))}}
            | {"gain_percent_over_naive": list(PAPER_GAIN)},
            "runs": self.runs(),
        }

    def by_scheme(self) -> dict[str, Any]:
        """Return each scheme's figures by leaf, as JSON takes them."""
        return {
            scheme: {
                leaf: {
                    "median_tasks": self.median_tasks(scheme, leaf).as_json(),
                    "response_over_hdrf": self.response_ratio(scheme, leaf).as_json(),
                }
                for leaf in LEAVES
            }
            for scheme in self.schemes
        }

    def runs(self) -> list[dict[str, Any]]:
        """Return what each run has shown."""
        return [
            {"scheme": scheme, "seed": seed} | {key: each[key] for key in ("median_tasks", "response_s", "end_s")}
            for (scheme, seed), each in self._found.items()
        ]

    def tables(self) -> list[Table]:
        """Return what is printed."""
        return [self._tasks(), self._responses()]

    def _tasks(self) -> Table:
        table = by_leaf("Tasks that run at a time: median while leaves with large jobs have jobs")
        for scheme in self.schemes:
            table.add_row(TITLES[scheme], *(shown(self.median_tasks(scheme, leaf)) for leaf in LEAVES))
            if scheme in PAPER_TASKS:
                table.add_row("  paper", *map(str, PAPER_TASKS[scheme]))
        table.add_row("paper: capacity scheduler of Hadoop 2.0.2", *map(str, PAPER_STOCK))
        return table

    def _responses(self) -> Table:
        table = by_leaf("Mean response time of jobs over that under H-DRF")
        for scheme in self.schemes:
            if scheme != HDRF:
                table.add_row(TITLES[scheme], *(shown(self.response_ratio(scheme, leaf)) for leaf in LEAVES))
        table.add_row("paper: naive, gain of H-DRF (%)", *(f"{gain:+d}" for gain in PAPER_GAIN))
        return table


def by_leaf(title: str) -> Table:
    """Return a table with a column for each leaf, and one before them."""
    return empty_table(title, ("",), LEAVES)


def shown(figure: Interval) -> str:
    """Return a figure with its interval; ``-`` for none."""
    if not np.isfinite(figure.mean):
        return "-"
    if figure.low == figure.high:
        return f"{figure.mean:.3g}"
    return f"{figure.mean:.3g} ({figure.low:.3g} to {figure.high:.3g})"
