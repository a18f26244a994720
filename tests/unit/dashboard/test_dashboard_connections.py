"""Connections of strangers have a deadline and a bound of their own, so that they keep nobody out who has the token."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
import requests
from tests.support.cluster_pages import FakeCluster
from tests.support.dashboards import ANSWER_S, TOKEN, Dashboard, dashboard
from tests.support.pages import served
from tests.support.waiting import eventually

from treadle.dashboard import server as module
from treadle.dashboard.server import BoundedProtocol, Connections

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Dashboard]:
    cluster = FakeCluster()
    with served(cluster), dashboard(cluster.url, tmp_path, lambda *_: {}) as found:
        yield found


def port(shown: Dashboard) -> int:
    return int(shown.url.rpartition(":")[2])


def stranger(shown: Dashboard, said: bytes = b"") -> socket.socket:
    """Return a connection that has said something."""
    connected = socket.create_connection(("127.0.0.1", port(shown)), timeout=ANSWER_S)
    connected.sendall(said)
    return connected


def is_ended(connected: socket.socket) -> bool:
    """Wait until the other end closes a connection, having said nothing before."""
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:
        return True


def test_strangers_that_say_nothing_keep_nobody_out_who_has_the_token(
    shown: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRANGER_S", 1e6)
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    with ExitStack() as stack:
        idle = [stack.enter_context(stranger(shown)) for _ in range(2 * module.STRANGERS_MAX)]
        assert [shown.get("/metrics").status_code for _ in range(3)] == [200] * 3
        assert all(is_ended(each) for each in idle[: module.STRANGERS_MAX])
        assert requests.get(f"{shown.url}/login", timeout=ANSWER_S).status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nContent-Length: 9"
        + 2 * b"\r\n",
    ],
    ids=["nothing", "half a head", "no body"],
)
def test_a_stranger_has_a_deadline_for_the_whole_request(
    said: bytes, shown: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is known has none: an open page goes on."""
    monkeypatch.setattr(module, "STRANGER_S", 0.2)
    monkeypatch.setattr(module, "PULSE_S", 0.5)
    with requests.get(f"{shown.url}/api/events", headers=HEADERS, stream=True, timeout=ANSWER_S) as page:
        lines = page.iter_lines()
        assert next(lines) == b"event: look"
        with stranger(shown, said.replace(b"{port}", str(port(shown)).encode())) as connected:
            assert is_ended(connected)
        assert [next(lines) for _ in range(6)].count(b"event: look") == 2


def test_so_many_requests_with_the_token_are_answered_at_a_time(
    shown: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 1)
    with requests.get(f"{shown.url}/api/events", headers=HEADERS, stream=True, timeout=ANSWER_S) as page:
        lines = page.iter_lines()
        assert next(lines) == b"event: look"
        refused = shown.get("/metrics")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert requests.get(f"{shown.url}/login", timeout=ANSWER_S).status_code == 200
    eventually(lambda: shown.get("/metrics").status_code == 200)


def test_what_strangers_make_the_dashboard_log_is_bounded(shown: Dashboard, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        with stranger(shown, b"nonsense\r\n\r\n") as connected:
            assert connected.recv(12) == b"HTTP/1.1 400"
        wrong = {"Origin": shown.url}
        assert requests.post(f"{shown.url}/login", {"token": "x"}, headers=wrong, timeout=ANSWER_S).status_code == 401
    assert 2 <= len(caplog.records) < 100


class Transport:
    """Counts how often it was ended."""

    def __init__(self) -> None:
        self.ended = 0

    def abort(self) -> None:
        self.ended += 1


class Fake:
    """A connection as far as `Connections` looks at one."""

    def __init__(self) -> None:
        self.transport = Transport()


def test_a_stranger_is_ended_for_another_one_only_after_a_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CROWD_MAX", module.STRANGERS_MAX + 2)
    now_s = 0.0
    every = Connections(lambda: now_s)
    came: list[Fake] = []

    def enter(count: int) -> int:
        """Let so many come; return how many are not ended."""
        for _ in range(count):
            came.append(Fake())
            every.enter(cast(BoundedProtocol, came[-1]))
        return sum(not each.transport.ended for each in came)

    assert enter(module.STRANGERS_MAX + 2) == module.STRANGERS_MAX + 2, "all are young"
    assert enter(1) == module.STRANGERS_MAX + 2, "the crowd has a bound"
    assert came[0].transport.ended
    assert every.admit(cast(BoundedProtocol, came[1]))
    now_s = module.GRACE_S
    assert enter(1) == module.STRANGERS_MAX + 1, "as many strangers as may be, and one who is known"
    assert not came[1].transport.ended
    every.enter(cast(BoundedProtocol, came[1]))
    assert enter(0) == module.STRANGERS_MAX, "a stranger again once it is answered, and the youngest"
    assert not came[1].transport.ended
