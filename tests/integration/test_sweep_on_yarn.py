"""`treadle sweep`: a sweep on a mini cluster's YARN under Treadle, with an executor that is killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.sweep_on_yarn import run_sweep

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

RUNS = int(os.environ.get("TREADLE_SWEEP_RUNS", "1000"))


def test_a_thousand_runs_survive_the_death_of_an_executor(tmp_path: Path) -> None:
    """Nothing is lost, and the results are the bytes that this machine gives by itself."""
    found = run_sweep(RUNS, 2, tmp_path / "work", print)
    assert found.same_bytes
    assert found.failed == 0
    assert 0 < found.kept_at_kill < RUNS, "it was killed in the middle"
    assert found.containers_committed >= 4, "master, two executors and the one in place of the dead one"
    assert json.loads((tmp_path / "work" / "yarn.json").read_text())["failures"] == []
    assert len(list((tmp_path / "work" / "yarn" / "runs").rglob("*.json"))) == RUNS
