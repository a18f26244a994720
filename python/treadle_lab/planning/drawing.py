"""Pictures of DAGs and of plans."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.planner.plan import Plan
from treadle.planner.problem import F64, I64

LABELS_MAX: Final = 60
"""With more stages than this, only ids are written; names and demands would cover each other."""
TROUBLESOME: Final = "#fc9272"
USUAL: Final = "#c6dbef"


def draw_dag(dag: Dag, troublesome: Set[int], title: str, path: Path) -> None:
    """Draw a DAG; edges that follow from others are thin.

    Args:
        dag: what to draw
        troublesome: ids of the stages that a plan places first
        title: above the picture
        path: of the file, whose ending says its format

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    import matplotlib
    import networkx

    matplotlib.use("Agg")
    from matplotlib import pyplot

    graph, levels = dag.graph, dag.levels()
    for level, stages in enumerate(levels):
        for stage in stages:
            graph.nodes[stage]["level"] = level
    places = networkx.multipartite_layout(graph, subset_key="level")
    longest = dag.critical_path()
    bold = set(pairwise(longest))
    needed = set(dag.reduced().edges) | bold
    widest = max((len(stages) for stages in levels), default=1)
    figure, axis = pyplot.subplots(figsize=(min(2.2 * len(levels) + 2, 60), min(0.9 * widest + 2, 60)))
    for edges, width, color in (
        ([edge for edge in graph.edges if edge not in needed], 0.4, "#bdbdbd"),
        ([edge for edge in graph.edges if edge in needed - bold], 1.0, "#636363"),
        ([edge for edge in graph.edges if edge in bold], 2.6, "black"),
    ):
        networkx.draw_networkx_edges(graph, places, edges, ax=axis, width=width, edge_color=color, node_size=1800)
    colors = [TROUBLESOME if stage in troublesome else USUAL for stage in graph]
    outlines = ["black" if stage in longest else "#6baed6" for stage in graph]
    networkx.draw_networkx_nodes(graph, places, ax=axis, node_color=colors, edgecolors=outlines, node_size=1800)
    detailed = len(dag.stages) <= LABELS_MAX
    labels = {stage.id: label_of(stage) if detailed else str(stage.id) for stage in dag.stages}
    networkx.draw_networkx_labels(graph, places, labels, ax=axis, font_size=6)
    axis.set_title(title, parse_math=False)
    axis.axis("off")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def label_of(stage: Stage) -> str:
    """Return what is written on a stage: name or id, tasks and duration, the resource that it asks most for."""
    name = (stage.name or str(stage.id)).replace("$", r"\$")[:24]  # a dollar would begin a formula
    most = max(stage.demand.items(), key=lambda each: each[1], default=None)
    demand = "" if most is None else f"\n{most[1]:g} {most[0]}".replace("$", r"\$")
    return f"{name}\n{stage.tasks} x {stage.duration_ms}{demand}"


def usage(plan: Plan, capacity: Mapping[str, float], machines: int, resource: str) -> tuple[I64, F64, F64]:
    """Return points in time, and from each to the next the share of the cluster in use: by all, by troublesome stages.

    The plan must have its placements.
    """
    stages = {stage.id: stage for stage in plan.dag.stages}
    changes: dict[int, list[float]] = {0: [0.0, 0.0]}
    whole = max(capacity.get(resource, 0.0) * machines, 1e-12)
    for placed in plan.placements:
        stage = stages[placed.stage]
        share = placed.tasks * stage.demand.get(resource, 0.0) / whole
        end = placed.start + placed.times * stage.duration_ms
        for time, sign in ((placed.start, share), (end, -share)):
            change = changes.setdefault(time, [0.0, 0.0])
            change[0] += sign
            change[1] += sign if placed.stage in plan.troublesome else 0.0
    times = sorted(changes)
    amounts = np.cumsum(np.array([changes[time] for time in times]), axis=0)
    return np.array(times, np.int64), amounts[:, 0], amounts[:, 1]


def plot_plan(plan: Plan, capacity: Mapping[str, float], machines: int, unit: str, path: Path) -> None:
    """Draw a plan that has its placements.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    resources = sorted(capacity)
    figure, axes = pyplot.subplots(
        len(resources), 1, sharex=True, squeeze=False, figsize=(10, 2.2 * len(resources) + 1)
    )
    for axis, resource in zip(axes[:, 0], resources, strict=True):
        times, used, troublesome = usage(plan, capacity, machines, resource)
        axis.fill_between(times, 0, used, step="post", color="#9ecae1", label="in use")
        axis.fill_between(times, 0, troublesome, step="post", color="#de2d26", label="by troublesome stages")
        axis.axvline(plan.bounds.best, color="black", linestyle=":", label="lower bound")
        axis.set_ylim(0, 1.05)
        axis.set_ylabel(f"{resource}, share")
    axes[0, 0].legend(loc="upper right")
    axes[0, 0].set_title(f"{plan.dag.name}, {plan.algorithm}: planned {plan.makespan}, lower bound {plan.bounds.best}")
    axes[-1, 0].set_xlabel(f"time, {unit}")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
