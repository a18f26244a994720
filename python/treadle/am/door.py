"""Connections until they have shown a key: one thread for all of them, so that those turned away cost little.

A client gets a challenge and has a limited time to answer with a header, which decides what follows: the connection is
handed on to a thread that may wait, or it is answered here. What the client still sends is then discarded, so that it
receives the answer.
"""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Final, NamedTuple

_log = logging.getLogger(__name__)

IDLE_S: Final = 1.0
"""While nobody is connected the thread looks up so often, should the system not report that the port was closed."""

PAUSE_S: Final = 0.1
"""Pause before the next connection when the system has no more file descriptors or threads."""

_DROPPED: Final = 1 << 16


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


class TurnedAway(NamedTuple):
    """The answer to a connection that is refused."""

    answer: bytes
    length: int
    """Bytes that it still sends; they are discarded."""
    seconds: float
    """How long it has for them."""
    leave: Callable[[], None]
    """Is called when the connection has ended."""


class Guest:
    """A connection, and what it has said so far."""

    __slots__ = ("address", "content", "deadline_s", "said", "socket", "turned")

    def __init__(self, connected: socket.socket, address: str, said: bytes, deadline_s: float) -> None:
        self.socket = connected
        self.address = address
        self.said = said
        """The challenge."""
        self.deadline_s = deadline_s
        self.content = b""
        self.turned: TurnedAway | None = None


Judge = Callable[[Guest], TurnedAway | None]
"""Takes a guest whose header is there; None: it was handed on. A guest at whom it raises `OSError` is closed."""


class Door:
    """Takes connections until `close`. All of it is for the one thread that calls `attend`, but for `leave`."""

    def __init__(
        self,
        listening: socket.socket,
        greet: Callable[[], bytes],
        judge: Judge,
        *,
        header_bytes: int,
        seconds: float,
        most: int,
        by_address_max: int,
    ) -> None:
        """Take a socket that listens.

        Args:
            listening: the socket
            greet: makes a challenge
            judge: decides what happens to a connection
            header_bytes: how long a header is
            seconds: how long a connection has for it
            most: connections at a time, those handed on too; others are closed as they come
            by_address_max: the same of one address
        """
        listening.setblocking(False)
        self._listening = listening
        self._greet = greet
        self._judge = judge
        self._header_bytes = header_bytes
        self._seconds = seconds
        self._most = most
        self._all = Crowd(most)
        self._addresses = Crowd(by_address_max)
        self._guests: set[Guest] = set()
        """Those that were not handed on."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._dropped = bytearray(_DROPPED)

    def attend(self, closed: Callable[[], bool]) -> None:
        """Take connections until ``closed``."""
        with self._selector:
            while not closed():
                for ready, _ in self._selector.select(self._wait_s()):
                    if ready.data is None:
                        self._accept(closed)
                    else:
                        self._hear(ready.data)
                now_s = time.monotonic()
                for guest in [guest for guest in self._guests if guest.deadline_s <= now_s]:
                    self._end(guest)
            for guest in list(self._guests):
                self._end(guest)

    def leave(self, address: str) -> None:
        """Take that a connection has ended that was handed on. For any thread."""
        self._addresses.leave(address)
        self._all.leave(None)

    def _wait_s(self) -> float:
        first_s = min((guest.deadline_s for guest in self._guests), default=float("inf"))
        return min(max(first_s - time.monotonic(), 0.0), IDLE_S)

    def _accept(self, closed: Callable[[], bool]) -> None:
        for _ in range(self._most):
            try:
                connected, (address, *_) = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not closed():
                    _log.warning("a connection could not be taken: %s", error)
                    time.sleep(PAUSE_S)  # too many open files, most likely: that passes
                return
            if not self._addresses.enter(address):
                connected.close()
            elif not self._all.enter(None):
                connected.close()
                self._addresses.leave(address)
            else:
                self._welcome(connected, address)

    def _welcome(self, connected: socket.socket, address: str) -> None:
        connected.setblocking(False)
        guest = Guest(connected, address, self._greet(), time.monotonic() + self._seconds)
        self._guests.add(guest)
        self._selector.register(connected, selectors.EVENT_READ, guest)
        try:
            connected.send(guest.said)
        except OSError as error:
            _log.debug("a plan request was not answered: %s", error)
            self._end(guest)

    def _hear(self, guest: Guest) -> None:
        try:
            if guest.turned is not None:
                self._drop(guest, guest.turned)
                return
            part = guest.socket.recv(self._header_bytes - len(guest.content))
            if not part:
                raise OSError("the other end is gone")
            guest.content += part
            if len(guest.content) == self._header_bytes:
                self._decide(guest)
        except BlockingIOError:
            return
        except OSError as error:
            _log.debug("a plan request was not answered: %s", error)
            self._end(guest)
        except Exception:  # one request's failure is no concern of others
            _log.exception("a plan request failed")
            self._end(guest)

    def _decide(self, guest: Guest) -> None:
        self._selector.unregister(guest.socket)
        turned = self._judge(guest)
        if turned is None:
            self._guests.remove(guest)
            return
        guest.turned, guest.deadline_s = turned, time.monotonic() + turned.seconds
        self._selector.register(guest.socket, selectors.EVENT_READ, guest)
        guest.socket.send(turned.answer)
        if not turned.length:
            self._end(guest)

    def _drop(self, guest: Guest, turned: TurnedAway) -> None:
        count = guest.socket.recv_into(self._dropped, min(turned.length, _DROPPED))
        guest.turned = turned._replace(length=turned.length - count)
        if not count or not guest.turned.length:
            self._end(guest)

    def _end(self, guest: Guest) -> None:
        self._guests.remove(guest)
        try:
            self._selector.unregister(guest.socket)
        except KeyError:
            _log.debug("a connection ends while it is judged")
        guest.socket.close()
        if guest.turned is not None:
            guest.turned.leave()
        self.leave(guest.address)
