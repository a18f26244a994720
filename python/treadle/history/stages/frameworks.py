"""From request priorities to stages, for each framework.

MapReduce (RMContainerAllocator): 5 maps that are asked for again, 10 reduces, 19 opportunistic maps, 20 maps. Tez: each
vertex has three priorities of its own, of which two are used. Spark: the number of a resource profile, which says
nothing of stages; all executors are one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from treadle.history.run import Measured
from treadle.yarn.priorities import FAILED_MAP, MAP, OPPORTUNISTIC_MAP, REDUCE

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


def stage_of(framework: Framework, priority: int) -> StageId:
    """Return the stage that containers of a priority belong to.

    Tez's vertices are distinguished and ordered by the priority of their first asks. With N vertices that of vertex
    ``id`` is p = 3 ((depth + 1) N + id) - 1, and p - 1 for attempts that are asked for again (DAGScheduler and
    TaskAttemptImpl, 0.10.5); N is not known here, since a session may run DAGs of several sizes.
    """
    if framework is Framework.MAPREDUCE and priority in _MAPREDUCE:
        name, position = _MAPREDUCE[priority]
        return StageId(position, name)
    if framework is Framework.TEZ:
        first = 3 * -(-priority // 3) - 1
        return StageId(first, f"priority {first}")
    if framework is Framework.SPARK:
        return StageId(0, "executors")
    return StageId(priority, f"priority {priority}")
