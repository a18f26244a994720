"""How many workers a MapReduce job gets in a simulated cell, by policy. Omega, section 6.1."""

from __future__ import annotations

import pytest

from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.models.cell_state import workers_for


@pytest.mark.parametrize(
    ("policy", "idle", "below_cap", "workers"),
    [
        (WorkerPolicy.AS_REQUESTED, 500, 500, 10),
        (WorkerPolicy.MAX_PARALLELISM, 500, 0, 100),
        (WorkerPolicy.MAX_PARALLELISM, 70, 0, 70),
        (WorkerPolicy.MAX_PARALLELISM, 3, 0, 10),
        (WorkerPolicy.RELATIVE_JOB_SIZE, 500, 0, 40),
        (WorkerPolicy.RELATIVE_JOB_SIZE, 30, 0, 30),
        (WorkerPolicy.GLOBAL_CAP, 500, 60, 60),
        (WorkerPolicy.GLOBAL_CAP, 500, 200, 100),
        (WorkerPolicy.GLOBAL_CAP, 500, 0, 10),
    ],
)
def test_ten_workers_are_asked_for_and_a_hundred_are_of_use(
    policy: WorkerPolicy, idle: int, below_cap: int, workers: int
) -> None:
    assert workers_for(policy, 10, 100, idle, below_cap) == workers


@pytest.mark.parametrize("policy", WorkerPolicy)
def test_a_job_that_keeps_fewer_busy_than_were_asked_for_gets_no_more(policy: WorkerPolicy) -> None:
    assert workers_for(policy, 10, 4, 500, 500) == 10
