"""Runs go into the store and profiles come out, bounded in age, rows and size."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.dialects import registry
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateTable
from tests.support.files import written
from tests.support.optional import present
from tests.unit.history.conftest import DAY_MS, NOW_MS, make_run

from treadle.config.settings import JobHistory
from treadle.history.database import PROFILES, STAGES, StoreError, Unusable
from treadle.history.documents import profile_from_json, profile_json
from treadle.history.profile import RECENT_MAX, DurationSketch, JobRun, Measured, RecurrenceKey, StageRun
from treadle.history.store import ProfileStore, Sample, Selection, open_store

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
    profile = present(store.get(KEY))
    assert profile.runs == 30
    assert [run for _, run, _ in profile.recent] == [f"application_{number}" for number in range(11, 31)]
    assert profile.stages[0].durations.count == 90
    assert len(profile.stages[0].recent) == RECENT_MAX


def test_a_run_counts_once_however_often_it_is_reported(store: ProfileStore) -> None:
    assert store.put(make_run(), NOW_MS)
    assert not store.put(make_run(), NOW_MS)
    more = replace(make_run(), stages=(*make_run().stages, StageRun("late", 1, DurationSketch([5]))))
    assert store.put(more, NOW_MS)
    profile = present(store.get(KEY))
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
    profile = present(store.get(KEY))
    assert [run for _, run, _ in profile.recent] == remembered
    assert profile.runs == len(remembered)
    assert profile.tasks == 6, "containers are not added to tasks"
    assert "priority 8" in {stage.name for stage in profile.stages}, "hints for asks go by it"


def test_an_earlier_run_that_comes_later_says_what_no_later_one_did(store: ProfileStore) -> None:
    later = make_run(2, stages=1)
    store.put(replace(later, stages=(replace(later.stages[0], demand={}, width=9),)), NOW_MS)
    store.put(make_run(1, ended_ms=NOW_MS - 1), NOW_MS)
    stage = present(store.get(KEY)).stages[0]
    assert stage.demand == {"memory-mb": 1024, "vcores": 1}
    assert [run.width for run in stage.recent] == [3, 9]


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
    profile = present(store.get(KEY))
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
    profile = present(store.get(KEY))
    assert (profile.stages[0].measured, profile.stages[0].durations.count) == (Measured.TASKS, 3)


def test_a_clock_that_steps_back_makes_no_run_too_old(store: ProfileStore) -> None:
    year_ms = 365 * DAY_MS
    for number in range(RECENT_MAX):
        store.put(make_run(number, ended_ms=NOW_MS + year_ms), NOW_MS + year_ms)
    assert store.put(make_run(100, ended_ms=NOW_MS), NOW_MS)
    profile = present(store.get(KEY))
    assert profile.last_seen_ms == NOW_MS
    assert profile.runs == RECENT_MAX + 1
    backwards = replace(make_run(101), started_ms=NOW_MS + 5_000, ended_ms=NOW_MS)
    assert store.put(backwards, NOW_MS)
    profile = present(store.get(KEY))
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


def test_a_user_has_so_many_rows_and_no_more(file: Path) -> None:
    with open_store(str(file), JobHistory(rows_per_user=10)) as store:
        store.put(make_run(name="of bob", user="bob", stages=8), NOW_MS)
        for number in range(9):
            store.put(make_run(number, name=f"job {number}", stages=2, ended_ms=NOW_MS + number), NOW_MS + number)
        names = {profile.key.name for profile in store.profiles()}
    assert names == {"of bob", *(f"job {number}" for number in range(4, 9))}


def test_what_was_not_seen_for_long_is_forgotten(file: Path) -> None:
    with open_store(str(file), JobHistory(age_days=30)) as store:
        store.put(make_run(1, name="old"), NOW_MS)
        store.put(make_run(2, name="new", ended_ms=NOW_MS + 20 * DAY_MS), NOW_MS + 20 * DAY_MS)
        assert store.prune(NOW_MS + 31 * DAY_MS) == 1
        assert [profile.key.name for profile in store.profiles()] == ["new"]


def test_a_store_stays_within_its_size(file: Path) -> None:
    with open_store(str(file), JobHistory(size_mb=1, rows_per_user=10**6)) as store:
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
    found = present(store.get(KEY))
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
    found = present(store.get(KEY))
    assert (found.runs, found.stages[0].durations.count) == (60, 180)
    store.forget(Selection())
    for profile in (early, late):
        assert store.merge(profile, NOW_MS + 60)
    found = present(store.get(KEY))
    assert (found.runs, found.stages[0].durations.count) == (60, 180)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"runs": "many"}, "runs: Input should be a valid integer"),
        ({"key": {"user": "a"}}, "key.queue: Field required"),
        ({"stages": {}}, "stages: Input should be a valid tuple"),
        ({"recent": [[1, "a b", 1]]}, "recent.0.1: String should match"),
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


# A store that cannot be used says why and what to do; one whose writer is killed is whole.

ROOT = Path(__file__).parents[3]

WRITER = """
import sys
from tests.unit.history.conftest import NOW_MS, make_run
from treadle.history.store import open_store
store = open_store(sys.argv[1])
number = int(sys.argv[2])
while True:
    number += 1
    store.put(make_run(number, name=f"job {number % 7}", ended_ms=NOW_MS + number), NOW_MS + number)
    print(number, flush=True)
"""


def _refused(store: ProfileStore) -> StoreError:
    with pytest.raises(StoreError) as caught:
        store.put(make_run(99, name="x" * 900, stages=50), NOW_MS)
    return caught.value


def _unusable(file: Path, *, read_only: bool = False) -> Unusable:
    """Return why a store cannot be opened."""
    with pytest.raises(StoreError) as caught:
        open_store(str(file), read_only=read_only)
    return caught.value.reason


def _execute(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


def test_a_writer_killed_at_any_moment_leaves_a_whole_store(file: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}"}
    told = 0
    for reports in (1, 6, 17):
        command = [sys.executable, "-c", WRITER, str(file), str(told)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(reports):
                told = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
            told = max([told, *(int(line) for line in writer.stdout.read().split())])
        with open_store(str(file)) as store:
            profiles = store.profiles()
        # what was reported as done is there; one more may have been done and not reported
        assert told <= sum(profile.runs for profile in profiles) + 3 * 7
        assert max(profile.last_seen_ms for profile in profiles) - NOW_MS in (told, told + 1)
        for profile in profiles:
            assert [stage.durations.count for stage in profile.stages] == [3 * profile.runs] * 2


def test_only_its_user_can_read_it(file: Path, store: ProfileStore) -> None:
    store.put(make_run(), NOW_MS)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert set(modes) >= {"profiles.db", "profiles.db-wal"}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    store.close()
    file.chmod(0o644)
    open_store(str(file)).close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("pragma", "reason", "said"),
    [("max_page_count = {pages}", Unusable.FULL, "free space"), ("query_only = ON", Unusable.READ_ONLY, "")],
)
def test_a_full_disk_and_a_read_only_database(
    store: ProfileStore, file: Path, pragma: str, reason: Unusable, said: str
) -> None:
    store.put(make_run(), NOW_MS)

    @event.listens_for(store._engine, "begin")
    def limit(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA {pragma.format(pages=pages)}")

    refused = _refused(store)
    assert refused.reason is reason
    assert said in str(refused)
    assert str(file) in str(refused)
    assert [profile.runs for profile in store.profiles()] == [1]


def test_a_store_opened_for_reading_is_not_written(file: Path) -> None:
    assert _unusable(file, read_only=True) is Unusable.MISSING
    assert not file.parent.exists()
    with open_store(str(file)) as store:
        store.put(make_run(), NOW_MS)
    before = file.read_bytes()
    with open_store(str(file), read_only=True) as store:
        assert [profile.runs for profile in store.profiles()] == [1]
        assert _refused(store).reason is Unusable.READ_ONLY
    assert file.read_bytes() == before


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="check its path"):
        open_store(str(tmp_path / "file" / "profiles.db"))


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 1000, b"SQLite format 3\0" + bytes(range(256)) * 64], ids=["text", "bytes"]
)
def test_a_file_that_is_no_database(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(StoreError, match="move the file away"):
        open_store(str(file))
    assert file.read_bytes() == content


def test_a_corrupted_page(file: Path) -> None:
    with open_store(str(file)) as store:
        for number in range(40):
            store.put(make_run(number, name=f"job {number}"), NOW_MS)
    _execute(file, "PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xaa" * (4096 * 3)
    file.write_bytes(content)
    assert _unusable(file) is Unusable.CORRUPTED


def test_a_row_that_is_no_profile(file: Path, store: ProfileStore) -> None:
    store.put(make_run(), NOW_MS)
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE treadle_stages SET document = '{\"name\": 3'"))
    with pytest.raises(StoreError) as caught:
        store.profiles()
    assert caught.value.reason is Unusable.CORRUPTED


def test_a_newer_version(file: Path) -> None:
    open_store(str(file)).close()
    _execute(file, "UPDATE treadle_schema SET version = 99")
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"another release of Treadle .*version 99"):
            open_store(str(file), read_only=read_only)


def test_an_empty_store_that_is_opened_for_reading_is_refused(file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    assert _unusable(file, read_only=True) is Unusable.MISSING


class _DeadlockError(Exception):
    sqlstate = "40P01"


def test_a_transaction_that_ends_in_a_deadlock_is_tried_again(store: ProfileStore) -> None:
    left = [2]

    @event.listens_for(store._engine, "before_cursor_execute")
    def meet_another(*arguments: object) -> None:
        if "INSERT INTO treadle_stages" in str(arguments[2]) and left[0]:
            left[0] -= 1
            raise OperationalError(str(arguments[2]), {}, _DeadlockError("deadlock detected"))

    assert store.put(make_run(), NOW_MS)
    assert [(profile.runs, len(profile.stages)) for profile in store.profiles()] == [(1, 2)]
    left[0] = 99
    refused = _refused(store)
    assert refused.reason is Unusable.BUSY
    assert "deadlock detected" in str(refused)


def test_tables_of_somebody_else(file: Path) -> None:
    file.parent.mkdir()
    _execute(file, "CREATE TABLE treadle_profiles (x INTEGER)")
    assert _unusable(file) is Unusable.FOREIGN


@pytest.mark.parametrize(
    "do",
    [
        lambda store: store.forget(Selection()),
        lambda store: store.prune(NOW_MS + 999 * DAY_MS),
        lambda store: store.keep_samples({"application_1_1": None}, NOW_MS),
    ],
    ids=["forget", "prune", "samples"],
)
def test_a_constraint_of_the_database_is_reported_as_any_other_fault(
    file: Path, store: ProfileStore, do: Callable[[ProfileStore], object]
) -> None:
    store.put(make_run(), NOW_MS)
    store.keep_samples({"application_1_1": Sample(*[0] * len(Sample._fields))}, NOW_MS)
    # what another database says when two writers meet, said by SQLite
    for table in ("profiles", "samples"):
        raises = "BEGIN SELECT RAISE(ABORT, 'in use'); END"
        _execute(file, f"CREATE TRIGGER no_{table} BEFORE DELETE ON treadle_{table} {raises}")
    with pytest.raises(StoreError, match="in use") as caught:
        do(store)
    assert caught.value.reason is Unusable.BUSY
    assert [profile.runs for profile in store.profiles()] == [1]


def test_a_database_whose_driver_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as refused:
        open_store("postgresql+psycopg://ann:secret@db/x")
    why = str(refused.value)
    assert "needs a driver that is not installed" in why
    assert "psycopg" in why
    assert "secret" not in why


@pytest.mark.parametrize("location", ["nonsense://x", "postgresql+nodriver://ann:secret@db/x", "://"])
def test_a_url_that_leads_nowhere_tells_no_password(location: str) -> None:
    with pytest.raises(StoreError, match="check its path or URL") as refused:
        open_store(location)
    assert "secret" not in str(refused.value)


def test_a_url_of_sqlite(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/by-url.db") as store:
        assert store.put(make_run(), NOW_MS)
    assert stat.S_IMODE((tmp_path / "by-url.db").stat().st_mode) == 0o600


def test_a_store_whose_path_leads_to_another_file_does_not_change_it(tmp_path: Path) -> None:
    """Root may import into a store in a folder of the sidecar's user, who may put a link there."""
    other = written(tmp_path / "hosts", "127.0.0.1 localhost\n")
    other.chmod(0o644)
    (tmp_path / "store.db").symlink_to(other)
    with pytest.raises(StoreError), open_store(str(tmp_path / "store.db")):
        pass
    assert stat.S_IMODE(other.stat().st_mode) == 0o644
    (tmp_path / "dangling.db").symlink_to(tmp_path / "made")
    with pytest.raises(StoreError), open_store(str(tmp_path / "dangling.db")):
        pass
    assert not (tmp_path / "made").exists()


# The store in a database by URL: an SQLite one always, and the one that TREADLE_TEST_DATABASE names, where it does.

URLS = ["sqlite:///{folder}/by-url.db", *filter(None, [os.environ.get("TREADLE_TEST_DATABASE")])]
USER = "treadle-test"
NO_SAMPLE = Sample(*[0] * len(Sample._fields))


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ProfileStore]:
    url = str(request.param).replace("{folder}", str(tmp_path))
    with open_store(url) as store:
        store.forget(Selection(user=USER))
    return partial(open_store, url)


def test_what_was_put_is_there_and_goes_again(opened: Callable[[], ProfileStore]) -> None:
    run = make_run(user=USER, name="日🧵\0" * 3000)
    with opened() as store:
        assert store.put(run, NOW_MS)
        assert not store.put(run, NOW_MS)
    with opened() as store:
        (profile,) = store.profiles(Selection(user=USER))
        assert store.forget(Selection(user=USER)) == 1
        assert store.merge(profile, NOW_MS)
        (copied,) = store.profiles(Selection(user=USER))
        assert profile_json(copied) == profile_json(profile)
        assert store.forget(Selection(user=USER)) == 1
        assert store.get(profile.key) is None


def all_at_once(stores: Sequence[ProfileStore], use: Callable[[ProfileStore, int], None]) -> list[BaseException]:
    """Use each store in a thread of its own, with numbers of its own from the given one on; return what failed."""
    with ThreadPoolExecutor(len(stores)) as threads:
        used = [threads.submit(use, store, 100 * at) for at, store in enumerate(stores)]
        return [error for each in used if (error := each.exception()) is not None]


def test_writers_that_are_in_each_other_s_way_all_get_through(opened: Callable[[], ProfileStore]) -> None:
    stores = [opened() for _ in range(4)]

    def use(store: ProfileStore, first: int) -> None:
        for number in range(first, first + 12):
            store.put(make_run(number, user=USER, name=f"job {'abc'[number % 3]}"), NOW_MS)
            store.keep_samples({f"application_0_{at}": NO_SAMPLE for at in range(5)}, NOW_MS)
            store.prune(NOW_MS)
            if number % 3 == 2:
                store.forget(Selection(user=USER, name=f"job {'abc'[number % 2]}"))

    failures = all_at_once(stores, use)
    stores[0].keep_samples(dict.fromkeys(f"application_0_{at}" for at in range(5)), NOW_MS)
    stores[0].forget(Selection(user=USER))
    for store in stores:
        store.close()
    assert failures == []


def test_runs_that_several_writers_add_at_once_are_all_there(opened: Callable[[], ProfileStore]) -> None:
    stores = [opened() for _ in range(3)]

    def put_all(store: ProfileStore, first: int) -> None:
        for number in range(first, first + 6):
            store.put(make_run(number, user=USER), NOW_MS)

    failures = all_at_once(stores, put_all)
    (profile,) = stores[0].profiles(Selection(user=USER))
    for store in stores:
        store.close()
    assert failures == []
    assert (profile.runs, profile.stages[0].durations.count) == (18, 54)
