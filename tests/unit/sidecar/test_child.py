"""Processes of a hub: killed, stopped, thinking, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from threading import Condition, Thread
from typing import Any, cast

import psutil
import pytest
from tests.campaign.engine_trouble import TROUBLES, run
from tests.support.hub import Manager
from tests.support.optional import present
from tests.support.waiting import eventually

from treadle import events
from treadle.config.settings import RosterEngine
from treadle.engine.testing import StringTable, rows
from treadle.events import Names, Snapshot
from treadle.sidecar import child
from treadle.sidecar.child import ChildProcess, Work
from treadle.sidecar.mirror import Feed, Mirror

COMMAND = (sys.executable, "-m", "tests.support.hub_child")
ROOT = Path(__file__).parents[3]
LEASE_MS = 1000
ENTRIES: dict[str, dict[str, Any]] = {"prod": {"select": {"queues": ["root.q0"]}, "decision_max_s": 600}, "rest": {}}


class Real(Manager):
    """A manager whose engines are processes."""

    def __init__(self, folder: Path, entries: dict[str, dict[str, Any]] = ENTRIES) -> None:
        self.folder, self.processes = folder, dict[str, ChildProcess]()
        super().__init__(entries)

    def _make(self, row: RosterEngine, changed: Condition) -> Any:
        self.processes[row.name] = ChildProcess(row.name, (*COMMAND, str(self.folder), row.name), changed)
        return self.processes[row.name]

    def alive(self) -> set[str]:
        """Send a frame; return who is alive, as the hub shows it."""
        self.now_ms += 10_000
        self.last = self.send()
        return {name for name, each in self.hub.roster_json()["engines"].items() if each["alive"]}

    def pid(self, name: str) -> int:
        process = present(self.processes[name]._process)
        return process.pid


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Real]:
    monkeypatch.setattr(child, "PAUSE_S", 0.05)
    monkeypatch.chdir(ROOT)
    made = Real(tmp_path)
    made.snapshot()
    yield made
    for each in made.processes.values():
        each.close()
        each.join(60)


def until(manager: Real, alive: set[str]) -> None:
    eventually(lambda: manager.alive() == alive, timeout_s=120)


def test_who_is_killed_is_started_again_and_others_hear_nothing_of_it(manager: Real) -> None:
    until(manager, {"prod", "rest"})
    for _ in range(3):
        starts = manager.processes["prod"].starts
        os.kill(manager.pid("prod"), signal.SIGKILL)
        until(manager, {"rest"})
        until(manager, {"prod", "rest"})
        assert not manager.last.resend
        assert manager.processes["prod"].starts == starts + 1
    assert manager.hub.roster_json()["engines"]["prod"]["starts"] == 4
    assert manager.processes["rest"].starts == 1


def test_who_is_stopped_is_dead_within_the_lease_and_ended(manager: Real) -> None:
    until(manager, {"prod", "rest"})
    stopped = psutil.Process(manager.pid("prod"))
    stopped.suspend()
    until(manager, {"rest"})
    eventually(lambda: not stopped.is_running(), timeout_s=60)
    until(manager, {"prod", "rest"})


def test_who_thinks_shows_that_it_lives_and_is_not_waited_for(manager: Real, tmp_path: Path) -> None:
    until(manager, {"prod", "rest"})
    (tmp_path / "prod.thinks").touch()
    manager.send()
    began_s = time.monotonic()
    while time.monotonic() - began_s < 3 * LEASE_MS / 1000:
        assert manager.send().again
    assert manager.processes["prod"].starts == 1
    (tmp_path / "prod.thinks").unlink()
    eventually(lambda: not manager.send().again, timeout_s=60)


def test_nobody_is_served_when_all_are_dead(manager: Real, tmp_path: Path) -> None:
    assert manager.send().unserved
    eventually(lambda: manager.alive() == {"prod", "rest"} and not manager.send().unserved, timeout_s=60)
    for name in manager.processes:
        (tmp_path / f"{name}.cannot").touch()
        os.kill(manager.pid(name), signal.SIGKILL)
    until(manager, set())
    assert manager.last.unserved
    eventually(lambda: manager.alive() == set() and "it has no policy" in manager.status["error"], timeout_s=60)


def test_nobody_is_served_when_all_are_stopped(manager: Real) -> None:
    until(manager, {"prod", "rest"})
    stopped = [psutil.Process(manager.pid(name)) for name in manager.processes]
    for each in stopped:
        each.suspend()
    eventually(lambda: manager.send().unserved, timeout_s=60)
    eventually(lambda: manager.alive() and [each.starts for each in manager.processes.values()] == [2, 2], timeout_s=60)
    eventually(lambda: manager.alive() == {"prod", "rest"} and not manager.send().unserved, timeout_s=60)


def test_who_thinks_for_too_long_is_ended_and_nobody_is_served_if_all_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    made = Real(tmp_path, {"prod": {"select": {"queues": ["root.q0"]}, "decision_max_s": 0.2}, "rest": {}})
    made.snapshot()
    until(made, {"prod", "rest"})
    (tmp_path / "prod.thinks").touch()
    made.send()
    eventually(lambda: made.alive() == {"rest"} and "it has thought for" in (made.status["error"] or ""), timeout_s=60)
    (tmp_path / "prod.thinks").unlink()
    until(made, {"prod", "rest"})
    (tmp_path / "rest.cannot").touch()
    os.kill(made.pid("rest"), signal.SIGKILL)
    eventually(lambda: made.alive() == {"prod"} and not made.send().unserved, timeout_s=60)
    (tmp_path / "prod.thinks").touch()
    eventually(lambda: made.send().unserved, timeout_s=60)
    for each in made.processes.values():
        each.close()


def test_no_byte_of_an_attempts_key_reaches_a_process(manager: Real, tmp_path: Path) -> None:
    until(manager, {"prod", "rest"})
    words = [0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x3132333435363738]
    named = {f"word{at}": word for at, word in enumerate(words)}
    manager.send(rows(events.AttemptKeys, StringTable(), [{"application": 0, "number": 1} | named]))
    manager.snapshot()
    files = [tmp_path / f"{name}.heard" for name in manager.processes]
    # the snapshot comes after the keys: an engine that has it has all that it gets of them
    eventually(lambda: all(b"root.q0" in file.read_bytes() for file in files), timeout_s=120)
    for file in files:
        heard = file.read_bytes()
        assert not any(word.to_bytes(8, order) in heard for word in words for order in ("little", "big"))


HUB = """
import sys, time
from threading import Condition
from treadle.sidecar.child import ChildProcess
from treadle.sidecar.child import Work
children = [ChildProcess(name, (sys.executable, "-m", "tests.support.hub_child", sys.argv[1], name), Condition())
            for name in ("one", "two")]
while not all(child.starts for child in children):
    time.sleep(0.01)
print(*(child._process.pid for child in children), flush=True)
time.sleep(600)
"""


def test_processes_end_with_the_hub_though_stopped_or_thinking(tmp_path: Path) -> None:
    hub = subprocess.Popen([sys.executable, "-c", HUB, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert hub.stdout is not None
    children = [psutil.Process(int(pid)) for pid in hub.stdout.readline().split()]
    children[0].suspend()
    hub.kill()
    hub.wait()
    hub.stdout.close()
    eventually(lambda: not any(each.is_running() and each.status() != "zombie" for each in children), timeout_s=60)


def test_a_hub_loads_no_engine_and_nothing_compiled() -> None:
    loaded = "import sys, treadle.live.engines, treadle.live.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "treadle.sidecar.hub" in done.stdout.split()
    wrong = ("numba", "treadle.policy", "treadle.engine", "treadle.compiled")
    assert [name for name in done.stdout.split() if name.startswith(wrong)] == []


HALF_A_MESSAGE = "0000010041"
"""The length of a message, and one of its bytes."""


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ChildProcess]]:
    """Start a process without a hub; the file `pid` has the number of one that it leaves behind."""
    monkeypatch.setattr(child, "PAUSE_S", 0.05)
    monkeypatch.chdir(ROOT)
    made: list[ChildProcess] = []

    def start(*command: str) -> ChildProcess:
        made.append(ChildProcess("prod", command or (*COMMAND, str(tmp_path), "prod"), Condition()))
        return made[-1]

    yield start
    for each in made:
        each.close()
        each.join(60)
    for pid in (tmp_path / "pid").read_text().split() if (tmp_path / "pid").exists() else ():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


FORKS = """
import os, sys, time
pid, half, own, line = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if os.path.exists(pid):
    os._exit(4)
if os.fork():
    while not os.path.exists(pid):
        time.sleep(0.01)
    os.write(line, half)
    os._exit(3)
if own == "own":
    os.setsid()
with open(pid + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(pid + ".part", pid)
time.sleep(600)
"""


@pytest.mark.parametrize("session", ["the process's", "own"])
@pytest.mark.parametrize("half", ["", HALF_A_MESSAGE])
def test_who_has_ended_is_started_again_though_another_holds_its_descriptor(
    half: str, session: str, alone: Callable[..., ChildProcess], tmp_path: Path
) -> None:
    ended = alone(sys.executable, "-c", FORKS, str(tmp_path / "pid"), half, session)
    # a hub looks; where half a message has come, nothing else finds that there will be no more
    eventually(lambda: (half and ended.check_alive(60_000, 60_000)) or "code 4" in ended.problem, timeout_s=60)
    if session != "own":
        left = int((tmp_path / "pid").read_text())
        eventually(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == "zombie", timeout_s=60)


IGNORES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(int(sys.argv[3]), bytes.fromhex(sys.argv[2]))
open(sys.argv[1], "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("half", ["", HALF_A_MESSAGE])
def test_who_is_to_end_and_does_not_is_killed(half: str, alone: Callable[..., ChildProcess], tmp_path: Path) -> None:
    stays = alone(sys.executable, "-c", IGNORES, str(tmp_path / "up"), half)
    eventually(lambda: (tmp_path / "up").exists() and stays._process, timeout_s=60)
    process = present(stays._process)
    stays.close()
    try:
        stays.join(60)
        assert stays.ended
        assert process.returncode == -signal.SIGKILL
    finally:
        process.kill()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), MemoryError()])
def test_what_cannot_be_started_is_tried_again(
    error: Exception, alone: Callable[..., ChildProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [error]

    def pipe() -> Any:
        if problems:
            raise problems.pop()
        return Pipe()

    monkeypatch.setattr(child, "Pipe", pipe)
    tried = alone()
    eventually(lambda: tried.starts == 1, timeout_s=60)
    assert problems == []


def test_work_that_cannot_be_sent_ends_one_process_alone(alone: Callable[..., ChildProcess]) -> None:
    given = alone()
    eventually(lambda: given.idle, timeout_s=60)
    given.begin(cast(Work, lambda: None))
    eventually(lambda: given.starts == 2, timeout_s=60)


def test_it_is_started_while_others_go_on_and_ended_if_it_was_closed_meanwhile(
    alone: Callable[..., ChildProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, started, found = subprocess.Popen, list[Any](), list[ChildProcess]()

    def slow(*words: Any, **named: Any) -> Any:
        eventually(lambda: found, timeout_s=60)
        other = Thread(target=found[0].close, daemon=True)
        other.start()
        other.join(5)
        started.append((real(*words, **named), other.is_alive()))
        return started[-1][0]

    monkeypatch.setattr(subprocess, "Popen", slow)
    found.append(alone())
    found[0].join(60)
    ((process, waited),) = started
    assert not waited
    assert found[0].ended
    assert process.poll() is not None


FLOODS = """
import sys
from multiprocessing.connection import Connection
line = Connection(int(sys.argv[1]))
while True:
    line.send_bytes(b"")
"""


def test_who_floods_the_hub_with_signs_of_life_is_ended(alone: Callable[..., ChildProcess]) -> None:
    floods = alone(sys.executable, "-c", FLOODS)
    eventually(lambda: "signs of life" in floods.problem, timeout_s=60)


# What one engine of several receives beside rows.


def test_a_text_with_an_index_of_before_is_read_once_by_each() -> None:
    mirror = Mirror()
    first, second = Feed(mirror), Feed(mirror)
    mirror.take([Snapshot(1), Names(("", "a", "b"))])
    assert first.read()[:2] == [Snapshot(1), Names(("", "a", "b"))]
    mirror.take([Names(("c", "d"), (1, 3))])
    assert first.read() == [Names(("c", "d"), (1, 3))]
    mirror.take([Names(("e",), (1,))])
    assert first.read() == [Names(("e",), (1,))]
    assert first.read() == []
    assert second.read()[:2] == [Snapshot(1), Names(("", "e", "b", "d"))]
    assert second.read() == []


# No engine's trouble reaches another: the campaign's program for it, in short and for ten minutes.


@pytest.mark.parametrize("seconds", [3, pytest.param(600, marks=pytest.mark.slow)])
def test_engines_do_not_notice_that_another_is_killed_stopped_or_thinks(seconds: float) -> None:
    trouble = run(seconds)
    assert trouble.findings() == []
    assert all(trouble.done[f"{kind} and seen"] for kind in TROUBLES)
