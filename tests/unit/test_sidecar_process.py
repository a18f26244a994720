"""The sidecar as a process: what it says on its pipes and in its file, and when it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import IO, Any, Final

import psutil
import pytest
from tests.support.cli import Cli
from tests.support.decoys import decoy
from tests.support.files import written
from tests.support.link import decide
from tests.support.pages import FakeManager, served
from tests.support.waiting import eventually

from treadle import __version__
from treadle.admin import sidecars
from treadle.cli.main import run
from treadle.config.settings import default_settings
from treadle.live import process
from treadle.live.handshake import Limits
from treadle.live.policies import warm_up
from treadle.live.session import Session
from treadle.processes import FIRST, peak_memory_mb
from treadle.wire.answer import decode_answer

SECRET = "fedcba9876543210" * 4
GREETING = json.dumps({"handshake": 1, "secret": SECRET}).encode() + b"\n"
GOLDEN = Path(__file__).parent.parent / "golden" / "frame-snapshot.bin"


class Sidecar:
    """A sidecar of our own, killed at the end of the test if it still runs."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "treadle", "sidecar", "run", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout

    def greet(self, greeting: bytes = GREETING) -> Any:
        """Return the one line that it says."""
        self.stdin.write(greeting)
        self.stdin.flush()
        return json.loads(self.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait(300)
        self.stdin.close()
        self.stdout.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    begun: list[Sidecar] = []

    def start(*arguments: str) -> Sidecar:
        begun.append(Sidecar(tmp_path / f"log-{len(begun)}", *arguments))
        return begun[-1]

    yield start
    for sidecar in begun:
        sidecar.close()


LOOKS_FOR_GARBAGE = """
import gc
from treadle.live import process
from treadle.live.handshake import Greeting

before, seen = gc.get_threshold(), []
process._log.info = lambda *_: seen.append(gc.get_threshold()[0])
process._start(Greeting(secret="00" * 32), None, [])
print(min(seen), gc.get_threshold() == before, gc.get_freeze_count() // 100_000)
"""


def test_what_a_start_loads_is_not_looked_through_for_garbage() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKS_FOR_GARBAGE], capture_output=True, text=True, check=True)
    rarer, back, kept = done.stdout.split()[-3:]
    assert int(rarer) >= 100_000, "of objects that are new, whatever the interpreter's own threshold is"
    assert back == "True"
    assert int(kept) >= 1


def test_a_managed_sidecar_gets_ready_answers_and_ends_with_its_input(started: Any) -> None:
    sidecar = started("--managed")
    ready = sidecar.greet()
    port = ready.pop("port")
    assert ready == {"ready": True, "pid": sidecar.process.pid, "version": __version__}
    answer = decode_answer(decide(port, SECRET, GOLDEN.read_bytes()), 4096)
    assert answer.sequence == 42
    sidecar.stdin.close()
    assert sidecar.process.wait(300) == 0
    assert sidecar.stdout.read() == b""
    log = sidecar.log.read_text()
    assert SECRET not in log
    assert "compiling kernels" in log


def test_a_sidecar_explains_its_frames_and_its_recording_and_what_it_learned_outlive_being_killed(
    started: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, recording = tmp_path / "treadle.yaml", tmp_path / "rec"
    config.write_text(f"policy: {{order: {{kind: fair_finish}}}}\nrecord: {{folder: {recording}}}\n")
    sidecar = started("--managed", "--config", str(config))
    ready = sidecar.greet()
    words = ["explain", "9999", "--config", str(config)]
    assert run(words) == 2
    assert "has not heard of the cluster yet" in capsys.readouterr().err
    decide(ready["port"], SECRET, GOLDEN.read_bytes())
    assert run(words) == 2
    assert "has no application 9999 that runs" in capsys.readouterr().err
    assert f"treadle explain asks at {tmp_path}/.treadle.yaml.state/explain.sock" in sidecar.log.read_text()

    def frames() -> int:
        run(["recording", "show", str(recording), "--output=json"])
        return int(json.loads(capsys.readouterr().out or "{}").get("frames", 0))

    eventually(frames)
    eventually((tmp_path / ".treadle.yaml.state" / "learned.json").is_file)
    sidecar.process.kill()
    sidecar.process.wait(300)
    assert run(["replay", str(recording), "--verify"]) == 0
    said = capsys.readouterr()
    assert "its writer was killed" in said.err
    assert "1 segments, 1 answers" in said.out


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_a_recording_ends_with_the_sidecar(
    started: Any, tmp_path: Path, cli: Cli, number: signal.Signals | None
) -> None:
    config, recording = tmp_path / "treadle.yaml", tmp_path / "rec"
    config.write_text(f"seed: 1\nrecord: {{folder: {recording}}}\n")
    sidecar = started("--managed", "--config", str(config))
    ready = sidecar.greet()
    decide(ready["port"], SECRET, GOLDEN.read_bytes())
    if number is None:
        sidecar.stdin.close()
    else:
        sidecar.process.send_signal(number)
    assert sidecar.process.wait(300) == (0 if number is None else -number)
    found = json.loads(cli(["recording", "show", str(recording), "--output=json"]).out)
    assert (found["frames"], found["notes"]) == (1, [])


def test_each_of_several_engines_has_a_process_that_records_and_ends_with_the_sidecar(
    started: Any, tmp_path: Path, cli: Cli
) -> None:
    config, recording = tmp_path / "treadle.yaml", tmp_path / "rec"
    engines = "{prod: {select: {queues: [root.prod]}, policy: {order: {kind: fifo}}}, rest: {}}"
    config.write_text(f"record: {{folder: {recording}}}\nengines: {engines}\n")
    sidecar = started("--managed", "--config", str(config))
    ready = sidecar.greet()

    def answer() -> Any:
        return decode_answer(decide(ready["port"], SECRET, GOLDEN.read_bytes()), 4096)

    assert answer().unserved, "nobody is ready yet"

    def alive() -> bool:
        each = json.loads(answer().status)["engines"]["engines"].values()
        return len(each) == 2 and all(engine["alive"] and "order=" in engine["policy"] for engine in each)

    eventually(alive)
    eventually(lambda: not answer().unserved)
    children = psutil.Process(sidecar.process.pid).children(recursive=True)
    assert len(children) >= 2
    sidecar.stdin.close()
    assert sidecar.process.wait(300) == 0
    assert [each for each in children if each.is_running()] == []
    for folder in (recording, recording / "rest"):
        assert json.loads(cli(["recording", "show", str(folder), "--output=json"]).out)["notes"] == []


def test_a_managed_sidecar_whose_caller_has_gone_before_it_was_ready_ends(started: Any) -> None:
    sidecar = started("--managed")
    sidecar.stdin.write(GREETING)
    sidecar.stdin.close()
    assert sidecar.process.wait(300) == 0


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (b"hello\n", "the line from the ResourceManager is not JSON"),
        (b'{"handshake": 1}\n', "the line from the ResourceManager: secret: Field required"),
        (
            json.dumps({"handshake": 1, "secret": "abc"}).encode() + b"\n",
            "the line from the ResourceManager: secret: String should match",
        ),
        (
            json.dumps({"handshake": 2, "secret": SECRET}).encode() + b"\n",
            "the ResourceManager speaks version 2 of the handshake, this sidecar version 1",
        ),
        (
            json.dumps({"token": SECRET, "frame_max_bytes": 1 << 20}).encode() + b"\n",
            "the ResourceManager speaks version 0 of the handshake, this sidecar version 1",
        ),
        (b"x" * 5000 + b"\n", "--managed is for the ResourceManager"),
    ],
)
def test_a_wrong_greeting_is_reported_in_one_line(started: Any, greeting: bytes, error: str) -> None:
    sidecar = started("--managed")
    line = sidecar.greet(greeting)
    assert list(line) == ["error"]
    assert line["error"].startswith(error)
    assert sidecar.process.wait(300) == 2
    assert "Traceback" not in sidecar.log.read_text()


def test_wrong_settings_are_reported_in_one_line(started: Any, tmp_path: Path) -> None:
    config = written(tmp_path / "treadle.yaml", "seed: -1\nholt: {}\n")
    sidecar = started("--managed", "--config", str(config))
    line = sidecar.greet()
    assert line["error"].startswith(f"{config}:1: seed: -1 is not")
    assert f"; {config}:2: holt: 'holt' is not one of" in line["error"]
    assert sidecar.process.wait(300) == 2
    assert "Traceback" not in sidecar.log.read_text()


def test_an_external_sidecar_is_found_by_its_file_and_removes_it(started: Any, tmp_path: Path) -> None:
    file = tmp_path / "connection.json"
    sidecar = started("--external", "--connection-file", str(file))
    found(file, sidecar)
    status = file.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, os.getuid())
    connection = json.loads(file.read_bytes())
    assert (connection["host"], connection["pid"]) == ("127.0.0.1", sidecar.process.pid)
    answer = decode_answer(decide(connection["port"], connection["secret"], GOLDEN.read_bytes()), 4096)
    assert answer.sequence == 42
    assert list(tmp_path.glob(".connection.json*")) == []
    sidecar.process.send_signal(signal.SIGTERM)
    assert sidecar.process.wait(300) == 0
    assert not file.exists()
    assert connection["secret"] not in sidecar.log.read_text()


def found(file: Path, sidecar: Sidecar) -> Any:
    """Wait for a connection file of this sidecar; return what it says."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and sidecar.process.poll() is None:
        if file.exists() and (said := json.loads(file.read_bytes()))["pid"] == sidecar.process.pid:
            return said
        time.sleep(0.01)
    raise AssertionError(sidecar.log.read_text())


def test_an_external_sidecar_takes_frames_as_long_as_the_resource_manager_sends(started: Any, tmp_path: Path) -> None:
    sidecar = started("--external", "--connection-file", str(tmp_path / "connection.json"))
    said = found(tmp_path / "connection.json", sidecar)
    frame = GOLDEN.read_bytes() + bytes(9 << 20)
    # No frame of docs/wire-format.md, but it is read, and answered: send another snapshot.
    assert decode_answer(decide(said["port"], said["secret"], frame, Limits(16 << 20, 1 << 20)), 4096).resend


def test_the_file_of_a_killed_sidecar_is_gone_before_the_next_one_compiles(started: Any, tmp_path: Path) -> None:
    file = tmp_path / "connection.json"
    first = started("--external", "--connection-file", str(file))
    found(file, first)
    first.process.kill()
    first.process.wait(300)
    assert file.exists()
    for _ in range(20):
        second = started("--external", "--connection-file", str(file))
        while "loading the engine" not in second.log.read_text() and second.process.poll() is None:
            time.sleep(0.001)
        second.process.send_signal(signal.SIGSTOP)
        if "ready" not in second.log.read_text():
            break
        second.process.kill()  # stopped too late, and its file is there: that is left behind in its turn
        second.process.wait(300)
    else:
        pytest.fail("no sidecar was stopped before it was ready")
    assert not file.exists()


def test_a_connection_file_that_cannot_be_written_is_a_mistake(started: Any, tmp_path: Path) -> None:
    sidecar = started("--external", "--connection-file", str(tmp_path / "absent" / "file"))
    assert sidecar.process.wait(300) == 2
    last = sidecar.log.read_text().splitlines()[-1]
    assert last.endswith("No such file or directory; name a file in a folder that you may write to")


@pytest.fixture
def signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, "a failure", "an exception"])
def test_the_connection_file_goes_at_every_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals | str
) -> None:
    file = tmp_path / "connection.json"

    class Ending(SimpleQueue[int]):
        def get(self, block: bool = True, timeout: float | None = None) -> int:
            assert file.exists()
            if isinstance(end, signal.Signals):
                os.kill(os.getpid(), end)
            elif end == "a failure":
                self.put(process.EXIT_FAILED)
            else:
                raise RuntimeError("as asked")
            return super().get(block, timeout)

    monkeypatch.setattr(process, "_start", lambda *_: (0, Ending()))
    if end == "an exception":
        with pytest.raises(RuntimeError):
            process.run_external(file, None)
    else:
        assert process.run_external(file, None) == (0 if isinstance(end, signal.Signals) else 1)
    assert not file.exists()


# `treadle sidecar restart` ends a sidecar, and is content only when another one schedules.

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
        [sys.executable, "-c", code, "sidecar", "run", "--managed"],
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
    monkeypatch.setattr(sidecars, "END_S", 0.5 if code == STUBBORN else 60.0)
    processes.append(sidecar(code))

    def resource_manager() -> None:
        processes[0].wait()
        manager.beans["Treadle"] = manager.beans["Treadle"] | {"Snapshots": 4}

    thread = threading.Thread(target=resource_manager)
    thread.start()
    assert run(["sidecar", "restart", "--rm", manager.url]) == 0
    thread.join()
    said = capsys.readouterr().err
    assert f"ended: {processes[0].pid}" in said
    assert "another sidecar answers" in said
    # Not its exit code: whoever waits first takes that, here the command or the thread.
    assert processes[0].stdout is not None
    assert ("ended by itself" in processes[0].stdout.read()) == (code == WILLING)


def test_without_another_one_it_is_an_error_that_says_why(
    manager: FakeManager, processes: list[subprocess.Popen[str]], cli: Cli
) -> None:
    processes.append(sidecar())
    manager.beans["Treadle"]["LastError"] = "it cannot start: no Python"
    said = cli(["sidecar", "restart", "--rm", manager.url, "--wait-s", "1"], 2).err
    assert "it cannot start: no Python" in said
    assert "systemctl status treadle-sidecar" in said


def test_nothing_is_ended_where_nobody_would_start_another(
    manager: FakeManager, processes: list[subprocess.Popen[str]], cli: Cli
) -> None:
    processes.append(sidecar())
    manager.beans["Treadle"]["Mode"] = "off"
    assert "the mode is off" in cli(["sidecar", "restart", "--rm", manager.url], 2).err
    manager.beans = {"RMInfo": {"State": "standby"}}
    assert "is on standby" in cli(["sidecar", "restart", "--rm", manager.url], 2).err
    assert processes[0].poll() is None


def test_without_a_sidecar_it_says_where_to_look(
    manager: FakeManager, processes: list[subprocess.Popen[str]], cli: Cli
) -> None:
    assert "runs on this host that this user may see" in cli(["sidecar", "restart", "--rm", manager.url], 2).err
    processes.append(sidecar())
    assert f"there are: {processes[0].pid}" in cli(["sidecar", "restart", "--rm", manager.url, "--pid", "1"], 2).err
    assert processes[0].poll() is None


def test_the_sidecar_of_another_resource_manager_is_left_alone(
    manager: FakeManager,
    processes: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
) -> None:
    """The parent of the sidecar, which is this process, serves the pages at the manager's address."""
    processes.append(sidecar())
    process = psutil.Process(processes[0].pid)
    assert sidecars.is_of(process, [manager.url])
    assert not sidecars.is_of(process, ["http://localhost:1"])
    monkeypatch.setattr(sidecars, "_listens", lambda *_: False)
    said = cli(["sidecar", "restart", "--rm", manager.url], 2).err
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
    with decoy("sidecar", "run", "--managed", program="python") as foreign:
        monkeypatch.setattr(Foreign, "found", SimpleNamespace(real=65534, effective=effective))

        def seen() -> list[psutil.Process]:
            return [*(psutil.Process(each.pid) for each in processes), Foreign(foreign.pid)]

        monkeypatch.setattr(psutil, "process_iter", seen)
        assert run(["sidecar", "restart", "--rm", manager.url]) == 2
        assert "no sidecar of root" in capsys.readouterr().err
        monkeypatch.setattr(sidecars, "END_S", 60.0)
        processes.append(sidecar())

        def resource_manager() -> None:
            processes[0].wait()
            manager.beans["Treadle"] = manager.beans["Treadle"] | {"Snapshots": 4}

        thread = threading.Thread(target=resource_manager)
        thread.start()
        assert run(["sidecar", "restart", "--rm", manager.url]) == 0
        thread.join()
        assert f"ended: {processes[0].pid};" in capsys.readouterr().err
        assert foreign.poll() is None


def test_a_sidecar_is_distinguished_from_other_processes() -> None:
    process = sidecar()
    # `sudo` runs as root with words that any user chooses; here it is a shell that calls itself Python
    words = ["python", "-c", "echo there; read line", "sidecar", "run", "--managed"]
    shell = subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "there\n"
        found = {each.pid for each in sidecars.sidecars({os.geteuid()})}
        assert process.pid in found
        assert shell.pid not in found
        assert process.pid not in {each.pid for each in sidecars.sidecars({os.geteuid() + 1})}
        assert process.pid in {each.pid for each in sidecars.sidecars()}
    finally:
        for each in (process, shell):
            each.kill()
            each.communicate()


# How processes of Treadle's make way for others.

PLACE: Final = Path("/proc/self/oom_score_adj")


@pytest.mark.skipif(not PLACE.exists(), reason="not this system's")
@pytest.mark.parametrize("begins_with", [0, FIRST + 50])
def test_a_sidecar_and_what_it_starts_are_ended_first_when_memory_runs_out(begins_with: int) -> None:
    begins_with = max(begins_with, int(PLACE.read_text("ascii")))  # only root may make it less
    adjust = f"pathlib.Path('{PLACE}').write_text('{begins_with}')"
    child = f"import pathlib; print(pathlib.Path('{PLACE}').read_text())"
    code = f"import pathlib, subprocess, sys; {adjust}; "
    code += "from treadle.processes import prefer_oom_kill; prefer_oom_kill(); "
    found = subprocess.run(
        [sys.executable, "-c", f"{code}subprocess.run([sys.executable, '-c', {child!r}])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) == max(begins_with, FIRST)


# What `memory` tells of a process.

ASK = "from treadle.processes import peak_memory_mb; print(peak_memory_mb())"


def test_a_process_does_not_count_what_its_parent_had() -> None:
    large = bytearray(b"x") * (400 << 20)
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True).stdout
    assert len(large) / (1 << 20) <= peak_memory_mb()
    assert 1 < float(told) < 200


# Warming up goes all the way: through the wire, the engine and back.


def test_the_invented_cluster_gets_its_containers() -> None:
    assert warm_up(default_settings()) == 64


def test_an_engine_that_fails_on_it_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(session: Session, frame: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("treadle.engine.Engine.apply", broken)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a fault"):
        warm_up(default_settings())
