"""Tasks that want more of a resource than their node has slow each other down."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.scenarios import simulated, simulation

from treadle.errors import UserError
from treadle.simulator.results import completion_s
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import SimulatedRun

NAMES = ("memory", "network")


def stage(tasks: int, seconds: float, memory: float, network: float, *parents: int) -> dict[str, Any]:
    demand = {"memory": memory, "network": network}
    return {"tasks": tasks, "duration_s": seconds, "demand": demand, "parents": parents}


def run(
    *jobs: list[dict[str, Any]],
    nodes: int = 1,
    contention: bool = True,
    counted: bool = False,
    usage: tuple[float, float] = (1.0, 1.0),
    thrashing: float = 1.0,
    **more: Any,
) -> SimulatedRun:
    """Run jobs that come one second after the other on nodes of 10 memory and 10 network."""
    network = {"name": "network", "counted": counted, "usage": usage, "thrashing": thrashing}
    resources = [{"name": "memory"}, network]
    machines = [{"count": nodes, "resources": dict.fromkeys(NAMES, 10)}]
    read = ScenarioModel.model_validate(
        {
            "cluster": {"resources": resources, "nodes": machines, "heartbeat_ms": 0, "contention": contention},
            "workload": {"jobs": [{"stages": stages, "arrival_s": at} for at, stages in enumerate(jobs)]},
            "frameworks": {"heartbeat_ms": 0, "launch_ms": 0, "tez_min_fraction": 1.0, "tez_max_fraction": 1.0}
            | more.pop("frameworks", {}),
            "decision": {"tick_ms": 1},
        }
        | more
    )
    return simulated(read)


def seconds(*jobs: list[dict[str, Any]], **given: Any) -> list[float]:
    return [round(each, 2) for each in completion_s(run(*jobs, **given)).tolist()]


def test_tasks_that_want_twice_what_there_is_take_twice_as_long() -> None:
    assert seconds([stage(2, 10, 2, 10)]) == [20.0]


def test_without_contention_or_when_all_is_counted_they_do_not() -> None:
    assert seconds([stage(2, 10, 2, 10)], contention=False) == [10.0]
    assert seconds([stage(2, 10, 2, 10)], counted=True) == [20.0]  # one after the other


def test_tasks_that_want_none_of_it_are_not_slowed() -> None:
    assert seconds([stage(2, 10, 2, 10), stage(1, 10, 2, 0)]) == [20.0]
    assert seconds([stage(1, 10, 2, 0)], [stage(2, 10, 2, 10)]) == [10.0, 20.0]


def test_what_is_left_goes_on_faster_once_another_ends() -> None:
    # Alone for 1 s, both at half the speed until the second has done its 3 s at 7 s, then 6 s are left of the first.
    assert seconds([stage(1, 10, 2, 10)], [stage(1, 3, 2, 10)]) == [13.0, 6.0]


def test_a_stage_behind_another_begins_when_the_slowed_one_ends() -> None:
    assert seconds([stage(3, 4, 2, 5), stage(1, 5, 1, 1, 0)]) == [11.0]


def test_a_task_is_not_slowed_before_another_is_launched() -> None:
    # The second container is there from 1 s on, its task begins at 4 s; 8 s of the first task are left then.
    assert seconds([stage(1, 10, 2, 10)], [stage(1, 2, 2, 10)], frameworks={"launch_ms": 3000}) == [15.0, 7.0]


def test_nodes_that_fail_lose_slowed_tasks_and_all_ends_well() -> None:
    failures = {"node_mtbf_s": 8, "node_repair_s": 5, "node_detection_s": 2, "task_probability": 0.1}
    found = run([stage(30, 3, 1, 4), stage(5, 2, 3, 6, 0)], nodes=3, failures=failures | {"attempts_max": 100})
    assert found.unfinished == 0
    assert found.counts["tasks_lost"] > 0
    assert found.counts["tasks_failed"] > 0


def test_containers_used_again_are_slowed_as_well() -> None:
    assert seconds([stage(8, 5, 5, 10)], frameworks={"tez_reuse": True}) == [40.0]


def test_nothing_changes_where_there_is_enough() -> None:
    jobs = ([stage(20, 2, 2, 1), stage(7, 3, 4, 2, 0)], [stage(9, 1, 1, 1)], [stage(30, 1, 3, 3)])
    given: dict[str, Any] = {"nodes": 3, "counted": True}
    assert seconds(*jobs, **given) == seconds(*jobs, contention=False, **given)


def test_spark_jobs_are_refused() -> None:
    document = {
        "cluster": {"nodes": [{"count": 1, "resources": {"memory-mb": 10, "vcores": 1}}], "contention": True},
        "workload": {"jobs": [{"framework": "spark", "stages": [{"tasks": 1, "duration_s": 1}]}]},
    }
    read = ScenarioModel.model_validate(document)
    with pytest.raises(UserError, match="Spark jobs"):
        simulation(read)


@pytest.mark.parametrize(("usage", "took"), [(0.5, 10.0), (0.6, 12.0), (1.0, 20.0)])
def test_tasks_that_use_less_than_they_ask_for_leave_it_to_others(usage: float, took: float) -> None:
    assert seconds([stage(2, 10, 2, 10)], usage=(usage, usage)) == [took]


def test_each_stage_draws_its_usage_and_any_policy_meets_the_same() -> None:
    stages = [stage(2, 10, 2, 10, *([at - 1] if at else [])) for at in range(6)]
    found = run(stages, usage=(0.5, 1.0)).built.state.usage
    drawn = found[:, 1].tolist()
    assert all(0.5 <= each <= 1.0 for each in drawn)
    assert len(set(drawn)) >= 6
    assert found[:, 0].tolist() == [1.0] * len(drawn), "memory is used as asked for"
    again = run(stages, usage=(0.5, 1.0), frameworks={"tez_order": "critical_path"}).built.state.usage
    assert again.tolist() == found.tolist()


@pytest.mark.parametrize(("thrashing", "took"), [(1.0, 20.0), (2.0, 40.0), (3.0, 80.0)])
def test_where_they_thrash_twice_the_demand_costs_a_power_of_two(thrashing: float, took: float) -> None:
    assert seconds([stage(2, 10, 2, 10)], thrashing=thrashing) == [took]
    assert seconds([stage(2, 10, 2, 5)], thrashing=thrashing) == [10.0], "nothing is short"


def test_thrashing_that_nothing_would_heed_is_refused() -> None:
    with pytest.raises(UserError, match=r"network has thrashing.*set cluster.contention: true"):
        run([stage(1, 1, 1, 1)], contention=False, thrashing=2.0)


def test_a_usage_that_nothing_would_heed_is_refused() -> None:
    with pytest.raises(UserError, match=r"network has a usage.*set cluster.contention: true"):
        run([stage(1, 1, 1, 1)], contention=False, usage=(0.5, 0.7))


@pytest.mark.parametrize("usage", [(0.7, 0.5), (0.0, 0.5), (0.5, 1.5)])
def test_a_usage_must_be_two_parts(usage: tuple[float, float]) -> None:
    with pytest.raises(ValidationError, match=r"usage"):
        run([stage(1, 1, 1, 1)], usage=usage)
