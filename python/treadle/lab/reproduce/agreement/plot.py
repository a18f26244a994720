"""Containers of each leaf over time, on a cluster and in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from treadle.lab.reproduce.agreement.experiment import Both
from treadle.lab.reproduce.agreement.workload import LEAVES

__all__ = ["plot_agreement"]

STEP_S = 0.1


def plot_agreement(runs: Sequence[Both], target: Path) -> None:
    """Write one chart: a panel for each policy, lines for the cluster, dotted ones for the simulator."""
    figure = Figure(figsize=(9, 3.2 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for panel, both in zip(panels, runs, strict=True):
        steps = int(max(both.real.end_s, both.simulated.end_s) / STEP_S) + 2
        seconds = [STEP_S * step for step in range(steps)]
        for place, leaf in enumerate(LEAVES):
            real, simulated = both.real.containers(leaf, seconds), both.simulated.containers(leaf, seconds)
            panel.plot(seconds, real, color=f"C{place}", linewidth=1.2, label=f"{leaf}, cluster")
            panel.plot(seconds, simulated, color=f"C{place}", linewidth=1.2, linestyle=":", label=f"{leaf}, simulator")
        panel.set_title(both.policy, fontsize=10, loc="left")
        panel.set_ylabel("containers of tasks")
        panel.set_ylim(bottom=-0.3)
    panels[-1].set_xlabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.savefig(target, dpi=150)
