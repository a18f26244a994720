"""The invariants find what is wrong: each kind of damage to the tables is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from treadle.config.settings import default_settings
from treadle.proposals import Proposals
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import ContainerState, State
from treadle.simulator.invariants import InvariantError, Invariants
from treadle.simulator.jobs import jobs_of
from treadle.simulator.resource_manager import NOTHING
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation


def half_way() -> Simulation:
    """Return a simulation whose first tasks run while others wait."""
    stage = {"tasks": 12, "duration_s": 10, "demand": {"memory-mb": 1024, "vcores": 1}}
    scenario = Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": 2, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "queues": {"a": {}, "b": {}},
            "workload": {"jobs": [{"queue": "a", "stages": [stage]}, {"queue": "b", "stages": [stage]}]},
            "frameworks": {"heartbeat_ms": 0},
        }
    )
    simulation = Simulation(scenario, jobs_of(scenario, Path(), 1), default_settings(), 1)
    for at in (0, 100, 200):
        simulation.step(at)
    return simulation


def free_more(state: State) -> None:
    state.node_free[0, 0] += 1


def use_more(state: State) -> None:
    state.app_used[0, 1] += 1


def share_less(state: State) -> None:
    state.queue_used[1, 0] -= 1


def ask_more(state: State) -> None:
    state.queue_pending[0, 0] += 7


def run_twice(state: State) -> None:
    held = np.flatnonzero(state.containers["state"] == ContainerState.HELD)
    state.containers["task"][held[0]] = state.containers["task"][held[1]]


def run_nowhere(state: State) -> None:
    state.rows["held"][np.flatnonzero(state.rows["held"])[0]] += 1


def shrink_node(state: State) -> None:
    state.node_total[0] -= 1024
    state.node_free[0] -= 1024


def lower_maximum(state: State) -> None:
    state.queue_maximum[1] = 1


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (free_more, "free on a node"),
        (use_more, "an application uses"),
        (share_less, "a queue uses"),
        (ask_more, "ask for is wrong"),
        (run_twice, "a task is in two containers"),
        (run_nowhere, "running tasks are miscounted"),
        (shrink_node, "over its capacity"),
        (lower_maximum, "over its maximum"),
    ],
)
def test_damage_is_noticed(damage: Callable[[State], None], told: str) -> None:
    simulation = half_way()
    invariants = Invariants(simulation.built, default_settings())
    nothing = Proposals.none()
    invariants.before(simulation.rm.state, nothing)
    invariants.after(simulation.rm.state, nothing, NOTHING, 1000)
    damage(simulation.rm.state)
    with pytest.raises(InvariantError, match=told):
        invariants.after(simulation.rm.state, nothing, NOTHING, 1000)


def test_more_than_was_asked_for_is_noticed() -> None:
    simulation = half_way()
    invariants = Invariants(simulation.built, default_settings())
    rows = simulation.rm.state.rows
    count = int(rows["count"].max())
    row = int(rows["count"].argmax())
    app, key = int(rows["app"][row]), int(rows["key"][row])
    invariants.before(simulation.rm.state, Proposals.none())
    column = np.ones(count + 1, np.int32)
    made = Proposals(column * app, column * key, column * 0)
    fates = type(NOTHING)(column.astype(np.int64), column, column.astype(np.uint8) * 0, column.astype(np.int64))
    with pytest.raises(InvariantError, match="more containers than it asked for"):
        invariants.after(simulation.rm.state, made, fates, 1000)


def test_an_idle_cluster_with_asks_is_noticed() -> None:
    stage = {"tasks": 12, "duration_s": 10, "demand": {"memory-mb": 1024, "vcores": 1}}
    scenario = Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": 8, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "workload": {"jobs": [{"stages": [stage]}]},
            "frameworks": {"heartbeat_ms": 0},
        }
    )
    simulation = Simulation(scenario, jobs_of(scenario, Path(), 1), default_settings(), 1)
    simulation.rm.advance(1000)
    invariants = Invariants(simulation.built, default_settings())
    invariants.before(simulation.rm.state, Proposals.none())
    with pytest.raises(InvariantError, match="waits though it fits"):
        invariants.after(simulation.rm.state, Proposals.none(), NOTHING, 1000)


def test_nobody_waits_of_whom_the_engine_has_not_heard_when_it_decides() -> None:
    stage = {"tasks": 1, "duration_s": 1, "demand": {"memory-mb": 1024, "vcores": 1}}
    scenario = Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": 8, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "workload": {"jobs": [{"stages": [stage]}, {"stages": [stage], "arrival_s": 0.2}]},
            "frameworks": {"heartbeat_ms": 0},
            "decision": {"cost_us": 300_000},
        }
    )
    simulation = Simulation(scenario, jobs_of(scenario, Path(), 1), default_settings(), 1)
    simulation.step(0)  # the second job comes while the engine decides
    assert int(simulation.rm.state.clock[tables.PENDING]) == 1
    assert simulation.run().unfinished == 0
