"""The port that application masters ask for plans.

Whoever connects must, within a deadline and with 96 bytes, show that it knows the key of an application attempt; until
then nothing is answered and nothing longer is read. A connection is good for one request. Connections, requests an
attempt, bytes and time are bounded.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import BoundedSemaphore, Lock, Thread
from typing import Final

from treadle.errors import UserError
from treadle.plans.bodies import MessageError
from treadle.plans.keys import Attempt, KeyRing
from treadle.plans.protocol import (
    MAC_BYTES,
    REQUEST,
    Header,
    Status,
    answer,
    challenge,
    check_body,
    code,
    read_header,
)

_log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
"""Connections at a time; while there are so many, others are closed as they come."""

AUTHENTICATION_S: Final = 1.0
"""A connection that has not shown by then that it knows a key is closed."""

REQUEST_S: Final = 5.0
"""A request must have been read by then, and its answer written in as long."""

RATE_PER_S: Final = 4.0
BURST: Final = 40.0
"""An attempt may make so many requests at once and so many a second in the long run; beyond, it is told `BUSY`."""

ATTEMPTS_MAX: Final = 10_000
"""Attempts whose rate is remembered; the one that was heard least recently is forgotten first."""

Serve = Callable[[Header, bytes], tuple[Status, bytes]]


class Rates:
    """How many requests each attempt may make now. For several threads."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._left: OrderedDict[Attempt, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def allows(self, attempt: Attempt) -> bool:
        """Count a request; return whether it is within the rate."""
        now_s = self._clock_s()
        with self._lock:
            left, at_s = self._left.pop(attempt, (BURST, now_s))
            left = min(BURST, left + (now_s - at_s) * RATE_PER_S)
            allowed = left >= 1.0
            self._left[attempt] = (left - 1.0 if allowed else left, now_s)
            while len(self._left) > ATTEMPTS_MAX:
                self._left.popitem(last=False)
        return allowed


class PlanListener:
    """Listens on an address until `close`; `serve` is called on threads of its own, with authenticated bodies."""

    def __init__(self, address: str, port: int, keys: KeyRing, serve: Serve, rates: Rates | None = None) -> None:
        """Open the port; 0 is one of the system's choice.

        Raises:
            UserError: it cannot be opened.
        """
        self._keys = keys
        self._serve = serve
        self._rates = rates or Rates()
        self._room = BoundedSemaphore(CONNECTIONS_MAX)
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
                connected, _ = self._socket.accept()
            except OSError as error:
                if not self._closed:
                    _log.warning("a connection could not be taken: %s", error)
                    time.sleep(0.1)  # too many open files, most likely: that passes
                continue
            if not self._room.acquire(blocking=False):
                connected.close()
                continue
            try:
                Thread(target=self._converse, args=(connected,), name="plan request", daemon=True).start()
            except RuntimeError:
                connected.close()
                self._room.release()

    def _converse(self, connected: socket.socket) -> None:
        try:
            with connected:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._request(connected)
        except (MessageError, OSError) as error:
            _log.debug("a plan request was not answered: %s", error)
        except Exception:  # one request's failure is no concern of others
            _log.exception("a plan request failed")
        finally:
            self._room.release()

    def _request(self, connected: socket.socket) -> None:
        said = challenge(secrets.token_bytes(32))
        deadline_s = time.monotonic() + AUTHENTICATION_S
        connected.settimeout(AUTHENTICATION_S)
        connected.sendall(said)
        content = _read(connected, REQUEST.size + MAC_BYTES, deadline_s)
        header = read_header(content[: REQUEST.size])
        key = self._keys.find(header.attempt, header.key_number)
        # Without a key the same is computed, so that it cannot be told from the time which attempts there are.
        expected = code(key or bytes(MAC_BYTES), said, content[: REQUEST.size])
        if not hmac.compare_digest(expected, content[REQUEST.size :]) or key is None:
            raise MessageError("whoever it is does not know the key")
        body = _read(connected, header.length, time.monotonic() + REQUEST_S)
        connected.settimeout(REQUEST_S)
        connected.sendall(answer(key, said, *self._answer(header, body)))

    def _answer(self, header: Header, body: bytes) -> tuple[Status, bytes]:
        try:
            check_body(header, body)
            if not self._rates.allows(header.attempt):
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
