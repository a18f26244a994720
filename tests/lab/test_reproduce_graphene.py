"""Graphene's evaluation, small: jobs, schemes, figures and the command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.tables import mean_of, rows_of
from typer.testing import CliRunner

from treadle.dag import Dag, Stage
from treadle.workload.job import Job, Workload, arranged
from treadle_lab.cli.lab.reproduce.graphene import app
from treadle_lab.harness.runs import RunSettings
from treadle_lab.papers.graphene import experiment
from treadle_lab.papers.graphene.experiment import (
    BFS,
    BFS_CORES,
    BFS_MEMORY,
    GRAPHENE,
    ORDER_CAPACITY,
    SCHEMES,
    Outcome,
    Part,
    PlanSources,
    SchemeRun,
    Sizes,
    arrivals,
    at_once,
    bounds_of,
    gaps_percent,
    generated,
    results_of,
    run_scheme,
    run_seeds,
    runs_of,
    tpch_shaped,
)

TPCH = Path(__file__).resolve().parents[1] / "data" / "tpch"
MACHINES = 2


@pytest.fixture(autouse=True, scope="module")
def _small() -> object:
    """Make generated DAGs small: what is tested does not depend on their size."""
    patch = pytest.MonkeyPatch()
    patch.setattr(experiment, "TASKS", (10, 40))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def outcome(_small: object) -> Outcome:
    return run(TPCH, Sizes(jobs=3, load=0.6))


def run(tpch: Path | None, sizes: Sizes, keep: Path | None = None) -> Outcome:
    (found,) = run_seeds(tpch, sizes, [1], RunSettings(keep, 1))
    return found


def jobs(seed: int = 1) -> Workload:
    return arrivals(generated(MACHINES), MACHINES, seed, 4, 0.5)


def test_tpch_shaped_jobs_have_the_measured_edges_and_drawn_demands() -> None:
    random = np.random.default_rng(1)
    shape = tpch_shaped(TPCH)
    stages = [stage for number in range(20) for stage in shape(random, f"job{number}").stages]
    assert all(0.0 < amount <= 0.65 for stage in stages for amount in stage.demand.values())
    assert any(stage.parents for stage in stages)
    assert len({tuple(stage.demand.items()) for stage in stages}) > 20


def test_equal_seeds_give_equal_jobs_and_results() -> None:
    first, again = (run_scheme(jobs(), GRAPHENE, MACHINES, 1) for _ in range(2))
    assert first.completion_ms.tolist() == again.completion_ms.tolist()
    assert jobs(2).jobs[0].arrival_ms != jobs().jobs[0].arrival_ms


def test_plans_are_made_once_for_all_schemes() -> None:
    plans: PlanSources = {}
    first, second = (run_scheme(jobs(), scheme, MACHINES, 1, plans=plans) for scheme in (GRAPHENE, ORDER_CAPACITY))
    assert [source.planned for source in plans.values()] == [4]
    assert first.completion_ms.tolist() == run_scheme(jobs(), GRAPHENE, MACHINES, 1).completion_ms.tolist()
    assert second.completion_ms.tolist() == run_scheme(jobs(), ORDER_CAPACITY, MACHINES, 1).completion_ms.tolist()


def test_a_batch_comes_earlier_and_is_the_same_otherwise() -> None:
    spread = jobs()
    batch = at_once(spread)
    assert batch.span_ms <= spread.span_ms * 0.05 + 1
    assert all(late.dag is soon.dag for late, soon in zip(spread.jobs, batch.jobs, strict=True))


def test_a_baseline_that_does_not_count_a_resource_is_slowed_by_it() -> None:
    """A machine's work takes as long as its most wanted resource; whoever counts it waits, who does not is slowed."""
    work = jobs()
    counted, cores, memory = (run_scheme(work, scheme, MACHINES, 1) for scheme in (BFS, BFS_CORES, BFS_MEMORY))
    assert cores.completion_ms.tolist() != counted.completion_ms.tolist()
    assert memory.mean_s > counted.mean_s
    demands = np.array([[stage.demand[name] for name in ("cpu", "memory", "network")] for stage in stages_of(work)])
    work_ms = np.array([stage.tasks * stage.duration_ms for stage in stages_of(work)])
    for result in (counted, cores, memory):
        assert result.makespan_ms >= (work_ms @ demands).max() / MACHINES


FEW = Sizes(jobs=2, parts=frozenset({Part.ONLINE}), schemes=frozenset({"graphene"}))


def stages_of(workload: Workload) -> list[Stage]:
    return [stage for job in workload.jobs for stage in job.dag.stages]


def test_one_part_alone_is_run_and_reported() -> None:
    outcome = run(TPCH, FEW)
    assert not outcome.batch
    assert set(results_of([outcome]).tables) == {"graphene-online"}


def test_everything_is_run(outcome: Outcome) -> None:
    assert set(outcome.online) == {"tpch", "generated"}
    assert set(outcome.online["tpch"]) == {scheme.name for scheme in SCHEMES}
    assert set(outcome.batch["generated"]) == {"bfs", "bfs-cores", "bfs-memory", "tetris", "graphene"}


def test_no_job_is_faster_than_its_critical_path(outcome: Outcome) -> None:
    machines = experiment.GENERATED_MACHINES
    for number, job in enumerate(arrivals(generated(machines), machines, 1, 3, 0.6).jobs):
        longest: dict[int, int] = {}
        for stage in job.dag.stages:
            longest[stage.id] = stage.duration_ms + max((longest[parent] for parent in stage.parents), default=0)
        for scheme, result in outcome.online["generated"].items():
            assert result.completion_ms[number] >= max(longest.values()), scheme


def test_no_batch_is_faster_than_its_bounds(outcome: Outcome) -> None:
    for workload, bounds in outcome.batch_bounds.items():
        for scheme, result in outcome.batch[workload].items():
            counts_all = scheme not in (BFS_CORES.name, BFS_MEMORY.name)
            least = bounds.planner_ms if counts_all else max(bounds.work_ms, bounds.path_ms)
            assert result.makespan_ms >= least > 0, (workload, scheme)


def test_bounds_of_a_batch_are_work_longest_path_and_what_waves_take() -> None:
    chain = (Stage(0, 1, 10_000, {"memory": 0.5}), Stage(1, 1, 5_000, {"memory": 0.5}, (0,)))
    wide = Dag("wide", (Stage(0, 8, 10_000, {"cpu": 0.6, "memory": 0.1}),))
    batch = arranged((Job("chain", 1_000, Dag("chain", chain)), Job("wide", 3_000, wide)))
    bounds = bounds_of(batch, MACHINES)
    assert bounds.work_ms == 8 * 10_000 * 0.6 / 2
    assert bounds.path_ms == 15_000
    assert bounds.planner_ms == 2_000 + 4 * 10_000  # one of its tasks a machine at a time
    assert bounds.one_plan_ms == bounds.one_breadth_first_ms == bounds.planner_ms  # the chain fits beside them


def test_the_report_has_intervals_and_the_papers_figures_that_are_left(outcome: Outcome) -> None:
    found = results_of([outcome, outcome])
    report = found.as_json()

    def possible(bound: str) -> float:
        return found.figure("graphene-batch", "throughput over bfs (%)", bound, "generated").mean

    least, took = outcome.batch_bounds["generated"], outcome.batch["generated"]["bfs"].makespan_ms
    assert mean_of(report, "graphene-batch", "batch (s)", "generated", "bfs") == pytest.approx(took / 1000.0)
    assert possible("planner's bound") == pytest.approx(100.0 * (took / least.planner_ms - 1.0))
    assert possible("work or path bound") >= possible("planner's bound") >= possible("one plan")
    online = rows_of(report, "graphene-online")
    for base in ("bfs", "bfs-cores", "bfs-memory"):
        assert online["tpch", base][f"median shorter than {base} (%)"] == ""
    ours, bfs = outcome.online["generated"]["graphene"], outcome.online["generated"]["bfs"]
    gap = found.figure("graphene-online", "median gap to bfs (%)", "graphene", "generated")
    assert gap.mean == pytest.approx(np.median(gaps_percent(ours, bfs)))
    assert online["tpch", "graphene"]["paper"] == "30", "of the gap; the median's is in a column before it"
    json.dumps(report, allow_nan=False)


def test_results_that_are_kept_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(None, FEW, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "run_scheme", lambda *_, **__: pytest.fail("a result was run again"))
        again = run(None, FEW, tmp_path)
        assert results_of([again]) == results_of([first])
    files = set(tmp_path.rglob("*.json"))
    for other in (replace(FEW, load=0.5), replace(FEW, jobs=3)):
        run(None, other, tmp_path)
        assert files < (files := set(tmp_path.rglob("*.json")))


def test_a_result_is_kept_by_all_that_it_depends_on(tmp_path: Path) -> None:
    run_of = SchemeRun(experiment.Draw(MACHINES, 1, 4, 0.6), GRAPHENE)
    others = [replace(run_of, scheme=BFS_MEMORY)]
    draws: list[dict[str, Any]] = [{"seed": 2}, {"jobs": 5}, {"load": 0.5}, {"batch": True}]
    draws += [{"machines": 3}, {"tpch": TPCH}]
    others += [replace(run_of, draw=replace(run_of.draw, **draw)) for draw in draws]
    changed = tmp_path / "tpch"
    shutil.copytree(TPCH, changed)
    (changed / "edges.csv").write_text((changed / "edges.csv").read_text("utf-8") + "\n", "utf-8")
    others.append(replace(run_of, draw=replace(run_of.draw, tpch=changed)))
    assert len({each.key for each in (run_of, *others)}) == 1 + len(others)


def test_seeds_are_told_and_kept(tmp_path: Path) -> None:
    told = []
    first = run_seeds(None, FEW, [1, 2], RunSettings(tmp_path, 1), lambda *now: told.append(now))
    runs = 2 * len(list(runs_of(None, FEW, 1)))
    assert told[-1] == (runs, runs)
    assert [outcome.seed for outcome in first] == [1, 2]
    files = set(tmp_path.rglob("*.json"))
    assert len(files) == runs
    again = run_seeds(None, FEW, [2, 1], RunSettings(tmp_path, 1))
    assert results_of(again[::-1]) == results_of(first)
    assert set(tmp_path.rglob("*.json")) == files


def test_schemes_can_be_chosen() -> None:
    sizes = Sizes(jobs=2, parts=frozenset({Part.ONLINE}), schemes=frozenset({"cp"}))
    assert set(run(None, sizes).online["generated"]) == {"bfs", "cp"}


def test_the_command_writes_json_and_plots(tmp_path: Path) -> None:
    arguments = ["--tpch", str(TPCH), "--quick", "--jobs", "2"]
    arguments += ["--part=online", "--scheme=cp"]
    arguments += ["--out", str(tmp_path / "a" / "figures.json"), "--plot", str(tmp_path / "plots")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "a" / "figures.json").read_text())
    assert figures["seeds"] == [1]
    assert {file.name for file in (tmp_path / "plots").iterdir()} == {
        f"graphene-gaps-{name}.png" for name in ("tpch", "generated")
    }
