"""A tiny run of the load that only schedulers bound: every mode gives its figures. No time is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from treadle_lab.cli.lab.bench.cluster import app

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]


def test_every_mode_places_containers_for_as_long_as_is_measured(tmp_path: Path) -> None:
    chosen = ["async-1", "treadle", "floor"]
    arguments = [
        "--backlog",
        "--out",
        str(tmp_path / "r.json"),
        "--nodes",
        "20",
        "--jobs",
        "6",
        "--preferred-nodes",
        "2",
    ]
    arguments += ["--warm-s", "3", "--window-s", "5", "--stall-s", "90", "--folder", str(tmp_path / "runs")]
    for mode in chosen:
        arguments += ["--mode", mode]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, outcome.output
    content = json.loads((tmp_path / "r.json").read_text())
    for mode in chosen:
        (figures,) = content["modes"][mode]["rounds"]
        assert figures["containers_per_s"] > 0
        assert figures["heartbeat_p99_us"] > 0
        assert figures["placed_by_capacity_scheduler"] == 0
    assert content["comparison"]["best_stock_mode"] == "async-1"
    assert content["comparison"]["rate_ratio"]["mean"] > 0
