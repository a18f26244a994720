"""Whole simulations of a few jobs, whose times can be worked out by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.files import written
from tests.support.optional import present
from tests.support.scenarios import SLOT, machines, scenario, simulated, simulation, stage

from treadle.config.reader import parse_settings, read_settings
from treadle.config.settings import default_settings
from treadle.dag import Dag, Stage
from treadle.errors import ConfigError, UserError
from treadle.events import Fate, Proposals
from treadle.simulator.cluster.tables import ContainerState
from treadle.simulator.measure import Ideal, InvariantError
from treadle.simulator.results import (
    Summary,
    as_json,
    completion_s,
    job_records,
    node_records,
    path_ms,
    queue_records,
    summarise,
    task_records,
)
from treadle.simulator.scenario import ScenarioModel, jobs_of, parse_scenario
from treadle.simulator.simulation import SimulatedRun, Simulation
from treadle.workload.formats import read_workload
from treadle.workload.job import Framework, Job, arranged


def summary(run: SimulatedRun) -> Summary:
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
    grown = simulated(scenario(jobs, machines(2, 32), frameworks=frameworks | {"spark_dynamic": True}))
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
    assert run.measurements.windows[0].share_deviation == pytest.approx(0.0, abs=0.01)


def test_ideal_shares_follow_a_tree_whose_leaves_lie_at_different_depths() -> None:
    below = {"children": {"x": {"capacity": 75}, "y": {"capacity": 25}}}
    queues = {"a": {"capacity": 60} | below, "b": {"capacity": 30}, "c": {"capacity": 10} | below}
    built = simulation(scenario([{"queue": "b", "stages": [stage(1, 1)]}], queues=queues)).built
    assert [built.tree.paths[leaf] for leaf in built.tree.leaves] == [
        "root.b",
        "root.a.x",
        "root.a.y",
        "root.c.x",
        "root.c.y",
    ]
    everything = np.tile(built.total, (len(built.tree.paths), 1))
    assert present(Ideal(built).shares(everything)).tolist() == pytest.approx([0.3, 0.45, 0.15, 0.075, 0.025])
    everything[built.tree.leaves[1]] = 0
    assert present(Ideal(built).shares(everything)).tolist() == pytest.approx([0.3, 0.0, 0.6, 0.075, 0.025])


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
    read = scenario(
        [{"stages": [stage(50, 10), stage(20, 5, 0)], "count": 5, "gap_s": 7}], machines(4, 2), failures=failures
    )
    runs = [simulated(read, seed=seed) for seed in (1, 1, 2)]
    bytes_of = [run.built.state.apps.tobytes() + run.built.state.tasks.tobytes() for run in runs]
    assert bytes_of[0] == bytes_of[1]
    assert bytes_of[0] != bytes_of[2]
    assert [summary(run).jobs for run in runs] == [5, 5, 5]
    assert [run.unfinished for run in runs] == [0, 0, 0]


def test_tasks_run_where_their_input_is() -> None:
    read = scenario([{"stages": [stage(1, 1)]}], machines(4, 4))
    there = tuple((f"node{at % 2}",) for at in range(8))
    dag = Dag("near", (Stage(0, 8, 5_000, SLOT),))
    job = Job("near", 0, dag, Framework.MAPREDUCE, hosts={0: there})
    made = Simulation(read, arranged([job]), default_settings(), 1)
    made.step(0)
    made.step(1)
    tasks = made.rm.state.tasks
    nodes = made.rm.state.containers["node"][tasks["container"]]
    assert nodes.tolist() == [at % 2 for at in range(8)]


def test_the_oracle_lets_short_jobs_come_first() -> None:
    jobs = [{"name": name, "stages": [stage(4, seconds)]} for name, seconds in (("long", 100), ("short", 1))]
    read = scenario(jobs, machines(1, 1))
    policy = parse_settings("p.yaml", "policy: {order: {kind: srpt}, estimate: {kind: hints}}")
    assert completion_s(simulated(read, policy)).tolist() == pytest.approx([404.0, 4.0], abs=0.1)


@pytest.mark.parametrize("name", ["sls.json", "rumen.json", "synth.json", "swim.tsv", "tpch"])
def test_traces_of_every_kind_run_to_their_end(name: str) -> None:
    file = Path(__file__).parents[2] / "data" / "workload" / name
    amounts = {"memory-mb": 1 << 17, "vcores": 32, "gpu": 4}
    cluster = {
        "nodes": [{"count": 20, "resources": amounts, "racks": 4}],
        "resources": [{"name": each} for each in amounts],
    }
    document = {"cluster": cluster, "workload": {"file": str(file), "queues": {"*": "default"}, "jobs_max": 20}}
    read = ScenarioModel.model_validate(document)
    workload = jobs_of(read, Path(), 1)
    run = Simulation(read, workload, default_settings(), 1, check=False).run()
    assert run.unfinished == 0
    assert summary(run).tasks == workload.tasks > 0


# Records of jobs, tasks, nodes and queues: the same rows under every policy, and what they must add up to.

TWO_RACKS = machines(2, 2, racks=2)


def test_a_job_has_its_names_and_its_outcome() -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "a", "queue": "x", "user": "ann", "tags": ["t"], "stages": [stage(8, 10), stage(1, 5, 0)]},
        {"name": "b", "queue": "y", "arrival_s": 1, "framework": "mapreduce", "stages": [stage(2, 10)]},
        {"name": "c", "queue": "y", "arrival_s": 1e6, "stages": [stage(1, 1)]},
    ]
    run = simulated(scenario(jobs, TWO_RACKS, queues={"x": {}, "y": {}}, duration_limit_s=100))
    table = job_records(run)
    assert table["id"].tolist() == ["a", "b", "c"]
    assert table["queue"].tolist() == ["x", "y", "y"]
    assert table["user"].tolist() == ["ann", "user", "user"]
    assert table["type"].tolist() == ["tez", "mapreduce", "tez"]
    assert table["tags"].tolist() == [("t",), (), ()]
    assert table["state"].tolist() == ["done", "done", "ahead"]
    assert table["tasks"].tolist() == [9, 2, 1]
    assert table["tasks_done"].tolist() == [9, 2, 0]
    assert table["work_ms"].tolist() == [85_000, 20_000, 1000]
    assert table["ran_ms"].tolist() == [85_000, 20_000, 0]
    assert table["containers"].sum() == run.counts["containers"]
    assert table["ideal_ms"].tolist() == [85_000 // 4, 10_000, 1000]
    done = table[table["state"] == "done"]
    assert ((done["end_ms"] - done["arrival_ms"]) / 1000).tolist() == completion_s(run).tolist()
    assert (done["arrival_ms"] <= done["start_ms"]).all()
    assert (table["start_ms"][2], table["end_ms"][2]) == (-1, -1)


def test_a_failed_job_has_its_row_so_that_runs_can_be_paired() -> None:
    failures = {"task_probability": 0.99, "attempts_max": 2}
    run = simulated(scenario([{"stages": [stage(20, 10)]}, {"stages": []}], TWO_RACKS, failures=failures))
    table = job_records(run)
    assert table["state"].tolist() == ["failed", "done"]
    assert len(completion_s(run)) == 1
    (document,) = as_json([summarise(run, "p", 1)])["runs"]
    assert document["job_records"]["state"] == ["failed", "done"]
    assert document["job_records"]["tags"] == [[], []]


def test_tasks_say_where_and_when_they_ran() -> None:
    jobs_in_order = [{"stages": [stage(0, 1), stage(3, 10, 0), stage(2, 5, 1)]}, {"stages": [stage(5, 1)]}]
    run = simulated(scenario(jobs_in_order, TWO_RACKS))
    table = task_records(run)
    assert table["job"].tolist() == [0] * 5 + [1] * 5
    assert table["stage"].tolist() == [1, 1, 1, 2, 2] + [0] * 5
    assert table["index"].tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 3, 4]
    assert (table["end_ms"] - table["start_ms"]).tolist() == table["duration_ms"].tolist()
    assert set(table["state"]) == {"done"}
    jobs, nodes = job_records(run), node_records(run)
    for at, job in enumerate(jobs):
        assert table["end_ms"][table["job"] == at].max() == job["end_ms"]
        assert table["start_ms"][table["job"] == at].min() == job["start_ms"]
    assert nodes["tasks_done"].tolist() == np.bincount(table["node"], minlength=2).tolist()
    assert nodes["ran_ms"].sum() == jobs["ran_ms"].sum()
    assert nodes["rack"].tolist() == ["/rack0", "/rack1"]


def test_a_task_that_never_ran_has_no_times() -> None:
    run = simulated(scenario([{"stages": [stage(1, 1e4), stage(1, 1, 0)]}], TWO_RACKS, duration_limit_s=100))
    table = task_records(run)
    assert table["state"].tolist() == ["running", "hidden"]
    assert table["start_ms"].tolist() == [0, -1]
    assert table["end_ms"].tolist() == [-1, -1]
    assert table["node"][1] == -1


def test_a_queue_has_a_row_a_window_with_the_share_that_is_plotted() -> None:
    queues = {"x": {"capacity": 75}, "y": {"capacity": 25}}
    jobs = [{"queue": name, "stages": [stage(40, 10)]} for name in ("x", "y")]
    run = simulated(scenario(jobs, TWO_RACKS, queues=queues, report={"window_s": 10}, duration_limit_s=100))
    table = queue_records(run)
    assert table["queue"][:3].tolist() == ["root", "x", "y"]
    assert table["leaf"][:3].tolist() == [False, True, True]
    assert table["share"][:3].tolist() == pytest.approx([1, 0.75, 0.25], abs=0.05)
    assert table["guaranteed"][:3].tolist() == [1, 0.75, 0.25]
    assert table["used vcores"][:3].tolist() == pytest.approx([4, 3, 1], abs=0.1)
    (document,) = as_json([summarise(run, "p", 1)])["runs"]
    assert document["leaf_shares"]["x"] == table["share"][table["queue"] == "x"].tolist()
    assert len(document["leaf_shares"]["x"]) == len(document["windows"])
    assert document["total"] == {"memory-mb": 4096, "vcores": 4}


def test_the_longest_way_through_a_dag() -> None:
    stages = [stage(2, 10), stage(2, 5, 0, one_to_one=[0]), stage(0, 9, 1), stage(1, 1, 2)]
    run = simulated(scenario([{"stages": stages}], TWO_RACKS))
    (job,) = run.built.workload.jobs
    assert path_ms(job.dag) == 16_000


# What a policy learns of simulated jobs: tags, users, priorities, and the time of the day.

STAGE = stage(2, 5)
DATA = Path(__file__).parents[2] / "data" / "workload"
PART = """
class Mine:
    def keys(self, view):
        import numpy as np
        rows = [n for n, row in enumerate(view.applications) if row["id"] > 0]
        told = [
            (view.tags(n), view.text(view.applications["user"][n]), int(view.applications["priority"][n])) for n in rows
        ]
        with open({seen!r}, "a") as stream:
            stream.write(repr((view.now_ms, told)) + chr(10))
        return np.array([-1.0 if "urgent" in view.tags(n) else 0.0 for n in range(len(view.applications))])
"""


ONE_SLOT = machines(1, 1)


def seen_by_a_part(read: ScenarioModel, folder: Path) -> tuple[SimulatedRun, list[Any]]:
    seen = folder / "seen.txt"
    (folder / "mine.py").write_text(PART.format(seen=str(seen)))
    policy = written(folder / "policy.yaml", "policy: {order: {kind: file, path: mine.py, class: Mine}}\n")
    run = simulated(read, read_settings(policy), folder=folder)
    return run, [eval(line) for line in seen.read_text().splitlines()]


def test_a_part_sees_the_tags_users_and_priorities_of_written_jobs(tmp_path: Path) -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "late", "stages": [STAGE], "user": "ann"},
        {"name": "soon", "stages": [STAGE], "user": "bob", "tags": ["urgent", "etl"], "priority": 7},
    ]
    run, seen = seen_by_a_part(scenario(jobs, ONE_SLOT), tmp_path)
    assert seen[0] == (1_000_000_000, [([], "ann", 0), (["etl", "urgent"], "bob", 7)])
    ends = dict(zip(("late", "soon"), run.built.state.apps["finish_ms"].tolist(), strict=True))
    assert ends["soon"] < ends["late"]


def test_fifo_goes_by_the_priority_of_applications() -> None:
    jobs = [{"name": f"p{priority}", "stages": [STAGE], "priority": priority} for priority in (0, 5, 9)]
    run = simulated(scenario(jobs, ONE_SLOT))
    assert run.built.state.apps["finish_ms"].tolist() == sorted(run.built.state.apps["finish_ms"], reverse=True)


def test_the_clock_shows_when_a_scenario_starts(tmp_path: Path) -> None:
    _, seen = seen_by_a_part(scenario([{"stages": [STAGE]}], ONE_SLOT, start_s=1_800_000_000), tmp_path)
    assert seen[0][0] == 1_800_000_000_000


def test_a_generator_gives_tags_and_priorities_by_weight_and_changes_nothing_else() -> None:
    drawn = [
        jobs_of(scenario_of_generator(more), Path(), 3).jobs
        for more in ({}, {"tags": {"urgent": 1, "": 3}, "priorities": {0: 1, 4: 1}})
    ]
    plain, marked = drawn
    assert {job.tags for job in plain} == {()}
    assert {job.priority for job in plain} == {0}
    assert {job.tags for job in marked} == {(), ("urgent",)}
    assert {job.priority for job in marked} == {0, 4}
    assert [(job.arrival_ms, job.dag.tasks, job.user) for job in plain] == [
        (job.arrival_ms, job.dag.tasks, job.user) for job in marked
    ]


def scenario_of_generator(more: dict[str, Any]) -> ScenarioModel:
    return scenario([], workload={"generator": {"jobs": 60} | more})


def test_readers_take_priorities_and_tags_where_a_trace_has_them(tmp_path: Path) -> None:
    google = read_workload(DATA / "google")
    assert all(f"priority:{job.priority}" in job.tags for job in google.jobs)
    assert {job.priority for job in google.jobs} != {0}
    trace = tmp_path / "rumen.json"
    trace.write_text(
        '{"jobID": "j", "submitTime": 0, "priority": "HIGH", "jobProperties": {"mapreduce.job.tags": "a, b"},'
        ' "mapTasks": [{"attempts": [{"result": "SUCCESS", "startTime": 0, "finishTime": 9}]}]}'
    )
    (job,) = read_workload(trace).jobs
    assert (job.priority, job.tags) == (4, ("a", "b"))


@pytest.mark.parametrize("priority", [-1, 2**31])
def test_a_priority_is_bounded(priority: int) -> None:
    with pytest.raises(ValueError, match="priority"):
        scenario([{"stages": [STAGE], "priority": priority}], ONE_SLOT)


# Scenarios with nodes that differ and stages that need some of them.

ZONES = (
    machines(2, 4, attributes={"zone": "a"}),
    machines(1, 4, attributes={"zone": "b", "nm.yarn.io/gpu": "yes"}, name="special"),
)


def job(*stages: dict[str, Any], framework: str = "tez", **sections: Any) -> ScenarioModel:
    """Return one job, on two nodes of zone a and one of zone b with a GPU, four slots each."""
    return scenario([{"stages": stages, "framework": framework}], *ZONES, **sections)


def lasts_s(read: ScenarioModel) -> float:
    return float(completion_s(simulated(read))[0])


def test_tasks_go_only_where_they_may() -> None:
    assert lasts_s(job(stage(12, 10))) == pytest.approx(10.0, abs=0.01)
    assert lasts_s(job(stage(12, 10, require="zone=b"))) == pytest.approx(30.0, abs=0.02)
    assert lasts_s(job(stage(12, 10, require="zone=a;gpu!=yes"))) == pytest.approx(20.0, abs=0.02)
    assert lasts_s(job(stage(12, 10, prefer="zone=b"))) == pytest.approx(10.0, abs=0.01)
    assert lasts_s(job(stage(12, 10, require="host=special2"), framework="mapreduce")) == pytest.approx(30.0, abs=0.02)


def test_a_container_is_used_again_only_for_tasks_that_may_be_where_it_is() -> None:
    # The second stage may not use what the first one leaves.
    read = job(stage(8, 10, require="zone=a"), stage(8, 10, 0, require="zone=b"))
    assert lasts_s(read) == pytest.approx(30.0, abs=0.02)


def tagged(*tags: str, **more: Any) -> ScenarioModel:
    """Return the scenario with a job whose tags say what its nodes must be."""
    return scenario([{"stages": [stage(12, 10, **more)], "tags": tags}], *ZONES)


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
    "read", [job(stage(12, 10, require="zone=b")), tagged("treadle:require=zone=b")], ids=["stage", "tag"]
)
def test_the_simulated_resource_manager_refuses_a_violation(read: ScenarioModel) -> None:
    made = simulation(read)
    made.rm.advance(0)
    column = np.zeros(1, np.int32)
    assert made.rm.commit(Proposals(column, column, column), 0).fate.tolist() == [int(Fate.CONSTRAINT)]
    assert made.rm.commit(Proposals(column, column, column + 2), 0).fate.tolist() == [int(Fate.COMMITTED)]


def test_the_invariants_find_a_container_where_it_must_not_be() -> None:
    made = simulation(job(stage(12, 10, require="zone=b")))
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
    one = job(stage(8, 10, require="zone=b"), framework="spark", frameworks={"spark_tasks_per_executor": 1})
    assert lasts_s(one) >= 20.0
    with pytest.raises(UserError, match="write the same for each"):
        simulation(job(stage(8, 10, require="zone=b"), stage(8, 10, 0), framework="spark"))
