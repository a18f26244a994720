"""Plots of simulations, sweeps and workloads, for the screen and for print; they need matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from treadle.compiled.array_types import F64
from treadle.workload.job import Summary, Weighted, Workload, job_work

if TYPE_CHECKING:  # imported where needed: they import numba, which the plot of a workload does not need
    from treadle.simulate.comparison import Interval
    from treadle.sweep.report import SweepReport

FORMATS: Final = ("png", "pdf", "svg")
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#8C510A")
"""Colours by Okabe and Ito, distinguishable with most colour deficiencies; brown replaces yellow."""
DASHES: Final = ("-", "--", "-.", ":")
MOST_QUEUES: Final = 12
STYLE: Final = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "treadle", "font.size": 9}

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Steps:
    """A piecewise constant quantity between edges; shape of ``values`` (edges - 1,)."""

    edges: F64
    values: F64

    def at(self, times: F64) -> F64:
        """Return the values at times; 0 before and after."""
        place = np.searchsorted(self.edges, times, side="right") - 1
        inside = (place >= 0) & (place < len(self.values))
        found: F64 = np.where(inside, self.values[np.clip(place, 0, max(len(self.values) - 1, 0))], 0.0)
        return found


def plot_results(runs: Sequence[Document], folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write all plots of the ``runs`` of a results file into a folder, in each format; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    by_policy: dict[str, list[Document]] = {}
    for run in runs:
        by_policy.setdefault(run["policy"], []).append(run)
    files = []
    drawings: dict[str, Callable[[dict[str, list[Document]]], Figure]] = {
        "completion-times": _completion_times,
        "use": _use,
        "shares": _shares,
        "slowdowns": _slowdowns,
    }
    with mpl.rc_context(STYLE):
        for name, draw in drawings.items():
            files += _saved(draw(by_policy), folder / name, formats)
    return files


def _saved(figure: Figure, place: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure in each format, without a date, by which files of equal runs would differ; return the files."""
    files = [place.with_name(f"{place.name}.{ending}") for ending in formats]
    for file, ending in zip(files, formats, strict=True):
        metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(ending)
        figure.savefig(file, dpi=150, metadata=metadata)
    return files


def _completion_times(by_policy: dict[str, list[Document]]) -> Figure:
    """Draw the fraction of finished jobs over time: of all seeds together, with a band over seeds."""
    from treadle.simulate.batch import completion_s

    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    panel = figure.subplots()
    for (name, runs), style in zip(by_policy.items(), styles(), strict=False):
        each = [np.sort(_known(completion_s(run["job_records"]))) for run in runs]
        together = np.sort(np.concatenate(each))
        if not len(together):
            continue
        times = np.unique(together)
        panel.step(times, _fraction(together, times), where="post", label=name, **style)
        if len(runs) > 1:
            curves = np.array([_fraction(one, times) for one in each if len(one)])
            band = (curves.min(axis=0), curves.max(axis=0))
            panel.fill_between(times, *band, step="post", alpha=0.2, color=style["color"], linewidth=0)
    panel.set_xscale("log")
    panel.set_xlabel("job completion time (s)")
    panel.set_ylabel("fraction of jobs")
    panel.set_ylim(0, 1)
    panel.grid(alpha=0.3)
    _legend(figure, panel)
    return figure


def _use(by_policy: dict[str, list[Document]]) -> Figure:
    resources = list(next(iter(by_policy.values()))[0]["total"])
    figure = Figure(figsize=(7.5, 1.0 + 1.8 * len(resources)), layout="constrained")
    panels = figure.subplots(len(resources), 1, sharex=True, squeeze=False)[:, 0]
    for resource, panel in zip(resources, panels, strict=True):
        for (name, runs), style in zip(by_policy.items(), styles(), strict=False):
            curves = []
            for run in runs:
                total = max(run["total"][resource], 1)
                curves.append(_steps(run, [100.0 * window["used"][resource] / total for window in run["windows"]]))
            _mean_and_band(panel, curves, name, style)
        panel.set_ylabel(f"{resource} used (%)")
        panel.set_ylim(0, 105)
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("time (s)")
    _legend(figure, panels[0])
    return figure


def _shares(by_policy: dict[str, list[Document]]) -> Figure:
    """Draw the dominant share of each leaf over time, a panel per policy; only the largest of many leaves."""
    figure = Figure(figsize=(7.5, 0.8 + 2.2 * len(by_policy)), layout="constrained")
    panels = figure.subplots(len(by_policy), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    first = [runs[0]["leaf_shares"] for runs in by_policy.values()]
    sums = {leaf: sum(sum(shares.get(leaf, ())) for shares in first) for leaf in first[0]}
    largest = set(sorted(sums, key=lambda leaf: -sums[leaf])[:MOST_QUEUES])
    leaves = [leaf for leaf in sums if leaf in largest]
    for panel, (name, runs) in zip(panels, by_policy.items(), strict=True):
        for leaf, style in zip(leaves, styles(), strict=False):
            curves = [_steps(run, [100.0 * share for share in run["leaf_shares"][leaf]]) for run in runs]
            _mean_and_band(panel, curves, leaf, style)
        panel.set_title(name, fontsize=9)
        panel.set_ylabel("dominant share (%)")
        panel.set_ylim(0, 105)
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("time (s)")
    _legend(figure, panels[0])
    return figure


def _slowdowns(by_policy: dict[str, list[Document]]) -> Figure:
    """Draw a heat map for each policy: the mean slowdown by queue and class of sizes; empty where there is no job."""
    from treadle.simulate.batch import SIZES

    queues = sorted({queue for runs in by_policy.values() for run in runs for queue in run["job_records"]["queue"]})
    queues = queues[:MOST_QUEUES]
    sizes = [name for _, name in SIZES]
    grids = {name: _grid(runs, queues, sizes) for name, runs in by_policy.items()}
    known = np.concatenate([_known(grid.ravel()) for grid in grids.values()])
    top = float(known.max()) if len(known) else 2.0
    figure = Figure(figsize=(2.0 + 2.6 * len(grids), 1.6 + 0.35 * max(len(queues), 3)), layout="constrained")
    panels = figure.subplots(1, len(grids), sharey=True, squeeze=False)[0]
    image = None
    for panel, (name, grid) in zip(panels, grids.items(), strict=True):
        image = panel.imshow(grid, cmap="Greys", norm="log", vmin=1.0, vmax=max(top, 1.01), aspect="auto")
        for (row, column), value in np.ndenumerate(grid):
            if np.isfinite(value):
                dark = value > top**0.6
                panel.text(column, row, f"{value:.3g}", ha="center", va="center", color="white" if dark else "black")
        panel.set_title(name, fontsize=9)
        panel.set_xticks(range(len(sizes)), sizes, rotation=30, ha="right", fontsize=7)
        panel.set_yticks(range(len(queues)), queues, fontsize=7)
    if image is not None:
        figure.colorbar(image, ax=list(panels), label="mean slowdown")
    return figure


def _grid(runs: Sequence[Document], queues: Sequence[str], sizes: Sequence[str]) -> F64:
    from treadle.simulate.batch import size_classes, slowdown

    jobs = [run["job_records"] for run in runs]
    slow = np.concatenate([slowdown(each) for each in jobs])
    queue = np.concatenate([np.asarray(each["queue"], object) for each in jobs])
    size = np.concatenate([size_classes(each) for each in jobs])
    grid = np.full((len(queues), len(sizes)), np.nan)
    for row, column in product(range(len(queues)), range(len(sizes))):
        values = _known(slow[(queue == queues[row]) & (size == sizes[column])])
        if len(values):
            grid[row, column] = values.mean()
    return grid


def styles() -> Iterable[dict[str, Any]]:
    """Yield line styles: a distinct colour and dash pattern for each of the first 32, then repeated."""
    while True:
        for at in range(len(COLOURS) * len(DASHES)):
            turn = at // len(COLOURS)
            dash = DASHES[(at + turn) % len(DASHES)]
            yield {"color": COLOURS[at % len(COLOURS)], "linestyle": dash, "linewidth": 1.4}


def _mean_and_band(panel: Any, curves: Sequence[Steps], label: str, style: dict[str, Any]) -> None:
    curves = [curve for curve in curves if len(curve.values)]
    if not curves:
        return
    edges = np.unique(np.concatenate([curve.edges for curve in curves]))
    values = np.array([curve.at(edges[:-1]) for curve in curves])
    panel.stairs(values.mean(axis=0), edges, label=label, baseline=None, **style)
    if len(curves) > 1:
        low, high = values.min(axis=0), values.max(axis=0)
        panel.stairs(high, edges, baseline=low, fill=True, alpha=0.2, color=style["color"], linewidth=0)


def _steps(run: Document, values: Sequence[float]) -> Steps:
    windows = run["windows"]
    ends = [windows[-1]["end_ms"]] if windows else []
    return Steps(np.array([window["begin_ms"] for window in windows] + ends) / 1000.0, np.array(values, np.float64))


def _fraction(ordered: F64, times: F64) -> F64:
    """Return for each time the fraction of sorted numbers up to it."""
    fraction: F64 = np.searchsorted(ordered, times, side="right") / max(len(ordered), 1)
    return fraction


def _known(values: F64) -> F64:
    return values[np.isfinite(values)]


def _legend(figure: Figure, panel: Any, fontsize: int = 8) -> None:
    """Put the legend next to the data."""
    handles, labels = panel.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside right upper", fontsize=fontsize)


MARKERS: Final = "osD^vP*X"
AXIS: Final = {"share_deviation": "share deviation (fairer to the left)", "jain": "Jain's index (fairer to the right)"}
NAMED_MAX: Final = 12
"""Maximum number of variants with individual legend entries; more are named by the varied setting."""


def plot_sweep(report: SweepReport, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write a plot for each scenario into a folder, in each format; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with mpl.rc_context(STYLE):
        for at, scenario in enumerate(report.plan.scenarios):
            files += _saved(_front(report, at, scenario.name), folder / f"pareto-{at + 1}", formats)
    return files


def _front(report: SweepReport, scenario: int, name: str) -> Figure:
    from treadle.sweep.report import MEAN

    cells = [cell for cell in report.cells if cell.scenario == scenario and report.fairness in cell.figures]
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    panel: Any = figure.subplots()
    front = sorted((cell.figures[report.fairness].mean, cell.figures[MEAN].mean) for cell in cells if cell.pareto)
    if front:
        panel.plot(*zip(*front, strict=True), color="0.5", linewidth=1.0, drawstyle="steps-post", zorder=0)
    by_variant = len(cells) <= NAMED_MAX
    seen: dict[str, tuple[dict[str, Any], str]] = {}
    kinds = iter(styles())
    for cell in cells:
        variant = report.plan.policies[cell.policy]
        label = variant.name if by_variant else variant.entry
        new = label not in seen
        if new:
            seen[label] = (next(kinds), MARKERS[len(seen) % len(MARKERS)])
        style, marker = seen[label]
        fair, mean = cell.figures[report.fairness], cell.figures[MEAN]
        panel.errorbar(
            fair.mean,
            mean.mean,
            xerr=_around(fair),
            yerr=_around(mean),
            fmt=marker,
            color=style["color"],
            markersize=5,
            linewidth=0.8,
            label=label if new else None,
        )
    panel.set_xlabel(AXIS[report.fairness])
    panel.set_ylabel("mean job completion time (s)")
    panel.set_title(name, fontsize=9)
    panel.grid(alpha=0.3)
    _legend(figure, panel, fontsize=7)
    return figure


def _around(figure: Interval) -> list[list[float]]:
    """Return the distances from an interval's mean to its ends, for matplotlib."""
    return [[max(figure.mean - figure.low, 0.0)], [max(figure.high - figure.mean, 0.0)]]


BINS = 100
SECOND_MS = 1_000


def plot_workload(workload: Workload, summary: Summary, title: str, target: Path) -> None:
    """Write a chart of four panels: jobs and work by time of arrival; tails of job sizes, stage widths, durations."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    arrivals, sizes, widths, durations = figure.subplots(2, 2).ravel()
    _draw_arrivals(workload, arrivals)
    tails = summary.distributions
    _draw_tail(sizes, tails["job_ms"], "all tasks of a job, one after another (s)", "jobs", SECOND_MS)
    _draw_tail(widths, tails["stage_tasks"], "tasks of a stage", "stages")
    _draw_tail(durations, tails["task_ms"], "duration (s)", "tasks", SECOND_MS)
    figure.suptitle(f"{title}: {summary.jobs:,} jobs, {summary.tasks:,} tasks")
    figure.savefig(target, dpi=150)


def _draw_arrivals(workload: Workload, panel: Axes) -> None:
    """Draw how many jobs arrive in each hundredth of the span, and the resources that their work would hold then."""
    times = np.array([job.arrival_ms for job in workload.jobs], np.float64) / SECOND_MS
    edges = np.histogram_bin_edges(times, BINS)
    panel.stairs(np.histogram(times, edges)[0], edges, fill=True, color="0.85", label="jobs")
    panel.set_xlabel("arrival (s)")
    panel.set_ylabel("jobs")
    if len(workload.jobs) < 2 or times[0] == times[-1]:
        return
    beside = panel.twinx()
    step_ms = float(edges[1] - edges[0]) * SECOND_MS
    for number, resource in enumerate(workload.resources):
        work = np.array([job_work(job).get(resource, 0.0) for job in workload.jobs])
        held = np.histogram(times, edges, weights=work)[0] / step_ms
        peak = held.max()
        if peak > 0:
            label = f"{resource} (1 = {peak:.3g})"
            beside.stairs(held / peak, edges, color=f"C{number}", label=label, linewidth=1)
    beside.set_ylabel("work that arrives, over its peak")
    beside.legend(fontsize=8)


def _draw_tail(panel: Axes, weighted: Weighted, label: str, what: str, unit: float = 1) -> None:
    """Draw the fraction of larger values, both axes logarithmic: a Pareto tail is a straight line."""
    panel.set_xlabel(label)
    panel.set_ylabel(f"share of {what} at least so large")
    if not len(weighted.values):
        return
    ends = np.cumsum(weighted.counts)
    above = 1.0 - (ends - weighted.counts) / ends[-1]
    panel.step(weighted.values / unit, above, where="pre")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(alpha=0.3)
