"""The testbed on Hadoop's load simulator: what is played, on what, and what is made of its measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from treadle.dag import Dag, Stage
from treadle.errors import UserError
from treadle_lab.sls.play import (
    UNKNOWN,
    Cluster,
    Draw,
    KeptPlays,
    Pace,
    Played,
    PlayedJob,
    Scheduling,
    Script,
    ScriptedJob,
    ScriptedLoad,
    TaskStage,
    facts_of,
    map_reduce,
    pace_of,
    pace_table,
    played,
    stages_of,
)
from treadle_lab.sls.run import Kind

TASK = {"memory-mb": 1024, "vcores": 1}
JOB = ScriptedJob("a", 5, map_reduce([10, 20], TASK, [30]), master_mb=256, requires={"zone": "special"})
COLUMNS = ["name", "submitted_ms", "first_container_ms", "ended_ms", "containers", "misplaced", "planned", "tasks_ms"]


def test_a_script_is_written_as_the_simulated_masters_read_it(tmp_path: Path) -> None:
    script = Script((JOB, replace(JOB, name="b", requires={})), {Cluster(4, 5_120, 8).host(0): {"zone": "special"}})
    ScriptedLoad(4, 2, 1, 1, script=script).write(tmp_path)
    written = json.loads((tmp_path / "script.json").read_text())
    assert written["attributes"] == {"127.1.0.0": {"zone": "special"}}
    first, second = written["jobs"]
    assert first["tags"] == ["treadle:require=zone=special"]
    assert second["tags"] == []
    assert (first["at_ms"], first["until_ms"]) == (5, 0)
    assert [(stage["priority"], stage["after"]) for stage in first["stages"]] == [(20, []), (10, [0])]
    assert first["stages"][0] == {
        "name": "",
        "priority": 20,
        "resources": TASK,
        "durations_ms": [10, 20],
        "after": [],
    }
    trace = json.loads((tmp_path / "workload.json").read_text())
    assert trace["num_jobs"] == 2
    assert [each["queue_name"] for each in trace["workloads"]] == ["default"]
    assert "127.1.0.3" in (tmp_path / "nodes.json").read_text()


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (replace(JOB, stages=()), "there must be a stage"),
        (replace(JOB, stages=(TaskStage(20, TASK, ()),)), "stage 0 needs tasks"),
        (replace(JOB, stages=(TaskStage(20, TASK, (1,), (1,)),)), "these must come before it"),
        (replace(JOB, stages=(*JOB.stages, TaskStage(20, {"vcores": 2}, (1,)))), "priority 20 ask for different"),
    ],
)
def test_what_cannot_be_played_is_refused(job: ScriptedJob, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Script((job,))


def test_names_tell_jobs_apart() -> None:
    with pytest.raises(UserError, match="no two of one name"):
        Script((JOB, JOB))


def test_a_dag_asks_as_tez_does_or_in_a_given_order() -> None:
    def stage(id_: int, *parents: int) -> Stage:
        return Stage(id_, 2, 1_000, {"memory-mb": 512.0 + id_}, parents)

    dag = Dag("d", (stage(0), stage(1), stage(2, 0), stage(3, 1, 2)))
    own = stages_of(dag)
    assert [each.priority for each in own] == [11, 14, 29, 44], "farther from the roots later, each its own band"
    assert [each.after for each in own] == [(), (), (0,), (1, 2)]
    assert own[3].resources == {"memory-mb": 515}
    assert own[3].name == "v3"
    ordered = stages_of(dag, [1, 0, 2, 3])
    assert [each.priority for each in ordered] == [5, 2, 8, 11]
    assert ordered[0].durations_ms == (1_000, 1_000)


def test_a_scheduler_is_stock_or_treadle_with_its_own_file(tmp_path: Path) -> None:
    cluster = Cluster(4, 5_120, 8, heartbeat_ms=100)
    fair = Scheduling("fair", ordering="fair").mode(cluster, tmp_path / "none.yaml")
    assert fair.kind is Kind.STOCK
    assert fair.capacity_settings["yarn.scheduler.capacity.root.default.ordering-policy"] == "fair"
    assert fair.yarn_settings["yarn.sls.nm.heartbeat.interval.ms"] == "100"
    assert not (tmp_path / "none.yaml").exists()
    file = tmp_path / "x" / "ours.yaml"
    ours = Scheduling("ours", "policy: {order: {kind: fifo}}\n", settings={"a": "b"}).mode(cluster, file)
    assert ours.kind is Kind.TREADLE
    assert ours.yarn_settings["yarn.scheduler.treadle.config.file"] == str(file)
    assert ours.yarn_settings["a"] == "b"
    assert file.read_text().startswith("policy")
    watched = Scheduling("watched", "policy: {order: {kind: fifo}}\n", observed=True).mode(cluster, file)
    assert watched.yarn_settings["yarn.scheduler.treadle.mode"] == "observe_only"
    assert watched.yarn_settings["yarn.scheduler.treadle.config.file"] == str(file)
    assert fair.capacity_settings.items() - watched.capacity_settings.items() == {
        ("yarn.scheduler.capacity.root.default.ordering-policy", "fair")
    }


def test_nodes_have_further_resources() -> None:
    settings = Cluster(4, 5_120, 8, resources={"network": 100}).settings
    assert settings["yarn.resource-types"] == "network"
    assert settings["yarn.sls.nm.network"] == "100"
    assert "yarn.resource-types" not in Cluster(4, 5_120, 8).settings


def test_a_job_of_which_nothing_is_known_did_not_succeed() -> None:
    script = Script((JOB, replace(JOB, name="b"), replace(JOB, name="c")))
    rows = [["b", 100, 150, 900, 3, 1, True, [[50, 700]]], ["a", 200, 210, 1_100, 3, 0, False, []]]
    seen = {"job_columns": COLUMNS, "jobs": rows}
    found = played(script, seen | {"shim": {"PlacedByCapacityScheduler": 2}})
    assert [(job.name, job.status, job.completion_ms) for job in found.jobs] == [
        ("a", "SUCCEEDED", 900),
        ("b", "SUCCEEDED", 800),
        ("c", UNKNOWN, 0),
    ]
    assert found.jobs[1].misplaced == 1
    assert [job.planned for job in found.jobs] == [False, True, False]
    assert [job.submitted_ms for job in found.jobs] == [100, 0, 0]
    assert found.jobs[1].tasks_ms == ((50, 700),)
    assert found.span_ms == 1_000
    assert found.placed_by_capacity_scheduler == 2


def measured(*, submitted_ms: tuple[int, int], beats: int, shim: dict[str, int] | None = None) -> dict[str, Any]:
    rows = [
        [name, at, at, at + 900, 3, 0, False, [[5, 35], [5, 65], [40, -1]]]
        for name, at in zip("ab", submitted_ms, strict=True)
    ]
    return {
        "job_columns": COLUMNS,
        "jobs": rows,
        "commits": {"first_ms": 1_000.0},
        "completions": {"last_ms": 3_000.0},
        "heartbeats": {"bucket_ms": 100, "counts": [99] * 10 + [beats] * 20},
        "shim": shim,
    }


def test_pace_says_whether_the_machine_kept_up() -> None:
    """Four nodes every 100 ms: 80 heartbeats in two seconds; jobs `a` at 5 ms and `b` at 605 ms."""
    script = Script((JOB, replace(JOB, name="b", at_ms=605)))
    cluster = Cluster(4, 5_120, 8, heartbeat_ms=100)
    good = pace_of(script, cluster, measured(submitted_ms=(70, 690), beats=4))
    assert (good.heartbeats_share, good.late_ms, good.decide_p99_ms) == (1.0, 20.0, None)
    assert good.held_over_work == pytest.approx(2 * (30 + 60) / (2 * 60))
    assert good.kept_up
    runs = {"run": Played((), 0, {}, good), "none": Played((), 0, {})}
    assert facts_of([Draw(1, runs)])["shortfalls"] == []
    assert [row[:5] for row in pace_table([Draw(1, runs)]).rows] == [("1", "run", "100.0", "20", "1.50")]
    slow = pace_of(
        script, cluster, measured(submitted_ms=(70, 690), beats=3, shim={"DecideP50Us": 900, "DecideP99Us": 4_000})
    )
    assert (slow.heartbeats_share, slow.decide_p50_ms, slow.decide_p99_ms) == (0.75, 0.9, 4.0)
    late = pace_of(script, cluster, measured(submitted_ms=(70, 1_771), beats=4))
    assert (late.late_ms, late.kept_up) == (1_101.0, False)
    runs = {name: Played((), 0, {}, pace) for name, pace in (("slow", slow), ("late", late), ("good", good))}
    said = facts_of([Draw(1, runs)])["shortfalls"]
    assert [text.partition(":")[0] for text in said] == ["seed 1, slow", "seed 1, late"]
    assert all("did NOT keep up" in text for text in said)


def test_queues_may_be_a_tree(tmp_path: Path) -> None:
    tree = {"yarn.scheduler.capacity.root.queues": "left"}
    cluster = Cluster(4, 5_120, 8, tree=tree)
    assert "yarn.scheduler.capacity.root.default.capacity" not in cluster.queues("fifo")
    assert cluster.queues("fifo").items() >= tree.items()
    load = ScriptedLoad(4, 1, 1, 1, script=Script((replace(JOB, queue="left"),)))
    assert [each["queue_name"] for each in load.trace()["workloads"]] == ["left"]


# Runs that are kept.

GRAPHENE, SLEARN = "treadle_lab.papers.graphene.experiment", "treadle_lab.harness.data"


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    monkeypatch.setattr("treadle_lab.sls.run.own_jars", lambda: [jar])
    monkeypatch.setattr("treadle_lab.sls.play.digest", lambda module: f"the code of {module}")  # takes seconds
    return jar


def one_play(status: str = "SUCCEEDED") -> Played:
    job = PlayedJob("a", status, 900, 3, planned=True, submitted_ms=7, tasks_ms=((50, 900), (60, -1)))
    return Played((job,), 1_000, {"PlacedByCapacityScheduler": 2}, Pace(0.99, 12.0, 1_000.0, 1.1, 0.4, 2.0))


def never() -> Played:
    pytest.fail("a run that is kept was run again")


def test_a_run_is_kept_by_what_it_depends_on(tmp_path: Path, jar: Path) -> None:
    kept = KeptPlays(tmp_path / "kept", GRAPHENE)
    assert kept.get_or_play(one_play, "bfs", 1) == one_play()
    assert kept.get_or_play(never, "bfs", 1) == one_play()
    other = Played((), 7, {})
    assert kept.get_or_play(lambda: other, "bfs", 2) == other
    assert KeptPlays(tmp_path / "kept", SLEARN).get_or_play(lambda: other, "bfs", 1) == other
    assert KeptPlays(tmp_path / "kept", GRAPHENE).get_or_play(never, "bfs", 1) == one_play()
    jar.write_bytes(b"another")
    assert KeptPlays(tmp_path / "kept", GRAPHENE).get_or_play(lambda: other, "bfs", 1) == other


@pytest.mark.usefixtures("jar")
def test_a_run_with_a_job_that_did_not_succeed_runs_again(tmp_path: Path) -> None:
    kept = KeptPlays(tmp_path / "kept", GRAPHENE)
    assert kept.get_or_play(lambda: one_play("UNKNOWN"), 1).jobs[0].status == "UNKNOWN"
    assert kept.get_or_play(one_play, 1) == one_play()


def test_without_a_folder_nothing_is_kept() -> None:
    kept = KeptPlays(None, GRAPHENE)
    assert kept.get_or_play(one_play, 1) == one_play()
    other = Played((), 7, {})
    assert kept.get_or_play(lambda: other, 1) == other
