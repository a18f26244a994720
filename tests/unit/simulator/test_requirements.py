"""Scenarios with nodes that differ and stages that need some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.parts import settings_with

from treadle.config.errors import ConfigError
from treadle.errors import UserError
from treadle.events import Fate
from treadle.proposals import Proposals
from treadle.simulator.cluster.state import ContainerState
from treadle.simulator.invariants import InvariantError
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import completion_s
from treadle.simulator.scenario import Scenario, parse_scenario
from treadle.simulator.simulation import Simulation

SLOT = {"memory-mb": 1024, "vcores": 1}


def stage(tasks: int, seconds: float, *parents: int, **more: Any) -> dict[str, Any]:
    return {"tasks": tasks, "duration_s": seconds, "demand": SLOT, "parents": parents} | more


def scenario(*stages: dict[str, Any], framework: str = "tez", **more: Any) -> Scenario:
    """Return two nodes of zone a and one of zone b with a GPU, four slots each."""
    room = {"resources": {"memory-mb": 4096, "vcores": 4}}
    nodes = [room | {"count": 2, "attributes": {"zone": "a"}}]
    nodes += [room | {"count": 1, "attributes": {"zone": "b", "nm.yarn.io/gpu": "yes"}, "name": "special"}]
    jobs = [{"stages": stages, "framework": framework}]
    document = {"cluster": {"nodes": nodes, "heartbeat_ms": 0}, "workload": {"jobs": jobs}}
    frameworks = {"heartbeat_ms": 0, "launch_ms": 0}
    return Scenario.model_validate(document | {"frameworks": frameworks, "decision": {"tick_ms": 1}} | more)


def simulation(read: Scenario, **parts: Any) -> Simulation:
    return Simulation(read, jobs_of(read, Path(), 1), settings_with(**parts), 1)


def lasts_s(read: Scenario, **parts: Any) -> float:
    return float(completion_s(simulation(read, **parts).run())[0])


def test_tasks_go_only_where_they_may() -> None:
    assert lasts_s(scenario(stage(12, 10))) == pytest.approx(10.0, abs=0.01)
    assert lasts_s(scenario(stage(12, 10, require="zone=b"))) == pytest.approx(30.0, abs=0.02)
    assert lasts_s(scenario(stage(12, 10, require="zone=a;gpu!=yes"))) == pytest.approx(20.0, abs=0.02)
    assert lasts_s(scenario(stage(12, 10, prefer="zone=b"))) == pytest.approx(10.0, abs=0.01)
    assert lasts_s(scenario(stage(12, 10, require="host=special2"), framework="mapreduce")) == pytest.approx(
        30.0, abs=0.02
    )


def test_a_container_is_used_again_only_for_tasks_that_may_be_where_it_is() -> None:
    # The second stage may not use what the first one leaves.
    read = scenario(stage(8, 10, require="zone=a"), stage(8, 10, 0, require="zone=b"))
    assert lasts_s(read) == pytest.approx(30.0, abs=0.02)


def tagged(*tags: str, **more: Any) -> Scenario:
    """Return the scenario with a job whose tags say what its nodes must be."""
    jobs = [{"stages": [stage(12, 10, **more)], "framework": "tez", "tags": tags}]
    return scenario(workload={"jobs": jobs})


def test_tags_of_a_job_require_as_on_a_cluster() -> None:
    assert lasts_s(tagged("treadle:require=zone=b")) == pytest.approx(30.0, abs=0.02)
    assert lasts_s(tagged("treadle:require=zone=a", require="gpu!=yes")) == pytest.approx(20.0, abs=0.02)
    assert lasts_s(tagged("treadle:prefer=zone=b")) == pytest.approx(10.0, abs=0.01)
    with pytest.raises(UserError, match=r"a tag cannot be read: treadle:require: .*expected one of"):
        simulation(tagged("treadle:require=zone"))


@pytest.mark.parametrize("tag", ["treadle:gang=abc", "treadle:gang=-3", "treadle:workers=", "treadle:workers=1.5"])
def test_a_tag_without_its_number_is_refused(tag: str) -> None:
    name = tag.partition("=")[0]
    with pytest.raises(UserError, match=rf"job job0: a tag cannot be read: {name}: .* write one, as {name}=4"):
        simulation(tagged(tag))


def test_tags_that_nobody_reads_are_warned_of() -> None:
    found = simulation(tagged("treadle:gangs=2", "treadle:etl.daily", "treadle:gang=2", "treadle:odd=1", "etl")).run()
    assert found.warnings == (
        "tag 'treadle:gangs=2' of 1 job: Treadle reads no treadle:gangs=; did you mean gang?",
        (
            "tag 'treadle:odd=1' of 1 job: Treadle reads no treadle:odd=; it reads treadle:gang=, treadle:prefer=, "
            "treadle:require=, treadle:workers="
        ),
    )


@pytest.mark.parametrize(
    "read", [scenario(stage(12, 10, require="zone=b")), tagged("treadle:require=zone=b")], ids=["stage", "tag"]
)
def test_the_simulated_resource_manager_refuses_a_violation(read: Scenario) -> None:
    made = simulation(read)
    made.rm.advance(0)
    column = np.zeros(1, np.int32)
    assert made.rm.commit(Proposals(column, column, column), 0).fate.tolist() == [int(Fate.CONSTRAINT)]
    assert made.rm.commit(Proposals(column, column, column + 2), 0).fate.tolist() == [int(Fate.COMMITTED)]


def test_the_invariants_find_a_container_where_it_must_not_be() -> None:
    made = simulation(scenario(stage(12, 10, require="zone=b")))
    made.step(0)
    made.step(100)
    held = np.flatnonzero(made.rm.state.containers["state"] != ContainerState.FREE)
    assert len(held)
    made.rm.state.containers["node"][held[0]] = 0
    with pytest.raises(InvariantError, match="must not use"):
        made.step(200)


def test_a_wrong_requirement_is_refused_with_its_place() -> None:
    text = """cluster:
  nodes: [{count: 1, resources: {memory-mb: 1024, vcores: 1}}]
workload:
  jobs:
    - stages: [{tasks: 1, duration_s: 1, require: "zone"}]
"""
    with pytest.raises(ConfigError, match=r"x.yaml:5: workload.jobs.0.stages.0.require: .*expected one of"):
        parse_scenario("x.yaml", text)


def test_a_spark_job_has_one_requirement() -> None:
    one = scenario(stage(8, 10, require="zone=b"), framework="spark", frameworks={"spark_tasks_per_executor": 1})
    assert lasts_s(one) >= 20.0
    with pytest.raises(UserError, match="write the same for each"):
        simulation(scenario(stage(8, 10, require="zone=b"), stage(8, 10, 0), framework="spark"))
