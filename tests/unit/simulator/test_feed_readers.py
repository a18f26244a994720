"""What has changed in a simulated cluster is read once, and adds up to what there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.reader_view import ReaderView

from treadle import events
from treadle.config.settings import default_settings
from treadle.dag.dag import Dag, Stage
from treadle.events import Event
from treadle.simulate import Scenario as Written
from treadle.simulator.cluster.state import renew
from treadle.simulator.feed import Cursor, Feed
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, arranged

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "tests" / "baseline" / "scenarios"
FAILING = "nodes-fail.yaml"


def simulation(name: str) -> Simulation:
    scenario = Written.read(SCENARIOS / name).model
    jobs = jobs_of(scenario, SCENARIOS, scenario.seed)
    return Simulation(scenario, jobs, default_settings(), scenario.seed, check=False)


def near_input() -> Simulation:
    """Return jobs that wait for each other, and whose tasks want to run where their input is."""
    scenario = Scenario.model_validate(
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
    view.apply(Feed(made.built, {}, False, None, None).frame(made.rm.state, None))
    return view


@pytest.mark.parametrize(
    ("make", "kind", "compare_every"),
    [(near_input, events.Localities, 1), (lambda: simulation(FAILING), events.Nodes, 21)],
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
    state = simulation(FAILING).rm.state
    readers = [Cursor(), Cursor()]
    for reader in readers:
        reader.read(state)

    def touch(*nodes: int) -> None:
        for node in nodes:
            state.node_free[node, 0] -= 1
            renew.py_func(state, node)  # type: ignore[attr-defined]

    def told(reader: int) -> list[int]:
        nodes: list[int] = readers[reader].read(state).nodes.tolist()
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
