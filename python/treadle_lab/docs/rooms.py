"""`python -m treadle_lab.docs.rooms docs/pictures/rooms.svg` draws which room of the product imports which."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any, Final

import treadle

PACKAGE: Final = Path(treadle.__file__).resolve().parent
ROOM_COLOURS: Final = {
    "#6baed6": {"engine", "policy", "model", "compiled", "events", "explain"},
    "#fd8d3c": {"live", "wire", "am", "record", "replay", "dashboard", "admin"},
}
"""What decides; what talks to a cluster. All else is pale."""


def imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Return for each folder of a package which other folders its files import, wherever the statement stands."""
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}
    found: dict[str, set[str]] = {}
    for room in rooms:
        seen = set()
        for file in (package / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
                seen |= {parts[1] for name in names if (parts := name.split("."))[0] == package.name and parts[1:]}
        found[room] = (seen & rooms) - {room}
    return found


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return how far above the ground each room stands: one more than the highest room that it imports.

    Raises:
        ValueError: rooms import each other in a circle.
    """
    from graphlib import CycleError, TopologicalSorter

    height: dict[str, int] = {}
    try:
        for room in TopologicalSorter(graph).static_order():
            height[room] = 1 + max((height[below] for below in graph[room]), default=-1)
    except CycleError as error:
        raise ValueError(f"rooms import each other: {error.args[1]}") from error
    return height


def draw_rooms(path: Path) -> None:
    """Draw a box a room, an arrow from each importer; imports that follow from others are left out."""
    import matplotlib as mpl
    import networkx
    from matplotlib.figure import Figure

    graph = imports()
    height = levels(graph)
    needed = networkx.transitive_reduction(networkx.DiGraph([(room, to) for room in graph for to in graph[room]]))
    rows = [sorted(room for room in graph if height[room] == level) for level in range(max(height.values()) + 1)]
    widest = max(len(row) for row in rows)
    places = {
        room: ((at + 0.5) * widest / len(row), float(level))
        for level, row in enumerate(rows)
        for at, room in enumerate(row)
    }
    figure = Figure(figsize=(9.5, 0.75 * len(rows)))
    axis = figure.subplots()
    for room, to in sorted(needed.edges):
        axis.annotate(
            "",
            places[to],
            places[room],
            arrowprops={"arrowstyle": "->", "color": "#bdbdbd", "shrinkA": 11, "shrinkB": 11},
        )
    for room, place in sorted(places.items()):
        _box(axis, room, place)
    axis.set_xlim(0, widest)
    axis.set_ylim(-0.5, len(rows) - 0.5)
    axis.axis("off")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "treadle", "savefig.facecolor": "white"}):
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    # matplotlib ends lines with blanks
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text("utf-8").splitlines()), "utf-8")


def _box(axis: Any, room: str, place: tuple[float, float]) -> None:
    colour = next((colour for colour, rooms in ROOM_COLOURS.items() if room in rooms), "#c6dbef")
    box = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "#252525", "linewidth": 0.6}
    axis.text(*place, room, ha="center", va="center", bbox=box, fontsize=8)


if __name__ == "__main__":
    draw_rooms(Path(sys.argv[1]))
