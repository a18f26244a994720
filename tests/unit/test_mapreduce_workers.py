"""How many workers a MapReduce job should have. Omega, section 6."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.mapreduce import finish_s, useful_workers
from treadle.policy.slearn.gate import AdaptiveRatio

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


# SLearn's adaptive sampling ratio, against sequences worked out by hand.


def started(jobs: int = 2) -> AdaptiveRatio:
    """Return one that has given out its first three rounds."""
    ratio = AdaptiveRatio(jobs)
    for _ in range(3 * jobs):
        ratio.next_percent()
    return ratio


def scored(**means: float) -> AdaptiveRatio:
    """Return one with one job for each ratio, such as ``p3=1.0``."""
    ratio = started()
    for name, mean in means.items():
        ratio.ended(float(name[1:]), mean)
    return ratio


def test_it_begins_with_three_two_and_four_percent_for_so_many_jobs_each() -> None:
    ratio = AdaptiveRatio(2)
    assert [ratio.next_percent() for _ in range(6)] == [3.0, 3.0, 2.0, 2.0, 4.0, 4.0]
    assert [AdaptiveRatio().next_percent() for _ in range(1)] == [3.0]


@pytest.mark.parametrize(
    ("means", "percent"),
    [
        ({"p2": 5.0, "p3": 4.0, "p4": 6.0}, 3.0),
        ({"p2": 4.0, "p3": 4.3, "p4": 6.0}, 2.0),
        ({"p2": 6.0, "p3": 4.3, "p4": 4.0}, 4.0),
        ({"p2": 4.0, "p3": 4.5, "p4": 6.0}, 1.0),  # further, where that has paid
        ({"p2": 6.0, "p3": 4.5, "p4": 4.0}, 5.0),
        ({"p2": 4.0, "p3": 4.4, "p4": 6.0}, 2.0),  # 1.1 times is not more than 1.1 times
        ({"p1": 3.0, "p2": 4.0, "p3": 4.5}, 1.0),  # what lies beyond is kept while it is best
        ({"p1": 5.0, "p2": 4.0, "p3": 4.2}, 2.0),
        ({"p5": 3.0, "p4": 4.0, "p3": 4.5}, 5.0),
        ({"p2": 4.0, "p3": 4.0, "p4": 4.0}, 2.0),
        ({}, 3.0),
    ],
)
def test_then_the_best_so_far_or_beyond_it(means: dict[str, float], percent: float) -> None:
    assert scored(**means).next_percent() == percent


def test_only_the_last_jobs_of_a_ratio_count() -> None:
    ratio = started(2)
    for score in (1.0, 9.0, 9.0):
        ratio.ended(3.0, score)
    ratio.ended(2.0, 8.9)
    assert ratio.next_percent() == 2.0
    ratio.ended(3.0, 2.0)
    assert ratio.next_percent() == 3.0
