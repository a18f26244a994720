"""Plots of figures 15 and 16: speed-ups of MapReduce jobs, and how a cell's use varies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure as Drawing

from treadle.policy.mapreduce_workers import WorkerPolicy
from treadle_lab.models.cell.cell import SAMPLE_S
from treadle_lab.papers.omega.specialist import SETTINGS, SpecialistRun, pooled

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
