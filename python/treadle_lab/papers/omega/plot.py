"""Plots like those of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure as Drawing

from treadle.policy.mapreduce_workers import WorkerPolicy
from treadle_lab.models.cell.cell import SAMPLE_S, JobKind, Outcome
from treadle_lab.papers.omega.claims import busyness, conflicts, service_conflicts
from treadle_lab.papers.omega.figures import GROWTH, Figure, timing
from treadle_lab.papers.omega.points import Point, Run
from treadle_lab.papers.omega.specialist import SETTINGS, SpecialistRun, pooled

Outcomes = Mapping[Point, list[Outcome]]
Measure = Callable[[Sequence[Outcome]], float]

SLO_S: Final = 30.0
"""A usual objective for waits (section 4)."""
LINES: Final = ("-", "--", ":", "-.")


def plot_omega(runs: Sequence[Run], figures: Mapping[str, Figure], folder: Path, name: str = "omega") -> list[Path]:
    """Draw the figures of which every point was run; return the files, whose names begin with `name`."""
    outcomes: dict[Point, list[Outcome]] = {}
    for run in runs:
        outcomes.setdefault(run.point, []).append(run.outcome)
    files = []
    for number, figure in figures.items():
        points = next((some for some in (figure.points, figure.quick) if set(some) <= set(outcomes)), None)
        if points is None:
            continue
        if number == GROWTH:
            own = [run for run in runs if run.point in set(points)]
            files.append(plot_growth(own, [point.machines for point in points], folder, name))
            continue
        drawing = _DRAWN[number]({point: outcomes[point] for point in points})
        jobs = ", a day like cluster C's" if name != "omega" else ""
        drawing.suptitle(f"Omega, figure {number}: {figure.title}{jobs}", fontsize=10)
        file = folder / f"{name}-figure-{number}.png"
        drawing.savefig(file, dpi=120)
        files.append(file)
    return files


def _wait(kind: JobKind) -> Measure:
    return lambda outcomes: float(np.mean([outcome.wait_s[kind] for outcome in outcomes]))


def _left(kind: JobKind) -> Measure:
    return lambda outcomes: float(np.mean([outcome.unscheduled[kind] for outcome in outcomes]))


def _busy(letters: str) -> Measure:
    def measure(outcomes: Sequence[Outcome]) -> float:
        return max(busyness(outcomes, letter) for letter in letters if _has(outcomes[0], letter))

    return measure


def _has(outcome: Outcome, letter: str) -> bool:
    return any(one.name[0] == letter for one in outcome.schedulers)


def _series(axes: Any, outcomes: Outcomes, measure: Measure, x: str, **style: Any) -> None:
    points = sorted(outcomes, key=lambda point: float(getattr(point, x)))
    axes.plot([getattr(point, x) for point in points], [measure(outcomes[point]) for point in points], **style)


def _by_architecture(outcomes: Outcomes) -> dict[str, Outcomes]:
    names = dict.fromkeys(point.architecture for point in outcomes)
    return {name: {point: found for point, found in outcomes.items() if point.architecture == name} for name in names}


def _panels(outcomes: Outcomes, measures: Mapping[str, Measure], label: str, *, log_y: bool) -> Drawing:
    """Draw a panel for each architecture against t_job."""
    parts = _by_architecture(outcomes)
    drawing = Drawing(figsize=(4.2 * len(parts), 3.6), layout="constrained")
    panels = drawing.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for axes, (name, own) in zip(panels, parts.items(), strict=True):
        for place, (title, measure) in enumerate(measures.items()):
            _series(
                axes, own, measure, "t_job_service_s", label=title, linestyle=LINES[place], marker="o", markersize=3
            )
        axes.set_xscale("log")
        axes.set_xlabel("t_job (s)")
        axes.set_title(name, fontsize=9)
        if log_y:
            axes.set_yscale("symlog", linthresh=0.01)
            axes.set_ylim(bottom=0)
            axes.axhline(SLO_S, color="0.6", linewidth=0.8)
    panels[0].set_ylabel(label)
    panels[-1].legend(fontsize=8)
    return drawing


def _figure_5(outcomes: Outcomes) -> Drawing:
    measures = {"batch": _wait(JobKind.BATCH), "service": _wait(JobKind.SERVICE)}
    return _panels(outcomes, measures, "mean wait (s)", log_y=True)


def _figure_6(outcomes: Outcomes) -> Drawing:
    return _panels(outcomes, {"batch": _busy("MB"), "service": _busy("MS")}, "busyness", log_y=False)


def _figure_7(outcomes: Outcomes) -> Drawing:
    drawing = Drawing(figsize=(12.6, 3.6), layout="constrained")
    kinds = {"batch": (JobKind.BATCH, "B"), "service": (JobKind.SERVICE, "S")}
    for axes, title in zip(drawing.subplots(1, 3), ("mean wait (s)", "busyness", "unscheduled"), strict=True):
        for place, (name, (kind, letter)) in enumerate(kinds.items()):
            measure = {"mean wait (s)": _wait(kind), "busyness": _busy(letter), "unscheduled": _left(kind)}[title]
            _series(
                axes, outcomes, measure, "t_job_service_s", label=name, linestyle=LINES[place], marker="o", markersize=3
            )
        axes.set_xscale("log")
        axes.set_xlabel("t_job of service jobs (s)")
        axes.set_ylabel(title)
        axes.legend(fontsize=8)
        if title == "mean wait (s)":
            axes.set_yscale("symlog", linthresh=0.01)
            axes.set_ylim(bottom=0)
    return drawing


def _lines(outcomes: Outcomes, measures: Mapping[str, Measure], x: str, label: str) -> Drawing:
    """Draw a panel for each measure, with a line for each architecture."""
    drawing = Drawing(figsize=(4.6 * len(measures), 3.6), layout="constrained")
    panels = drawing.subplots(1, len(measures), squeeze=False)[0]
    for axes, (title, measure) in zip(panels, measures.items(), strict=True):
        for place, (name, own) in enumerate(_by_architecture(outcomes).items()):
            _series(axes, own, measure, x, label=name, linestyle=LINES[place % len(LINES)], marker="o", markersize=3)
        axes.set_xlabel(label)
        axes.set_ylabel(title)
    panels[-1].legend(fontsize=8)
    return drawing


def _figure_8(outcomes: Outcomes) -> Drawing:
    measures = {"busyness of batch schedulers": _busy("B"), "mean wait of batch jobs (s)": _wait(JobKind.BATCH)}
    return _lines(
        outcomes, {**measures, "conflict fraction": conflicts}, "batch_rate_factor", "rate of batch jobs, relative"
    )


def _figure_10(outcomes: Outcomes) -> Drawing:
    """Draw a grid for each architecture: busyness of the busiest scheduler, and where jobs are left."""
    parts = _by_architecture(outcomes)
    drawing = Drawing(figsize=(3.4 * len(parts), 3.4), layout="constrained")
    panels = drawing.subplots(1, len(parts), squeeze=False)[0]
    for axes, (name, own) in zip(panels, parts.items(), strict=True):
        jobs = sorted({point.t_job_service_s for point in own})
        tasks = sorted({point.t_task_service_s for point in own})
        grid = np.zeros((len(tasks), len(jobs)))
        for point, found in own.items():
            x, y = jobs.index(point.t_job_service_s), tasks.index(point.t_task_service_s)
            grid[y, x] = _busy("MSB")(found)
            if max(_left(kind)(found) for kind in JobKind) > 0.01:
                axes.plot(x, y, "rx", markersize=5)
        axes.imshow(grid, origin="lower", aspect="auto", vmin=0, vmax=1, cmap="viridis")
        axes.set_xticks(range(len(jobs)), [f"{value:g}" for value in jobs], fontsize=6)
        axes.set_yticks(range(len(tasks)), [f"{value:g}" for value in tasks], fontsize=6)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("t_job of service jobs (s)", fontsize=8)
    panels[0].set_ylabel("t_task of service jobs (s)", fontsize=8)
    drawing.colorbar(panels[-1].images[0], ax=panels, label="busyness; x: jobs left")
    return drawing


def _figure_13(outcomes: Outcomes) -> Drawing:
    measures = {"busyness of batch schedulers": _busy("B"), "mean wait of batch jobs (s)": _wait(JobKind.BATCH)}
    return _lines(outcomes, {**measures, "conflict fraction": conflicts}, "t_job_batch_s", "t_job of batch jobs (s)")


def _figure_14(outcomes: Outcomes) -> Drawing:
    measures = {"conflict fraction, service": service_conflicts, "busyness of the service scheduler": _busy("S")}
    drawing = _lines(outcomes, measures, "t_job_service_s", "t_job of service jobs (s)")
    for axes in drawing.axes:
        axes.set_xscale("log")
    return drawing


def plot_growth(runs: Sequence[Run], machines: Sequence[int], folder: Path, name: str = "omega") -> Path:
    """Draw what a simulated day costs, by machines and by jobs; return the file."""
    drawing = Drawing(figsize=(9.6, 3.8), layout="constrained")
    by_machines, by_jobs = drawing.subplots(1, 2)
    rows = timing(runs)
    for place, architecture in enumerate(dict.fromkeys(row["architecture"] for row in rows)):
        own = [row for row in rows if row["architecture"] == architecture]
        style = {"label": architecture, "linestyle": LINES[place % len(LINES)], "marker": "o", "markersize": 3}
        cells = sorted((row for row in own if row["batch_rate_factor"] == 1.0), key=lambda row: int(row["machines"]))
        by_machines.plot([row["machines"] for row in cells], [row["median_cpu_s"] for row in cells], **style)
        rates = sorted((row for row in own if row["machines"] == max(machines)), key=lambda row: int(row["jobs"]))
        by_jobs.plot([row["jobs"] for row in rates], [row["median_cpu_s"] for row in rates], **style)
    for axes, label in ((by_machines, "machines"), (by_jobs, f"jobs a day, {max(machines):,} machines")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.set_ylabel("processor time of a day (s)")
    by_machines.legend(fontsize=7)
    drawing.suptitle("Cost of a simulated day", fontsize=10)
    file = folder / f"{name}-growth.png"
    drawing.savefig(file, dpi=120)
    return file


_DRAWN: Final[dict[str, Callable[[Outcomes], Drawing]]] = {
    "5": _figure_5,
    "6": _figure_6,
    "7": _figure_7,
    "8": _figure_8,
    "10": _figure_10,
    "13": _figure_13,
    "14": _figure_14,
}


TITLES: Final = {
    WorkerPolicy.MAX_PARALLELISM: "max-parallelism",
    WorkerPolicy.RELATIVE_JOB_SIZE: "relative job size (4 x)",
    WorkerPolicy.GLOBAL_CAP: "global cap (60 %)",
}


def plot_specialist(runs: Sequence[SpecialistRun], folder: Path) -> list[Path]:
    """Draw both figures; return the files."""
    files = []
    for number, drawing in (("15", _speedups(runs)), ("16", _use(runs))):
        file = folder / f"omega-figure-{number}.png"
        drawing.savefig(file, dpi=120)
        files.append(file)
    return files


def _speedups(runs: Sequence[SpecialistRun]) -> Drawing:
    drawing = Drawing(figsize=(4.6 * len(SETTINGS), 3.8), layout="constrained")
    for axes, setting in zip(drawing.subplots(1, len(SETTINGS)), SETTINGS, strict=True):
        for (policy, title), line in zip(TITLES.items(), ("-", "--", ":"), strict=True):
            speedups = np.sort(np.concatenate([run.speedups for run in pooled(runs, setting, policy)]))
            axes.plot(speedups, np.arange(1, len(speedups) + 1) / len(speedups), line, label=title)
        axes.set_xscale("log")
        axes.set_xlim(0.9, None)
        axes.set_ylim(0, 1)
        axes.set_xlabel("speed-up of a job, predicted")
        axes.set_ylabel("share of MapReduce jobs")
        axes.set_title(setting.title, fontsize=9)
        axes.legend(fontsize=8, loc="lower right")
    drawing.suptitle("Omega, figure 15: potential speed-up by policy", fontsize=10)
    return drawing


def _use(runs: Sequence[SpecialistRun]) -> Drawing:
    """Draw the first seed's day, without the scheduler for MapReduce above and with it below."""
    drawing = Drawing(figsize=(5.2 * len(SETTINGS), 4.6), layout="constrained")
    shown = (WorkerPolicy.AS_REQUESTED, WorkerPolicy.MAX_PARALLELISM)
    panels = drawing.subplots(2, len(SETTINGS), sharex=True, sharey="col")
    for column, setting in zip(panels.T, SETTINGS, strict=True):
        for axes, policy in zip(column, shown, strict=True):
            used = pooled(runs, setting, policy)[0].used
            axes.plot(np.arange(len(used)) * SAMPLE_S / 3600, used, linewidth=0.7)
            axes.set_ylabel("CPU used")
            axes.text(0.02, 0.92, TITLES.get(policy, "workers as requested"), transform=axes.transAxes, fontsize=8)
        column[0].set_title(setting.title, fontsize=9)
        column[1].set_xlabel("hour")
    drawing.suptitle("Omega, figure 16: use of the cell over a day", fontsize=10)
    return drawing
