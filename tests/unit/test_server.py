"""The server among strangers: it answers whoever knows the secret, and nobody else disturbs that."""

from __future__ import annotations

import grp
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.support.files import written
from tests.support.link import call, shake_hands
from tests.support.waiting import eventually

from treadle.live import server as module
from treadle.live.handshake import (
    CODE_BYTES,
    LIMIT_MAX,
    NONCE_BYTES,
    OPENING,
    PROOF_BYTES,
    Address,
    ConnectionFile,
    HandshakeError,
    Limits,
    ProofError,
    check_proof,
    new_secret,
    opening,
    resource_manager_proof,
    sidecar_code,
)
from treadle.live.server import AUTHENTICATED_MAX, CROWD_MAX, STRANGERS_MAX, LoopbackConnection, LoopbackServer

SECRET = bytes(range(32))
FRAME_MAX = 1 << 16
SMALL = Limits(FRAME_MAX, 1 << 17)


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
    def decide(frame: bytes, reply_max_bytes: int) -> bytes:
        if frame == b"fail":
            raise RuntimeError("as asked")
        return str(reply_max_bytes).encode() if frame == b"limit" else frame[::-1]

    started = LoopbackServer(SECRET, decide, on_failure=failures)
    started.start()
    yield started
    with suppress(OSError):  # it may have closed it itself
        started._listening.shutdown(socket.SHUT_RDWR)


class Client:
    """A connection to the server."""

    def __init__(self, server: LoopbackServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self.stream = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.socket.close()

    def say(self, said: bytes) -> None:
        self.socket.sendall(said)

    def authenticate(self, secret: bytes = SECRET, limits: Limits = SMALL, dialled: Address | None = None) -> Client:
        shake_hands(self.socket, self.stream, secret, limits, dialled)
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


def serves(server: LoopbackServer) -> bool:
    with Client(server) as client:
        return client.authenticate().decide(b"abc") == b"cba"


def test_whoever_knows_the_secret_is_answered(server: LoopbackServer) -> None:
    with Client(server) as client:
        client.authenticate()
        for frame in (b"", b"abc", bytes(FRAME_MAX)):
            assert client.decide(frame) == frame[::-1]


def test_it_listens_on_loopback_without_delay(server: LoopbackServer) -> None:
    assert server._listening.getsockname()[0] == "127.0.0.1"
    with Client(server) as client:
        client.authenticate()
        eventually(lambda: len(server._authenticated) == 1, timeout_s=30)
        (connection,) = server._authenticated
        assert connection._connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(
    "said",
    [
        b"A\n" + b"0" * 64 + b"\ne\n",
        b"A\n" + SECRET.hex().encode() + b"\ne\n",
        b"TRDX" + bytes(100),
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


def refused(client: Client) -> bool:
    """Is a connection closed, where the other end has said no more than it says to anyone?"""
    client.say(call(b"abc"))
    return client.is_closed()


@pytest.mark.parametrize("sends_back", [False, True])
def test_a_caller_with_another_secret_or_the_server_s_own_code_is_refused(
    server: LoopbackServer, sends_back: bool
) -> None:
    with Client(server) as client:
        client.say(opening() + bytes(NONCE_BYTES))
        answer = client.stream.read(OPENING.size + NONCE_BYTES + CODE_BYTES)
        client.say(answer[-PROOF_BYTES:] if sends_back else bytes(PROOF_BYTES))
        assert refused(client)
    assert serves(server)


def test_what_was_said_on_one_connection_opens_no_other(server: LoopbackServer) -> None:
    said = []

    class Recorded(socket.socket):
        def sendall(self, content: bytes, flags: int = 0) -> None:  # type: ignore[override]
            said.append(content)
            super().sendall(content, flags)

    with Recorded() as connected:
        connected.connect(("127.0.0.1", server.port))
        with connected.makefile("rb") as stream:
            shake_hands(connected, stream, SECRET)
            connected.sendall(call(b"abc"))
            assert stream.readline().startswith(b"!yj")
    hello, proof, _ = said
    with Client(server) as client:
        client.say(hello)
        client.stream.read(OPENING.size + NONCE_BYTES + CODE_BYTES)
        client.say(proof)
        assert refused(client)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_a_relay_from_another_address_or_port_is_refused_at_both_ends(server: LoopbackServer, host: str) -> None:
    """A process on a sidecar's old port passes everything on, unchanged, to the sidecar that runs now."""
    port = server.port if host != "127.0.0.1" else server.port - 1
    dialled = Address(host, port)
    with Client(server) as client, pytest.raises(AssertionError):
        client.authenticate(dialled=dialled)
    with Client(server) as client:
        hello = opening() + bytes(NONCE_BYTES)
        client.say(hello)
        answer = client.stream.read(OPENING.size + NONCE_BYTES)
        client.stream.read(CODE_BYTES)
        client.say(resource_manager_proof(SECRET, dialled, hello, answer, SMALL))
        assert refused(client)
    assert serves(server)


def test_another_version_is_named_to_both_ends(server: LoopbackServer, caplog: pytest.LogCaptureFixture) -> None:
    with Client(server) as client:
        client.say(opening(9) + bytes(NONCE_BYTES))
        assert client.stream.read() == opening()
    eventually(lambda: "speaks version 9 of the handshake, this one version 1" in caplog.text, timeout_s=30)


def test_the_caller_sets_its_limits(server: LoopbackServer) -> None:
    with Client(server) as client:
        client.authenticate(limits=Limits(9 << 20, 123_456))
        frame = bytes(9 << 20)
        assert client.decide(frame) == frame
        assert client.decide(b"limit") == b"123456"


@pytest.mark.parametrize("limits", [Limits(0, 1 << 20), Limits(1 << 20, -1), Limits(LIMIT_MAX + 1, 1 << 20)])
def test_limits_that_cannot_be_are_refused(server: LoopbackServer, limits: Limits) -> None:
    with Client(server) as client:
        client.authenticate(limits=limits)
        assert refused(client)
    assert serves(server)


def test_a_stranger_that_says_nothing_more_is_closed(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AUTHENTICATION_S", 0.05)
    for said in (b"", opening(), opening() + bytes(NONCE_BYTES - 1)):
        with Client(server) as client:
            client.say(said)
            assert client.is_closed()
    with Client(server) as client:
        client.say(opening() + bytes(NONCE_BYTES))
        assert len(client.stream.read()) == OPENING.size + NONCE_BYTES + CODE_BYTES
    assert serves(server)


def test_strangers_do_not_keep_others_out(server: LoopbackServer) -> None:
    with ExitStack() as stack:
        strangers = [stack.enter_context(Client(server)) for _ in range(3 * STRANGERS_MAX)]
        assert serves(server)
        assert strangers[0].is_closed()
        eventually(lambda: len(server._strangers) <= STRANGERS_MAX, timeout_s=30)


def test_a_stranger_is_given_time_to_prove_itself(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newcomers end only those whose grace is over, or the oldest of a crowd."""
    monkeypatch.setattr(module, "AUTHENTICATION_S", 1e6)
    monkeypatch.setattr(module, "GRACE_S", 1e6)
    with ExitStack() as stack:
        for _ in range(3 * STRANGERS_MAX):
            stack.enter_context(Client(server))
        eventually(lambda: len(server._strangers) == 3 * STRANGERS_MAX, timeout_s=30)
        assert serves(server)
        monkeypatch.setattr(module, "CROWD_MAX", 2 * STRANGERS_MAX)
        stack.enter_context(Client(server))
        eventually(lambda: len(server._strangers) == 2 * STRANGERS_MAX, timeout_s=30)
        monkeypatch.setattr(module, "GRACE_S", 0.0)
        stack.enter_context(Client(server))
        eventually(lambda: len(server._strangers) == STRANGERS_MAX, timeout_s=30)
        assert serves(server)


def test_strangers_have_a_bounded_number_of_threads(server: LoopbackServer) -> None:
    """A server that cannot start a thread ends, and with it the sidecar."""
    with ExitStack() as stack:
        for _ in range(3 * CROWD_MAX):
            stack.enter_context(Client(server))
        assert serves(server)
        threads = [each for each in threading.enumerate() if isinstance(each, LoopbackConnection)]
        assert len(threads) <= CROWD_MAX + AUTHENTICATED_MAX
    eventually(lambda: not server._strangers, timeout_s=30)


def test_what_strangers_make_the_server_log_is_bounded(
    server: LoopbackServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        for _ in range(200):
            with Client(server) as client:
                client.say(b"GET / HTTP/1.1\r\n\r\n")
                assert client.is_closed()
    assert 0 < sum(record.name.startswith(module.__name__) for record in caplog.records) < 100
    assert serves(server)


def listed(stack: ExitStack, server: LoopbackServer) -> Client:
    """Return a client once the server has listed it; its answer goes out before, and the next might overtake it."""
    most = min(len(server._authenticated) + 1, AUTHENTICATED_MAX)
    client = stack.enter_context(Client(server)).authenticate()
    eventually(lambda: len(server._authenticated) == most, timeout_s=30)
    return client


def test_a_caller_that_connects_again_and_again_is_served(server: LoopbackServer) -> None:
    with ExitStack() as stack:
        clients = [listed(stack, server) for _ in range(AUTHENTICATED_MAX + 1)]
        assert clients[0].is_closed()
        assert [client.decide(b"ab") for client in clients[1:]] == [b"ba"] * AUTHENTICATED_MAX


def test_connections_that_end_are_forgotten(server: LoopbackServer) -> None:
    for _ in range(STRANGERS_MAX):
        assert serves(server)
    eventually(lambda: not server._strangers and not server._authenticated, timeout_s=30)


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
        opening() + bytes(NONCE_BYTES),
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


def test_a_server_that_can_take_no_more_is_reported_to_the_process(
    server: LoopbackServer, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(accepted: socket.socket) -> None:
        accepted.close()
        raise OSError("too many open files")

    monkeypatch.setattr(server, "_take", refuse)
    with Client(server) as client:
        eventually(lambda: failures.count == 1, timeout_s=30)
        assert client


def test_a_failure_is_reported_to_the_process(server: LoopbackServer, failures: Failures) -> None:
    with Client(server) as client:
        client.authenticate()
        client.say(call(b"fail"))
        assert client.is_closed()
    assert failures.count == 1


# The connection file in the hands of several sidecars.


def test_a_sidecar_does_not_remove_the_file_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    first, second = ConnectionFile(path), ConnectionFile(path)
    first.write(1, new_secret())
    second.write(2, new_secret())
    first.remove()
    assert json.loads(path.read_bytes())["port"] == 2
    second.remove()
    assert not path.exists()
    second.remove()


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    path = written(tmp_path / "file", "old")
    path.chmod(0o644)
    ConnectionFile(path).write(1, new_secret())
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_group_may_read_the_file_where_one_is_named(tmp_path: Path) -> None:
    path, group = tmp_path / "file", grp.getgrgid(os.getgid())
    ConnectionFile(path, group.gr_name).write(1, new_secret())
    status = path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o640, group.gr_gid)
    with pytest.raises(HandshakeError, match="--connection-group no-such-group: this host has no such group"):
        ConnectionFile(path, "no-such-group")


def test_secrets_have_256_bits_and_differ() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(bytes.fromhex(secret)) == 32 for secret in secrets)


def test_the_file_of_a_process_that_has_gone_is_removed_and_that_of_another_that_runs_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for pid in (gone.pid, os.getpid()):
        path.write_text(json.dumps({"pid": pid}))
        ConnectionFile(path).remove_stale()
        assert not path.exists()
    for other in (json.dumps({"pid": os.getppid()}), "{", "[]", "{}", '{"pid": "x"}', '{"pid": 1e400}'):
        path.write_text(other)
        ConnectionFile(path).remove_stale()
        assert path.read_text() == other


# The bytes by which the shim in Java and the sidecar prove their secret to each other.

GOLDEN = Path(__file__).parent.parent / "golden" / "handshake.bin"
DIALLED = Address("127.0.0.1", 47_110)
HELLO = opening() + bytes(range(32, 64))
ANSWER = opening() + bytes(range(64, 96))
AT = 2 * (OPENING.size + NONCE_BYTES)
PROOF = GOLDEN.read_bytes()[AT + CODE_BYTES :]


def test_the_golden_handshake() -> None:
    """The shim's tests read the same file."""
    content = GOLDEN.read_bytes()
    assert content[:AT] == HELLO + ANSWER
    assert content[AT:][:CODE_BYTES] == sidecar_code(SECRET, DIALLED, HELLO, ANSWER)
    assert check_proof(SECRET, DIALLED, HELLO, ANSWER, PROOF) == Limits(9 << 20, 8 << 20)


@pytest.mark.parametrize("at", range(len(PROOF)))
def test_a_changed_proof_is_none(at: int) -> None:
    changed = bytearray(PROOF)
    changed[at] ^= 1
    with pytest.raises(ProofError, match="does not know the secret"):
        check_proof(SECRET, DIALLED, HELLO, ANSWER, bytes(changed))


@pytest.mark.parametrize(
    ("secret", "dialled", "hello", "answer"),
    [
        (bytes(32), DIALLED, HELLO, ANSWER),
        (SECRET, DIALLED._replace(port=47_111), HELLO, ANSWER),
        (SECRET, DIALLED._replace(host="127.0.0.2"), HELLO, ANSWER),
        (SECRET, DIALLED._replace(host="::1"), HELLO, ANSWER),
        (SECRET, DIALLED, ANSWER, ANSWER),
        (SECRET, DIALLED, HELLO, HELLO),
        (SECRET, DIALLED, ANSWER, HELLO),
    ],
)
def test_a_proof_is_good_for_one_connection_to_one_address(
    secret: bytes, dialled: Address, hello: bytes, answer: bytes
) -> None:
    with pytest.raises(ProofError, match="does not know the secret"):
        check_proof(secret, dialled, hello, answer, PROOF)
    assert sidecar_code(secret, dialled, hello, answer) != sidecar_code(SECRET, DIALLED, HELLO, ANSWER)
