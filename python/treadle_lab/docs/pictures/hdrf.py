"""H-DRF's tree: what each queue gets of figure 4's cluster, naively and rescaled."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from treadle.fairness.tree import Group, Leaf, Tree
from treadle_lab.docs.pictures.canvas import BLUE, DARK, GREY, ORANGE, RED, pyplot, write
from treadle_lab.fairness.algorithms import allocate_fluid

CAPACITY: Final = {"cpu": Fraction(10), "gpu": Fraction(10)}
TREE: Final = Tree(
    CAPACITY,
    Group(
        "root",
        (
            Group("n1", (Leaf("n1.1", {"cpu": Fraction(1)}),)),
            Group("n2", (Leaf("n2.1", {"cpu": Fraction(1)}), Leaf("n2.2", {"gpu": Fraction(1)}))),
        ),
    ),
)
"""docs/examples/share/test-a.yaml."""

COLOURS: Final = {"cpu": BLUE, "gpu": ORANGE}
TITLES: Final = {"drf-naive": "naive hierarchical DRF: n2.1 starves", "hdrf": "H-DRF: no leaf starves"}
WIDE: Final = 0.56
"""Of a bar that is full; leaves stand 1 apart."""
Point = tuple[float, float]


def draw_hdrf(path: Path) -> None:
    """Draw the tree under both algorithms, side by side."""
    figure, axes = pyplot().subplots(1, 2, figsize=(9.5, 3.4))
    for axis, (algorithm, title) in zip(axes, TITLES.items(), strict=True):
        _tree(axis, allocate_fluid(TREE, algorithm).tasks)
        axis.set_title(title)
        axis.set_xlim(-0.5, 2.6)
        axis.set_ylim(-0.75, 2.5)
        axis.axis("off")
    figure.text(0.5, 0.0, "bars: share of the cluster's CPU (blue) and GPU (orange)", ha="center", color=DARK)
    write(figure, path)


def used(node: Group | Leaf, tasks: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return what a node has of each resource, as a part of the cluster."""
    if isinstance(node, Leaf):
        return {name: tasks[node.name] * node.demand.get(name, Fraction(0)) / most for name, most in CAPACITY.items()}
    below = [used(child, tasks) for child in node.children]
    return {name: sum((each[name] for each in below), Fraction(0)) for name in CAPACITY}


def _tree(axis: Any, tasks: Mapping[str, Fraction]) -> None:
    leaves = iter(range(len(tasks)))

    def place(node: Group | Leaf, level: int) -> Point:
        if isinstance(node, Leaf):
            here = float(next(leaves)), float(level)
        else:
            below = [place(child, level - 1) for child in node.children]
            here = sum(x for x, _ in below) / len(below), float(level)
            for x, y in below:
                axis.plot([here[0], x], [here[1] - 0.32, y + 0.34], color=GREY, linewidth=1, zorder=0)
        _node(axis, here, node, used(node, tasks))
        return here

    place(TREE.root, 2)


def _node(axis: Any, at: Point, node: Group | Leaf, shares: Mapping[str, Fraction]) -> None:
    x, y = at
    starved = isinstance(node, Leaf) and not any(shares.values())
    edge = RED if starved else DARK
    axis.text(x, y + 0.17, node.name, ha="center", va="center", color=edge, weight="bold" if starved else "normal")
    for row, (name, share) in enumerate(shares.items()):
        bottom = y - 0.1 - 0.18 * row
        axis.barh(bottom, WIDE, 0.13, x - WIDE / 2, color="white", edgecolor=edge, linewidth=0.8)
        axis.barh(bottom, WIDE * float(share), 0.13, x - WIDE / 2, color=COLOURS[name])
        axis.text(x + WIDE / 2 + 0.03, bottom, f"{float(share):.0%}", va="center", fontsize=7, color=edge)
