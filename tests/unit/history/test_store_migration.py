"""A store of an earlier version is brought up to date with all that is in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.unit.history.conftest import NOW_MS, make_run

from treadle.history.database import MIGRATIONS, Retention
from treadle.history.documents import compact, profile_json
from treadle.history.run import user_digest
from treadle.history.store import ProfileStore, Sample, Selection, open_store

OTHER = os.environ.get("TREADLE_TEST_DATABASE")
USER = "treadle-test-of-migration"

VERSION_2 = """
CREATE TABLE treadle_schema (version INTEGER NOT NULL);
CREATE TABLE treadle_profiles (
    id {serial}, digest VARCHAR(32) NOT NULL UNIQUE, user_digest VARCHAR(32) NOT NULL,
    user_name TEXT NOT NULL, queue TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, runs BIGINT NOT NULL,
    first_seen_ms BIGINT NOT NULL, last_seen_ms BIGINT NOT NULL, recent TEXT NOT NULL);
CREATE INDEX treadle_profiles_by_user ON treadle_profiles (user_digest, last_seen_ms);
CREATE INDEX treadle_profiles_by_age ON treadle_profiles (last_seen_ms);
CREATE TABLE treadle_stages (
    profile INTEGER NOT NULL, ordinal INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (profile, ordinal),
    FOREIGN KEY(profile) REFERENCES treadle_profiles (id) ON DELETE CASCADE);
CREATE TABLE treadle_samples (
    application VARCHAR(64) NOT NULL, seen_ms BIGINT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (application));
CREATE INDEX treadle_samples_by_age ON treadle_samples (seen_ms);
INSERT INTO treadle_schema (version) VALUES (2)
"""
"""What the version before made, to the word."""


def _make_old(url: str, profiles: list[dict[str, object]]) -> None:
    """Write profiles as version 2 did: a stage's parents by their names."""
    engine = create_engine(url)
    serial = "SERIAL PRIMARY KEY" if engine.dialect.name == "postgresql" else "INTEGER NOT NULL PRIMARY KEY"
    with engine.begin() as connection:
        for table in ("samples", "stages", "profiles", "schema"):
            connection.execute(text(f"DROP TABLE IF EXISTS treadle_{table}"))
        for statement in VERSION_2.format(serial=serial).split(";"):
            connection.execute(text(statement))
        sample = {"application": "application_1_1", "seen_ms": NOW_MS, "document": compact([0] * len(Sample._fields))}
        connection.execute(text("INSERT INTO treadle_samples VALUES (:application, :seen_ms, :document)"), sample)
        for number, profile in enumerate(profiles, 1):
            _insert(connection, number, profile)
    engine.dispose()


def _insert(connection: object, number: int, profile: dict[str, object]) -> None:
    key = profile["key"]
    stages = profile["stages"]
    assert isinstance(key, dict)
    assert isinstance(stages, list)
    execute = connection.execute  # type: ignore[attr-defined]
    execute(
        text(
            "INSERT INTO treadle_profiles (digest, user_digest, user_name, queue, type, name, runs, first_seen_ms, "
            "last_seen_ms, recent) VALUES (:digest, :user_digest, :user, :queue, :type, :name, :runs, :first_seen_ms, "
            ":last_seen_ms, :recent)"
        ),
        {
            **key,
            "digest": make_run(name=str(key["name"]), user=str(key["user"])).key.digest(),
            "user_digest": user_digest(str(key["user"])),
            **{field: profile[field] for field in ("runs", "first_seen_ms", "last_seen_ms")},
            "recent": compact(profile["recent"]),
        },
    )
    names = [stage["name"] for stage in stages]
    for ordinal, stage in enumerate(stages):
        by_name = stage | {"parents": [names[parent] for parent in stage["parents"]]}
        execute(
            text("INSERT INTO treadle_stages VALUES (:profile, :ordinal, :document)"),
            {"profile": number, "ordinal": ordinal, "document": compact(by_name)},
        )


@pytest.fixture(params=["sqlite", *(["other"] if OTHER else [])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/old.db" if request.param == "sqlite" else str(OTHER)


@pytest.fixture
def profiles(store: ProfileStore) -> list[dict[str, object]]:
    """Documents of profiles, of which one has names in another script."""
    for number in range(1, 4):
        store.put(make_run(number, name="nightly load", user=USER), NOW_MS)
    store.put(make_run(1, name="夜の報告", user=USER, stages=5), NOW_MS)
    return [profile_json(profile) for profile in store.profiles()]


def test_all_profiles_and_samples_are_there_and_the_version_is_today_s(
    url: str, profiles: list[dict[str, object]]
) -> None:
    _make_old(url, profiles)
    for _ in range(2):
        with open_store(url) as store:
            assert [profile_json(found) for found in store.profiles()] == profiles
            assert list(store.samples()) == ["application_1_1"]
    engine = create_engine(url)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT version FROM treadle_schema")).scalar_one() == len(MIGRATIONS) == 3
    engine.dispose()


def test_what_was_there_is_counted(url: str, profiles: list[dict[str, object]]) -> None:
    _make_old(url, profiles)
    with open_store(url) as store, store._engine.begin() as connection:
        documents = connection.execute(text("SELECT profile, document FROM treadle_stages")).all()
        counted = connection.execute(text("SELECT id, name, bytes FROM treadle_profiles ORDER BY id")).all()
    for number, name, size in counted:
        stored = sum(len(document.encode()) for profile, document in documents if profile == number)
        assert stored + len(name.encode()) < size < stored + 2_000
    assert any(not name.isascii() for _, name, _ in counted)


def test_a_run_after_the_migration_writes_parents_by_number_and_what_was_known_counts(
    url: str, profiles: list[dict[str, object]]
) -> None:
    _make_old(url, profiles)
    with open_store(url) as store:
        assert store.put(make_run(9, name="nightly load", user=USER, ended_ms=NOW_MS + 1), NOW_MS + 1)
        (profile,) = store.profiles(Selection(user=USER, name="nightly load"))
        assert (profile.runs, profile.stages[1].parents) == (4, ("s0",))
        with store._engine.begin() as connection:
            rows = connection.execute(text("SELECT document FROM treadle_stages ORDER BY profile, ordinal")).all()
    assert [json.loads(document)["parents"] for (document,) in rows][:2] == [[], [0]]


def test_what_is_too_large_since_then_goes_with_the_next_look(url: str, profiles: list[dict[str, object]]) -> None:
    _make_old(url, profiles)
    with open_store(url, Retention(rows_per_user=5)) as store:
        assert store.prune(NOW_MS) == 1
        assert len(store.profiles()) == 1


def test_a_store_opened_for_reading_alone_is_not_migrated(tmp_path: Path, profiles: list[dict[str, object]]) -> None:
    file = tmp_path / "old.db"
    _make_old(f"sqlite:///{file}", profiles)
    with pytest.raises(Exception, match="brings it up to date"):
        open_store(str(file), read_only=True)
