"""Runs go into the store and profiles come out, bounded in age, rows and size."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateTable
from tests.unit.history.conftest import DAY_MS, NOW_MS, make_run

from treadle.history.database import PROFILES, STAGES, Retention
from treadle.history.documents import profile_from_json, profile_json
from treadle.history.profile import RECENT_MAX
from treadle.history.run import DurationSketch, JobRun, Measured, RecurrenceKey, StageRun
from treadle.history.store import ProfileStore, Selection, open_store

KEY = make_run().key


def test_what_was_put_is_there_after_closing(file: Path) -> None:
    with open_store(str(file)) as store:
        assert store.put(make_run(), NOW_MS)
    with open_store(str(file)) as store:
        profile = store.get(KEY)
    assert profile is not None
    assert (profile.runs, profile.first_seen_ms, profile.last_seen_ms) == (1, NOW_MS, NOW_MS)
    assert profile.recent == ((NOW_MS, "application_1", 10_000),)
    first, second = profile.stages
    assert (first.name, first.width, first.demand, first.parents) == ("s0", 3, {"memory-mb": 1024, "vcores": 1}, ())
    assert second.parents == ("s0",)
    assert (first.durations.mean_ms, first.durations.deviation_ms) == (2000.0, 1000.0)
    assert first.input_bytes == 1000


def test_runs_of_one_key_are_one_profile(store: ProfileStore) -> None:
    for number in range(1, 31):
        assert store.put(make_run(number, ended_ms=NOW_MS + number * DAY_MS), NOW_MS + number * DAY_MS)
    profile = store.get(KEY)
    assert profile is not None
    assert profile.runs == 30
    assert [run for _, run, _ in profile.recent] == [f"application_{number}" for number in range(11, 31)]
    assert profile.stages[0].durations.count == 90
    assert len(profile.stages[0].recent) == RECENT_MAX


def test_a_run_counts_once_however_often_it_is_reported(store: ProfileStore) -> None:
    assert store.put(make_run(), NOW_MS)
    assert not store.put(make_run(), NOW_MS)
    more = replace(make_run(), stages=(*make_run().stages, StageRun("late", 1, DurationSketch([5]))))
    assert store.put(more, NOW_MS)
    profile = store.get(KEY)
    assert profile is not None
    assert profile.runs == 1
    assert {stage.name: stage.durations.count for stage in profile.stages} == {"s0": 3, "s1": 3, "late": 1}


def of_tez(run: str, ended_ms: int) -> JobRun:
    """Return a DAG, by its tasks, or an application of Tez, by its containers alone."""
    if run.startswith("dag"):
        return replace(make_run(stages=2), id=run, ended_ms=ended_ms)
    containers = StageRun("priority 8", 4, DurationSketch([9_000] * 4), measured=Measured.CONTAINERS)
    return replace(make_run(), id=run, ended_ms=ended_ms, stages=(containers,))


@pytest.mark.parametrize(
    ("reported", "remembered"),
    [
        (["dag_7_0001_1", "application_7_0001"], ["dag_7_0001_1"]),  # the plan listener, then the ResourceManager
        (["application_7_0001", "dag_7_0001_1"], ["dag_7_0001_1"]),  # the ResourceManager, then an import
        (["dag_7_0001_1", "dag_7_0001_2", "application_7_0001"], ["dag_7_0001_1", "dag_7_0001_2"]),  # a session
        (["dag_7_0001_1", "application_7_0002"], ["dag_7_0001_1", "application_7_0002"]),  # one without the plug-in
    ],
)
def test_a_dag_of_tez_and_its_application_are_one_run(
    store: ProfileStore, reported: list[str], remembered: list[str]
) -> None:
    for at, run in enumerate(reported):
        assert store.put(of_tez(run, NOW_MS + at), NOW_MS + 100)
    for at, run in enumerate(reported):
        assert not store.put(of_tez(run, NOW_MS + at), NOW_MS + 100), "reported once more"
    profile = store.get(KEY)
    assert profile is not None
    assert [run for _, run, _ in profile.recent] == remembered
    assert profile.runs == len(remembered)
    assert profile.tasks == 6, "containers are not added to tasks"
    assert "priority 8" in {stage.name for stage in profile.stages}, "hints for asks go by it"


def test_a_run_that_may_have_been_counted_already_is_left_out(store: ProfileStore) -> None:
    for number in range(1, RECENT_MAX + 2):
        store.put(make_run(number, ended_ms=NOW_MS + number), NOW_MS + 100)
    assert not store.put(make_run(1, ended_ms=NOW_MS + 1), NOW_MS + 100)


def test_a_stage_that_no_remembered_run_had_is_forgotten(store: ProfileStore) -> None:
    for number in range(RECENT_MAX + 1):
        run = make_run(number, ended_ms=NOW_MS + number, stages=2 if number == 0 else 1)
        profile = store.get(KEY)
        assert (profile is None) == (number == 0)
        assert profile is None or [stage.name for stage in profile.stages] == ["s0", "s1"]
        assert store.put(run, NOW_MS + 100)
    profile = store.get(KEY)
    assert profile is not None
    assert [stage.name for stage in profile.stages] == ["s0"]
    assert not store.put(make_run(0, ended_ms=NOW_MS), NOW_MS + 100)


def test_times_of_tasks_replace_those_of_containers_and_do_not_mix_with_them(store: ProfileStore) -> None:
    tasks = make_run(1, stages=1)
    containers = replace(
        make_run(2, stages=1),
        stages=(StageRun("s0", 2, DurationSketch([9_000, 9_000]), measured=Measured.CONTAINERS),),
    )
    assert store.put(containers, NOW_MS)
    assert store.put(tasks, NOW_MS)
    assert not store.put(replace(containers, id="application_3"), NOW_MS)
    profile = store.get(KEY)
    assert profile is not None
    assert (profile.stages[0].measured, profile.stages[0].durations.count) == (Measured.TASKS, 3)


def test_a_clock_that_steps_back_makes_no_run_too_old(store: ProfileStore) -> None:
    year_ms = 365 * DAY_MS
    for number in range(RECENT_MAX):
        store.put(make_run(number, ended_ms=NOW_MS + year_ms), NOW_MS + year_ms)
    assert store.put(make_run(100, ended_ms=NOW_MS), NOW_MS)
    profile = store.get(KEY)
    assert profile is not None
    assert profile.last_seen_ms == NOW_MS
    assert profile.runs == RECENT_MAX + 1
    backwards = replace(make_run(101), started_ms=NOW_MS + 5_000, ended_ms=NOW_MS)
    assert store.put(backwards, NOW_MS)
    profile = store.get(KEY)
    assert profile is not None
    assert min(took for _, _, took in profile.recent) == 0


@pytest.mark.parametrize("name", ["x", "日", "🧵", "\u0645", "\ud800", "e\u0301", "\0"])
def test_a_name_of_ten_thousand_characters_of_any_script(store: ProfileStore, name: str) -> None:
    run = make_run(name=name * 10_000)
    assert store.put(run, NOW_MS)
    (profile,) = store.profiles()
    assert store.get(profile.key) is not None
    assert len(profile.key.name) <= 1000
    assert store.put(replace(run, id="application_2"), NOW_MS)
    assert [profile.runs for profile in store.profiles()] == [2]


def test_keys_that_differ_are_kept_apart(store: ProfileStore) -> None:
    for at, key in enumerate([("a", "b", "T", "c"), ("ab", "", "T", "c"), ("a", "bT", "", "c"), ("A", "b", "T", "c")]):
        store.put(replace(make_run(at), key=RecurrenceKey(*key)), NOW_MS)
    assert [profile.runs for profile in store.profiles()] == [1, 1, 1, 1]
    assert [profile.key.user for profile in store.profiles(Selection(user="a"))] == ["a", "a"]
    assert store.forget(Selection(user="a", queue="b")) == 1
    assert len(store.profiles()) == 3


def test_two_jobs_of_one_key_at_once(file: Path) -> None:
    stores = [open_store(str(file)) for _ in range(2)]
    failures: list[BaseException] = []

    def put_all(store: ProfileStore, first: int) -> None:
        try:
            for number in range(first, first + 15):
                store.put(make_run(number, ended_ms=NOW_MS + number), NOW_MS + 1000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=put_all, args=(stores[at % 2], 100 * at)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    profile = stores[0].get(KEY)
    for store in stores:
        store.close()
    assert profile is not None
    # those that were older than twenty others when they came are left out
    assert profile.stages[0].durations.count == 3 * profile.runs
    assert profile.runs >= RECENT_MAX
    assert profile.runs == profile.stages[0].runs


def test_a_user_has_so_many_rows_and_no_more(file: Path) -> None:
    with open_store(str(file), Retention(rows_per_user=10)) as store:
        store.put(make_run(name="of bob", user="bob", stages=8), NOW_MS)
        for number in range(9):
            store.put(make_run(number, name=f"job {number}", stages=2, ended_ms=NOW_MS + number), NOW_MS + number)
        names = {profile.key.name for profile in store.profiles()}
    assert names == {"of bob", *(f"job {number}" for number in range(4, 9))}


def test_what_was_not_seen_for_long_is_forgotten(file: Path) -> None:
    with open_store(str(file), Retention(age_days=30)) as store:
        store.put(make_run(1, name="old"), NOW_MS)
        store.put(make_run(2, name="new", ended_ms=NOW_MS + 20 * DAY_MS), NOW_MS + 20 * DAY_MS)
        assert store.prune(NOW_MS + 31 * DAY_MS) == 1
        assert [profile.key.name for profile in store.profiles()] == ["new"]


def test_a_store_stays_within_its_size(file: Path) -> None:
    with open_store(str(file), Retention(size_mb=1, rows_per_user=10**6)) as store:
        for number in range(40):
            durations = tuple(round(1.03**power) for power in range(1, 700))
            store.put(make_run(number, name=f"j{number:03}", stages=10, durations_ms=durations), NOW_MS + number)
        assert store.prune(NOW_MS + 100) > 0
        kept = [profile.key.name for profile in store.profiles()]
    size = file.stat().st_size
    assert kept
    assert kept == [f"j{number:03}" for number in range(40 - len(kept), 40)]
    assert size <= 1 << 20


def test_a_profile_goes_to_another_store_and_is_the_same(store: ProfileStore, tmp_path: Path) -> None:
    store.put(make_run(), NOW_MS)
    (profile,) = store.profiles()
    with open_store(str(tmp_path / "other.db")) as other:
        copied = profile_from_json(profile_json(profile))
        assert other.merge(copied, NOW_MS)
        assert not other.merge(copied, NOW_MS)
        assert [profile_json(found) for found in other.profiles()] == [profile_json(profile)]


def test_what_two_stores_saw_of_different_runs_is_added(store: ProfileStore, tmp_path: Path) -> None:
    store.put(make_run(1), NOW_MS)
    with open_store(str(tmp_path / "other.db")) as other:
        other.put(make_run(2, ended_ms=NOW_MS + 1), NOW_MS + 1)
        (profile,) = other.profiles()
    assert store.merge(profile, NOW_MS + 1)
    found = store.get(KEY)
    assert found is not None
    assert (found.runs, found.stages[0].durations.count, found.last_seen_ms) == (2, 6, NOW_MS + 1)


def test_an_export_that_is_imported_again_much_later_counts_no_run_twice(store: ProfileStore) -> None:
    for number in range(25):
        store.put(make_run(number, ended_ms=NOW_MS + number), NOW_MS + number)
    (early,) = store.profiles()
    for number in range(25, 60):
        store.put(make_run(number, ended_ms=NOW_MS + number), NOW_MS + number)
    (late,) = store.profiles()
    assert not {run for _, run, _ in early.recent} & {run for _, run, _ in late.recent}
    assert not store.merge(early, NOW_MS + 60)
    found = store.get(KEY)
    assert found is not None
    assert (found.runs, found.stages[0].durations.count) == (60, 180)
    store.forget(Selection())
    for profile in (early, late):
        assert store.merge(profile, NOW_MS + 60)
    found = store.get(KEY)
    assert found is not None
    assert (found.runs, found.stages[0].durations.count) == (60, 180)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"runs": "many"}, "runs must be a whole number"),
        ({"key": {"user": "a"}}, "queue must be a text"),
        ({"stages": {}}, "stages must be a list"),
        ({"recent": [[1, "a b", 1]]}, "is no run's id"),
        ({"first_seen_ms": -1}, "first_seen_ms"),
    ],
)
def test_a_document_that_is_no_profile_says_why(store: ProfileStore, change: dict[str, object], problem: str) -> None:
    store.put(make_run(), NOW_MS)
    (profile,) = store.profiles()
    with pytest.raises(ValueError, match=problem):
        profile_from_json({**profile_json(profile), **change})


def test_hostile_numbers_are_bounded(store: ProfileStore) -> None:
    huge = JobRun(
        KEY,
        "an id with spaces " * 1000,
        -(10**30),
        10**30,
        (StageRun("s" * 100_000, 10**30, DurationSketch([-5, 10**30]), {"m" * 5000: 10**30}, (), 10**30),),
    )
    assert store.put(huge, NOW_MS)
    (profile,) = store.profiles()
    assert profile_from_json(profile_json(profile)).stages[0].durations.to_json()["min"] == 0
    assert not math.isnan(profile.stages[0].durations.deviation_ms)


@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_other_databases_have_types_for_the_tables(name: str) -> None:
    dialect = registry.load(name)()
    for table in (PROFILES, STAGES):
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
