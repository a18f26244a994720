"""A store that cannot be used says why and what to do; one whose writer is killed is whole."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError
from tests.unit.history.conftest import DAY_MS, NOW_MS, make_run

from treadle.history.database import StoreError, Unusable
from treadle.history.store import ProfileStore, Sample, Selection, open_store

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


def _refused(store: ProfileStore, number: int = 99) -> StoreError:
    with pytest.raises(StoreError) as caught:
        store.put(make_run(number, name="x" * 900, stages=50), NOW_MS)
    return caught.value


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


def test_a_full_disk(store: ProfileStore, file: Path) -> None:
    store.put(make_run(), NOW_MS)

    @event.listens_for(store._engine, "begin")
    def limit(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    refused = _refused(store)
    assert refused.reason is Unusable.FULL
    assert "free space" in str(refused)
    assert str(file) in str(refused)
    assert [profile.runs for profile in store.profiles()] == [1]


def test_a_read_only_database(store: ProfileStore) -> None:
    store.put(make_run(), NOW_MS)

    @event.listens_for(store._engine, "begin")
    def protect(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA query_only = ON")

    assert _refused(store).reason is Unusable.READ_ONLY
    assert [profile.runs for profile in store.profiles()] == [1]


def test_a_store_opened_for_reading_is_not_written(file: Path) -> None:
    with pytest.raises(StoreError, match="not there") as caught:
        open_store(str(file), read_only=True)
    assert caught.value.reason is Unusable.MISSING
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
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xaa" * (4096 * 3)
    file.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        open_store(str(file))
    assert caught.value.reason is Unusable.CORRUPTED


def test_a_row_that_is_no_profile(file: Path, store: ProfileStore) -> None:
    store.put(make_run(), NOW_MS)
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE treadle_stages SET document = '{\"name\": 3'"))
    with pytest.raises(StoreError) as caught:
        store.profiles()
    assert caught.value.reason is Unusable.CORRUPTED


def test_a_newer_version(file: Path) -> None:
    open_store(str(file)).close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE treadle_schema SET version = 99")
    connection.close()
    with pytest.raises(StoreError, match=r"another release of Treadle .*version 99"):
        open_store(str(file))
    with pytest.raises(StoreError, match="version 99"):
        open_store(str(file), read_only=True)


def test_an_empty_store_that_is_opened_for_reading_is_refused(file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    with pytest.raises(StoreError, match="the database is empty") as caught:
        open_store(str(file), read_only=True)
    assert caught.value.reason is Unusable.MISSING


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
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE treadle_profiles (x INTEGER)")
    connection.close()
    with pytest.raises(StoreError) as caught:
        open_store(str(file))
    assert caught.value.reason is Unusable.FOREIGN


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
    with sqlite3.connect(file) as connection:
        for table in ("profiles", "samples"):
            connection.execute(
                f"CREATE TRIGGER no_{table} BEFORE DELETE ON treadle_{table} BEGIN SELECT RAISE(ABORT, 'in use'); END"
            )
    connection.close()
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
    other = tmp_path / "hosts"
    other.write_text("127.0.0.1 localhost\n")
    other.chmod(0o644)
    (tmp_path / "store.db").symlink_to(other)
    with pytest.raises(StoreError), open_store(str(tmp_path / "store.db")):
        pass
    assert stat.S_IMODE(other.stat().st_mode) == 0o644
    (tmp_path / "dangling.db").symlink_to(tmp_path / "made")
    with pytest.raises(StoreError), open_store(str(tmp_path / "dangling.db")):
        pass
    assert not (tmp_path / "made").exists()
