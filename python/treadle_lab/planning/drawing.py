"""A DAG as a picture: a column a level, troublesome stages in red, the longest path in bold."""

from __future__ import annotations

from collections.abc import Set
from itertools import pairwise
from pathlib import Path
from typing import Final

from treadle.dag.dag import Dag, Stage

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
