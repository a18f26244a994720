"""Completion times of DAGs by scheme: as distributions, and each against its own with stock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from treadle.lab.reproduce.graphene_cluster.experiment import SCHEMES, Round
from treadle.lab.reproduce.graphene_cluster.report import completions, gaps_percent

__all__ = ["plot_completions"]


def plot_completions(rounds: Sequence[Round], target: Path) -> None:
    """Write one chart: the share of DAGs that have ended within a time, and by how much each ends sooner."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    times, gaps = figure.subplots(1, 2)
    for scheme in SCHEMES:
        seconds = sorted(time_ms / 1000 for time_ms in completions(rounds, scheme.name))
        shares = [(place + 1) / len(seconds) for place in range(len(seconds))]
        times.step([0, *seconds], [0, *shares], where="post", label=scheme.title)
    times.set_xlabel("completion time (s)")
    times.set_ylabel("share of DAGs")
    times.legend(fontsize=6)
    others = SCHEMES[1:]
    gaps.boxplot([gaps_percent(rounds, scheme.name) for scheme in others])
    gaps.set_xticks(range(1, len(others) + 1), [scheme.name for scheme in others])
    gaps.axhline(0.0, color="grey", linewidth=0.8)
    gaps.set_ylabel("sooner than stock (%)")
    figure.savefig(target, dpi=150)
