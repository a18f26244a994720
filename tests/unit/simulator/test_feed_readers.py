"""Several engines read one simulated cluster, each at its own pace, and none sees that others do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.reader_view import ReaderView

from treadle import events
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.dag.dag import Dag, Stage
from treadle.engine import Engine
from treadle.events import Event, Fate
from treadle.simulate import Scenario as Written
from treadle.simulator import cursor
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.usage import renew
from treadle.simulator.feed import Feed
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, arranged

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT / "tests" / "baseline" / "scenarios"
FAILING = "nodes-fail.yaml"


def simulation(name: str, settings: Settings | None = None) -> Simulation:
    scenario = Written.read(SCENARIOS / name).model
    jobs = jobs_of(scenario, SCENARIOS, scenario.seed)
    return Simulation(scenario, jobs, settings or default_settings(), scenario.seed, check=False)


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


def run(made: Simulation, after_step: Callable[[], None]) -> list[list[Event]]:
    """Run a simulation; return the frames of its own engine."""
    frames: list[list[Event]] = []
    own = made.rm.frame

    def frame(engine: int = 0) -> list[Event]:
        told = own(engine)
        if engine == 0:
            frames.append(told)
        return told

    made.rm.frame = frame  # type: ignore[method-assign]
    finished = made.run(after_step=after_step)
    assert finished.unfinished == 0
    return frames


def anew(made: Simulation) -> ReaderView:
    """Return what somebody knows who reads for the first time now."""
    view = ReaderView()
    view.apply(Feed(made.built, {}, False, None, None).frame(made.rm.state, None))
    return view


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def written(frames: list[list[Event]]) -> list[Any]:
    return [
        [(type(event).__name__, [plain(getattr(event, field.name)) for field in fields(event)]) for event in frame]
        for frame in frames
    ]


@pytest.mark.parametrize(
    ("make", "kind", "compare_every"),
    [(near_input, events.Localities, 1), (lambda: simulation(FAILING), events.Nodes, 21)],
    ids=["near input", "nodes fail"],
)
def test_readers_at_different_paces_know_the_same_and_do_not_disturb_the_first(
    make: Callable[[], Simulation], kind: type[Event], compare_every: int
) -> None:
    alone = run(make(), lambda: None)
    assert sum(isinstance(event, kind) for frame in alone for event in frame) > 10
    made = make()
    views = [ReaderView(), ReaderView(), ReaderView()]
    compared = 0

    def others() -> None:
        nonlocal compared
        steps = made.sequence
        if steps == 1:
            assert made.rm.join() == 1
        if steps == len(alone) // 2:
            assert made.rm.join() == 2
        joined = 0 if steps < 1 else 1 if steps < len(alone) // 2 else 2
        read = [engine for engine, pace in ((1, 7), (2, 3))[:joined] if steps % pace == 0]
        for engine in read:
            views[engine].apply(made.rm.frame(engine))
        if read and steps % compare_every == 0:
            now = anew(made).known()
            assert all(views[engine].known() == now for engine in read)
            compared += len(read)

    beside = run(made, others)
    assert written(beside) == written(alone)
    for engine, frames in enumerate((beside, [made.rm.frame(1)], [made.rm.frame(2)])):
        for frame in frames:
            views[engine].apply(frame)
    views[0].apply(made.rm.frame())
    assert [view.snapshots for view in views] == [1, 1, 1]
    assert compared > 20
    now = anew(made).known()
    assert all(view.known() == now for view in views)
    assert not views[0].table(events.Containers) and views[0].table(events.Nodes)


def test_a_reader_that_misses_steps_of_containers_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "CONTAINER_STEPS_KEPT", 40)
    made = simulation(FAILING)
    made.rm.join()
    view, longest = ReaderView(), 0

    def lag() -> None:
        nonlocal longest
        longest = max(longest, int(made.rm.state.clock[tables.CONTAINER_STEPS]))
        if made.sequence == 1 or made.sequence % 400 == 0:
            view.apply(made.rm.frame(1))
            assert view.known() == anew(made).known()

    run(made, lag)
    assert view.snapshots > 2
    ever, most = (
        int(made.rm.state.clock[tables.CONTAINER_STEPS_DROPPED]),
        2 * 40 + 4 * 160,
    )  # 160 containers fit at a time
    assert longest <= most < ever / 2, "steps are kept for nobody"


def test_rows_come_where_they_changed_first_even_if_somebody_read_meanwhile() -> None:
    made = simulation(FAILING)
    made.rm.join()
    for engine in (0, 1):
        made.rm.frame(engine)
    state = made.rm.state

    def touch(*nodes: int) -> None:
        for node in nodes:
            state.node_free[node, 0] -= 1
            renew.py_func(state, node)  # type: ignore[attr-defined]

    def told(engine: int) -> list[int]:
        return [node for event in made.rm.frame(engine) if isinstance(event, events.NodesFree) for node in event.node]

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


def test_an_engine_that_joins_late_gets_its_plans_scores() -> None:
    settings = read_settings(ROOT / "conf" / "policies" / "graphene.yaml")
    made = simulation("tez-narrow.yaml", settings)
    first, late = ReaderView(), ReaderView()
    other = simulation("tez-narrow.yaml", settings)
    own = made.rm.frame

    def frame(engine: int = 0) -> list[Event]:
        told = own(engine)
        (late if engine else first).apply(told)
        return told

    made.rm.frame = frame  # type: ignore[method-assign]
    compared = 0

    def join() -> None:
        nonlocal compared
        if made.sequence == 50:
            made.rm.join(plans=other.plans)
        if made.sequence >= 50:
            made.rm.frame(1)
            running = {key[0] for key in late.table(events.Applications)}
            known = {key: score for key, score in first.scores.items() if key[0] in running}
            if late.scores:
                compared += 1
                assert set(late.scores) >= set(known)

    made.run(after_step=join)
    assert compared > 10


def two_engines() -> Scenario:
    stage = {"tasks": 30, "duration_s": 4, "demand": {"memory-mb": 1024, "vcores": 1}}
    job = {"stages": [stage, stage | {"parents": [0]}]}
    return Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": 6, "resources": {"memory-mb": 4096, "vcores": 4}}], "heartbeat_ms": 0},
            "workload": {"jobs": [job | {"arrival_s": at} for at in range(12)]},
            "decision": {"limit": 2},  # the first engine leaves something to the second
            "failures": {"task_probability": 0.05},
        }
    )


def test_two_engines_place_on_one_cluster_and_each_hears_its_own_fates() -> None:
    scenario = two_engines()
    made = Simulation(scenario, jobs_of(scenario, Path(), 1), default_settings(), 1)
    second = Engine(default_settings())
    assert made.rm.join() == 1
    committed = [0, 0]
    sequence = 0

    def other_places() -> None:
        nonlocal sequence
        if made.sequence % 3:
            return
        frame = made.rm.frame(1)
        heard = [event.sequence.tolist() for event in frame if isinstance(event, events.Fates)]
        assert all(each == sequence for fates in heard for each in fates)
        second.apply(frame)
        sequence = 1_000_000 + made.sequence
        proposals = second.decide(made.rm.start_ms + made.rm.now_ms, 5, sequence=sequence)
        fates = made.rm.commit(proposals, sequence, engine=1)
        committed[1] += int(np.count_nonzero(fates.fate == Fate.COMMITTED))

    finished = made.run(after_step=other_places)
    committed[0] = finished.fates.get("COMMITTED", 0)
    assert finished.unfinished == 0
    assert min(committed) > 20, committed
