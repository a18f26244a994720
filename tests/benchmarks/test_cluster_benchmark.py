"""A tiny run of every mode: the results are complete and nothing is rejected. No time is judged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from treadle_lab.cli.lab.bench.cluster import app
from treadle_lab.sls.run import MODES

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]

JOBS = 3
TASKS = 40


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bench")
    arguments = ["--out", str(folder / "results.json"), "--folder", str(folder / "runs")]
    arguments += ["--stall-s", "90", "--nodes", "20", "--jobs", str(JOBS), "--tasks", str(TASKS), "--task-ms", "1000"]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, outcome.output
    content: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return content


@pytest.mark.parametrize("mode", MODES)
def test_every_container_of_the_load_ran_under(mode: str, results: dict[str, Any]) -> None:
    figures = results["modes"][mode]["median"]
    assert results["modes"][mode]["failures"] == []
    assert figures["containers_missing"] == 0
    assert figures["containers"] == JOBS * (TASKS + 1)
    assert figures["span_s"] > 1, "a task takes a second"
    for name in ("try_commit_cpu_us", "scheduler_cpu_us", "heartbeat_p99_us", "heartbeats_share", "jvm_cpu_us"):
        assert figures[name] > 0, name


@pytest.mark.parametrize("mode", ["treadle", "floor"])
def test_the_engine_placed_everything_and_nothing_was_rejected(mode: str, results: dict[str, Any]) -> None:
    figures = results["modes"][mode]["median"]
    assert figures["rejected"] == 0
    assert figures["placed_by_capacity_scheduler"] == 0
    assert figures["decide_p99_us"] > 0


def test_treadle_is_compared_with_stock_and_floor(results: dict[str, Any]) -> None:
    comparison = results["comparison"]
    assert comparison["best_stock_mode"] in {"sync", "async-1", "async-2"}
    assert comparison["span_ratio"]["mean"] > 0
    assert comparison["floor_ratio"]["mean"] > 0


def test_only_modes_with_an_engine_in_python_have_a_sidecar(results: dict[str, Any]) -> None:
    cpu = {mode: results["modes"][mode]["median"]["sidecar_cpu_us"] for mode in MODES}
    assert {mode for mode, spent_us in cpu.items() if spent_us} == {"observe", "treadle"}
