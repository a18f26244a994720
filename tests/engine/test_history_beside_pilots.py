"""History has a say while pilots run: how many other tasks begin beside them, and at which level."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.parts import engine_with
from tests.engine.test_history_settles import levels, told
from tests.engine.test_pilots import FIXED, MAP, REDUCE, Bench

TASKS = 20
"""A fiftieth of the bench's 1,000 slots."""
HISTORY = {"history_part": 0.02}


def bench_with(**gate: Any) -> Bench:
    """Return a bench where history has a say."""
    return Bench(**(HISTORY | gate))


def test_other_tasks_run_beside_the_pilots_up_to_a_part_of_the_cluster() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 4, "its pilots"
    assert len(bench.begun()) == TASKS - 4
    assert bench.begun() == []
    bench.end(4)
    assert len(bench.begun()) == 40 - TASKS, "pilots have ended"


@pytest.mark.parametrize(
    ("duration_s", "deviation_s", "first", "then"),
    [
        (600, 120, 1.0, 2.0),  # 24,000 s, at most 33,000
        (600, 900, 1.0, 3.0),  # at most 283,000
        (5, 1, 0.0, 0.0),  # 200 s, at most 280: pilots are as urgent
        (5, 15, 1.0, 2.0),  # at most 28,000 s
    ],
)
def test_the_level_is_that_of_the_upper_end_of_the_interval(
    duration_s: int, deviation_s: int, first: float, then: float
) -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 1000 * duration_s, 1000 * deviation_s, -1)))
    bench.begun()
    assert levels(bench) == [first]
    bench.begun(0)
    assert levels(bench) == [then]


def test_pilots_that_run_for_longer_than_history_says_put_the_job_further_down() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 5000, 1000, -1)))
    bench.begun()
    bench.begun()
    assert levels(bench) == [0.0]
    bench.begun(30_000)  # 40 tasks of more than 30 s
    assert levels(bench) == [1.0]
    bench.end(3)
    bench.begun(500_000)  # the fourth has run for 531 s: 40 tasks of 156 s in the mean
    assert levels(bench) == [1.0]
    assert len(bench.begun(500_000)) == 1, "it hangs, and one more runs"
    assert levels(bench) == [1.0]
    bench.begun()
    assert levels(bench) == [1.0], "40 tasks of 225 s, five pilots"


def test_pilots_have_the_last_word() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 5_000_000, 1000, -1)))
    bench.begun()
    bench.begun(10_000)
    assert levels(bench) == [3.0]
    bench.end(4)
    bench.begun(0)
    assert levels(bench) == [0.0]


def test_jobs_of_which_history_says_nothing_or_has_seen_one_run_only_have_their_pilots() -> None:
    bench = bench_with()
    unknown, once = bench.job(40), bench.job(40)
    bench.tell(told((once, 0, 600_000, -1, -1)))
    assert len(bench.begun()) == 8
    assert bench.begun() == []
    assert levels(bench) == [1.0, 1.0]
    assert {unknown, once} == {app for app, *_ in bench.running}


def test_a_part_counts_by_the_resource_that_tasks_take_most_of() -> None:
    bench = bench_with()
    app = bench.rm.application(bench.leaf, kind="MAPREDUCE")
    bench.rm.ask(app, 0, 40, (2, 1), priority=MAP)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    bench.begun()
    bench.begun()
    assert len(bench.running) == TASKS / 2


def test_a_part_smaller_than_the_pilots_leaves_them_alone_but_sets_the_level() -> None:
    bench = bench_with(history_part=0.001)
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 4
    assert bench.begun() == []
    assert levels(bench) == [2.0]


def test_without_levels_history_has_no_say() -> None:
    bench = bench_with()
    bench.engine = engine_with(gate=("pilots", FIXED | HISTORY), order="srpt", estimate="pilots")
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 1, -1)))
    assert len(bench.begun()) == 4
    assert bench.begun() == []


def test_idle_machines_run_what_history_does_not_vouch_for() -> None:
    bench = bench_with(work_conserving=True)
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 40


def test_tasks_beside_the_pilots_give_way_to_jobs_of_higher_levels() -> None:
    bench = Bench(slots=100, history_part=0.2)
    large, small = bench.job(100), bench.job(40)
    bench.tell(told((large, 0, 600_000, 100_000, -1), (small, 0, 5000, 1000, -1)))
    assert len(bench.begun()) == 14, "pilots"
    begun = [app for app, _ in bench.begun()]
    assert [begun.count(app) for app in (large, small)] == [10, 16]
    assert [app for app, _ in bench.begun()] == []
    assert levels(bench) == [2.0, 0.0]


def test_reduces_wait_for_the_pilots() -> None:
    bench = bench_with()
    app = bench.job(10, reduces=5)
    bench.tell(told((app, 0, 5000, 100, -1)))
    bench.begun()
    bench.begun()
    assert bench.running == [life for life in bench.running if life[2] == MAP]
    assert len(bench.running) == 10, "all maps"
    bench.end(1)
    assert [priority for _, priority in bench.begun()] == [REDUCE] * 5


def test_later_stages_count_and_wait() -> None:
    bench = bench_with(tez=True)
    app = bench.job(40, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 5000, 100, -1), (app, 1, 600_000, 100_000, 120)))
    bench.begun()
    bench.begun()
    assert levels(bench) == [2.0], "72,000 s of the second stage, at most 95,000"
    bench.ask(app, 1, 120, 5)
    bench.begun()
    assert [priority for *_, priority, _ in bench.running] == [2] * TASKS


def test_what_history_says_too_late_counts_from_then_on() -> None:
    bench = bench_with()
    app = bench.job(40)
    assert len(bench.begun()) == 4
    assert bench.begun() == []
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == TASKS - 4


def test_a_pilot_that_fails_runs_again_before_others_begin() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.begun()
    bench.end(1, exit_status=-100)
    bench.ask(app, 0, 37, MAP)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 1
    assert levels(bench) == [1.0]
    assert len(bench.begun()) == TASKS - 4
