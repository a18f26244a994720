"""The port that application masters ask for plans.

A client must, within a deadline and with 128 bytes, show that it knows the key of an application attempt; until
then nothing is answered and nothing longer is read. A connection is good for one request. Connections, requests an
attempt, bytes and time are bounded. What is beyond a rate is turned away by its header alone, before a thread waits for
its body.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Thread
from typing import Final

from treadle.am.bodies import MessageError
from treadle.am.door import Crowd, Door, Guest, TurnedAway
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
from treadle.am.sealing import Direction, can_seal, check_sealing, unseal
from treadle.errors import UserError

_log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
"""Connections at a time; while there are that many, others are closed as they come."""

AUTHENTICATION_S: Final = 1.0
"""A connection that has not shown by then that it knows a key is closed."""

REQUEST_S: Final = 5.0
"""A request must have been read by then, and its answer written in as long."""

BY_ADDRESS_MAX: Final = 16
"""Connections at a time from one address; others are closed as they come."""

BY_ATTEMPT_MAX: Final = 4
"""Requests of one attempt at a time, on all connections; others are closed unanswered."""

Serve = Callable[[Header, bytes], tuple[Status, bytes]]
Allows = Callable[[Attempt, int], bool]
"""Counts a request of an attempt with a body of some bytes; is it within the rates?"""


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
        self._can_seal = can_seal()
        self._encrypt = encrypt
        self._logged_versions: set[str] = set()
        self._keys = keys
        self._serve = serve
        self._allows = allows
        self._attempts = Crowd(BY_ATTEMPT_MAX)
        try:
            family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((address, port), family=family, backlog=CONNECTIONS_MAX)
        except OSError as error:
            reason = error.strerror or error
            remedy = "name an address of this host and a free port"
            raise UserError(f"listener: {address} port {port}: {reason}; {remedy}") from error
        self._closed = False
        self._door = Door(
            self._socket,
            lambda: challenge(secrets.token_bytes(NONCE_BYTES), sealed=encrypt),
            self._judge,
            header_bytes=REQUEST.size + MAC_BYTES,
            seconds=AUTHENTICATION_S,
            most=CONNECTIONS_MAX,
            by_address_max=BY_ADDRESS_MAX,
        )
        self._workers = ThreadPoolExecutor(CONNECTIONS_MAX, "plan request")
        self._thread = Thread(target=self._door.attend, args=(lambda: self._closed,), name="plan listener", daemon=True)
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
        self._thread.join()
        self._socket.close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _judge(self, guest: Guest) -> TurnedAway | None:
        """Hand a guest on that knows a key and is within its rates; for the listener's thread.

        Raises:
            OSError: the caller closes it unanswered.
        """
        try:
            header, key = self._authenticate(guest)
            if not self._attempts.enter(header.attempt):
                raise MessageError(f"more than {BY_ATTEMPT_MAX} requests of {header.attempt} at a time")
        except VersionError as error:
            self._log_version(str(error))
            raise OSError("another version") from error
        except MessageError as error:
            raise OSError(str(error)) from error
        leave = partial(self._attempts.leave, header.attempt)
        if not self._allows(header.attempt, header.length):
            reply = answer(key, guest.said, guest.content[: REQUEST.size], Status.BUSY)
            return TurnedAway(reply, header.length, REQUEST_S, leave)
        try:
            self._workers.submit(self._converse, guest, header, key)
        except RuntimeError as error:
            leave()
            raise OSError("no thread is left") from error
        return None

    def _authenticate(self, guest: Guest) -> tuple[Header, bytes]:
        """Return who asks what, and the key that was shown.

        Raises:
            MessageError: the client does not know a key.
        """
        asked = guest.content[: REQUEST.size]
        header = read_header(asked)
        key = self._keys.find(header.attempt, header.key_number)
        # Without a key the same is computed, so that response times do not reveal which attempts exist.
        expected = code(key or bytes(MAC_BYTES), guest.said, asked)
        if not hmac.compare_digest(expected, guest.content[REQUEST.size :]) or key is None:
            raise MessageError("the client does not know the key")
        if header.sealed and not self._can_seal:
            raise MessageError("a sealed request, where nothing can be sealed")
        return header, key

    def _converse(self, guest: Guest, header: Header, key: bytes) -> None:
        try:
            with guest.socket as connected:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                body = _read(connected, header.length, time.monotonic() + REQUEST_S)
                asked = guest.content[: REQUEST.size]
                reply = answer(key, guest.said, asked, *self._answer(key, guest.said, header, body))
                connected.settimeout(REQUEST_S)
                connected.sendall(reply)
        except (MessageError, OSError) as error:
            _log.debug("a plan request was not answered: %s", error)
        except Exception:  # one request's failure is no concern of others
            _log.exception("a plan request failed")
        finally:
            self._attempts.leave(header.attempt)
            self._door.leave(guest.address)

    def _log_version(self, text: str) -> None:
        # Once for each version, of which there are 255: strangers cannot fill the log.
        if text not in self._logged_versions:
            self._logged_versions.add(text)
            _log.warning("%s", text)

    def _answer(self, key: bytes, said: bytes, header: Header, body: bytes) -> tuple[Status, bytes]:
        try:
            check_body(header, body)
            if header.sealed != self._encrypt:
                raise MessageError("a body that is sealed where it must not be, or is not where it must")
            if header.sealed:
                body = unseal(key, Direction.REQUEST, said, header.nonce, body)
            return self._serve(header, body)
        except MessageError as error:
            _log.info("a request of %s is refused: %s", header.attempt, error)
            return Status.REFUSED, b""


def _read(connected: socket.socket, length: int, deadline_s: float) -> bytes:
    """Return this many bytes.

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
