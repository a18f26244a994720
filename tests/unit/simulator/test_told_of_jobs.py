"""What a policy learns of simulated jobs: tags, users, priorities, and the time of the day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.config.reader import read_settings
from treadle.config.settings import default_settings
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Run, Simulation
from treadle.workload.formats import read_workload

SLOT = {"memory-mb": 1024, "vcores": 1}
STAGE = {"tasks": 2, "duration_s": 5, "demand": SLOT}
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


def scenario(jobs: list[dict[str, Any]], **more: Any) -> Scenario:
    cluster = {"nodes": [{"count": 1, "resources": SLOT}], "heartbeat_ms": 0}
    document = {"cluster": cluster, "workload": {"jobs": jobs}, "frameworks": {"heartbeat_ms": 0}}
    return Scenario.model_validate(document | more)


def simulated(read: Scenario, folder: Path) -> tuple[Run, list[Any]]:
    seen = folder / "seen.txt"
    (folder / "mine.py").write_text(PART.format(seen=str(seen)))
    policy = folder / "policy.yaml"
    policy.write_text("policy: {order: {kind: file, path: mine.py, class: Mine}}\n")
    run = Simulation(read, jobs_of(read, folder, 1), read_settings(policy), 1).run()
    return run, [eval(line) for line in seen.read_text().splitlines()]


def test_a_part_sees_the_tags_users_and_priorities_of_written_jobs(tmp_path: Path) -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "late", "stages": [STAGE], "user": "ann"},
        {"name": "soon", "stages": [STAGE], "user": "bob", "tags": ["urgent", "etl"], "priority": 7},
    ]
    run, seen = simulated(scenario(jobs), tmp_path)
    assert seen[0] == (1_000_000_000, [([], "ann", 0), (["etl", "urgent"], "bob", 7)])
    ends = dict(zip(("late", "soon"), run.built.state.apps["finish_ms"].tolist(), strict=True))
    assert ends["soon"] < ends["late"]


def test_fifo_goes_by_the_priority_of_applications(tmp_path: Path) -> None:
    jobs = [{"name": f"p{priority}", "stages": [STAGE], "priority": priority} for priority in (0, 5, 9)]
    read = scenario(jobs)
    run = Simulation(read, jobs_of(read, tmp_path, 1), default_settings(), 1).run()
    assert run.built.state.apps["finish_ms"].tolist() == sorted(run.built.state.apps["finish_ms"], reverse=True)


def test_the_clock_shows_when_a_scenario_starts(tmp_path: Path) -> None:
    _, seen = simulated(scenario([{"stages": [STAGE]}], start_s=1_800_000_000), tmp_path)
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


def scenario_of_generator(more: dict[str, Any]) -> Scenario:
    cluster = {"nodes": [{"count": 1, "resources": SLOT}]}
    return Scenario.model_validate({"cluster": cluster, "workload": {"generator": {"jobs": 60} | more}})


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
        scenario([{"stages": [STAGE], "priority": priority}])
