"""A file that cannot be read is answered with its name, the place, the field and what would be right."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.dag.dag import Dag, Stage
from treadle.workload.formats import FORMATS, read_workload, recognised
from treadle.workload.job import Job, Workload
from treadle.workload.traces import reading
from treadle.workload.traces.reading import WorkloadError
from treadle.workload.traces.swim import SwimModel, swim_small

DATA = Path(__file__).parents[2] / "data" / "workload"
GOOGLE = (DATA / "google" / "tasks_25h.csv").read_text().splitlines()
EDGES = (DATA / "tpch" / "edges.csv").read_text()


def said(path: Path, name: str | None = None) -> str:
    """Return what is said of a file; it names the file."""
    with pytest.raises(WorkloadError) as caught:
        read_workload(path, name)
    text = str(caught.value)
    assert text.startswith(str(path)) or str(path.parent) in text
    return text


BROKEN: list[tuple[str, str, tuple[str, ...]]] = [
    ("eagle", "0 2 1.5 1.0", ("line 1: n_tasks", "1 durations")),
    ("eagle", "0 1 1 1\n0 1", ("line 2", "2 columns")),
    ("eagle", "0 x 1 1", ("line 1: n_tasks: 'x' is no whole number",)),
    ("eagle", "-5 1 1 1", ("line 1: submit_s", "not negative")),
    ("eagle", "1e300 1 1 1", ("line 1: submit_s", "in seconds")),
    ("eagle", "0 1 1 nan", ("line 1: durations_s", "finite")),
    ("eagle", "0 1 1 a", ("line 1: durations_s", "numbers separated by spaces")),
    ("swim", "job0\t1\t1\t1\t1", ("line 1", "5 columns where 6")),
    ("swim", "job0\t1\t1\t-1\t1\t1", ("line 1: map input: -1 is less than 0",)),
    ("swim", "job0\tx\t1\t1\t1\t1", ("line 1: submit time (s): 'x' is no number",)),
    ("google", "a,b\n1,2", ("line 1", "the header is 'a,b', not 'job,submit_s")),
    ("google", f"{GOOGLE[0]}\n1,2", ("line 2", "2 columns where 15")),
    ("google", f"{GOOGLE[0]}\n{GOOGLE[1].replace(',4,3,', ',4,2,')}", ("line 2: n_finished",)),
    ("google", f"{GOOGLE[0]}\n{GOOGLE[1].replace(',4,3,', ',2,3,')}", ("line 2: n_tasks",)),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms\n1,1,1,0,0,5", ("line 2: tasks: 0 is less than 1",)),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms\n1,1,1,1,1,5", ("unknown parent", "belong together")),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms\n" + "1,1,1,0,1,5\n" * 2, ("line 3: stage",)),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms", ("there is no profile",)),
    ("sls", '{"job.tasks": [}', ("line 1", "no JSON")),
    ("sls", '{"job.tasks": []}', ("line 1: job.tasks", "at least 1")),
    ("sls", '\n{"job.tasks": [{}]}', ("line 2: job.tasks[0]", "duration above 0")),
    ("sls", '{"job.tasks": [{"duration.ms": 5, "container.gpu": "many"}]}', ("job.tasks[0]: container.*",)),
    ("sls", '{"job.tasks": [{"duration.ms": 5, "container.gpu": -1}]}', ("job.tasks[0]: container.*",)),
    ("sls", '{"am.type": "mpi", "job.tasks": [{"duration.ms": 5}]}', ("yarn.sls.am.type", "'mpi' is none of")),
    ("sls", '{"job.start.ms": -1, "job.tasks": [{"duration.ms": 5}]}', ("job.start.ms", "greater than or equal to 0")),
    ("sls", "7", ("line 1",)),
    ("sls", '{"num.nodes": 3}', ("there is no job",)),
    ("rumen", "{}", ("jobID: Field required", "submitTime: Field required")),
    ("rumen", '{"jobID": "a", "submitTime": 1}', ("no job in it with a task that has run",)),
    ("synth", '{"num_jobs": 0, "workloads": []}', ("num_jobs", "workloads")),
    ("synth", "{}{}", ("one JSON object, not 2",)),
]


@pytest.mark.parametrize(("name", "content", "expected"), BROKEN, ids=range(len(BROKEN)))
def test_a_mistake_is_named(name: str, content: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES)
    path = tmp_path / "file"
    path.write_text(content)
    text = said(path, name)
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"workload_weight": 0.5', '"workload_weight": 0', "workload_weight: one must be above 0"),
        ('"class_weight": 1', '"class_weight": 0', "workloads[0].job_classes: class_weight: one must be above 0"),
        ('"weight": 1}', '"weight": 0}', "workloads[0].time_distribution: weight: one must be above 0"),
        ('"type": "mapreduce"', '"type": "mpi"', "type: 'mpi' is none of mapreduce, dag, stream"),
        ('"dist": "NORM"', '"dist": "CAUCHY"', "workloads[0].job_classes[0].tasks[0].time.dist"),
        ('{"val": 5, "std": 1}', '{"std": 1}', "tasks[1].count: give val, val with std, or discrete"),
        ('"weights": [1, 3]', '"weights": [1]', "tasks[0].count: weights must be as many as discrete"),
        ('"val": 100}', '"val": NaN}', "tasks[1].max_memory.val: Input should be a finite number"),
    ],
)
def test_a_mistake_in_synth_is_named(old: str, new: str, expected: str, tmp_path: Path) -> None:
    content = (DATA / "synth.json").read_text()
    assert old in content
    path = tmp_path / "synth.json"
    path.write_text(content.replace(old, new))
    assert expected in said(path)


def test_tables_that_do_not_belong_together(tmp_path: Path) -> None:
    for name in ("tasks_25h.csv", "jobs_29d.csv"):
        (tmp_path / name).write_text((DATA / "google" / name).read_text())
    jobs = tmp_path / "jobs_29d.csv"
    jobs.write_text("".join(jobs.read_text().splitlines(keepends=True)[:-1]))
    assert "there is no job 4" in said(tmp_path)
    jobs.write_text("")
    assert "the table is empty" in said(tmp_path)


def omega_folder(folder: Path) -> None:
    for file in (DATA / "omega").iterdir():
        (folder / file.name).write_text(file.read_text())


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("cell_csizes_cmb.log", "cell policy 0 1\n", "no value for the service scheduler"),
        ("cell_csizes_cmb.log", "cell policy 2 1\n", "line 1: a line has cell"),
        ("cell_interarrival_cmb.log", "c p 0 0\nc p 1 1\n", "all gaps between batch jobs are 0"),
        ("cell_interarrival_cmb.log", None, "there should be one file *interarrival*.log"),
        ("cell-init-cluster-state.log", "", "no job runs at the start"),
        ("cell-init-cluster-state.log", "13 0 1\n", "line 1: a line has type 11"),
        ("cell-init-cluster-state.log", "11 0 1 1 1 0 1 1\n", "line 1: tasks: 0 is less than 1"),
    ],
)
def test_a_mistake_in_omega_is_named(file: str, content: str | None, expected: str, tmp_path: Path) -> None:
    omega_folder(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(WorkloadError) as caught:
        read_workload(tmp_path, "omega")
    assert expected in str(caught.value)


def test_what_is_no_workload_is_answered_with_what_would_be_one(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear all,\n")
    text = said(path)
    for name in FORMATS:
        assert f"\n  {name}: " in text
    assert "no tasks_25h.csv in the folder" in said(tmp_path)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    assert "there is no such file or folder" in said(tmp_path / "none")
    empty = tmp_path / "empty"
    empty.write_text(" \n")
    assert "the file is empty" in said(empty)
    latin = tmp_path / "latin"
    latin.write_bytes(b"\xff\xfe\xfd")
    assert "no UTF-8 text" in said(latin)
    cut = tmp_path / "cut.xz"
    cut.write_bytes(lzma.compress((DATA / "swim.tsv").read_bytes())[:-20])
    assert "cut off or damaged" in said(cut, "swim")
    assert "this is a folder" in said(tmp_path, "swim")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["sls.json", "synth.json", "rumen.json", "eagle.tr", "swim.tsv"]), data=st.data())
def test_no_damage_ends_in_a_stack_trace(name: str, data: st.DataObject, tmp_path: Path) -> None:
    content = (DATA / name).read_text()
    start = data.draw(st.integers(0, len(content) - 1))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    patch = data.draw(st.text(alphabet='0123456789-+eE.naif{}[]":, \t\n\\', max_size=8))
    path = tmp_path / name
    path.write_text(content[:start] + patch + content[end:])
    known = name.partition(".")[0]
    for read in (lambda: read_workload(path, known), lambda: recognised(path)):
        may_fail(read)


def may_fail(call: Callable[[], object]) -> None:
    """Let a call succeed or say what is wrong; any other error is the test's."""
    try:
        call()
    except WorkloadError as error:
        assert str(error)


def job(name: str, arrival_ms: int) -> Job:
    return Job(name, arrival_ms, Dag(name, (Stage(0, 1, 1, {"vcores": 1}),)))


@pytest.mark.parametrize(
    ("resources", "jobs", "expected"),
    [
        (("vcores",), (job("a", 5), job("b", 4)), "b comes before"),
        (("vcores",), (job("a", 4), job("a", 4)), "two jobs have the id a"),
        (("memory-mb",), (job("a", 4),), "asks for vcores"),
        (("vcores",), (job("a", -1),), "must not be negative"),
    ],
)
def test_a_workload_that_contradicts_itself(resources: tuple[str, ...], jobs: tuple[Job, ...], expected: str) -> None:
    with pytest.raises(WorkloadError, match=expected):
        Workload(resources, jobs)


@pytest.mark.parametrize(
    "call",
    [
        lambda: SwimModel(mb_per_s=0),
        lambda: SwimModel(tasks_max=0),
        lambda: swim_small(DATA / "swim.tsv", 1, 5, 4, {"vcores": 8}),
        lambda: swim_small(DATA / "swim.tsv", 1, 3, 0, {"vcores": 8}),
        lambda: swim_small(DATA / "swim.tsv", -1, 3, 4, {"vcores": 8}),
    ],
)
def test_arguments_out_of_bounds(call: Callable[[], object]) -> None:
    with pytest.raises(WorkloadError):
        call()


@pytest.mark.parametrize(
    ("name", "text", "told"), [("eagle", "0 1 1 1" + " " * 200, "line 1"), ("rumen", "[" * 200, "")]
)
def test_what_a_packed_file_unpacks_to_is_bounded(
    name: str, text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHARACTERS_MAX", 100)
    path = tmp_path / "bomb.xz"
    path.write_bytes(lzma.compress(text.encode()))
    assert f"{path}: {told}{': ' * bool(told)}" in (found := said(path, name))
    assert "than 100 characters" in found
