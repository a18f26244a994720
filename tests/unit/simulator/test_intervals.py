"""Intervals by the bootstrap over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.simulate.statistics import bootstrap, bootstrap_difference, bootstrap_ratio


def test_a_single_seed_has_no_interval() -> None:
    assert bootstrap([3.0]) == (3.0, 3.0, 3.0)
    assert str(bootstrap([3.0])) == "3"
    assert all(np.isnan(bootstrap([])))


def test_equal_values_give_equal_intervals_and_what_is_no_number_is_left_out() -> None:
    values = [1.0, 2.0, 4.0, 8.0]
    assert bootstrap(values) == bootstrap([*values, float("nan")])
    found = bootstrap(values)
    assert found.mean == 3.75
    assert 1.0 < found.low < 3.75 < found.high < 8.0
    assert found.as_json() == {"mean": found.mean, "low": found.low, "high": found.high}


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        low, high = bootstrap(chance.normal(10, 3, 20))[1:]
        covered += low <= 10 <= high
    assert 170 <= covered <= 200


def test_what_seeds_have_in_common_does_not_widen_the_interval_of_a_pair() -> None:
    chance = np.random.default_rng(2)
    hard = chance.uniform(10, 1000, 12)
    mine, other = 0.8 * hard, hard
    ratio = bootstrap_ratio(mine, other)
    assert ratio.low == pytest.approx(0.8)
    assert ratio.high == pytest.approx(0.8)
    alone = bootstrap(mine)
    assert alone.high - alone.low > 100
    assert bootstrap_difference(other + 5, other) == pytest.approx((5.0, 5.0, 5.0))
    with pytest.raises(ValueError, match="give one pair a seed"):
        bootstrap_ratio([1.0], [1.0, 2.0])
