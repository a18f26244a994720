"""Histories that a process of another user reads: what it does, and how little it is believed."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final

import psutil
import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.other_user import AS_NOBODY, NOBODY, Starter, can_change_user
from tests.unit.history.conftest import NOW_MS, make_run
from tests.unit.history.test_history_owners import ME, MINUTE_MS, spark_log

from treadle.config.trust import connect
from treadle.errors import UserError
from treadle.history import process
from treadle.history.documents import profile_json, run_json
from treadle.history.importing import Import
from treadle.history.outcome import BrokenHistoryError, RefusedError
from treadle.history.reader import HEADER, HistoryReader, find_sources
from treadle.history.store import ProfileStore, open_store

READS: Final = (sys.executable, "-P", "-m", process.__name__, "1536", "300")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:  # a socket's path is at most 107 bytes long
        Path(made).chmod(0o755)
        yield Path(made)


def reader_at(path: Path) -> HistoryReader:
    return HistoryReader(connect=partial(connect, path, "--reader", "treadle-histories.socket"))


def history(folder: Path, user: str = ME, name: str = "log") -> Path:
    file = written(folder / name, spark_log(user, "application_1_1", MINUTE_MS))
    file.chmod(0o644)
    return file


@pytest.mark.skipif(
    not can_change_user(), reason="only root can start a process of another user, of a Python that it may run"
)
def test_the_process_that_reads_is_of_another_user(folder: Path) -> None:
    starter = Starter(folder / "socket", (*AS_NOBODY, *READS))
    with closing(starter), reader_at(folder / "socket") as reader:
        (source,) = find_sources([history(folder)])
        assert len(reader.read(source).runs) == 1
        assert len(reader.read(source).runs) == 1, "by the same process"
        (started,) = starter.started
        assert set(psutil.Process(started.pid).uids()) == {NOBODY}
        secret = folder / "secret.jhist"
        secret.touch(mode=0o600)
        (source,) = find_sources([secret])
        with pytest.raises(BrokenHistoryError, match="Permission denied"):
            reader.read(source)
        reader.close()
        assert started.wait(300) == 0, "it ends with the connection"


def test_the_command_has_files_read_behind_a_socket(folder: Path, cli: Cli) -> None:
    store = str(folder / "p.db")
    command = ["history", "import", "--store", store, "--reader", str(folder / "socket"), str(history(folder))]
    said = " ".join(cli(command, 2).err.split())
    assert f"--reader: {folder / 'socket'}: No such file or directory; start what listens there" in said
    assert "systemctl start treadle-histories.socket" in said
    starter = Starter(folder / "socket", READS)
    with closing(starter):
        assert "1 new run" in cli(command).out
        assert len(starter.started) == 1


def test_a_socket_that_others_may_have_put_there_is_not_used(folder: Path) -> None:
    folder.chmod(0o777)
    with closing(Starter(folder / "socket", READS)) as starter:
        with pytest.raises(UserError, match=r"--reader: .* may be written by everybody"):
            connect(folder / "socket", "--reader", "treadle-histories.socket")
        assert starter.started == []


def test_a_reader_that_ends_is_replaced(folder: Path) -> None:
    starter = Starter(folder / "socket", READS)
    (source,) = find_sources([history(folder)])
    with closing(starter), reader_at(folder / "socket") as reader:
        reader.read(source)
        starter.started[0].kill()
        starter.started[0].wait()
        with pytest.raises(BrokenHistoryError, match="has ended; its own log says why"):
            reader.read(source)
        assert len(reader.read(source).runs) == 1


def answered(parts: list[dict[str, Any]]) -> Callable[[], socket.socket]:
    """Return what connects to a reader that a hostile file has taken over: it says what it likes."""

    def connected() -> socket.socket:
        here, there = socket.socketpair()

        def answer() -> None:
            # who asks hangs up when it has heard enough
            with there, suppress(OSError):
                there.makefile("rb").readline()
                for part in parts:
                    content = json.dumps(part).encode()
                    there.sendall(HEADER.pack(len(content)) + content)

        Thread(target=answer, daemon=True).start()
        return here

    return connected


def end(owners: list[list[Any]]) -> dict[str, Any]:
    return {"end": {"owners": owners, "open_to_all": ""}, "again": False, "cpu_s": 0.0}


def test_a_reader_that_lies_of_the_files_owner_is_not_believed(folder: Path, store: ProfileStore) -> None:
    forged = run_json(make_run(user="alice"))
    connect_ = answered([{"run": forged}, end([])])
    with HistoryReader(connect=connect_) as reader:
        importing = Import(store, NOW_MS, print, reader=reader)
        importing.take(find_sources([history(folder)]))
    (refused,) = importing.summary.refused
    assert f"log is {ME}'s, and is of a job of alice" in refused
    assert list(store.profiles()) == []


def test_a_reader_that_makes_profiles_of_a_history_is_not_believed(folder: Path, store: ProfileStore) -> None:
    with open_store(str(folder / "other.db")) as other:
        other.put(make_run(user=ME), NOW_MS)
        (profile,) = other.profiles()
    connect_ = answered([{"profile": profile_json(profile)}, end([])])
    (source,) = find_sources([history(folder)])
    with HistoryReader(connect=connect_) as reader, pytest.raises(BrokenHistoryError, match="in what is not an export"):
        reader.read(source)


def test_exports_are_read_by_a_process_of_ones_own(folder: Path) -> None:
    export = written(folder / "all.jsonl", '{"treadle_profiles": 2}\n')
    (source,) = find_sources([export])
    with reader_at(folder / "socket") as reader, pytest.raises(RefusedError, match="import it without --reader"):
        reader.read(source)
