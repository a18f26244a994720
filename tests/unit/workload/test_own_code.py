"""Readers and generators of a user's own, from a file or from an installed package."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.simulate import Scenario
from treadle.workload import formats
from treadle.workload.formats import FORMATS, read_workload
from treadle.workload.traces.reading import WorkloadError

CODE = """
from treadle.dag.dag import Dag, Stage
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
    file = tmp_path / "mine.py"
    file.write_text(CODE, encoding="utf-8")
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
        ("mine.py:number", "is no function"),
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


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("tpch", "omega")])
def test_an_empty_file_is_no_workload(tmp_path: Path, name: str) -> None:
    file = tmp_path / "empty"
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"no job in it|the table is empty|should have one JSON object"):
        read_workload(file, name)
