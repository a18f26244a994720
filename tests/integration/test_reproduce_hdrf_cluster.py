"""Test A of the H-DRF paper on simulated nodes of a real ResourceManager scheduled by Treadle."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle_lab.cli._experiments import setting_of_testbed
from treadle_lab.papers.hdrf.paper_tests import TESTS, TREADLE, Settings, off, run_test
from treadle_lab.sls.play import KeptPlays, Player

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_to_one_container_as_jobs_come_and_go(tmp_path: Path) -> None:
    test = TESTS["A"]
    player = Player(setting_of_testbed(), tmp_path, KeptPlays(None, "treadle_lab.papers.hdrf.sls"), print)
    run = run_test(test, TREADLE, Settings(), player)
    assert [off(step, shares) for step, shares in zip(run.steps, test.shares("hdrf"), strict=True)] == [{}, {}, {}, {}]
    assert run.played.placed_by_capacity_scheduler == 0
