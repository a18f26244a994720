"""CP-SAT, the outside reference: its schedules keep to edges, and its bounds hold for the DAG as it is."""

from __future__ import annotations

import sys

import pytest
from tests.property.planner.schedules import check, check_ranks
from tests.unit.planner.test_online_plans import MOTIVATING

from treadle.dag.dag import Dag, Stage
from treadle.errors import UserError
from treadle.planner.cpsat import solve
from treadle.planner.graphene import plan

PAIRS = Dag("pairs", (Stage(0, 3, 4, {"cpu": 1.0}), Stage(1, 3, 1, {"cpu": 1.0}, (0,), frozenset({0}))))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(UserError, match=r"needs OR-Tools; pip install 'treadle\[cpsat\]'"):
        solve(MOTIVATING, {"cpu": 3.0}, 1, 100)


@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("dag", [MOTIVATING, PAIRS], ids=lambda dag: dag.name)
def test_schedules_keep_to_edges_and_bounds_hold(dag: Dag, machines: int) -> None:
    pytest.importorskip("ortools")
    capacity = {"cpu": 3.0} if dag is MOTIVATING else {"cpu": 1.0}
    found = solve(dag, capacity, machines, 60_000, placements=True)
    check(found, capacity, found.makespan)
    check_ranks(found)
    ours = plan(dag, capacity, machines, 400)
    assert found.bounds.best <= min(found.makespan, ours.makespan, ours.executed_makespan)


def test_tasks_one_to_one_wait_for_their_own_parent_alone() -> None:
    pytest.importorskip("ortools")
    assert solve(PAIRS, {"cpu": 1.0}, 1, 60_000).makespan == 15
    wide = Dag("wide", (Stage(0, 3, 4, {"cpu": 1.0}), Stage(1, 3, 4, {"cpu": 1.0}, (0,), frozenset({0}))))
    assert solve(wide, {"cpu": 2.0}, 1, 60_000).makespan == 12, "with a barrier 16"
