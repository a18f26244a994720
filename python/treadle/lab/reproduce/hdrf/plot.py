"""Containers of each leaf over time, a panel for each scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from treadle.lab.reproduce.hdrf.experiment import Run
from treadle.lab.reproduce.hdrf.paper_tests import HdrfTest
from treadle.lab.reproduce.hdrf.report import SCHEDULERS

__all__ = ["plot_test"]


def plot_test(test: HdrfTest, runs: Sequence[Run], target: Path) -> None:
    """Write one chart: what each leaf has, and dotted what the paper says that it should have."""
    figure = Figure(figsize=(9, 3.2 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharey=True, squeeze=False)[:, 0]
    colors = {leaf: f"C{place}" for place, leaf in enumerate(test.demands)}
    paper = test.shares("hdrf")
    for panel, run in zip(panels, runs, strict=True):
        for leaf, color in colors.items():
            seconds = [sample.second for sample in run.samples]
            tasks = [sample.tasks.get(leaf, 0) for sample in run.samples]
            panel.step(seconds, tasks, where="post", color=color, label=leaf, linewidth=1.2)
        for step, expected in zip(run.steps, paper, strict=True):
            panel.axvline(step.start_s, color="0.7", linewidth=0.8)
            panel.text(step.start_s, 1.01, step.title, transform=panel.get_xaxis_transform(), fontsize=7)
            for leaf, share in expected.items():
                panel.hlines(share, step.settling_s, step.end_s, colors=colors[leaf], linestyles=":", linewidth=1.2)
        panel.set_title(SCHEDULERS[run.scheduler], fontsize=10, loc="left", pad=16)
        panel.set_ylabel("containers of tasks")
        panel.set_ylim(bottom=-0.3)
    panels[-1].set_xlabel("seconds (dotted: the paper's shares)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.suptitle(f"Test {test.name}")
    figure.savefig(target, dpi=150)
