"""The server among strangers: it answers whoever knows the token, and nobody else disturbs that."""

from __future__ import annotations

import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO

import pytest

from treadle.sidecar import server as module
from treadle.sidecar.server import AUTHENTICATED_MAX, STRANGERS_MAX, LoopbackServer

TOKEN = "0123456789abcdef" * 4
GREETING = f"A\n{TOKEN}\ne\n".encode()
FRAME_MAX = 1000


class Failures:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def server(failures: Failures) -> Iterator[LoopbackServer]:
    def decide(frame: bytes) -> bytes:
        if frame == b"fail":
            raise RuntimeError("as asked")
        return frame[::-1]

    started = LoopbackServer(TOKEN, decide, frame_max_bytes=FRAME_MAX, on_failure=failures)
    started.start()
    yield started
    started.shutdown()


class Client:
    """A connection to the server."""

    def __init__(self, server: LoopbackServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.chosen_port()), timeout=30)
        self.stream = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.socket.close()

    def say(self, said: bytes) -> None:
        self.socket.sendall(said)

    def authenticate(self) -> Client:
        self.say(GREETING)
        assert self.stream.readline() == b"!yv\n"
        return self

    def decide(self, frame: bytes) -> bytes:
        self.say(call(frame))
        line = self.stream.readline()
        assert line.startswith(b"!yj")
        return b64decode(line[3:])

    def is_closed(self) -> bool:
        """Wait until the other end has closed; says whether it said nothing before."""
        try:
            return self.stream.read() == b""
        except ConnectionResetError:
            return True


def call(frame: bytes) -> bytes:
    return b"c\nt\ndecide\nj" + b64encode(frame) + b"\ne\n"


def serves(server: LoopbackServer) -> bool:
    with Client(server) as client:
        return client.authenticate().decide(b"abc") == b"cba"


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    return condition()


def test_whoever_knows_the_token_is_answered(server: LoopbackServer) -> None:
    with Client(server) as client:
        client.authenticate()
        for frame in (b"", b"abc", bytes(FRAME_MAX)):
            assert client.decide(frame) == frame[::-1]


def test_it_listens_on_loopback_without_delay(server: LoopbackServer) -> None:
    assert server.get_listening_address() == "127.0.0.1"
    with Client(server) as client:
        client.authenticate()
        (connection,) = server.connections
        assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(
    "said",
    [
        b"A\n" + b"0" * 64 + b"\ne\n",
        b"A\n\ne\n",
        b"A\n" + TOKEN.encode()[:-1] + b"\ne\n\n",
        b"\n\n\n",
        b"c\nt\ndecide\nj\ne\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\xff" * 70,
        b"A\n" + b"x" * 10_000,
    ],
)
def test_a_stranger_gets_nothing(server: LoopbackServer, said: bytes) -> None:
    with Client(server) as client:
        client.say(said)
        assert client.is_closed()
    assert serves(server)


def test_a_stranger_that_says_nothing_more_is_closed(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AUTHENTICATION_S", 0.05)
    for said in (b"", b"A\n" + TOKEN.encode()):
        with Client(server) as client:
            client.say(said)
            assert client.is_closed()
    assert serves(server)


def test_strangers_do_not_keep_others_out(server: LoopbackServer) -> None:
    with ExitStack() as stack:
        strangers = [stack.enter_context(Client(server)) for _ in range(3 * STRANGERS_MAX)]
        assert serves(server)
        assert strangers[0].is_closed()
        assert until(lambda: len(server._strangers) <= STRANGERS_MAX)


def listed(stack: ExitStack, server: LoopbackServer) -> Client:
    """Return a client once the server has listed it; its answer goes out before, and the next might overtake it."""
    most = min(len(server._authenticated) + 1, AUTHENTICATED_MAX)
    client = stack.enter_context(Client(server)).authenticate()
    assert until(lambda: len(server._authenticated) == most)
    return client


def test_a_caller_that_connects_again_and_again_is_served(server: LoopbackServer) -> None:
    with ExitStack() as stack:
        clients = [listed(stack, server) for _ in range(AUTHENTICATED_MAX + 1)]
        assert clients[0].is_closed()
        assert [client.decide(b"ab") for client in clients[1:]] == [b"ba"] * AUTHENTICATED_MAX


def test_connections_that_end_are_forgotten(server: LoopbackServer) -> None:
    for _ in range(STRANGERS_MAX):
        assert serves(server)
    assert until(lambda: not server._strangers and not server._authenticated)


@pytest.mark.parametrize(
    "said",
    [
        b"c\np0\ndecide\nj\ne\n",
        b"c\nt\n__class__\ne\n",
        b"c\nt\ndecide\ne\n",
        b"c\nt\ndecide\nsabc\ne\n",
        b"c\nt\ndecide\nro1\ne\n",
        b"c\nt\ndecide\nj!!!!\ne\n",
        b"c\nt\ndecide\njYWJj\njYWJj\ne\n",
        b"g\np0\ne\n",
        b"m\nd\no0\ne\n",
        b"x" * 100,
        GREETING,
        call(bytes(FRAME_MAX + 3)),
        b"c\nt\ndecide\nj" + b"A" * 100_000,
    ],
)
def test_anything_but_the_one_call_closes_the_connection(
    server: LoopbackServer, failures: Failures, said: bytes
) -> None:
    with Client(server) as client:
        client.authenticate()
        client.say(said)
        assert client.is_closed()
    assert serves(server)
    assert failures.count == 0


def test_half_a_call_disturbs_nobody(server: LoopbackServer) -> None:
    with Client(server) as client:
        client.authenticate()
        client.say(b"c\nt\ndecide\njAAAA")
        assert serves(server)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()
    assert serves(server)


def test_a_server_that_can_take_no_more_is_told_to_the_process(
    server: LoopbackServer, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(accepted: socket.socket, stream: BinaryIO) -> None:
        stream.close()
        accepted.close()
        raise OSError("too many open files")

    monkeypatch.setattr(server, "_create_connection", refuse)
    with Client(server) as client:
        assert until(lambda: failures.count == 1)
        assert client


def test_a_failure_is_told_to_the_process(server: LoopbackServer, failures: Failures) -> None:
    with Client(server) as client:
        client.authenticate()
        client.say(call(b"fail"))
        assert client.is_closed()
    assert failures.count == 1
