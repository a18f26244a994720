"""A sketch of durations is exact in count, mean, deviation and extremes, and near in its quantiles."""

from __future__ import annotations

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.history.run import DURATION_MAX_MS, RELATIVE_ACCURACY, DurationSketch

DURATIONS = st.lists(st.integers(0, DURATION_MAX_MS), min_size=1, max_size=60)


@given(DURATIONS, st.floats(0, 1))
def test_quantiles_are_within_the_relative_accuracy(durations_ms: list[int], quantile: float) -> None:
    sketch = DurationSketch(durations_ms)
    true = sorted(durations_ms)[math.floor(quantile * (len(durations_ms) - 1))]
    # 0 and 1 ms share a bucket
    assert abs(sketch.quantile_ms(quantile) - true) <= max(1, RELATIVE_ACCURACY * true * (1 + 1e-9))


@given(DURATIONS)
def test_the_rest_is_exact(durations_ms: list[int]) -> None:
    sketch = DurationSketch(durations_ms)
    assert sketch.count == len(durations_ms)
    assert (sketch.to_json()["min"], sketch.to_json()["max"]) == (min(durations_ms), max(durations_ms))
    assert sketch.mean_ms == pytest.approx(statistics.fmean(durations_ms), rel=1e-12)
    if len(durations_ms) > 1:
        assert sketch.deviation_ms == pytest.approx(statistics.stdev(durations_ms), rel=1e-9)
    else:
        assert math.isnan(sketch.deviation_ms)


@given(DURATIONS, DURATIONS)
def test_a_merge_is_the_sketch_of_all_in_any_order(one: list[int], other: list[int]) -> None:
    merged, second = DurationSketch(one), DurationSketch(other)
    merged.merge(second)
    assert merged == DurationSketch(sorted(one + other))
    assert second == DurationSketch(other)
    assert DurationSketch.from_json(json.loads(json.dumps(merged.to_json()))) == merged


def test_nothing_was_measured() -> None:
    empty = DurationSketch()
    assert math.isnan(empty.mean_ms)
    assert math.isnan(empty.quantile_ms(0.5))
    merged = DurationSketch([3])
    merged.merge(empty)
    assert merged == DurationSketch([3])
    assert DurationSketch.from_json(empty.to_json()) == empty


def test_clocks_that_jump_give_bounded_durations() -> None:
    assert DurationSketch([-7, 10**20]) == DurationSketch([0, DURATION_MAX_MS])


def test_hundred_thousand_tasks_take_little_space() -> None:
    sketch = DurationSketch(1000 + (7919 * at) % 600_000 for at in range(100_000))
    assert len(json.dumps(sketch.to_json())) < 8_000


@pytest.mark.parametrize(
    "change",
    [
        {"buckets": {"-1": 3}},
        {"buckets": {"99999": 3}},
        {"buckets": {"5": -3}},
        {"buckets": []},
        {"sum": 10**9},
        {"squares": 0},
        {"min": 0},
        {"max": 10**9},
        {"max": None},
    ],
)
def test_a_document_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="durations"):
        DurationSketch.from_json({**DurationSketch([100, 200, 300]).to_json(), **change})
