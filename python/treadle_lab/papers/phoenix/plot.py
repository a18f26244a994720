"""Plots like the paper's figures 2 to 4, and the headline: one file each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure as Drawing

from treadle_lab.papers.phoenix.experiment import CLASSES, Run, Setup
from treadle_lab.papers.phoenix.figures import Report

LINES: Final = ("-", "--", ":", "-.")
BUCKETS: Final = 200
"""Of time in figure 3."""


def plot_phoenix(report: Report, setup: Setup, folder: Path) -> list[Path]:
    """Draw what the runs allow; return the files."""
    first = [run for run in report.runs if run.outcome is not None]
    row = report.runs[0].rows[0]
    where = f"{row['trace']}, {setup.slots:,} workers, load {row['offered_load']:.0%}"
    files = []
    for name, title, drawing in (
        ("figure-2", "Phoenix, figure 2: time that short tasks wait", _queueing(first, setup)),
        ("figure-3", "Phoenix, figure 3: waits over time", _over_time(first, setup)),
        ("figure-4", "Phoenix, figure 4: P99 of response times", _responses(report.runs, ("p99_s",))),
        ("headline", "Response times of short jobs", _responses(report.runs, ("p50_s", "p90_s", "p99_s"))),
    ):
        drawing.suptitle(f"{title}; {where}", fontsize=10)
        file = folder / f"phoenix-{name}.png"
        drawing.savefig(file, dpi=120)
        files.append(file)
    return files


def _short_tasks(setup: Setup) -> npt.NDArray[np.bool_]:
    return np.repeat(~setup.trace.is_long, setup.trace.tasks)


def _queueing(runs: Sequence[Run], setup: Setup) -> Drawing:
    """Draw the share of short tasks that waited at most so long."""
    drawing = Drawing(figsize=(7.2, 4.2), layout="constrained")
    axes = drawing.subplots()
    short = _short_tasks(setup)
    for place, run in enumerate(runs):
        assert run.outcome is not None
        waited = np.sort(run.outcome.queued_s[short])
        at = np.unique(np.linspace(0, len(waited) - 1, 2000).astype(int))
        axes.plot(
            waited[at], (at + 1) / len(waited), label=run.system, linestyle=LINES[place % len(LINES)], linewidth=1
        )
    axes.set_xlim(0, 3000)
    axes.set_xlabel("time from a job's arrival to a task's start (s)")
    axes.set_ylabel("share of short tasks")
    axes.legend(fontsize=7)
    return drawing


def _over_time(runs: Sequence[Run], setup: Setup) -> Drawing:
    """Draw a panel for each of Eagle-C and Phoenix: waits of constrained and unconstrained short tasks."""
    wanted = [run for run in runs if run.system in ("eagle-c", "phoenix")] or list(runs[:1])
    drawing = Drawing(figsize=(4.8 * len(wanted), 3.8), layout="constrained")
    panels = drawing.subplots(1, len(wanted), sharey=True, squeeze=False)[0]
    tasks = setup.trace.tasks
    arrived_h = np.repeat(setup.trace.arrival_s, tasks) / 3600
    short = _short_tasks(setup)
    for axes, run in zip(panels, wanted, strict=True):
        assert run.outcome is not None
        assert run.constrained is not None
        constrained = np.repeat(run.constrained, tasks)
        for name, own, line in (("constrained", constrained, "-"), ("unconstrained", ~constrained, "--")):
            _mean_over(axes, arrived_h[short & own], run.outcome.queued_s[short & own], label=name, linestyle=line)
        axes.set_title(run.system, fontsize=9)
        axes.set_xlabel("arrival (h)")
        axes.legend(fontsize=8)
    panels[0].set_ylabel("mean wait of short tasks (s)")
    return drawing


def _mean_over(axes: Any, at: npt.NDArray[np.float64], values: npt.NDArray[np.float64], **style: Any) -> None:
    if len(at) == 0:
        return
    edges = np.linspace(0, float(at.max()) or 1.0, BUCKETS + 1)
    counts, _ = np.histogram(at, edges)
    sums, _ = np.histogram(at, edges, weights=values)
    some = counts > 0
    axes.plot(edges[:-1][some], sums[some] / counts[some], linewidth=1, **style)


def _responses(runs: Sequence[Run], figures: Sequence[str]) -> Drawing:
    """Draw bars: a panel for each figure, a group for each system, a bar for each class of jobs."""
    systems = list(dict.fromkeys(run.system for run in runs))
    kinds = CLASSES if len(figures) == 1 else ("short", "short-constrained", "short-unconstrained")
    drawing = Drawing(figsize=(max(6.0, (0.5 + 0.7 * len(systems)) * len(figures)), 4.2), layout="constrained")
    panels = drawing.subplots(1, len(figures), squeeze=False)[0]
    width = 0.8 / len(kinds)
    for axes, figure in zip(panels, figures, strict=True):
        for place, kind in enumerate(kinds):
            means = [_mean([run.figure(kind, figure) for run in runs if run.system == name]) for name in systems]
            axes.bar(np.arange(len(systems)) + place * width, means, width, label=kind)
        axes.set_xticks(np.arange(len(systems)) + 0.4 - width / 2, systems, rotation=60, fontsize=7)
        axes.set_yscale("log")
        axes.set_title(f"{figure.removesuffix('_s').upper()} (s)", fontsize=9)
    panels[0].legend(fontsize=7)
    return drawing


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")
