"""How many workers a MapReduce job should have. Omega, section 6."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.mapreduce_workers import WorkerPolicy, finish_s, useful_workers, workers_for

ACTIVITIES = st.integers(0, 10_000)


def test_maps_and_then_reduces_are_sped_up_linearly_as_far_as_there_are_any() -> None:
    assert finish_s(5, 50, 10.0, 20, 4.0) == pytest.approx(50 * 10 / 5 + 20 * 4 / 5)
    assert finish_s(20, 50, 10.0, 20, 4.0) == pytest.approx(50 * 10 / 20 + 4.0)
    assert finish_s(40, 50, 10.0, 20, 4.0) == pytest.approx(50 * 10 / 40 + 4.0), "reduces all run at once"
    assert finish_s(50, 50, 10.0, 20, 4.0) == finish_s(5000, 50, 10.0, 20, 4.0) == 14.0
    assert finish_s(5, 50, 10.0, 0, 0.0) == 100.0


@given(st.integers(1, 10_000), ACTIVITIES, st.integers(1, 12_000), st.integers(1, 12_000))
def test_each_worker_up_to_the_useful_ones_gains_and_none_beyond(maps: int, reduces: int, few: int, more: int) -> None:
    few, more = sorted((few, more))
    useful = useful_workers(maps, reduces)
    slow_s, fast_s = (finish_s(workers, maps, 7.0, reduces, 3.0) for workers in (few, more))
    assert fast_s <= slow_s
    assert (fast_s < slow_s) == (few < min(more, useful))


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
