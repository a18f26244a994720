"""What one user, or one application, may take of a store: the others' profiles stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select
from tests.unit.history.conftest import NOW_MS, make_run

from treadle.config.settings import JobHistory
from treadle.history.database import PROFILE_BYTES_MAX, PROFILES, SAMPLES, STAGES
from treadle.history.documents import compact, profile_from_json, profile_json
from treadle.history.profile import PARENTS_MAX, DurationSketch, JobRun, StageRun, application_of_run
from treadle.history.store import ProfileStore, Sample, open_store

MIB = 1 << 20
BOMB = "\U0001f4a3" * 498


def fat_run(number: int, *, user: str = "mallory", application: int = 7, stages: int = 300) -> JobRun:
    """Return a DAG as an application master may report it: names as long as they may be, as many edges as there can."""
    names = [f"{at:04}{BOMB}" for at in range(stages)]
    made = tuple(
        StageRun(
            name,
            5,
            DurationSketch([1000] * 5),
            {"memory-mb": 1},
            tuple(names[(at - back - 1) % stages] for back in range(PARENTS_MAX)),
        )
        for at, name in enumerate(names)
    )
    run = make_run(number, name=f"dag {chr(97 + number)}", user=user)
    return replace(run, id=f"dag_1_{application:04}_{number}", stages=made)


def names_of(store: ProfileStore, user: str) -> list[str]:
    return [profile.key.name for profile in store.profiles() if profile.key.user == user]


def test_parents_are_given_by_number(store: ProfileStore, file: Path) -> None:
    store.put(fat_run(1), NOW_MS)
    (profile,) = store.profiles()
    assert profile.stages[0].parents == fat_run(1).stages[0].parents
    assert file.stat().st_size < 4 * MIB, "names alone are 2 KB a stage, edges by name would be 170 MB"
    document = profile_json(profile)
    assert len(compact(document)) < 4 * MIB
    assert profile_from_json(document).stages[0].parents == profile.stages[0].parents
    by_name = document | {"stages": [stage | {"parents": ["0000" + BOMB]} for stage in document["stages"]]}
    assert profile_from_json(by_name).stages[1].parents == ("0000" + BOMB,), "as version 1 of an export has it"
    with pytest.raises(ValueError, match="a parent"):
        profile_from_json(document | {"stages": [document["stages"][0] | {"parents": [1]}]})


def test_a_user_s_bytes_are_bounded_and_nobody_else_pays(file: Path) -> None:
    with open_store(str(file), JobHistory(user_mb=3, application_mb=1_000, size_mb=64)) as store:
        store.put(make_run(name="of alice", user="alice"), NOW_MS - 1000)
        for number in range(1, 9):
            store.put(fat_run(number, application=number), NOW_MS + number)
        store.prune(NOW_MS + 100)
        assert names_of(store, "alice") == ["of alice"]
        kept = names_of(store, "mallory")
        assert 0 < len(kept) < 8
        assert kept[-1] == "dag i", "the latest stays"
        assert bytes_of(store, "mallory") <= 3 * MIB
        assert file.stat().st_size < 6 * MIB


def test_an_application_s_bytes_are_bounded_and_its_user_s_other_jobs_stay(file: Path) -> None:
    with open_store(str(file), JobHistory(user_mb=1_000, application_mb=3, size_mb=64)) as store:
        store.put(make_run(name="of another application", user="mallory"), NOW_MS - 1000)
        for number in range(1, 9):
            store.put(fat_run(number), NOW_MS + number)
        kept = names_of(store, "mallory")
        assert "of another application" in kept
        assert bytes_of(store, "mallory") <= 3 * MIB + 10_000
        assert len(kept) > 1


def test_the_largest_user_is_evicted_first(file: Path) -> None:
    retention = JobHistory(user_mb=1_000, application_mb=1_000, size_mb=8)
    with open_store(str(file), retention) as store:
        # seen longest ago, and small
        for number in range(20):
            store.put(make_run(number, name=f"job {number}", user=f"user{number}"), NOW_MS - 10_000)
        for number in range(1, 9):
            store.put(fat_run(number), NOW_MS + number)
        store.prune(NOW_MS + 100)
        users = {profile.key.user for profile in store.profiles()}
        assert users >= {f"user{number}" for number in range(20)}
    assert file.stat().st_size <= 8 * MIB


def test_a_profile_s_bytes_are_bounded(file: Path) -> None:
    durations = DurationSketch(round(1.03**power) for power in range(1, 700))
    run = fat_run(1, stages=700)
    run = replace(run, stages=tuple(replace(stage, durations=durations) for stage in run.stages))
    with open_store(str(file), JobHistory(user_mb=1_000, application_mb=1_000)) as store:
        store.put(run, NOW_MS)
        (profile,) = store.profiles()
        assert 100 < len(profile.stages) < 700
        assert bytes_of(store, "mallory") <= PROFILE_BYTES_MAX
        assert profile.stages[0].name == run.stages[0].name, "the first ones stay"
        assert store.put(replace(run, id="dag_1_0007_2"), NOW_MS)
        (profile,) = store.profiles()
        assert profile.runs == 2


def test_much_that_is_written_is_looked_at_before_two_hundred_runs(file: Path) -> None:
    with open_store(str(file), JobHistory(user_mb=1_000, application_mb=1_000, size_mb=4)) as store:
        for number in range(24):
            store.put(fat_run(number, user=f"sybil{number}"), NOW_MS + number)
    assert file.stat().st_size <= 5 * MIB


def test_samples_are_bounded_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.history.database.SAMPLES_MAX", 100)
    with open_store(str(file)) as store:
        for at in range(5):
            sample = Sample(*[0] * len(Sample._fields))
            store.keep_samples({f"application_{at}_{n}": sample for n in range(40)}, NOW_MS + at)
        with store._engine.begin() as connection:
            assert connection.execute(select(func.count()).select_from(SAMPLES)).scalar_one() == 100
            assert connection.execute(select(func.min(SAMPLES.c.seen_ms))).scalar_one() == NOW_MS + 2


def test_the_application_of_a_run_is_in_its_id() -> None:
    assert application_of_run("application_17_0004") == "application_17_0004"
    assert application_of_run("dag_17_0004_12") == "application_17_0004"
    assert application_of_run("local-1795275822871") == ""
    assert application_of_run("dag_" + "9" * 90 + "_1_1") == ""


def test_bytes_are_counted_as_they_are_stored(store: ProfileStore) -> None:
    store.put(fat_run(1, stages=3), NOW_MS)
    with store._engine.begin() as connection:
        documents = connection.execute(select(STAGES.c.document)).scalars().all()
    stored = sum(len(document.encode()) for document in documents)
    assert stored < bytes_of(store, "mallory") < stored + 10_000


def bytes_of(store: ProfileStore, user: str) -> int:
    with store._engine.begin() as connection:
        query = select(func.sum(PROFILES.c.bytes)).where(PROFILES.c.user_name == user)
        return int(connection.execute(query).scalar_one())
