"""From request priorities to stages, for each framework.

MapReduce (RMContainerAllocator): 5 maps that are asked for again, 10 reduces, 19 opportunistic maps, 20 maps. Tez: each
vertex has three priorities of its own, of which two are used. Spark: the number of a resource profile, which says
nothing of stages; all executors are one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from treadle.model.priorities import FAILED_MAP, MAP, OPPORTUNISTIC_MAP, REDUCE
from treadle.profiles.run import Measured

_MAPREDUCE: Final = {FAILED_MAP: ("map", 0), OPPORTUNISTIC_MAP: ("map", 0), MAP: ("map", 0), REDUCE: ("reduce", 1)}


class Framework(StrEnum):
    """Whose application it is, by YARN's application type."""

    MAPREDUCE = "MAPREDUCE"
    TEZ = "TEZ"
    SPARK = "SPARK"
    OTHER = "OTHER"

    @classmethod
    def of(cls, type_: str) -> Framework:
        """Return the framework of an application type."""
        return cls(type_.upper()) if type_.upper() in set(cls) else cls.OTHER

    @property
    def measured(self) -> Measured:
        """What a container's time is the time of: MapReduce starts one for each attempt of a task."""
        return Measured.TASKS if self is Framework.MAPREDUCE else Measured.CONTAINERS


class StageId(NamedTuple):
    """Which stage of its job; sorts in an order in which parents come first, as far as that is known."""

    position: int
    name: str


class TezVertex(NamedTuple):
    """What a request priority of Tez says of the vertex it is for."""

    depth: int
    """The longest distance from a root vertex."""
    id: int
    rescheduled: bool
    """It is for an attempt that is asked for again."""


def tez_vertex(priority: int, vertices: int) -> TezVertex | None:
    """Return the vertex of a priority in a DAG of so many vertices; None if the priority is none of that DAG.

    With N vertices, p = 3 ((depth + 1) N + id) - 1, or - 2 if rescheduled (DAGScheduler and TaskAttemptImpl, 0.10.5).
    """
    if vertices < 1 or priority < 1:
        return None
    place = -(-priority // 3)
    depth, at = place // vertices - 1, place % vertices
    # the deepest vertex of a chain of N lies at depth N - 1
    if priority % 3 == 0 or not 0 <= depth < vertices:
        return None
    return TezVertex(depth, at, priority % 3 == 1)


def stage_of(framework: Framework, priority: int, vertices: int = 0) -> StageId:
    """Return the stage that containers of a priority belong to.

    ``vertices`` is how many a Tez DAG has; if 0 or wrong, its vertices are told apart and ordered all the same, by the
    priority of their first asks.
    """
    if framework is Framework.MAPREDUCE and priority in _MAPREDUCE:
        name, position = _MAPREDUCE[priority]
        return StageId(position, name)
    if framework is Framework.TEZ:
        vertex = tez_vertex(priority, vertices)
        first = 3 * -(-priority // 3) - 1
        return StageId(first, f"priority {first}" if vertex is None else f"vertex {vertex.id}")
    if framework is Framework.SPARK:
        return StageId(0, "executors")
    return StageId(priority, f"priority {priority}")
