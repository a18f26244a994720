"""The same jobs on a real ResourceManager and in the simulator: the same shares, and jobs take as long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.agreement import JOBS, POLICIES, misses, run_both

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.parametrize("policy", POLICIES)
def test_shares_to_one_container_and_completion_times_within_the_bound(policy: str, tmp_path: Path) -> None:
    both = run_both(policy, tmp_path / "cluster", print)
    assert misses(both) == []
    assert both.placed["treadle"] >= sum(job.tasks for job in JOBS)
