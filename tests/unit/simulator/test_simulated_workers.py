"""An engine that serves MapReduce with the gate `workers`, simulated: widths, predicted ends, and others' jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.config.settings import Settings, default_settings, with_parts
from treadle.policy.mapreduce_workers import finish_s
from treadle.simulator.engines_simulation import EnginesSimulation, with_engines
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation

SLOT = {"memory-mb": 1024, "vcores": 1}


def mapreduce(maps: int, map_s: float, **more: Any) -> dict[str, Any]:
    return {"framework": "mapreduce", "stages": [{"tasks": maps, "duration_s": map_s, "demand": SLOT}]} | more


def scenario(jobs: list[dict[str, Any]], slots: int, **more: Any) -> Scenario:
    node = {"count": slots // 10, "resources": {"memory-mb": 10_240, "vcores": 10}}
    document = {
        "cluster": {"nodes": [node], "heartbeat_ms": 0},
        "frameworks": {"heartbeat_ms": 0},
        "workload": {"jobs": jobs},
        "decision": {"tick_ms": 1000},
    }
    return Scenario.model_validate(document | more)


def workers(policy: str, base: int) -> Settings:
    return with_parts(default_settings(), {"gate": ("workers", {"policy": policy, "workers": base})})


def simulated(given: Scenario, settings: Settings) -> tuple[list[int], int]:
    """Return when each job ends, milliseconds, and the most containers that the first had at a time."""
    simulation = Simulation(given, jobs_of(given, Path(), 1), settings, 1)
    widest = 0

    def look() -> None:
        nonlocal widest
        widest = max(widest, int(simulation.rm.state.apps["containers"][0]))

    run = simulation.run(after_step=look)
    assert run.unfinished == 0
    return run.built.state.apps["finish_ms"].tolist(), widest


def test_a_job_is_kept_to_its_width_and_ends_when_it_was_predicted_to() -> None:
    given = scenario([mapreduce(24, 20.0)], slots=100)
    (ends_ms,), alone = simulated(given, workers("as_requested", 8))
    assert alone <= 8 + 1, "its master is none of the workers"
    assert ends_ms / 1000 == pytest.approx(finish_s(8, 24, 20.0, 0, 0.0), rel=0.25)
    (sooner_ms,), wide = simulated(given, workers("max_parallelism", 8))
    assert wide >= 24
    assert sooner_ms / 1000 == pytest.approx(finish_s(24, 24, 20.0, 0, 0.0), rel=0.25)


def test_another_engines_jobs_are_as_fast_beside_a_specialist_with_a_cap() -> None:
    service = [mapreduce(10, 10.0, user="service", arrival_s=5.0 + 20.0 * at) for at in range(5)]
    jobs = [mapreduce(200, 15.0, user="batch"), *service]
    ends: dict[str, list[int]] = {}
    for policy in ("as_requested", "global_cap"):
        gate = {"kind": "workers", "policy": policy, "workers": 20}
        roster = {"batch": {"select": {"users": ["batch"]}, "policy": {"gate": gate}}, "service": {}}
        several = scenario(jobs, slots=100, engines=roster)
        settings = with_engines(several, default_settings())
        run = EnginesSimulation(several, jobs_of(several, Path(), 1), settings, 1).run()
        assert run.unfinished == 0
        ends[policy] = run.built.state.apps["finish_ms"].tolist()
    assert ends["global_cap"][0] < 0.6 * ends["as_requested"][0], "with 60 workers instead of 20"
    for began_s, mine, before in zip(
        (5.0 + 20.0 * at for at in range(5)), ends["global_cap"][1:], ends["as_requested"][1:], strict=True
    ):
        assert mine - 1000 * began_s <= 1.05 * (before - 1000 * began_s)
