"""Treadle's own format of workloads: what any reader has read is written and read again; mistakes are named."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import run
from treadle.workload.formats import read_workload, recognised
from treadle.workload.job import Job, Workload
from treadle.workload.traces.own import write_own
from treadle.workload.traces.reading import WorkloadError

DATA = Path(__file__).parents[2] / "data" / "workload"
STAGE = {"id": 0, "demand": {"vcores": 1}, "durations_ms": [5, 7]}
JOB = {"id": "a", "arrival_ms": 0, "stages": [STAGE]}


def plain(job: Job) -> dict[str, Any]:
    stages = [
        (
            stage.id,
            stage.tasks,
            stage.duration_ms,
            dict(stage.demand),
            stage.parents,
            stage.one_to_one,
            None if stage.durations_ms is None else stage.durations_ms.tolist(),
            stage.name,
        )
        for stage in job.dag.stages
    ]
    fields = ("id", "arrival_ms", "framework", "name", "user", "queue", "tags", "hosts", "priority")
    return {field: getattr(job, field) for field in fields} | {"stages": stages}


def same(one: Workload, two: Workload) -> None:
    assert (one.resources, one.notes) == (two.resources, two.notes)
    assert [plain(job) for job in one.jobs] == [plain(job) for job in two.jobs]


@pytest.mark.parametrize("name", ["sls.json", "synth.json", "rumen.json", "google", "eagle.tr", "tpch", "swim.tsv"])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.xz"])
def test_what_is_converted_is_the_same_workload(
    tmp_path: Path, name: str, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"own.{ending}"
    assert run(["workload", "convert", str(DATA / name), str(target)]) == 0
    assert "job" in capsys.readouterr().out
    assert recognised(target) == "treadle"
    same(read_workload(DATA / name), read_workload(target))
    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_a_file_that_cannot_be_converted_leaves_the_target_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "own.jsonl"
    target.write_text("precious")
    assert run(["workload", "convert", str(DATA / "README.md"), str(target)]) == 2
    assert "none of the formats" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1
    assert run(["workload", "convert", str(DATA / "sls.json"), str(target), "--jobs-max=2"]) == 0
    assert len(read_workload(target).jobs) == 2


def test_a_job_of_all_fields(tmp_path: Path) -> None:
    stages = [
        STAGE | {"name": "map", "hosts": [["n1", "n2"], []]},
        {"id": 4, "tasks": 2, "duration_ms": 9, "demand": {}, "parents": [0], "one_to_one": [0]},
    ]
    more = {"framework": "mapreduce", "name": "n", "user": "u", "queue": "q", "tags": ["t"], "priority": 3}
    file = tmp_path / "jobs.jsonl"
    # Lines in any order; a blank one does not count.
    lines = [JOB | {"id": "z", "arrival_ms": 7}, JOB | more | {"stages": stages}]
    file.write_text("\n\n".join(json.dumps(line) for line in lines))
    found = read_workload(file)
    assert [job.id for job in found.jobs] == ["a", "z"]
    job = found.jobs[0]
    assert (job.user, job.tags, job.priority) == ("u", ("t",), 3)
    assert job.hosts == {0: (("n1", "n2"), ())}
    assert job.dag.stages[0].duration_ms == 6
    assert job.dag.stages[1].one_to_one == {0}
    stream = io.StringIO()
    write_own(found, stream)
    (tmp_path / "again.jsonl").write_text(stream.getvalue())
    same(found, read_workload(tmp_path / "again.jsonl"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (JOB | {"colour": 1}, "line 2: colour: unknown; the fields are id, arrival_ms, stages"),
        (JOB | {"queu": "a"}, "did you mean queue?"),
        (JOB | {"arrival_ms": -1}, "line 2: arrival_ms: is -1; give a whole number from 0"),
        (JOB | {"stages": 3}, "line 2: stages: is 3; give a list"),
        (JOB | {"stages": [STAGE | {"tasks": 3}]}, "stage 0: tasks: is 3, but there are 2 durations_ms; drop one"),
        (JOB | {"stages": [{"id": 0, "demand": {}}]}, "stage 0: tasks: missing; give how many"),
        (JOB | {"stages": [{"id": 0, "demand": {}, "tasks": 1}]}, "duration_ms: missing; give a task's duration"),
        (JOB | {"stages": [STAGE | {"hosts": [["n"]]}]}, "hosts: has 1 lists; give one for each of 2 tasks"),
        (JOB | {"stages": [STAGE | {"parents": [9]}]}, "unknown parent, 9; name ids of its stages, which are 0"),
        (JOB | {"stages": [STAGE | {"parents": [0]}]}, "wait for each other"),
        (JOB | {"stages": [STAGE, STAGE]}, "two stages have the id 0; give each its own"),
        (JOB, "line 2: two jobs have the id a, this one and that of line 1; rename one"),
        ('{"id": "a", "id": "b"}', "line 2: id: is there twice; keep one"),
        ("[1]", "line 2: this is no JSON object; write one a line"),
        ("{", "line 2: this is no JSON"),
    ],
)
def test_a_mistake_is_named_with_line_field_and_remedy(tmp_path: Path, line: Any, told: str) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text(f"{json.dumps(JOB)}\n{line if isinstance(line, str) else json.dumps(line)}\n")
    with pytest.raises(WorkloadError) as error:
        read_workload(file, "treadle")
    assert str(error.value).startswith(str(file))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"job.tasks": [], "job.tasks": []}', "line 1: job.tasks: is there twice; keep one"),
        ("[1]", "line 1: there is 1 where an object {...} must be"),
    ],
)
def test_json_of_other_formats_is_as_strict(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "sls.json"
    file.write_text(text)
    with pytest.raises(WorkloadError) as error:
        read_workload(file, "sls")
    assert told in str(error.value)
    assert "Sls" not in str(error.value)


def test_a_capacity_that_nobody_asks_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workload", "show", str(DATA / "sls.json"), "--capacity", "foo=1"]) == 2
    assert "'foo' is none of the resources, gpu, memory-mb, vcores" in capsys.readouterr().err
