"""The engine and the simulated RM, with strange proposals in between: the invariants hold at every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.engine.parts import any_parts, settings_with
from tests.support.examples import few

from treadle.config.settings import default_settings
from treadle.events import Fate, Proposals
from treadle.simulator.cluster import tables
from treadle.simulator.scenario import ScenarioModel, jobs_of
from treadle.simulator.simulation import Simulation

AMOUNTS = st.fixed_dictionaries({"memory-mb": st.sampled_from([0, 512, 1024, 3000]), "vcores": st.integers(0, 3)})


@st.composite
def a_job(draw: Any) -> dict[str, Any]:
    stages: list[dict[str, Any]] = []
    for at in range(draw(st.integers(1, 4))):
        parents = draw(st.lists(st.integers(0, at - 1), unique=True, max_size=2)) if at else []
        tasks = draw(st.integers(0, 12))
        twins = [parent for parent in parents if stages[parent]["tasks"] == tasks and draw(st.booleans())]
        stages.append(
            {"tasks": tasks, "duration_s": draw(st.sampled_from([0, 0.3, 4])), "demand": draw(AMOUNTS)}
            | {"parents": parents, "one_to_one": twins}
        )
    framework = draw(st.sampled_from(["mapreduce", "tez", "spark"]))
    queue = draw(st.sampled_from(["a.x", "a.y", "b"]))
    return {"stages": stages, "framework": framework, "queue": queue, "arrival_s": draw(st.sampled_from([0, 1, 5]))}


@st.composite
def a_scenario(draw: Any) -> ScenarioModel:
    master = draw(st.sampled_from([{}, {"memory-mb": 1024, "vcores": 1}]))
    nodes = {"count": draw(st.integers(1, 5)), "resources": {"memory-mb": 16000, "vcores": 16}, "racks": 2}
    return ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [nodes], "heartbeat_ms": draw(st.sampled_from([0, 700]))},
            "queues": {
                "a": {"capacity": 60, "maximum_capacity": 80, "children": {"x": {}, "y": {"ordering_policy": "fair"}}},
                "b": {"capacity": 40},
            },
            "workload": {"jobs": draw(st.lists(a_job(), min_size=1, max_size=5))},
            "frameworks": {"master": master, "heartbeat_ms": draw(st.sampled_from([0, 1000])), "spark_idle_ms": 2000}
            | {"spark_tasks_per_executor": 2},
            "failures": draw(
                st.sampled_from(
                    [
                        {},
                        {"task_probability": 0.2, "node_mtbf_s": 20, "node_repair_s": 4, "node_detection_s": 2},
                        {"node_mtbf_s": 5, "node_repair_s": 1, "node_detection_s": 8},
                    ]
                )
            ),
            "decision": {"limit": draw(st.sampled_from([3, 100])), "cost_us": draw(st.sampled_from([0, 300_000]))},
        }
    )


class Machine(RuleBasedStateMachine):
    """Ticks of the engine, time that passes, and proposals that no engine would make."""

    simulation: Simulation

    @initialize(scenario=a_scenario(), seed=st.integers(0, 1000), parts=any_parts())
    def begin(self, scenario: ScenarioModel, seed: int, parts: dict[str, str]) -> None:
        workload = jobs_of(scenario, Path(), seed)
        chosen = replace(default_settings(), policy=settings_with(**parts).policy)
        self.simulation = Simulation(scenario, workload, chosen, seed)

    @rule(elapsed_ms=st.sampled_from([1, 100, 1000, 7000]))
    def tick(self, elapsed_ms: int) -> None:
        self.simulation.step(self.simulation.rm.now_ms + elapsed_ms)

    @rule(elapsed_ms=st.integers(1, 3000))
    def time_passes(self, elapsed_ms: int) -> None:
        self.simulation.rm.advance(self.simulation.rm.now_ms + elapsed_ms)

    @rule(wild=st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 6), st.integers(-1, 6)), max_size=6))
    def propose_anything(self, wild: list[tuple[int, int, int]]) -> None:
        rm = self.simulation.rm
        before = rm.state.rows["count"].copy()
        used = rm.state.node_total - rm.state.node_free
        columns = np.array(wild, np.int32).reshape(-1, 3)
        fates = rm.commit(Proposals(*(np.ascontiguousarray(columns[:, at]) for at in range(3))), 0)
        placed = np.zeros_like(before)
        for (app, key, _), fate in zip(wild, fates.fate.tolist(), strict=True):
            if fate == int(Fate.COMMITTED):
                placed[int(rm.state.apps["first_row"][app]) + key] += 1
        assert (placed <= np.maximum(before, 0)).all()
        assert (rm.state.rows["count"] == before - placed).all()
        if not placed.any():
            assert (rm.state.node_total - rm.state.node_free == used).all()

    @precondition(lambda self: self.simulation.sequence > 0)
    @rule()
    def run_on(self) -> None:
        """Let all jobs end, as in a simulation."""
        simulation = self.simulation
        jobs = len(simulation.built.workload.jobs)
        at = simulation.rm.now_ms
        for _ in range(400):
            if int(simulation.rm.state.clock[tables.FINISHED]) == jobs:
                break
            at += 1000
            simulation.step(at)
        assert int(simulation.rm.state.clock[tables.FINISHED]) == jobs
        assert int(simulation.rm.state.clock[tables.CONTAINERS]) == 0
        assert int(simulation.rm.state.clock[tables.PENDING]) == 0


Machine.TestCase.settings = settings(
    max_examples=few(15),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
TestMachine = Machine.TestCase
