"""What the ResourceManager shows becomes jobs and stages, and finished jobs become runs for the store."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.history.shown import FAILED_MAP, MAP, REDUCE, Shown, recorded
from tests.unit.history.views import Stage, stages_of

from treadle.events import ApplicationState
from treadle.history.profile import (
    DURATION_MAX_MS,
    NAME_CHARACTERS_MAX,
    RELATIVE_ACCURACY,
    DurationSketch,
    Measured,
    normalised_name,
    recurrence_key,
)
from treadle.history.stages import (
    LINGER_MS,
    RECENT_MAX,
    SETTLE_MS,
    Framework,
    Outcome,
    StageTracker,
    outcome_of,
    stage_of,
)

DATA = Path(__file__).parents[2] / "data" / "stages" / "three-jobs.json"


def _outcomes(stage: Stage) -> dict[str, int]:
    return {outcome.value: count for outcome, count in stage.outcomes.items()}


def test_three_jobs_as_a_real_resource_manager_showed_them() -> None:
    tracker = StageTracker()
    for time_ms, frame in recorded(DATA):
        tracker.apply(frame, time_ms)
    tracker.apply([], time_ms + LINGER_MS)
    sleep, tez = tracker.finished()
    assert (sleep.key, sleep.id) == (("root", "default", "MAPREDUCE", "sleep job"), "application_1795276064014_0001")
    assert [(stage.name, stage.width, stage.durations.count, stage.parents) for stage in sleep.stages] == [
        ("map", 10, 10, ()),
        ("reduce", 2, 2, ("map",)),
    ]
    # the attempts of the history, and the seconds in which their containers came and went
    assert 11_210 < sleep.stages[0].durations.mean_ms < 13_210
    assert sleep.stages[0].demand == {"memory-mb": 256, "vcores": 1}
    assert [(stage.name, stage.width, stage.measured) for stage in tez.stages] == [
        ("priority 8", 4, Measured.CONTAINERS)
    ]
    # the failed job between them is no run
    assert tez.id == "application_1795276064014_0003"
    assert tracker.jobs == 0


def test_maps_that_failed_alone_are_recognized_by_the_asks_that_follow() -> None:
    tracker = StageTracker()
    for time_ms, frame in recorded(DATA):
        tracker.apply(frame, time_ms)
        if stages := stages_of(tracker, 1):
            failing = stages
    (stage,) = failing
    assert (stage.width, _outcomes(stage)) == (2, {"succeeded": 1, "failed": 2, "killed": 1})


def _map_job(maps: int) -> Shown:
    shown = Shown()
    shown.application()
    shown.ask(MAP, maps)
    shown.frame()
    return shown


def test_a_map_reduce_job_from_start_to_end() -> None:
    shown = _map_job(4)
    shown.allocate(2, 3)
    (stage,) = shown.frame()
    assert (stage.width, stage.pending, _outcomes(stage)) == (4, 2, {"running": 2})
    shown.end(2)
    shown.allocate(4)
    shown.ask(REDUCE, 1)
    shown.frame()
    shown.allocate(5)
    shown.allocate(6, priority=REDUCE)
    shown.end(3, 4)
    shown.frame(9000)
    shown.end(5, 6)
    maps, reduces = shown.frame()
    assert [maps.id.name, reduces.id.name] == ["map", "reduce"]
    assert (maps.width, reduces.width) == (4, 1)
    (run,) = shown.finished()
    assert (run.key.name, run.key.queue, run.key.user) == ("load", "default", "ann")
    assert [(stage.name, stage.width, stage.durations.count) for stage in run.stages] == [
        ("map", 4, 4),
        ("reduce", 1, 1),
    ]
    assert run.stages[0].durations.to_json()["max"] == 9000


@pytest.mark.parametrize("moves", [False, True])
def test_a_job_that_another_engine_serves_from_now_on_is_no_run(moves: bool) -> None:
    shown = _map_job(2)
    shown.allocate(2, 3)
    shown.frame(30_000)
    shown.end(2, 3)
    shown.frame()
    if moves:
        shown.application(state=ApplicationState.MOVED)
        shown.frame()
        assert shown.tracker.jobs == 0
    else:
        shown.gone()
        shown.frame()
    shown.frame(LINGER_MS)
    shown.frame()
    assert len(shown.tracker.finished()) == (0 if moves else 1)


def test_what_did_not_end_well_tells_nothing_of_durations() -> None:
    shown = _map_job(6)
    shown.allocate(*range(6))
    shown.frame()
    for container, exit_status in ((1, -102), (2, -105), (3, -100), (4, 1), (5, 137)):
        shown.end(container, exit_status=exit_status)
    shown.frame(40_000)
    shown.end(0)
    shown.frame(SETTLE_MS)
    (stage,) = shown.frame()
    assert _outcomes(stage) == {"succeeded": 1, "preempted": 1, "killed": 2, "lost": 1, "failed": 1}
    assert (stage.durations.count, stage.durations.mean_ms) == (1, 41_000)


def test_a_container_that_is_demoted_no_longer_runs_and_says_nothing_of_durations() -> None:
    shown = _map_job(2)
    shown.allocate(2, 3)
    shown.frame()
    shown.end(2, exit_status=-1000)
    shown.end(3)
    (stage,) = shown.frame(SETTLE_MS + 1000)
    assert _outcomes(stage) == {"lost": 1, "succeeded": 1}
    (stage,) = shown.frame()
    assert stage.durations.count == 1


def test_the_loser_of_two_speculative_attempts_does_not_spoil_the_run() -> None:
    shown = _map_job(3)
    shown.allocate(1, 2, 3)
    shown.frame(20_000)
    shown.end(1, 2)
    shown.frame()
    shown.ask(MAP, 1)
    shown.frame()
    shown.allocate(4)
    shown.frame(10_000)
    shown.end(4)
    shown.end(3, exit_status=-105)
    (stage,) = shown.frame()
    assert stage.width == 4, "as far as asks tell"
    (run,) = shown.finished()
    assert [(stage.width, stage.durations.count, stage.durations.to_json()["max"]) for stage in run.stages] == [
        (3, 3, 20_000)
    ]


def test_a_failed_map_neither_widens_the_stage_nor_counts() -> None:
    shown = _map_job(3)
    shown.allocate(1, 2, 3)
    shown.frame(3000)
    shown.end(1)
    shown.ask(FAILED_MAP, 1)
    (stage,) = shown.frame()
    assert (stage.width, _outcomes(stage)) == (3, {"failed": 1, "running": 2})
    shown.allocate(4, priority=FAILED_MAP)
    shown.frame(9000)
    shown.end(2, 3, 4)
    (run,) = shown.finished()
    assert [(stage.width, stage.durations.count) for stage in run.stages] == [(3, 3)]
    assert run.stages[0].durations.to_json()["min"] == 9000


def test_a_failure_may_be_known_before_its_container_ends() -> None:
    shown = _map_job(2)
    shown.allocate(1, 2)
    shown.frame()
    shown.ask(FAILED_MAP, 1)
    (stage,) = shown.frame()
    assert stage.width == 2
    shown.end(1)
    (stage,) = shown.frame()
    assert (stage.width, _outcomes(stage)) == (2, {"failed": 1, "running": 1})


@pytest.mark.parametrize(
    ("exit_status", "priority", "asked", "outcome"),
    [(1, FAILED_MAP, 3, "failed"), (-100, MAP, 100, "lost")],
    ids=["all fail", "their node dies"],
)
def test_pilots_that_are_gone_say_nothing(exit_status: int, priority: int, asked: int, outcome: str) -> None:
    shown = _map_job(100)
    shown.allocate(1, 2, 3)
    shown.frame(4000)
    shown.end(1, 2, 3, exit_status=exit_status)
    shown.ask(priority, asked)
    shown.frame(SETTLE_MS)
    (stage,) = shown.frame()
    assert (stage.width, stage.durations.count, _outcomes(stage)) == (100, 0, {outcome: 3})


def test_a_stage_whose_width_grows_while_it_is_sampled() -> None:
    shown = _map_job(10)
    shown.allocate(1)
    (stage,) = shown.frame()
    assert stage.width == 10
    shown.frame(SETTLE_MS)
    shown.ask(MAP, 59)
    (stage,) = shown.frame()
    assert stage.width == 60
    assert stage.attempts[0].outcome is Outcome.RUNNING


def test_twenty_thousand_maps_are_remembered_in_little() -> None:
    shown = _map_job(20_000)
    for first in range(0, 20_000, 4_000):
        containers = range(first, first + 4_000)
        shown.allocate(*containers)
        shown.frame(30_000)
        shown.end(*containers)
        shown.frame()
    shown.frame(SETTLE_MS)
    (stage,) = shown.frame()
    assert (stage.width, stage.pending, stage.durations.count) == (20_000, 0, 20_000)
    assert len(stage.attempts) == RECENT_MAX
    assert [run.stages[0].width for run in shown.finished()] == [20_000]


def test_a_clock_that_steps_back() -> None:
    shown = _map_job(3)
    shown.allocate(1, 2)
    shown.frame()
    shown.now_ms -= 3_600_000
    shown.end(1)
    (stage,) = shown.frame()
    shown.allocate(3)
    shown.frame(7000)
    shown.end(3)
    shown.frame(SETTLE_MS)
    (stage,) = shown.frame()
    assert _outcomes(stage) == {"succeeded": 2, "running": 1}
    assert (stage.durations.count, stage.durations.mean_ms) == (1, 7000)
    shown.now_ms += 7_200_000
    shown.end(2)
    shown.gone()
    shown.frame()
    shown.now_ms -= 7_200_000
    shown.frame(LINGER_MS)
    shown.frame()
    assert len(shown.tracker.finished()) == 1


def test_a_gap_that_a_snapshot_ends_loses_what_was_not_seen_and_no_more() -> None:
    shown = _map_job(4)
    shown.allocate(1, 2, 3)
    shown.frame(5000)
    shown.end(1)
    shown.frame(SETTLE_MS)
    shown._containers.pop((0, 2))
    shown.snapshot()
    (stage,) = shown.frame()
    assert _outcomes(stage) == {"succeeded": 1, "lost": 1, "running": 1}
    assert (stage.width, stage.durations.count) == (4, 1)
    shown.end(3)
    assert shown.finished() == [], "nobody knows what the lost one did"


def test_a_second_attempt_of_an_application_is_the_same_job() -> None:
    shown = _map_job(2)
    shown.allocate(9, am=True, priority=0)
    shown.allocate(2, 3)
    shown.frame(2000)
    shown.end(2)
    shown.end(9, exit_status=-102)
    shown.gone()
    shown.frame()
    shown.end(3, exit_status=-105, row_application=-1)
    shown.application(5, id=1, attempt=2)
    shown.ask(MAP, 1, application=5)
    shown.frame()
    assert stages_of(shown.tracker, 0) == ()
    (stage,) = stages_of(shown.tracker, 5)
    assert (stage.width, _outcomes(stage)) == (2, {"succeeded": 1, "killed": 1})
    shown.allocate(2, application=5)
    shown.frame(3000)
    shown.end(2, application=5)
    shown.gone(5)
    shown.frame(LINGER_MS)
    shown.frame()
    (run,) = shown.tracker.finished()
    assert [(stage.width, stage.durations.count) for stage in run.stages] == [(2, 2)]


def test_containers_that_end_with_their_application_still_count() -> None:
    shown = Shown()
    shown.application(type_="SPARK")
    shown.ask(0, 2)
    shown.frame()
    shown.allocate(2, 3, priority=0)
    shown.frame(8000)
    shown.gone()
    shown.end(2, 3, exit_status=-100, row_application=-1)
    shown.frame(LINGER_MS)
    shown.frame()
    (run,) = shown.tracker.finished()
    (executors,) = run.stages
    assert (executors.name, executors.width, executors.durations.mean_ms) == ("executors", 2, 8000)
    assert executors.measured is Measured.CONTAINERS


def test_the_ask_for_an_application_master_is_no_stage() -> None:
    shown = Shown()
    shown.application(type_="SPARK", awaiting_am=1)
    shown.ask(0, 1)
    assert shown.frame() == ()
    shown.application(type_="SPARK")
    shown.allocate(1, priority=0, am=True)
    assert shown.frame() == ()
    shown.ask(0, 3)
    (executors,) = shown.frame()
    assert (executors.width, executors.pending) == (3, 3)


def test_two_applications_at_once_do_not_mix() -> None:
    shown = Shown()
    for application in (0, 1):
        shown.application(application)
        shown.ask(MAP, application + 1, application)
    shown.frame()
    shown.allocate(2, application=0)
    shown.allocate(2, 3, application=1)
    shown.frame(1000)
    shown.end(2, application=0)
    shown.end(2, 3, application=1)
    shown.frame()
    for application in (0, 1):
        shown.gone(application)
    shown.frame(LINGER_MS)
    shown.frame()
    first, second = shown.tracker.finished()
    assert (first.id[-4:], first.stages[0].width, second.id[-4:], second.stages[0].width) == ("0001", 1, "0002", 2)


@pytest.mark.parametrize(("depth", "at"), [(0, 0), (0, 2), (1, 1), (6, 6)])
@pytest.mark.parametrize("again", [False, True])
def test_tez_vertices_are_distinguished_by_their_priorities(depth: int, at: int, again: bool) -> None:
    first = 3 * ((depth + 1) * 7 + at) - 1
    assert stage_of(Framework.TEZ, first - again) == (first, f"priority {first}")
    assert stage_of(Framework.TEZ, first) < stage_of(Framework.TEZ, first + 3)


def test_attempts_that_tez_asks_for_again_are_of_the_same_vertex() -> None:
    shown = Shown()
    shown.application(type_="TEZ")
    shown.ask(8, 4)
    shown.ask(20, 2)
    shown.frame()
    shown.ask(19, 1)
    shown.frame()
    shown.allocate(2, priority=19)
    stages = shown.frame()
    assert [(stage.id.name, stage.width) for stage in stages] == [("priority 8", 4), ("priority 20", 3)]


@pytest.mark.parametrize(
    ("exit_status", "map_reduce", "tez"),
    [
        (0, Outcome.SUCCEEDED, Outcome.SUCCEEDED),
        (-100, Outcome.LOST, Outcome.RELEASED),
        (-101, Outcome.LOST, Outcome.LOST),
        (-102, Outcome.PREEMPTED, Outcome.PREEMPTED),
        (-104, Outcome.FAILED, Outcome.FAILED),
        (-105, Outcome.KILLED, Outcome.KILLED),
        (-1000, Outcome.LOST, Outcome.LOST),
        (1, Outcome.FAILED, Outcome.FAILED),
        (143, Outcome.KILLED, Outcome.KILLED),
    ],
)
def test_exit_statuses(exit_status: int, map_reduce: Outcome, tez: Outcome) -> None:
    assert outcome_of(Framework.MAPREDUCE, exit_status) is map_reduce
    assert outcome_of(Framework.TEZ, exit_status) is tez


def _with_reduces(maps: int, reduces: int) -> Shown:
    shown = _map_job(maps)
    shown.allocate(*range(2, 2 + maps))
    shown.ask(REDUCE, reduces)
    shown.frame()
    shown.allocate(*range(100, 100 + reduces), priority=REDUCE)
    shown.frame(8_000)
    return shown


@pytest.mark.parametrize("late_ms", [1000, 6000])
def test_reduces_killed_as_their_master_finishes_have_done_their_work(late_ms: int) -> None:
    shown = _with_reduces(3, 2)
    shown.end(2, 3, 4, 100)
    shown.frame()
    shown.end(101, exit_status=143)
    shown.frame(late_ms)
    (run,) = shown.finished()
    assert [(stage.name, stage.width, stage.durations.count) for stage in run.stages] == [
        ("map", 3, 3),
        ("reduce", 2, 2),
    ]


def test_reduces_killed_long_before_the_end_or_with_a_failed_job_have_not() -> None:
    early = _with_reduces(3, 2)
    early.end(2, 3, 4, 100)
    early.end(101, exit_status=143)
    early.frame(60_000)
    assert early.finished() == []
    failed = _with_reduces(3, 2)
    failed.end(2, 3)
    failed.end(4, exit_status=1)
    failed.ask(FAILED_MAP, 1)
    failed.frame()
    failed.allocate(5, priority=FAILED_MAP)
    failed.frame()
    failed.end(5)
    failed.end(100, 101, exit_status=143)
    failed.frame()
    assert failed.finished() == []


def test_the_ask_for_a_master_may_be_reported_late() -> None:
    shown = Shown()
    shown.application()
    shown.ask(0, 1)
    shown.ask(MAP, 1)
    shown.frame()
    shown.ask(0, 0)
    shown.allocate(2)
    shown.frame(8_000)
    shown.end(2)
    (run,) = shown.finished()
    assert [stage.name for stage in run.stages] == ["map"]


def test_it_is_said_why_a_job_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    shown = _map_job(5)
    shown.allocate(1, 2)
    shown.frame()
    shown.end(1, 2)
    with caplog.at_level("INFO"):
        assert shown.finished() == []
    assert "0001 is not remembered: stage map: 2 of 5 tasks done, 3 asked for when it ended" in caplog.text


def test_a_master_may_ask_again_for_what_was_allocated() -> None:
    shown = _map_job(5)
    shown.allocate(1, priority=0)  # the master's own, not yet marked as such
    shown.allocate(2, 3)
    shown.frame()
    shown.ask(MAP, 5)
    shown.frame()
    shown.ask(MAP, 3)
    shown.frame()
    shown.allocate(4, 5, 6)
    shown.frame(9_000)
    shown.end(2, 3, 4, 5, 6)
    shown.frame()
    (run,) = shown.finished()
    assert [(stage.name, stage.width, stage.durations.count) for stage in run.stages] == [("map", 5, 5)]


# Which names are those of one recurring job.


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("LogMiner 2014/05/06 12:30:22", "logminer"),
        ("nightly_2026-11-21_load #17", "nightly load"),
        ("nightly_20261121_load(18)", "nightly load"),
        ("nightly 2026-11-21T03:15:00.123+01:00 load", "nightly load"),
        ("HIVE-550e8400-e29b-41d4-a716-446655440000", "hive"),
        ("distcp: application_1795276064014_0001", "distcp"),
        (
            "oozie:launcher:T=pig:W=daily:A=load:ID=0000017-job_1795276064014_0009",
            "oozie launcher t=pig w=daily a=load id=0000017",
        ),
        ("export 1795276064 and 1795276064014", "export and"),
        ("model deadbeef42 (3)", "model"),
        ("QuasiMonteCarlo", "quasimontecarlo"),
        ("tpcds-q64", "tpcds q"),
        ("wordcount 4", "wordcount"),
        ("日報 2026-11-21", "日報"),
        ("отчёт №7", "отчёт №"),
        ("", ""),
    ],
)
def test_what_changes_from_run_to_run_is_taken_out(name: str, normalised: str) -> None:
    assert normalised_name(name) == normalised


def test_a_tag_names_the_profile() -> None:
    key = recurrence_key("ann", "root.a.b", "spark", "whatever 7", ["zzz", "treadle:etl.daily", "Treadle:ETL.Aaa"])
    assert key == ("ann", "b", "SPARK", "treadle:etl.aaa")
    assert recurrence_key("ann", "b", "SPARK", "whatever 7", ["treadle:not a key"]).name == "whatever"


def test_names_that_the_shim_cuts_have_the_key_of_the_whole() -> None:
    for character in "x", "日", "🧵":
        whole = character * 10_000
        units = whole.encode("utf-16-le")[: 2 * NAME_CHARACTERS_MAX].decode("utf-16-le")
        assert normalised_name(whole) == normalised_name(units)


@given(st.text(max_size=300), st.dates(), st.integers(0, 10**6))
def test_a_date_and_a_run_number_never_matter(name: str, day: object, number: int) -> None:
    assert normalised_name(f"{name}_{day} #{number}") == normalised_name(f"{name}_2020-01-01 #1")


@given(st.text())
def test_any_text_gives_a_text_that_can_be_stored(name: str) -> None:
    normalised = normalised_name(name)
    assert "\0" not in normalised
    assert normalised.encode("utf-8").decode("utf-8") == normalised.strip()


# A sketch of durations is exact in count, mean, deviation and extremes, and near in its quantiles.

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
