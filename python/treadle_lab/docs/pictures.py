"""`python -m treadle_lab.docs.pictures docs/pictures [NAME ...]` draws pictures of the docs: all, or those named."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

import treadle
from treadle.fairness import Group, Leaf, Tree
from treadle.planner.candidates import Objective, Schedules
from treadle.planner.graphene import Options
from treadle.planner.graphene import plan as plan_graphene
from treadle.simulate import Run, Scenario, simulate
from treadle_lab.baselines import baseline
from treadle_lab.dags import Shape, generate
from treadle_lab.fairness.algorithms import allocate_fluid
from treadle_lab.models.cell import warm_up
from treadle_lab.papers.omega.real_engines import Counts, Load, cell_counts, engine_counts
from treadle_lab.planning import draw_dag

BLUE: Final = "#6baed6"
PALE: Final = "#c6dbef"
RED: Final = "#de2d26"
ORANGE: Final = "#fd8d3c"
GREY: Final = "#bdbdbd"
DARK: Final = "#252525"


def pyplot() -> Any:
    """Return matplotlib's pyplot, set up for pictures of docs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plot

    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "treadle",
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "savefig.facecolor": "white",
        }
    )
    return plot


def write(figure: Any, path: Path) -> None:
    """Write a figure as SVG, without the day on which it was drawn."""
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot().close(figure)
    # matplotlib ends lines with blanks
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text("utf-8").splitlines()), "utf-8")


CONFLICTS_SEED: Final = 1
SCHEDULERS: Final = {"S": ("service engine", RED), "B1": ("batch engine", BLUE)}
T_JOB_S: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
CELL_SEEDS: Final = tuple(range(1, 11))


def draw_conflicts(path: Path, hours: float = 2.0, t_job_s: Sequence[float] = T_JOB_S) -> None:
    """Draw conflicts a transaction and busyness: the cell as lines, real engines as points.

    Args:
        path: of the picture
        hours: simulated, of each point
        t_job_s: decision times of the service engine
    """
    warm_up()
    loads = [Load(hours=hours, t_job_service_s=seconds) for seconds in t_job_s]
    cells = [[cell_counts(load, seed) for seed in CELL_SEEDS] for load in loads]
    engines = [engine_counts(load, CONFLICTS_SEED) for load in loads]
    figure, axes = pyplot().subplots(1, 2, figsize=(9.5, 3.4))
    for name, (title, colour) in SCHEDULERS.items():
        for axis, measure in zip(axes, (conflicts, busyness), strict=True):
            axis.plot(t_job_s, [measure(seeds, name) for seeds in cells], color=colour, label=f"{title}, cell model")
            points = [measure([one], name) for one in engines]
            axis.plot(t_job_s, points, "o", color=colour, label=f"{title}, simulated cluster")
    for axis, label in zip(axes, ("conflicts per transaction", "busyness"), strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("decision time of a service job, seconds")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[1].legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{loads[0].machines} machines, {hours:g} h; cell: seeds 1 to {len(CELL_SEEDS)}; cluster: seed {CONFLICTS_SEED}"
    )
    figure.tight_layout()
    write(figure, path)


def conflicts(runs: Sequence[Counts], name: str) -> float:
    """Return conflicts per successful transaction, runs added up."""
    transactions = sum(run[name].transactions for run in runs)
    return sum(run[name].conflicts for run in runs) / transactions if transactions else 0.0


def busyness(runs: Sequence[Counts], name: str) -> float:
    """Return the mean share of time that a scheduler decides."""
    return sum(run[name].busyness for run in runs) / len(runs)


DAG_SEED: Final = 3
SCHEDULES: Final = 400
SHAPE: Final = Shape(depth=(4, 4), stages=(12, 14), tasks=(100, 300))


def draw_troublesome(path: Path) -> None:
    """Draw the DAG, with how long it takes by this plan and breadth first."""
    instance = generate(DAG_SEED, SHAPE)
    where = (instance.dag, instance.capacity, instance.machines)
    found = plan_graphene(*where, Schedules(SCHEDULES), objective=Objective.EXECUTED, options=Options(paper=True))
    breadth = baseline("bfs", *where, objective=Objective.EXECUTED, seed=DAG_SEED)
    title = (
        f"{instance.dag.name}: troublesome stages red, longest path bold (tasks x ms, largest demand)\n"
        f"{found.executed_makespan / 1000:.0f} s by the plan, {breadth.executed_makespan / 1000:.0f} s breadth first, "
        f"at least {found.bounds.best / 1000:.0f} s"
    )
    pyplot()  # how SVG is written
    draw_dag(instance.dag, found.troublesome, title, path)


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

RESOURCE_COLOURS: Final = {"cpu": BLUE, "gpu": ORANGE}
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
        axis.barh(bottom, WIDE * float(share), 0.13, x - WIDE / 2, color=RESOURCE_COLOURS[name])
        axis.text(x + WIDE / 2 + 0.03, bottom, f"{float(share):.0%}", va="center", fontsize=7, color=edge)


PILOTS_SEED: Final = 1
RATIO: Final = 0.03
"""The adaptive ratio's first."""
JOB_COLOURS: Final = {"large": PALE, "middle": BLUE, "small": ORANGE}
POLICIES: Final = {"fifo": "first come, first served", "slearn": "SLearn: a few tasks of each job first"}


def scenario() -> Scenario:
    """Return three jobs of one queue, the largest first, on a cluster of 20 containers."""
    demand = {"memory-mb": 1024, "vcores": 1}

    def job(name: str, arrival_s: int, tasks: int, duration_s: int) -> dict[str, Any]:
        stage = {"tasks": tasks, "duration_s": duration_s, "demand": demand}
        return {"name": name, "arrival_s": arrival_s, "framework": "mapreduce", "stages": [stage]}

    return Scenario.of(
        {
            "cluster": {"nodes": [{"count": 5, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "workload": {"jobs": [job("large", 0, 120, 90), job("middle", 20, 30, 30), job("small", 40, 15, 10)]},
        }
    )


def draw_pilots(path: Path) -> None:
    """Draw a bar for each container, in its job's colour, pilots in red."""
    figure, axes = pyplot().subplots(len(POLICIES), 1, figsize=(9, 5.4), sharex=True)
    for axis, (policy, title) in zip(axes, POLICIES.items(), strict=True):
        run = simulate(scenario(), policy, seed=PILOTS_SEED)
        _containers(axis, run, pilots=policy == "slearn")
        ends = ", ".join(f"{job['name']} ends at {int(job['end_ms']) / 1000:.0f} s" for job in run.jobs)
        axis.set_title(f"{title}: {ends}", loc="left", fontsize=9)
        axis.set_ylabel("containers")
    axes[-1].set_xlabel(f"seconds; treadle simulate, seed {PILOTS_SEED}")
    write(figure, path)


def pilots_of(run: Run, job: int) -> list[int]:
    """Return which tasks of a job are its pilots: the first ones that began."""
    mine = np.flatnonzero(run.tasks["job"] == job)
    count = max(int(RATIO * len(mine)), 1)
    return [int(at) for at in mine[np.argsort(run.tasks["start_ms"][mine], kind="stable")][:count]]


def _containers(axis: Any, run: Run, *, pilots: bool) -> None:
    chosen = {at for job in range(len(run.jobs)) for at in pilots_of(run, job)} if pilots else set()
    free_ms: list[int] = []
    bars: dict[str, list[tuple[int, float, float]]] = {}
    for at in np.argsort(run.tasks["start_ms"], kind="stable"):
        task = run.tasks[at]
        begin, end = int(task["start_ms"]), int(task["end_ms"])
        slot = next((slot for slot, since in enumerate(free_ms) if since <= begin), len(free_ms))
        free_ms[slot : slot + 1] = [end]
        colour = RED if int(at) in chosen else JOB_COLOURS[str(run.jobs[task["job"]]["name"])]
        bars.setdefault(colour, []).append((slot, begin / 1000, end / 1000))
    for colour, drawn in bars.items():
        axis.hlines(*zip(*drawn, strict=True), colors=colour, linewidth=5)
    legend = [*JOB_COLOURS.items(), *([("pilots", RED)] if pilots else [])]
    handles = [pyplot().Rectangle((0, 0), 1, 1, color=colour) for _, colour in legend]
    axis.legend(
        handles, [name for name, _ in legend], loc="upper left", bbox_to_anchor=(1, 1), frameon=False, labelcolor=DARK
    )


PACKAGE: Final = Path(treadle.__file__).resolve().parent
ROOM_COLOURS: Final = {
    BLUE: {"engine", "policy", "model", "compiled", "events", "explain"},
    ORANGE: {"live", "wire", "am", "record", "replay", "dashboard", "admin"},
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
    import networkx

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
    figure, axis = pyplot().subplots(figsize=(9.5, 0.75 * len(rows)))
    for room, to in sorted(needed.edges):
        axis.annotate(
            "", places[to], places[room], arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 11, "shrinkB": 11}
        )
    for room, place in sorted(places.items()):
        _box(axis, room, place)
    axis.set_xlim(0, widest)
    axis.set_ylim(-0.5, len(rows) - 0.5)
    axis.axis("off")
    write(figure, path)


def _box(axis: Any, room: str, place: tuple[float, float]) -> None:
    colour = next((colour for colour, rooms in ROOM_COLOURS.items() if room in rooms), PALE)
    box = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": DARK, "linewidth": 0.6}
    axis.text(*place, room, ha="center", va="center", bbox=box, fontsize=8)


PICTURES: Final[dict[str, Callable[[Path], None]]] = {
    "rooms": draw_rooms,
    "hdrf-tree": draw_hdrf,
    "pilots": draw_pilots,
    "troublesome-tasks": draw_troublesome,
    "conflicts": draw_conflicts,
}

if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    unknown = set(names) - set(PICTURES)
    if unknown:
        sys.exit(f"{', '.join(sorted(unknown))}: there is no such picture; there are {', '.join(PICTURES)}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        file = Path(folder, f"{name}.svg")
        PICTURES[name](file)
        sys.stdout.write(f"wrote {file}\n")
