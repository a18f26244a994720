"""Scenarios that make no sense, or are very large, end well or with a clear error; the invariants are checked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support.scenarios import SLOT, machines, simulated, stage

from treadle.config.settings import default_settings, with_parts
from treadle.errors import ConfigError, UserError
from treadle.simulator.scenario import ScenarioModel, parse_scenario
from treadle.simulator.simulation import SimulatedRun

SHARES = ["capacity", "hdrf", "deficit"]


def job(queue: str, tasks: int = 4, **more: Any) -> dict[str, Any]:
    return {"stages": [stage(tasks, 2, demand=more.pop("demand", SLOT))], "queue": queue, **more}


def run(queues: dict[str, Any], jobs: list[dict[str, Any]], share: str = "capacity", **more: Any) -> SimulatedRun:
    cluster = {"nodes": [machines(more.pop("nodes", 2), 8)], **more.pop("cluster", {})}
    decision = {"idle_ms": 120_000}  # an hour of waiting in vain has few decisions
    document = {"cluster": cluster, "queues": queues, "workload": {"jobs": jobs}, "decision": decision, **more}
    return simulated(ScenarioModel.model_validate(document), with_parts(default_settings(), {"share": share}))


@pytest.mark.parametrize("share", SHARES)
def test_tasks_that_need_nothing_and_queues_that_are_guaranteed_nothing(share: str) -> None:
    queues = {"a": {"capacity": 100}, "b": {"capacity": 0}, "c": {"capacity": 0}}
    done = run(queues, [job("a", demand={}), job("b"), job("c", tasks=0)], share)
    assert done.unfinished == 0
    assert done.counts["tasks_done"] == 8


@pytest.mark.parametrize("share", SHARES)
def test_a_task_larger_than_the_cluster_keeps_nobody_else_from_ending(share: str) -> None:
    queues = {"a": {"capacity": 50}, "b": {"capacity": 50}}
    done = run(queues, [job("a", demand={"memory-mb": 10**6}), job("b", tasks=100)], share)
    assert done.unfinished == 1
    assert done.counts["tasks_done"] == 100


@pytest.mark.parametrize("share", SHARES)
def test_a_resource_that_no_node_has(share: str) -> None:
    cluster = {"resources": [{"name": "memory-mb"}, {"name": "vcores"}, {"name": "fpga"}]}
    queues = {"a": {"capacity": 50}, "b": {"capacity": 50}}
    jobs = [job("a", demand={"memory-mb": 1024, "fpga": 1}), job("b", tasks=50)]
    done = run(queues, jobs, share, cluster=cluster)
    assert done.unfinished == 1
    assert done.counts["tasks_done"] == 50
    with pytest.raises(UserError, match="'fpga', which"):
        run(queues, jobs, share)


@pytest.mark.parametrize("share", SHARES)
def test_ten_levels(share: str) -> None:
    queues: dict[str, Any] = {"last": {}}
    for level in range(10, 0, -1):
        queues = {f"leaf{level}": {"capacity": 50}, f"group{level}": {"capacity": 50, "children": queues}}
    names = ["last", *(f"leaf{level}" for level in range(1, 11))]
    done = run(queues, [job(name) for name in names], share, nodes=3)
    assert done.unfinished == 0
    assert done.counts["tasks_done"] == 4 * len(names)


def test_ten_thousand_leaves() -> None:
    queues: dict[str, Any] = {f"q{at}": {} for at in range(10_000)}
    done = run(queues, [job(f"q{at}", tasks=1) for at in range(0, 10_000, 50)], "hdrf", nodes=20)
    assert done.unfinished == 0


@pytest.mark.parametrize("share", SHARES)
def test_a_leaf_that_comes_and_goes_every_tick(share: str) -> None:
    brief = {**job("a", tasks=1), "count": 60, "gap_s": 0.2}
    brief["stages"] = [stage(1, 0.05)]
    queues = {"a": {"capacity": 50}, "b": {"capacity": 50}}
    frameworks = {"heartbeat_ms": 0}
    cluster = {"heartbeat_ms": 0}
    done = run(queues, [brief, job("b", tasks=120)], share, frameworks=frameworks, cluster=cluster)
    assert done.unfinished == 0
    assert done.counts["tasks_done"] == 180


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{count: -1, resources: {memory-mb: 1}}", "s.yaml:2: cluster.nodes.0.count: -1"),
        ("{count: 1, resources: {memory-mb: .nan}}", "s.yaml:2: cluster.nodes.0.resources.memory-mb: nan"),
        ("{count: 1, resources: {memory-mb: -5}}", "s.yaml:2: cluster.nodes.0.resources.memory-mb: -5"),
        ("{count: 1, resources: {memory-mb: .inf}}", "s.yaml:2: cluster.nodes.0.resources.memory-mb: inf"),
    ],
)
def test_numbers_that_are_none_are_reported_with_their_place(text: str, said: str) -> None:
    document = f"cluster:\n  nodes: [{text}]\nworkload: {{jobs: [{{stages: []}}]}}\n"
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_scenario("s.yaml", document)
