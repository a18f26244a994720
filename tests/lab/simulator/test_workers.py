"""Workers with queues, by cases that can be followed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_lab.models.probing import hand_map, new_map
from treadle_lab.models.worker_state import Total, Trace, trace_of
from treadle_lab.models.workers import SYSTEMS, Eligible, Groups, Outcome, new_workers, simulate_workers, unconstrained

HALF_MS = 0.0005
MS = 0.001
STARTS_S = HALF_MS + MS
"""From a job's arrival to the start of a task at an idle worker."""
Job = tuple[float, Sequence[float]]


def jobs(*given_jobs: Job, cutoff_s: float = 100.0, long_percent: float = 83.0) -> Trace:
    """Return a trace of jobs, each with its arrival and its tasks' durations."""
    trace = trace_of("made", [job[0] for job in given_jobs], [job[1] for job in given_jobs])
    return replace(trace, cutoff_s=cutoff_s, long_percent=long_percent)


def run(system: str, trace: Trace, slots: int, where: Eligible | None = None, seed: int = 1) -> Outcome:
    return simulate_workers(SYSTEMS[system], trace, slots, where, seed=seed)


def only(slots: int, *sets: Sequence[int] | None) -> Eligible:
    """Return for each job the workers that it may run on; None are all."""
    groups = Groups(slots)
    numbers = np.array([0 if one is None else groups.number(np.isin(np.arange(slots), one)) for one in sets], np.int32)
    return Eligible(np.array(groups.rows), numbers, numbers, np.array([one is not None for one in sets]))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_task_starts_when_its_probe_has_come_and_the_worker_has_asked(name: str) -> None:
    outcome = run(name, jobs((5.0, [10.0])), 1)
    assert outcome.response_s == pytest.approx([STARTS_S + 10.0])
    assert outcome.queued_s == pytest.approx([STARTS_S])


def test_durations_are_cut_and_equal_arrivals_are_apart() -> None:
    trace = jobs((3.0, [2.9]), (3.0, [1.2, 2.9]), (3.0, [4.0]))
    assert trace.duration_s.tolist() == [2.0, 1.0, 2.0, 4.0]
    assert trace.mean_s.tolist() == [2.0, 2.0, 4.0]
    assert trace.arrival_s == pytest.approx([3.0, 3.01, 3.02])


def test_queues_are_first_come_first_served_without_srpt() -> None:
    outcome = run("sparrow", jobs((0.0, [50.0]), (1.0, [20.0]), (2.0, [5.0])), 1)
    # a job has two probes; the second of the first job finds no task, which costs a round trip
    assert outcome.response_s == pytest.approx([50 + STARTS_S, 69 + STARTS_S + 2 * MS, 73 + STARTS_S + 4 * MS])


def test_srpt_takes_the_least_remaining_work_and_stays_with_the_job() -> None:
    trace = jobs((0.0, [50.0]), (1.0, [20.0, 20.0]), (2.0, [30.0]))
    response_s = run("eagle", trace, 1, None).response_s
    assert response_s[2] == pytest.approx(50 + 30 - 2, abs=0.1)
    assert response_s[1] == pytest.approx(50 + 30 + 40 - 1, abs=0.1)


def test_a_probe_is_passed_by_five_times_its_estimate_at_most() -> None:
    trace = jobs((0.0, [50.0]), (1.0, [10.0] * 7), *((2.0 + at, [9.0]) for at in range(9)))
    response_s = run("eagle", trace, 1).response_s
    # 5 x 10 s let five jobs of 9 s pass; then the seven tasks run, and after them the other four jobs
    ended_s = np.sort(response_s[2:] + trace.arrival_s[2:])
    assert ended_s[:5] == pytest.approx([59.0, 68.0, 77.0, 86.0, 95.0], abs=0.2)
    assert response_s[1] + trace.arrival_s[1] < ended_s[5] + 70


def test_short_probes_keep_away_from_long_work_in_eagle_alone() -> None:
    trace = jobs((0.0, [1000.0] * 8), (1.0, [10.0]), long_percent=80.0)
    for seed in range(5):
        assert run("eagle", trace, 10, seed=seed).response_s[1] == pytest.approx(10.0, abs=0.1)
    waits = [run("sparrow", trace, 10, seed=seed).response_s[1] for seed in range(30)]
    assert max(waits) > 500.0


def test_long_jobs_keep_to_their_partition_empty_workers_first() -> None:
    trace = jobs((0.0, [1000.0] * 4), (1.0, [500.0] * 2), long_percent=60.0)
    response_s = run("hawk", trace, 10).response_s
    assert response_s == pytest.approx([1000.0, 500.0], abs=0.1)
    crowded = run("hawk", jobs((0.0, [1000.0] * 4), (1.0, [500.0] * 3), long_percent=60.0), 10).response_s
    assert crowded[1] == pytest.approx(1000.0, abs=0.1)  # the third waits for the first, not for the other job


def test_an_idle_worker_takes_short_probes_from_behind_a_long_task() -> None:
    trace = jobs((0.0, [1000.0]), (1.0, [10.0] * 4), (2.0, [3.0]), long_percent=50.0)
    for seed in range(20):
        assert run("hawk", trace, 2, seed=seed).response_s[1] < 100.0


def test_least_waiting_fills_the_shortest_queues() -> None:
    trace = jobs((0.0, [10.0]), (1.0, [30.0]), (2.0, [20.0] * 2), long_percent=100.0)
    response_s = run("clwl", trace, 3).response_s
    # the free worker takes a task, and the one with 8 s left the other
    assert response_s == pytest.approx([10.0, 30.0, 28.0], abs=0.1)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if SYSTEMS[name].constrained])
def test_a_job_runs_where_it_may(name: str) -> None:
    trace = jobs((0.0, [10.0] * 3), (1.0, [200.0] * 2), long_percent=50.0)
    response_s = run(name, trace, 8, only(8, [6], [1])).response_s
    assert response_s == pytest.approx([30.0, 400.0], abs=0.1)


def test_a_thief_skips_what_it_may_not_run() -> None:
    trace = jobs((0.0, [1000.0]), (1.0, [10.0]), (2.0, [3.0]), long_percent=50.0)
    for seed in range(20):
        assert run("hawk-c", trace, 2, only(2, None, [1], [0]), seed=seed).response_s[1] == pytest.approx(1009, abs=0.1)


def test_a_worker_that_gets_several_long_tasks_of_a_job_has_its_map_once() -> None:
    """A map that was taken for unused went out twice, and back more often than there are maps."""
    trace = jobs((0.0, [150.0] * 3), (1.0, [150.0] * 3))
    state = new_workers(SYSTEMS["eagle"], trace, unconstrained(2, 1), 1)
    maps = len(state.free_maps)
    for _ in range(20):
        at = new_map.py_func(state)  # type: ignore[attr-defined]
        for _ in range(3):
            hand_map.py_func(state, 0, at)  # type: ignore[attr-defined]
        assert state.met[0] == at
        assert state.map_uses.sum() == 1
        assert state.totals[Total.FREE_MAPS] == maps - 1


@given(
    st.lists(st.tuples(st.floats(0, 50), st.lists(st.floats(0, 200), min_size=1, max_size=6)), min_size=1, max_size=12),
    st.integers(1, 9),
    st.sampled_from(sorted(SYSTEMS)),
    st.integers(0, 3),
)
def test_every_task_runs_once_and_no_sooner_than_it_can(
    given_jobs: list[Job], slots: int, name: str, seed: int
) -> None:
    trace = jobs(*given_jobs)
    outcome, again = run(name, trace, slots, seed=seed), run(name, trace, slots, seed=seed)
    assert (outcome.response_s == again.response_s).all()
    assert (outcome.queued_s >= STARTS_S - 1e-9).all()
    ended_s = outcome.queued_s + trace.duration_s
    latest = [ended_s[start:end].max() for start, end in zip(trace.first_task, trace.first_task[1:], strict=False)]
    assert outcome.response_s == pytest.approx(latest)
    starts_s = outcome.queued_s + np.repeat(trace.arrival_s, trace.tasks)
    moments = np.sort(starts_s)
    running = [((starts_s <= at) & (starts_s + trace.duration_s > at)).sum() for at in moments]
    assert max(running) <= slots
