"""Omega's figures: their points, tables, JSON and plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.models.cell import ARCHITECTURES, SAMPLE_S, JobKind, Outcome
from treadle_lab.papers.omega.comparison import (
    TOLERANCES,
    Claim,
    Comparison,
    Measure,
    Outcomes,
    busyness,
    conflicts,
    left,
    outcomes_of,
    point_json,
    rows_by_scheduler,
    service_conflicts,
    spread_of,
)
from treadle_lab.papers.omega.points import ROW_COLUMNS, Point, Run
from treadle_lab.papers.omega.specialist import SETTINGS, Setting, SpecialistRun, pooled, summary
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import Table

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


def tables(report: Report) -> Iterator[Table]:
    """Yield the tables of what was run."""
    if report.runs:
        yield points_table(report.runs)
    if report.claims:
        rows = [(each.claim, each.paper, each.ours, "yes" if each.holds else "no") for each in report.claims]
        yield Table("The paper's statements", ("claim", "paper", "here", "holds"), rows, names=4)
    if report.specialist:
        yield specialist_table(report.specialist)
    if report.runs:
        yield timing_table(report.runs)


def points_table(runs: Sequence[Run]) -> Table:
    """Return the mean of each figure by point and scheduler."""
    rows = []
    for (point, scheduler), found in rows_by_scheduler(runs).items():
        t_job_s = point.t_job_batch_s if scheduler[0] == "B" else point.t_job_service_s
        where = (f"{point.batch_rate_factor:g}", f"{t_job_s:g}", f"{point.t_task_service_s:g}")
        means = (f"{spread_of(found, figure).mean:.4g}" for figure in TOLERANCES)
        rows.append((point.architecture, scheduler, str(point.machines), *where, *means))
    figures = ("wait batch (s)", "service (s)", "unscheduled", "service", "CPU", "busyness", "conflicts")
    heading = ("architecture", "scheduler", "machines", "rate", "t_job", "t_task", *figures)
    return Table("Means over seeds", heading, rows, names=2)


def timing_table(runs: Sequence[Run]) -> Table:
    """Return what a simulated day costs."""
    rows = []
    for row in timing(runs):
        counts = (str(row["machines"]), f"{row['batch_rate_factor']:g}", str(row["jobs"]), str(row["runs"]))
        rows.append((row["architecture"], *counts, f"{row['median_cpu_s']:.3f}", f"{row['max_cpu_s']:.3f}"))
    heading = ("architecture", "machines", "rate", "jobs", "runs", "median (s)", "most (s)")
    return Table("Processor time of a simulated day, one core", heading, rows)


SPECIALIST: Final = {
    "jobs": ("jobs", ""),
    "can_gain": ("can gain", ".1%"),
    "gain": ("gain", ".1%"),
    "speedup_p50_of_those_that_can": ("50 %", ".2f"),
    "speedup_p80_of_those_that_can": ("80 %", ".2f"),
    "speedup_p80": ("80 % of all", ".2f"),
    "used_mean": ("CPU", ".1%"),
    "used_sd": ("sd", ".2%"),
    "used_max": ("most", ".1%"),
    "conflict_fraction": ("conflicts", ".3g"),
}
"""The figures of `summary`, with heading and format."""


def specialist_table(runs: Sequence[SpecialistRun]) -> Table:
    """Return what the scheduler for MapReduce jobs gains, by cell and policy."""
    rows = [
        (row["cluster"], row["policy"], *(format(row[name], form) for name, (_, form) in SPECIALIST.items()))
        for row in summary(runs)
    ]
    heading = ("cluster", "policy", *(title for title, _ in SPECIALIST.values()))
    return Table("MapReduce jobs with workers by policy (figures 15 and 16)", heading, rows, names=2)


SLO_S: Final = 30.0
"""A usual objective for waits (section 4)."""


def plot_omega(runs: Sequence[Run], figures: Mapping[str, Figure], folder: Path, name: str = "omega") -> list[Path]:
    """Draw the figures of which every point was run; return the files, whose names begin with `name`."""
    outcomes, files = outcomes_of(runs), []
    for number, figure in figures.items():
        points = next((some for some in (figure.points, figure.quick) if set(some) <= set(outcomes)), None)
        if points is None:
            continue
        if number == GROWTH:
            own = [run for run in runs if run.point in set(points)]
            files.append(plot_growth(own, [point.machines for point in points], folder, name))
            continue
        jobs = ", a day like cluster C's" if name != "omega" else ""
        title = f"Omega, figure {number}: {figure.title}{jobs}"
        file, found = folder / f"{name}-figure-{number}.png", {point: outcomes[point] for point in points}
        files.append(_grids(found, file, title) if number == "10" else panels(_PANELS[number](found), file, title))
    return files


def _wait(kind: JobKind) -> Measure:
    return lambda outcomes: float(np.mean([outcome.wait_s[kind] for outcome in outcomes]))


def _busy(letters: str) -> Measure:
    def measure(outcomes: Sequence[Outcome]) -> float:
        return max(busyness(outcomes, letter) for letter in letters if _has(outcomes[0], letter))

    return measure


def _has(outcome: Outcome, letter: str) -> bool:
    return any(one.name[0] == letter for one in outcome.schedulers)


def _line(outcomes: Outcomes, measure: Measure, x: str) -> Line:
    points = sorted(outcomes, key=lambda point: float(getattr(point, x)))
    return Line([getattr(point, x) for point in points], [measure(outcomes[point]) for point in points])


def _by_architecture(outcomes: Outcomes) -> dict[str, Outcomes]:
    names = dict.fromkeys(point.architecture for point in outcomes)
    return {name: {point: found for point, found in outcomes.items() if point.architecture == name} for name in names}


WAITS: Final = {"batch": _wait(JobKind.BATCH), "service": _wait(JobKind.SERVICE)}
BATCH: Final = {
    "busyness of batch schedulers": _busy("B"),
    "mean wait of batch jobs (s)": _wait(JobKind.BATCH),
    "conflict fraction": conflicts,
}
SERVICE: Final = {
    "conflict fraction, service": service_conflicts,
    "busyness of the service scheduler": _busy("S"),
}


def _against_t_job(outcomes: Outcomes, measures: Mapping[str, Measure], label: str) -> list[Panel]:
    """Return a panel for each architecture."""
    y, level = ("symlog", SLO_S) if measures is WAITS else ("linear", None)
    return [
        Panel(
            {title: _line(own, measure, "t_job_service_s") for title, measure in measures.items()},
            "t_job (s)",
            label,
            name,
            ("log", y),
            marker="o",
            level=level,
        )
        for name, own in _by_architecture(outcomes).items()
    ]


def _architectures(
    outcomes: Outcomes, measures: Mapping[str, Measure], x: str, label: str, scale: str = "linear"
) -> list[Panel]:
    """Return a panel for each measure, with a line for each architecture."""
    parts = _by_architecture(outcomes)
    return [
        Panel(
            {name: _line(own, measure, x) for name, own in parts.items()},
            label,
            title,
            scales=(scale, "linear"),
            marker="o",
        )
        for title, measure in measures.items()
    ]


def _two_levels(outcomes: Outcomes) -> list[Panel]:
    return [
        *_against_t_job(outcomes, WAITS, "mean wait (s)"),
        *_against_t_job(outcomes, {"batch": _busy("B"), "service": _busy("S")}, "busyness"),
        *_against_t_job(outcomes, {"batch": left(JobKind.BATCH), "service": left(JobKind.SERVICE)}, "unscheduled"),
    ]


_PANELS: Final[dict[str, Callable[[Outcomes], list[Panel]]]] = {
    "5": lambda found: _against_t_job(found, WAITS, "mean wait (s)"),
    "6": lambda found: _against_t_job(found, {"batch": _busy("MB"), "service": _busy("MS")}, "busyness"),
    "7": _two_levels,
    "8": lambda found: _architectures(found, BATCH, "batch_rate_factor", "rate of batch jobs, relative"),
    "13": lambda found: _architectures(found, BATCH, "t_job_batch_s", "t_job of batch jobs (s)"),
    "14": lambda found: _architectures(found, SERVICE, "t_job_service_s", "t_job of service jobs (s)", "log"),
}


def _grids(outcomes: Outcomes, file: Path, title: str) -> Path:
    """Draw a grid for each architecture: busyness of the busiest scheduler, and where jobs are left (figure 10)."""
    from matplotlib.figure import Figure as Drawing  # only here: matplotlib is an extra

    parts = _by_architecture(outcomes)
    drawing = Drawing(figsize=(3.4 * len(parts), 3.4), layout="constrained")
    shown = drawing.subplots(1, len(parts), squeeze=False)[0]
    for axes, (name, own) in zip(shown, parts.items(), strict=True):
        jobs = sorted({point.t_job_service_s for point in own})
        tasks = sorted({point.t_task_service_s for point in own})
        grid = np.zeros((len(tasks), len(jobs)))
        for point, found in own.items():
            x, y = jobs.index(point.t_job_service_s), tasks.index(point.t_task_service_s)
            grid[y, x] = _busy("MSB")(found)
            if max(left(kind)(found) for kind in JobKind) > 0.01:
                axes.plot(x, y, "rx", markersize=5)
        axes.imshow(grid, origin="lower", aspect="auto", vmin=0, vmax=1, cmap="viridis")
        axes.set_xticks(range(len(jobs)), [f"{value:g}" for value in jobs], fontsize=6)
        axes.set_yticks(range(len(tasks)), [f"{value:g}" for value in tasks], fontsize=6)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("t_job of service jobs (s)", fontsize=8)
    shown[0].set_ylabel("t_task of service jobs (s)", fontsize=8)
    drawing.colorbar(shown[-1].images[0], ax=shown, label="busyness; x: jobs left")
    drawing.suptitle(title, fontsize=10)
    drawing.savefig(file, dpi=120)
    return file


def plot_growth(runs: Sequence[Run], machines: Sequence[int], folder: Path, name: str = "omega") -> Path:
    """Draw what a simulated day costs, by machines and by jobs; return the file."""
    rows = timing(runs)

    def lines(x: str, chosen: Callable[[dict[str, Any]], bool]) -> dict[str, Line]:
        found = {}
        for architecture in dict.fromkeys(row["architecture"] for row in rows):
            own = sorted(
                (row for row in rows if row["architecture"] == architecture and chosen(row)),
                key=lambda row: int(row[x]),
            )
            found[architecture] = Line([row[x] for row in own], [row["median_cpu_s"] for row in own])
        return found

    most, y, scales = max(machines), "processor time of a day (s)", ("log", "log")
    by_machines = lines("machines", lambda row: row["batch_rate_factor"] == 1.0)
    by_jobs = lines("jobs", lambda row: row["machines"] == most)
    shown = [
        Panel(by_machines, "machines", y, scales=scales, marker="o"),
        Panel(by_jobs, f"jobs a day, {most:,} machines", y, scales=scales, marker="o"),
    ]
    return panels(shown, folder / f"{name}-growth.png", "Cost of a simulated day")


TITLES: Final = {
    WorkerPolicy.MAX_PARALLELISM: "max-parallelism",
    WorkerPolicy.RELATIVE_JOB_SIZE: "relative job size (4 x)",
    WorkerPolicy.GLOBAL_CAP: "global cap (60 %)",
}


def plot_specialist(runs: Sequence[SpecialistRun], folder: Path) -> list[Path]:
    """Draw both figures; return the files. Figure 16 is of the first seed's day."""
    speedups = [
        Panel(
            {
                title: share_up_to(np.concatenate([run.speedups for run in pooled(runs, setting, policy)]))
                for policy, title in TITLES.items()
            },
            "speed-up of a job, predicted",
            "share of MapReduce jobs",
            setting.title,
            ("log", "linear"),
            (0.9, None),
        )
        for setting in SETTINGS
    ]
    use = [
        Panel(
            {title: _used(runs, setting, policy) for policy, title in USED.items()}, "hour", "CPU used", setting.title
        )
        for setting in SETTINGS
    ]
    return [
        panels(speedups, folder / "omega-figure-15.png", "Omega, figure 15: potential speed-up by policy"),
        panels(use, folder / "omega-figure-16.png", "Omega, figure 16: use of the cell over a day"),
    ]


USED: Final = {WorkerPolicy.AS_REQUESTED: "workers as requested", WorkerPolicy.MAX_PARALLELISM: "max-parallelism"}


def _used(runs: Sequence[SpecialistRun], setting: Setting, policy: WorkerPolicy) -> Line:
    used = pooled(runs, setting, policy)[0].used
    return Line(np.arange(len(used)) * SAMPLE_S / 3600, used)
