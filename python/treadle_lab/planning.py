"""Baselines of the product's planner, its search in space-time, PSPLIB's projects, and drawings of DAGs.

What Graphene is compared with: breadth first, critical path, random, Tetris, Coffman-Graham; and CP-SAT. All but CP-SAT
start whatever fits; none of those sees more than the stages that may start. In space-time
(``in_space``) the makespan is that of placing stages by the same priorities, each as early as it can be.

The product's search compares candidates by following them; here it also compares them by the planned schedule, and
follows the paper literally.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from treadle.compiled.functions import cache_folder, compiled_in, inner
from treadle.dag import Dag, DagError, Line, Stage, Whole, graph_of, ordered
from treadle.errors import UserError
from treadle.planner import graphene
from treadle.planner.construct import CSP, FORWARD, PSC, SCP, SPC, TROUBLESOME, clear, place, sort_by_end, span
from treadle.planner.follow import make_child
from treadle.planner.plan import LowerBounds, Plan, Structure, Workspace, path_lengths, plan_by, structure
from treadle.planner.problem import I64, OVERFLOW, Brood, Order, Problem, Schedule, Space, compile_problem
from treadle_lab.dags import Instance, instances_of

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MeasuredPlan(Plan):
    """A plan with the figures of the schedule that it was made from. Times are in the DAG's unit."""

    makespan: int
    """Makespan of the planned schedule."""
    executed_makespan: int
    """Makespan if work-conserving machines follow the ranks, or the algorithm's own rule."""
    bounds: LowerBounds
    schedules: int = 1
    """Candidate schedules built to find it."""
    troublesome: frozenset[int] = frozenset()
    """Ids of the stages placed first, if the plan was made that way."""
    rows: Callable[[], I64]
    """Builds the planned schedule again, and returns its rows (`recorded`)."""


def executed_makespan(plan: Plan, capacity: Mapping[str, float], machines: int) -> int:
    """Return the makespan if work-conserving machines follow a plan's ranks."""
    ranks = np.concatenate([np.zeros(0, np.int64), *plan.ranks.values()])
    return Workspace(compile_problem(plan.dag, capacity, machines)).follow(ranks)


def recorded(work: Workspace, again: Callable[[], int]) -> I64:
    """Return the rows (start, stage, machine, tasks at once, times) of what ``again`` builds."""
    rows, unrecorded = 1024, work.schedule
    while True:
        work.schedule = unrecorded._replace(rows=np.zeros((rows, 5), np.int64))
        again()
        count = int(work.schedule.used[0])
        if count <= rows:
            found = work.schedule.rows[:count]
            work.schedule = unrecorded
            return found
        rows = count


def kernel(function: F) -> F:
    """Compile a function that is called from Python."""
    return compiled_in(cache_folder("planning", ("treadle_lab.planning",)), function)


@inner
def justify(problem: Problem, turned: Problem, space: Space, schedule: Schedule, stages: I64, passes: int) -> int:
    """Decode a list forward, then ``passes`` times backward and forward again by ends (Valls et al., EJOR 165, 2005).

    The list ends as the order of starts of the result; returns the makespan, which no pass makes longer where stages
    are single tasks, or OVERFLOW.
    """
    length = decode(problem, space, schedule, stages)
    for _ in range(passes):
        if length < 0:
            return OVERFLOW
        sort_by_end(schedule, stages)
        if decode(turned, space, schedule, stages) < 0:
            return OVERFLOW
        sort_by_end(schedule, stages)
        length = decode(problem, space, schedule, stages)
    return length


@inner
def decode(problem: Problem, space: Space, schedule: Schedule, stages: I64) -> int:
    """Place all stages in the order of a list, each as early as possible; return the makespan, or OVERFLOW."""
    clear(problem, space, schedule)
    for s in stages:
        if place(problem, space, schedule, s, 0) < 0:
            return OVERFLOW
    return span(schedule, len(problem.tasks))


@kernel
def justify_list(problem: Problem, turned: Problem, space: Space, schedule: Schedule, stages: I64, passes: int) -> int:
    """Decode a list and improve it, as `justify`."""
    return justify(problem, turned, space, schedule, stages, passes)


@kernel
def breed_in_space(
    problem: Problem, turned: Problem, space: Space, schedule: Schedule, order: Order, brood: Brood
) -> int:
    """Make children, and place their lists into space-time; return OVERFLOW if arrays were too small."""
    start = brood.seed[0]
    order.waiting[:] = 0
    for at in range(brood.first, brood.end):
        make_child(problem, order, brood, start, at)
        length = justify(problem, turned, space, schedule, brood.children[at], 1)
        if length < 0:
            brood.seed[0] = start
            return OVERFLOW
        sort_by_start(schedule, brood.children[at])
        brood.child_fitness[at] = length
    brood.seed[0] = start
    return 0


@inner
def sort_by_start(schedule: Schedule, stages: I64) -> None:
    """Sort a list by starts, then by stages: equal schedules have equal lists."""
    for i in range(1, len(stages)):
        s = stages[i]
        j = i - 1
        while j >= 0 and (
            schedule.first[stages[j]] > schedule.first[s]
            or (schedule.first[stages[j]] == schedule.first[s] and stages[j] > s)
        ):
            stages[j + 1] = stages[j]
            j -= 1
        stages[j + 1] = s


def place_list(work: Workspace, stages: I64, passes: int) -> int:
    """Place stages in the order of a list and improve that ``passes`` times; the list becomes the result's."""
    given = stages.copy()

    def attempt() -> int:
        stages[:] = given
        return justify_list(work.problem, work.turned, work.space, work.schedule, stages, passes)

    return work.in_space(attempt)


class ListRecipe(graphene.Recipe):
    """How to build a schedule: by placing the list that ``key`` is."""

    __slots__ = ()

    def build(self, work: Workspace) -> int:
        """Build the schedule; return its makespan."""
        assert self.key is not None
        return place_list(work, self.key.copy(), 0)


class PlannedSearch(graphene.Search):
    """A search that compares candidates by the makespan in space-time."""

    first_seeds = (2, 0)

    def chosen(self) -> graphene.Candidate:
        """Return the best candidate."""
        assert self.best.first is not None, "the first step builds a candidate"
        return self.best.first

    def cost(self, recipe: graphene.Recipe, *, improve: bool = True) -> int:
        """Return how many schedules `build` builds."""
        return 1 + (3 if improve else 0)

    def build(self, recipe: graphene.Recipe, *, improve: bool = True) -> graphene.Candidate:
        """Build a candidate; with ``improve`` also improve it forward and backward."""
        planned = recipe.build(self.work)
        order = graphene.order_of(self.work.schedule.first)
        candidate = graphene.Candidate(planned, planned, self.work.schedule.low.copy(), order, recipe)
        if not improve:
            return candidate
        improved = order.copy()
        length = place_list(self.work, improved, 1)
        return candidate if length >= planned else self._placed(length, improved, recipe)

    def _placed(self, length: int, order: I64, recipe: graphene.Recipe) -> graphene.Candidate:
        """Return the candidate that placing a list has just made."""
        key, starts = self.work.schedule.low.copy(), graphene.order_of(self.work.schedule.first)
        return graphene.Candidate(length, length, key, starts, ListRecipe(*recipe._replace(key=order)))

    def steps(self) -> Iterator[int]:
        """Yield the steps of the population and of the grid in turns; `TURNS` of the first for one of the second."""
        yield from self.seed_steps()
        grid = self.division_steps()
        if len(self.problem.tasks) < 2:
            yield from grid
            return
        orders = self.population_steps()
        # The generator first yields the cost of a step, and makes it when asked for the next one.
        orders_cost, grid_cost = next(orders), next(grid, 0)
        orders_used = grid_used = 0
        while True:
            if grid_cost > 0 and TURNS * (grid_used + grid_cost) <= orders_used:
                yield grid_cost
                grid_used, grid_cost = grid_used + grid_cost, next(grid, 0)
            else:
                yield orders_cost
                orders_used, orders_cost = orders_used + orders_cost, next(orders)

    def by_priority(self, priority: I64) -> graphene.Recipe:
        """Return how to build a schedule by stages' priorities alone, the greatest first."""
        return graphene.Recipe(np.zeros(len(priority), np.int64), forward=priority, backward=priority)

    def breed(self, brood: Brood) -> None:
        """Make children, and compare them by the makespan of placing their lists."""
        work = self.work
        work.in_space(lambda: breed_in_space(work.problem, work.turned, work.space, work.schedule, work.order, brood))

    def candidate(self, order: I64) -> graphene.Candidate:
        """Return the candidate of a list."""
        order = order.copy()
        return self._placed(place_list(self.work, order, 0), order, graphene.Recipe())


TURNS: Final = 8
"""Number of schedules of the population for one of the grid."""


class PaperSearch(PlannedSearch):
    """The paper's algorithm literally: longest ready task first, candidates compared by the planned makespan."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to try."""
        return self.next_cost == 0

    def steps(self) -> Iterator[int]:
        """Place T and S in their individually best directions, then the rest, in each of the four orders."""
        longest, work = self.problem.duration, self.work
        scores = graphene.frag_scores(self.problem, self.structure.spans)
        for part in graphene.divisions(self.problem, self.structure, (scores,)):
            yield 8
            first = min((0, 1), key=lambda way: work.construct(part, (SCP, way, 0), longest, longest, 0))
            second = min((0, 1), key=lambda way: work.construct(part, (SCP, first, way), longest, longest, 1))
            for order in (SCP, SPC, CSP, PSC):
                recipe = graphene.Recipe(part, (order, first, second), longest, longest, troublesome=True)
                self.best.add(self.build(recipe, improve=False))


def graphene_plan(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    budget: graphene.Budget = graphene.SCHEDULES_DEFAULT,
    *,
    kind: type[graphene.Search] = graphene.Search,
    seed: int = 0,
) -> MeasuredPlan:
    """Return the best plan within the budget, with its figures.

    Args:
        dag: the DAG.
        capacity: of one machine, by resource.
        machines: their number.
        budget: bounds the search.
        kind: of the search.
        seed: of its random numbers.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    searches: list[graphene.Search] = []

    def search(problem: Problem, found: Structure) -> graphene.Search:
        searches.append(kind(problem, found, seed))
        return searches[-1]

    made = graphene.plan(dag, capacity, machines, budget, search)
    whole = structure(compile_problem(dag, capacity, machines))
    pieces = graphene.parts(whole.full) if searches else []
    best = [(stages, each, each.chosen()) for stages, each in zip(pieces, searches, strict=True)]

    def rows() -> I64:
        all_rows, now = [np.zeros((0, 5), np.int64)], 0
        for stages, each, chosen in best:
            found = recorded(each.work, partial(chosen.recipe.build, each.work))
            found[:, 0] += now
            found[:, 1] = stages[found[:, 1]]
            all_rows.append(found)
            now += chosen.planned
        return np.concatenate(all_rows)

    bound = max(whole.bounds.best, sum(each.structure.bounds.best for each in searches))
    first = [stages[chosen.recipe.part == TROUBLESOME] for stages, _, chosen in best if chosen.recipe.troublesome]
    return MeasuredPlan(
        made.dag,
        made.ranks,
        makespan=sum(chosen.planned for _, _, chosen in best),
        executed_makespan=executed_makespan(made, capacity, machines),
        bounds=LowerBounds(whole.bounds.critical_path, whole.bounds.work, bound),
        schedules=sum(each.used for each in searches),
        troublesome=frozenset(dag.stages[at].id for stages in first for at in stages.tolist()),
        rows=rows,
    )


def _measured(
    dag: Dag, work: Workspace, key: I64, makespan: int, executed: int, bounds: LowerBounds, rows: Callable[[], I64]
) -> MeasuredPlan:
    """Return the plan of some ranks by group."""
    ranks = plan_by(dag, work.problem, key).ranks
    return MeasuredPlan(dag, ranks, makespan=makespan, executed_makespan=executed, bounds=bounds, rows=rows)


def warm_up() -> None:
    """Call every kernel once."""
    graphene.warm_up()
    problem = compile_problem(Dag("warm-up", (Stage(0, 1, 1, {"cpu": 1.0}),)), {"cpu": 1.0}, 1)
    search = PlannedSearch(problem, structure(problem))
    lists, worths = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    search.breed(Brood(lists, worths, lists.copy(), worths.copy(), 0, 1, np.ones(1, np.uint64), 0))
    place_list(search.work, np.zeros(1, np.int64), 1)


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
    in_space: bool = False,
    seed: int = 0,
) -> MeasuredPlan:
    """Return the plan of one of `NAMES`; ``seed`` is for random alone.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    problem = compile_problem(dag, capacity, machines)
    found = structure(problem)
    work = Workspace(problem)
    if name == "tetris":
        length = work.follow_packing()
        again = partial(recorded, work, work.follow_packing)
        return _measured(dag, work, work.schedule.low.copy(), length, length, found.bounds, again)
    priority = _priority(name, problem, found, seed)
    key = np.repeat(-priority, np.diff(problem.group_at))
    together = np.zeros(len(priority), np.int64)
    build = (
        partial(work.construct, together, (SCP, FORWARD, 0), priority, priority)
        if in_space
        else partial(work.follow, key)
    )
    length = build()
    # Random priorities are not a topological order; the resulting starts are.
    ranks = key if name in ("bfs", "cp") else work.schedule.low.copy()
    return _measured(dag, work, ranks, length, work.follow(key), found.bounds, partial(recorded, work, build))


def _priority(name: str, problem: Problem, found: Structure, seed: int) -> I64:
    """Return the priorities of a list algorithm: the greatest first."""
    if name == "bfs":
        return -graphene.levels(problem)
    if name == "cp":
        return path_lengths(problem)
    if name == "cg":
        return graphene.labels(problem, found)
    return np.random.default_rng(seed).permutation(len(problem.tasks)).astype(np.int64)


INTERVALS_MAX: Final = 5000


def solve(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    milliseconds: int,
    workers: int = 1,
) -> MeasuredPlan:
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
    return _finished(dag, problem, low, int(solver.value(end)), proved)


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


def _finished(dag: Dag, problem: Problem, low: I64, length: int, proved: int) -> MeasuredPlan:
    work = Workspace(problem)
    executed = work.follow(low)

    def rows() -> I64:
        if problem.machines > 1:
            return recorded(work, lambda: work.follow(low))
        stages = np.repeat(np.arange(len(problem.tasks)), problem.tasks)
        ones = np.ones(len(low), np.int64)
        return np.column_stack((low, stages, 0 * ones, ones, ones))

    bounds = structure(problem).bounds
    bounds = LowerBounds(bounds.critical_path, bounds.work, max(bounds.best, proved))
    return _measured(dag, work, low, executed if problem.machines > 1 else length, executed, bounds, rows)


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
    """Yield the projects of a file, as `instances_of`."""
    return instances_of(path, ProjectLine, _instance)


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
    return Instance(ordered(line.id, stages), pool, 1, in_space=True)


LABELS_MAX: Final = 60
"""With more stages than this, only ids are written; names and demands would cover each other."""
FIRST_COLOR: Final = "#fc9272"
USUAL_COLOR: Final = "#c6dbef"
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
    colors = [FIRST_COLOR if stage in troublesome else USUAL_COLOR for stage in graph]
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
