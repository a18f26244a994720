"""`treadle sweep`: which runs there are, what is kept, what failed, what is said of mistakes."""

from __future__ import annotations

import json
import multiprocessing
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml
from tests.support.cli import Cli
from tests.support.ctrl_c import command_of, interrupted
from tests.support.files import written
from tests.support.mortal import Mortal, live_or_die
from tests.support.waiting import eventually

import treadle
from treadle.cli.main import run
from treadle.config.reader import read_settings
from treadle.errors import ConfigError, UserError, install_extra
from treadle.policy.catalogue import register_parts
from treadle.sources import digest
from treadle.sweep import runs, spark, worker
from treadle.sweep.plan import Inputs, Plan, Range, axis_of, drawn, grid, plan_of, read_sweep, with_settings
from treadle.sweep.report import pareto
from treadle.sweep.runs import Line, ResultCache, run_line, run_locally
from treadle.sweep.spark import archive_of_package

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "sweep"
TINY = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}, b: {}}
workload:
  jobs:
    - {queue: a, count: 3, gap_s: 1, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
    - {queue: b, count: 2, gap_s: 2, stages: [{tasks: 2, duration_s: 3, demand: {memory-mb: 1024, vcores: 1}}]}
stragglers: {probability: 0.3}
report: {window_s: 5}
"""
SWEEP = """\
scenarios: [{scenario: tiny.yaml, set: {cluster.nodes.0.count: [1, 2]}}]
policies: [fifo, {policy: srpt, set: {policy.estimate.default_ms: [1000, 30000]}}]
seeds: 2
"""
OWN = "class Odd:\n    def keys(self, view):\n        return {}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    return tmp_path


def planned(folder: Path, text: str) -> Plan:
    (folder / "sweep.yaml").write_text(text, encoding="utf-8")
    file = folder / "sweep.yaml"
    return plan_of(read_sweep(file), file, Inputs(ResultCache(folder / "kept").files), trust_code=True)


def sweep(folder: Path, *options: str) -> list[str]:
    return ["sweep", str(folder / "sweep.yaml"), "--processes", "1", *options]


def test_a_grid_has_every_combination_and_a_kept_run_does_not_run_again(folder: Path, cli: Cli) -> None:
    out, best, plots = folder / "out.json", folder / "best.yaml", folder / "plots"
    said = cli(sweep(folder, f"--out={out}", f"--best={best}", f"--plot={plots}", "--plot-format=svg"))
    assert "12 runs, 0 of them done before" in said.err
    assert "runs" not in said.out.splitlines()[0]
    found = json.loads(out.read_text())
    assert [(each["scenario"], each["policy"]) for each in found["points"]] == [
        (f"tiny count={count}", policy)
        for count in (1, 2)
        for policy in ("fifo", "srpt default_ms=1000", "srpt default_ms=30000")
    ]
    for point in found["points"]:
        values = [
            each["figures"]["completion_mean_s"]
            for each in found["runs"]
            if (each["scenario"], each["policy"]) == (point["scenario"], point["policy"])
        ]
        assert point["seeds"] == [1, 2]
        assert point["figures"]["completion_mean_s"]["mean"] == pytest.approx(np.mean(values))
    one = next(each for each in found["points"] if each["scenario"] == "tiny count=1")
    two = next(each for each in found["points"] if each["scenario"] == "tiny count=2")
    assert two["figures"]["completion_mean_s"]["mean"] < one["figures"]["completion_mean_s"]["mean"]
    register_parts()
    chosen = read_settings(best).policy.estimate.parameters
    assert f"default_ms={getattr(chosen, 'default_ms', 0)}" in found["best"] or found["best"] == "fifo"
    assert sorted(file.name for file in plots.iterdir()) == ["pareto-1.svg", "pareto-2.svg"]
    again = folder / "again.json"
    assert "12 runs, 12 of them done before" in cli(sweep(folder, f"--out={again}")).err
    assert again.read_bytes() == out.read_bytes()


def test_a_policy_with_a_part_that_has_nothing_to_go_by_is_warned_of_once(folder: Path, cli: Cli) -> None:
    text = "scenarios: [tiny.yaml]\npolicies: [{policy: hdrf, set: {policy.order.kind: [fifo, srpt]}}]\nseeds: 2\n"
    (folder / "sweep.yaml").write_text(text)
    said = cli(sweep(folder, "-o", "json")).err
    assert said.count("warning:") == 1
    assert "warning: hdrf order=srpt: policy.order (srpt) needs durations, and policy.estimate (none) has" in said


def test_a_run_depends_on_what_is_in_the_files_that_it_names(folder: Path) -> None:
    def keys() -> set[str]:
        return {each.line.key for each in planned(folder, text).runs}

    text = "scenarios: [tiny.yaml]\npolicies: [fifo, mine.yaml]\nseeds: [3]\n"
    (folder / "mine.yaml").write_text("policy: {order: {kind: file, path: odd.py, class: Odd}}\n")
    (folder / "odd.py").write_text(OWN.format("view.applications['submit_time_ms']"))
    first = keys()
    assert len(first) == 2
    assert keys() == first
    (folder / "odd.py").write_text(OWN.format("-view.applications['submit_time_ms']"))
    second = keys()
    assert len(first & second) == 1
    (folder / "tiny.yaml").write_text(TINY.replace("tasks: 6", "tasks: 7"))
    assert not keys() & (first | second)


ENGINES = """\
engines:
  mine: {select: {queues: [root.a]}, policy: {order: {kind: file, path: odd.py, class: Odd}}}
  rest: {}
"""


def test_parts_of_a_scenarios_engines_are_read_from_copies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the command is called; when the part's file changes the runs are others."""
    (folder / "tiny.yaml").write_text(TINY + ENGINES)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    text = "scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 1\n"
    own = OWN.format("view.applications['submit_time_ms']")
    (folder / "odd.py").write_text(own)
    first = planned(folder, text).runs[0].line
    (folder / "odd.py").write_text(own.replace("return ", "return -"))
    assert planned(folder, text).runs[0].line.key != first.key
    (folder / "odd.py").unlink()
    (done,) = runs.run_locally([first], partial(run_line, files=folder / "kept" / "files"), 1)
    assert not done.failed, done.result


def test_a_mistake_in_a_scenarios_engines_names_the_scenario(folder: Path) -> None:
    (folder / "odd.py").write_text("class Other:\n    pass\n")
    (folder / "tiny.yaml").write_text(TINY + ENGINES)
    with pytest.raises(UserError, match=r"^fifo: tiny: engines\.mine\.policy\.order"):
        planned(folder, "scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 1\n")


def test_a_folder_of_runs_by_a_relative_path_is_in_no_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that results are the same bytes wherever they were made."""
    monkeypatch.chdir(folder)
    (folder / "jobs.py").write_text("def jobs(seed):\n    raise RuntimeError(__file__)\n")
    (folder / "tiny.yaml").write_text(TINY.partition("workload:")[0] + "workload: {own: {file: jobs.py}}\n")
    plan = planned(folder, "scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 1\n")
    (done,) = runs.run_locally([plan.runs[0].line], partial(run_line, files=Path("kept/files")), 1)
    assert str(folder) not in json.loads(done.result)["failure"]


def test_a_workload_is_read_from_a_copy(folder: Path) -> None:
    job = {"id": "j", "arrival_ms": 0, "queue": "a"}
    stage = {"id": 0, "tasks": 2, "duration_ms": 10, "demand": {"memory-mb": 1024}}
    jobs = written(folder / "jobs.jsonl", json.dumps(job | {"stages": [stage]}))
    (folder / "tiny.yaml").write_text(TINY.partition("workload:")[0] + "workload: {file: jobs.jsonl}\n")
    plan = planned(folder, "scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 1\n")
    jobs.unlink()
    (done,) = runs.run_locally([plan.runs[0].line], partial(run_line, files=folder / "kept" / "files"), 1)
    assert not done.failed
    assert json.loads(done.result)["figures"]["tasks"] == 2


def test_what_fails_is_kept_apart_and_reported(folder: Path, cli: Cli) -> None:
    (folder / "mine.yaml").write_text("policy: {order: {kind: file, path: odd.py, class: Odd}}\n")
    (folder / "odd.py").write_text(
        OWN.format("view.applications['submit_time_ms'] / (1 if len(view.applications) < 3 else int('no'))")
    )
    (folder / "sweep.yaml").write_text("scenarios: [tiny.yaml]\npolicies: [fifo, mine.yaml]\nseeds: 2\n")
    out = folder / "out.json"
    said = cli(sweep(folder, "--trust-code", f"--out={out}"), 1).err
    assert f"wrote {out}" in said
    assert "failed: tiny, mine, seed 1:" in said
    assert "ValueError: invalid literal" in said
    assert "2 runs of 4 failed" in said
    found = json.loads(out.read_text())
    assert [(each["policy"], each["seed"]) for each in found["failures"]] == [("mine", 1), ("mine", 2)]
    assert str(folder) not in out.read_text()
    assert found["best"] == "fifo"
    assert [each["pareto"] for each in found["points"]] == [True, False]
    assert len(list((folder / "sweep.runs" / "failed").rglob("*.json"))) == 2
    (folder / "odd.py").write_text(OWN.format("view.applications['submit_time_ms']"))
    assert "4 runs, 2 of them done before" in cli(sweep(folder, "--trust-code", f"--out={out}")).err


def test_jobs_that_can_never_run_fail_their_runs_alone(folder: Path, cli: Cli) -> None:
    vary = "set: {cluster.nodes.0.resources.memory-mb: [512, 4096]}"
    (folder / "sweep.yaml").write_text(f"scenarios: [{{scenario: tiny.yaml, {vary}}}]\npolicies: [fifo]\nseeds: 1\n")
    said = cli(sweep(folder), 1)
    assert "can never run" in said.err
    assert "1 run of 2 failed" in said.err
    assert "Under every setting a run failed: there is no best one." in said.out
    assert "there is no Pareto front" not in said.err


def test_a_bound_that_no_setting_keeps_is_the_reason_for_no_best_one(folder: Path, cli: Cli) -> None:
    text = "scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 1\nshare_deviation_max: 0\n"
    document = yaml.safe_load(TINY) | {"queues": {"a": {"capacity": 70}, "b": {"capacity": 30}}}
    document["workload"]["jobs"][1] |= {"count": 5, "gap_s": 0}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(document | {"report": {"window_s": 1}}))
    (folder / "sweep.yaml").write_text(text)
    said = cli(sweep(folder, "--best", str(folder / "best.yaml")), 1)
    assert "No setting that ran everywhere keeps to share_deviation_max (0)" in said.out
    assert "reading compiled code" in said.err
    assert not (folder / "best.yaml").exists()


def test_a_random_search_draws_each_point_once_and_the_same_ones_again(folder: Path) -> None:
    text = """\
scenarios: [tiny.yaml]
policies:
  - fifo
  - policy: srpt
    set:
      policy.estimate.default_ms: {integers: [1, 4]}
      policy.fit: [{kind: first_fit}, {kind: packing}]
search: {kind: random, policies: 5, seed: 7}
seeds: 1
"""
    names = [each.name for each in planned(folder, text).policies]
    assert names == [each.name for each in planned(folder, text).policies]
    assert len(names) == len(set(names)) == 6
    assert names[0] == "fifo"
    assert names != [each.name for each in planned(folder, text.replace("seed: 7", "seed: 8")).policies]


def test_ranges_are_kept_to() -> None:
    ranges = {"a": {"uniform": [0.5, 2]}, "b": {"log_uniform": [1e-3, 10]}, "c": {"integers": [2, 3]}}
    points = list(drawn({name: axis_of(each) for name, each in ranges.items()}, 200, [1]))
    assert len(points) == 200
    for name, low, high in (("a", 0.5, 2.0), ("b", 1e-3, 10.0), ("c", 2, 3)):
        assert all(low <= point[name] <= high for point in points)
    assert {point["c"] for point in points} == {2, 3}
    assert 60 < sum(point["b"] < 0.1 for point in points) < 140
    assert isinstance(axis_of({"integers": [1, 2]}), Range)
    assert list(grid({"x": axis_of([1, 2]), "y": axis_of("z")})) == [{"x": 1, "y": "z"}, {"x": 2, "y": "z"}]
    assert len(list(drawn({"x": axis_of([1, 2])}, 5, [1]))) == 2


def test_settings_go_where_their_paths_lead() -> None:
    document = {"a": [{"b": 1}, {"b": 2}]}
    assert with_settings(document, {"a.1.b": 3, "c.d": 4}) == {"a": [{"b": 1}, {"b": 3}], "c": {"d": 4}}
    assert document == {"a": [{"b": 1}, {"b": 2}]}
    for path, told in (("a.2.b", "a is a list of 2; write a position from 0 to 1"), ("a.0.b.c", "has no c")):
        with pytest.raises(UserError, match=told):
            with_settings(document, {path: 1})


def test_the_front_has_what_no_other_is_better_than() -> None:
    assert pareto([(1, 5), (2, 4), (3, 4), (5, 1), (4, float("nan")), (2, 4)]) == {0, 1, 3, 5}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policies: [fifo]\n", "sweep.yaml:1: scenarios: is missing"),
        (SWEEP + "seed: 3\n", "sweep.yaml:4: seed: 'seed' is not one of"),
        (SWEEP.replace("seeds: 2", "seeds: 0"), "sweep.yaml:3: seeds: 0; write how many seeds"),
        (SWEEP.replace("[1, 2]", "[]"), "cluster.nodes.0.count: has no values"),
        (SWEEP.replace("[1, 2]", "{uniform: [2, 1]}"), "uniform: [2, 1]; write [LOW, HIGH]"),
        (SWEEP.replace("[1, 2]", "{integers: [1, 4]}"), "is a range, of which a grid has no values"),
        (SWEEP.replace("[1, 2]", "[1, 0]"), "tiny count=0: cluster.nodes.0.count: 0: it must be greater"),
        (SWEEP.replace("nodes.0", "nodes.1"), "cluster.nodes is a list of 1; write a position from 0 to 0"),
        (SWEEP.replace("default_ms", "defualt_ms"), "did you mean default_ms?"),
        (SWEEP.replace("tiny.yaml", "none.yaml"), "none.yaml: cannot be read"),
        (SWEEP.replace("srpt", "srtp"), "did you mean srpt?"),
        ("scenarios: [tiny.yaml, tiny.yaml]\npolicies: [fifo]\n", "scenarios: two are called 'tiny'"),
        ("scenarios: [tiny.yaml]\npolicies: [tree.yaml]\n", "tree: policy.share.tree: the tree names no leaf queue"),
        ("scenarios: [tiny.yaml]\npolicies: [bomb.yaml]\n", "bomb.yaml:1: policy.gate: is an alias"),
        ("just words", "is not a mapping"),
        ("scenarios: [5]\npolicies: [fifo]\n", "scenarios.0: 5; write a file, or {scenario: FILE"),
        ("scenarios: tiny.yaml\npolicies: [fifo]\n", "scenarios: 'tiny.yaml'; write a list: [...]"),
        ("scenarios: [{scenario: ''}]\npolicies: [fifo]\n", "scenarios.0.scenario: ''; write a file or a name"),
        (SWEEP + "1: 2\n", "sweep.yaml:4: 1: is not a key, since YAML does not read it as a text"),
        (SWEEP.replace("srpt,", "srpt, 2: 3,"), "sweep.yaml:2: policies.1.2: is not a key, since YAML"),
        (SWEEP.replace("cluster.nodes.0.count:", "7:"), "sweep.yaml:1: scenarios.0.set.7: is not a key, since YAML"),
        (SWEEP.replace("{cluster.nodes.0.count: [1, 2]}", "[1]"), "scenarios.0.set: [1]; write {PATH OF A SETTING"),
        (SWEEP + "search: 5\n", "search: 5; write {kind: grid} or {kind: random"),
    ],
)
def test_a_mistake_is_reported_before_anything_runs(folder: Path, text: str, told: str, cli: Cli) -> None:
    (folder / "bomb.yaml").write_text("policy: {order: &a {kind: fifo}, gate: *a}\n")
    (folder / "tree.yaml").write_text("policy: {share: {kind: hdrf, tree: {x: {queue: root.z}}}}\n")
    (folder / "sweep.yaml").write_text(text)
    said = cli(sweep(folder), 2).err
    assert told in said
    assert len(said.splitlines()) == 1
    assert "has 0" not in said
    assert "instance of" not in said


def test_options_that_do_not_go_together_are_reported(folder: Path, cli: Cli) -> None:
    assert "--master and --conf are for --on spark" in cli(sweep(folder, "--master", "yarn"), 2).err
    assert "is not like spark.executor.memory=2g" in cli(sweep(folder, "--on", "spark", "--conf", "memory=2"), 2).err
    (folder / "file").write_text("")
    error = cli(sweep(folder, "--cache", str(folder / "file")), 2).err
    assert "name another folder for the runs with --cache" in error


def test_no_link_in_the_folder_of_runs_leads_a_copy_or_a_result_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "jobs.py").write_text("def jobs(seed):\n    return []\n", encoding="utf-8")
    kept = ResultCache(folder / "sweep.runs")
    name = Inputs(kept.files).file(folder / "jobs.py")
    document = yaml.safe_load(TINY) | {"workload": {"own": {"file": "jobs.py", "function": "jobs"}}}
    (folder / "tiny.yaml").write_text(json.dumps(document), encoding="utf-8")
    home = folder / "home"
    home.mkdir()
    (home / "jobs.py").write_text("mine", encoding="utf-8")
    for link in (kept.files / name).parent, kept.files, kept.folder / "runs", kept.folder / "failed", kept.folder:
        shutil.rmtree(link)
        link.symlink_to(home)
        assert run(sweep(folder, "--trust-code")) == 2, link
        said = capsys.readouterr().err
        assert f"{link} is a link" in said
        assert "--cache" in said
        assert [each.name for each in home.iterdir()] == ["jobs.py"]
        assert (home / "jobs.py").read_text(encoding="utf-8") == "mine"
        link.unlink()
        ResultCache(folder / "sweep.runs")


def test_a_result_is_neither_read_nor_written_through_a_link(tmp_path: Path) -> None:
    kept, home = ResultCache(tmp_path / "runs"), tmp_path / "home"
    home.mkdir()
    (kept.folder / "runs" / "ab").symlink_to(home)
    (home / "abc.json").write_text('{"key": "abc"}', encoding="utf-8")
    assert kept.get("abc") is None
    with pytest.raises(UserError, match="ab is a link or a file"):
        kept.put("abc", b"{}", failed=False)
    assert (home / "abc.json").read_text(encoding="utf-8") == '{"key": "abc"}'


def test_a_folder_of_runs_that_others_may_change_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ResultCache(tmp_path / "runs")
    (tmp_path / "runs" / "files").chmod(0o777)
    with pytest.raises(UserError, match=r"runs/files: others may write to it; .* --cache"):
        ResultCache(tmp_path / "runs")
    (tmp_path / "runs" / "files").chmod(0o755)
    monkeypatch.setattr("treadle.sweep.runs.trusted_owners", lambda: frozenset({-1}))
    with pytest.raises(UserError, match=r"runs: belongs to .* --cache"):
        ResultCache(tmp_path / "runs")


@pytest.mark.parametrize("entry", ["policies: [{policy: /dev/zero}]", "policies: [fifo]"])
def test_a_device_is_not_read(folder: Path, entry: str, cli: Cli) -> None:
    document = yaml.safe_load(TINY) | {"workload": {"file": "/dev/zero", "format": "treadle"}}
    (folder / "zero.yaml").write_text(json.dumps(document), encoding="utf-8")
    scenario = "zero" if "fifo" in entry else "tiny"
    (folder / "sweep.yaml").write_text(f"scenarios: [{scenario}.yaml]\n{entry}\nseeds: 1\n", encoding="utf-8")
    assert "/dev/zero: " in (said := cli(sweep(folder), 2).err)
    assert "not a regular file" in said or "Invalid argument" in said


def test_code_that_is_not_trusted_is_not_copied(folder: Path, cli: Cli) -> None:
    (folder / "odd.py").write_text(OWN, encoding="utf-8")
    part = {"order": {"kind": "file", "path": "odd.py", "class": "Odd"}}
    engines = {"one": {"select": {"queues": ["root.a"]}, "policy": part}, "rest": {}}
    (folder / "tiny.yaml").write_text(json.dumps(yaml.safe_load(TINY) | {"engines": engines}), encoding="utf-8")
    assert "engines.one.policy.order.path: 'odd.py' is Python code" in cli(sweep(folder), 2).err
    assert not list((folder / "sweep.runs" / "files").iterdir())


def test_a_damaged_result_runs_again(folder: Path) -> None:
    kept = ResultCache(folder / "kept")
    kept.put("ab12", b'{"key":"ab12"}', failed=False)
    assert kept.get("ab12") == b'{"key":"ab12"}'
    place = folder / "kept" / "runs" / "ab" / "ab12.json"
    for damaged in (b'{"key":"ab', b'{"key":"cd34"}', b"[]"):
        place.write_bytes(damaged)
        assert kept.get("ab12") is None


DIES = """
import os, signal
from treadle.dag import Dag, Stage
from treadle.simulate import Job

def jobs(seed):
    if seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return [Job("j", 0, Dag("d", (Stage(0, 2, 1000, {"memory-mb": 1024}),)), queue="a")]
"""


@pytest.mark.slow
def test_a_process_that_dies_fails_its_run_alone(folder: Path) -> None:
    (folder / "dies.py").write_text(DIES)
    (folder / "tiny.yaml").write_text(TINY.partition("workload:")[0] + "workload: {own: {file: dies.py}}\n")
    plan = planned(folder, "scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 4\n")
    lines = [each.line for each in plan.runs]
    done = {
        each.number: each for each in runs.run_locally(lines, partial(run_line, files=folder / "kept" / "files"), 2)
    }
    assert [done[number].failed for number in range(4)] == [False, True, False, False]
    assert "ran out of memory" in json.loads(done[1].result)["failure"]
    assert {json.loads(done[at].result)["key"] for at in range(4)} == {line.key for line in lines}


WAITS = """
import time
from pathlib import Path
from treadle.dag import Dag, Stage
from treadle.simulate import Job

def jobs(seed, folder):
    with (Path(folder) / f"ran-{seed}").open("a") as ran:
        ran.write("x")
    while seed == 3 and not (Path(folder) / "go").exists():
        time.sleep(0.05)
    return [Job("j", 0, Dag("d", (Stage(0, 2, 1000, {"memory-mb": 1024}),)), queue="a")]
"""


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_an_interrupted_sweep_goes_on_where_it_was(folder: Path, jobs: int) -> None:
    """Ctrl-C while the third run waits: what ended is kept, and with the same command only the others run."""
    (folder / "waits.py").write_text(WAITS)
    own = {"file": "waits.py", "parameters": {"folder": str(folder)}}
    document: dict[str, Any] = yaml.safe_load(TINY) | {"workload": {"own": own}}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(document))
    (folder / "sweep.yaml").write_text("scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 4\n")
    command = command_of("sweep", str(folder / "sweep.yaml"), f"--processes={jobs}", "--trust-code")
    kept = folder / "sweep.runs" / "runs"
    wanted = 2 if jobs == 1 else 3  # with two processes the fourth runs beside the third
    code, said = interrupted(
        command, lambda _: len(list(kept.rglob("*.json"))) >= wanted and (folder / "ran-3").exists()
    )
    assert code == 130, said
    assert "Traceback" not in said
    assert f"stopped; {wanted} of 4 runs are kept" in said
    (folder / "go").touch()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"4 runs, {wanted} of them done before" in done.stderr
    ran = {seed: len((folder / f"ran-{seed}").read_text()) for seed in range(1, 5)}
    assert ran[1] == ran[2] == 1
    assert ran[3] == 2


def test_the_example_of_the_page_has_its_runs(tmp_path: Path) -> None:
    file = EXAMPLE / "sweep.yaml"
    plan = plan_of(read_sweep(file), file, Inputs(ResultCache(tmp_path).files))
    assert [each.name for each in plan.scenarios] == ["departments load=0.7", "departments load=1"]
    assert len(plan.policies) == 10
    assert "hdrf order=fair fit=packing" in [each.name for each in plan.policies]
    assert len({each.line.key for each in plan.runs}) == len(plan.runs) == 100


def test_a_line_travels_as_text() -> None:
    line = Line("cluster: ü", "policy: {}", 3, check=False, code="x")
    assert Line.parse(line.text()) == line
    assert line.key != Line("cluster: ü", "policy: {}", 4, check=False, code="x").key


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_sweep(tmp_path / "none.yaml")


RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "default"


def test_a_recording_is_a_scenario_and_what_is_in_it_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(RECORDING, folder / "rec")
    text = "scenarios: [{recording: rec, set: {decision.tick_ms: [200]}}]\npolicies: [fifo, srpt]\nseeds: 2\n"
    plan = planned(folder, text)
    assert [scenario.name for scenario in plan.scenarios] == ["rec tick_ms=200"]
    assert len({each.line.key for each in plan.runs}) == 4
    assert run(sweep(folder, "--out", str(folder / "found.json"))) == 0
    found = json.loads((folder / "found.json").read_text())
    figures = [each["figures"] for each in found["runs"]]
    assert [each["jobs"] for each in figures] == [8] * 4
    assert len({each["completion_mean_s"] for each in figures}) == 4, "seeds and policies differ"
    assert planned(folder, text).runs == plan.runs
    for file in sorted((folder / "rec").iterdir())[1:]:
        file.unlink()
    shorter = planned(folder, text)
    assert not {each.line.key for each in shorter.runs} & {each.line.key for each in plan.runs}
    assert any("had not ended" in note for note in shorter.notes)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{recording: none}", "none is not there"),
        ("{recording: rec, scenario: tiny.yaml}", "exactly one of {scenario: FILE} and {recording: DIR}"),
        ("{name: x}", "exactly one of {scenario: FILE} and {recording: DIR}"),
    ],
)
def test_a_recording_that_is_none_is_reported(folder: Path, entry: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        planned(folder, f"scenarios: [{entry}]\npolicies: [fifo]\n")


# `treadle sweep --on spark`: the same bytes as on this machine; what workers do before they have Treadle.

SCENARIO = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}}
workload: {own: {file: jobs.py}}
"""
JOBS = """
from treadle.dag import Dag, Stage
from treadle.simulate import Job

def jobs(seed):
    if seed == 3:
        raise ValueError("no third draw")
    stages = [Stage(0, 3 + at + seed, 1000, {"memory-mb": 1024}) for at in range(5)]
    return [Job(f"j{stage.tasks}", 0, Dag("d", (stage,)), queue="a") for stage in stages]
"""
PACKAGE = Path(treadle.__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("submitted", [False, True])
def test_spark_gives_the_same_bytes_as_this_machine(tmp_path: Path, *, submitted: bool) -> None:
    pyspark = pytest.importorskip("pyspark")
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "jobs.py").write_text(JOBS)
    sweep = written(tmp_path / "sweep.yaml", "scenarios: [tiny.yaml]\npolicies: [fifo, srpt]\nseeds: 4\n")
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    assert run(["sweep", str(sweep), "--processes=1", "--trust-code", f"--out={here}", f"--cache={tmp_path}/here"]) == 1
    script = written(tmp_path / "run_treadle.py", "from treadle.cli.main import main\n\nmain()\n")
    options = ["sweep", str(sweep), "--on=spark", "--trust-code", f"--out={there}", f"--cache={tmp_path}/there"]
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", str(script)]
    command = [*submit, *options] if submitted else [sys.executable, "-m", "treadle", *options, "--master=local[2]"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 runs of 8 failed" in done.stdout
    assert there.read_bytes() == here.read_bytes()
    assert [each["seed"] for each in json.loads(there.read_text())["failures"]] == [3, 3]


PACKAGES = Path(sysconfig.get_paths()["purelib"])


@pytest.mark.skipif(PACKAGE.parent == PACKAGES, reason="Treadle is among the packages that it needs without it")
def test_a_worker_without_treadle_gets_the_drivers(tmp_path: Path) -> None:
    """A Python whose packages are the same ones, but for Treadle: a file that -S leaves out names it."""
    archive = tmp_path / "code.zip"
    archive.write_bytes(archive_of_package(PACKAGE))
    script = f"""
import sys, runpy
sys.path.append({str(PACKAGES)!r})
worker = runpy.run_path({str(Path(worker.__file__))!r})
from importlib.util import find_spec
found = find_spec("treadle")  # a folder that holds data alone is none
if found is not None and found.origin:
    raise SystemExit("there is a Treadle already")
from pathlib import Path
worker["use_code"](sys.argv[1], sys.argv[2], Path({str(archive)!r}))
worker["use_code"](sys.argv[1], sys.argv[2], Path({str(archive)!r}))
import treadle
from treadle.sweep.worker import package_digest
print(treadle.__file__, package_digest(Path(treadle.__file__).parent))
"""
    digest = worker.package_digest(PACKAGE)

    def ask(wanted: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", script, digest, wanted]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    done = ask(worker.libraries())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "code.unpacked" / "treadle" / "__init__.py"), digest]
    other = ask("numba 0.1, numpy 0.2")
    assert "the driver numba 0.1, numpy 0.2; give both the same environment" in other.stderr


def test_the_digest_is_of_what_runs_are_made_of(tmp_path: Path) -> None:
    assert worker.package_digest(PACKAGE) == digest(worker.RUNS)
    assert worker.package_digest(tmp_path) == "", "another version of Treadle"


def test_without_pyspark_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "sweep.yaml").write_text("scenarios: [tiny.yaml]\npolicies: [fifo]\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    error = cli(["sweep", str(tmp_path / "sweep.yaml"), "--on=spark"], 2).err
    assert f"--on spark: needs pyspark; {install_extra('spark')}" in error


def test_what_a_worker_raised_is_reported_in_a_line() -> None:
    said = """
Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
Traceback (most recent call last):
  File "worker.py", line 2, in main
treadle.sweep.worker.OtherEnvironmentError: Python x on host has no numba, the driver numba 0.68

Driver stacktrace:
Caused by: org.apache.spark.api.python.PythonException: x
"""
    assert spark.cause(RuntimeError(said)).startswith("treadle.sweep.worker.OtherEnvironmentError: Python x")
    assert spark.cause(RuntimeError("ExecutorLost")) == "ExecutorLost"


@pytest.mark.slow
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="the packages are in no virtual environment")
def test_executors_with_another_environment_end_the_sweep(tmp_path: Path) -> None:
    """Not every run fails for it, four times each: nothing can run there."""
    pytest.importorskip("pyspark")
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "sweep.yaml").write_text("scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 50\n")
    bare = f"{sys.base_prefix}/bin/python3"  # the one that the virtual environment is of, without its packages
    options = ["--trust-code", "--on=spark", "--master=local[2]", "--conf", f"spark.pyspark.python={bare}"]
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "sweep", str(tmp_path / "sweep.yaml"), *options],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={"PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "give both the same environment" in done.stderr
    assert "spark.pyspark.python=PATH" in done.stderr


# Processes that run simulations: Ctrl-C ends them in silence, and one that dies loses no task but its own.

OWN_JOBS = """
cluster: {nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}}
workload: {own: {file: own.py}}
"""

SLEEPS = """
import time
from pathlib import Path

def jobs(seed):
    (Path(__file__).parent / f"ran-{seed}").touch()
    time.sleep(3600)
"""

KILLED = "import os, signal\ndef jobs(seed): os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = written(tmp_path / "scenario.yaml", OWN_JOBS)
    (tmp_path / "own.py").write_text(SLEEPS)
    return file


def started(pid: int) -> bool:
    """Say whether a process that runs simulations is on its way: it loads what it needs, for some seconds."""
    try:
        workers = [each for each in psutil.Process(pid).children() if "spawn_main" in " ".join(each.cmdline())]
        return len(workers) == 2 and all(sum(each.cpu_times()[:2]) > 0.1 for each in workers)
    except psutil.Error:
        return False


@pytest.mark.parametrize("when", ["they start", "they run"])
def test_ctrl_c_ends_simulations_in_other_processes_without_a_trace(scenario: Path, when: str) -> None:
    words = ("simulate", str(scenario), "--policy=fifo", "--seeds=3", "--processes=2", "--trust-code")
    ran = [scenario.parent / "ran-1", scenario.parent / "ran-2"]
    code, said = interrupted(
        command_of(*words), started if when == "they start" else lambda pid: all(each.exists() for each in ran)
    )
    assert "Traceback" not in said, said
    assert code == 130, said
    assert "stopped; 0 of 3 runs had ended, nothing was written" in " ".join(said.split())


def test_a_simulation_whose_process_dies_says_what_to_do(scenario: Path, cli: Cli) -> None:
    (scenario.parent / "own.py").write_text(KILLED)
    error = cli(["simulate", str(scenario), "--policy=fifo", "--seeds=2", "--processes=2", "--trust-code"], 2).err
    assert "ran out of memory" in error


def test_a_task_that_would_have_been_next_when_a_process_died_is_run(tmp_path: Path) -> None:
    now = tmp_path / "now"
    tasks = [Mortal("first"), Mortal("dies", str(now)), Mortal("third"), Mortal("fourth")]
    before = set(multiprocessing.active_children())
    running = run_locally(tasks, live_or_die, 2)
    done = [next(running)]
    now.touch()
    eventually(lambda: not set(multiprocessing.active_children()) - before)  # until it is known that one has died
    done += running
    assert {each.number: each.failed for each in done} == {0: False, 1: True, 2: False, 3: False}
