"""The figures: their points, tables and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.models.cell.cell import ARCHITECTURES
from treadle_lab.papers.omega.claims import Claim
from treadle_lab.papers.omega.points import ROW_COLUMNS, Point, Run
from treadle_lab.papers.omega.reference import TOLERANCES, Comparison, point_json, rows_by_scheduler, spread_of
from treadle_lab.papers.omega.specialist import SpecialistRun, summary

_T_JOB_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_T_TASK_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0)
_MODES = ("omega", "omega-seq", "omega-aon", "omega-seq-aon")
_SHORT = (0.1, 1.0, 10.0, 100.0)
_BATCH_S = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0)
_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
GROWTH: Final = "growth"
_GROWING = (500, 1_000, 2_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper, or `GROWTH`.

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


@dataclass(frozen=True, slots=True)
class Sweeps:
    """What the sweeps of a workload run on.

    Attributes:
        machines: of the cell.
        large: machines of the cell of the sweeps of rates and of batch decisions, where much more has to have room.
        factors: of the sweep of rates.
    """

    machines: int
    large: int
    factors: tuple[int, ...] = _FACTORS

    def figures(self) -> dict[str, Figure]:
        """Return the figures by number."""
        paths = ("mono1", "mono2", "omega")
        made = (
            Figure("5", "wait against t_job", self._over_t_job(paths, _T_JOB_S), self._over_t_job(paths, _SHORT)),
            Figure("6", "busyness against t_job", self._over_t_job(paths, _T_JOB_S), self._over_t_job(paths, _SHORT)),
            Figure(
                "7",
                "two levels (Mesos)",
                self._over_t_job(("mesos",), _T_JOB_S),
                self._over_t_job(("mesos",), _SHORT),
            ),
            Figure(
                "8",
                "rate of batch jobs, 1 to 32 batch schedulers",
                self._rates((1, 2, 4, 8, 16, 32), self.factors),
                self._rates((1, 4), (1, 4, 10)),
            ),
            Figure(
                "10",
                "busyness against t_job and t_task",
                self._surface(_T_JOB_S, _T_TASK_S),
                self._surface((0.1, 10.0), (0.005, 0.5)),
            ),
            Figure(
                "13",
                "batch jobs dealt among three schedulers",
                self._balanced(_BATCH_S),
                self._balanced((4.0, 10.0, 20.0, 30.0)),
            ),
            Figure(
                "14",
                "coarse conflicts, gang transactions",
                self._over_t_job(_MODES, _T_JOB_S[:-2]),
                self._over_t_job(_MODES, (10.0,)),
            ),
            Figure(
                GROWTH,
                "cost of a simulated day",
                _growth(_GROWING, (1, 2, 5, 10)),
                _growth((500, 5_000), (1,)),
            ),
        )
        return {one.number: one for one in made}

    def _over_t_job(self, architectures: Sequence[str], t_job_s: Sequence[float]) -> tuple[Point, ...]:
        return tuple(Point(name, self.machines, 1.0, t_s) for name in architectures for t_s in t_job_s)

    def _rates(self, counts: Sequence[int], factors: Sequence[int]) -> tuple[Point, ...]:
        return tuple(Point(_omega(count), self.large, float(factor), 0.1) for count in counts for factor in factors)

    def _surface(self, t_job_s: Sequence[float], t_task_s: Sequence[float]) -> tuple[Point, ...]:
        names = ("mono1", "mono2", "mesos", "omega", "omega-seq-aon")
        return tuple(
            Point(name, self.machines, 1.0, job, task) for name in names for job in t_job_s for task in t_task_s
        )

    def _balanced(self, t_job_s: Sequence[float]) -> tuple[Point, ...]:
        return tuple(Point(_omega(n), self.large, 1.0, 0.1, t_job_batch_s=t_s) for n in (1, 3) for t_s in t_job_s)


def _growth(machines: Sequence[int], factors: Sequence[int]) -> tuple[Point, ...]:
    """Return cells that grow, then in the largest of them jobs that become more."""
    cells = [Point(name, count, 1.0, 1.0) for name in ARCHITECTURES for count in machines]
    rates = [Point(name, machines[-1], float(factor), 1.0) for name in ARCHITECTURES for factor in factors[1:]]
    return (*cells, *rates)


def _omega(batch_schedulers: int) -> str:
    return "omega" if batch_schedulers == 1 else f"omega{batch_schedulers}"


REFERENCE_SWEEPS: Final = Sweeps(500, 5_000)
"""Of the original simulator's workload: with 500 machines ten times its batch jobs have no room."""
GOOGLE_SWEEPS: Final = Sweeps(12_500, 12_500, (*_FACTORS, 16, 24, 32))
FIGURES: Final = REFERENCE_SWEEPS.figures()
GOOGLE_FIGURES: Final = GOOGLE_SWEEPS.figures()
NOT_BY_DEFAULT: Final = frozenset({GROWTH})


def figures_of(workload: str) -> dict[str, Figure]:
    """Return the figures of a workload, "reference" or "google"."""
    return GOOGLE_FIGURES if workload == "google" else FIGURES


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
                        for figure in TOLERANCES
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
            *(f"{spread_of(rows, figure).mean:.4g}" for figure in TOLERANCES),
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
