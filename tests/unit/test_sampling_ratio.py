"""SLearn's adaptive sampling ratio, against sequences worked out by hand."""

from __future__ import annotations

from treadle.policy.slearn.gate import AdaptiveRatio, FixedRatio


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


def test_then_the_best_so_far() -> None:
    assert scored(p2=5.0, p3=4.0, p4=6.0).next_percent() == 3.0
    assert scored(p2=4.0, p3=4.3, p4=6.0).next_percent() == 2.0
    assert scored(p2=6.0, p3=4.3, p4=4.0).next_percent() == 4.0


def test_it_goes_further_where_that_has_paid() -> None:
    assert scored(p2=4.0, p3=4.5, p4=6.0).next_percent() == 1.0
    assert scored(p2=6.0, p3=4.5, p4=4.0).next_percent() == 5.0
    assert scored(p2=4.0, p3=4.4, p4=6.0).next_percent() == 2.0, "1.1 times is not more than 1.1 times"


def test_what_lies_beyond_is_kept_while_it_is_best() -> None:
    assert scored(p1=3.0, p2=4.0, p3=4.5).next_percent() == 1.0
    assert scored(p1=5.0, p2=4.0, p3=4.2).next_percent() == 2.0
    assert scored(p5=3.0, p4=4.0, p3=4.5).next_percent() == 5.0


def test_only_the_last_jobs_of_a_ratio_count() -> None:
    ratio = started(2)
    for score in (1.0, 9.0, 9.0):
        ratio.ended(3.0, score)
    ratio.ended(2.0, 8.9)
    assert ratio.next_percent() == 2.0
    ratio.ended(3.0, 2.0)
    assert ratio.next_percent() == 3.0


def test_without_any_job_that_ended_and_of_equals() -> None:
    assert started().next_percent() == 3.0
    assert scored(p2=4.0, p3=4.0, p4=4.0).next_percent() == 2.0


def test_a_fixed_ratio_learns_nothing() -> None:
    ratio = FixedRatio(7.5)
    ratio.ended(3.0, 0.1)
    assert ratio.next_percent() == 7.5
