"""Intervals by Student's t over seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from treadle.simulate.comparison import interval_of, interval_of_difference, interval_of_ratio, student


def test_a_single_seed_has_no_interval() -> None:
    assert interval_of([3.0]) == (3.0, 3.0, 3.0)
    assert str(interval_of([3.0])) == "3"
    assert all(np.isnan(interval_of([])))


def test_equal_values_give_equal_intervals_and_what_is_no_number_is_left_out() -> None:
    values = [1.0, 2.0, 4.0, 8.0]
    assert interval_of(values) == interval_of([*values, float("nan")])
    found = interval_of(values)
    assert found.mean == 3.75
    half = 3.182446 * np.std(values, ddof=1) / 2
    assert (found.low, found.high) == pytest.approx((3.75 - half, 3.75 + half))
    assert found.as_json() == {"mean": found.mean, "low": found.low, "high": found.high}


def test_student_s_t_is_that_of_scipy() -> None:
    degrees = np.array([*range(1, 60), 100, 1000, 100_000])
    assert [student(int(each)) for each in degrees] == pytest.approx(stdtrit(degrees, 0.975), rel=1e-5)


@pytest.mark.parametrize("count", [3, 5, 20])
def test_the_interval_covers_the_true_mean_about_as_often_as_it_says(count: int) -> None:
    chance = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        low, high = interval_of(chance.normal(10, 3, count))[1:]
        covered += low <= 10 <= high
    assert 366 <= covered <= 394, "380 of 400, less or more three deviations"


def test_what_seeds_have_in_common_does_not_widen_the_interval_of_a_pair() -> None:
    chance = np.random.default_rng(2)
    hard = chance.uniform(10, 1000, 12)
    mine, other = 0.8 * hard, hard
    ratio = interval_of_ratio(mine, other)
    assert ratio.low == pytest.approx(0.8)
    assert ratio.high == pytest.approx(0.8)
    alone = interval_of(mine)
    assert alone.high - alone.low > 100
    assert interval_of_difference(other + 5, other) == pytest.approx((5.0, 5.0, 5.0))
    with pytest.raises(ValueError, match="give one pair a seed"):
        interval_of_ratio([1.0], [1.0, 2.0])
