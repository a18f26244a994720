"""Draws a sweep's results: mean completion time against fairness, with the Pareto front, a plot a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from treadle.simulate.comparison import Interval
from treadle.simulate.plots import STYLE, styles
from treadle.sweep.report import MEAN, Cell, Report

MARKERS: Final = "osD^vP*X"
AXIS: Final = {"share_error": "share error (fairer to the left)", "jain": "Jain's index (fairer to the right)"}
NAMED_MAX: Final = 12
"""Variants up to this number have a legend each; more are named by what was varied."""


def plot_sweep(report: Report, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write a plot for each scenario into a folder, in each format; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with mpl.rc_context(STYLE):
        for at, scenario in enumerate(report.plan.scenarios):
            figure = _front(report, at, scenario.name)
            for ending in formats:
                files.append(folder / f"pareto-{at + 1}.{ending}")
                metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(ending)
                figure.savefig(files[-1], dpi=150, metadata=metadata)
    return files


def _front(report: Report, scenario: int, name: str) -> Figure:
    cells = [cell for cell in report.cells if cell.scenario == scenario and report.fairness in cell.figures]
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    panel: Any = figure.subplots()
    front = sorted(_point(cell, report) for cell in cells if cell.pareto)
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
    handles, labels = panel.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside right upper", fontsize=7)
    return figure


def _point(cell: Cell, report: Report) -> tuple[float, float]:
    return cell.figures[report.fairness].mean, cell.figures[MEAN].mean


def _around(figure: Interval) -> list[list[float]]:
    """Return how far an interval reaches below and above its mean, as matplotlib takes it."""
    return [[max(figure.mean - figure.low, 0.0)], [max(figure.high - figure.mean, 0.0)]]
