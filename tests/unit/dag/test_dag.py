"""A DAG is what it says, or is refused with the stage's id."""

from __future__ import annotations

import pytest

from treadle.dag.dag import Dag, DagError, Stage, ordered


def stage(identity: int, *parents: int, tasks: int = 1) -> Stage:
    return Stage(identity, tasks, 1000, {"cpu": 1.0}, parents)


def test_stages_in_any_order_come_parents_first() -> None:
    dag = ordered("q", (stage(2, 0, 1), stage(1, 0), stage(0)))
    assert [s.id for s in dag.stages] == [0, 1, 2]
    assert dag.tasks == 3


def test_a_cycle_is_named() -> None:
    with pytest.raises(DagError, match="stages 1, 2 are on a cycle"):
        ordered("q", (stage(0), stage(1, 2), stage(2, 1)))


def test_an_unknown_parent_is_named() -> None:
    with pytest.raises(DagError, match="stage 1 has an unknown parent, 7"):
        ordered("q", (stage(0), stage(1, 7)))


def test_ids_are_unique() -> None:
    with pytest.raises(DagError, match="two stages have the id 0"):
        ordered("q", (stage(0), stage(0)))


def test_one_to_one_needs_as_many_tasks() -> None:
    child = Stage(1, 3, 1000, {}, (0,), frozenset({0}))
    Dag("q", (stage(0, tasks=3), child))
    with pytest.raises(DagError, match="one_to_one"):
        Dag("q", (stage(0, tasks=2), child))


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
def test_a_demand_is_finite_and_not_negative(amount: float) -> None:
    with pytest.raises(DagError, match="stage 0: demands"):
        Dag("q", (Stage(0, 1, 1, {"cpu": amount}),))
