"""Processes of a hub: killed, stopped, thinking, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Condition
from typing import Any

import psutil
import pytest
from tests.support.hub import Manager
from tests.support.waiting import eventually

from treadle import events
from treadle.config.engines import RosterEngine
from treadle.engine.invented_cluster import Texts, rows
from treadle.sidecar import child
from treadle.sidecar.child import ChildProcess

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
        process = self.processes[name]._process
        assert process is not None
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
        answer = manager.send()
        assert answer.again
        assert not answer.unserved
    assert manager.processes["prod"].starts == 1
    (tmp_path / "prod.thinks").unlink()
    eventually(lambda: not manager.send().again, timeout_s=60)


def test_who_thinks_for_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    made = Real(tmp_path, {"prod": {"select": {"queues": ["root.q0"]}, "decision_max_s": 0.2}, "rest": {}})
    made.snapshot()
    until(made, {"prod", "rest"})
    (tmp_path / "prod.thinks").touch()
    made.send()
    eventually(lambda: made.alive() == {"rest"} and "it has thought for" in (made.status["error"] or ""), timeout_s=60)
    for each in made.processes.values():
        each.close()


def test_nobody_is_served_when_all_are_dead(manager: Real, tmp_path: Path) -> None:
    assert manager.send().unserved
    until(manager, {"prod", "rest"})
    assert not manager.last.unserved
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
    until(manager, {"prod", "rest"})
    assert not manager.last.unserved


def test_nobody_is_served_when_all_have_thought_for_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    made = Real(tmp_path, {"prod": {"select": {"queues": ["root.q0"]}, "decision_max_s": 0.2}, "rest": {}})
    made.snapshot()
    until(made, {"prod", "rest"})
    (tmp_path / "rest.cannot").touch()
    os.kill(made.pid("rest"), signal.SIGKILL)
    until(made, {"prod"})
    assert not made.last.unserved
    (tmp_path / "prod.thinks").touch()
    eventually(lambda: made.send().unserved, timeout_s=60)
    for each in made.processes.values():
        each.close()


def test_no_byte_of_an_attempts_key_reaches_a_process(manager: Real, tmp_path: Path) -> None:
    until(manager, {"prod", "rest"})
    words = [0x0102030405060708, 0x1112131415161718, 0x2122232425262728, 0x3132333435363738]
    named = {f"word{at}": word for at, word in enumerate(words)}
    manager.send(rows(events.AttemptKeys, Texts(), [{"application": 0, "number": 1} | named]))
    manager.snapshot()
    until(manager, {"prod", "rest"})
    for name in manager.processes:
        heard = (tmp_path / f"{name}.heard").read_bytes()
        assert b"root.q0" in heard
        assert not any(word.to_bytes(8, order) in heard for word in words for order in ("little", "big"))


HUB = """
import sys, time
from threading import Condition
from treadle.sidecar.child import ChildProcess
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
