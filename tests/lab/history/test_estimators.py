"""Estimators on made-up histories: what they say, how sure they are, and who wins where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.optional import present

from treadle_lab.estimators import (
    ESTIMATORS,
    History,
    JobFeatures,
    JobRecord,
    combined,
    estimate_of,
    learned,
    pilots,
    pilots_wanted,
    point_estimate,
    scaled_by_history,
    three_sigma,
    utility_point,
)

NOBODY = JobFeatures("", "", "stranger", 0, 0.0, 0.0, 10)


def record(number: int, mean_ms: float, name: str = "n", user: str = "u", width: int = 10) -> JobRecord:
    features = JobFeatures("app", name, user, 60_000 * number, 1.0, 1.0, width)
    return JobRecord(str(number), features, np.full(width, round(mean_ms), np.int64))


def samples(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


NONE = samples()


def test_points_of_a_distribution() -> None:
    # 1 / t^2 averages (1 + 1/4 + 1/16) / 3 = 7/16, the utility of 4 / sqrt(7).
    assert utility_point([1, 2, 4]) == pytest.approx(4 / 7**0.5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_to_go_by_gives_no_estimate(name: str) -> None:
    assert ESTIMATORS[name](NOBODY, History(), NONE) is None


def test_the_oracle_is_right() -> None:
    found = ESTIMATORS["oracle"](NOBODY, History(), samples(1000, 3000))
    assert found == (2000, 2000, 2000, 0)


def test_the_feature_with_the_least_past_error_speaks() -> None:
    # Two names with durations of their own under one user, application, request and hour.
    history = learned([record(at, (1000, 9000)[at % 2], name="ab"[at % 2]) for at in range(40)])
    for name, expected in (("a", 1000), ("b", 9000)):
        features = replace(record(41, 1, name=name).features, submit_ms=0)
        prediction = present(history.predict(features, "utility"))
        assert prediction.feature == "name"
        assert prediction.mean_ms == pytest.approx(expected)
        assert three_sigma(features, history, NONE)
    # A name never seen: the others know.
    stranger = present(history.predict(record(42, 1, name="c").features, "median"))
    assert stranger.feature != "name"
    assert 1000 <= stranger.mean_ms <= 9000


def test_a_short_window_wins_where_durations_change() -> None:
    history = learned([record(at, 1000 if at < 100 else 5000) for at in range(110)])
    prediction = present(history.predict(record(111, 1).features, "median"))
    assert prediction.mean_ms == 5000
    assert prediction.jobs <= 8


def test_the_median_of_earlier_jobs_is_of_the_application_else_the_user_else_all() -> None:
    history, median = learned([record(at, 1000.0 * (at + 1)) for at in range(3)]), ESTIMATORS["median"]
    known = record(9, 1.0).features
    for features in (known, replace(known, application="other"), NOBODY):
        found = present(median(features, history, NONE))
        assert found.mean_ms == 2000.0
    assert median(replace(NOBODY, width=1), history, NONE) is None


def test_thin_jobs_learn_from_thin_ones() -> None:
    history = learned([record(at, (100, 7000)[at % 2], width=(2, 10)[at % 2]) for at in range(30)])
    thin = record(31, 1, width=2).features
    wide = record(31, 1, width=10).features
    for features, expected in ((thin, 100), (wide, 7000)):
        found = present(point_estimate(features, history, NONE))
        assert found.mean_ms == pytest.approx(expected)


def test_more_pilots_are_surer_and_all_tasks_are_sure() -> None:
    found = [pilots(NOBODY, History(), np.tile(samples(900, 1100), count)) for count in (1, 2, 4, 5)]
    sigmas = [estimate.sigma for estimate in found if estimate is not None]
    assert sigmas == sorted(sigmas, reverse=True)
    assert len(set(sigmas)) == 4
    assert sigmas[-1] == 0  # ten of ten


def test_pilots_learn_from_history_how_much_tasks_differ() -> None:
    even = learned([record(at, 1000) for at in range(20)])
    generator = np.random.default_rng(1)
    wild = learned([replace(record(at, 1000), durations_ms=generator.integers(1, 3000, 10)) for at in range(20)])
    calm, rough = (pilots(record(21, 1).features, history, samples(1000)) for history in (even, wild))
    assert calm is not None and rough is not None
    assert calm.sigma < 0.01 < 0.2 < rough.sigma


def test_the_surer_of_two_has_the_greater_weight() -> None:
    sure, unsure = estimate_of(1000, 0.1), estimate_of(4000, 0.4)
    both = present(combined(sure, unsure))
    assert both.mean_ms == pytest.approx(1000 * 4 ** (1 / 17))  # weights 16 and 1
    assert both.sigma < sure.sigma
    assert both.low_ms < both.mean_ms < both.high_ms
    assert combined(None, sure) == sure == combined(sure, None)
    assert combined(None, None) is None


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0.01, 3), st.floats(0.01, 3))
def test_a_combination_lies_between(one: float, two: float, sigma: float, other: float) -> None:
    both = present(combined(estimate_of(one, sigma), estimate_of(two, other)))
    assert min(one, two) * 0.999 <= both.mean_ms <= max(one, two) * 1.001
    assert both == combined(estimate_of(two, other), estimate_of(one, sigma)) or both.mean_ms == pytest.approx(
        combined(estimate_of(two, other), estimate_of(one, sigma)).mean_ms  # type: ignore[union-attr]
    )


def test_a_later_stage_is_scaled_as_the_first_turned_out() -> None:
    later = scaled_by_history(estimate_of(500, 0.3), estimate_of(2000, 0.4), estimate_of(1000, 0.3))
    assert later.mean_ms == 1000
    assert later.sigma == pytest.approx(0.5)


def trace(seed: int, between: float, within: float, jobs: int = 300) -> Sequence[JobRecord]:
    """Return jobs of five names, whose means vary between jobs and whose tasks vary within a job."""
    generator = np.random.default_rng(seed)
    records = []
    for number in range(jobs):
        name = int(generator.integers(5))
        mean_ms = 10_000 * 3**name * generator.lognormal(0, between)
        durations = np.maximum(1, mean_ms * generator.lognormal(-(within**2) / 2, within, 40)).astype(np.int64)
        base = record(number, mean_ms, name=str(name), width=40)
        records.append(replace(base, durations_ms=durations))
    return records


def measured(name: str, records: Sequence[JobRecord], seed: int, first: int = 0) -> tuple[list[float], float]:
    """Return the errors in percent of jobs from ``first`` on, and the share of them within the interval."""
    generator, history = np.random.default_rng(seed), History()
    errors: list[float] = []
    within: list[bool] = []
    for number, job in enumerate(records):
        drawn = generator.choice(job.durations_ms, pilots_wanted(job.tasks), replace=False)
        if number >= first:
            said = job.durations_ms if name == "oracle" else drawn
            found = present(ESTIMATORS[name](job.features, history, said)) if number else None
            if found is not None:
                errors.append(100.0 * abs(found.mean_ms - job.mean_ms) / job.mean_ms)
                within.append(found.low_ms <= job.mean_ms <= found.high_ms)
        history.add(job)
    return errors, float(np.mean(within))


@pytest.mark.parametrize(("between", "within"), [(0.05, 1.0), (1.0, 0.05), (0.4, 0.4)])
def test_with_some_history_the_combination_is_as_good_as_the_better_of_the_two(between: float, within: float) -> None:
    errors = {"pilots": 0.0, "point": 0.0, "combined": 0.0}
    for seed in range(3):
        records = trace(seed, between, within)
        for name in errors:
            errors[name] += float(np.mean(np.minimum(200, measured(name, records, seed, 60)[0])))
    assert errors["combined"] <= 1.05 * min(errors["pilots"], errors["point"])


def test_intervals_hold_what_they_promise() -> None:
    records = trace(7, 0.4, 0.4, 600)
    for name in ("pilots", "3sigma", "point", "combined"):
        assert 0.8 <= measured(name, records, 1)[1] <= 1.0, name
    assert max(measured("oracle", records, 1)[0]) == 0


@pytest.mark.parametrize(("width", "wanted"), [(1, 1), (3, 1), (33, 1), (67, 2), (100, 3), (150, 4)])
def test_three_in_a_hundred_and_at_least_one(width: int, wanted: int) -> None:
    assert pilots_wanted(width) == wanted
