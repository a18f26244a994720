"""A part that a live engine would stop is reported where a policy is checked and where it is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.policy.watchdog import Stopwatch

SLOW = """
import time

class Mine:
    def keys(self, view):
        time.sleep(0.03)
        return view.applications["id"] * 1.0
"""
SCENARIO = """
cluster:
  nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]
workload:
  jobs: [{stages: [{tasks: 2, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}]
"""


def policy(folder: Path, timeout_ms: int) -> Path:
    (folder / "mine.py").write_text(SLOW)
    file = folder / "slow.yaml"
    file.write_text(
        f"policy: {{order: {{kind: file, path: mine.py, class: Mine}}}}\nlimits: {{part_timeout_ms: {timeout_ms}}}\n"
    )
    return file


def test_a_check_refuses_a_part_that_no_live_engine_would_wait_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["policy", "check", str(policy(tmp_path, 10))]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "slow.yaml:1: policy: tried out on a small cluster: a call to a part took" in said
    assert "stops the parts of a decision after 10 ms (limits.part_timeout_ms)" in said


def test_a_simulation_says_where_a_live_engine_would_have_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    command = ["simulate", str(tmp_path / "scenario.yaml"), f"--policy={policy(tmp_path, 10)}", "--profile"]
    assert run(command) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "parts from files took longer than limits.part_timeout_ms (10 ms) in" in said
    assert "by the clock" in said


def test_what_a_stopwatch_counts() -> None:
    now = iter([0.0, 0.2, 1.0, 1.4, 5.0, 5.1])
    watch = Stopwatch(0.5, lambda: next(now))
    watch.begin(0)
    assert watch(lambda: 3) == 3
    assert watch(lambda: 4) == 4
    watch.begin(100)
    watch.begin(2000)
    watch(lambda: 5)
    watch.end()
    times = watch.times
    assert (times.decides, times.too_slow, times.slowest_at_ms) == (2, 1, 0)
    assert times.slowest_s == pytest.approx(0.6)
    assert times.all_s == pytest.approx(0.7)
    assert "in 1 of 2 decisions, 600 ms at 0 s" in times.warning(500)
    assert Stopwatch(0.5).times.warning(500) == ""
