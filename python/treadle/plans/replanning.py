"""Whether the plan of a DAG that runs should be made anew, and the new order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from treadle.dag.dag import Dag
from treadle.planner.online import Machines, followed_ms, plan_online
from treadle.planner.plan import Plan

OFF: Final = 1.5
"""A plan is made anew once a vertex has so many times the tasks that it was made for, or so many times fewer; likewise
once its tasks take so many times as long, or as short."""

GAIN: Final = 0.02
"""Another order is told if following it takes this much less time, as far as is known."""

EVERY_S: Final = 5.0
"""A DAG is planned anew at most so often."""

REPLANS_MAX: Final = 20
"""A DAG is planned anew at most so many times."""


class Size(NamedTuple):
    """What a plan was made for, of a vertex."""

    tasks: int
    duration_ms: int


@dataclass(eq=False)
class Replanning:
    """The order that a DAG follows, what it was made for, and when another one was looked for."""

    order: tuple[int, ...]
    """The ids of all vertices, the one to be served first in front."""
    sizes: Mapping[int, Size]
    looked_s: float
    looked: int = 0

    def may_look(self, now_s: float) -> bool:
        """Say whether another order may be looked for now."""
        return self.looked < REPLANS_MAX and now_s - self.looked_s >= EVERY_S

    def is_off(self, sizes: Mapping[int, Size]) -> bool:
        """Say whether the DAG has become another one than the order was made for."""
        return any(_is_off(size, self.sizes[vertex]) for vertex, size in sizes.items())

    def look(self, sizes: Mapping[int, Size], now_s: float) -> None:
        """Take that another order is looked for, for such a DAG."""
        self.sizes, self.looked_s, self.looked = sizes, now_s, self.looked + 1


def sizes_of(dag: Dag) -> dict[int, Size]:
    """Return what a plan of a DAG is made for, by vertex."""
    return {stage.id: Size(stage.tasks, stage.duration_ms) for stage in dag.stages}


def remaining(dag: Dag, ended: Mapping[int, int]) -> Dag:
    """Return what is left of a DAG of whose vertices so many tasks have ended.

    A vertex of which all have is left out if all its parents are: reports of ended tasks may be missing.
    """
    done: set[int] = set()
    stages = []
    for stage in dag.stages:  # parents come first
        left = max(stage.tasks - ended.get(stage.id, 0), 0)
        if not left and done.issuperset(stage.parents):
            done.add(stage.id)
            continue
        parents = tuple(parent for parent in stage.parents if parent not in done)
        stages.append(replace(stage, tasks=max(left, 1), parents=parents, one_to_one=frozenset()))
    return Dag(dag.name, tuple(stages))


def better(order: Sequence[int], left: Dag, machines: Machines, schedules: int) -> tuple[tuple[int, ...], Plan] | None:
    """Return another order of all vertices and the plan of what is left of the DAG; None if it is not worth it.

    Which vertices tasks have been asked for is not known here: whoever follows the order leaves those at their places,
    so that the gain may be less than was found.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    ids = {stage.id for stage in left.stages}
    if len(ids) < 2:
        return None
    plan = plan_online(left, machines, schedules)
    now_ms = followed_ms(left, machines, [vertex for vertex in order if vertex in ids])
    if plan.executed_makespan > now_ms * (1 - GAIN):
        return None
    return (*(vertex for vertex in order if vertex not in ids), *plan.stage_order()), plan


def _is_off(now: Size, then: Size) -> bool:
    return any(max(one, other, 1) > OFF * max(min(one, other), 1) for one, other in zip(now, then, strict=True))
