"""`treadle simulate`: what it prints and writes, and what it says of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli.main import run
from treadle.errors import ConfigError
from treadle.simulate.batch import Outcome, RunSpec, group_warnings, run_line
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
    return written(tmp_path / "scenario.yaml", SMALL)


def test_policies_and_seeds_are_run_side_by_side(scenario: Path, cli: Cli) -> None:
    files = [scenario.parent / name for name in ("one.yaml", "two.yaml")]
    files[0].write_text("policy: {fit: {kind: first_fit}}\n", encoding="utf-8")
    files[1].write_text("policy: {fit: {kind: packing}}\n", encoding="utf-8")
    out, plots = scenario.parent / "out.json", scenario.parent / "plots"
    options = [f"--policy={file}" for file in files]
    shown = cli(["simulate", str(scenario), *options, "--seeds=2", f"--out={out}", f"--plot={plots}"]).out
    assert "one" in shown
    assert "two" in shown
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert [(each["policy"], each["seed"]) for each in runs] == [("one", 1), ("two", 1), ("one", 2), ("two", 2)]
    assert all(each["tasks"] == 24 and each["unfinished"] == 0 for each in runs)
    assert all(len(each["completion_s"]) == each["jobs"] and each["windows"] for each in runs)
    again = scenario.parent / "again.json"
    printed = json.loads(cli(["simulate", str(scenario), *options, "--seeds=2", f"--out={again}", "-o", "json"]).out)
    assert json.dumps(printed) == json.dumps(json.loads(again.read_text(encoding="utf-8")))
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
        ("just words", "is not a mapping"),
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
        ("yes: 1\n" + SMALL, "scenario.yaml:1: yes: is not a key, since YAML does not read it as a text"),
        (NO_JOBS.format("jobs: [{on: x}]"), "scenario.yaml:2: workload.jobs.0.on: is not a key"),
        (SMALL + "policies: []\nnull: 1\n", "null: is not a key"),
        (
            "queues: {off: {capacity: 1}, 12: {}}\n" + NO_JOBS.format("jobs: [{stages: []}]"),
            "scenario.yaml:1: queues.off: is not a key",
        ),
        (
            "queues: {off: {capacity: 1}, 12: {}}\n" + NO_JOBS.format("jobs: [{stages: []}]"),
            "scenario.yaml:1: queues.12: is not a key",
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
        (SMALL.replace("queue: b", "queue: c"), "queue 'c' is not a leaf"),
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
def test_what_does_not_go_together_is_reported(scenario: Path, written: str, told: str, cli: Cli) -> None:
    scenario.write_text(written, encoding="utf-8")
    assert told in cli(["simulate", str(scenario)], 2).err


def test_a_wrong_item_does_not_make_its_list_too_short() -> None:
    with pytest.raises(ConfigError) as error:
        parse_scenario("scenario.yaml", SMALL.replace("count: 2", "count: -4"))
    assert "cluster.nodes.0.count: -4" in str(error.value)
    assert "has 0" not in str(error.value)


def test_the_file_of_a_scenario_must_exist(tmp_path: Path, cli: Cli) -> None:
    assert "cannot be read" in cli(["simulate", str(tmp_path / "none.yaml")], 2).err


def test_a_policy_named_twice_is_refused(scenario: Path, cli: Cli) -> None:
    policy = written(scenario.parent / "p.yaml", "seed: 1\n")
    assert "named twice" in cli(["simulate", str(scenario), f"--policy={policy}", f"--policy={policy}"], 2).err


def test_a_policy_that_goes_by_history_gets_a_warning_that_there_is_none(scenario: Path, cli: Cli) -> None:
    policy = scenario.parent / "remembers.yaml"
    policy.write_text(
        "policy:\n  gate: {kind: pilots, history_fraction: 0.2}\n  estimate: {kind: pilots, scale_history: true}\n"
        f"history: {{store: {scenario.parent}/profiles.db}}\n",
        encoding="utf-8",
    )
    out = scenario.parent / "out.json"
    shown = " ".join(cli(["simulate", str(scenario), f"--policy={policy}", f"--out={out}"]).err.split())
    (told,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    for part in ("gate", "estimate"):
        warning = f"policy.{part} (pilots) uses the history of earlier runs, of which there are none here"
        assert f"remembers: warning: {warning}" in shown
        assert warning in told["warnings"]


def test_the_true_durations_that_a_simulation_tells_are_history_enough(scenario: Path, cli: Cli) -> None:
    policy = written(scenario.parent / "told.yaml", "policy: {order: {kind: srpt}, estimate: {kind: hints}}\n")
    said = cli(["simulate", str(scenario), f"--policy={policy}"])
    assert "warning" not in said.out + said.err


BLIND = "policy.order (srpt) needs durations, and policy.estimate (none) has none"


def test_an_order_without_the_estimate_that_it_goes_by_is_warned_of_once(scenario: Path, cli: Cli) -> None:
    policy, out = scenario.parent / "blind.yaml", scenario.parent / "out.json"
    policy.write_text("policy: {share: {kind: hdrf}, order: {kind: srpt}}\n", encoding="utf-8")
    error = cli(["simulate", str(scenario), f"--policy={policy}", "--seeds=2", f"--out={out}"]).err
    assert error.count(f"blind: warning: {BLIND}") == 1
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert [[BLIND in text for text in each["warnings"]] for each in runs] == [[True], [True]]
    attained = "policy: {order: {kind: mlfq, size: attained_service}}\n"
    policy.write_text(attained, encoding="utf-8")
    error = cli(["simulate", str(scenario), f"--policy={policy}"]).err
    assert "warning" not in error, "what jobs took so far needs no estimate"


def test_each_of_several_engines_is_warned_of(scenario: Path, cli: Cli) -> None:
    entry = "engines: {one: {select: {queues: [root.a]}, policy: {order: {kind: srpt}}}, rest: {}}\n"
    scenario.write_text(SMALL + entry, encoding="utf-8")
    said = cli(["simulate", str(scenario)]).err
    assert f"default: warning: one: {BLIND}" in said
    assert "rest" not in said


def test_queues_that_a_capacity_scheduler_has_otherwise_are_warned_of(scenario: Path, cli: Cli) -> None:
    less = "queues: {a: {capacity: 30, maximum_capacity: 20}, b: {capacity: 30}}"
    scenario.write_text(SMALL.replace("queues: {a: {capacity: 50}, b: {capacity: 50}}", less), encoding="utf-8")
    said = cli(["simulate", str(scenario)]).err
    assert "default: warning: queues: the capacities below root are 60 together" in said
    assert "default: warning: queues: root.a has capacity 30 and maximum_capacity 20" in said
    inside = {"a": Queue(capacity=100, children={"c": Queue(capacity=50), "d": Queue(capacity=40)})}
    assert ["below root.a are 90" in line for line in queue_warnings(inside)] == [True]
    shares = {"a": Queue(capacity=33.33), "b": Queue(capacity=33.33), "c": Queue(capacity=33.33)}
    assert queue_warnings(shares) == [], "so much Hadoop lets a sum be off"
    assert queue_warnings({"a": Queue(capacity=30), "b": Queue()}) == [], "b has what is left"
    assert queue_warnings({"a": Queue(capacity=0), "b": Queue(capacity=0)}) == []


def test_ctrl_c_says_what_was_written(scenario: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def second_waits(line: RunSpec, progress: Progress | None = None) -> Outcome:
        begun.append(line.seed)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return run_line(line, progress)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = scenario.parent / "out.json"
    with monkeypatch.context() as patched:
        patched.setattr("treadle.cli._simulate.run_line", second_waits)
        error = cli(["simulate", str(scenario), "--seeds=3", f"--out={out}"], 130).err
    assert "stopped; 1 of 3 runs had ended, nothing was written; `treadle sweep` keeps" in error
    assert not out.exists()
    monkeypatch.setattr("treadle.cli._simulate.write_tables", interrupted)
    csv = scenario.parent / "csv"
    error = cli(["simulate", str(scenario), f"--out={out}", f"--csv={csv}"], 130).err
    assert f"stopped; 1 of 1 run had ended, of the results only {out} is whole" in error
    assert json.loads(out.read_text(encoding="utf-8"))["runs"]


@pytest.mark.parametrize("option", ["csv", "plot"])
def test_a_folder_that_cannot_be_is_refused_before_anything_runs(scenario: Path, cli: Cli, option: str) -> None:
    said = cli(["simulate", str(scenario), f"--{option}={scenario}"], 2)
    assert f"--{option}: {scenario}: File exists" in said.err
    assert said.out == ""


def test_what_is_true_of_the_scenario_is_said_once_however_many_policies_run(scenario: Path, cli: Cli) -> None:
    scenario.write_text(SMALL.replace("b: {capacity: 50}", "b: {capacity: 20}"), encoding="utf-8")
    (scenario.parent / "blind.yaml").write_text("policy: {order: {kind: srpt}}\n", encoding="utf-8")
    policies = ["--policy=fifo", "--policy=drf", f"--policy={scenario.parent / 'blind.yaml'}"]
    said = " ".join(cli(["simulate", str(scenario), *policies, "--seeds=2"]).err.split())
    assert said.count("are 70 together") == 1
    assert "drf: warning" not in said
    assert said.count("blind: warning:") == 1


def test_warnings_name_whom_they_are_about() -> None:
    assert group_warnings([]) == []
    assert group_warnings([("a", "x"), ("a", "x"), ("a", "y"), ("a", "")]) == [("a", "x"), ("a", "y")]
    assert group_warnings([("a", "x"), ("b", "x"), ("b", "y"), ("b", "")]) == [("", "x"), ("b", "y")]
    assert group_warnings([("a", "x"), ("b", "x"), ("c", "")]) == [("a", "x"), ("b", "x")]


# Jobs that can never run are an error unless the user allows them.

ONE_BIG = """
cluster:
  nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]
queues: {a: {capacity: 50, maximum_capacity: 50}, b: {capacity: 50}}
decision: {idle_ms: 120000}  # an hour of waiting in vain has few decisions
workload:
  jobs:
    - {queue: a, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
    - {queue: %s, name: big, stages: [{tasks: 1, duration_s: 5, demand: {memory-mb: %s, vcores: 1}}]}
"""


def with_a_big_job(folder: Path, queue: str, memory_mb: int) -> Path:
    return written(folder / "scenario.yaml", ONE_BIG % (queue, memory_mb))


@pytest.mark.parametrize(
    ("queue", "memory_mb", "told"),
    [
        ("b", 4097, "a task asks for memory-mb 4097, vcores 1; no node has that, the most of each are memory-mb 4096"),
        ("a", 4097, "no node has that"),
    ],
)
def test_an_ask_that_fits_nowhere_is_refused_before_anything_runs(
    tmp_path: Path, cli: Cli, queue: str, memory_mb: int, told: str
) -> None:
    file, out = with_a_big_job(tmp_path, queue, memory_mb), tmp_path / "out.json"
    said = cli(["simulate", str(file), f"--out={out}"], 2).err
    assert "1 job of 2 can never run" in said
    assert f"big (queue {queue}): " in said
    assert told in said
    assert run(["simulate", str(file), f"--out={out}", "--allow-impossible"]) == 0
    (found,) = json.loads(out.read_text())["runs"]
    assert (found["unfinished"], found["ended"]) == (1, "stalled")


def test_an_ask_beyond_its_queues_maximum_is_refused(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text((ONE_BIG % ("a", 3000)).replace("maximum_capacity: 50", "maximum_capacity: 30"))
    assert "the queue may have at most memory-mb 2457" in cli(["simulate", str(file)], 2).err


def test_jobs_that_a_policy_never_serves_are_no_result(tmp_path: Path, cli: Cli) -> None:
    file = with_a_big_job(tmp_path, "b", 1024)
    (tmp_path / "shut.py").write_text(
        "import numpy as np\n\nclass Shut:\n"
        "    def allows(self, view):\n        return np.zeros(len(view.requests), bool)\n"
    )
    policy = written(tmp_path / "shut.yaml", "policy: {gate: {kind: file, path: shut.py, class: Shut}}\n")
    printed = cli(["simulate", str(file), f"--policy={policy}"], 1).err
    assert "2 jobs of 2 wait forever" in " ".join(printed.split())
    assert run(["simulate", str(file), f"--policy={policy}", "--allow-impossible"]) == 0


def test_a_run_that_the_limit_of_time_ends_is_marked(tmp_path: Path, cli: Cli) -> None:
    file = with_a_big_job(tmp_path, "b", 1024)
    file.write_text(file.read_text() + "duration_limit_s: 1\n")
    assert "2 jobs of 2 had not ended by duration_limit_s" in " ".join(cli(["simulate", str(file)]).err.split())


def test_a_ready_made_policy_is_taken_by_name(tmp_path: Path, cli: Cli) -> None:
    file = with_a_big_job(tmp_path, "b", 1024)
    assert "hdrf" in cli(["simulate", str(file), "--policy=hdrf"]).out
    assert "did you mean hdrf?" in cli(["simulate", str(file), "--policy=hdfr"], 2).err
    file.write_text(file.read_text() + "policies: [srpt]\n")
    assert "srpt" in cli(["simulate", str(file)]).out


# What a policy names of a scenario's queues: an error where it names none, and `treadle policy check --scenario`.

THREE_LEAVES = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}, b: {children: {c: {}}}}
workload: {jobs: [{queue: a, stages: [{tasks: 1, duration_s: 1, demand: {memory-mb: 1024, vcores: 1}}]}]}
"""
NONE = "policy: {share: {kind: hdrf, tree: {x: {children: {etl: {queue: root.etl}}}, a: {}}}}\n"
ONE = "policy: {share: {kind: hdrf, tree: {x: {queue: root.a}, y: {queue: root.b.d}}}}\n"
ALL = "policy: {share: {kind: hdrf, tree: {x: {queue: root.a}, y: {queue: root.b.c}}}}\n"


@pytest.fixture
def three_leaves(tmp_path: Path) -> Path:
    return written(tmp_path / "scenario.yaml", THREE_LEAVES)


def policy_file(folder: Path, text: str) -> str:
    file = written(folder / "policy.yaml", text)
    return str(file)


def test_a_tree_that_names_no_leaf_does_not_run(three_leaves: Path, cli: Cli) -> None:
    file = policy_file(three_leaves.parent, NONE)
    out, said = cli(["simulate", str(three_leaves), "--policy", file], 2)
    assert "compiling" not in out, "the error comes at once"
    assert "policy.share.tree: the tree names no leaf queue of" in said
    assert "root.a, root.b.c" in said
    assert "root.etl, a" in said


def test_a_check_tells_each_queue_that_is_no_leaf(three_leaves: Path, cli: Cli) -> None:
    file = policy_file(three_leaves.parent, ONE)
    cli(["policy", "check", file])
    said = cli(["policy", "check", file, "--scenario", str(three_leaves)], 2)
    assert "root.b.d is not a leaf queue of the scenario; did you mean root.b.c?" in said.err
    assert "warning:" in said.err
    assert "does not name root.b.c" in said.err
    assert "OK" not in said.out


def test_a_check_of_what_goes_together(three_leaves: Path, cli: Cli) -> None:
    said = cli(["policy", "check", policy_file(three_leaves.parent, ALL), "--scenario", str(three_leaves)])
    assert "OK (" in said.out
    assert not said.err


def test_a_check_against_what_is_no_scenario(three_leaves: Path, cli: Cli) -> None:
    error = cli(["policy", "check", "hdrf", "--scenario", str(three_leaves.parent / "none.yaml")], 2).err
    assert "none.yaml: cannot be read" in error
