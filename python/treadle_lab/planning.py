"""Baselines of the product's planner, PSPLIB's projects, and drawings of DAGs.

What Graphene is compared with: breadth first, critical path, random, Tetris, Coffman-Graham; and CP-SAT. All but CP-SAT
start whatever fits; none of those sees more than the stages that may start. In space-time
(`Objective.PLANNED`) the makespan is that of placing stages by the same priorities, each as early as it can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from pydantic import Field

from treadle.dag import Dag, DagError, Line, Stage, Whole, checked, graph_of, ordered
from treadle.errors import UserError
from treadle.planner.construct import FORWARD, SCP
from treadle.planner.graphene import Objective, labels, levels
from treadle.planner.plan import LowerBounds, Plan, Ranking, Structure, Workspace, finish, path_lengths, structure
from treadle.planner.problem import I64, Problem, compile_problem
from treadle_lab.dags import Instance, TimeUnit, json_lines


class Until:
    """Until a time of the monotonic clock, leaving out a step that would likely last beyond it.

    For command lines only: the plan depends on the machine. It says how many schedules it took; that number as the
    budget gives the same plan again.
    """

    def __init__(self, milliseconds: float) -> None:
        self._start = time.perf_counter()
        self._seconds = milliseconds / 1000

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""
        elapsed = time.perf_counter() - self._start
        return elapsed * (used + cost) <= self._seconds * max(used, 1) and elapsed < self._seconds


NAMES: Final = ("bfs", "cp", "random", "tetris", "cg")


def baseline(
    name: str,
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    *,
    objective: Objective = Objective.EXECUTED,
    seed: int = 0,
    placements: bool = False,
) -> Plan:
    """Return the plan of one of `NAMES`; ``seed`` is for random alone.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    problem = compile_problem(dag, capacity, machines)
    found = structure(problem)
    work = Workspace(problem)
    ranking = _ranking(name, work, found, objective, seed, placements=placements)
    return finish(dag, work, name, ranking, found.bounds, 1)


def _ranking(
    name: str, work: Workspace, found: Structure, objective: Objective, seed: int, *, placements: bool
) -> Ranking:
    problem = work.problem
    if name == "tetris":
        length, rows = _build(work, work.follow_packing, placements=placements)
        low = work.schedule.low.copy()
        return Ranking(low, length, (), rows, executed=length)
    priority = _priority(name, problem, found, seed)
    key = np.repeat(-priority, np.diff(problem.group_at))
    together = np.zeros(len(priority), np.int64)
    build = (
        partial(work.follow, key)
        if objective is Objective.EXECUTED
        else partial(work.construct, together, (SCP, FORWARD, 0), priority, priority)
    )
    length, rows = _build(work, build, placements=placements)
    # Random priorities are not a topological order; the resulting starts are.
    ranks = key if name in ("bfs", "cp") else work.schedule.low.copy()
    return Ranking(ranks, length, (), rows, work.follow(key))


def _priority(name: str, problem: Problem, found: Structure, seed: int) -> I64:
    """Return the priorities of a list algorithm: the greatest first."""
    if name == "bfs":
        return -levels(problem)
    if name == "cp":
        return path_lengths(problem)
    if name == "cg":
        return labels(problem, found)
    return np.random.default_rng(seed).permutation(len(problem.tasks)).astype(np.int64)


def _build(work: Workspace, build: Callable[[], int], *, placements: bool) -> tuple[int, I64]:
    rows = work.recorded(build) if placements else np.zeros((0, 5), np.int64)
    return build(), rows


INTERVALS_MAX: Final = 5000


def solve(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    milliseconds: int,
    workers: int = 1,
    *,
    placements: bool = False,
) -> Plan:
    """Return the best plan that CP-SAT finds in a time; the makespan is of the schedule in one pool.

    Where there is more than one machine, that schedule may need a task to be split between machines; then the makespan
    is that of following it, as `executed_makespan`. The lower bound is the better of CP-SAT's and ours.

    Raises:
        UserError: OR-Tools is not installed, the DAG has too many tasks, or no schedule was found in the time.
        DagError: a task fits on no machine, or numbers are too large.
    """
    try:
        from ortools.sat.python import cp_model  # only here: it is an extra
    except ImportError:
        raise UserError("--algorithm cpsat: needs OR-Tools; pip install --group cpsat") from None
    problem = compile_problem(dag, capacity, machines)
    groups = int(problem.group_at[-1])
    if problem.tasks.sum() != groups:
        raise UserError(
            f"DAG {dag.name}: a stage has more tasks than CP-SAT is given one by one; use another algorithm"
        )
    if groups > INTERVALS_MAX:
        raise UserError(f"DAG {dag.name}: {groups} tasks are too many for CP-SAT; the most is {INTERVALS_MAX}")
    model = cp_model.CpModel()
    starts, end = _model(model, problem)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = milliseconds / 1000
    solver.parameters.num_workers = workers
    status = _solved(solver, model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise UserError(f"DAG {dag.name}: CP-SAT found no schedule in {milliseconds} ms; give it more")
    low = np.array([solver.value(start) for start in starts], np.int64)
    for s in range(len(problem.tasks)):  # identical tasks may have been given any order
        low[problem.group_at[s] : problem.group_at[s + 1]].sort()
    proved = int(np.ceil(solver.best_objective_bound - 1e-6))
    return _finished(dag, problem, low, int(solver.value(end)), proved, placements=placements)


def _solved(solver: Any, model: Any) -> Any:
    """Return the status of solving a model, on another thread: Ctrl-C reaches this one as ever.

    OR-Tools would put a handler of its own in place of Python's, and the system's default afterwards.
    """
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(solver.solve, model)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise


def _model(model: Any, problem: Problem) -> tuple[list[Any], Any]:
    """Add an interval for each task, edges and resources; return the starts and the makespan."""
    horizon = int((problem.tasks * problem.duration).sum())
    end = model.new_int_var(0, horizon, "end")
    starts: list[list[Any]] = []
    intervals: list[list[Any]] = []
    ends: list[Any] = []
    for s, (count, length) in enumerate(zip(problem.tasks.tolist(), problem.duration.tolist(), strict=True)):
        mine = [model.new_int_var(0, horizon, f"s{s}_{i}") for i in range(count)]
        ended = model.new_int_var(0, horizon, f"e{s}")
        intervals.append([model.new_fixed_size_interval_var(var, length, f"i{s}_{i}") for i, var in enumerate(mine)])
        for start in mine:
            model.add(ended >= start + length)
        for e in range(problem.before_at[s], problem.before_at[s + 1]):
            before = problem.before[e]
            if problem.before_single[e]:
                for start, other in zip(mine, starts[before], strict=True):
                    model.add(start >= other + int(problem.duration[before]))
            else:
                for start in mine or [ended]:
                    model.add(start >= ends[before])
        model.add(end >= ended)
        starts.append(mine)
        ends.append(ended)
    for r in range(len(problem.capacity)):
        using = [s for s in range(len(problem.tasks)) if problem.demand[s, r] > 0]
        boxes = [interval for s in using for interval in intervals[s]]
        demands = [int(problem.demand[s, r]) for s in using for _ in intervals[s]]
        model.add_cumulative(boxes, demands, int(problem.capacity[r]) * problem.machines)
    return [start for mine in starts for start in mine], end


def _finished(dag: Dag, problem: Problem, low: I64, length: int, proved: int, *, placements: bool) -> Plan:
    work = Workspace(problem)
    rows = np.zeros((0, 5), np.int64)
    if problem.machines > 1:
        length = work.follow(low)
        if placements:
            rows = work.recorded(lambda: work.follow(low))
    elif placements:
        stages = np.repeat(np.arange(len(problem.tasks)), problem.tasks)
        ones = np.ones(len(low), np.int64)
        rows = np.column_stack((low, stages, 0 * ones, ones, ones))
    bounds = structure(problem).bounds
    bounds = LowerBounds(bounds.critical_path, bounds.work, max(bounds.best, proved))
    return finish(dag, work, "cpsat", Ranking(low, length, (), rows), bounds, 1)


Vector: TypeAlias = tuple[Whole, ...]


class ProjectLine(Line):
    """A project, as a line; the last four, known values of the source, are optional."""

    id: str
    name: Any = None
    cap: Vector
    dur: Vector = Field(min_length=1)
    dem: tuple[Vector, ...]
    succ: tuple[Vector, ...]
    cpm: Any = None
    res_lb: Any = None
    lb: Any = None
    ub: Any = None


def read_instances(path: Path) -> Iterator[Instance]:
    """Yield the instances of a file.

    Raises:
        DagError: names the file, the line, the field and the remedy.
    """
    for where, values in json_lines(path):
        line = checked(ProjectLine, where, values)
        try:
            yield _instance(line)
        except DagError as error:
            raise DagError(f"{where}: {error}") from None


def _instance(line: ProjectLine) -> Instance:
    count = len(line.dur)
    for field, vectors in {"dem": line.dem, "succ": line.succ}.items():
        if len(vectors) != count:
            raise DagError(f"{field}: give {count} lists of whole numbers, one for each of dur")
    parents: list[list[int]] = [[] for _ in line.dur]
    for activity, after in enumerate(line.succ):
        for successor in after:
            if successor >= count:
                raise DagError(f"succ[{activity}]: {successor} is not an activity; give one below {count}")
            parents[successor].append(activity)
    for activity, demand in enumerate(line.dem):
        if len(demand) != len(line.cap):
            raise DagError(f"dem[{activity}]: {len(demand)} amounts for {len(line.cap)} resources; give one each")
    names = [f"r{index + 1}" for index in range(len(line.cap))]
    stages = tuple(
        Stage(activity, 1, duration, dict(zip(names, map(float, demand), strict=True)), tuple(dict.fromkeys(before)))
        for activity, (duration, demand, before) in enumerate(zip(line.dur, line.dem, parents, strict=True))
    )
    pool = dict(zip(names, map(float, line.cap), strict=True))
    return Instance(ordered(line.id, stages), pool, 1, TimeUnit.PERIOD)


LABELS_MAX: Final = 60
"""With more stages than this, only ids are written; names and demands would cover each other."""
TROUBLESOME: Final = "#fc9272"
USUAL: Final = "#c6dbef"


_START: Final = "start"


def critical_path(dag: Dag) -> list[int]:
    """Return the ids of the stages on a longest path by duration; a stage without tasks takes no time."""
    import networkx

    graph: Any = graph_of(dag.stages)
    for stage in dag.stages:
        duration_ms = stage.duration_ms if stage.tasks else 0
        for parent in stage.parents or (_START,):  # from a start, so that a path's first stage counts too
            graph.add_edge(parent, stage.id, ms=duration_ms)
    path: list[int] = networkx.dag_longest_path(graph, weight="ms")[1:]
    return path


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

    graph = graph_of(dag.stages)
    levels = list(networkx.topological_generations(graph))
    for level, stages in enumerate(levels):
        for stage in stages:
            graph.nodes[stage]["level"] = level
    places = networkx.multipartite_layout(graph, subset_key="level")
    longest = critical_path(dag)
    bold = set(pairwise(longest))
    needed = set(networkx.transitive_reduction(graph).edges) | bold
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
    """Return the label of a stage: name or ID, number of tasks and duration, its bottleneck resource."""
    name = (stage.name or str(stage.id)).replace("$", r"\$")[:24]  # a dollar would begin a formula
    most = max(stage.demand.items(), key=lambda each: each[1], default=None)
    demand = "" if most is None else f"\n{most[1]:g} {most[0]}".replace("$", r"\$")
    return f"{name}\n{stage.tasks} x {stage.duration_ms}{demand}"
