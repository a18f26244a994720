"""What `treadle reproduce omega` found: tables, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.papers.omega.claims import Claim
from treadle_lab.papers.omega.points import ROW_COLUMNS, Run
from treadle_lab.papers.omega.reference import FIGURES, Comparison, point_json, rows_by_scheduler, spread_of
from treadle_lab.papers.omega.specialist import SpecialistRun, summary

WITHIN_MIN = 0.98
"""Part of the reference's figures that should be within their tolerance."""


@dataclass(frozen=True, slots=True)
class Report:
    """Runs, and what they are compared with.

    Attributes:
        runs: all of them.
        comparisons: with the original simulator's runs, where it has the point.
        claims: of the paper.
        specialist: runs of figures 15 and 16.
        wall_s: of all runs, as the user waited.
    """

    runs: list[Run]
    comparisons: list[Comparison]
    claims: list[Claim]
    specialist: list[SpecialistRun]
    wall_s: float

    @property
    def within(self) -> float:
        """The share of the reference's figures that are within their tolerance; 1 where there are none."""
        return float(np.mean([one.within for one in self.comparisons])) if self.comparisons else 1.0

    def as_json(self) -> dict[str, Any]:
        """Return the document of `--json`."""
        return {
            "runs": [{"seed": run.seed, **point_json(run.point), **row} for run in self.runs for row in run.rows()],
            "points": [
                {
                    **point_json(point),
                    "scheduler": scheduler,
                    **{
                        figure: {"mean": spread.mean, "sd": spread.sd, "n": spread.n}
                        for figure in FIGURES
                        for spread in (spread_of(rows, figure),)
                    },
                }
                for (point, scheduler), rows in rows_by_scheduler(self.runs).items()
            ],
            "reference": [one.as_json() for one in self.comparisons],
            "within": self.within,
            "claims": [claim.as_json() for claim in self.claims],
            "timing": {"wall_s": self.wall_s, "runs": timing(self.runs)},
            "specialist": summary(self.specialist),
        }

    def as_csv(self) -> str:
        """Return the document of `--csv`: a row for each scheduler of each run."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(ROW_COLUMNS)
        for run in self.runs:
            for row in run.rows():
                writer.writerow([f"{value:.9g}" if isinstance(value, float) else value for value in row.values()])
        return text.getvalue()


def timing(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return how long runs took, by architecture, machines and rate of batch jobs: how cost grows."""
    taken: dict[tuple[str, int, float], list[Run]] = {}
    for run in runs:
        key = run.point.architecture, run.point.machines, run.point.batch_rate_factor
        taken.setdefault(key, []).append(run)
    return [
        {
            "architecture": name,
            "machines": machines,
            "batch_rate_factor": factor,
            "jobs": round(float(np.mean([run.jobs for run in found]))),
            "runs": len(found),
            "median_s": float(np.median([run.wall_s for run in found])),
            "max_s": max(run.wall_s for run in found),
            "median_cpu_s": float(np.median([run.cpu_s for run in found])),
            "max_cpu_s": max(run.cpu_s for run in found),
        }
        for (name, machines, factor), found in taken.items()
    ]


def points_table(runs: Sequence[Run]) -> Table:
    """Return the mean of each figure by point and scheduler."""
    shown = Table(title="Means over seeds", title_justify="left")
    for name in ("architecture", "machines", "rate", "t_job", "t_task", "scheduler"):
        shown.add_column(name, justify="left" if name in {"architecture", "scheduler"} else "right")
    for name in ("wait batch (s)", "service (s)", "unscheduled", "service", "CPU", "busyness", "conflicts"):
        shown.add_column(name, justify="right")
    for (point, scheduler), rows in rows_by_scheduler(runs).items():
        t_job_s = point.t_job_batch_s if scheduler[0] == "B" else point.t_job_service_s
        shown.add_row(
            point.architecture,
            str(point.machines),
            f"{point.batch_rate_factor:g}",
            f"{t_job_s:g}",
            f"{point.t_task_service_s:g}",
            scheduler,
            *(f"{spread_of(rows, figure).mean:.4g}" for figure in FIGURES),
        )
    return shown


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the paper's statements beside ours."""
    shown = Table(title="The paper's statements", title_justify="left")
    for name in ("claim", "paper", "here", "holds"):
        shown.add_column(name)
    for claim in claims:
        shown.add_row(claim.claim, claim.paper, claim.ours, "yes" if claim.holds else "no")
    return shown


def timing_table(runs: Sequence[Run]) -> Table:
    """Return what a simulated day costs."""
    shown = empty_table(
        "Processor time of a simulated day, one core",
        ("architecture",),
        ("machines", "rate", "jobs", "runs", "median (s)", "most (s)"),
    )
    for row in timing(runs):
        shown.add_row(
            row["architecture"],
            str(row["machines"]),
            f"{row['batch_rate_factor']:g}",
            str(row["jobs"]),
            str(row["runs"]),
            f"{row['median_cpu_s']:.3f}",
            f"{row['max_cpu_s']:.3f}",
        )
    return shown


def specialist_table(runs: Sequence[SpecialistRun]) -> Table:
    """Return what the scheduler for MapReduce jobs gains, by cell and policy."""
    shown = empty_table(
        "MapReduce jobs with workers by policy (figures 15 and 16)",
        ("cluster", "policy"),
        ("jobs", "can gain", "gain", "50 %", "80 %", "80 % of all", "CPU", "sd", "most", "conflicts"),
    )
    for row in summary(runs):
        shown.add_row(
            row["cluster"],
            row["policy"],
            str(row["jobs"]),
            f"{row['can_gain']:.1%}",
            f"{row['gain']:.1%}",
            f"{row['speedup_p50_of_those_that_can']:.2f}",
            f"{row['speedup_p80_of_those_that_can']:.2f}",
            f"{row['speedup_p80']:.2f}",
            f"{row['used_mean']:.1%}",
            f"{row['used_sd']:.2%}",
            f"{row['used_max']:.1%}",
            f"{row['conflict_fraction']:.3g}",
        )
    return shown
