"""Graphene's factorial, small: which runs there are, what is kept, what levels come to, and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.tables import mean_of, rows_of
from typer.testing import CliRunner

from treadle.simulator.feed import planned_machines
from treadle_lab.cli.lab.reproduce.graphene_factorial import app
from treadle_lab.dags import Shape, generate
from treadle_lab.harness.runs import RunSettings
from treadle_lab.papers.graphene import jobs as graphene_jobs
from treadle_lab.papers.graphene.factorial import Levels, Selection, Size, results_of, run_factorial
from treadle_lab.papers.graphene.jobs import (
    AS_IT_IS,
    BFS,
    GRAPHENE,
    PRODUCTION,
    TETRIS_ALL,
    Mix,
    Variation,
    scenario_of,
)

LEVELS = Levels(("generated",), (Size(3, 2),), (0.6,), (500,), (1.0,), ((0.5, 0.7),), (16, 0), (1.0,), (None, 1.5))
WANTED = Selection(LEVELS, ("bfs-cores", "graphene"), (1, 2), True, True, None)


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Make generated DAGs small: what is tested does not depend on their size."""
    patch = pytest.MonkeyPatch()
    patch.setattr(graphene_jobs, "TASKS", (10, 40))
    yield
    patch.undo()


def test_schemes_without_a_perf_score_run_once_a_point() -> None:
    cells = WANTED.cells()
    assert [scheme.name for _, scheme, _ in cells] == ["bfs", "bfs-cores", *["graphene"] * 4]
    assert [variation for *_, variation in cells[:2]] == [AS_IT_IS, AS_IT_IS]
    assert len({repr(scheme.settings(1)) for _, scheme, _ in cells[2:]}) == 4


def test_overbooking_takes_resources_from_the_rms_count_and_bounds_them() -> None:
    varied = GRAPHENE.varied(Variation(overbook=1.5), PRODUCTION)
    mix = Mix(2, resources=PRODUCTION, usage=(0.5, 0.7))
    cluster = scenario_of(mix, varied).cluster
    assert {each.name: (each.counted, each.usage) for each in cluster.resources} == {
        "cpu": (True, (1.0, 1.0)),
        "memory": (True, (1.0, 1.0)),
        "network": (False, (0.5, 0.7)),
        "disk": (False, (0.5, 0.7)),
    }
    assert varied.settings(1).policy.fit.parameters.model_dump()["overbook"] == {"network": 1.5, "disk": 1.5}
    machines = planned_machines(scenario_of(mix, varied), varied.settings(1))
    assert machines.capacity == {"cpu": 1.0, "memory": 1.0, "network": 1.5, "disk": 1.5}
    assert BFS.varied(Variation(overbook=1.5), PRODUCTION) == BFS
    kept = TETRIS_ALL.varied(Variation(candidates=4)).settings(1).policy.fit.parameters.model_dump()
    assert kept["all_priorities"], "a scheme's own settings stay"
    assert kept["candidates"] == 4


def test_jobs_as_in_production_have_four_resources_and_edges_one_to_one() -> None:
    shape = Shape(machines=4, stages=(20, 30), tasks=(200, 400), one_to_one_share=0.8, resources=PRODUCTION)
    edges = paired = 0
    for seed in range(10):
        dag = generate(seed, shape).dag
        assert all(set(stage.demand) == set(PRODUCTION) for stage in dag.stages)
        edges += sum(len(stage.parents) for stage in dag.stages)
        paired += sum(len(stage.one_to_one) for stage in dag.stages)
    assert paired > edges / 2
    plain = generate(1, Shape(machines=4, stages=(20, 30), tasks=(200, 400)))
    assert not any(stage.one_to_one for stage in plain.dag.stages)


def test_runs_are_kept_and_levels_are_means_over_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results_of(WANTED, run_factorial(WANTED, RunSettings(tmp_path, 1)))
    each = rows_of(found.as_json(), "graphene-rows")
    assert len(each) == 6
    assert len(list(tmp_path.rglob("runs/**/*.json"))) == 6 * 2 * 2
    monkeypatch.setattr(graphene_jobs, "run_scheme", lambda *_, **__: pytest.fail("a result was run again"))
    assert results_of(WANTED, run_factorial(WANTED, RunSettings(tmp_path, 1))) == found
    graphene = {levels[:-1]: row for levels, row in each.items() if levels[-1] == "graphene"}
    assert set(graphene) == {(candidates, overbook) for candidates in ("16", "all") for overbook in ("counted", "1.5")}
    over = "throughput over bfs (%)"
    counted = [row[over]["mean"] for (_, overbook), row in graphene.items() if overbook == "counted"]
    effect = mean_of(found.as_json(), "graphene-effects", over, "graphene", "overbook", "counted")
    assert effect == pytest.approx(np.mean(counted))
    effects = set(rows_of(found.as_json(), "graphene-effects"))
    assert {names[:2] for names in effects} == {("graphene", "candidates"), ("graphene", "overbook")}


def test_wrong_estimates_change_what_is_believed_and_not_the_jobs(tmp_path: Path) -> None:
    wrong = replace(WANTED, levels=replace(LEVELS, wrong=(1.0, 3.0), candidates=(16,), overbook=(None,)), seeds=(1,))
    found = results_of(wrong, run_factorial(wrong, RunSettings(tmp_path, 1))).as_json()
    right, off = (mean_of(found, "graphene-rows", "batch (s)", factor, "bfs") for factor in ("1.0", "3.0"))
    assert right == off, "breadth first believes nothing"


def test_usage_is_misjudged_where_tasks_use_more_than_overbooking_allows_for(tmp_path: Path) -> None:
    levels = replace(LEVELS, usages=((0.1, 0.1), (1.0, 1.0)), candidates=(0,))
    wanted = replace(WANTED, levels=levels, seeds=(1,))
    found = results_of(wanted, run_factorial(wanted, RunSettings(tmp_path, 1))).as_json()

    def batch_s(usage: str, overbook: str) -> float:
        return float(mean_of(found, "graphene-rows", "batch (s)", usage, overbook, "graphene"))

    assert batch_s("0.1..0.1", "counted") == batch_s("1..1", "counted"), "nothing is given out twice"
    assert batch_s("0.1..0.1", "1.5") < batch_s("1..1", "1.5"), "tasks slow each other down"


def test_the_command_writes_figures(tmp_path: Path) -> None:
    arguments = ["--workload", "production", "--size", "2x2", "--tick-ms", "500", "--candidates", "16", "--seeds", "1"]
    arguments += ["--srpt-weight", "1", "--scheme", "tetris-all", "--part", "batch", "--processes", "1"]
    arguments += ["--out", str(tmp_path / "figures.json")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "the mean over all other factors" in result.output
    found = json.loads((tmp_path / "figures.json").read_text())
    rows = rows_of(found, "graphene-rows")
    assert list(rows) == [("", "bfs"), ("counted", "tetris-all"), ("1.5", "tetris-all")]
    assert "median (s)" not in rows["", "bfs"]
