"""Plans of what is very large, very plain or impossible: an exact answer or a clear error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.lab.planner.schedules import check, check_ranks, rank_of
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli.main import run
from treadle.dag import Dag, DagError, Stage
from treadle_lab.planning import NAMES, MeasuredPlan, baseline, graphene_plan

DATA = Path(__file__).resolve().parents[2] / "data"
CPU = {"cpu": 1.0}
EVERY = ("graphene", *NAMES)


def found_by(name: str, dag: Dag, machines: int, budget: int = 1) -> MeasuredPlan:
    if name == "graphene":
        return graphene_plan(dag, CPU, machines, budget)
    return baseline(name, dag, CPU, machines)


@pytest.mark.parametrize("name", EVERY)
def test_a_million_tasks_of_one_stage_run_in_waves(name: str) -> None:
    dag = Dag("wide", (Stage(0, 1_000_000, 1000, {"cpu": 0.3}), Stage(1, 1, 5, {"cpu": 1.0}, (0,))))
    found = found_by(name, dag, 4)
    waves = -(-1_000_000 // (3 * 4))
    assert found.makespan == found.executed_makespan == found.bounds.best == waves * 1000 + 5
    assert rank_of(found, 1, 0) == 1_000_000
    assert (rank_of(found, 0, 0), rank_of(found, 0, 999_999)) == (0, 999_999)


@pytest.mark.parametrize("name", EVERY)
def test_a_chain_of_a_thousand_stages_takes_their_sum(name: str) -> None:
    stages = tuple(Stage(at, 2, at % 7, {"cpu": 0.5}, (at - 1,) if at else ()) for at in range(1000))
    found = found_by(name, Dag("chain", stages), 1)
    assert found.makespan == found.executed_makespan == found.bounds.best == sum(stage.duration_ms for stage in stages)
    assert found.stage_order() == tuple(range(1000))


def test_stages_without_edges_fill_the_machine() -> None:
    found = graphene_plan(Dag("flat", tuple(Stage(at, 3, 10, {"cpu": 0.25}) for at in range(40))), CPU, 1, 50)
    assert found.makespan == found.bounds.best == 40 * 3 // 4 * 10


@pytest.mark.parametrize("name", EVERY)
def test_a_thousand_stages_without_edges_leave_room_only_at_the_end(name: str) -> None:
    longest = 9
    dag = Dag("flat", tuple(Stage(at, 3, 1 + at % longest, {"cpu": 0.25}) for at in range(1000)))
    found = found_by(name, dag, 1)
    assert found.bounds.best <= found.executed_makespan < found.bounds.best + longest


@pytest.mark.parametrize("name", EVERY)
def test_a_thousand_stages_keep_to_edges_and_capacities(name: str) -> None:
    random = np.random.default_rng(1)
    stages = []
    for at in range(1000):
        parents = {int(parent) for parent in random.integers(max(0, at - 30), at, 2)} if at else set()
        demand = {"cpu": float(random.choice((0.1, 0.25, 0.6)))}
        tasks, duration_ms = int(random.integers(1, 20)), int(random.integers(1, 50))
        stages.append(Stage(at, tasks, duration_ms, demand, tuple(sorted(parents))))
    found = found_by(name, Dag("many", tuple(stages)), 4, 20)
    check(found, CPU, found.makespan)
    check_ranks(found)
    assert found.bounds.best <= min(found.makespan, found.executed_makespan)


@pytest.mark.parametrize("name", EVERY)
def test_nothing_that_takes_time_takes_none(name: str) -> None:
    dag = Dag("quick", (Stage(0, 3, 0, {"cpu": 1.0}), Stage(1, 0, 9, {"cpu": 1.0}, (0,)), Stage(2, 2, 0, {}, (1,))))
    found = found_by(name, dag, 1, 10)
    assert (found.makespan, found.executed_makespan, found.bounds.best) == (0, 0, 0)


def test_a_dag_of_no_stages_takes_no_time() -> None:
    assert graphene_plan(Dag("empty", ()), CPU, 1).makespan == 0


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(DagError, match=r"stage 0: a task needs 2 of cpu, a machine has 1"):
        graphene_plan(Dag("large", (Stage(0, 1, 1, {"cpu": 2.0}),)), CPU, 1)
    with pytest.raises(DagError, match="0 machines; give at least one"):
        graphene_plan(Dag("none", (Stage(0, 1, 1, {}),)), CPU, 0)
    with pytest.raises(DagError, match="durations add up to"):
        graphene_plan(Dag("long", (Stage(0, 2**40, 2**40, {}),)), CPU, 1)


def test_long_tasks_get_the_better_scores_where_they_must_start_first() -> None:
    dag = Dag("two", (Stage(0, 4, 10, {"cpu": 0.5}), Stage(1, 1, 40, {"cpu": 0.5})))
    found = graphene_plan(dag, CPU, 1, 100)
    assert found.makespan == 40
    assert found.scores(1).tolist() == [1.0]
    assert found.scores(0).tolist() == [0.75, 0.5, 0.25, 0.0]


def test_the_command_writes_a_line_and_an_object_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, plots = tmp_path / "plans.json", tmp_path / "plots"
    words = ["lab", "plan", str(DATA / "dags" / "motivating.jsonl"), "--budget-schedules", "50"]
    assert run([*words, "--algorithm", "all", "--out", str(target)]) == 0
    found = json.loads(target.read_text())
    assert [result["algorithm"] for result in found] == ["graphene", "graphene-paper", *NAMES]
    assert set(found[0]) == {"name", "algorithm", "makespan", "executed_makespan", "lower_bound", "seconds"}
    assert (found[0]["makespan"], found[2]["executed_makespan"], found[0]["lower_bound"]) == (180, 380, 180)
    shown = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("│") for line in shown) == len(found)
    assert run([*words, "--algorithm", "cp", "--plot", str(plots)]) == 0
    assert len(list(plots.glob("*.png"))) == 1


def test_the_command_plans_projects(tmp_path: Path) -> None:
    target = tmp_path / "plans.json"
    words = ["lab", "plan", str(DATA / "rcpsp" / "small.jsonl"), "--format", "psplib", "--budget-ms", "20"]
    assert run([*words, "--out", str(target)]) == 0
    assert [result["makespan"] for result in json.loads(target.read_text())] == [13, 3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithm", "x"], "--algorithm: 'x' is none; choose one of graphene, graphene-paper, bfs"),
        (["--format", "psplib", "--machines", "2"], "--machines: psplib instances have one pool; leave it out"),
        (["--out", "/dev/null/x"], "--out: /dev/null/x: Not a directory; name a file that can be written"),
        (["--plot", "/dev/null/x"], "--plot: /dev/null/x: Not a directory; name a folder that can be written"),
    ],
)
def test_a_mistake_is_reported(words: list[str], message: str, cli: Cli) -> None:
    assert (
        message
        in cli(["lab", "plan", str(DATA / "dags" / "motivating.jsonl"), "--budget-schedules", "1", *words], 2).err
    )


@pytest.mark.parametrize("amount", [2.0**41, 1e-300], ids=["large", "small"])
def test_amounts_too_large_or_small_to_count_are_refused(amount: float) -> None:
    with pytest.raises(DagError, match=r"give a (larger|smaller) unit"):
        graphene_plan(Dag("d", (Stage(0, 1, 1, {"cpu": amount}),)), {"cpu": amount}, 1, 1)


def test_a_name_of_several_lines_is_shown_on_one(tmp_path: Path, cli: Cli) -> None:
    stage = {"id": 0, "tasks": 1, "duration_ms": 1, "demand": {}}
    line = {"name": "select *\nfrom x", "machines": 1, "capacity": CPU, "stages": [stage]}
    path = written(tmp_path / "dags.jsonl", json.dumps(line) + "\n")
    found = cli(["lab", "plan", str(path), "--budget-schedules", "1", "--out", str(tmp_path / "plans.json")])
    assert "│ select *?from x " in found.out
    assert json.loads((tmp_path / "plans.json").read_text())[0]["name"] == line["name"]
