"""The sidecar as a process: what it says on its pipes and in its file, and when it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from treadle import __version__
from treadle.wire.answer import decode_answer

TOKEN = "fedcba9876543210" * 4
GREETING = json.dumps({"token": TOKEN, "reply_max_bytes": 1 << 20, "frame_max_bytes": 1 << 20}).encode() + b"\n"
GOLDEN = Path(__file__).parent.parent / "golden" / "frame-snapshot.bin"


class Sidecar:
    """A sidecar of our own, killed at the end of the test if it still runs."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "treadle", "sidecar", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout

    def greet(self, greeting: bytes = GREETING) -> list[Any]:
        """Return what it says, up to the line that is no progress."""
        self.stdin.write(greeting)
        self.stdin.flush()
        lines = []
        for line in self.stdout:
            lines.append(json.loads(line))
            if "progress" not in lines[-1]:
                break
        return lines

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self.stdin.close()
        self.stdout.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    sidecars: list[Sidecar] = []

    def start(*arguments: str) -> Sidecar:
        sidecars.append(Sidecar(tmp_path / f"log-{len(sidecars)}", *arguments))
        return sidecars[-1]

    yield start
    for sidecar in sidecars:
        sidecar.close()


def decide(port: int, token: str, frame: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rb") as stream:
        connection.sendall(f"A\n{token}\ne\n".encode())
        assert stream.readline() == b"!yv\n"
        connection.sendall(b"c\nt\ndecide\nj" + b64encode(frame) + b"\ne\n")
        return b64decode(stream.readline()[3:])


def test_a_managed_sidecar_gets_ready_answers_and_ends_with_its_input(started: Any) -> None:
    sidecar = started("--managed")
    *progress, ready = sidecar.greet()
    assert {"progress": "compiling kernels"} in progress
    port = ready.pop("port")
    assert ready == {"ready": True, "pid": sidecar.process.pid, "version": __version__}
    answer = decode_answer(decide(port, TOKEN, GOLDEN.read_bytes()), 4096)
    assert answer.sequence == 42
    sidecar.stdin.close()
    assert sidecar.process.wait(60) == 0
    assert sidecar.stdout.read() == b""
    assert TOKEN not in sidecar.log.read_text()


def test_a_managed_sidecar_whose_caller_has_gone_before_it_was_ready_ends(started: Any) -> None:
    sidecar = started("--managed")
    sidecar.stdin.write(GREETING)
    sidecar.stdin.close()
    assert sidecar.process.wait(60) == 0


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (b"hello\n", "the line from the ResourceManager is not JSON"),
        (b"{}\n", "the line from the ResourceManager: token: Field required"),
        (
            json.dumps({"token": "abc"}).encode() + b"\n",
            "the line from the ResourceManager: token: String should match",
        ),
        (
            json.dumps({"token": TOKEN, "frame_max_bytes": 1}).encode() + b"\n",
            "the line from the ResourceManager: frame_max_bytes: Input should be greater than",
        ),
        (b"x" * 5000 + b"\n", "--managed is for the ResourceManager"),
    ],
)
def test_a_wrong_greeting_is_told_in_one_line(started: Any, greeting: bytes, error: str) -> None:
    sidecar = started("--managed")
    (line,) = sidecar.greet(greeting)
    assert list(line) == ["error"]
    assert line["error"].startswith(error)
    assert sidecar.process.wait(60) == 2
    assert "Traceback" not in sidecar.log.read_text()


def test_wrong_settings_are_told_in_one_line(started: Any, tmp_path: Path) -> None:
    config = tmp_path / "treadle.yaml"
    config.write_text("seed: -1\nholt: {}\n")
    sidecar = started("--managed", "--config", str(config))
    line = sidecar.greet()[-1]
    assert line["error"].startswith(f"{config}:1: seed: -1 is not")
    assert f"; {config}:2: holt: 'holt' is not one of" in line["error"]
    assert sidecar.process.wait(60) == 2
    assert "Traceback" not in sidecar.log.read_text()


def test_an_external_sidecar_is_found_by_its_file_and_removes_it(started: Any, tmp_path: Path) -> None:
    file = tmp_path / "connection.json"
    sidecar = started("--external", "--connection-file", str(file))
    deadline = time.monotonic() + 120
    while not file.exists() and sidecar.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    status = file.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, os.getuid())
    connection = json.loads(file.read_bytes())
    assert (connection["host"], connection["pid"]) == ("127.0.0.1", sidecar.process.pid)
    answer = decode_answer(decide(connection["port"], connection["token"], GOLDEN.read_bytes()), 4096)
    assert answer.sequence == 42
    assert list(tmp_path.glob(".connection.json*")) == []
    sidecar.process.send_signal(signal.SIGTERM)
    assert sidecar.process.wait(60) == 0
    assert not file.exists()
    assert connection["token"] not in sidecar.log.read_text()


def test_a_connection_file_that_cannot_be_written_is_a_mistake(started: Any, tmp_path: Path) -> None:
    sidecar = started("--external", "--connection-file", str(tmp_path / "absent" / "file"))
    assert sidecar.process.wait(120) == 2
    last = sidecar.log.read_text().splitlines()[-1]
    assert last.endswith("No such file or directory; name a file in a folder that you may write to")
