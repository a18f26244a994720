"""Generated workloads: the same seed gives the same jobs, and the load is the one asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.workload.generate import (
    BoundedPareto,
    Constant,
    Distribution,
    Exponential,
    Lognormal,
    Shape,
    bag,
    layered,
    map_reduce,
    narrow,
    poisson,
    wide,
)
from treadle.workload.job import Workload, job_work, loads, scaled_to_load
from treadle.workload.reading import WorkloadError

SHAPES: dict[str, Shape] = {
    "bag": bag(),
    "alike": bag(variation=0),
    "map_reduce": map_reduce(),
    "wide": wide(),
    "narrow": narrow(),
}
CAPACITY = {"memory-mb": 100_000.0, "vcores": 150.0}
seeds = st.integers(0, 2**63)


def flat(workload: Workload) -> list[object]:
    """Return all that a workload says, as something that can be compared."""
    return [
        (
            (job.id, job.arrival_ms, job.framework, job.name, job.user, job.queue, job.tags),
            [(s.id, s.tasks, s.duration_ms, dict(s.demand), s.parents, s.durations().tolist()) for s in job.dag.stages],
        )
        for job in workload.jobs
    ]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=10, deadline=None)
@given(seed=seeds, jobs=st.integers(1, 30), load=st.floats(0.01, 20))
def test_the_same_seed_gives_the_same_jobs_and_the_load_is_met(shape: str, seed: int, jobs: int, load: float) -> None:
    one = poisson(seed, jobs, shape=SHAPES[shape], capacity=CAPACITY, load=load, queues={"a": 1, "b": 3}, users=3)
    two = poisson(seed, jobs, shape=SHAPES[shape], capacity=CAPACITY, load=load, queues={"a": 1, "b": 3}, users=3)
    assert flat(one) == flat(two)
    assert len(one.jobs) == jobs
    busy_ms = max(sum(job_work(job).get(name, 0) for job in one.jobs) / CAPACITY[name] for name in CAPACITY)
    # Arrivals are whole milliseconds, so the span is met to half of one.
    assert one.jobs[-1].arrival_ms == pytest.approx(busy_ms / load, abs=0.51)


def test_the_load_is_work_over_capacity_and_span() -> None:
    workload = poisson(1, 200, capacity=CAPACITY, load=0.8)
    assert max(loads(workload, CAPACITY).values()) == pytest.approx(0.8, rel=1e-5)
    assert loads(poisson(1, 200, mean_gap_ms=1e-6), CAPACITY) == {"memory-mb": 0, "vcores": 0}  # all at time 0


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_another_shape_changes_neither_arrivals_nor_owners(seed: int) -> None:
    one = poisson(seed, 20, shape=SHAPES["bag"], queues={"a": 1, "b": 1}, users=5)
    two = poisson(seed, 20, shape=SHAPES["wide"], queues={"a": 1, "b": 1}, users=5)
    assert [(job.arrival_ms, job.user, job.queue) for job in one.jobs] == [
        (job.arrival_ms, job.user, job.queue) for job in two.jobs
    ]


def test_gaps_are_exponential() -> None:
    workload = poisson(3, 20_000, shape=bag(Constant(1)), mean_gap_ms=5_000)
    gaps = np.diff([job.arrival_ms for job in workload.jobs])
    assert gaps.mean() == pytest.approx(5_000, rel=0.03)
    assert gaps.std() == pytest.approx(5_000, rel=0.03)
    assert (gaps > 5_000).mean() == pytest.approx(np.exp(-1), abs=0.01)


@pytest.mark.parametrize(
    "distribution",
    [
        Constant(7),
        Exponential(7),
        Lognormal(7, 0),
        Lognormal(7, 1.5),
        BoundedPareto(1, 1, 1000),
        BoundedPareto(1.1, 1, 1000),
        BoundedPareto(2.5, 3, 40),
    ],
    ids=repr,
)
def test_a_distribution_has_the_mean_it_says(distribution: Distribution) -> None:
    drawn = distribution.draw(np.random.default_rng(5), 400_000)
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(distribution.mean, rel=0.02)


@settings(max_examples=50, deadline=None)
@given(tail=st.floats(0.2, 5), low=st.floats(1e-3, 1e3), ratio=st.floats(1.01, 1e6), seed=seeds)
def test_a_bounded_pareto_keeps_its_bounds(tail: float, low: float, ratio: float, seed: int) -> None:
    distribution = BoundedPareto(tail, low, low * ratio)
    drawn = distribution.draw(np.random.default_rng(seed), 100)
    assert drawn.min() >= low
    assert drawn.max() <= low * ratio
    assert low <= distribution.mean <= low * ratio


def test_the_tail_is_long() -> None:
    sizes = np.sort([job.dag.tasks for job in poisson(1, 5_000).jobs])
    assert sizes[-500:].sum() > 0.5 * sizes.sum()  # the largest tenth has most of the tasks


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_wide_is_wide_and_narrow_is_narrow(seed: int) -> None:
    broad = poisson(seed, 10, shape=wide())
    thin = poisson(seed, 10, shape=narrow())
    width = {w: np.mean([s.tasks for job in w.jobs for s in job.dag.stages]) for w in (broad, thin)}
    assert width[broad] > 5 * width[thin]
    assert np.mean([len(job.dag.stages) for job in thin.jobs]) > 6
    for job in thin.jobs:
        assert all(len(stage.parents) == (stage.id > 0) for stage in job.dag.stages)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_a_layer_waits_for_the_one_before_it(seed: int) -> None:
    dag = layered(Constant(4), Constant(3))(np.random.default_rng(seed), "x")
    assert len(dag.stages) == 12
    for stage in dag.stages:
        assert all(parent // 3 == stage.id // 3 - 1 for parent in stage.parents)
        assert bool(stage.parents) == (stage.id >= 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: poisson(1, 0),
        lambda: poisson(-1, 1),
        lambda: poisson(1, 1, users=0),
        lambda: poisson(1, 1, load=0.5),
        lambda: poisson(1, 1, load=0.0, capacity=CAPACITY),
        lambda: poisson(1, 1, load=float("nan"), capacity=CAPACITY),
        lambda: poisson(1, 1, load=1.0, capacity={"vcores": 0}),
        lambda: poisson(1, 1, queues={"a": 0}),
        lambda: poisson(1, 1, queues={"a": -1, "b": 3}),
        lambda: scaled_to_load(poisson(1, 1), {"gpu": 1}, 1.0),
        lambda: BoundedPareto(1, 5, 5),
        lambda: Lognormal(1, -1),
        lambda: Exponential(0),
        lambda: map_reduce(reduces_per_map=-1),
    ],
)
def test_what_makes_no_sense_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(WorkloadError):
        call()
