"""Verdicts: Student's t over log ratios of paired draws, and what `treadle simulate --baseline` shows of them."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit
from tests.support.cli import Cli
from tests.support.files import written

from treadle.simulate.batch import figures_of
from treadle.simulate.comparison import (
    interval_of,
    interval_of_difference,
    interval_of_ratio,
    lateness,
    student,
    verdict_of,
)

SCENARIO = """\
cluster:
  nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]
workload:
  jobs:
    - {name: long, stages: [{tasks: 16, duration_s: 20, demand: {memory-mb: 1024, vcores: 1}}]}
    - name: short
      arrival_s: 1
      count: 3
      gap_s: 1
      stages: [{tasks: 1, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]
"""


def test_a_verdict_is_the_interval_of_log_ratios() -> None:
    logs = np.array([-0.1, -0.2, -0.3])
    found = verdict_of(np.exp(logs) * 7.0, [7.0] * 3)
    half = student(2) * 0.1 / sqrt(3)
    ends = (100 * (exp(-0.2 - half) - 1), 100 * (exp(-0.2 + half) - 1))
    assert (found.change, found.low, found.high) == pytest.approx((100 * (exp(-0.2) - 1), *ends))
    assert (found.draws, found.word) == (3, "undecided")
    assert "undecided" in str(found), "an interval with 0 decides nothing"
    assert "only 3" in str(found), "few draws are said"


def test_less_and_more_have_the_whole_interval_on_one_side() -> None:
    values = [10.0, 11.0, 12.0, 13.0] * 3
    assert verdict_of([0.9 * each for each in values], values).word == "less"
    assert verdict_of([1.1 * each for each in values], values).word == "more"


def test_the_draws_that_2_percent_needs_are_the_fewest() -> None:
    found = verdict_of([1.0, 1.2, 0.9, 1.1], [1.0] * 4)
    deviation = float(np.log([1.0, 1.2, 0.9, 1.1]).std(ddof=1))
    assert found.needed is not None
    assert student(found.needed - 1) * deviation / sqrt(found.needed) <= log(1.02)
    assert student(found.needed - 2) * deviation / sqrt(found.needed - 1) > log(1.02)


def test_one_draw_decides_nothing() -> None:
    found = verdict_of([1.0], [2.0])
    assert (found.word, found.high, found.needed) == ("undecided", inf, None)
    assert verdict_of([], []).draws == 0


def test_late_jobs_take_over_a_tenth_longer() -> None:
    late, worst = lateness(np.array([10.0, 12.0, 30.0, np.nan]), np.array([10.0, 11.0, 10.0, 1.0]))
    assert (late, worst) == (1 / 3, 3.0)


def test_figures_are_of_jobs_that_ended_well_by_size() -> None:
    jobs = {
        "arrival_ms": [0, 0, 0],
        "end_ms": [20_000, 40_000, 1],
        "ideal_ms": [2_000, 20_000, 1],
        "tasks": [1, 50, 1],
        "state": ["done", "done", "failed"],
    }
    found = figures_of(jobs)
    assert found["completion, mean"] == 30.0
    assert found["wait, mean"] == 19.0
    assert found["slowdown, mean"] == 6.0
    assert found["bounded slowdown, mean"] == 2.0, "nothing counts as shorter than 10 s"
    assert found["completion, mean, 1 to 10 tasks"] == 20.0
    assert "completion, mean, over 1,000" not in found


def test_simulate_shows_changes_against_a_baseline(tmp_path: Path, cli: Cli) -> None:
    scenario = written(tmp_path / "scenario.yaml", SCENARIO)
    chosen = [word for name in ("fair", "fifo") for word in ("--policy", name)]
    out = cli(["simulate", str(scenario), *chosen, "--seeds", "2", "--baseline", "fair"]).out
    table = out[out.index("Changes against fair") :]
    assert "undecided" in table or "more" in table
    assert "jobs over 10 % later" in table
    error = cli(["simulate", str(scenario), "--policy", "fifo", "--baseline", "fair"], 2).err
    assert "--baseline: 'fair' is not one of the policies: fifo; add --policy fair" in error


# Intervals by Student's t over seeds.


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
