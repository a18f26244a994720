"""From ranks to a plan: follow them, place them, return them."""

from __future__ import annotations

from typing import NamedTuple

from treadle.dag.dag import Dag
from treadle.planner.bounds import LowerBounds
from treadle.planner.plan import Placement, Plan, group_ranks
from treadle.planner.problem import I64
from treadle.planner.workspace import Workspace


class Ranking(NamedTuple):
    """The result of an algorithm."""

    key: I64
    """By group: the lowest starts first."""
    low: I64
    """By group: the planned start of its first task."""
    planned: int
    """Makespan of the planned schedule."""
    troublesome: tuple[int, ...]
    """Stages, by place in the DAG."""
    rows: I64
    """The planned schedule (`kernel.arrays.Record`), if it was asked for."""
    executed: int | None = None
    """Makespan of the algorithm's own rule where that does not follow ranks."""


def finish(dag: Dag, work: Workspace, algorithm: str, ranking: Ranking, bounds: LowerBounds, schedules: int) -> Plan:
    """Return the plan of some ranks; it is followed once."""
    executed = work.follow(ranking.key) if ranking.executed is None else ranking.executed
    ids = [stage.id for stage in dag.stages]
    group_at = work.problem.group_at
    ranks = group_ranks(dag, ranking.key)
    return Plan(
        dag=dag,
        algorithm=algorithm,
        makespan=ranking.planned,
        executed_makespan=executed,
        bounds=bounds,
        schedules=schedules,
        starts={stage: ranking.low[group_at[at] : group_at[at + 1]] for at, stage in enumerate(ids)},
        ranks={stage: ranks[group_at[at] : group_at[at + 1]] for at, stage in enumerate(ids)},
        troublesome=frozenset(ids[at] for at in ranking.troublesome),
        placements=tuple(
            Placement(start, ids[stage], machine, tasks, times)
            for start, stage, machine, tasks, times in ranking.rows.tolist()
        ),
    )
