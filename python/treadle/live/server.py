"""The server that only the ResourceManager can call, by Py4J's `CallbackClient`.

It speaks as much of Py4J's protocol as one call takes, and has the limits that Py4J's own server lacks: each end of a
connection must prove within a deadline, by short messages, that it knows the secret (`treadle.live.handshake`); after
that the other end may call one method of one object with an argument of bounded size. Anything else closes the
connection, unanswered.
"""

from __future__ import annotations

import binascii
import logging
import secrets
import socket
import time
from collections.abc import Callable
from threading import BoundedSemaphore, Lock, Thread
from typing import Final

from py4j import protocol

from treadle.live.handshake import (
    HOST,
    NONCE_BYTES,
    OPENING,
    PROOF_BYTES,
    Address,
    Limits,
    ProofError,
    VersionError,
    check_opening,
    check_proof,
    opening,
    sidecar_code,
)
from treadle.processes import limited

_log = logging.getLogger(__name__)

Decide = Callable[[bytes, int], bytes]
"""Answers a frame with at most this many bytes."""

AUTHENTICATED_MAX: Final = 4
"""Connections that know the secret; one more ends the oldest, which a reconnecting ResourceManager has given up."""

STRANGERS_MAX: Final = 16
"""Connections that have not proved it yet; one more ends the oldest, so that strangers cannot keep others out."""

GRACE_S: Final = 0.05
"""A stranger this young is not ended for another one: a ResourceManager proves itself in a few milliseconds."""

CROWD_MAX: Final = 96
"""Beyond so many unauthenticated connections the oldest is closed: each has a thread, and systemd allows 256."""

STRANGERS_LINES: Final = (20.0, 0.1)
"""Lines about strangers in the log at once, and in each second in the long run."""

AUTHENTICATION_S: Final = 2.0
"""A connection that has not proved by then that it knows the secret is closed."""

_BUFFER_BYTES: Final = 1 << 18
_CALL: Final = (b"c\n", protocol.ENTRY_POINT_OBJECT_ID.encode() + b"\n", b"decide\n")
_BYTES: Final = protocol.BYTES_TYPE.encode()
_END: Final = b"e\n"
_ANSWER: Final = (protocol.RETURN_MESSAGE + protocol.SUCCESS + protocol.BYTES_TYPE).encode()


class RefusedError(Exception):
    """The other end sent a message that is not allowed."""


class LoopbackServer:
    """Listens on a loopback port of the system's choice and hands frames to `decide`, one at a time."""

    def __init__(self, secret: bytes, decide: Decide, *, on_failure: Callable[[], None]) -> None:
        """Open the port; `start` takes connections.

        Args:
            secret: shared by both ends
            decide: frame to answer; called under a lock
            on_failure: called on a server thread when `decide` raised, which it should never do, or when no
                more connections can be taken
        """
        self.secret = secret
        self._listening = socket.create_server((HOST, 0), backlog=CROWD_MAX)
        self.port = int(self._listening.getsockname()[1])
        """The port that the system chose."""
        self._decide = decide
        self._on_failure = on_failure
        self._decide_lock = Lock()
        self._strangers: list[LoopbackConnection] = []
        self._authenticated: list[LoopbackConnection] = []
        self._lists_lock = Lock()
        self._threads = BoundedSemaphore(CROWD_MAX + AUTHENTICATED_MAX)
        self.strangers_log = limited(__name__, *STRANGERS_LINES)
        """For messages about connections that have not proved yet that they know the secret."""

    def start(self) -> None:
        """Take connections, until the end of the process."""
        Thread(target=self._run, name="server", daemon=True).start()

    def _run(self) -> None:
        try:
            with self._listening:
                while True:
                    connected, _ = self._listening.accept()
                    self._take(connected)
        except Exception:
            _log.exception("no more connections can be taken")
            self._on_failure()

    def decide(self, frame: bytes, reply_max_bytes: int) -> bytes:
        """Answer one frame."""
        with self._decide_lock:
            try:
                return self._decide(frame, reply_max_bytes)
            except BaseException:
                _log.exception("no answer")
                self._on_failure()
                raise

    def authenticated(self, connection: LoopbackConnection) -> None:
        """Move a connection from the strangers to those that know the secret."""
        with self._lists_lock:
            if connection in self._strangers:
                self._strangers.remove(connection)
            self._authenticated.append(connection)
            if len(self._authenticated) > AUTHENTICATED_MAX:
                _log.warning("more than %d connections: the oldest is closed", AUTHENTICATED_MAX)
                self._authenticated.pop(0).interrupt()

    def closed(self, connection: LoopbackConnection) -> None:
        """Forget a connection."""
        with self._lists_lock:
            for connections in (self._strangers, self._authenticated):
                if connection in connections:
                    connections.remove(connection)
        self._threads.release()

    def _take(self, connected: socket.socket) -> None:
        connection = LoopbackConnection(self, connected)
        with self._lists_lock:
            strangers = self._strangers
            strangers.append(connection)
            while len(strangers) > CROWD_MAX or (
                len(strangers) > STRANGERS_MAX and time.monotonic() - strangers[0].since_s >= GRACE_S
            ):
                self.strangers_log.warning("more than %d strangers: the oldest is closed", STRANGERS_MAX)
                strangers.pop(0).interrupt()
        self._threads.acquire()  # connections that were ended hold their thread for a moment
        connection.start()


class LoopbackConnection(Thread):
    """One connection, and the thread that serves it."""

    def __init__(self, server: LoopbackServer, connected: socket.socket) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._connected = connected
        self._stream = connected.makefile("rb", _BUFFER_BYTES)
        self._log = server.strangers_log
        self.since_s = time.monotonic()
        """When it was accepted, by the monotonic clock."""

    def run(self) -> None:
        """Exchange proofs of the secret, then answer calls until the other end disconnects or sends a wrong one."""
        try:
            # A reply of 8 KiB or more takes 44 ms without it.
            self._connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limits = self._shake_hands()
            self._server.authenticated(self)
            self._log = _log
            self._connected.settimeout(None)
            line_max_bytes = len(_BYTES) + 4 * ((limits.frame_max_bytes + 2) // 3) + 1
            while (frame := self._next_frame(line_max_bytes)) is not None:
                answer = self._server.decide(frame, limits.reply_max_bytes)
                self._connected.sendall(_ANSWER + binascii.b2a_base64(answer))
        except (RefusedError, ProofError) as refused:
            self._log.warning("connection closed: %s", refused)
        except Exception as error:  # the end of a connection does not affect others
            self._log.info("connection closed: %s", error)
        finally:
            self._server.closed(self)
            self.interrupt()
            self._stream.close()
            self._connected.close()

    def interrupt(self) -> None:
        """End the connection from another thread."""
        try:
            self._connected.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("the connection was closed already")

    def _shake_hands(self) -> Limits:
        """Prove the secret to the other end and check its proof; return the other end's limits."""
        deadline_s = time.monotonic() + AUTHENTICATION_S
        dialled = Address(*self._connected.getsockname()[:2])
        begin = self._receive(OPENING.size, deadline_s)
        try:
            check_opening(begin)
        except VersionError:
            # Sends the other end which version is spoken here, and nothing else.
            self._connected.sendall(opening())
            raise
        hello = begin + self._receive(NONCE_BYTES, deadline_s)
        answer = opening() + secrets.token_bytes(NONCE_BYTES)
        self._connected.sendall(answer + sidecar_code(self._server.secret, dialled, hello, answer))
        proof = self._receive(PROOF_BYTES, deadline_s)
        return check_proof(self._server.secret, dialled, hello, answer, proof)

    def _receive(self, length: int, deadline_s: float) -> bytes:
        """Return ``length`` bytes; further ones stay unread."""
        received = b""
        while len(received) < length:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise RefusedError("no handshake in time")
            self._connected.settimeout(left_s)
            try:
                part = self._connected.recv(length - len(received))
            except TimeoutError as error:
                raise RefusedError("no handshake in time") from error
            if not part:
                raise RefusedError("gone before the handshake was over")
            received += part
        return received

    def _next_frame(self, line_max_bytes: int) -> bytes | None:
        """Return the argument of the next call, None if the other end has gone."""
        for position, expected in enumerate(_CALL):
            line = self._stream.readline(len(expected))
            if not line and position == 0:
                return None
            if line != expected:
                raise RefusedError("a command other than decide")
        line = self._stream.readline(line_max_bytes)
        if not line.endswith(b"\n"):
            raise RefusedError(f"a frame cut off or longer than {line_max_bytes} bytes of base64 (frame.max-bytes)")
        if not line.startswith(_BYTES) or self._stream.readline(len(_END)) != _END:
            raise RefusedError("an argument that is not one byte array")
        try:
            return binascii.a2b_base64(line[len(_BYTES) : -1], strict_mode=True)
        except binascii.Error as error:
            raise RefusedError(f"an argument that is not base64: {error}") from error
