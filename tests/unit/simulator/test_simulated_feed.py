"""What has changed in a simulated cluster is read once, and adds up to what there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.reader_view import ReaderView
from tests.support.scenarios import machines, scenario, simulation, stage

from treadle import events
from treadle.config.settings import default_settings
from treadle.dag import Dag, Stage
from treadle.events import Event, NodeState, Proposals
from treadle.simulate import Scenario as Written
from treadle.simulator.build import build
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.tables import ContainerState, State, renew
from treadle.simulator.feed import Feed, by_table, changed
from treadle.simulator.measure import InvariantError, Invariants
from treadle.simulator.resource_manager import NOTHING
from treadle.simulator.scenario import ScenarioModel, jobs_of
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, arranged

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "tests" / "baseline" / "scenarios"
FAILING = "nodes-fail.yaml"


def baseline(name: str) -> Simulation:
    scenario = Written.read(SCENARIOS / name).model
    jobs = jobs_of(scenario, SCENARIOS, scenario.seed)
    return Simulation(scenario, jobs, default_settings(), scenario.seed, check=False)


def near_input() -> Simulation:
    """Return jobs that wait for each other, and whose tasks want to run where their input is."""
    scenario = ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [{"count": 6, "resources": {"memory-mb": 3072, "vcores": 3}, "racks": 2}]},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
            "decision": {"node_locality_delay": 3, "rack_locality_additional_delay": 2},
            "failures": {"task_probability": 0.05, "attempts_max": 100},
        }
    )
    jobs = []
    for number in range(6):
        hosts = tuple((f"node{at * (number + 1) % 6}", f"node{(at + number) % 5}") for at in range(14))
        dag = Dag(f"near {number}", (Stage(0, 14, 5_000, {"memory-mb": 1024, "vcores": 1}),))
        jobs.append(Job(f"near-{number}", 4_000 * number, dag, Framework.MAPREDUCE, queue="default", hosts={0: hosts}))
    return Simulation(scenario, arranged(jobs), default_settings(), 1, check=False)


def anew(made: Simulation) -> ReaderView:
    """Return what somebody knows who reads for the first time now."""
    view = ReaderView()
    view.apply(Feed(made.built, {}, False, None).frame(made.rm.state, None))
    return view


@pytest.mark.parametrize(
    ("make", "kind", "compare_every"),
    [(near_input, events.Localities, 1), (lambda: baseline(FAILING), events.Nodes, 21)],
    ids=["near input", "nodes fail"],
)
def test_who_reads_each_frame_knows_what_somebody_knows_who_reads_for_the_first_time(
    make: Callable[[], Simulation], kind: type[Event], compare_every: int
) -> None:
    made, view, told = make(), ReaderView(), 0
    own = made.rm.frame

    def frame(engine: int = 0) -> list[Event]:
        nonlocal told
        found = own(engine)
        view.apply(found)
        told += sum(isinstance(event, kind) for event in found)
        if made.sequence % compare_every == 0:
            assert view.known() == anew(made).known()
        return found

    made.rm.frame = frame  # type: ignore[method-assign]
    assert made.run().unfinished == 0
    made.rm.frame()
    assert view.known() == anew(made).known()
    assert view.snapshots == 1
    assert told > 10
    assert not view.table(events.Containers) and view.table(events.Nodes)


def test_rows_come_where_they_changed_first_even_if_somebody_read_meanwhile() -> None:
    state = baseline(FAILING).rm.state
    state.clock[tables.READ] = state.clock[tables.VERSION]
    read = [int(state.clock[tables.VERSION])] * 2

    def touch(*nodes: int) -> None:
        for node in nodes:
            state.node_free[node, 0] -= 1
            renew.py_func(state, node)  # type: ignore[attr-defined]

    def told(reader: int) -> list[int]:
        nodes: list[int] = by_table(state, changed(state, read[reader]))[0].tolist()
        state.clock[tables.READ] = read[reader] = int(state.clock[tables.VERSION])
        return nodes

    touch(5, 3, 5)
    assert told(1) == [5, 3]
    touch(3, 8, 5)
    assert told(1) == [3, 8, 5]
    touch(8)
    assert told(0) == [5, 3, 8]
    assert told(1) == [8]
    for _ in range(5 * len(state.versions)):
        touch(7, 2)
        assert told(1) == [7, 2]
    assert told(0) == [2, 7], "in the table's order: nobody remembers which came first"
    assert told(0) == []


# What the simulated RM tells: all of a node at first and when it changes, then only what is free.

SCENARIO = Path(__file__).resolve().parents[2] / "baseline" / "scenarios" / "instant.yaml"


def mark(state: State, *nodes: int) -> None:
    for node in nodes:
        renew.py_func(state, node)  # type: ignore[attr-defined]


def test_a_node_s_row_is_sent_when_it_changes() -> None:
    scenario = Written.read(SCENARIO).model
    built = build(scenario, jobs_of(scenario, SCENARIO.parent, scenario.seed), scenario.seed)
    feed = Feed(built, {}, False, None)
    state = built.state

    def sent() -> list[list[int]]:
        return [event.node.tolist() for event in feed.frame(state, None) if isinstance(event, events.Nodes)]

    assert sent() == [list(range(len(state.nodes)))]
    state.node_free[1] -= 1
    mark(state, 1)
    assert sent() == [[1]]
    state.nodes["state"][0] = int(NodeState.UNUSABLE)
    state.node_total[1] += 1
    mark(state, 1, 0)
    assert sent() == [[1, 0]]
    assert sent() == []


# The invariants find what is wrong: each kind of damage to the tables is noticed.


def half_way() -> Simulation:
    """Return a simulation whose first tasks run while others wait."""
    jobs = [{"queue": queue, "stages": [stage(12, 10)]} for queue in ("a", "b")]
    made = simulation(scenario(jobs, queues={"a": {}, "b": {}}))
    for at in (0, 100, 200):
        made.step(at)
    return made


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
    invariants.before(simulation.rm.state)
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
    invariants.before(simulation.rm.state)
    column = np.ones(count + 1, np.int32)
    made = Proposals(column * app, column * key, column * 0)
    fates = type(NOTHING)(column.astype(np.int64), column, column.astype(np.uint8) * 0, column.astype(np.int64))
    with pytest.raises(InvariantError, match="more containers than it asked for"):
        invariants.after(simulation.rm.state, made, fates, 1000)


def test_an_idle_cluster_with_asks_is_noticed() -> None:
    made = simulation(scenario([{"stages": [stage(12, 10)]}], machines(8, 4)))
    made.rm.advance(1000)
    invariants = Invariants(made.built, default_settings())
    invariants.before(made.rm.state)
    with pytest.raises(InvariantError, match="waits though it fits"):
        invariants.after(made.rm.state, Proposals.none(), NOTHING, 1000)


def test_nobody_waits_of_whom_the_engine_has_not_heard_when_it_decides() -> None:
    jobs = [{"stages": [stage(1, 1)], "arrival_s": at_s} for at_s in (0, 0.2)]
    made = simulation(scenario(jobs, machines(8, 4), decision={"cost_us": 300_000}))
    made.step(0)  # the second job comes while the engine decides
    assert int(made.rm.state.clock[tables.PENDING]) == 1
    assert made.run().unfinished == 0
