"""Records of jobs, tasks, nodes and queues: the same rows under every policy, and what they must add up to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle.config.settings import default_settings
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import (
    as_json,
    completion_s,
    job_records,
    node_records,
    path_ms,
    queue_records,
    summarise,
    task_records,
)
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Run, Simulation

SLOT = {"memory-mb": 1024, "vcores": 1}


def stage(tasks: int, seconds: float, *parents: int, **more: Any) -> dict[str, Any]:
    return {"tasks": tasks, "duration_s": seconds, "demand": SLOT, "parents": parents} | more


def simulated(jobs: list[dict[str, Any]], slots: int = 4, **more: Any) -> Run:
    amounts = {name: amount * slots // 2 for name, amount in SLOT.items()}
    cluster = {"nodes": [{"count": 2, "resources": amounts, "racks": 2}], "heartbeat_ms": 0}
    document = {"cluster": cluster, "workload": {"jobs": jobs}, "frameworks": {"heartbeat_ms": 0}}
    read = Scenario.model_validate(document | more)
    return Simulation(read, jobs_of(read, Path(), 1), default_settings(), 1).run()


def test_a_job_has_its_names_and_its_outcome() -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "a", "queue": "x", "user": "ann", "tags": ["t"], "stages": [stage(8, 10), stage(1, 5, 0)]},
        {"name": "b", "queue": "y", "arrival_s": 1, "framework": "mapreduce", "stages": [stage(2, 10)]},
        {"name": "c", "queue": "y", "arrival_s": 1e6, "stages": [stage(1, 1)]},
    ]
    run = simulated(jobs, queues={"x": {}, "y": {}}, duration_limit_s=100)
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
    run = simulated([{"stages": [stage(20, 10)]}, {"stages": []}], failures=failures)
    table = job_records(run)
    assert table["state"].tolist() == ["failed", "done"]
    assert len(completion_s(run)) == 1
    (document,) = as_json([summarise(run, "p", 1)])["runs"]
    assert document["job_records"]["state"] == ["failed", "done"]
    assert document["job_records"]["tags"] == [[], []]


def test_tasks_say_where_and_when_they_ran() -> None:
    run = simulated([{"stages": [stage(0, 1), stage(3, 10, 0), stage(2, 5, 1)]}, {"stages": [stage(5, 1)]}])
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
    run = simulated([{"stages": [stage(1, 1e4), stage(1, 1, 0)]}], duration_limit_s=100)
    table = task_records(run)
    assert table["state"].tolist() == ["running", "hidden"]
    assert table["start_ms"].tolist() == [0, -1]
    assert table["end_ms"].tolist() == [-1, -1]
    assert table["node"][1] == -1


def test_a_queue_has_a_row_a_window_with_the_share_that_is_plotted() -> None:
    queues = {"x": {"capacity": 75}, "y": {"capacity": 25}}
    jobs = [{"queue": name, "stages": [stage(40, 10)]} for name in ("x", "y")]
    run = simulated(jobs, queues=queues, report={"window_s": 10}, duration_limit_s=100)
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
    run = simulated([{"stages": [stage(2, 10), stage(2, 5, 0, one_to_one=[0]), stage(0, 9, 1), stage(1, 1, 2)]}])
    (job,) = run.built.workload.jobs
    assert path_ms(job.dag) == 16_000
