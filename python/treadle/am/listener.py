"""The port that application masters ask for plans.

Whoever connects must, within a deadline and with 128 bytes, show that it knows the key of an application attempt; until
then nothing is answered and nothing longer is read. A connection is good for one request. Connections, requests an
attempt, bytes and time are bounded.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable
from threading import BoundedSemaphore, Lock, Thread
from typing import Final

from treadle.am.bodies import MessageError
from treadle.am.keys import Attempt, KeyRing
from treadle.am.protocol import (
    MAC_BYTES,
    NONCE_BYTES,
    REQUEST,
    Header,
    Status,
    VersionError,
    answer,
    challenge,
    check_body,
    code,
    read_header,
)
from treadle.am.sealing import Direction, check_sealing, unseal
from treadle.errors import UserError

_log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
"""Connections at a time; while there are so many, others are closed as they come."""

AUTHENTICATION_S: Final = 1.0
"""A connection that has not shown by then that it knows a key is closed."""

REQUEST_S: Final = 5.0
"""A request must have been read by then, and its answer written in as long."""

BY_ADDRESS_MAX: Final = 16
"""Connections at a time from one address; others are closed as they come."""

BY_ATTEMPT_MAX: Final = 4
"""Requests of one attempt at a time, whoever brings them; others are closed unanswered."""

Serve = Callable[[Header, bytes], tuple[Status, bytes]]
Allows = Callable[[Attempt, int], bool]
"""Counts a request of an attempt with a body of some bytes; is it within the rates?"""


class Crowd:
    """How many of each are there now, none of them more often than so. For several threads."""

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._there: Counter[Hashable] = Counter()
        self._lock = Lock()

    def enter(self, one: Hashable) -> bool:
        """Count one more, unless there are as many as may be; return whether it was counted."""
        with self._lock:
            if self._there[one] >= self._each_max:
                return False
            self._there[one] += 1
            return True

    def count(self, one: Hashable) -> int:
        """Return how many there are."""
        with self._lock:
            return self._there.get(one, 0)

    def leave(self, one: Hashable) -> None:
        """Count one less."""
        with self._lock:
            self._there[one] -= 1
            if not self._there[one]:
                del self._there[one]


class PlanListener:
    """Listens on an address until `close`; `serve` is called on threads of its own, with authenticated bodies."""

    def __init__(
        self, address: str, port: int, keys: KeyRing, serve: Serve, allows: Allows, *, encrypt: bool = False
    ) -> None:
        """Open the port.

        Args:
            address: of this host
            port: 0 is one of the system's choice
            keys: of the attempts that may ask
            serve: answers a request
            allows: counts it
            encrypt: whether bodies must be sealed

        Raises:
            UserError: it cannot be opened, or nothing can be sealed here.
        """
        if encrypt:
            check_sealing()
        self._encrypt = encrypt
        self._told_versions: set[str] = set()
        self._keys = keys
        self._serve = serve
        self._allows = allows
        self._room = BoundedSemaphore(CONNECTIONS_MAX)
        self._addresses = Crowd(BY_ADDRESS_MAX)
        self._attempts = Crowd(BY_ATTEMPT_MAX)
        try:
            family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((address, port), family=family, backlog=CONNECTIONS_MAX)
        except OSError as error:
            reason = error.strerror or error
            remedy = "name an address of this host and a free port"
            raise UserError(f"listener: {address} port {port}: {reason}; {remedy}") from error
        self._closed = False
        self._thread = Thread(target=self._accept, name="plan listener", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._socket.getsockname()[1])

    def requests_of(self, attempt: Attempt) -> int:
        """Return how many requests of an attempt are being read or answered."""
        return self._attempts.count(attempt)

    def close(self) -> None:
        """Take no more connections."""
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            _log.debug("the plan listener was closed already: %s", error)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connected, (address, *_) = self._socket.accept()
            except OSError as error:
                if not self._closed:
                    _log.warning("a connection could not be taken: %s", error)
                    time.sleep(0.1)  # too many open files, most likely: that passes
                continue
            if not self._addresses.enter(address):
                connected.close()
                continue
            if not self._room.acquire(blocking=False):
                connected.close()
                self._addresses.leave(address)
                continue
            try:
                Thread(target=self._converse, args=(connected, address), name="plan request", daemon=True).start()
            except RuntimeError:
                connected.close()
                self._leave(address)

    def _leave(self, address: str) -> None:
        self._addresses.leave(address)
        self._room.release()

    def _converse(self, connected: socket.socket, address: str) -> None:
        try:
            with connected:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._request(connected)
        except VersionError as error:
            self._tell_version(str(error))
        except (MessageError, OSError) as error:
            _log.debug("a plan request was not answered: %s", error)
        except Exception:  # one request's failure is no concern of others
            _log.exception("a plan request failed")
        finally:
            self._leave(address)

    def _tell_version(self, text: str) -> None:
        # Once for each version, of which there are 255: strangers cannot fill the log.
        if text not in self._told_versions:
            self._told_versions.add(text)
            _log.warning("%s", text)

    def _request(self, connected: socket.socket) -> None:
        said = challenge(secrets.token_bytes(NONCE_BYTES), sealed=self._encrypt)
        deadline_s = time.monotonic() + AUTHENTICATION_S
        connected.settimeout(AUTHENTICATION_S)
        connected.sendall(said)
        content = _read(connected, REQUEST.size + MAC_BYTES, deadline_s)
        asked = content[: REQUEST.size]
        header = read_header(asked)
        key = self._keys.find(header.attempt, header.key_number)
        # Without a key the same is computed, so that it cannot be told from the time which attempts there are.
        expected = code(key or bytes(MAC_BYTES), said, asked)
        if not hmac.compare_digest(expected, content[REQUEST.size :]) or key is None:
            raise MessageError("whoever it is does not know the key")
        if not self._attempts.enter(header.attempt):
            raise MessageError(f"more than {BY_ATTEMPT_MAX} requests of {header.attempt} at a time")
        try:
            body = _read(connected, header.length, time.monotonic() + REQUEST_S)
            connected.settimeout(REQUEST_S)
            connected.sendall(answer(key, said, asked, *self._answer(key, said, header, body)))
        finally:
            self._attempts.leave(header.attempt)

    def _answer(self, key: bytes, said: bytes, header: Header, body: bytes) -> tuple[Status, bytes]:
        try:
            check_body(header, body)
            if header.sealed != self._encrypt:
                raise MessageError("a body that is sealed where it must not be, or is not where it must")
            if header.sealed:
                body = unseal(key, Direction.REQUEST, said, header.nonce, body)
            if not self._allows(header.attempt, len(body)):
                return Status.BUSY, b""
            return self._serve(header, body)
        except MessageError as error:
            _log.info("a request of %s is refused: %s", header.attempt, error)
            return Status.REFUSED, b""


def _read(connected: socket.socket, length: int, deadline_s: float) -> bytes:
    """Return so many bytes.

    Raises:
        OSError: they have not come by the deadline, or the other end is gone.
    """
    parts, missing = [], length
    while missing:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("too slow")
        connected.settimeout(left_s)
        part = connected.recv(min(missing, 1 << 16))
        if not part:
            raise OSError("the other end is gone")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
