"""Plots of simulations: completion times as distributions, use and shares over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from treadle.simulator.results import completion_s
from treadle.simulator.simulation import Run

MOST_QUEUES = 12


def plot_runs(runs: Sequence[tuple[str, Run]], folder: Path) -> list[Path]:
    """Write all plots of runs, given with the policies' names, into a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "completion-times.png", folder / "use.png", folder / "shares.png"]
    _completion_times(runs, files[0])
    _use(runs, files[1])
    _shares(runs, files[2])
    return files


def _completion_times(runs: Sequence[tuple[str, Run]], file: Path) -> None:
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    panel = figure.subplots()
    for at, (name, run) in enumerate(runs):
        times = np.sort(completion_s(run))
        if len(times):
            panel.step(times, np.arange(1, len(times) + 1) / len(times), where="post", label=name, color=f"C{at % 10}")
    panel.set_xscale("log")
    panel.set_xlabel("job completion time (s)")
    panel.set_ylabel("fraction of jobs")
    panel.set_ylim(0, 1)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8)
    figure.savefig(file, dpi=150)


def _use(runs: Sequence[tuple[str, Run]], file: Path) -> None:
    resources = runs[0][1].built.resources
    figure = Figure(figsize=(6, 1.0 + 1.8 * len(resources)), layout="constrained")
    panels = figure.subplots(len(resources), 1, sharex=True, squeeze=False)[:, 0]
    for r, panel in enumerate(panels):
        for at, (name, run) in enumerate(runs):
            total = max(int(run.built.total[r]), 1)
            _steps(panel, run, [100.0 * window.used[0, r] / total for window in run.measurements.windows], name, at)
        panel.set_ylabel(f"{resources[r]} used (%)")
        panel.set_ylim(0, 105)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    panels[-1].set_xlabel("time (s)")
    figure.savefig(file, dpi=150)


def _shares(runs: Sequence[tuple[str, Run]], file: Path) -> None:
    """Draw the dominant share of each leaf over time, a panel a policy; the largest leaves if there are many."""
    figure = Figure(figsize=(6, 0.8 + 2.2 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for panel, (name, run) in zip(panels, runs, strict=True):
        total = np.maximum(run.built.total, 1)
        shares = np.array([(window.used / total).max(axis=1) for window in run.measurements.windows])
        leaves = list(run.built.tree.leaves)
        if len(shares):
            leaves = sorted(leaves, key=lambda leaf: -shares[:, leaf].sum())[:MOST_QUEUES]
        for at, leaf in enumerate(sorted(leaves)):
            path = run.built.tree.paths[leaf].removeprefix("root.")
            _steps(panel, run, [100.0 * share[leaf] for share in shares], path, at)
        panel.set_title(name, fontsize=9)
        panel.set_ylabel("dominant share (%)")
        panel.set_ylim(0, 105)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=7, ncols=2)
    panels[-1].set_xlabel("time (s)")
    figure.savefig(file, dpi=150)


def _steps(panel: Any, run: Run, values: list[float], label: str, at: int) -> None:
    windows = run.measurements.windows
    if windows:
        edges = [window.begin_ms / 1000.0 for window in windows] + [windows[-1].end_ms / 1000.0]
        panel.stairs(values, edges, label=label, color=f"C{at % 10}", baseline=None)
