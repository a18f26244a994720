"""`treadle demo`: jobs of three frameworks, the engine killed during one, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from treadle_lab.minicluster import processes
from treadle_lab.minicluster.site import Layout

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_demo_places_every_container_survives_a_kill_and_leaves_nothing(tmp_path: Path) -> None:
    folder, results = tmp_path / "demo", tmp_path / "demo.json"
    command = [sys.executable, "-m", "treadle", "demo", "--folder", str(folder), "--out", str(results)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1100)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(results.read_text())
    together = [job for job in report["jobs"] if job["phase"] != "kill"]
    (killed,) = [job for job in report["jobs"] if job["phase"] == "kill"]
    assert {job["state"] for job in report["jobs"]} == {"SUCCEEDED"}
    assert {job["framework"] for job in together} == {"MapReduce", "Tez", "Spark"}
    assert len({job["queue"] for job in together}) == 2
    for job in together:
        assert job["containers"] == job["placed_by_treadle"] > 0, job
        assert job["placed_by_capacity_scheduler"] == 0, job
        assert job["seconds"] > 0, job
    assert killed["placed_by_treadle"] > 0
    assert killed["placed_by_capacity_scheduler"] > 0
    assert killed["placed_by_treadle"] + killed["placed_by_capacity_scheduler"] == killed["containers"]
    # taken, lost with the kill, taken again
    assert report["lease_flips"] >= 3
    assert 0 < report["decide_ms"]["p50"] <= report["decide_ms"]["p99"]
    assert report["rejected"] == sum(report["rejected_by_reason"].values())
    for job in report["jobs"]:
        assert job["name"] in done.stdout
    assert processes.members(Layout(folder.resolve(), [], [])) == []
