"""Plots of SLearn's evaluation, as in the paper: speed-ups over jobs, errors, means, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from treadle_lab.harness.statistics import Interval
from treadle_lab.papers.slearn.experiment import Outcome
from treadle_lab.papers.slearn.figures import ESTIMATORS, Report


def plot_slearn(outcomes: Sequence[Outcome], report: Report, folder: Path) -> list[Path]:
    """Draw the plots and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [
        _save(
            _bars(report.speedup_mean, report.paper.speedup_mean, "mean completion time over SLearn's"),
            folder,
            "speedup",
        ),
        _save(_speedups(outcomes, list(report.speedup_mean)), folder, "speedup-by-job"),
        _save(_errors(outcomes), folder, "error"),
    ]
    if report.over_3sigma:
        bars = _bars(report.over_3sigma, report.paper.over_3sigma, "3Sigma's mean completion time over SLearn's")
        drawn.append(_save(bars, folder, "sensitivity"))
    return drawn


def _bars(ours: dict[str, Interval], papers: Mapping[str, float], label: str) -> Figure:
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    at = np.arange(len(ours))
    means = np.array([each.mean for each in ours.values()])
    spread = np.array([[each.mean - each.low, each.high - each.mean] for each in ours.values()]).T
    axes.bar(at - 0.2, means, 0.4, yerr=spread, capsize=3, label="here, 95 % interval over seeds")
    known = [place for place, name in enumerate(ours) if name in papers]
    axes.bar(np.array(known) + 0.2, [papers[list(ours)[place]] for place in known], 0.4, label="paper")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_xticks(at, list(ours), rotation=30)
    axes.set_ylabel(label)
    axes.legend()
    return figure


def _cdf(axes: Any, values: Any, label: str) -> None:
    axes.plot(np.sort(values), np.arange(1, len(values) + 1) / len(values), label=label, linewidth=1)


def _speedups(outcomes: Sequence[Outcome], schemes: list[str]) -> Figure:
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for name in schemes:
        ratio = [outcome.completion_ms[name] / outcome.completion_ms["slearn"] for outcome in outcomes]
        _cdf(axes, np.concatenate(ratio), name)
    axes.set_xscale("log")
    axes.set_xlim(0.1, 100)
    axes.set_xlabel("completion time over that with SLearn")
    axes.set_ylabel("share of jobs")
    axes.legend()
    return figure


def _errors(outcomes: Sequence[Outcome]) -> Figure:
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for name in ESTIMATORS:
        _cdf(axes, np.concatenate([outcome.errors(name) for outcome in outcomes]), name)
    axes.set_xlim(0, 200)
    axes.set_xlabel("error of a wide job's mean task duration (%)")
    axes.set_ylabel("share of wide jobs")
    axes.legend()
    return figure


def _save(figure: Figure, folder: Path, name: str) -> Path:
    path = folder / f"slearn-{name}.png"
    figure.savefig(path, dpi=120)
    return path
