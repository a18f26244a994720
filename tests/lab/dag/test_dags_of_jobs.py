"""Runs, profiles and submitted plans become their DAGs, or it is reported what is missing."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from treadle.dag import Dag, DagError
from treadle.errors import UserError, install_extra
from treadle.history.profile import DurationSketch, JobProfile, JobRun, Measured, RecurrenceKey, StageRun, with_run
from treadle.history.sources import find_sources, read_source
from treadle_lab import dags_of_jobs
from treadle_lab.dags_of_jobs import dag_of_profile, dag_of_run, dag_of_tez_plan, read_tez_plan, runs_alike

DATA = Path(__file__).resolve().parents[2] / "data"
KEY = RecurrenceKey("ann", "default", "TEZ", "load")
OTHERWISE = {"memory-mb": 1024.0, "vcores": 1.0}
MB = 1 << 20


def stage(name: str, width: int, took_ms: int, *parents: str, input_bytes: int = 0, single: bool = False) -> StageRun:
    sketch = DurationSketch([took_ms] * width)
    return StageRun(name, width, sketch, {}, parents, input_bytes, one_to_one=parents if single else ())


def job(number: int, *stages: StageRun) -> JobRun:
    return JobRun(KEY, f"application_1_{number}", 0, 1000 * number, stages)


def profile(*runs: JobRun) -> JobProfile:
    found: JobProfile | None = None
    for run in runs:
        found = with_run(found, run)
    assert found is not None
    return found


def shape(dag: Dag) -> list[tuple[str, int, int, tuple[int, ...]]]:
    return [(one.name, one.tasks, one.duration_ms, one.parents) for one in dag.stages]


def imported(name: str) -> list[Dag]:
    (source,) = [found for found in find_sources([DATA / "histories"]) if name in found.name]
    return [dag_of_run(run, OTHERWISE) for run in read_source(source).runs]


def test_a_mapreduce_job_is_two_stages() -> None:
    (dag,) = imported("0001-1795276082098")
    assert shape(dag) == [("map", 10, 11210, ()), ("reduce", 2, 9726, (0,))]
    assert dag.stages[0].demand == {"memory-mb": 256.0, "vcores": 1.0}


def test_adaptive_execution_of_spark_becomes_one_graph() -> None:
    (dag,) = imported("local-1795275822871")
    assert [one.name.partition(" ")[0] for one in dag.stages] == [str(at) for at in range(len(dag.stages))]
    assert set(dag.stages[2].parents) == {0, 1}
    assert {tuple(one.demand.items()) for one in dag.stages} == {(("memory-mb", 1024.0), ("vcores", 1.0))}


def test_a_tez_dag_keeps_its_edges() -> None:
    (dag,) = imported("history.txt")
    assert dag.name == "mrrsleepjob dag_1795276064014_0003_1"
    assert shape(dag) == [("map", 4, 991, ()), ("ireduce1", 3, 483, (0,)), ("reduce", 2, 329, (1,))]


def test_a_task_of_spark_takes_its_share_of_an_executor() -> None:
    executors = StageRun(
        "executors", 5, DurationSketch([60_000]), {"memory-mb": 4096, "vcores": 4}, measured=Measured.CONTAINERS
    )
    dag = dag_of_run(job(1, executors, stage("0 collect", 7, 20)), OTHERWISE)
    assert shape(dag) == [("0 collect", 7, 20, ())]
    assert dag.stages[0].demand == {"memory-mb": 1024.0, "vcores": 1.0}


def test_one_to_one_edges_need_as_many_tasks() -> None:
    dag = dag_of_run(job(1, stage("a", 3, 5), stage("b", 3, 5, "a", single=True)), {})
    assert dag.stages[1].one_to_one == frozenset({0})
    dag = dag_of_run(job(1, stage("a", 3, 5), stage("b", 2, 5, "a", single=True)), {})
    assert dag.stages[1].one_to_one == frozenset()


def test_a_profile_gives_the_stages_of_its_latest_run() -> None:
    known = profile(
        job(1, stage("a", 4, 100), stage("gone", 1, 5, "a")),
        job(2, stage("a", 4, 300), stage("b", 2, 50, "a")),
        job(3, stage("a", 4, 200), stage("b", 2, 70, "a")),
    )
    assert shape(dag_of_profile(known, OTHERWISE)) == [("a", 4, 200, ()), ("b", 2, 50, (0,))]
    assert runs_alike(known) == 2
    assert runs_alike(profile(job(1, stage("a", 4, 1)), job(2, stage("a", 9, 1)))) == 1


def grown(*runs: tuple[int, int, int]) -> JobProfile:
    """Return runs of (input in MB, tasks, task's duration) of one stage."""
    return profile(
        *(job(at, stage("a", tasks, took, input_bytes=size * MB)) for at, (size, tasks, took) in enumerate(runs, 1))
    )


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (grown((100, 4, 1000)), (8, 1000)),  # nothing is known: whoever reads files gets wider
        (grown((50, 2, 1000), (100, 4, 1000), (200, 8, 1000)), (8, 1000)),
        (grown((50, 4, 500), (100, 4, 1000), (200, 4, 2000)), (4, 2000)),
        (grown((50, 4, 700), (100, 4, 1000), (200, 4, 1400)), (4, 1414)),
        (grown((50, 4, 1000), (100, 4, 1000), (200, 4, 1000)), (4, 1000)),
        (grown((50, 4, 4000), (100, 4, 2000), (200, 4, 1000)), (4, 2000)),  # more input never makes it shorter
    ],
)
def test_a_stage_grows_with_its_input_as_it_has_before(known: JobProfile, expected: tuple[int, int]) -> None:
    (found,) = dag_of_profile(known, OTHERWISE, 200 * MB).stages
    assert found.tasks == expected[0]
    assert found.duration_ms == pytest.approx(expected[1], abs=20)


def test_what_reads_a_shuffle_takes_longer() -> None:
    known = profile(
        job(1, stage("a", 4, 1000, input_bytes=100 * MB), stage("b", 3, 500, "a", input_bytes=10 * MB)),
    )
    assert shape(dag_of_profile(known, {}, 300 * MB)) == [("a", 12, 1000, ()), ("b", 3, 1500, (0,))]
    assert shape(dag_of_profile(known, {}, 0)) == [("a", 1, 1000, ()), ("b", 3, 0, (0,))]


def containers(*names: str) -> Sequence[StageRun]:
    return [StageRun(name, 2, DurationSketch([5, 6]), measured=Measured.CONTAINERS) for name in names]


def test_what_is_not_known_is_reported() -> None:
    with pytest.raises(DagError, match="DAG load: which stages feed which was not seen; import a history"):
        dag_of_profile(profile(job(1, *containers("priority 2", "priority 5"))), {})
    assert shape(dag_of_profile(profile(job(1, *containers("executors"))), {})) == [("executors", 2, 6, ())]
    with pytest.raises(DagError, match="how much its earlier runs read is not known; leave the size"):
        dag_of_profile(profile(job(1, stage("a", 1, 1))), {}, 5)
    with pytest.raises(DagError, match="stage a: how long its tasks run is not known"):
        dag_of_profile(profile(job(1, StageRun("a", 3, DurationSketch()))), {})
    with pytest.raises(DagError, match="stage a: no task was seen to end well"):
        dag_of_run(job(1, StageRun("a", 3, DurationSketch())), {})
    with pytest.raises(DagError, match="no stage of it is known"):
        dag_of_run(job(1), {})


def test_a_submitted_plan_is_read_without_its_credentials() -> None:
    plan = read_tez_plan(DATA / "dags" / "tez-dag.pb")
    assert plan.name == "nightly load 2026-11-21"
    assert [(one.name, one.tasks, one.memory_mb, one.vcores) for one in plan.vertices] == [
        ("scan", None, 1024, 1),
        ("filter", 8, 1024, 1),
        ("sort", 8, 1024, 1),
        ("join", 4, 2048, 2),
    ]
    assert [(one.source, one.target, one.one_to_one) for one in plan.edges] == [
        ("scan", "filter", False),
        ("scan", "join", False),
        ("filter", "sort", True),
        ("sort", "join", False),
    ]
    assert "not-for-anybody" not in repr(plan)


def test_a_submitted_plan_takes_durations_from_earlier_runs() -> None:
    plan = read_tez_plan(DATA / "dags" / "tez-dag.pb")
    known = profile(job(1, stage("scan", 20, 100), stage("filter", 9, 30, "scan"), stage("sort", 9, 7, "filter")))
    with pytest.raises(DagError, match="vertex join: how long its tasks run is not known"):
        dag_of_tez_plan(plan, known, None)
    dag = dag_of_tez_plan(plan, known, 5)
    assert shape(dag) == [("scan", 20, 100, ()), ("filter", 8, 30, (0,)), ("sort", 8, 7, (1,)), ("join", 4, 5, (0, 2))]
    assert dag.stages[2].one_to_one == frozenset({1})
    with pytest.raises(DagError, match="vertex scan: the number of its tasks is open, and no earlier run is known"):
        dag_of_tez_plan(plan, None, 5)


def test_a_broken_plan_is_reported(tmp_path: Path) -> None:
    whole = (DATA / "dags" / "tez-dag.pb").read_bytes()
    path = tmp_path / "tez-dag.pb"
    with pytest.raises(DagError, match="No such file or directory; give the path of a readable file"):
        read_tez_plan(path)
    ends = {0}  # where a field ends, a shorter plan does
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        try:
            ends.add(len(read_tez_plan(path).vertices))
        except DagError as error:
            assert "no DAGPlan of Tez's" in str(error)
    assert ends == {0, 1, 2, 3, 4}
    for content in (b"", b"\xff" * 40, b"PK\x03\x04", b"\x12\x01", b"\x10\x05", b"\x0b"):
        path.write_bytes(content)
        with pytest.raises(DagError, match=r"no DAGPlan of Tez's .*give a tez-dag\.pb"):
            read_tez_plan(path)


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    dags_of_jobs.plan_class.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(UserError, match=re.escape(f"a tez-dag.pb needs protobuf; {install_extra('history')}")):
        read_tez_plan(DATA / "dags" / "tez-dag.pb")
