"""Plots of Graphene's evaluation, as the paper's: distributions of gaps, makespans over the bound, fairness, range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from treadle_lab.papers.graphene.experiment import Outcome
from treadle_lab.papers.graphene.figures import Report
from treadle_lab.papers.graphene.offline import Offline
from treadle_lab.papers.graphene.online import gaps_percent


def plot_graphene(outcomes: Sequence[Outcome], offline: Offline | None, report: Report, folder: Path) -> list[Path]:
    """Draw the plots of what was run and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [_save(_gaps(outcomes, workload), folder, f"gaps-{workload}") for workload in outcomes[0].online]
    if offline is not None:
        drawn.append(_save(_offline(offline), folder, "offline"))
    if report.jain:
        drawn.append(_save(_fairness(report), folder, "fairness"))
    if report.sweep_shorter or report.offline_sweep:
        drawn.append(_save(_range(report), folder, "range"))
    return drawn


def _axes(width: float = 8.0) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, 4.5), layout="constrained")
    return figure, figure.subplots()


def _cdf(axes: Any, values: Any, label: str) -> None:
    axes.plot(np.sort(values), np.arange(1, len(values) + 1) / len(values), label=label, linewidth=1)


def _offline(offline: Offline) -> Figure:
    figure, axes = _axes()
    for name in offline.makespans:
        _cdf(axes, offline.over_bound(name), name)
    axes.set_xlabel("executed makespan over the lower bound")
    axes.set_ylabel("share of DAGs")
    axes.legend()
    return figure


def _gaps(outcomes: Sequence[Outcome], workload: str) -> Figure:
    figure, axes = _axes()
    for scheme in outcomes[0].online[workload]:
        if scheme != "bfs":
            runs = (outcome.online[workload] for outcome in outcomes)
            _cdf(axes, np.concatenate([gaps_percent(run[scheme], run["bfs"]) for run in runs]), scheme)
    axes.axvline(0.0, color="grey", linewidth=0.8)
    axes.set_xlim(-100, 100)
    axes.set_xlabel(f"{workload}: completion time shorter than with breadth first + capacity (%)")
    axes.set_ylabel("share of jobs")
    axes.legend()
    return figure


def _fairness(report: Report) -> Figure:
    figure, axes = _axes()
    for scheme, windows in report.jain.items():
        axes.plot(list(windows), [each.mean for each in windows.values()], marker="o", label=scheme)
    axes.set_xlabel("window (s)")
    axes.set_ylabel("Jain's index of two queues")
    axes.legend()
    return figure


def _range(report: Report) -> Figure:
    """Draw the gain over the generator's range: online where it was run, else offline."""
    online = {point: table["graphene"].mean for point, table in report.sweep_shorter.get("bfs", {}).items()}
    gains = online or report.offline_sweep
    figure, axes = _axes(10.0)
    axes.bar(np.arange(len(gains)), list(gains.values()))
    axes.set_xticks(np.arange(len(gains)), list(gains), rotation=60, ha="right", fontsize=7)
    axes.set_ylabel(f"{'median completion time' if online else 'makespan of one DAG'} shorter (%)")
    return figure


def _save(figure: Figure, folder: Path, name: str) -> Path:
    path = folder / f"graphene-{name}.png"
    figure.savefig(path, dpi=120)
    return path
