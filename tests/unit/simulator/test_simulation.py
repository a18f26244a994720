"""Whole simulations of a few jobs, whose times can be worked out by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from treadle.config.reader import parse_settings
from treadle.config.settings import default_settings
from treadle.dag.dag import Dag, Stage
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import Summary, completion_s, summarise
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Run, Simulation
from treadle.workload.job import Framework, Job, arranged

SLOT = {"memory-mb": 1024, "vcores": 1}
IDEAL = {"heartbeat_ms": 0, "launch_ms": 0}


def stage(tasks: int, seconds: float, *parents: int, **more: Any) -> dict[str, Any]:
    return {"tasks": tasks, "duration_s": seconds, "demand": SLOT, "parents": parents} | more


def scenario(jobs: list[dict[str, Any]], slots: int = 8, nodes: int = 2, **more: Any) -> Scenario:
    amounts = {name: amount * slots // nodes for name, amount in SLOT.items()}
    cluster = {"nodes": [{"count": nodes, "resources": amounts}], "heartbeat_ms": 0}
    frameworks = IDEAL | more.pop("frameworks", {})
    document = {"cluster": cluster, "workload": {"jobs": jobs}, "frameworks": frameworks}
    return Scenario.model_validate(document | {"decision": {"tick_ms": 1}} | more)


def simulated(read: Scenario, seed: int = 1) -> Run:
    return Simulation(read, jobs_of(read, Path(), seed), default_settings(), seed).run()


def summary(run: Run) -> Summary:
    return summarise(run, "capacity", 1)


def test_a_bag_of_tasks_runs_in_waves() -> None:
    run = simulated(scenario([{"stages": [stage(20, 10)]}]))
    assert summary(run).tasks == 20
    assert completion_s(run).tolist() == pytest.approx([30.0], abs=0.01)


def test_stages_wait_for_those_before_them() -> None:
    run = simulated(scenario([{"stages": [stage(4, 10), stage(4, 5, 0), stage(2, 1, 0, 1)]}]))
    assert completion_s(run).tolist() == pytest.approx([16.0], abs=0.01)


def test_one_to_one_tasks_wait_for_their_twin_alone() -> None:
    # Two slots: the twins of the first two tasks run before the last two of the first stage would have ended.
    jobs = [{"stages": [stage(2, 10), stage(2, 5, 0, one_to_one=[0])]}]
    run = simulated(scenario(jobs))
    assert completion_s(run).tolist() == pytest.approx([15.0], abs=0.01)


def test_early_reduces_hold_containers_until_the_maps_end() -> None:
    jobs = [{"framework": "mapreduce", "stages": [stage(12, 10), stage(2, 5, 0)]}]
    run = simulated(scenario(jobs, frameworks={"slow_start": 0.05}))
    # 8 slots: 8 maps, then the last 4 maps and the reduces together.
    assert completion_s(run).tolist() == pytest.approx([25.0], abs=1.1)
    assert summary(run).tasks == 14


def test_reduces_that_fill_the_cluster_give_way_to_failed_maps() -> None:
    jobs = [{"framework": "mapreduce", "stages": [stage(40, 10), stage(40, 5, 0)]}]
    run = simulated(scenario(jobs, failures={"task_probability": 0.2, "attempts_max": 100}), seed=3)
    result = summary(run)
    assert result.unfinished == 0
    assert result.tasks == 80
    assert result.tasks_failed > 0


def test_executors_run_several_tasks_and_grow() -> None:
    jobs = [{"framework": "spark", "stages": [stage(32, 10), stage(8, 1, 0)]}]
    frameworks = {"spark_tasks_per_executor": 4, "spark_initial_executors": 2, "spark_dynamic": False}
    run = simulated(scenario(jobs, frameworks=frameworks))
    assert summary(run).containers == 2
    assert completion_s(run).tolist() == pytest.approx([41.0], abs=0.1)
    grown = simulated(scenario(jobs, slots=64, frameworks=frameworks | {"spark_dynamic": True}))
    assert summary(grown).containers > 2
    assert completion_s(grown)[0] < 41.0


def test_an_executor_that_was_released_takes_no_task_before_its_node_reports_its_end() -> None:
    cluster = {"nodes": [{"count": 2, "resources": SLOT}], "heartbeat_ms": 1000}
    frameworks = {"spark_tasks_per_executor": 1, "spark_idle_ms": 5000}
    # The first executor is idle from 10.2 and released at 15.2; its node reports it at 16, and tasks come at 15.5.
    jobs = [{"framework": "spark", "stages": [stage(1, 10.2), stage(1, 15.5), stage(2, 10, 0, 1)]}]
    run = simulated(scenario(jobs, cluster=cluster, frameworks=frameworks))
    assert summary(run).containers == 3
    assert 25.5 < completion_s(run)[0] < 35.5


def test_an_application_master_comes_first_and_is_counted() -> None:
    frameworks = {"master": SLOT, "master_start_ms": 3000}
    run = simulated(scenario([{"stages": [stage(8, 10)]}], frameworks=frameworks))
    # One of 8 slots is the master's: two waves.
    assert completion_s(run).tolist() == pytest.approx([23.0], abs=0.01)


def test_the_limit_of_masters_holds_applications_back() -> None:
    queues = {"q": {"maximum_am_resource_percent": 1}}
    jobs = [{"stages": [stage(1, 10)], "count": 3}]
    run = simulated(scenario(jobs, frameworks={"master": SLOT}, queues=queues))
    assert completion_s(run).tolist() == pytest.approx([10.0, 20.0, 30.0], abs=0.05)


def test_heartbeats_delay_what_the_rm_hears() -> None:
    cluster = {"nodes": [{"count": 1, "resources": SLOT}], "heartbeat_ms": 1000}
    run = simulated(scenario([{"stages": [stage(2, 10.5)]}], cluster=cluster, frameworks={"tez_reuse": False}))
    # Began at 0, reported at 11: the second one ends at 21.5.
    assert completion_s(run).tolist() == pytest.approx([21.5], abs=0.01)


def test_a_decision_takes_the_time_that_it_costs() -> None:
    decision = {"tick_ms": 1, "cost_us": 2000, "cost_per_proposal_us": 500_000}
    run = simulated(scenario([{"stages": [stage(8, 10)]}], decision=decision))
    assert completion_s(run).tolist() == pytest.approx([14.002], abs=0.01)


def test_lost_nodes_come_back_and_their_tasks_run_again() -> None:
    failures = {"node_mtbf_s": 60, "node_repair_s": 10, "node_detection_s": 5}
    read = scenario([{"stages": [stage(100, 10)]}], failures=failures)
    result = summary(simulated(read))
    assert result.unfinished == 0
    assert result.tasks == 100
    assert result.tasks_lost > 0


def test_a_task_that_fails_too_often_fails_its_job() -> None:
    failures = {"task_probability": 0.99, "attempts_max": 2}
    result = summary(simulated(scenario([{"stages": [stage(20, 10)]}], failures=failures)))
    assert result.failed == 1
    assert result.unfinished == 0


def test_a_task_takes_longer_on_a_node_that_its_stage_does_not_prefer() -> None:
    nodes = [
        {"count": 1, "resources": SLOT, "attributes": {"zone": "a"}},
        {"count": 1, "resources": SLOT, "attributes": {"zone": "b"}},
    ]
    both = {"stages": [stage(2, 10, prefer="zone=a")]}
    cluster = {"nodes": nodes, "heartbeat_ms": 0, "relaxed_slowdown": 2.0}
    assert completion_s(simulated(scenario([both], cluster=cluster))).tolist() == pytest.approx([20.0], abs=0.01)
    cluster = {"nodes": nodes, "heartbeat_ms": 0}
    assert completion_s(simulated(scenario([both], cluster=cluster))).tolist() == pytest.approx([10.0], abs=0.01)


def test_stragglers_take_longer() -> None:
    stragglers = {"probability": 1.0, "factor_min": 3, "factor_max": 3}
    run = simulated(scenario([{"stages": [stage(8, 10)]}], stragglers=stragglers))
    assert completion_s(run).tolist() == pytest.approx([30.0], abs=0.01)


def test_queues_share_by_their_guarantees() -> None:
    queues = {"a": {"capacity": 75}, "b": {"capacity": 25}}
    jobs = [{"queue": name, "stages": [stage(400, 10)]} for name in ("a", "b")]
    run = simulated(scenario(jobs, queues=queues, report={"window_s": 10}, duration_limit_s=100))
    used = run.measurements.windows[0].used[:, 1]
    assert used.tolist() == pytest.approx([8, 6, 2], abs=0.1)
    assert run.measurements.windows[0].jain == pytest.approx(1.0, abs=0.01)
    assert run.measurements.windows[0].share_error == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize(
    ("jobs", "used", "done"),
    [
        # Of 8 slots for 500 s: 80 + 8 x 100; nothing happens any more after 400 s.
        ([{"stages": [stage(8, 10)]}, {"arrival_s": 400, "stages": [stage(8, 1000)]}], 0.22, 8),
        # 7 x 10 + 500; the one task that is left runs all the time.
        ([{"stages": [stage(7, 10), stage(1, 10_000)]}], 0.1425, 7),
        # Nothing has arrived.
        ([{"arrival_s": 600, "stages": [stage(8, 10)]}], 0.0, 0),
    ],
)
def test_what_runs_when_the_limit_cuts_a_run_off_counts_until_then(
    jobs: list[dict[str, Any]], used: float, done: int
) -> None:
    run = simulated(scenario(jobs, duration_limit_s=500))
    found = summary(run)
    assert (found.ended, found.tasks) == ("limit", done)
    assert list(found.utilisation.values()) == pytest.approx([used, used], abs=0.001)
    assert found.makespan_s == (500.0 if done else 0.0)
    windows = run.measurements.windows
    assert (windows[0].begin_ms, windows[-1].end_ms, run.end_ms) == (0, 500_000, 500_000)
    assert all(one.end_ms == other.begin_ms for one, other in pairwise(windows))


def test_a_task_that_ends_between_the_last_decision_and_the_limit_is_done() -> None:
    jobs = [{"stages": [stage(8, 10.5)]}]
    found = summary(simulated(scenario(jobs, decision={"tick_ms": 1000}, duration_limit_s=10.7)))
    assert (found.ended, found.tasks, found.unfinished) == ("done", 8, 0)
    assert found.makespan_s == pytest.approx(10.5)


def test_what_is_held_while_a_simulation_stalls_is_not_counted_as_use() -> None:
    """For an hour after the last end two of eight slots are held by masters, one of whose jobs asks for too much."""
    large = {"tasks": 1, "duration_s": 1, "demand": {"memory-mb": 1 << 30}, "parents": ()}
    jobs = [{"stages": [stage(7, 100)]}, {"stages": [large]}]
    found = summary(simulated(scenario(jobs, frameworks={"master": SLOT}, report={"window_s": 10})))
    assert found.ended == "stalled"
    assert found.makespan_s < 300
    assert all(0.5 < used <= 1.0 for used in found.utilisation.values()), found.utilisation


def test_an_ask_larger_than_any_node_ends_the_simulation() -> None:
    jobs = [{"stages": [{"tasks": 1, "duration_s": 1, "demand": {"memory-mb": 1 << 30}}]}]
    run = simulated(scenario(jobs))
    assert run.unfinished == 1


def test_a_job_without_tasks_ends_at_once() -> None:
    run = simulated(scenario([{"stages": []}, {"stages": [stage(0, 1), stage(1, 1, 0)]}]))
    assert completion_s(run).tolist() == pytest.approx([0.0, 1.0], abs=0.01)


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not() -> None:
    failures = {"task_probability": 0.1, "attempts_max": 100, "node_mtbf_s": 100, "node_repair_s": 5}
    read = scenario([{"stages": [stage(50, 10), stage(20, 5, 0)], "count": 5, "gap_s": 7}], failures=failures, nodes=4)
    runs = [simulated(read, seed) for seed in (1, 1, 2)]
    bytes_of = [run.built.state.apps.tobytes() + run.built.state.tasks.tobytes() for run in runs]
    assert bytes_of[0] == bytes_of[1]
    assert bytes_of[0] != bytes_of[2]
    assert [summary(run).jobs for run in runs] == [5, 5, 5]
    assert [run.unfinished for run in runs] == [0, 0, 0]


def test_tasks_run_where_their_input_is() -> None:
    read = scenario([{"stages": [stage(1, 1)]}], nodes=4, slots=16)
    there = tuple((f"node{at % 2}",) for at in range(8))
    dag = Dag("near", (Stage(0, 8, 5_000, SLOT),))
    job = Job("near", 0, dag, Framework.MAPREDUCE, hosts={0: there})
    simulation = Simulation(read, arranged([job]), default_settings(), 1)
    simulation.step(0)
    simulation.step(1)
    tasks = simulation.rm.state.tasks
    nodes = simulation.rm.state.containers["node"][tasks["container"]]
    assert nodes.tolist() == [at % 2 for at in range(8)]


def test_the_oracle_lets_short_jobs_come_first() -> None:
    jobs = [{"name": name, "stages": [stage(4, seconds)]} for name, seconds in (("long", 100), ("short", 1))]
    read = scenario(jobs, slots=1, nodes=1)
    policy = parse_settings("p.yaml", "policy: {order: {kind: srpt}, estimate: {kind: hints}}")
    workload = jobs_of(read, Path(), 1)
    done = completion_s(Simulation(read, workload, policy, 1).run())
    assert done.tolist() == pytest.approx([404.0, 4.0], abs=0.1)


@pytest.mark.parametrize("name", ["sls.json", "rumen.json", "synth.json", "eagle.tr", "swim.tsv", "tpch"])
def test_traces_of_every_kind_run_to_their_end(name: str) -> None:
    file = Path(__file__).parents[2] / "data" / "workload" / name
    amounts = {"memory-mb": 1 << 17, "vcores": 32, "gpu": 4}
    cluster = {
        "nodes": [{"count": 20, "resources": amounts, "racks": 4}],
        "resources": [{"name": each} for each in amounts],
    }
    document = {"cluster": cluster, "workload": {"file": str(file), "queues": {"*": "default"}, "jobs_max": 20}}
    read = Scenario.model_validate(document)
    workload = jobs_of(read, Path(), 1)
    run = Simulation(read, workload, default_settings(), 1, check=False).run()
    assert run.unfinished == 0
    assert summary(run).tasks == workload.tasks > 0
