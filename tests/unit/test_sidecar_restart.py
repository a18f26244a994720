"""`treadle sidecar restart` ends a sidecar, and is content only when another one schedules."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests.support.decoys import decoy
from tests.support.pages import FakeManager, served

from treadle.admin.host import running
from treadle.cli import _restart
from treadle.cli.main import run

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("there", flush=True)
while True:
    time.sleep(900)
"""
WILLING = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("ended by itself", flush=True)))
print("there", flush=True)
time.sleep(900)
"""


def sidecar(code: str = WILLING) -> subprocess.Popen[str]:
    """Start what looks like a sidecar; returns when it is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "sidecar", "--managed"],
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


@pytest.fixture
def manager() -> Iterator[FakeManager]:
    bean = {"Mode": "enforce", "LeaseHeld": 1, "Snapshots": 3, "LastError": ""}
    with served(FakeManager({"Treadle": bean}, {})) as each:
        yield each


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[str]]]:
    """The processes that the command sees: those of the test alone, never another's on this machine."""
    own: list[subprocess.Popen[str]] = []
    monkeypatch.setattr(psutil, "process_iter", lambda: [psutil.Process(each.pid) for each in own])
    yield own
    for each in own:
        each.kill()
        each.communicate()


@pytest.mark.parametrize("code", [WILLING, STUBBORN], ids=["willing", "stubborn"])
def test_it_is_ended_and_another_is_waited_for(
    code: str,
    manager: FakeManager,
    processes: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Long enough for a slow machine's process to end by itself before SIGKILL.
    monkeypatch.setattr(_restart, "END_S", 0.5 if code == STUBBORN else 60.0)
    processes.append(sidecar(code))

    def resource_manager() -> None:
        processes[0].wait()
        manager.beans["Treadle"] = manager.beans["Treadle"] | {"Snapshots": 4}

    thread = threading.Thread(target=resource_manager)
    thread.start()
    assert run(["sidecar", "restart", "--rm", manager.url]) == 0
    thread.join()
    said = capsys.readouterr().out
    assert f"ended: {processes[0].pid}" in said
    assert "another sidecar answers" in said
    # Not its exit code: whoever waits first takes that, here the command or the thread.
    assert processes[0].stdout is not None
    assert ("ended by itself" in processes[0].stdout.read()) == (code == WILLING)


def test_without_another_one_it_is_an_error_that_says_why(
    manager: FakeManager, processes: list[subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    processes.append(sidecar())
    manager.beans["Treadle"]["LastError"] = "it cannot start: no Python"
    assert run(["sidecar", "restart", "--rm", manager.url, "--wait-s", "1"]) == 2
    said = capsys.readouterr().err
    assert "it cannot start: no Python" in said
    assert "systemctl status treadle-sidecar" in said


def test_nothing_is_ended_where_nobody_would_start_another(
    manager: FakeManager, processes: list[subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    processes.append(sidecar())
    manager.beans["Treadle"]["Mode"] = "off"
    assert run(["sidecar", "restart", "--rm", manager.url]) == 2
    assert "the mode is off" in capsys.readouterr().err
    manager.beans = {"RMInfo": {"State": "standby"}}
    assert run(["sidecar", "restart", "--rm", manager.url]) == 2
    assert "is on standby" in capsys.readouterr().err
    assert processes[0].poll() is None


def test_without_a_sidecar_it_says_where_to_look(
    manager: FakeManager, processes: list[subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sidecar", "restart", "--rm", manager.url]) == 2
    assert "runs on this host that this user may see" in capsys.readouterr().err
    processes.append(sidecar())
    assert run(["sidecar", "restart", "--rm", manager.url, "--pid", "1"]) == 2
    assert f"there are: {processes[0].pid}" in capsys.readouterr().err
    assert processes[0].poll() is None


def test_the_sidecar_of_another_resource_manager_is_left_alone(
    manager: FakeManager,
    processes: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The parent of the sidecar, which is this process, serves the pages at the manager's address."""
    processes.append(sidecar())
    process = psutil.Process(processes[0].pid)
    assert running.is_of(process, [manager.url])
    assert not running.is_of(process, ["http://localhost:1"])
    monkeypatch.setattr(running, "_listens", lambda *_: False)
    assert run(["sidecar", "restart", "--rm", manager.url]) == 2
    said = capsys.readouterr().err
    assert f"sidecars of another ResourceManager than that at {manager.url}: {processes[0].pid}" in said
    assert processes[0].poll() is None


class Foreign(psutil.Process):
    """A process of another user, and one that another user has started with a user's rights to become root."""

    found = SimpleNamespace(real=65534, effective=65534)

    def uids(self) -> Any:
        return self.found


@pytest.mark.parametrize("effective", [65534, 0])
def test_the_decoy_of_another_user_neither_counts_nor_is_ended(
    effective: int,
    manager: FakeManager,
    processes: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with decoy("sidecar", "--managed", program="python") as foreign:
        monkeypatch.setattr(Foreign, "found", SimpleNamespace(real=65534, effective=effective))

        def seen() -> list[psutil.Process]:
            return [*(psutil.Process(each.pid) for each in processes), Foreign(foreign.pid)]

        monkeypatch.setattr(psutil, "process_iter", seen)
        assert run(["sidecar", "restart", "--rm", manager.url]) == 2
        assert "no sidecar of root" in capsys.readouterr().err
        monkeypatch.setattr(_restart, "END_S", 60.0)
        processes.append(sidecar())

        def resource_manager() -> None:
            processes[0].wait()
            manager.beans["Treadle"] = manager.beans["Treadle"] | {"Snapshots": 4}

        thread = threading.Thread(target=resource_manager)
        thread.start()
        assert run(["sidecar", "restart", "--rm", manager.url]) == 0
        thread.join()
        assert f"ended: {processes[0].pid};" in capsys.readouterr().out
        assert foreign.poll() is None


def test_a_sidecar_is_distinguished_from_other_processes() -> None:
    process = sidecar()
    # `sudo` runs as root with words that any user chooses; here it is a shell that calls itself Python
    words = ["python", "-c", "echo there; read line", "sidecar", "--managed"]
    shell = subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "there\n"
        found = {each.pid for each in running.sidecars({os.geteuid()})}
        assert process.pid in found
        assert shell.pid not in found
        assert process.pid not in {each.pid for each in running.sidecars({os.geteuid() + 1})}
        assert process.pid in {each.pid for each in running.sidecars()}
    finally:
        for each in (process, shell):
            each.kill()
            each.communicate()
