"""docs/simulate-from-python.md: what stands in its boxes runs; and what holds for batches of runs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.cli import Cli
from tests.support.documents import files_of
from tests.support.files import written

from treadle.cli.main import run as command
from treadle.errors import UserError, install_extra
from treadle.plots import styles
from treadle.simulate import Scenario, simulate, simulate_all, slowdowns_of, write_tables
from treadle.simulate.comparison import pairs_of

PAGE = Path(__file__).parents[3] / "docs" / "simulate-from-python.md"
SLOT = {"memory-mb": 1024, "vcores": 1}
SMALL = {
    "cluster": {"nodes": [{"count": 2, "resources": {"memory-mb": 4096, "vcores": 4}}]},
    "queues": {"a": {}, "b": {}},
    "workload": {
        "jobs": [
            {"queue": "a", "count": 3, "gap_s": 2, "stages": [{"tasks": 12, "duration_s": 5, "demand": SLOT}]},
            {"queue": "b", "arrival_s": 1, "stages": [{"tasks": 6, "duration_s": 5, "demand": SLOT}]},
        ]
    },
    "stragglers": {"probability": 0.3},
}


def test_the_boxes_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(PAGE)
    assert list(files) == ["one_run.py", "seeds.py", "own_jobs.py"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in files:
        exec(compile(files[name], name, "exec"), {"__name__": "__main__"})
    sys.modules.pop("one_run", None)
    said = capsys.readouterr().out
    assert "40 jobs, " in said
    assert "capacity over srpt: " in said
    assert sorted(file.name for file in (tmp_path / "tables").iterdir()) == [
        "jobs.csv",
        "nodes.csv",
        "pairs.csv",
        "queues.csv",
        "runs.csv",
        "slowdowns.csv",
    ]


def test_processes_give_the_same_as_one(tmp_path: Path) -> None:
    scenario = Scenario.of(SMALL)
    alone = simulate_all(scenario, ["fifo"], seeds=2)
    together = simulate_all(scenario, ["fifo"], seeds=2, jobs=2)
    for one, two in zip(alone, together, strict=True):
        assert (one.policy, one.seed) == (two.policy, two.seed)
        for table in ("jobs", "tasks", "nodes", "queues"):
            assert getattr(one, table).tolist() == getattr(two, table).tolist()
    assert alone[0].tasks["end_ms"].tolist() != alone[1].tasks["end_ms"].tolist()


def test_policies_are_compared_job_by_job(tmp_path: Path) -> None:
    runs = simulate_all(Scenario.of(SMALL), ["capacity", "srpt"], seeds=[4, 5])
    assert [(run.policy, run.seed) for run in runs] == [("capacity", 4), ("srpt", 4), ("capacity", 5), ("srpt", 5)]
    (pair,) = pairs_of(runs)
    by = {name: [run.completion_s.mean() for run in runs if run.policy == name] for name in ("capacity", "srpt")}
    assert pair.jobs == 8
    assert pair.ratio.mean == pytest.approx(np.mean(by["capacity"]) / np.mean(by["srpt"]))
    assert pair.ratio.low <= pair.ratio.mean <= pair.ratio.high
    groups = {(each.policy, each.by, each.group): each for each in slowdowns_of(runs)}
    assert groups[("srpt", "size", "11 to 100")].jobs == 6
    assert groups[("srpt", "queue", "b")].jobs == 2
    assert groups[("srpt", "all", "all")].completion_mean_s.mean == pytest.approx(np.mean(by["srpt"]))
    assert ("srpt", "size", "over 1,000") not in groups
    files = write_tables(runs, tmp_path, tasks=True)
    rows = list(csv.DictReader(files[1].read_text().splitlines()))
    assert len(rows) == 16
    assert {row["queue"] for row in rows} == {"a", "b"}
    assert len((tmp_path / "tasks.csv").read_text().splitlines()) == 1 + 4 * 42


def test_what_goes_wrong_is_an_exception(tmp_path: Path) -> None:
    scenario = Scenario.of(SMALL)
    with pytest.raises(UserError, match="did you mean hdrf"):
        simulate(scenario, "hdfr")
    with pytest.raises(UserError, match="two are called 'hdrf'"):
        simulate_all(scenario, ["hdrf", "hdrf"])
    big = {"jobs": [{"queue": "a", "stages": [{"tasks": 1, "duration_s": 1, "demand": {"vcores": 5}}]}]}
    waits = Scenario.of(SMALL | {"workload": big, "decision": {"idle_ms": 120_000}})
    with pytest.raises(UserError, match="1 job of 1 can never run"):
        simulate(waits)
    assert simulate(waits, allow_impossible=True).jobs["state"].tolist() == ["waiting"]
    (tmp_path / "bad.py").write_text("class Bad:\n    def keys(self, view):\n        return 1 / 0\n")
    (tmp_path / "bad.yaml").write_text("policy: {order: {kind: file, path: bad.py, class: Bad}}\n")
    with pytest.raises(UserError, match="ZeroDivisionError"):
        simulate(scenario, tmp_path / "bad.yaml")


RUN: Any = simulate
RUN_ALL: Any = simulate_all


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda scenario: RUN("x.yaml", "hdrf"), "scenario: 'x.yaml' is not a treadle.simulate.Scenario"),
        (lambda scenario: RUN_ALL("x.yaml", ["hdrf"]), "scenario: 'x.yaml' is not a treadle.simulate.Scenario"),
        (lambda scenario: RUN(scenario.with_jobs(lambda seed: 5)), "with_jobs: int is not a treadle.simulate.Workl"),
        (lambda scenario: RUN(scenario.with_jobs([])), "with_jobs: list is not a treadle.simulate.Workload"),
        (lambda scenario: RUN(scenario, "hdrf", seed=1.5), "seed: 1.5 is not a whole number"),
        (lambda scenario: RUN(scenario, "hdrf", seed=-1), "seed: -1; write a whole number from 0"),
        (lambda scenario: RUN_ALL(scenario, ["hdrf"], seeds=0), "seeds: 0; write how many seeds, at least 1"),
        (lambda scenario: RUN_ALL(scenario, ["hdrf"], seeds=-3), "seeds: -3; write how many seeds, at least 1"),
        (lambda scenario: RUN_ALL(scenario, ["hdrf"], seeds=[]), "seeds: there is none"),
        (lambda scenario: RUN_ALL(scenario, ["hdrf"], seeds=[1, "2"]), "seed: '2' is not a whole number"),
        (lambda scenario: RUN_ALL(scenario, ["hdrf"], seeds=2.0), "seeds: 2.0 is not a whole number"),
    ],
)
def test_an_argument_of_another_kind_is_named(call: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(UserError) as error:
        call(Scenario.of(SMALL))
    assert told in str(error.value)


def test_results_are_drawn_again_without_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps(SMALL))
    out, plots = tmp_path / "out.json", tmp_path / "plots"
    arguments = ["simulate", str(tmp_path / "s.yaml"), "--policy=fifo", "--policy=fair", "--seed=4", "--seeds=2"]
    results = (f"--out={out}", f"--csv={tmp_path / 'csv'}", f"--plot={plots}")
    assert command([*arguments, "--verbose", *results, "--plot-format=svg", "--plot-format=pdf"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "queue b" in said
    assert "fifo │ fair" in said
    document = json.loads(out.read_text())
    assert [row["group"] for row in document["slowdowns"] if row["policy"] == "fair"] == [
        "all",
        "1 to 10 tasks",
        "11 to 100",
        "a",
        "b",
    ]
    assert [run["seed"] for run in document["runs"]] == [4, 4, 5, 5]
    drawn = {file.name: file.read_bytes() for file in plots.iterdir()}
    assert len(drawn) == 8
    assert b">fair<" in drawn["completion-times.svg"]
    capsys.readouterr()
    assert command([*arguments, f"--plot={plots}", "--plot-format=gif"]) == 2
    assert "'gif' is none of png, pdf, svg" in capsys.readouterr().err


def test_lines_differ_by_dashes_as_well_as_colour() -> None:
    first = [style for style, _ in zip(styles(), range(32), strict=False)]
    assert len({(style["color"], style["linestyle"]) for style in first}) == 32
    assert all(one["linestyle"] != two["linestyle"] for one, two in pairwise(first))


def test_tables_as_parquet_have_what_the_csv_ones_have(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    runs = simulate_all(Scenario.of(SMALL), ["fifo"], seeds=2)
    files = write_tables(runs, tmp_path, format="parquet")
    assert sorted(file.name for file in files) == [
        f"{name}.parquet" for name in ("jobs", "nodes", "pairs", "queues", "runs", "slowdowns")
    ]
    jobs = parquet.read_table(tmp_path / "jobs.parquet").to_pylist()
    assert len(jobs) == 8
    assert jobs[0]["end_ms"] == runs[0].jobs["end_ms"][0]
    assert jobs[0]["tags"] == []
    with (write_tables(runs, tmp_path)[0].parent / "runs.csv").open(encoding="utf-8") as stream:
        names = next(csv.reader(stream))
    assert parquet.read_table(tmp_path / "runs.parquet").column_names == names


def test_parquet_without_its_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    file = written(tmp_path / "scenario.yaml", json.dumps(SMALL))
    error = cli(["simulate", str(file), "--parquet", str(tmp_path / "tables")], 2).err
    assert f"--parquet: needs pyarrow; {install_extra('parquet')}" in error
    with pytest.raises(UserError, match="needs pyarrow"):
        write_tables([], tmp_path, format="parquet")
