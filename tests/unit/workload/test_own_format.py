"""Treadle's own format of workloads: what any reader has read is written and read again; mistakes are named."""

from __future__ import annotations

import io
import json
import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli.main import run
from treadle.simulate import Scenario
from treadle.workload import formats
from treadle.workload.formats import FORMATS, read_workload, recognised, write_own
from treadle.workload.job import Job, Workload
from treadle.workload.reading import WorkloadError

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


@pytest.mark.parametrize("name", ["sls.json", "synth.json", "rumen.json", "google", "tpch", "swim.tsv"])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.xz"])
def test_what_is_converted_is_the_same_workload(tmp_path: Path, name: str, ending: str, cli: Cli) -> None:
    target = tmp_path / f"own.{ending}"
    assert "job" in cli(["workload", "convert", str(DATA / name), str(target)]).err
    assert recognised(target) == "treadle"
    same(read_workload(DATA / name), read_workload(target))
    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_a_file_that_cannot_be_converted_leaves_the_target_as_it_was(tmp_path: Path, cli: Cli) -> None:
    target = written(tmp_path / "own.jsonl", "precious")
    assert "none of the formats" in cli(["workload", "convert", str(DATA / "README.md"), str(target)], 2).err
    assert target.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1
    assert run(["workload", "convert", str(DATA / "sls.json"), str(target), "--jobs=2"]) == 0
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
        (JOB | {"arrival_ms": -1}, "line 2: arrival_ms: is -1; it must be greater than or equal to 0"),
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
    file = written(tmp_path / "sls.json", text)
    with pytest.raises(WorkloadError) as error:
        read_workload(file, "sls")
    assert told in str(error.value)
    assert "Sls" not in str(error.value)


def test_a_capacity_that_nobody_asks_for_is_refused(cli: Cli) -> None:
    error = cli(["workload", "show", str(DATA / "sls.json"), "--capacity", "foo=1"], 2).err
    assert "'foo' is none of the resources, gpu, memory-mb, vcores" in error


# Readers and generators of a user's own, from a file or from an installed package.

CODE = """
from treadle.dag import Dag, Stage
from treadle.simulate import Job


def jobs(seed, width=2):
    for number in range(3):
        stage = Stage(0, width + seed, 1000, {"memory-mb": 1024})
        yield Job(f"j{number}", 100 * (3 - number), Dag("d", (stage,)), queue="mine")


def read(path, seed):
    for number, line in enumerate(path.read_text().split()):
        yield Job(f"j{number}", 0, Dag("d", (Stage(0, int(line), 1000, {"memory-mb": 1024}),)))


def broken(path, seed):
    return 1 / 0


def nothing(path, seed):
    return ["job"]


number = 7
"""
CLUSTER = {"cluster": {"nodes": [{"count": 1, "resources": {"memory-mb": 4096}}]}, "queues": {"a": {}, "b": {}}}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = written(tmp_path / "mine.py", CODE)
    (tmp_path / "jobs.txt").write_text("3\n5\n", encoding="utf-8")
    return file


def test_a_scenario_draws_its_jobs_by_a_function_of_a_file(code: Path) -> None:
    own = {"file": "mine.py", "parameters": {"width": 4}}
    scenario = Scenario.of(
        CLUSTER | {"workload": {"own": own, "queues": {"mine": "b"}, "jobs_max": 2}}, code.parent, trust_code=True
    )
    jobs = scenario.jobs(5).jobs
    assert [(job.id, job.arrival_ms, job.queue, job.dag.tasks) for job in jobs] == [
        ("j2", 100, "b", 9),
        ("j1", 200, "b", 9),
    ]


def test_a_reader_of_a_file_reads_what_no_format_fits(code: Path) -> None:
    read = read_workload(code.parent / "jobs.txt", f"{code}:read")
    assert [job.dag.tasks for job in read.jobs] == [3, 5]
    scenario = Scenario.of(
        CLUSTER | {"workload": {"file": "jobs.txt", "format": "mine.py:read"}}, code.parent, trust_code=True
    )
    assert [job.dag.tasks for job in scenario.jobs(1).jobs] == [3, 5]


def test_the_figures_of_what_an_own_reader_reads(
    code: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(code.parent)
    assert run(["workload", "show", "jobs.txt", "--format", "mine.py:read"]) == 0
    printed = capsys.readouterr().out
    assert "mine.py:read: a reader of your own" in printed
    assert "memory-mb" in printed
    offered = EntryPoints((EntryPoint("lines", "mine:read", formats.READERS),))
    monkeypatch.setattr(formats, "entry_points", lambda group: offered.select(group=group))
    monkeypatch.syspath_prepend(str(code.parent))
    try:
        assert run(["workload", "show", "jobs.txt", "--format", "lines"]) == 0
    finally:
        sys.modules.pop("mine", None)
    assert "lines: a reader of your own" in capsys.readouterr().out


def test_a_package_offers_readers_and_generators(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(code.parent)
    offered = EntryPoints(
        [
            EntryPoint("lines", "mine:read", formats.READERS),
            EntryPoint("steps", "mine:jobs", formats.GENERATORS),
            EntryPoint("lost", "mine_lost:jobs", formats.GENERATORS),
        ]
    )
    monkeypatch.setattr(formats, "entry_points", lambda group: offered.select(group=group))
    assert [job.dag.tasks for job in read_workload(code.parent / "jobs.txt", "lines").jobs] == [3, 5]
    assert len(Scenario.of(CLUSTER | {"workload": {"own": {"entry_point": "steps"}}}).jobs(1).jobs) == 3
    sys.modules.pop("mine", None)
    for name, told in (("stepz", "did you mean steps?"), ("lost", "cannot be imported: ModuleNotFoundError")):
        with pytest.raises(WorkloadError, match=re.escape(told)):
            Scenario.of(CLUSTER | {"workload": {"own": {"entry_point": name}}}).jobs(1)


@pytest.mark.parametrize(
    ("format_", "told"),
    [
        ("mine.py:broken", "mine.py:18: ZeroDivisionError"),
        ("mine.py:nothing", "returned str; return a treadle.simulate.Workload, or Jobs"),
        ("mine.py:number", "is not a function"),
        ("mine.py:raed", "did you mean read?"),
        ("other.py:read", "other.py: No such file or directory; check the path"),
        ("bad.py:read", "bad.py cannot be run: bad.py:1: SyntaxError"),
        ("slss", "there is no format 'slss'; there are treadle, dag, sls"),
    ],
)
def test_what_cannot_be_used_is_reported(code: Path, format_: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (code.parent / "bad.py").write_text("def read(:\n", encoding="utf-8")
    monkeypatch.chdir(code.parent)
    with pytest.raises(WorkloadError, match=re.escape(told)):
        read_workload(Path("jobs.txt"), format_)


@pytest.mark.parametrize("written", [{}, {"file": "a.py", "entry_point": "b"}])
def test_an_own_generator_is_in_one_place(written: dict[str, str]) -> None:
    with pytest.raises(Exception, match="write exactly one of file and entry_point"):
        Scenario.of(CLUSTER | {"workload": {"own": written}})


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "tpch"])
def test_an_empty_file_is_no_workload(tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "empty", "\n")
    with pytest.raises(WorkloadError, match=r"no job in it|the table is empty|should have one JSON object"):
        read_workload(file, name)
