"""A job's DAG, stages of identical tasks with precedence, and its form in a line of a file.

An error in an object of a line names the field and the remedy (docs/graphene.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from treadle.errors import UserError, nearest

if TYPE_CHECKING:
    import networkx

    Graph: TypeAlias = "networkx.DiGraph[int]"


class DagError(UserError):
    """An inconsistent DAG: a cycle, an unknown parent, a negative amount."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Tasks with the same resources and predecessors (a MapReduce phase, a Tez vertex).

    A task starts when all tasks of all ``parents`` have ended; after a parent in ``one_to_one``, which has as many
    tasks, task i waits for that parent's task i only.
    """

    id: int
    tasks: int
    duration_ms: int
    """Duration of one task in ms; the mean if they differ."""
    demand: Mapping[str, float]
    """Resources of one task; missing resources are 0."""
    parents: tuple[int, ...] = ()
    one_to_one: frozenset[int] = frozenset()
    durations_ms: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    """Duration of each task in ms, if known, shape (tasks,); None: all run ``duration_ms``."""
    name: str = ""

    @classmethod
    def measured(
        cls,
        id: int,  # noqa: A002 (as the field is called)
        durations_ms: npt.NDArray[np.int64],
        demand: Mapping[str, float],
        parents: tuple[int, ...] = (),
        name: str = "",
    ) -> Stage:
        """Return a stage of tasks, at least one, whose durations are known."""
        mean_ms = round(float(durations_ms.mean()))
        return cls(id, len(durations_ms), mean_ms, demand, parents, durations_ms=durations_ms, name=name)

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
        """Number of tasks of all stages."""
        return sum(stage.tasks for stage in self.stages)


IDS_SHOWN_MAX: Final = 20


def _shown(ids: set[int]) -> str:
    """Return stage IDs as text for a message."""
    more = ", ..." if len(ids) > IDS_SHOWN_MAX else ""
    return ", ".join(map(str, sorted(ids)[:IDS_SHOWN_MAX])) + more


def graph_of(stages: Sequence[Stage]) -> Graph:
    """Return a new networkx graph: stage IDs with their ``stage``, edges to children with ``one_to_one``."""
    import networkx  # imported only here, as above: it takes longer than this package

    graph: Graph = networkx.DiGraph()
    graph.add_nodes_from((stage.id, {"stage": stage}) for stage in stages)
    for stage in stages:
        for parent in stage.parents:
            if parent in graph:  # `Dag` rejects the others
                graph.add_edge(parent, stage.id, one_to_one=parent in stage.one_to_one)
    return graph


CYCLE_SHOWN_MAX: Final = 40
"""Maximum number of a cycle's stages in a message."""


def ordered(name: str, stages: tuple[Stage, ...]) -> Dag:
    """Return a DAG of stages given in any order: parents first, otherwise as given.

    Raises:
        DagError: there is a cycle, which is named, or `Dag` rejects it.
    """
    import networkx

    if len({stage.id for stage in stages}) < len(stages):
        return Dag(name, stages)  # which reports the error
    place = {stage.id: at for at, stage in enumerate(stages)}
    graph = graph_of(stages)
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
"""Maximum number of machines set by users; a plan takes memory for each."""


def check_fits(dag: Dag, capacity: Mapping[str, float], machines: int) -> None:
    """Reject a DAG without any possible schedule.

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


WHOLE_MAX: Final = 2**40
SHOWN_MAX: Final = 200
"""Maximum length of a wrong value in a message."""


class Line(BaseModel):
    """Base of all objects: unknown fields are rejected rather than ignored; a number is a text too."""

    # a bound on texts makes pydantic reject halves of characters, which no file can hold
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, str_max_length=1 << 30)


Read = TypeVar("Read", bound=Line)


def _refuse_others(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise PydanticCustomError("number", "it must be a valid number")
    return value


Number: Final = BeforeValidator(_refuse_others)
"""For pydantic: a number, which ``true`` and a text are not."""
Whole: TypeAlias = Annotated[int, Number, Field(ge=0, le=WHOLE_MAX)]
Amounts: TypeAlias = dict[str, Annotated[float, Number, Field(ge=0, allow_inf_nan=False)]]
"""Amounts by resource, finite and not negative."""

_REMEDIES: Final = {
    "dict_type": 'give amounts by resource, such as {"cpu": 1.0}',
    "model_type": "give a list of objects",
    "list_type": "give a list",
    "tuple_type": "give a list",
}


def checked(model: type[Read], where: str, values: dict[str, Any]) -> Read:
    """Return an object validated by the model.

    Raises:
        DagError: it does not match the schema; the message names the first error.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        detail: Any = error.errors()[0]
        raise DagError(f"{where}: {_place(detail['loc'])}: {_explained(detail, model)}") from None


def _place(location: tuple[str | int, ...]) -> str:
    """Return a location as messages show it: ``stages[0]: demand.cpu``."""
    place = ""
    for at, step in enumerate(location):
        if isinstance(step, int):
            place += f"[{step}]"
        else:
            place += (": " if isinstance(location[at - 1], int) else ".") * (at > 0) + step
    return place


def _explained(detail: Any, model: type[Line]) -> str:
    kind: str = detail["type"]
    last: str = detail["loc"][-1]
    for step in detail["loc"][:-1]:
        model = _inner(model, step)
    if kind == "extra_forbidden":
        known = tuple(model.model_fields)
        return f"unknown; the fields are {', '.join(known)}{nearest(last, known)}"
    if kind == "missing":
        return "missing; write it"
    if kind == "too_short":
        return "empty; give at least one"
    remedy = _REMEDIES.get(kind, detail["msg"].replace("Input should be", "it must be"))
    return f"is {json.dumps(detail['input'])[:SHOWN_MAX]}; {remedy}"


def _inner(model: type[Line], step: str | int) -> type[Line]:
    """Return the model of the items of a list field; otherwise the model itself."""
    field = model.model_fields.get(str(step))
    inside = () if field is None else getattr(field.annotation, "__args__", ())
    return next((one for one in inside if isinstance(one, type) and issubclass(one, Line)), model)


class TwiceError(ValueError):
    """A JSON object has a field twice."""


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a hook of `json`, which would silently take the last of equal fields.

    Raises:
        TwiceError: a field occurs twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise TwiceError(f"{twice[:SHOWN_MAX]}: is there twice; keep one")
    return found


TASKS_MAX: Final = 10_000_000
Id: TypeAlias = Annotated[int, Number, Field(ge=-WHOLE_MAX, le=WHOLE_MAX)]


class StageLine(Line):
    """A stage, as an object of a line."""

    id: Id
    tasks: Annotated[int, Number, Field(ge=0, le=TASKS_MAX)]
    duration_ms: Whole
    demand: Amounts
    parents: tuple[Id, ...] = ()
    one_to_one: tuple[Id, ...] = ()
    name: str = ""

    def stage(self) -> Stage:
        """Return the stage; duplicate IDs in a list count once."""
        parents, one_to_one = tuple(dict.fromkeys(self.parents)), frozenset(self.one_to_one)
        return Stage(self.id, self.tasks, self.duration_ms, self.demand, parents, one_to_one, name=self.name)


class DagLine(Line):
    """A DAG and its machines, as a line."""

    name: str
    machines: Annotated[int, Number, Field(ge=1, le=MACHINES_MAX)]
    capacity: Amounts
    stages: tuple[StageLine, ...] = Field(min_length=1)
