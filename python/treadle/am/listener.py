"""The port where application masters request plans.

A client receives a challenge. Within a deadline it must send 128 bytes that prove the key of an application attempt;
before that nothing is answered and nothing longer is read. One thread reads and writes for all connections, each good
for one request; the answer comes from a thread that may block. Connections, requests per attempt, bytes and time are
bounded; requests beyond a rate are rejected by their header alone. Run it in a process of its own, since clients may be
hostile (`treadle.live.plan_child`).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Lock, Thread
from typing import Final

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

PAUSE_S: Final = 0.1
"""Pause before the next connection, in seconds, after running out of file descriptors."""

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
_PART_BYTES: Final = 1 << 16


class ConnectionLimits:
    """Counters by key, each with the same maximum. Not thread-safe."""

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._counts: Counter[Hashable] = Counter()

    def enter(self, one: Hashable) -> bool:
        """Add one unless the maximum is reached; return whether it was added."""
        if self._counts[one] >= self._each_max:
            return False
        self._counts[one] += 1
        return True

    def leave(self, one: Hashable) -> None:
        """Subtract one."""
        self._counts[one] -= 1
        if not self._counts[one]:
            del self._counts[one]


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
        self._addresses = ConnectionLimits(BY_ADDRESS_MAX)
        self._all = ConnectionLimits(CONNECTIONS_MAX)
        try:
            family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((address, port), family=family, backlog=CONNECTIONS_MAX)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            remedy = "name an address of this host and a free port"
            raise UserError(f"listener: {address} port {port}: {reason}; {remedy}") from error
        self._socket.setblocking(False)
        self._workers = ThreadPoolExecutor(CONNECTIONS_MAX, "plan request")
        self._loop = asyncio.new_event_loop()
        self._accepting = self._loop.create_task(self._accept())
        self._thread = Thread(target=self._run, name="plan listener", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The listening port."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Accept no more connections, and close those that are open."""
        self._loop.call_soon_threadsafe(self._accepting.cancel)
        self._thread.join()
        self._socket.close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), closing(self._loop):
            self._loop.run_until_complete(self._accepting)

    async def _accept(self) -> None:
        """Accept connections until this is cancelled."""
        async with asyncio.TaskGroup() as conversations:
            while True:
                await self._readable()
                try:
                    connected, (address, *_) = self._socket.accept()
                    connected.setblocking(False)
                except (BlockingIOError, ConnectionAbortedError):
                    continue  # the client has gone
                except OSError as error:
                    _log.warning("a connection could not be taken: %s", error)
                    await asyncio.sleep(PAUSE_S)  # most likely too many open files: a passing problem
                    continue
                if not self._addresses.enter(address):
                    connected.close()
                elif not self._all.enter(None):
                    connected.close()
                    self._addresses.leave(address)
                else:
                    conversations.create_task(self._attend(connected, address))

    async def _readable(self) -> None:
        """Wait for a connection, at least a turn of the loop: `sock_accept` may fail if it is cancelled meanwhile."""
        connects = asyncio.Event()
        self._loop.add_reader(self._socket, connects.set)
        try:
            await connects.wait()
        finally:
            self._loop.remove_reader(self._socket)

    async def _attend(self, connected: socket.socket, address: str) -> None:
        """Answer the request of a connection, and close it."""
        try:
            with connected:
                await self._converse(connected)
        except VersionError as error:
            self._log_version(str(error))
        except (MessageError, OSError) as error:
            _log.debug("a plan request was not answered: %s", error)
        except Exception:  # a failure of one request must not affect others
            _log.exception("a plan request failed")
        finally:
            self._addresses.leave(address)
            self._all.leave(None)

    async def _converse(self, connected: socket.socket) -> None:
        """Read a request and answer it, once the client has proved a key; beyond a rate by its header alone.

        Raises:
            MessageError: it is not to be answered.
            OSError: the client is too slow, or gone.
        """
        sent = challenge(secrets.token_bytes(NONCE_BYTES), sealed=self._encrypt)
        async with asyncio.timeout(AUTHENTICATION_S):
            await self._loop.sock_sendall(connected, sent)
            content = await self._read(connected, _HEADER_BYTES)
        request = content[: REQUEST.size]
        header, key = self._authenticate(sent, request, content[REQUEST.size :])
        if not self._attempts.enter(header.attempt):
            raise MessageError(f"more than {BY_ATTEMPT_MAX} requests of {header.attempt} at a time")
        try:
            if not self._allows(header.attempt, header.length):
                async with asyncio.timeout(REQUEST_S):
                    await self._loop.sock_sendall(connected, answer(key, sent, request, Status.BUSY))
                    await self._read(connected, header.length)  # otherwise its bytes would reset the connection
                return
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(REQUEST_S):
                body = await self._read(connected, header.length)
            reply = await self._loop.run_in_executor(self._workers, self._answer, key, sent, request, header, body)
            async with asyncio.timeout(REQUEST_S):
                await self._loop.sock_sendall(connected, reply)
        finally:
            self._attempts.leave(header.attempt)

    async def _read(self, connected: socket.socket, length: int) -> bytes:
        """Return this many bytes; raises `OSError` if the peer has closed the connection."""
        content = bytearray()
        while len(content) < length:
            part = await self._loop.sock_recv(connected, min(length - len(content), _PART_BYTES))
            if not part:
                raise OSError("the other end is gone")
            content += part
        return bytes(content)

    def _authenticate(self, challenge_sent: bytes, request: bytes, mac: bytes) -> tuple[Header, bytes]:
        """Return the header and the proven key.

        Raises:
            MessageError: the client does not know a key.
        """
        header = read_header(request)
        key = self._keys.find(header.attempt, header.key_number)
        # Without a key the same computation runs, so that response times do not reveal which attempts exist.
        expected = code(key or bytes(MAC_BYTES), challenge_sent, request)
        if not hmac.compare_digest(expected, mac) or key is None:
            raise MessageError("the client does not know the key")
        if header.sealed and not self._can_seal:
            raise MessageError("a sealed request, where nothing can be sealed")
        return header, key

    def _log_version(self, text: str) -> None:
        # Once per version, of which there are 255, so that clients cannot fill the log.
        if text not in self._logged_versions:
            self._logged_versions.add(text)
            _log.warning("%s", text)

    def _answer(self, key: bytes, challenge_sent: bytes, request: bytes, header: Header, body: bytes) -> bytes:
        """Return the answer to an authenticated request; may wait for the planner."""
        try:
            check_body(header, body)
            if header.sealed != self._encrypt:
                raise MessageError("a body that is sealed where it must not be, or is not where it must")
            if header.sealed:
                body = unseal(key, Direction.REQUEST, challenge_sent, header.nonce, body)
            status, content = self._serve(header, body)
        except MessageError as error:
            _log.info("a request of %s is refused: %s", header.attempt, error)
            status, content = Status.REFUSED, b""
        return answer(key, challenge_sent, request, status, content)


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
