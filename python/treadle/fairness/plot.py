"""Draws the steps of a problem as the paper draws its allocations: a stack of leaves for each resource."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from treadle.fairness.steps import Step
from treadle.fairness.tree import Tree

__all__ = ["plot_steps"]

MOST_LEAVES = 19
MOST_STEPS = 12


def plot_steps(tree: Tree, algorithm: str, steps: Sequence[Step], titles: Sequence[str], target: Path) -> None:
    """Write one chart with a panel for each of the first 12 steps; leaves beyond the 19 largest are one stack."""
    steps = steps[:MOST_STEPS]
    names = _largest(steps)
    figure = Figure(figsize=(2.4 * len(steps) + 2.5, 3.6), layout="constrained")
    panels = figure.subplots(1, len(steps), sharey=True, squeeze=False)[0]
    for panel, step, title in zip(panels, steps, titles, strict=False):
        bottoms = [0.0] * len(tree.resources)
        for number, name in enumerate([*names, None]):
            heights = _heights(tree, step, names, name)
            if name is None and not any(heights):
                continue
            color = f"C{number % 10}"
            label = name or "all others"
            panel.bar(tree.resources, heights, bottom=bottoms, label=label, color=color, edgecolor="white")
            bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
        panel.set_title(title, fontsize=9)
        panel.set_ylim(0, 100)
    panels[0].set_ylabel("share of the cluster (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.suptitle(algorithm)
    figure.savefig(target, dpi=150)


def _largest(steps: Sequence[Step]) -> list[str]:
    peak = {name: max(step.leaves[name].dominant_share for step in steps) for name in steps[0].leaves}
    chosen = set(sorted(peak, key=lambda name: peak[name], reverse=True)[:MOST_LEAVES])
    return [name for name in peak if name in chosen]


def _heights(tree: Tree, step: Step, names: Sequence[str], name: str | None) -> list[float]:
    chosen = [name] if name is not None else [other for other in step.leaves if other not in set(names)]
    heights = []
    for resource, amount in tree.capacity.items():
        total = sum(step.leaves[leaf].resources[resource] for leaf in chosen)
        heights.append(float(100 * total / amount) if amount else 0.0)
    return heights
