"""Each format's small file comes out as the jobs that docs/workloads.md says."""

from __future__ import annotations

import gzip
import lzma
import re
from pathlib import Path

import numpy as np
import pytest

from treadle.dag.dag import Stage
from treadle.workload.formats import FORMATS, read_workload, recognised
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload
from treadle.workload.traces.clusters import google_jobs
from treadle.workload.traces.hadoop import Sample
from treadle.workload.traces.reading import WorkloadError

DATA = Path(__file__).parents[2] / "data" / "workload"
FILES = {
    "treadle": "treadle.jsonl",
    "dag": "dag.jsonl",
    "sls": "sls.json",
    "synth": "synth.json",
    "rumen": "rumen.json",
    "google": "google",
    "alibaba": "alibaba.csv",
    "eagle": "eagle.tr",
    "tpch": "tpch",
    "swim": "swim.tsv",
    "omega": "omega",
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
        ("M1,two,j,1,Terminated,5,9,100,1", "line 1: instance_num: 'two' is no whole number"),
        ("M1,2,j,1,Terminated,5,later,100,1", "line 1: end_time: 'later' is no number"),
        ("M1,2,j,1,Terminated,5,1e20,100,1", "line 1: start_time: 1e+20 s is out of all reason"),
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


@pytest.mark.parametrize("name", FILES)
def test_progress_reaches_its_end(name: str) -> None:
    told: list[float] = []
    read_workload(DATA / FILES[name], progress=told.append)
    assert told == sorted(told)
    if name != "synth":  # reported every hundred jobs
        assert told[-1] == 1.0


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
    assert (four.end_ms, two.end_ms, four.tasks, four.finished) == (None, 675_200, 4, 3)


def test_eagle() -> None:
    workload = read("eagle")
    assert [(job.id, job.arrival_ms) for job in workload.jobs] == [("job0", 0), ("job1", 3250), ("job2", 4000)]
    assert [job.dag.stages[0].durations().tolist() for job in workload.jobs] == [
        [1000, 2000],
        [100],
        [1000, 2000, 3000],
    ]


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
    only = read_workload(DATA / "tpch" / "profiles.csv", size_gb=50, max_cores=10)
    assert len(only.jobs) == 2


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


def test_omega() -> None:
    workload = read("omega")
    jobs = by_id(workload)
    service, batch = jobs["start-77"], jobs["start-78"]
    assert (service.queue, batch.queue) == ("service", "batch")
    assert facts(service.dag.stages[0]) == ("", [3_600_000] * 2, {"memory-mb": 2048.0, "vcores": 1.5}, ())
    assert facts(batch.dag.stages[0]) == ("", [6500] * 4, {"memory-mb": 256.0, "vcores": 0.5}, ())
    for queue in ("batch", "service"):
        drawn = [job for job in workload.jobs if job.queue == queue][1:]
        assert len(drawn) > 50
        assert {job.dag.tasks for job in drawn} <= set(range(1, 9))
        assert all(500 <= job.dag.stages[0].duration_ms <= 100_000 for job in drawn)
    assert workload.jobs[-1].arrival_ms < 3_600_000
    short = read_workload(DATA / "omega", seed=3, span_ms=1)
    assert [job.id for job in short.jobs] == ["start-77", "start-78"]


def test_a_format_can_be_named() -> None:
    with pytest.raises(WorkloadError, match=r"job\.tasks"):
        read_workload(DATA / "rumen.json", "sls")
    with pytest.raises(WorkloadError, match="no format 'slss'; there are treadle, dag, sls, synth"):
        read_workload(DATA / "sls.json", "slss")
