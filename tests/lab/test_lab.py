"""The laboratory: rows, cells that are kept, draws of `treadle lab gains`, and where its command is listed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli import main
from treadle.dag import Dag, Stage
from treadle.shipped import about
from treadle.simulate.comparison import FEW
from treadle.workload.clusters import google_jobs
from treadle.workload.job import Job, arranged
from treadle_lab.gains.cell import (
    BASELINE,
    ONE_QUEUE,
    READY_MADE,
    REFERENCES,
    Simulated,
    bound_ms,
    fair_finish,
    file_of,
    finish_tags,
    names_at,
    quick,
    srpt_mean,
    whole,
)
from treadle_lab.gains.page import BUILDING_BLOCK, MEAN, ON_PAGE, Results, findings, rows_from, shown_by
from treadle_lab.gains.workloads import (
    BLOCK_MS,
    FIRST_SEED,
    HALF_MS,
    POINTS,
    exchanged,
    facebook,
    google_half,
    google_window,
    machines_for,
    queries,
)
from treadle_lab.harness.data import GOOGLE, given_or_default
from treadle_lab.harness.runs import RunSettings, run_all
from treadle_lab.plots import intervals, lines
from treadle_lab.rows import Row, Table, as_document, json_text, markdown, referred, rows_of

ROOT = Path(__file__).resolve().parents[2]
CLI = ROOT / "python" / "treadle_lab" / "cli"
KEPT = ROOT / "docs" / "results" / "kept" / "gains.json"


def test_the_wheel_has_no_laboratory() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["python/treadle"]


def test_lab_is_a_command_where_its_package_lies_beside_treadle(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    assert "  lab " in cli(["--help"]).out
    assert main.run(["lab", "gains", "--help"]) == 0
    monkeypatch.setattr(main, "LABORATORY", "not_beside")
    assert "  lab " not in cli(["--help"]).out


def test_every_command_has_help_without_the_engine_and_only_what_draws_imports_matplotlib() -> None:
    """It is an extra: commands that draw nothing work without, so that no file imports it at the top."""
    groups = ["lab", "lab bench", "lab reproduce"]
    rest = [*main.commands(CLI), *(f"lab {name}" for name in main.commands(CLI / "lab"))]
    code = (
        "import importlib, pkgutil, sys, treadle_lab\n"
        "from treadle.cli.main import run\n"
        "heavy = {'numba', 'numpy', 'requests', 'matplotlib', 'py4j'}\n"
        f"for name in {[*groups, *sorted(set(rest) - {*groups})]}:\n"
        "    assert run([*name.split(), '--help']) == 0, name\n"
        f"    assert not (heavy if name in {groups} else {{'numba'}}) & set(sys.modules), name\n"
        "for file in pkgutil.walk_packages(treadle_lab.__path__, 'treadle_lab.'):\n"
        "    importlib.import_module(file.name)\n"
        "    assert 'matplotlib' not in sys.modules, file.name"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=300)
    assert done.stderr == ""


@pytest.mark.parametrize("group", ["lab", "lab/reproduce", "lab/bench"])
def test_a_group_of_files_lists_its_commands(group: str, cli: Cli) -> None:
    out = cli([*group.split("/"), "--help"]).out
    listed = main.commands(CLI / group)
    assert len(listed) > 2
    for name, summary in listed.items():
        assert summary, f"the first line of cli/{group}/{name}.py is no summary"
        assert f"  {name} " in out


ROWS = [
    Row("mean", "fair", "load 0.9", 51, 100.0, "s", 100.0),
    Row("mean", "srpt", "load 0.9", 51, 90.0, "s", 100.0),
    Row("mean", "srpt", "load 0.9", 52, 80.0, "s", None),
    Row("late", "srpt", "load 0.9", 51, 0.25, "1", None),
]


def test_rows_are_what_they_were_after_json() -> None:
    assert set(rows_of(as_document(ROWS))) == set(ROWS)
    assert set(rows_of(as_document(ROWS, "fair"))) == set(ROWS)
    divided = [replace(row, over=row.value + 1.0) for row in ROWS]
    assert set(rows_of(as_document(divided))) == set(divided)


def test_references_are_the_values_of_the_baseline_on_the_same_draw() -> None:
    assert [row.reference for row in referred(ROWS, "fair")] == [100.0, 100.0, None, None]


@dataclass(frozen=True)
class Square:
    number: int

    @property
    def key(self) -> str:
        return f"square-{self.number}"

    @property
    def title(self) -> str:
        return f"square of {self.number}"

    def run(self) -> dict[str, Any]:
        CALLED.append(self.number)
        return {"square": self.number**2}


CALLED: list[int] = []


def test_runs_that_are_kept_do_not_run_again(tmp_path: Path) -> None:
    CALLED.clear()
    settings = RunSettings(tmp_path / "cache", 1)
    squares = [Square(number) for number in (2, 3, 4)]
    run_all(squares[:2], settings, None)
    found = run_all(squares, settings, None)
    assert [each["square"] for each in found] == [4, 9, 16]
    assert CALLED == [2, 3, 4]


def test_a_cell_goes_by_its_policy_its_seed_and_a_trace_s_window() -> None:
    google, spark = "Google 2011: load 0.95", "Spark TPC-H: load 0.9, unlimited, idle 60 s"
    keys = [
        Simulated(google, "fair", 51, 6.0).key,
        Simulated(google, "fair", 52, 6.0).key,
        Simulated(google, "srpt", 51, 6.0).key,
        Simulated(google, "fair", 51, 4.0).key,
        Simulated(google.replace("0.95", "0.8"), "fair", 51, 6.0).key,
    ]
    assert len(set(keys)) == len(keys)
    assert Simulated(spark, "fair", 51, 6.0).key == Simulated(spark, "fair", 51, 4.0).key


def test_gains_draws_from_seed_51_on_and_from_the_second_half_of_google_s_day() -> None:
    assert {cell.seed for plan in (quick(), whole()) for cell in plan.cells()} == set(range(51, 61))
    for tuning in (0, 1, FIRST_SEED - 1):
        with pytest.raises(ValueError, match="for tuning"):
            google_window(tuning, 1.0)
        with pytest.raises(ValueError, match="for tuning"):
            facebook(tuning, 2009, 0.9, 20)
    late = {str(row.id) for row in google_jobs(given_or_default(None, GOOGLE, print)) if row.submit_ms >= HALF_MS}
    assert {job.id for job in google_half()} <= late
    window = google_window(FIRST_SEED, 4.0)
    assert {job.id for job in window} <= late
    assert len({job.id for job in window}) == len(window) > 500


def test_whole_jobs_change_places_within_two_hours() -> None:
    jobs = google_half()
    found = exchanged(jobs, np.random.default_rng(1))
    assert [job.arrival_ms for job in found] == [job.arrival_ms for job in jobs]
    was = {job.id: job for job in jobs}
    assert all(job.arrival_ms // BLOCK_MS == was[job.id].arrival_ms // BLOCK_MS for job in found)
    assert all(job.dag is was[job.id].dag for job in found)
    assert [job.id for job in found] != [job.id for job in jobs]


def test_machines_bring_the_load() -> None:
    stage = Stage(0, 10, 60_000, {"memory-mb": 1024, "vcores": 4})
    jobs = [Job(str(at), 6_000 * at, Dag("one", (stage,))) for at in range(101)]
    # 101 x 10 x 4 cores for 60 s in 600 s: 404 cores on average, 12.6 machines of 32
    assert machines_for(jobs, 1.0) == 13
    assert machines_for(jobs, 0.5) == 25


def test_spark_and_tez_get_the_same_queries() -> None:
    from treadle.workload.job import Framework

    capacity = {"vcores": 320.0}
    spark, tez = (queries(51, 20, 0.9, capacity, framework) for framework in (Framework.SPARK, Framework.TEZ))
    assert [(job.id, job.arrival_ms) for job in spark.jobs] == [(job.id, job.arrival_ms) for job in tez.jobs]


def test_every_ready_made_policy_is_compared() -> None:
    folder = ROOT / "conf" / "policies"
    assert {file.stem for file in folder.glob("*.yaml")} == set(READY_MADE)
    run_somewhere = {cell.policy for cell in whole().cells()}
    assert set(READY_MADE) - run_somewhere == {"mapreduce-workers", "slearn-history"}, "one of several; needs a store"


def test_srpt_of_pooled_work_serves_the_least_left_first() -> None:
    # 10 runs from 0, at 2 one of 3 passes it until 5, then 8 are left
    assert srpt_mean([0.0, 2.0], [10.0, 3.0]) == (13.0 + 3.0) / 2
    assert srpt_mean([0.0, 100.0], [10.0, 3.0]) == (10.0 + 3.0) / 2


def test_fair_sharing_ends_jobs_in_the_order_of_their_tags() -> None:
    # 10 alone until 4: 6 left; 2 ends at 8 with 4 left; 7 comes at 8
    tags = finish_tags([0.0, 4.0, 8.0], [10.0, 2.0, 7.0])
    assert sorted(range(3), key=tags.__getitem__) == [1, 0, 2]
    stage = Stage(0, 1, 10_000, {"vcores": 1})
    jobs = [
        Job("long", 0, Dag("a", (stage, Stage(1, 1, 90_000, {"vcores": 1}, (0,))))),
        Job("short", 1, Dag("b", (stage,))),
    ]
    ranked = fair_finish(arranged(jobs), {"vcores": 1.0})
    assert ranked.jobs[1].priority > ranked.jobs[0].priority


def test_the_bound_is_the_larger_of_pooled_work_and_longest_paths() -> None:
    wide = Stage(0, 40, 10_000, {"vcores": 1})
    jobs = arranged([Job("a", 0, Dag("a", (wide,))), Job("b", 1, Dag("b", (wide,)))])
    assert bound_ms(jobs, {"vcores": 1.0}) == pytest.approx((400_000 + 800_000) / 2, rel=1e-5)
    assert bound_ms(jobs, {"vcores": 1000.0}) == 10_000.0


def test_a_cell_has_figures_and_the_baseline_s_has_the_bound() -> None:
    cell = Simulated("GPU tenant: satisfied", BASELINE, FIRST_SEED, 1.0)
    found = cell.run()
    assert len(found["completion_ms"]) == 15
    assert 0 < found["bound_s"] <= found["figures"][MEAN]
    assert 0 < found["share_deviation"] < 1
    slower = found | {"completion_ms": [2 * each for each in found["completion_ms"]]}
    rows = rows_from([cell, Simulated(cell.x, "srpt", FIRST_SEED, 1.0)], [found, slower])
    results = Results(rows)
    assert results.values(cell.x, "srpt", "jobs over 10 % later") == {FIRST_SEED: 1.0}
    assert results.series(cell.x) == ["fair", "srpt", "bound"]
    assert {row.reference for row in rows if row.figure == MEAN} == {found["figures"][MEAN]}


@pytest.mark.slow
def test_policies_that_are_left_out_decide_as_those_that_run() -> None:
    """With one queue, no MapReduce, no constraints and no store."""
    x = "Tez TPC-H: load 0.7"
    same = ONE_QUEUE | {"mapreduce-workers": "capacity", "phoenix": "srpt", "slearn-history": "slearn"}
    assert set(READY_MADE) - set(names_at(POINTS[x])) == set(same)
    ran = {name: Simulated(x, name, FIRST_SEED, 1.0).run()["completion_ms"] for name in {*same, *same.values()}}
    assert {name: ran[name] for name in same} == {name: ran[other] for name, other in same.items()}


def test_renderers_write_markdown_and_json() -> None:
    assert markdown(Table("t", ("a", "b"), [("1", "2")])) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    assert set(rows_of(json.loads(json_text({"day": 1} | as_document(ROWS))))) == set(ROWS)


def test_plots_of_equal_rows_are_equal_files(tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.figure == "mean"]
    for draw in (lines, intervals):
        draw(rows, tmp_path / "one.svg")
        draw(rows, tmp_path / "two.svg")
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_page_is_what_the_kept_rows_say(tmp_path: Path) -> None:
    kept = (ROOT / "docs" / "gains.md").read_text("utf-8")
    emptied = re.sub(r"(gains: \w+ -->)\n\n.*?<!-- to here", r"\1\n<!-- to here", kept, flags=re.DOTALL)
    page = written(tmp_path / "gains.md", emptied)
    assert page.read_text("utf-8").count("| --- |") == 0
    assert main.run(["lab", "gains", "--from", str(KEPT), "--page", str(page)]) == 0
    assert page.read_text("utf-8") == kept
    assert set(re.findall(r"gains: (\w+) -->", kept)) == set(ON_PAGE)


def test_a_policy_s_file_names_the_row_that_shows_it_or_is_a_building_block() -> None:
    results = Results(rows_of(json.loads(KEPT.read_text("utf-8"))))
    for policy in READY_MADE:
        own = about(file_of(policy))
        if own["evidence"] == BUILDING_BLOCK:
            wins = [x for x in results.xs if _decided(results, x, policy)]
            assert wins == [], f"{policy}: name one of these rows"
        elif policy != BASELINE:
            found = shown_by(results, policy, own)
            assert found is not None, f"{policy}: the kept rows have no {own['evidence']}"
            assert found.word == "less", policy


def _decided(results: Results, x: str, policy: str) -> bool:
    found = results.verdict(x, policy, MEAN)
    return found.word == "less" and found.draws >= FEW


def test_a_policy_is_judged_by_whole_intervals_against_the_best_stock_order() -> None:
    def words(policy: dict[int, float], asked: str) -> set[str]:
        series = {"fair": {1: 10.0, 2: 10.0, 3: 10.0}, "fifo": {1: 20.0, 2: 20.0, 3: 20.0}, "mine": policy}
        series |= {name: {1: 8.0, 2: 8.0, 3: 8.0} for name in REFERENCES}
        rows = [
            Row(figure, name, "GPU tenant: satisfied", draw, value, "s")
            for name, values in series.items()
            for draw, value in values.items()
            for figure in (MEAN, "bounded slowdown, mean", "wait, mean")
        ]
        found = findings(Results(rows), "mine", [])
        return {each.word for each in found if each.asked == asked}

    assert words({1: 8.0, 2: 8.0, 3: 8.1}, "stock") == {"passed"}
    assert words({1: 8.0, 2: 12.0, 3: 9.0}, "stock") == {"undecided"}
    assert words({1: 11.0, 2: 11.0, 3: 11.1}, "stock") == {"failed"}
    assert words({1: 8.0, 2: 8.0, 3: 8.1}, "gap") == {"passed"}
    assert words({1: 9.5, 2: 9.5, 3: 9.5}, "gap") == {"failed"}


def test_a_policy_gets_a_verdict_on_each_bullet(tmp_path: Path, cli: Cli) -> None:
    document = json.loads(KEPT.read_text("utf-8"))
    document["rows"] = [group for group in document["rows"] if "GPU" in group["x"]]
    kept = written(tmp_path / "gpu.json", json.dumps(document))
    said = cli(["lab", "gains", "--from", str(kept), "--policy", "srpt"]).out
    assert "behind fair on Spark" in said and "failed" in said
    assert main.run(["lab", "gains", "--from", str(kept), "--policy", "no-such"]) == 2


def test_a_file_that_is_not_of_rows_is_refused(tmp_path: Path, cli: Cli) -> None:
    other = tmp_path / "other.json"
    other.write_text("[]")
    assert f"--from: {other}: not rows of --out" in cli(["lab", "gains", "--from", str(other)], 2).err
