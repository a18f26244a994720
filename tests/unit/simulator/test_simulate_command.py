"""`treadle simulate`: what it prints and writes, and what it says of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.config.errors import ConfigError
from treadle.simulate.batch import Line, Outcome, by_whom, run_line
from treadle.simulator.scenario import Queue, parse_scenario, queue_warnings
from treadle.simulator.simulation import Progress

SMALL = """
cluster:
  nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]
queues: {a: {capacity: 50}, b: {capacity: 50}}
workload:
  jobs:
    - {queue: a, count: 3, gap_s: 2, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
    - {queue: b, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
"""


NO_JOBS = "cluster: {{nodes: [{{count: 1, resources: {{}}}}]}}\nworkload: {{{}}}\n"


TOO_FINE = """
cluster: {resources: [{name: x, scale: 1.0e+9}], nodes: [{count: 1, resources: {x: 1.0e+12}}]}
workload: {jobs: [{stages: []}]}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return file


def test_policies_and_seeds_are_run_side_by_side(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [scenario.parent / name for name in ("one.yaml", "two.yaml")]
    files[0].write_text("policy: {fit: {kind: first_fit}}\n", encoding="utf-8")
    files[1].write_text("policy: {fit: {kind: packing}}\n", encoding="utf-8")
    out, plots = scenario.parent / "out.json", scenario.parent / "plots"
    options = [f"--policy={file}" for file in files]
    assert run(["simulate", str(scenario), *options, "--seeds=2", f"--json={out}", f"--plot={plots}"]) == 0
    shown = capsys.readouterr().out
    assert "one" in shown
    assert "two" in shown
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert [(each["policy"], each["seed"]) for each in runs] == [("one", 1), ("two", 1), ("one", 2), ("two", 2)]
    assert all(each["tasks"] == 24 and each["unfinished"] == 0 for each in runs)
    assert all(len(each["completion_s"]) == each["jobs"] and each["windows"] for each in runs)
    again = scenario.parent / "again.json"
    assert run(["simulate", str(scenario), *options, "--seeds=2", f"--json={again}"]) == 0
    assert json.dumps(json.loads(again.read_text(encoding="utf-8"))["runs"]) == json.dumps(runs)
    assert sorted(file.name for file in plots.iterdir()) == [
        "completion-times.png",
        "shares.png",
        "slowdowns.png",
        "use.png",
    ]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("cluster: {nodes: []}\nworkload: {file: x}", "scenario.yaml:1: cluster.nodes: has 0; at least 1 must"),
        (SMALL + "stragglers: {factor_min: 9}\n", "factor_min, 9, is above factor_max, 5; lower it"),
        (SMALL.replace("count: 2", "count: two"), "scenario.yaml:3: cluster.nodes.0.count: 'two'"),
        (SMALL.replace("queues:", "queue:"), "did you mean queues?"),
        (SMALL.replace("duration_s: 5", "duration_s: .nan"), "workload.jobs.0.stages.0.duration_s"),
        (SMALL.replace("tasks: 6", "tasks: -6"), "workload.jobs.0.stages.0.tasks: -6"),
        (SMALL + "  file: x\n", "write exactly one of jobs, generator, own and file"),
        ("just words", "is no mapping"),
        (NO_JOBS.format("jobs: []"), "scenario.yaml:2: workload.jobs: has 0; at least 1 must be written"),
        (NO_JOBS.format("generator: {jobs: 1}, jobs: []"), "workload.jobs: has 0; at least 1"),
        (NO_JOBS.format("generator: {jobs: 1}, file: a.json"), "generator and file are there"),
        (NO_JOBS.format(""), "write exactly one of jobs, generator, own and file"),
        (
            NO_JOBS.format("generator: {jobs: 1, load: 0.5, mean_gap_s: 3}"),
            "scenario.yaml:2: workload.generator: mean_gap_s and load both set how often jobs arrive; write one",
        ),
        (NO_JOBS.format("generator: {jobs: 1, queues: {a: 0}}"), "workload.generator.queues: all weights are 0"),
        (
            NO_JOBS.format("generator: {jobs: 1, tasks: {kind: pareto, low: 50, high: 5}}"),
            "scenario.yaml:2: workload.generator.tasks: low, 50, is not below high, 5",
        ),
        ("a: [", "not YAML"),
        ("yes: 1\n" + SMALL, "scenario.yaml:1: yes: is no key, since YAML does not read it as a text"),
        (NO_JOBS.format("jobs: [{on: x}]"), "scenario.yaml:2: workload.jobs.0.on: is no key"),
        (SMALL + "policies: []\nnull: 1\n", "null: is no key"),
        (
            "queues: {off: {capacity: 1}, 12: {}}\n" + NO_JOBS.format("jobs: [{stages: []}]"),
            "scenario.yaml:1: queues.off: is no key",
        ),
        (
            "queues: {off: {capacity: 1}, 12: {}}\n" + NO_JOBS.format("jobs: [{stages: []}]"),
            "scenario.yaml:1: queues.12: is no key",
        ),
        (NO_JOBS.format("generator: {jobs: 1, priorities: {1: 2, yes: x}}"), "workload.generator.priorities"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_field(written: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_scenario("scenario.yaml", written)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (SMALL.replace("queue: b", "queue: c"), "queue 'c', which is no leaf"),
        (SMALL.replace("capacity: 50", "capacity: 80"), "capacities below root are 160"),
        (SMALL.replace("demand: {memory-mb: 1024, vcores: 1}", "demand: {gpu: 1}"), "'gpu'"),
        (SMALL.replace("memory-mb: 4096", "memory: 4096"), "cluster.nodes.0.resources: 'memory'"),
        ("cluster:\n  nodes: [{count: 1, resources: {}}]\nworkload: {file: none.json}", "none.json"),
        (
            SMALL.replace("count: 2, resources: {memory-mb: 4096", "count: 20000, resources: {memory-mb: 1.0e+15"),
            "cluster.nodes: all together have 2e+19 of memory-mb",
        ),
        (
            SMALL.replace("tasks: 6", "tasks: 2000000").replace("memory-mb: 1024", "memory-mb: 1.0e+12"),
            "workload: its tasks ask for 8e+18 of memory-mb together",
        ),
        (
            TOO_FINE,
            "cluster.resources: an amount of x is 1e+21",
        ),
    ],
)
def test_what_does_not_go_together_is_reported(
    scenario: Path, written: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(written, encoding="utf-8")
    assert run(["simulate", str(scenario)]) == 2
    assert told in capsys.readouterr().err


def test_a_wrong_item_does_not_make_its_list_too_short() -> None:
    with pytest.raises(ConfigError) as error:
        parse_scenario("scenario.yaml", SMALL.replace("count: 2", "count: -4"))
    assert "cluster.nodes.0.count: -4" in str(error.value)
    assert "has 0" not in str(error.value)


def test_the_file_of_a_scenario_must_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_policy_named_twice_is_refused(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = scenario.parent / "p.yaml"
    policy.write_text("seed: 1\n", encoding="utf-8")
    assert run(["simulate", str(scenario), f"--policy={policy}", f"--policy={policy}"]) == 2
    assert "named twice" in capsys.readouterr().err


def test_a_policy_that_goes_by_history_gets_a_warning_that_there_is_none(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = scenario.parent / "remembers.yaml"
    policy.write_text(
        "policy:\n  gate: {kind: pilots, history_part: 0.2}\n  estimate: {kind: pilots, scale_history: true}\n"
        f"profiles: {{store: {scenario.parent}/profiles.db}}\n",
        encoding="utf-8",
    )
    out = scenario.parent / "out.json"
    assert run(["simulate", str(scenario), f"--policy={policy}", f"--json={out}"]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    (told,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    for part in ("gate", "estimate"):
        warning = f"policy.{part} (pilots) goes by what is known of earlier runs, of which there are none here"
        assert f"remembers: warning: {warning}" in shown
        assert warning in told["warnings"]


def test_the_true_durations_that_a_simulation_tells_are_history_enough(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = scenario.parent / "told.yaml"
    policy.write_text("policy: {order: {kind: srpt}, estimate: {kind: hints}}\n", encoding="utf-8")
    assert run(["simulate", str(scenario), f"--policy={policy}"]) == 0
    said = capsys.readouterr()
    assert "warning" not in said.out + said.err


BLIND = "policy.order (srpt) goes by durations, and policy.estimate (none) knows none"


def test_an_order_without_the_estimate_that_it_goes_by_is_warned_of_once(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, out = scenario.parent / "blind.yaml", scenario.parent / "out.json"
    policy.write_text("policy: {share: {kind: hdrf}, order: {kind: srpt}}\n", encoding="utf-8")
    assert run(["simulate", str(scenario), f"--policy={policy}", "--seeds=2", f"--json={out}"]) == 0
    assert capsys.readouterr().err.count(f"blind: warning: {BLIND}") == 1
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert [[BLIND in text for text in each["warnings"]] for each in runs] == [[True], [True]]
    attained = "policy: {order: {kind: mlfq, size: attained}}\n"
    policy.write_text(attained, encoding="utf-8")
    assert run(["simulate", str(scenario), f"--policy={policy}"]) == 0
    assert "warning" not in capsys.readouterr().err, "what jobs took so far needs no estimate"


def test_each_of_several_engines_is_warned_of(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = "engines: {one: {select: {queues: [root.a]}, policy: {order: {kind: srpt}}}, rest: {}}\n"
    scenario.write_text(SMALL + entry, encoding="utf-8")
    assert run(["simulate", str(scenario)]) == 0
    said = capsys.readouterr().err
    assert f"default: warning: one: {BLIND}" in said
    assert "rest" not in said


def test_queues_that_a_capacity_scheduler_has_otherwise_are_warned_of(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    less = "queues: {a: {capacity: 30, maximum_capacity: 20}, b: {capacity: 30}}"
    scenario.write_text(SMALL.replace("queues: {a: {capacity: 50}, b: {capacity: 50}}", less), encoding="utf-8")
    assert run(["simulate", str(scenario)]) == 0
    said = capsys.readouterr().err
    assert "default: warning: queues: the capacities below root are 60 together" in said
    assert "default: warning: queues: root.a has capacity 30 and maximum_capacity 20" in said
    inside = {"a": Queue(capacity=100, children={"c": Queue(capacity=50), "d": Queue(capacity=40)})}
    assert ["below root.a are 90" in line for line in queue_warnings(inside)] == [True]
    shares = {"a": Queue(capacity=33.33), "b": Queue(capacity=33.33), "c": Queue(capacity=33.33)}
    assert queue_warnings(shares) == [], "so much Hadoop lets a sum be off"
    assert queue_warnings({"a": Queue(capacity=30), "b": Queue()}) == [], "b has what is left"
    assert queue_warnings({"a": Queue(capacity=0), "b": Queue(capacity=0)}) == []


def test_ctrl_c_says_what_was_written(
    scenario: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def second_waits(line: Line, progress: Progress | None = None) -> Outcome:
        begun.append(line.seed)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return run_line(line, progress)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = scenario.parent / "out.json"
    with monkeypatch.context() as patched:
        patched.setattr("treadle.cli._simulate.run_line", second_waits)
        assert run(["simulate", str(scenario), "--seeds=3", f"--json={out}"]) == 130
    assert "stopped; 1 of 3 runs had ended, nothing was written; `treadle sweep` keeps" in capsys.readouterr().err
    assert not out.exists()
    monkeypatch.setattr("treadle.cli._simulate.write_tables", interrupted)
    csv = scenario.parent / "csv"
    assert run(["simulate", str(scenario), f"--json={out}", f"--csv={csv}"]) == 130
    assert f"stopped; 1 of 1 run had ended, of the results only {out} is whole" in capsys.readouterr().err
    assert json.loads(out.read_text(encoding="utf-8"))["runs"]


@pytest.mark.parametrize("option", ["csv", "plot"])
def test_a_folder_that_cannot_be_is_refused_before_anything_runs(
    scenario: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert run(["simulate", str(scenario), f"--{option}={scenario}"]) == 2
    said = capsys.readouterr()
    assert f"--{option}: {scenario}: File exists" in said.err
    assert said.out == ""


def test_what_is_true_of_the_scenario_is_said_once_however_many_policies_run(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(SMALL.replace("b: {capacity: 50}", "b: {capacity: 20}"), encoding="utf-8")
    (scenario.parent / "blind.yaml").write_text("policy: {order: {kind: srpt}}\n", encoding="utf-8")
    policies = ["--policy=fifo", "--policy=drf", f"--policy={scenario.parent / 'blind.yaml'}"]
    assert run(["simulate", str(scenario), *policies, "--seeds=2"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("are 70 together") == 1
    assert "drf: warning" not in said
    assert said.count("blind: warning:") == 1


def test_warnings_name_whom_they_are_about() -> None:
    assert by_whom([]) == []
    assert by_whom([("a", "x"), ("a", "x"), ("a", "y"), ("a", "")]) == [("a", "x"), ("a", "y")]
    assert by_whom([("a", "x"), ("b", "x"), ("b", "y"), ("b", "")]) == [("", "x"), ("b", "y")]
    assert by_whom([("a", "x"), ("b", "x"), ("c", "")]) == [("a", "x"), ("b", "x")]
