"""CP-SAT, the outside reference: its schedules keep to edges, and its bounds hold for the DAG as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.planner.schedules import check, check_ranks
from tests.lab.planner.test_online_plans import MOTIVATING

from treadle.dag import Dag, Stage
from treadle.errors import UserError
from treadle_lab.planning import graphene_plan, solve

ROOT = Path(__file__).parents[3]

PAIRS = Dag("pairs", (Stage(0, 3, 4, {"cpu": 1.0}), Stage(1, 3, 1, {"cpu": 1.0}, (0,), frozenset({0}))))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(UserError, match="needs OR-Tools; pip install --group cpsat"):
        solve(MOTIVATING, {"cpu": 3.0}, 1, 100)


@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("dag", [MOTIVATING, PAIRS], ids=lambda dag: dag.name)
def test_schedules_keep_to_edges_and_bounds_hold(dag: Dag, machines: int) -> None:
    pytest.importorskip("ortools")
    capacity = {"cpu": 3.0} if dag is MOTIVATING else {"cpu": 1.0}
    found = solve(dag, capacity, machines, 60_000)
    check(found, capacity, found.makespan)
    check_ranks(found)
    ours = graphene_plan(dag, capacity, machines, 400)
    assert found.bounds.best <= min(found.makespan, ours.makespan, ours.executed_makespan)


def test_tasks_one_to_one_wait_for_their_own_parent_alone() -> None:
    pytest.importorskip("ortools")
    assert solve(PAIRS, {"cpu": 1.0}, 1, 60_000).makespan == 15
    wide = Dag("wide", (Stage(0, 3, 4, {"cpu": 1.0}), Stage(1, 3, 4, {"cpu": 1.0}, (0,), frozenset({0}))))
    assert solve(wide, {"cpu": 2.0}, 1, 60_000).makespan == 12, "with a barrier 16"


INTERRUPTED = """
import os, signal
from tests.lab.planner.test_cpsat import ONE
from treadle_lab.planning import solve

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may have it ignored
solve(ONE, {"cpu": 4.0}, 1, milliseconds=10_000)
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1_000_000):
        pass
    print("went on")
except KeyboardInterrupt:
    print("interrupted")
"""

ONE = Dag("one", (Stage(0, 2, 1_000, {"cpu": 1.0}),))


def test_ctrl_c_interrupts_as_ever_once_something_was_solved() -> None:
    pytest.importorskip("ortools")
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
