"""The port where application masters request plans.

A client receives a challenge. Within a deadline it must send 128 bytes that prove the key of an application attempt;
before that nothing is answered and nothing longer is read, in one thread for all connections. Then the connection, good
for one request, goes to a thread that may block. Connections, requests per attempt, bytes and time are bounded;
requests beyond a rate are rejected by their header alone. Run it in a process of its own, since clients may be hostile
(`treadle.live.plan_child`).
"""

from __future__ import annotations

import hmac
import logging
import secrets
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock, Thread
from typing import Final, NamedTuple

from treadle.am.protocol import (
    MAC_BYTES,
    NONCE_BYTES,
    REQUEST,
    Attempt,
    Direction,
    Header,
    KeyRing,
    Kind,
    MessageError,
    Status,
    VersionError,
    answer,
    can_seal,
    challenge,
    check_body,
    check_sealing,
    code,
    read_header,
    unseal,
)
from treadle.am.quotas import FairQueue, Rates
from treadle.am.registries import Claims, FindProfile, History, PlanRegistry, StageRegistry
from treadle.config.settings import Listener, Plans
from treadle.errors import UserError
from treadle.history.profile import JobRun, recurrence_key

_log = logging.getLogger(__name__)

IDLE_S: Final = 1.0
"""Interval, in seconds, of the check whether an idle port was closed, if the system does not report that."""

PAUSE_S: Final = 0.1
"""Pause before the next connection, in seconds, after running out of file descriptors or threads."""

CONNECTIONS_MAX: Final = 64
"""Maximum number of connections; above it new ones are closed at once."""

AUTHENTICATION_S: Final = 1.0
"""Time in seconds for a connection to prove a key; then it is closed."""

REQUEST_S: Final = 5.0
"""Time in seconds for reading a request, and again for writing the answer."""

BY_ADDRESS_MAX: Final = 16
"""Maximum number of connections from one address; others are closed at once."""

BY_ATTEMPT_MAX: Final = 4
"""Maximum number of concurrent requests of one attempt; others are closed unanswered."""

_HEADER_BYTES: Final = REQUEST.size + MAC_BYTES
_DROPPED: Final = 1 << 16


class ConnectionLimits:
    """Thread-safe counters by key, each with the same maximum."""

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._counts: Counter[Hashable] = Counter()
        self._lock = Lock()

    def enter(self, one: Hashable) -> bool:
        """Add one unless the maximum is reached; return whether it was added."""
        with self._lock:
            if self._counts[one] >= self._each_max:
                return False
            self._counts[one] += 1
            return True

    def leave(self, one: Hashable) -> None:
        """Subtract one."""
        with self._lock:
            self._counts[one] -= 1
            if not self._counts[one]:
                del self._counts[one]


class Rejected(NamedTuple):
    """The answer to a connection that is refused."""

    answer: bytes
    length: int
    """Number of bytes still to come; they are discarded."""
    seconds: float
    """Time limit for them, in seconds."""
    on_end: Callable[[], None]
    """Called when the connection has ended."""


class PendingConnection:
    """A connection, and the bytes received so far."""

    __slots__ = ("address", "challenge", "content", "deadline_s", "rejected", "socket")

    def __init__(self, connected: socket.socket, address: str, challenge: bytes, deadline_s: float) -> None:
        self.socket = connected
        self.address = address
        self.challenge = challenge
        """The challenge."""
        self.deadline_s = deadline_s
        self.content = b""
        self.rejected: Rejected | None = None


Judge = Callable[[PendingConnection], Rejected | None]
"""Takes a connection with a complete header; None: it was handed on. It is closed on `OSError`."""


class Acceptor:
    """Accepts connections until `close`. Only for the thread that calls `serve`, except for `on_end`."""

    def __init__(self, listening: socket.socket, judge: Judge, *, sealed: bool) -> None:
        """Take a listening socket.

        Args:
            listening: the socket
            judge: decides about a connection
            sealed: whether bodies must be sealed
        """
        listening.setblocking(False)
        self._listening = listening
        self._judge = judge
        self._sealed = sealed
        self._all = ConnectionLimits(CONNECTIONS_MAX)
        """Those handed on included."""
        self._addresses = ConnectionLimits(BY_ADDRESS_MAX)
        self._pending: set[PendingConnection] = set()
        """The connections that are not handed on yet."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._dropped = bytearray(_DROPPED)

    def serve(self, closed: Callable[[], bool]) -> None:
        """Accept connections until ``closed``."""
        with self._selector:
            while not closed():
                for ready, _ in self._selector.select(self._wait_s()):
                    if ready.data is None:
                        self._accept(closed)
                    else:
                        self._receive(ready.data)
                now_s = time.monotonic()
                for guest in [guest for guest in self._pending if guest.deadline_s <= now_s]:
                    self._end(guest)
            for guest in list(self._pending):
                self._end(guest)

    def leave(self, address: str) -> None:
        """Record that a connection that was handed on has ended. Thread-safe."""
        self._addresses.leave(address)
        self._all.leave(None)

    def _wait_s(self) -> float:
        first_s = min((guest.deadline_s for guest in self._pending), default=float("inf"))
        return min(max(first_s - time.monotonic(), 0.0), IDLE_S)

    def _accept(self, closed: Callable[[], bool]) -> None:
        for _ in range(CONNECTIONS_MAX):
            try:
                connected, (address, *_) = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not closed():
                    _log.warning("a connection could not be taken: %s", error)
                    time.sleep(PAUSE_S)  # most likely too many open files: a passing problem
                return
            if not self._addresses.enter(address):
                connected.close()
            elif not self._all.enter(None):
                connected.close()
                self._addresses.leave(address)
            else:
                self._challenge(connected, address)

    def _challenge(self, connected: socket.socket, address: str) -> None:
        connected.setblocking(False)
        greeting = challenge(secrets.token_bytes(NONCE_BYTES), sealed=self._sealed)
        guest = PendingConnection(connected, address, greeting, time.monotonic() + AUTHENTICATION_S)
        self._pending.add(guest)
        self._selector.register(connected, selectors.EVENT_READ, guest)
        try:
            connected.send(guest.challenge)
        except OSError as error:
            _log.debug("a plan request was not answered: %s", error)
            self._end(guest)

    def _receive(self, guest: PendingConnection) -> None:
        try:
            if guest.rejected is not None:
                self._drop(guest, guest.rejected)
                return
            part = guest.socket.recv(_HEADER_BYTES - len(guest.content))
            if not part:
                raise OSError("the other end is gone")
            guest.content += part
            if len(guest.content) == _HEADER_BYTES:
                self._judge_header(guest)
        except BlockingIOError:
            return
        except OSError as error:
            _log.debug("a plan request was not answered: %s", error)
            self._end(guest)
        except Exception:  # a failure of one request must not affect others
            _log.exception("a plan request failed")
            self._end(guest)

    def _judge_header(self, guest: PendingConnection) -> None:
        self._selector.unregister(guest.socket)
        turned = self._judge(guest)
        if turned is None:
            self._pending.remove(guest)
            return
        guest.rejected, guest.deadline_s = turned, time.monotonic() + turned.seconds
        self._selector.register(guest.socket, selectors.EVENT_READ, guest)
        guest.socket.send(turned.answer)
        if not turned.length:
            self._end(guest)

    def _drop(self, guest: PendingConnection, turned: Rejected) -> None:
        count = guest.socket.recv_into(self._dropped, min(turned.length, _DROPPED))
        guest.rejected = turned._replace(length=turned.length - count)
        if not count or not guest.rejected.length:
            self._end(guest)

    def _end(self, guest: PendingConnection) -> None:
        self._pending.remove(guest)
        try:
            self._selector.unregister(guest.socket)
        except KeyError:
            _log.debug("a connection ends while it is judged")
        guest.socket.close()
        if guest.rejected is not None:
            guest.rejected.on_end()
        self.leave(guest.address)


Serve = Callable[[Header, bytes], tuple[Status, bytes]]
Allows = Callable[[Attempt, int], bool]
"""Counts a request of an attempt with a body of so many bytes; returns whether it is within the rates."""


class PlanListener:
    """Listens on an address until `close`; calls `serve` with authenticated bodies, in threads of its own."""

    def __init__(
        self, address: str, port: int, keys: KeyRing, serve: Serve, allows: Allows, *, encrypt: bool = False
    ) -> None:
        """Open the port.

        Args:
            address: of this host
            port: 0 lets the system choose
            keys: keys of the attempts
            serve: answers a request
            allows: counts it
            encrypt: whether bodies must be sealed

        Raises:
            UserError: it cannot be opened, or sealing is unavailable.
        """
        if encrypt:
            check_sealing()
        self._can_seal = can_seal()
        self._encrypt = encrypt
        self._logged_versions: set[str] = set()
        self._keys = keys
        self._serve = serve
        self._allows = allows
        self._attempts = ConnectionLimits(BY_ATTEMPT_MAX)
        try:
            family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((address, port), family=family, backlog=CONNECTIONS_MAX)
        except OSError as error:
            reason = error.strerror or error
            remedy = "name an address of this host and a free port"
            raise UserError(f"listener: {address} port {port}: {reason}; {remedy}") from error
        self._closed = False
        self._acceptor = Acceptor(self._socket, self._judge, sealed=encrypt)
        self._workers = ThreadPoolExecutor(CONNECTIONS_MAX, "plan request")
        self._thread = Thread(
            target=self._acceptor.serve, args=(lambda: self._closed,), name="plan listener", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The listening port."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Accept no more connections."""
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            _log.debug("the plan listener was closed already: %s", error)
        self._thread.join()
        self._socket.close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _judge(self, guest: PendingConnection) -> Rejected | None:
        """Hand on a connection that proves a key and is within its rates; only for the listener's thread.

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
            reply = answer(key, guest.challenge, guest.content[: REQUEST.size], Status.BUSY)
            return Rejected(reply, header.length, REQUEST_S, leave)
        try:
            self._workers.submit(self._converse, guest, header, key)
        except RuntimeError as error:
            leave()
            raise OSError("no thread is left") from error
        return None

    def _authenticate(self, guest: PendingConnection) -> tuple[Header, bytes]:
        """Return the header and the proven key.

        Raises:
            MessageError: the client does not know a key.
        """
        request = guest.content[: REQUEST.size]
        header = read_header(request)
        key = self._keys.find(header.attempt, header.key_number)
        # Without a key the same computation runs, so that response times do not reveal which attempts exist.
        expected = code(key or bytes(MAC_BYTES), guest.challenge, request)
        if not hmac.compare_digest(expected, guest.content[REQUEST.size :]) or key is None:
            raise MessageError("the client does not know the key")
        if header.sealed and not self._can_seal:
            raise MessageError("a sealed request, where nothing can be sealed")
        return header, key

    def _converse(self, guest: PendingConnection, header: Header, key: bytes) -> None:
        try:
            with guest.socket as connected:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                body = _read(connected, header.length, time.monotonic() + REQUEST_S)
                request = guest.content[: REQUEST.size]
                reply = answer(key, guest.challenge, request, *self._answer(key, guest.challenge, header, body))
                connected.settimeout(REQUEST_S)
                connected.sendall(reply)
        except (MessageError, OSError) as error:
            _log.debug("a plan request was not answered: %s", error)
        except Exception:  # a failure of one request must not affect others
            _log.exception("a plan request failed")
        finally:
            self._attempts.leave(header.attempt)
            self._acceptor.leave(guest.address)

    def _log_version(self, text: str) -> None:
        # Once per version, of which there are 255, so that clients cannot fill the log.
        if text not in self._logged_versions:
            self._logged_versions.add(text)
            _log.warning("%s", text)

    def _answer(self, key: bytes, challenge_sent: bytes, header: Header, body: bytes) -> tuple[Status, bytes]:
        try:
            check_body(header, body)
            if header.sealed != self._encrypt:
                raise MessageError("a body that is sealed where it must not be, or is not where it must")
            if header.sealed:
                body = unseal(key, Direction.REQUEST, challenge_sent, header.nonce, body)
            return self._serve(header, body)
        except MessageError as error:
            _log.info("a request of %s is refused: %s", header.attempt, error)
            return Status.REFUSED, b""


def _read(connected: socket.socket, length: int, deadline_s: float) -> bytes:
    """Return this many bytes.

    Raises:
        OSError: the deadline has passed, or the peer has closed the connection.
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


SPARK: Final = "SPARK"
TYPES: Final = ("TEZ", SPARK)
"""The application types whose AMs may ask for plans, or report stages."""


class PlanService:
    """Serves plans and stage reports. Thread-safe."""

    def __init__(
        self, plans: Plans, find: FindProfile = lambda _: None, remember: Callable[[JobRun], None] = lambda _: None
    ) -> None:
        """Create it without attempts.

        Args:
            plans: the settings
            find: returns a profile from the store; None if there is none
            remember: receives each successful DAG
        """
        self.keys = KeyRing()
        self.plans = PlanRegistry(plans, History(find, remember), changed=self._changed)
        self.stages = StageRegistry()
        self.rates = Rates()
        self._users: dict[Attempt, str] = {}
        self._updates: FairQueue[Attempt] = FairQueue()
        self._lock = Lock()

    def listen(self, listener: Listener) -> PlanListener:
        """Open the port.

        Raises:
            UserError: it cannot be opened.
        """
        return PlanListener(
            listener.address, listener.port, self.keys, self.serve, self._allows, encrypt=listener.encrypt
        )

    def register_attempt(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Add a running attempt with user, queue, and application type in upper case."""
        with self._lock:
            self._users[attempt] = user
        if type_ == SPARK:
            self.stages.register_attempt(attempt, user)
        else:
            self.plans.register_attempt(attempt, recurrence_key(user, queue, type_, ""))

    def forget_attempt(self, attempt: Attempt) -> None:
        """Remove an attempt that has ended."""
        self.plans.forget_attempt(attempt)
        self.stages.forget_attempt(attempt)
        self.keys.forget(attempt)
        with self._lock:
            self._users.pop(attempt, None)

    def serve(self, header: Header, body: bytes) -> tuple[Status, bytes]:
        """Answer an authenticated request.

        Raises:
            MessageError: its body is damaged.
        """
        if header.kind is Kind.STAGES:
            return self.stages.serve(header.attempt, body), b""
        return self.plans.serve(header, body)

    def next_update(self) -> tuple[Attempt, Claims] | None:
        """Return an attempt and the changed hints for its DAG, users in turn; None without changes."""
        with self._lock:
            if not self._updates:
                return None
            _, attempt = self._updates.pop()
        return attempt, self.plans.claims(attempt)

    def _changed(self, user: str, attempt: Attempt) -> None:
        with self._lock:
            self._updates.put(user, attempt)

    def _allows(self, attempt: Attempt, size_bytes: int) -> bool:
        return self.rates.allows(attempt, self._users.get(attempt, ""), size_bytes)
