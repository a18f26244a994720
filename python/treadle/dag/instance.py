"""A DAG together with the machines that are to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from treadle.dag.dag import Dag, DagError

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
    """The least makespan known to the source, where it tells one."""

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
