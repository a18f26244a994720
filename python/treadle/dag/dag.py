"""A job's DAG, stages of alike tasks of which some must end before others, and the machines that are to run it."""

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
