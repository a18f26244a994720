"""`treadle dags import` and `predict` write DAGs that `treadle plan` reads, and say what they cannot use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.unit.history.conftest import NOW_MS, make_run

from treadle.history.store import open_store
from treadle_lab.dags import read_instances

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(autouse=True)
def _without_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREADLE_PROFILES", raising=False)


@pytest.fixture
def store(tmp_path: Path) -> str:
    file = str(tmp_path / "profiles.db")
    with open_store(file) as opened:
        for number in (1, 2):
            opened.put(make_run(number, ended_ms=NOW_MS + number), NOW_MS + number)
        opened.put(make_run(user="bob"), NOW_MS)
    return file


def test_histories_are_imported_and_planned(tmp_path: Path, cli: Cli) -> None:
    target = tmp_path / "dags.jsonl"
    said = cli(["dags", "import", str(DATA / "histories"), "--machines", "3", "--output", str(target)]).err
    assert "6 sources: 5 DAGs, 1 of jobs that did not succeed, 0 that could not be used" in said
    assert {(made.machines, made.capacity["memory-mb"]) for made in read_instances(target)} == {(3, 8192.0)}
    assert "mrrsleepjob dag_1795276064014_0003_1" in cli(["plan", str(target), "--budget-schedules", "5"]).out


def test_the_rest_is_imported_where_something_is_wrong(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "a.jhist").write_text("hello")
    (tmp_path / "tez-dag.pb").write_text("hello")
    good = str(next((DATA / "histories").glob("*SUCCEEDED*.jhist")))
    words = [str(tmp_path / "a.jhist"), str(tmp_path / "tez-dag.pb")]
    said = cli(["dags", "import", *words, good])
    assert [json.loads(line)["stages"][0]["name"] for line in said.out.splitlines()] == ["map"]
    assert "a.jhist: begins with b'hello'" in said.err
    assert "tez-dag.pb: no DAGPlan of Tez's" in said.err
    assert "3 sources: 1 DAG, 0 of jobs that did not succeed, 2 that could not be used" in said.err
    cli(["dags", "import", *words], 1)
    (tmp_path / "empty").mkdir()
    cli(["dags", "import", str(tmp_path / "empty")], 1)
    small = cli(["dags", "import", good, "--capacity", "memory-mb=100,vcores=1"], 1).err
    assert "stage 0: a task needs 256 of memory-mb, a machine has 100; give larger machines" in small


def test_a_submitted_plan_is_imported(cli: Cli, store: str) -> None:
    plan = str(DATA / "dags" / "tez-dag.pb")
    assert "vertex scan: the number of its tasks is open" in cli(["dags", "import", plan, "--duration-ms", "5"], 1).err
    cli(["profiles", "import", str(DATA / "histories"), "--store", store, "--trust-names"])
    cli(["dags", "import", plan, "--duration-ms", "5", "--store", store], 1)


def predicted(cli: Cli, *words: str) -> dict[str, Any]:
    said = cli(["dags", "predict", "Nightly Load #7", "--user", "ann", *words])
    assert "nightly load: of 2 runs 2 alike" in said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_the_next_run_is_predicted(cli: Cli, store: str) -> None:
    found = predicted(cli, "--store", store)
    assert [(one["tasks"], one["duration_ms"], one["parents"]) for one in found["stages"]] == [
        (3, 2000, []),
        (3, 2000, [0]),
    ]
    found = predicted(cli, "--store", store, "--input-bytes", "3000")
    assert [(one["tasks"], one["duration_ms"]) for one in found["stages"]] == [(9, 2000), (3, 6000)]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["predict", "x"], "which store? --store FILE, or TREADLE_PROFILES"),
        (["predict", "x", "--store", "/dev/null/x"], "store of profiles /dev/null/x"),
        (["predict", "x", "--capacity", "cpu"], "--capacity: 'cpu'; give RESOURCE=AMOUNT"),
        (["predict", "x", "--demand", "cpu=-1"], "--demand: 'cpu=-1'; give RESOURCE=AMOUNT"),
        (["import", "/dev/null/x"], "/dev/null/x: Not a directory; check the path"),
    ],
)
def test_a_mistake_is_reported(words: list[str], problem: str, cli: Cli) -> None:
    assert problem in cli(["dags", *words], 2).err


def test_an_unknown_job_is_reported(cli: Cli, store: str) -> None:
    said = cli(["dags", "predict", "nobody", "--store", store], 2).err
    assert "knows no job 'nobody'; `treadle profiles list` shows the names" in said
