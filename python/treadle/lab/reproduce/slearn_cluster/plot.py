"""Completion times under each scheduler, as distributions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from treadle.lab.reproduce.slearn_cluster.experiment import SCHEMES, Round
from treadle.lab.reproduce.slearn_cluster.report import TITLES, TYPES, completions

__all__ = ["plot_completions"]


def plot_completions(rounds: Sequence[Round], target: Path) -> None:
    """Write one chart: for all jobs and for each type the share that has ended within a time."""
    kinds = [kind for kind in ("", *TYPES) if completions(rounds, SCHEMES[0].name, kind)]
    figure = Figure(figsize=(3.2 * len(kinds), 3.2), layout="constrained")
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for panel, kind in zip(panels, kinds, strict=True):
        for scheme in SCHEMES:
            seconds = sorted(time_ms / 1000 for time_ms in completions(rounds, scheme.name, kind))
            shares = [(place + 1) / len(seconds) for place in range(len(seconds))]
            panel.step([0.0, *seconds], [0.0, *shares], where="post", label=TITLES[scheme.name], linewidth=1.2)
        panel.set_title(kind or "all jobs", fontsize=10, loc="left")
        panel.set_xlabel("completion time (s)")
        panel.set_xlim(left=0)
    panels[0].set_ylabel("share of jobs")
    panels[-1].legend(fontsize=8, loc="lower right")
    figure.savefig(target, dpi=150)
