"""A job's DAG, stages of alike tasks of which some must end before others, and the machines that are to run it.

Random DAGs of the kind that production clusters run (Graphene, section 2.2) and greedy schedulers do badly on.

A DAG is tens of stages in layers. Some stages are small and long, the others wide and short; some ask for so much of
one resource that a machine runs one or two of their tasks and has room left that only tasks of other stages can use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from treadle.errors import UserError

if TYPE_CHECKING:
    import networkx

    Graph: TypeAlias = "networkx.DiGraph[int]"


class DagError(UserError):
    """A DAG that contradicts itself: a cycle, an unknown parent, a negative amount."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Tasks that ask for the same and have the same stages before them (a MapReduce phase, a Tez vertex).

    A task starts when all tasks of all ``parents`` have ended; behind a parent in ``one_to_one``, which has as many
    tasks, task i waits for that parent's task i alone.
    """

    id: int
    tasks: int
    duration_ms: int
    """Of one task; the mean where tasks differ."""
    demand: Mapping[str, float]
    """What one task asks for, by resource; a resource that is missing is not asked for."""
    parents: tuple[int, ...] = ()
    one_to_one: frozenset[int] = frozenset()
    durations_ms: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    """Of each task, where known, shape (tasks,); None: all run ``duration_ms``."""
    name: str = ""

    def durations(self) -> npt.NDArray[np.int64]:
        """Return how long each task runs, in milliseconds, shape (tasks,)."""
        if self.durations_ms is not None:
            return self.durations_ms
        return np.full(self.tasks, self.duration_ms, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Dag:
    """Stages in an order in which parents come before children."""

    name: str
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        seen: dict[int, Stage] = {}
        known = {stage.id for stage in self.stages}
        for stage in self.stages:
            if stage.id in seen:
                raise DagError(f"DAG {self.name}: two stages have the id {stage.id}; give each its own")
            for parent in stage.parents:
                if parent not in known:
                    raise DagError(
                        f"DAG {self.name}: stage {stage.id} has an unknown parent, {parent}; "
                        f"name ids of its stages, which are {_shown(known)}"
                    )
                if parent not in seen:
                    raise DagError(
                        f"DAG {self.name}: stage {stage.id} comes before its parent {parent}; "
                        "put parents first, or see `ordered`"
                    )
            self._check(stage, seen)
            seen[stage.id] = stage

    def _check(self, stage: Stage, seen: Mapping[int, Stage]) -> None:
        where = f"DAG {self.name}: stage {stage.id}"
        if stage.tasks < 0 or stage.duration_ms < 0:
            raise DagError(f"{where}: tasks and duration_ms must not be negative")
        if any(not (0.0 <= amount < float("inf")) for amount in stage.demand.values()):
            raise DagError(f"{where}: demands must be finite and not negative")
        if stage.durations_ms is not None and stage.durations_ms.shape != (stage.tasks,):
            raise DagError(f"{where}: {stage.tasks} tasks, but {stage.durations_ms.shape[0]} durations_ms")
        for parent in stage.one_to_one:
            if parent not in stage.parents or seen[parent].tasks != stage.tasks:
                raise DagError(f"{where}: one_to_one needs a parent of as many tasks, and {parent} is none")

    @property
    def tasks(self) -> int:
        """How many tasks all stages have together."""
        return sum(stage.tasks for stage in self.stages)

    @property
    def graph(self) -> Graph:
        """A new graph of networkx: ids of stages with their ``stage``, edges to children with ``one_to_one``."""
        return _graph(self.stages)

    def levels(self) -> list[list[int]]:
        """Return the ids of the stages by how many stages are on the longest way to them."""
        import networkx  # only here, as below: it takes longer to import than this package

        return [list(level) for level in networkx.topological_generations(self.graph)]

    def closure(self) -> Graph:
        """Return the graph with an edge from each stage to all that are behind it."""
        import networkx

        return networkx.transitive_closure_dag(self.graph)

    def reduced(self) -> Graph:
        """Return the graph without the edges that follow from others; it has no ``stage`` and no ``one_to_one``."""
        import networkx

        return networkx.transitive_reduction(self.graph)

    def critical_path(self) -> list[int]:
        """Return the ids of the stages on a longest path by duration; a stage without tasks takes no time."""
        import networkx

        graph: Any = self.graph
        for stage in self.stages:
            duration_ms = stage.duration_ms if stage.tasks else 0
            for parent in stage.parents or (_START,):  # from a start, so that a path's first stage counts too
                graph.add_edge(parent, stage.id, ms=duration_ms)
        path: list[int] = networkx.dag_longest_path(graph, weight="ms")[1:]
        return path


_START: Final = "start"
IDS_SHOWN_MAX: Final = 20


def _shown(ids: set[int]) -> str:
    """Return ids of stages as a message names them."""
    more = ", ..." if len(ids) > IDS_SHOWN_MAX else ""
    return ", ".join(map(str, sorted(ids)[:IDS_SHOWN_MAX])) + more


def _graph(stages: Sequence[Stage]) -> Graph:
    import networkx

    graph: Graph = networkx.DiGraph()
    graph.add_nodes_from((stage.id, {"stage": stage}) for stage in stages)
    for stage in stages:
        for parent in stage.parents:
            if parent in graph:  # `Dag` refuses the others
                graph.add_edge(parent, stage.id, one_to_one=parent in stage.one_to_one)
    return graph


CYCLE_SHOWN_MAX: Final = 40
"""Stages of a cycle that a message names."""


def ordered(name: str, stages: tuple[Stage, ...]) -> Dag:
    """Return a DAG of stages given in any order: parents first, else as given.

    Raises:
        DagError: there is a cycle, which is named, or what `Dag` refuses.
    """
    import networkx

    if len({stage.id for stage in stages}) < len(stages):
        return Dag(name, stages)  # which says what is wrong
    place = {stage.id: at for at, stage in enumerate(stages)}
    graph = _graph(stages)
    try:
        order = list(networkx.lexicographical_topological_sort(graph, key=place.__getitem__))
    except networkx.NetworkXUnfeasible:
        cycle = [edge[0] for edge in networkx.find_cycle(graph)]
        first = cycle.index(min(cycle))
        shown = [str(stage) for stage in (*cycle[first:], *cycle[: first + 1])]
        if len(shown) > CYCLE_SHOWN_MAX:
            shown[CYCLE_SHOWN_MAX // 2 : -CYCLE_SHOWN_MAX // 2] = ["..."]
        path = " -> ".join(shown)
        raise DagError(f"DAG {name}: the stages {path} wait for each other; take one of these edges out") from None
    return Dag(name, tuple(stages[place[identity]] for identity in order))


MACHINES_MAX = 100_000
"""Of what users give; a plan takes memory for each."""


class TimeUnit(StrEnum):
    """What a duration counts; only names change with it."""

    MILLISECOND = "ms"
    PERIOD = "period"


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One planning problem: a DAG on ``machines`` alike machines, each with ``capacity`` of every resource."""

    dag: Dag
    capacity: Mapping[str, float]
    machines: int
    unit: TimeUnit = TimeUnit.MILLISECOND
    best_known: int | None = None
    """The least makespan known to the source, where it has one."""

    def __post_init__(self) -> None:
        check_fits(self.dag, self.capacity, self.machines)


def check_fits(dag: Dag, capacity: Mapping[str, float], machines: int) -> None:
    """Refuse what no schedule can exist for.

    Raises:
        DagError: there is no machine, a capacity is negative or not finite, or a task fits on no machine.
    """
    if machines < 1:
        raise DagError(f"DAG {dag.name}: {machines} machines; give at least one")
    for resource, amount in capacity.items():
        if not 0.0 <= amount < float("inf"):
            raise DagError(f"DAG {dag.name}: capacity of {resource} is {amount}; give a finite amount of 0 or more")
    for stage in dag.stages:
        for resource, amount in stage.demand.items():
            if amount > capacity.get(resource, 0.0):
                raise DagError(
                    f"DAG {dag.name}: stage {stage.id}: a task needs {amount:g} of {resource}, a machine has "
                    f"{capacity.get(resource, 0.0):g}; give larger machines or smaller tasks"
                )


RESOURCES = ("cpu", "memory", "network")

MOST: Final = {"depth": 10_000, "stages": 10_000, "tasks": 10_000_000, "duration_ms": 10**9}


@dataclass(frozen=True, slots=True)
class Shape:
    """What generated DAGs look like."""

    machines: int = 8
    depth: tuple[int, int] = (5, 9)
    """Least and greatest number of layers."""
    stages: tuple[int, int] = (20, 50)
    tasks: tuple[int, int] = (1000, 3000)
    """Of the whole DAG, about."""
    long_share: float = 0.25
    """Of the stages: small, and ten to twenty times as long as the others."""
    fragmenting_share: float = 0.5
    """Of the stages: their tasks need 34 to 65 per cent of a machine in one resource."""
    duration_ms: tuple[int, int] = (1000, 5000)
    """Of a task that is not long."""
    one_to_one_share: float = 0.0
    """Of the stages behind others: they have as many tasks as the one parent left to them, each waits for its own."""
    resources: tuple[str, ...] = RESOURCES
    """What tasks ask for."""

    def __post_init__(self) -> None:
        for name in ("depth", "stages", "tasks", "duration_ms"):
            low, high = getattr(self, name)
            if not 1 <= low <= high <= MOST[name]:
                raise DagError(f"{name}: {low}..{high}; give two numbers from 1 to {MOST[name]}, the lesser first")
        if self.stages[0] < self.depth[1]:
            raise DagError(f"stages: at least {self.stages[0]}, but up to {self.depth[1]} layers; give more stages")
        if not 1 <= self.machines <= MACHINES_MAX:
            raise DagError(f"machines: {self.machines}; give 1 to {MACHINES_MAX}")
        for name in ("long_share", "fragmenting_share", "one_to_one_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise DagError(f"{name}: {getattr(self, name)}; give a number from 0 to 1")


def generate(seed: int, shape: Shape | None = None) -> Instance:
    """Return the DAG of a seed, named after it; machines have 1.0 of each resource."""
    shape = shape or Shape()
    random = np.random.default_rng(seed)
    count = int(random.integers(shape.stages[0], shape.stages[1] + 1))
    layers = _layers(random, count, int(random.integers(shape.depth[0], shape.depth[1] + 1)))
    parents = _parents(random, layers)
    is_long = random.random(count) < shape.long_share
    tasks = _tasks(random, is_long, int(random.integers(shape.tasks[0], shape.tasks[1] + 1)), shape.machines)
    paired = _pair(random, shape.one_to_one_share, layers, parents, tasks, is_long)
    stages = []
    for at in range(count):
        duration = int(random.integers(shape.duration_ms[0], shape.duration_ms[1] + 1))
        if is_long[at]:
            duration = int(duration * random.uniform(10.0, 20.0))
        demand = demand_of(random, bool(random.random() < shape.fragmenting_share), shape.resources)
        stages.append(Stage(at, int(tasks[at]), duration, demand, parents[at], paired[at]))
    return Instance(Dag(f"generated-{seed}", tuple(stages)), dict.fromkeys(shape.resources, 1.0), shape.machines)


def _layers(random: np.random.Generator, count: int, depth: int) -> npt.NDArray[np.int64]:
    """Return each stage's layer, sorted; every layer has a stage."""
    free = random.integers(0, depth, count - depth)
    return np.sort(np.concatenate((np.arange(depth), free)).astype(np.int64))


def _parents(random: np.random.Generator, layers: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return one to three parents each, most in the layer above, at least one there: so the depth is as drawn."""
    found: list[tuple[int, ...]] = []
    for layer in layers:
        above = np.flatnonzero(layers == layer - 1)
        earlier = np.flatnonzero(layers < layer - 1)
        if not len(above):
            found.append(())
            continue
        chosen = {int(random.choice(above))}
        for _ in range(int(random.integers(0, 3))):
            pool = earlier if len(earlier) and random.random() < 0.25 else above
            chosen.add(int(random.choice(pool)))
        found.append(tuple(sorted(chosen)))
    return found


def _tasks(
    random: np.random.Generator, is_long: npt.NDArray[np.bool_], total: int, machines: int
) -> npt.NDArray[np.int64]:
    """Return tasks by stage: long stages have at most one a machine, the others share the rest, unevenly."""
    small = random.integers(1, max(2, machines // 2 + 1), len(is_long))
    weights = np.where(is_long, 0.0, random.lognormal(0.0, 0.7, len(is_long)))
    wide = np.maximum(1, np.round(total * weights / max(weights.sum(), 1e-9)))
    return np.where(is_long, small, wide).astype(np.int64)


def _pair(
    random: np.random.Generator,
    share: float,
    layers: npt.NDArray[np.int64],
    parents: list[tuple[int, ...]],
    tasks: npt.NDArray[np.int64],
    is_long: npt.NDArray[np.bool_],
) -> list[frozenset[int]]:
    """Let a share of the stages follow one parent of the layer above one to one; return whom each follows.

    Such a stage has its parent's number of tasks, and is long only if the parent is. A share of 0 draws nothing.
    """
    paired: list[frozenset[int]] = [frozenset()] * len(parents)
    for at, before in enumerate(parents):
        if share == 0.0 or not before or random.random() >= share:
            continue
        parent = max(each for each in before if layers[each] == layers[at] - 1)
        parents[at], paired[at] = (parent,), frozenset({parent})
        tasks[at] = tasks[parent]
        is_long[at] &= is_long[parent]
    return paired


def demand_of(
    random: np.random.Generator, fragmenting: bool, resources: tuple[str, ...] = RESOURCES
) -> dict[str, float]:
    """Return what a task asks for: little of everything, or much of one resource and little of the others."""
    if not fragmenting:
        return {name: float(random.choice((0.05, 0.1, 0.125, 0.2, 0.25))) for name in resources}
    much = int(random.integers(0, len(resources)))
    return {
        name: round(float(random.uniform(0.34, 0.65) if at == much else random.uniform(0.02, 0.2)), 3)
        for at, name in enumerate(resources)
    }
