"""Each format's small file comes out as the jobs that docs/workloads.md says."""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.files import written

from treadle.dag import Dag, Stage
from treadle.workload import reading
from treadle.workload.clusters import google_jobs
from treadle.workload.formats import FORMATS, read_workload, recognised
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload
from treadle.workload.reading import WorkloadError
from treadle.workload.simulators import Sample

DATA = Path(__file__).parents[2] / "data" / "workload"
FILES = {
    "treadle": "treadle.jsonl",
    "dag": "dag.jsonl",
    "sls": "sls.json",
    "synth": "synth.json",
    "rumen": "rumen.json",
    "google": "google",
    "alibaba": "alibaba.csv",
    "tpch": "tpch",
    "swim": "swim.tsv",
}


def read(name: str) -> Workload:
    return read_workload(DATA / FILES[name])


def by_id(workload: Workload) -> dict[str, Job]:
    return {job.id: job for job in workload.jobs}


def facts(stage: Stage) -> tuple[str, list[int], dict[str, float], tuple[int, ...]]:
    return stage.name, stage.durations().tolist(), dict(stage.demand), stage.parents


def test_alibaba_names_say_the_dag() -> None:
    workload = read("alibaba")
    jobs = by_id(workload)
    assert sorted(jobs) == ["j_1", "j_2"]
    assert [(job.id, job.arrival_ms, job.framework) for job in workload.jobs] == [
        ("j_2", 60_000, Framework.TEZ),
        ("j_1", 87_000, Framework.TEZ),
    ]
    first, second, third, free = sorted(jobs["j_1"].dag.stages, key=lambda stage: stage.id)
    assert facts(first) == ("M1", [3000, 3000], {"memory-mb": 1967, "vcores": 1}, ())
    assert facts(second) == ("M2", [1], {"memory-mb": 1967, "vcores": 2}, ())
    assert facts(third) == ("R3_1_2", [10_000], {"memory-mb": 1024, "vcores": 1}, (1, 2))
    assert (first.id, second.id, third.id, free.id) == (1, 2, 3, 4)
    assert free.parents == ()
    assert jobs["j_2"].dag.stages[0].parents == (), "a stage that the file has not is taken as done"
    assert workload.notes[1:] == (
        "2 of 5 jobs have a stage that did not end well, or without instances",
        "1 of 5 jobs have stages of one number, or that wait for each other",
    )


def test_a_folder_of_alibaba_s_tables_is_read(tmp_path: Path) -> None:
    (tmp_path / "batch_task.csv.xz").write_bytes(lzma.compress((DATA / FILES["alibaba"]).read_bytes()))
    assert recognised(tmp_path) == "alibaba"
    assert [job.id for job in read_workload(tmp_path).jobs] == ["j_2", "j_1"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("M1,2,j,1,Terminated,5,9,100", "line 1: 8 columns where 9 are wanted"),
        (
            "M1,two,j,1,Terminated,5,9,100,1",
            "line 1: instance_num: Input should be a valid integer, unable to parse string as an integer ('two')",
        ),
        ("M1,2,j,1,Terminated,5,later,100,1", "line 1: end_time: could not convert string to float: 'later'"),
        (
            "M1,2,j,1,Terminated,5,1e20,100,1",
            "line 1: end_time: out of all reason; times are in seconds, and not negative ('1e20')",
        ),
        ("M1,2,j,1,Terminated,90,87,100,1", "line 1: its start_time, 90, is after its end_time, 87"),
        ("M1,2,j,1,Failed,5,9,100,1", "line 1: its status is not Terminated, or it has no start_time"),
        ("M1,0,j,1,Terminated,5,9,100,1", "line 1: it has no instances"),
        ("M1,1,j,1,Terminated,5,9,100,1\nM1,1,j,1,Terminated,5,9,100,1", "all jobs have stages of one number"),
        ("M1,20000000,j,1,Terminated,5,9,100,1", "line 1: over 10,000,000 instances; cut the file"),
    ],
)
def test_a_wrong_line_of_alibaba_s_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(line + "\n")
    with pytest.raises(WorkloadError, match=re.escape(said)):
        read_workload(tmp_path / "a.csv", "alibaba")


def test_every_format_has_a_file() -> None:
    assert list(FILES) == list(FORMATS)


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_recognized_by_its_content(name: str) -> None:
    assert recognised(DATA / FILES[name]) == name


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if "." in file])
def test_packed_files_read_the_same(name: str, tmp_path: Path) -> None:
    content = (DATA / FILES[name]).read_bytes()
    (tmp_path / "a").write_bytes(lzma.compress(content))
    (tmp_path / "b").write_bytes(gzip.compress(content))
    plain = [(job.id, job.arrival_ms, job.dag.tasks) for job in read(name).jobs]
    for packed in ("a", "b"):
        assert [(j.id, j.arrival_ms, j.dag.tasks) for j in read_workload(tmp_path / packed).jobs] == plain


def test_sls() -> None:
    workload = read("sls")
    jobs = by_id(workload)
    assert list(jobs) == ["walk", "walk_2", "load"]
    load = jobs["load"]
    assert (load.arrival_ms, load.user, load.queue, load.framework) == (4000, "ada", "etl", Framework.MAPREDUCE)
    assert [facts(stage) for stage in load.dag.stages] == [
        ("map", [5000, 3000], dict(CONTAINER), ()),
        ("reduce", [7000, 7000], {"memory-mb": 2048.0, "vcores": 1.0, "gpu": 1.0}, (0,)),
    ]
    assert load.hosts == {0: (("n1",), ("n2",))}
    for name in ("walk", "walk_2"):
        assert (jobs[name].user, jobs[name].framework, jobs[name].arrival_ms) == ("default", Framework.TEZ, 1000)
        assert [facts(stage) for stage in jobs[name].dag.stages] == [
            ("map", [500] * 3, {"memory-mb": 512.0, "vcores": 1.0}, ()),
            ("map", [900], dict(CONTAINER), ()),
        ]
    assert workload.resources == ("gpu", "memory-mb", "vcores")
    assert workload.notes == (
        "container.request.delay of 1 task is not kept: all are asked for with the rest of their job",
    )


def test_synth() -> None:
    workload = read("synth")
    new = [job for job in workload.jobs if job.queue == "new"]
    old = [job for job in workload.jobs if job.queue == "old"]
    assert len(new) + len(old) == 40
    assert len(new) > 8 < len(old)
    for job in new:
        assert 10_000 <= job.arrival_ms < 20_000
        maps, *reduces = job.dag.stages
        assert (maps.name, dict(maps.demand), maps.parents) == ("map", {"memory-mb": 1024.0, "vcores": 1.0}, ())
        assert [(stage.name, stage.tasks, stage.parents) for stage in reduces] in ([], [("reduce", 2, (0,))])
    for job in old:
        assert (job.arrival_ms, job.user, len(job.dag.stages)) == (30_000, "bob", 1)
        assert job.dag.stages[0].demand["memory-mb"] == 1536.0
    durations = np.concatenate([job.dag.stages[0].durations() for job in new])
    assert durations.mean() == pytest.approx(500, rel=0.05)
    assert [job.id for job in read("synth").jobs] == [job.id for job in workload.jobs]
    other = read_workload(DATA / FILES["synth"], seed=8)
    assert [job.dag.tasks for job in other.jobs] != [job.dag.tasks for job in workload.jobs]


def test_a_synth_sample_draws_what_it_says() -> None:
    generator = np.random.default_rng(1)
    assert set(Sample(val=3).draw(generator, 5)) == {3.0}
    for dist in (None, "LOGNORM", "NORM"):
        drawn = Sample(val=30, std=6, dist=dist).draw(generator, 50_000)
        assert (drawn.mean(), drawn.std()) == (pytest.approx(30, rel=0.01), pytest.approx(6, rel=0.03))
    assert Sample(val=30, std=0).draw(generator, 50_000).std() == pytest.approx(5, rel=0.03)  # a sixth, as in SLS
    discrete = Sample(discrete=[1, 5], weights=[1, 3]).draw(generator, 10_000)
    assert (discrete == 5).mean() == pytest.approx(0.75, abs=0.02)


def test_rumen() -> None:
    workload = read("rumen")
    assert [(job.id, job.arrival_ms) for job in workload.jobs] == [("job_1_0001", 0), ("job_1_0002", 9000)]
    late = workload.jobs[1]
    assert (late.name, late.user, late.queue, late.framework) == ("late", "bob", "q", Framework.MAPREDUCE)
    assert [facts(stage) for stage in late.dag.stages] == [
        ("map", [4000, 2000], {"memory-mb": 512.0, "vcores": 2.0}, ()),
        ("reduce", [5000], dict(CONTAINER), (0,)),
    ]
    assert late.hosts == {0: (("n1", "n5"), ())}
    assert workload.jobs[0].dag.stages[0].durations().tolist() == [1]
    assert workload.notes == (
        "2 tasks never ran as far as the trace says: left out",
        "1 job without a task that ran: left out",
    )


def test_google() -> None:
    workload = read("google")
    assert [(job.id, job.arrival_ms, job.user, job.name) for job in workload.jobs] == [
        ("2", 604_500, "10", "30"),
        ("4", 700_000, "11", "31"),
    ]
    small, large = workload.jobs
    assert facts(large.dag.stages[0]) == ("", [10_000, 20_000, 30_000], {"memory-mb": 1043.0, "vcores": 2.0}, ())
    assert small.dag.stages[0].demand == {"memory-mb": 1.0, "vcores": 1.0}
    assert large.tags == ("class:2", "priority:9", "application:21")
    assert workload.notes == ("1 of 5 tasks did not finish within the trace's window and are left out",)
    four, two = google_jobs(DATA / "google")
    assert (four.end_ms, two.end_ms, four.tasks, four.durations_ms.size) == (None, 675_200, 4, 3)


def test_tpch() -> None:
    workload = read("tpch")
    assert list(by_id(workload)) == ["q1-50gb-10cores", "q2-50gb-10cores", "q2-100gb-20cores"]
    one, two, three = workload.jobs
    assert [(s.id, s.tasks, s.duration_ms, s.parents) for s in one.dag.stages] == [
        (0, 6, 1500, ()),
        (1, 2, 700, (0,)),
        (2, 1, 100, (1,)),
    ]
    assert [(s.id, s.parents) for s in two.dag.stages] == [(1, ()), (2, ()), (0, (1, 2))]
    assert three.dag.stages[1].duration_ms == 1  # never nothing
    assert len(read_workload(DATA / "tpch" / "profiles.csv").jobs) == 3


def test_swim() -> None:
    workload = read("swim")
    first, second, third, fourth = workload.jobs
    # 286.1 MB read in 3 blocks, 2,098.1 MB shuffled to 3 reduces, 95.4 MB written; 20 MB/s, 1 s to start.
    assert [(s.name, s.tasks, s.duration_ms, s.parents) for s in first.dag.stages] == [
        ("map", 3, 1000 + round(1000 * (300e6 + 2200e6) / 3 / 2**20 / 20), ()),
        ("reduce", 3, 1000 + round(1000 * (2200e6 + 100e6) / 3 / 2**20 / 20), (0,)),
    ]
    assert [(s.tasks, s.duration_ms) for s in second.dag.stages] == [(1, 1000 + round(40e6 / 2**20 / 0.02))]
    assert [s.tasks for s in third.dag.stages] == [2, 1]
    assert (third.tags, fourth.tags) == (("input:inputPath7",), ())
    assert [job.arrival_ms for job in workload.jobs] == [49_000, 100_000, 160_000, 170_000]


def test_a_format_can_be_named() -> None:
    with pytest.raises(WorkloadError, match=r"job\.tasks"):
        read_workload(DATA / "rumen.json", "sls")
    with pytest.raises(WorkloadError, match="no format 'slss'; there are treadle, dag, sls, synth"):
        read_workload(DATA / "sls.json", "slss")


# A file that cannot be read is answered with its name, the place, the field and what would be right.

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
    ("swim", "job0\t1\t1\t1\t1", ("line 1", "5 columns where 6")),
    ("swim", "job0\t1\t1\t-1\t1\t1", ("line 1: map input: Input should be greater than or equal to 0 ('-1')",)),
    ("swim", "job0\tx\t1\t1\t1\t1", ("line 1: submit time (s): could not convert string to float: 'x'",)),
    ("google", "a,b\n1,2", ("line 1", "the header is 'a,b', not 'job,submit_s")),
    ("google", f"{GOOGLE[0]}\n1,2", ("line 2", "2 columns where 15")),
    ("google", f"{GOOGLE[0]}\n{GOOGLE[1].replace(',4,3,', ',4,2,')}", ("line 2: n_finished",)),
    ("google", f"{GOOGLE[0]}\n{GOOGLE[1].replace(',4,3,', ',2,3,')}", ("line 2: n_tasks",)),
    (
        "tpch",
        "query,size_gb,max_cores,stage,tasks,mean_runtime_ms\n1,1,1,0,0,5",
        ("line 2: tasks: Input should be greater than or equal to 1 ('0')",),
    ),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms\n1,1,1,1,1,5", ("unknown parent", "belong together")),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms\n" + "1,1,1,0,1,5\n" * 2, ("line 3: stage",)),
    ("tpch", "query,size_gb,max_cores,stage,tasks,mean_runtime_ms", ("there is no profile",)),
    ("sls", '{"job.tasks": [}', ("line 1", "no JSON")),
    ("sls", '{"job.tasks": []}', ("line 1: job.tasks", "at least 1")),
    ("sls", '\n{"job.tasks": [{}]}', ("line 2: job.tasks[0]", "duration above 0")),
    ("sls", '{"job.tasks": [{"duration.ms": 5, "container.gpu": "many"}]}', ("job.tasks[0]: container.*",)),
    ("sls", '{"job.tasks": [{"duration.ms": 5, "container.gpu": -1}]}', ("job.tasks[0]: container.*",)),
    (
        "sls",
        '{"am.type": "mpi", "job.tasks": [{"duration.ms": 5}]}',
        ("am.type: Input should be 'mapreduce', 'dag' or", "('mpi')"),
    ),
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
    path = written(tmp_path / "file", content)
    text = said(path, name)
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"workload_weight": 0.5', '"workload_weight": 0', "workload_weight: one must be above 0"),
        ('"class_weight": 1', '"class_weight": 0', "workloads[0].job_classes: class_weight: one must be above 0"),
        ('"weight": 1}', '"weight": 0}', "workloads[0].time_distribution: weight: one must be above 0"),
        ('"type": "mapreduce"', '"type": "mpi"', "type: Input should be 'mapreduce', 'dag' or 'stream' ('mpi')"),
        ('"dist": "NORM"', '"dist": "CAUCHY"', "workloads[0].job_classes[0].tasks[0].time.dist"),
        ('{"val": 5, "std": 1}', '{"std": 1}', "tasks[1].count: give val, val with std, or discrete"),
        ('"weights": [1, 3]', '"weights": [1]', "tasks[0].count: weights must be as many as discrete"),
        ('"val": 100}', '"val": NaN}', "tasks[1].max_memory.val: Input should be a finite number"),
    ],
)
def test_a_mistake_in_synth_is_named(old: str, new: str, expected: str, tmp_path: Path) -> None:
    content = (DATA / "synth.json").read_text()
    assert old in content
    path = written(tmp_path / "synth.json", content.replace(old, new))
    assert expected in said(path)


def test_tables_that_do_not_belong_together(tmp_path: Path) -> None:
    for name in ("tasks_25h.csv", "jobs_29d.csv"):
        (tmp_path / name).write_text((DATA / "google" / name).read_text())
    jobs = tmp_path / "jobs_29d.csv"
    jobs.write_text("".join(jobs.read_text().splitlines(keepends=True)[:-1]))
    assert "there is no job 4" in said(tmp_path)
    jobs.write_text("")
    assert "the table is empty" in said(tmp_path)


def test_what_is_no_workload_is_answered_with_what_would_be_one(tmp_path: Path) -> None:
    path = written(tmp_path / "notes.txt", "Dear all,\n")
    text = said(path)
    for name in FORMATS:
        assert f"\n  {name}: " in text
    assert "no tasks_25h.csv in the folder" in said(tmp_path)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    assert "there is no such file or folder" in said(tmp_path / "none")
    empty = written(tmp_path / "empty", " \n")
    assert "the file is empty" in said(empty)
    latin = tmp_path / "latin"
    latin.write_bytes(b"\xff\xfe\xfd")
    assert "no UTF-8 text" in said(latin)
    cut = tmp_path / "cut.xz"
    cut.write_bytes(lzma.compress((DATA / "swim.tsv").read_bytes())[:-20])
    assert "cut off or damaged" in said(cut, "swim")
    assert "this is a folder" in said(tmp_path, "swim")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["sls.json", "synth.json", "rumen.json", "swim.tsv"]), data=st.data())
def test_no_damage_ends_in_a_stack_trace(name: str, data: st.DataObject, tmp_path: Path) -> None:
    content = (DATA / name).read_text()
    start = data.draw(st.integers(0, len(content) - 1))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    patch = data.draw(st.text(alphabet='0123456789-+eE.naif{}[]":, \t\n\\', max_size=8))
    path = written(tmp_path / name, content[:start] + patch + content[end:])
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
    ("name", "text", "told"), [("swim", "job0\t1\t1\t1\t1\t1" + " " * 200, "line 1"), ("rumen", "[" * 200, "")]
)
def test_what_a_packed_file_unpacks_to_is_bounded(
    name: str, text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHARACTERS_MAX", 100)
    path = tmp_path / "bomb.xz"
    path.write_bytes(lzma.compress(text.encode()))
    assert f"{path}: {told}{': ' * bool(told)}" in (found := said(path, name))
    assert "than 100 characters" in found
