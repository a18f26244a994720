"""A cell and its schedulers, by cases that can be followed by hand. Omega, section 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.models.cell import (
    ARCHITECTURES,
    Activities,
    Cell,
    CellWorkload,
    DecisionTime,
    JobKind,
    Outcome,
    drawn,
    merged,
    new_state,
    simulate_cell,
    simulate_specialist,
)
from treadle_lab.models.cell_state import RunningJobs, Total, place_running, run_cell

BATCH, SERVICE, MAPREDUCE = JobKind
Job = tuple[float, JobKind, int, float]
"""Arrival in s, kind, tasks of 1 CPU and 2 GB, their duration in s."""

ONE_MACHINE = Cell(1)


def workload(*jobs: Job, cpu: int = 1000, memory: int = 2048) -> CellWorkload:
    """Return jobs that are given in order of arrival."""
    return CellWorkload(
        np.array([job[0] for job in jobs], np.float64),
        np.array([job[1] for job in jobs], np.uint8),
        np.array([job[2] for job in jobs], np.int32),
        np.array([job[3] for job in jobs], np.float64),
        np.full(len(jobs), cpu, np.int64),
        np.full(len(jobs), memory, np.int64),
    )


def started(*jobs: tuple[int, float, int, int]) -> RunningJobs:
    """Return jobs that run at the start: tasks, seconds that are left, CPU and memory of a task."""
    tasks, left_s, cpu, memory = zip(*jobs, strict=True)
    return RunningJobs(np.array(tasks, np.int32), np.array(left_s, np.float64), np.array(cpu), np.array(memory))


NOTHING = RunningJobs(np.empty(0, np.int32), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


def run(
    name: str,
    jobs: CellWorkload,
    cell: Cell = ONE_MACHINE,
    service_s: float = 1.0,
    duration_s: float = 1000.0,
    running: RunningJobs = NOTHING,
) -> Outcome:
    decision = {BATCH: DecisionTime(), SERVICE: DecisionTime(service_s)}
    return simulate_cell(cell, ARCHITECTURES[name], jobs, decision, running=running, duration_s=duration_s)


def counts(outcome: Outcome, scheduler: str) -> dict[str, int]:
    """Return a scheduler's counters."""
    (found,) = (one for one in outcome.schedulers if one.name == scheduler)
    return {name: value for name, value in asdict(found).items() if isinstance(value, int)}


def test_a_decision_takes_t_job_and_t_task_and_the_next_job_waits_for_it() -> None:
    outcome = run("mono2", workload((0.0, BATCH, 2, 10.0), (0.05, BATCH, 1, 10.0)))
    assert outcome.wait_s[BATCH] == pytest.approx((0.0 + (0.11 - 0.05)) / 2)
    assert outcome.schedulers[0].busyness == pytest.approx((0.11 + 0.105) / 1000)
    assert outcome.cpu_utilisation == pytest.approx(3 * 10 / 4000)
    assert outcome.unscheduled == {BATCH: 0.0, SERVICE: 0.0, MAPREDUCE: 0.0}


def test_a_single_path_takes_as_long_for_every_job() -> None:
    jobs = workload((0.0, BATCH, 1, 10.0), (5.0, SERVICE, 1, 10.0))
    assert run("mono1", jobs).schedulers[0].busyness == pytest.approx(2 * 1.005 / 1000)
    assert run("mono2", jobs).schedulers[0].busyness == pytest.approx((0.105 + 1.005) / 1000)


TWO = ((0.0, BATCH, 3, 100.0), (0.0, SERVICE, 3, 100.0))
"""On a machine of 4: the batch job's three tasks are there when the service job's three are committed."""


@pytest.mark.parametrize(
    ("name", "failed_at_once"),
    [
        pytest.param("omega", 2, id="fine, incremental: one fits, two do not"),
        pytest.param("omega-aon", 2, id="fine, gang: one fits and is undone, the second conflicts"),
        pytest.param("omega-seq", 3, id="coarse, incremental: the machine has changed"),
        pytest.param("omega-seq-aon", 1, id="coarse, gang: the first conflicts"),
    ],
)
def test_what_conflicts(name: str, failed_at_once: int) -> None:
    outcome = run(name, workload(*TWO), duration_s=1.5)
    assert counts(outcome, "B1") == {"successes": 1, "failures": 0, "failed_claims": 0, "empty": 0, "abandoned": 0}
    assert counts(outcome, "S") == {
        "successes": 0,
        "failures": 1,
        "failed_claims": failed_at_once,
        "empty": 0,
        "abandoned": 0,
    }
    assert outcome.schedulers[0].busyness == pytest.approx(1.015 / 1.5)


def test_tasks_that_conflicted_are_tried_again_after_a_second() -> None:
    outcome = run("omega", workload((0.0, BATCH, 3, 1.5), (0.0, SERVICE, 3, 100.0)))
    assert counts(outcome, "S")["failures"] == 1
    # the first decision takes 1.015 s, the second begins 1 s later and is on two tasks
    assert outcome.schedulers[0].busyness == pytest.approx((1.015 + 1.01) / 1000)
    assert outcome.unscheduled[SERVICE] == 0.0


def test_an_end_of_tasks_does_not_raise_a_sequence_number() -> None:
    # begun before the service job's copy was made, ended before its commit
    jobs = workload((0.0, BATCH, 3, 1.0), (0.5, SERVICE, 1, 10.0))
    assert counts(run("omega-seq", jobs), "S")["failures"] == 0
    # claimed in between
    jobs = workload((0.0, SERVICE, 1, 10.0), (0.5, BATCH, 1, 0.1))
    assert counts(run("omega-seq", jobs), "S")["failures"] == 1
    assert counts(run("omega", jobs), "S")["failures"] == 0


@pytest.mark.parametrize(
    ("name", "claimed_by_others", "failed"),
    [
        pytest.param("omega-seq", 1, 1, id="the second claim carries the number that the machine has by then"),
        pytest.param("omega-seq", 2, 2, id="two behind"),
        pytest.param("omega-seq-aon", 1, 1, id="a gang stops at the first conflict"),
    ],
)
def test_a_claim_carries_the_number_of_the_copy_and_its_job_s_earlier_claims(
    name: str, claimed_by_others: int, failed: int
) -> None:
    jobs = workload((0.0, SERVICE, 2, 10.0), (0.1, BATCH, claimed_by_others, 100.0))
    outcome = run(name, jobs, duration_s=1.5)
    assert counts(outcome, "S")["failures"] == 1
    assert counts(outcome, "S")["failed_claims"] == failed


def test_a_claim_that_carries_the_right_number_still_has_to_fit() -> None:
    # seen free: 4 CPUs; others take 3 at once, so the second claim has the right number but no room
    first, other = workload((0.0, SERVICE, 2, 10.0), cpu=1500), workload((0.1, BATCH, 1, 100.0), cpu=3000)
    outcome = run("omega-seq", merged([first, other]), duration_s=1.5)
    assert counts(outcome, "S")["failed_claims"] == 2
    assert outcome.cpu_utilisation <= 1.0


def test_waits_are_of_jobs_with_an_attempt() -> None:
    # the second job's decision has not ended when the run does
    jobs = workload((0.0, SERVICE, 1, 10.0), (0.5, SERVICE, 1, 10.0))
    assert run("omega", jobs, duration_s=1.5).wait_s[SERVICE] == 0.0
    assert run("omega", jobs, duration_s=2.5).wait_s[SERVICE] == pytest.approx(0.505 / 2)


@pytest.mark.parametrize("name", ["mono2", "mesos", "omega"])
def test_tasks_with_cpu_and_little_memory_and_the_reverse(name: str) -> None:
    cell = Cell(50)
    large = workload((0.0, SERVICE, 60, 500.0), cpu=100, memory=9000)
    small = workload((10.0, BATCH, 100, 500.0), cpu=3900, memory=100)
    outcome = run(name, merged([large, small]), cell, service_s=0.1, duration_s=500.0)
    # one machine has memory for one large task, which leaves CPU for one small one
    assert outcome.unscheduled == {BATCH: 1.0, SERVICE: 1.0, MAPREDUCE: 0.0}
    assert outcome.cpu_utilisation == pytest.approx(0.975, abs=0.025)


def test_an_offer_on_which_no_task_fits_is_an_attempt_in_vain() -> None:
    running = started((50, np.inf, 100, 60_000))
    cell = Cell(50, memory_mb=65_536)
    outcome = run("mesos", workload((0.0, BATCH, 1, 10.0), memory=6000), cell, running=running, duration_s=1.5)
    assert counts(outcome, "B")["empty"] == 1


def test_what_runs_at_the_start_is_there_for_as_long_as_it_runs() -> None:
    running = started((3, 100.0, 1000, 1024), (1, np.inf, 600, 1024))
    for name in ARCHITECTURES:
        outcome = run(name, workload(), Cell(2), running=running)
        assert outcome.cpu_utilisation == pytest.approx((3000 * 0.1 + 600) / 8000)
    # the job has no room before the three tasks end
    outcome = run("omega", workload((0.0, BATCH, 4, 1000.0)), running=running, duration_s=200.0)
    assert outcome.unscheduled[BATCH] == 1.0
    assert outcome.cpu_utilisation > (3600 * 100 + 600 * 100 + 3000 * 98) / (4000 * 200)
    with pytest.raises(ValueError, match="1 tasks that run at the start have no room"):
        run("omega", workload(), running=started((5, 1.0, 1000, 1024)))


def test_what_runs_at_the_start_lies_on_the_same_machines_under_every_architecture() -> None:
    free = []
    running = started((30, np.inf, 700, 3000), (11, 5.0, 1300, 100))
    for architecture in ARCHITECTURES.values():
        state = new_state(Cell(40), architecture, workload(), running, {}, WorkerPolicy.AS_REQUESTED, 3)
        random = state.random.copy()
        assert place_running(state, 77) == 0
        assert (state.random == random).all(), "the schedulers' own choices are not touched"
        free.append(state.free_cpu[0].tolist())
    assert free.count(free[0]) == len(free)
    assert sum(free[0]) == 40 * 4000 - 30 * 700 - 11 * 1300


def mapreduce(*jobs: tuple[float, int, int, float, int, float]) -> CellWorkload:
    """Return MapReduce jobs: arrival, workers that were asked for, maps, their seconds, reduces, their seconds."""
    arrival_s, workers, maps, map_s, reduces, reduce_s = (np.array(values) for values in zip(*jobs, strict=True))
    activities = Activities(
        maps.astype(np.int32), map_s.astype(float), reduces.astype(np.int32), reduce_s.astype(float)
    )
    duration_s = map_s * maps / workers + reduce_s * np.maximum(1, reduces / workers)
    count = len(arrival_s)
    return CellWorkload(
        arrival_s.astype(float),
        np.full(count, MAPREDUCE, np.uint8),
        workers.astype(np.int32),
        duration_s,
        np.full(count, 1000),
        np.full(count, 2048),
        activities,
    )


@pytest.mark.parametrize(
    ("policy", "workers"),
    [
        (WorkerPolicy.AS_REQUESTED, 5),
        (WorkerPolicy.MAX_PARALLELISM, 42),
        (WorkerPolicy.RELATIVE_JOB_SIZE, 20),
        # 60 % of 80 CPUs are 48, of which 38 are used
        (WorkerPolicy.GLOBAL_CAP, 10),
    ],
)
def test_a_mapreduce_job_has_the_workers_of_the_policy(policy: WorkerPolicy, workers: int) -> None:
    jobs = mapreduce((100.0, 5, 50, 50.0, 10, 50.0))
    running = started((38, np.inf, 1000, 2048))
    outcome, details = simulate_specialist(Cell(20), jobs, policy, running=running, duration_s=1000)
    assert details.workers.tolist() == [workers]
    assert outcome.schedulers[2].successes == 1
    lasts_s = 50 * 50 / workers + 50 * max(1.0, 10 / workers)
    assert outcome.cpu_utilisation == pytest.approx((38 * 1000 + workers * min(lasts_s, 900)) / 80_000, rel=0.01)
    assert details.used[0] == pytest.approx(38 / 80)
    assert details.used.max() == pytest.approx((38 + workers) / 80)


def test_idle_memory_bounds_workers_too() -> None:
    jobs = mapreduce((100.0, 5, 50, 50.0, 0, 0.0))
    running = started((20, np.inf, 1000, 16_384 - 2 * 2048))
    _, details = simulate_specialist(Cell(20), jobs, WorkerPolicy.MAX_PARALLELISM, running=running, duration_s=500)
    assert details.workers.tolist() == [40]


def test_a_copy_keeps_what_it_had() -> None:
    # the copy was made while the machine was full, which it no longer is when the decision ends
    jobs = workload((0.0, BATCH, 4, 1.0), (0.5, SERVICE, 1, 10.0))
    assert counts(run("omega", jobs, duration_s=1.6), "S")["empty"] == 1
    assert counts(run("mono2", jobs, duration_s=1.6), "M")["empty"] == 0


def test_a_job_that_fits_nowhere_is_given_up_after_so_many_attempts() -> None:
    outcome = run("omega", workload((0.0, BATCH, 1, 1.0), cpu=4001), duration_s=86_400)
    assert counts(outcome, "B1")["empty"] == 101
    assert counts(outcome, "B1")["abandoned"] == 1
    assert outcome.unscheduled[BATCH] == 1.0
    assert outcome.schedulers[1].busyness == 0.0, "attempts that find no room do not count as busy"


def test_an_offer_locks_all_that_is_free_while_a_scheduler_decides() -> None:
    jobs = workload((0.0, SERVICE, 1, 1000.0), (0.5, BATCH, 1, 10.0))
    outcome = run("mesos", jobs, Cell(50), service_s=20.0)
    # offered at 1.001 s, answered after 20.005 s, looked at 1 s later, arriving 1 ms later
    assert outcome.wait_s[SERVICE] == pytest.approx(1.001)
    assert outcome.wait_s[BATCH] == pytest.approx(1.001 + 20.005 + 1.001 - 0.5)
    assert outcome.cpu_utilisation == pytest.approx((1000 - 21.006 + 10) / (200 * 1000))


def test_less_than_a_hundred_cpus_are_not_offered() -> None:
    assert run("mesos", workload((0.0, BATCH, 1, 10.0)), Cell(24)).unscheduled[BATCH] == 1.0
    assert run("mesos", workload((0.0, BATCH, 1, 10.0)), Cell(25)).unscheduled[BATCH] == 0.0


def test_offers_go_to_the_least_dominant_share() -> None:
    # both ask in the second after the service job's tasks have started; the batch scheduler holds nothing
    jobs = workload((0.0, SERVICE, 8, 1000.0), (5.0, SERVICE, 1, 10.0), (5.1, BATCH, 1, 10.0))
    outcome = run("mesos", jobs, Cell(50), service_s=0.1)
    assert outcome.wait_s[BATCH] == pytest.approx(0.901)
    assert outcome.wait_s[SERVICE] == pytest.approx((1.001 + 1.001 + 0.105 + 1.001) / 2)


def test_batch_jobs_are_dealt_among_batch_schedulers() -> None:
    outcome = run("omega4", workload(*((float(at), BATCH, 1, 0.5) for at in range(8))), Cell(10))
    assert [counts(outcome, f"B{number}")["successes"] for number in range(1, 5)] == [2, 2, 2, 2]


def test_the_same_seed_gives_the_same_outcome_and_the_same_jobs() -> None:
    jobs = drawn(3, 3600.0)
    assert run("omega", jobs, Cell(500)) == run("omega", drawn(3, 3600.0), Cell(500))
    assert run("omega", jobs, Cell(500)) != run("omega", drawn(4, 3600.0), Cell(500))


def test_the_workload_is_the_references() -> None:
    jobs = drawn(1, 40 * 86_400.0)
    batch, service = jobs.kind == BATCH, jobs.kind == SERVICE
    assert np.diff(jobs.arrival_s[batch]).mean() == pytest.approx(10.0, rel=0.01)
    assert np.diff(jobs.arrival_s[service]).mean() == pytest.approx(20.0, rel=0.01)
    assert jobs.duration_s[service].mean() == pytest.approx(500, rel=0.02)
    # of one draw: the widest are the longest
    assert (np.ceil(jobs.duration_s[service] / 50) == jobs.tasks[service]).all()
    assert abs(np.corrcoef(jobs.tasks[batch], jobs.duration_s[batch])[0, 1]) < 0.01
    faster = drawn(1, 86_400.0, 4.0)
    assert (faster.kind == BATCH).sum() == pytest.approx(4 * 8640, rel=0.05)
    assert (faster.kind == SERVICE).sum() == (drawn(1, 86_400.0).kind == SERVICE).sum()


KINDS = st.sampled_from([BATCH, SERVICE])
JOBS = st.lists(
    st.tuples(st.floats(0, 50), KINDS, st.integers(1, 30), st.floats(0.01, 40)), min_size=1, max_size=40
).map(lambda found: sorted(found, key=lambda job: job[0]))


RUNNING = st.lists(
    st.tuples(st.integers(1, 20), st.floats(0.1, 100), st.integers(1, 500), st.integers(1, 2000)),
    min_size=1,
    max_size=4,
).map(lambda jobs: started(*jobs))


@given(
    jobs=JOBS,
    name=st.sampled_from(sorted(ARCHITECTURES)),
    machines=st.integers(25, 40),
    running=st.just(NOTHING) | RUNNING,
    asks=st.just((1000, 2048)) | st.tuples(st.integers(1, 4000), st.integers(1, 16_384)),
    others=st.tuples(st.integers(1, 4000), st.integers(1, 16_384)),
)
def test_no_machine_is_overcommitted_and_nothing_is_lost(
    jobs: Sequence[Job],
    name: str,
    machines: int,
    running: RunningJobs,
    asks: tuple[int, int],
    others: tuple[int, int],
) -> None:
    architecture = ARCHITECTURES[name]
    decision = {BATCH: DecisionTime(), SERVICE: DecisionTime(2.0)}
    parts = [
        workload(*jobs[::2], cpu=asks[0], memory=asks[1]),
        *([workload(*jobs[1::2], cpu=others[0], memory=others[1])] if len(jobs) > 1 else []),
    ]
    for end_s in (20.0, 60.0, 100_000.0):
        cell = Cell(machines)
        state = new_state(cell, architecture, merged(parts), running, decision, WorkerPolicy.AS_REQUESTED, 1)
        assert place_running(state, 5) == 0
        run_cell(state, end_s)
        assert (state.free_cpu >= 0).all()
        assert (state.free_memory >= 0).all()
        open_offers = np.flatnonzero(state.offer_scheduler >= 0)
        free = int(state.free_cpu[0].sum() + state.free_cpu[1 + open_offers].sum())
        claimed = machines * 4000 - free
        # what is claimed of an offer is used from its answer on
        assert claimed >= state.totals[Total.USED_CPU] if len(open_offers) else claimed == state.totals[Total.USED_CPU]
        assert (state.offer_cpu[open_offers] == state.free_cpu[1 + open_offers].sum(axis=1)).all()
        assert (state.offer_memory[open_offers] == state.free_memory[1 + open_offers].sum(axis=1)).all()
        assert state.totals[Total.FREE_CPU] == state.free_cpu[0].sum()
        assert state.totals[Total.FREE_MEMORY] == state.free_memory[0].sum()
    assert state.totals[Total.USED_CPU] == 0
    assert (state.free_cpu[0] == 4000).all()
    assert (state.free_memory[0] == 16_384).all()
    assert (state.left > 0).sum() == state.abandoned.sum()
