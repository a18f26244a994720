"""`treadle lab bench simulator`: what it runs and what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import run as treadle
from treadle.config.settings import default_settings
from treadle_lab.bench.simulator import LOADS, SLOTS, TASKS_PER_SLOT, measure


@pytest.mark.parametrize("load", LOADS)
def test_every_load_keeps_the_machines_busy_and_ends(load: str) -> None:
    figures = measure("default", default_settings(), load, 2)
    assert figures["tasks"] == SLOTS * TASKS_PER_SLOT * 2
    assert (figures["containers"] < figures["tasks"]) is (load == "reuse")
    busy = figures["tasks"] * 10 / (2 * SLOTS) / figures["simulated_s"]
    assert 0.5 < busy <= 1
    assert sum(figures["parts"].values()) == pytest.approx(1)
    assert figures["events"] > figures["tasks"]
    assert 0 < figures["decides"] <= figures["simulated_s"] * 10 + 1


def test_results_as_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    options = ["--nodes", "1", "--nodes", "2", "--load", "containers", "--out", str(file)]
    assert treadle(["lab", "bench", "simulator", *options]) == 0
    assert "completions/s" in capsys.readouterr().out
    runs = json.loads(file.read_text())["runs"]
    assert [run["nodes"] for run in runs] == [1, 2]
    assert all(run["completions_per_s"] > 0 for run in runs)


def test_a_load_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert treadle(["lab", "bench", "simulator", "--load", "all"]) == 2
    assert "--load: all is none here; give one of containers, reuse, jobs" in capsys.readouterr().err
