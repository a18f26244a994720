"""The process that explains beside the sidecar: the same answers, and what is said when there is none."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM

from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.explain.application import explain_application
from treadle.explain.situation import Situation
from treadle.live import explain_server
from treadle.live.explain_server import COMMAND, ExplainProcess, Question, shown

SAYS_READY = (sys.executable, "-c", "import os, time; os.write(0, b'{}\\n'); time.sleep(600)")
DIES_ASKED = (sys.executable, "-c", "import os, sys; os.write(0, b'{}\\n'); os.read(0, 1); sys.exit(3)")
SAYS_TOO_MUCH = (
    sys.executable,
    "-c",
    "import os, time; os.write(0, b'{}\\n'); os.read(0, 1); os.write(0, b'x' * 5000); time.sleep(600)",
)
DIES_AT_ONCE = (sys.executable, "-c", "raise SystemExit(4)")
NEVER_READY = (sys.executable, "-c", "import time; time.sleep(600)")


class Cluster:
    """An engine and the ResourceManager that it hears of."""

    def __init__(self) -> None:
        self.rm = FakeRM()
        root = self.rm.queue(-1, (8192, 8))
        self.leaf = self.rm.queue(root, (8192, 8))
        self.rm.node("n0", (8192, 8))
        self.engine = Engine(default_settings())
        self.add("first")

    def add(self, name: str, asks: int = 1) -> None:
        """Let an application ask for more than there is, and the engine decide."""
        application = self.rm.application(self.leaf, name=name)
        for key in range(asks):
            self.rm.ask(application, key, 1, (16384 + key, 1))
        self.engine.apply(self.rm.frame())
        self.engine.decide(1000 * self.rm.sequence, 16, sequence=self.rm.sequence)

    def look(self, action: Callable[[Situation], Any]) -> Any:
        return shown(self.engine, action)

    def expected(self, number: int, node: str = "") -> bytes:
        """Return what is said of an application by who looks at the model itself."""
        situation = Situation.of(self.engine)
        assert situation is not None
        return json.dumps(explain_application(situation, number, None, node).plain()).encode()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(scope="module")
def made() -> Iterator[list[ExplainProcess]]:
    """Processes that are ended when all tests are over."""
    processes: list[ExplainProcess] = []
    yield processes
    for process in processes:
        process.close()


def process_of(
    made: list[ExplainProcess], cluster: Cluster, command: tuple[str, ...] = COMMAND
) -> tuple[ExplainProcess, Callable[[str], dict[str, Any]]]:
    process = ExplainProcess(cluster.look, command)
    made.append(process)
    return process, lambda application: dict(json.loads(process.answer(Question(application))))


def test_it_says_the_same_as_the_model_grows_and_after_a_kill(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, ask = process_of(made, cluster)
    process.start()
    process.wait_ready(100.0)
    assert process.answer(Question("0001", None, "n0")) == cluster.expected(0, "n0")
    first = process.pid
    for number in range(2, 40):
        cluster.add(f"later{number}", asks=20)
    cluster.rm.node("n1", (4096, 4))
    cluster.add("last")
    assert process.answer(Question("0040", None, "n1")) == cluster.expected(39, "n1")
    assert process.answer(Question("0001")) == cluster.expected(0)
    assert "has no application 0099" in ask("0099")["error"]
    assert process.pid == first, "it is kept"
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(explain_server, "READY_S", 100.0)
    assert process.answer(Question("0002")) == cluster.expected(1)
    assert process.pid != first
    cluster.rm.snapshot_next()  # names have other indices
    cluster.engine.apply(cluster.rm.frame())
    assert process.answer(Question("0002")) == cluster.expected(1)


def test_without_a_model_it_says_so(made: list[ExplainProcess], cluster: Cluster) -> None:
    cluster.engine = Engine(default_settings())
    for command in (DIES_ASKED, DIES_AT_ONCE):
        _, ask = process_of(made, cluster, command)
        assert "has not heard of the cluster yet" in ask("0001")["error"]


@pytest.mark.parametrize("command", [DIES_AT_ONCE, ("/no/such/program",)])
def test_where_none_can_be_started_the_sidecar_answers_and_says_so(
    made: list[ExplainProcess], cluster: Cluster, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_server, "READY_S", 100.0)
    process, ask = process_of(made, cluster, command)
    for _ in range(2):
        found = ask("0001")
        assert "answered by the sidecar itself" in found.pop("note")
        assert json.dumps(found).encode() == cluster.expected(0)
    assert process.pid is None
    monkeypatch.setattr(process, "_command", COMMAND)
    assert "note" in ask("0001"), "it is not tried with each question"
    monkeypatch.setattr(explain_server, "AGAIN_S", 0.0)
    assert process.answer(Question("0001")) == cluster.expected(0)


def test_one_that_ends_over_a_question_is_told_with_its_code(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_server, "READY_S", 100.0)
    process, ask = process_of(made, cluster, DIES_ASKED)
    for _ in range(2):
        assert "ended (code 3) before it answered; ask again" in ask("0001")["error"]
        assert process.pid is None


def test_one_that_does_not_answer_is_ended(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, ask = process_of(made, cluster, SAYS_READY)
    process.start()
    process.wait_ready(100.0)
    monkeypatch.setattr(explain_server, "ANSWER_S", 0.3)
    assert "no answer within 0 seconds" in ask("0001")["error"]
    assert process.pid is None


def test_an_answer_that_is_too_long_is_called_so(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_server, "READY_S", 100.0)
    monkeypatch.setattr(explain_server, "ANSWER_BYTES_MAX", 4096)
    process, ask = process_of(made, cluster, SAYS_TOO_MUCH)
    assert "the answer is longer than" in ask("0001")["error"]
    assert process.pid is None


def test_without_a_socket_for_it_the_sidecar_answers(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("treadle.live.explain_server.socket.socketpair", none_left)
    _, ask = process_of(made, cluster)
    assert "Too many open files" in ask("0001")["note"]


def test_one_that_is_never_ready_is_waited_for_and_then_given_up(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, ask = process_of(made, cluster, NEVER_READY)
    monkeypatch.setattr(explain_server, "READY_S", 0.2)
    assert "is being started" in ask("0001")["note"]
    assert process.pid is not None, "it goes on starting"
    monkeypatch.setattr(explain_server, "START_S", 0.0)
    assert "not ready after" in ask("0001")["note"]
    assert process.pid is None


def test_a_model_that_is_too_large_is_refused(
    made: list[ExplainProcess], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ask = process_of(made, cluster, SAYS_READY)
    monkeypatch.setattr(explain_server, "READY_S", 100.0)
    monkeypatch.setattr(explain_server, "SHARED_BYTES_MAX", 1000)
    assert "more than are copied" in ask("0001")["error"]


def test_the_process_ends_with_the_sidecar(made: list[ExplainProcess], cluster: Cluster, tmp_path: Path) -> None:
    process, _ = process_of(made, cluster)
    process.start()
    popen = process._popen
    assert popen is not None
    assert process._connected is not None
    process._connected.close()  # as when the sidecar is killed
    assert popen.wait(timeout=60) == 0
