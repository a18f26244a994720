"""Test A of the H-DRF paper on a real ResourceManager scheduled by Treadle."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle_lab.minicluster import Scheduler
from treadle_lab.papers.hdrf.paper_tests import TESTS, Settings, off, run_test

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_to_one_container_as_jobs_come_and_go(tmp_path: Path) -> None:
    test = TESTS["A"]
    run = run_test(test, Scheduler.TREADLE, Settings(task_s=5, step_s=30, window_s=10), tmp_path / "cluster", print)
    assert [off(step, shares) for step, shares in zip(run.steps, test.shares("hdrf"), strict=True)] == [{}, {}, {}, {}]
    assert run.placed["treadle"] > 20
