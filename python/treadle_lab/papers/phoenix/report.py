"""Results of runs, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.papers.phoenix.experiment import CLASSES, Run
from treadle_lab.papers.phoenix.ratios import LOST, Ratio
from treadle_lab.papers.phoenix.reference import Comparison
from treadle_lab.papers.phoenix.slowdowns import Slowdown

FIGURES = ("mean_s", "p50_s", "p90_s", "p99_s", "queueing_p99_s")


@dataclass(frozen=True, slots=True)
class Report:
    """All that a command found.

    Attributes:
        runs: by system, then seed.
        ratios: beside the paper's.
        comparisons: with the original simulator's runs.
        calibration: how constraints were made; None if they were given or there are none.
        notes: what else a reader has to know.
        slowdowns: by kind of constraint.
    """

    runs: Sequence[Run]
    ratios: Sequence[Ratio]
    comparisons: Sequence[Comparison]
    calibration: Mapping[str, Any] | None
    notes: Sequence[str] = ()
    slowdowns: Sequence[Slowdown] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the document of `--json`; equal seeds give equal documents but for `cpu_s`."""
        return {
            "runs": [dict(row) for run in self.runs for row in run.rows],
            "ratios": {ratio.claim.name: ratio.as_json() for ratio in self.ratios},
            "calibration": self.calibration,
            "lost": list(LOST),
            "reference": [one.as_json() for one in self.comparisons],
            "slowdowns": {one.kind: one.as_json() for one in self.slowdowns},
            "notes": list(self.notes),
        }


def runs_table(runs: Sequence[Run]) -> Table:
    """Return the means over seeds."""
    row = runs[0].rows[0]
    shown = Table(
        title=f"{row['trace']}, {row['slots']:,} workers, load {row['offered_load']:.0%}; means over seeds",
        title_justify="left",
    )
    for name in ("system", "class", "jobs", "mean s", "P50 s", "P90 s", "P99 s", "P99 queueing s", "relaxed", "CPU s"):
        shown.add_column(name, justify="left" if name in ("system", "class") else "right")
    for system in dict.fromkeys(run.system for run in runs):
        own = [run for run in runs if run.system == system]
        for kind in CLASSES:
            rows = [row for run in own for row in run.rows if row["class"] == kind]
            if rows:
                means = [
                    float(np.mean([float(row[name] or 0) for row in rows])) for name in (*FIGURES, "relaxed", "cpu_s")
                ]
                cells = [f"{value:,.0f}" for value in means[:-1]]
                shown.add_row(
                    system,
                    kind,
                    f"{float(np.mean([float(row['jobs'] or 0) for row in rows])):,.0f}",
                    *cells,
                    f"{means[-1]:.2f}",
                )
    return shown


def ratios_table(ratios: Sequence[Ratio]) -> Table:
    """Return the ratios beside the paper's."""
    shown = empty_table(
        "Ratios, geometric means over seeds with 95 % intervals", ("ratio",), ("here", "from", "to", "paper")
    )
    for ratio in ratios:
        paper = ratio.claim.paper
        said = "" if paper is None else f"{paper[0]:g} to {paper[1]:g}" if isinstance(paper, tuple) else f"{paper:g}"
        shown.add_row(ratio.claim.name, f"{ratio.value:.3g}", f"{ratio.low:.3g}", f"{ratio.high:.3g}", said)
    return shown


def slowdowns_table(slowdowns: Sequence[Slowdown]) -> Table:
    """Return the slowdown by kind of constraint beside table II."""
    shown = Table(
        title="Mean response time of jobs with one constraint, Eagle-C over Eagle, by its kind", title_justify="left"
    )
    for name in ("kind", "jobs", "here", "from", "to", "table II"):
        shown.add_column(name, justify="left" if name == "kind" else "right")
    for one in slowdowns:
        ratio = one.ratio
        paper = "" if one.paper is None else f"{one.paper:g}"
        shown.add_row(one.kind, f"{one.jobs:,.0f}", f"{ratio.mean:.3g}", f"{ratio.low:.3g}", f"{ratio.high:.3g}", paper)
    return shown


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return the figures beside the original simulator's."""
    shown = empty_table(
        "Beside the original simulator, means over seeds",
        ("system", "class", "figure"),
        ("here", "original", "off", "allowed", ""),
    )
    for one in comparisons:
        shown.add_row(
            one.system,
            one.kind,
            one.figure,
            f"{one.here:,.1f}",
            f"{one.original:,.1f}",
            f"{one.off:+.1%}",
            f"{one.tolerance:.0%}",
            "" if one.within else "OUTSIDE",
        )
    return shown
