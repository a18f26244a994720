"""Whose turn it is: nobody's many keep another's few waiting."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Each thing waits once, however often it is put. Not for several threads at a time."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """By user, the one whose turn it is first."""

    def __bool__(self) -> bool:
        return bool(self._users)

    def put(self, user: str, thing: T) -> None:
        """Let a thing of a user wait, if it does not yet."""
        self._users.setdefault(user, OrderedDict()).setdefault(thing)

    def pop(self) -> tuple[str, T]:
        """Return the user whose turn it is and the thing of his that waits longest; it waits no more.

        Raises:
            KeyError: nothing waits.
        """
        user, waiting = self._users.popitem(last=False)
        thing, _ = waiting.popitem(last=False)
        if waiting:
            self._users[user] = waiting
        return user, thing

    def discard(self, user: str, thing: T) -> None:
        """Let a thing wait no more."""
        waiting = self._users.get(user)
        if waiting is not None:
            waiting.pop(thing, None)
            if not waiting:
                del self._users[user]

    def clear(self) -> None:
        """Let nothing wait any more."""
        self._users.clear()


HALF_LIFE_S: Final = 60.0
"""After this time half of what a user had counts."""

USERS_MAX: Final = 10_000
"""Users of whom is remembered what they had; the one who had least is forgotten first."""

WAITING_MAX: Final = 4
"""Requests of a user that may wait; one more is refused at once."""


class Turns:
    """Lets one thread at a time go on. For several threads."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._changed = Condition()
        self._had: dict[str, tuple[float, float]] = {}
        """Seconds of each user, and when that was."""
        self._waiting: dict[int, str] = {}
        """Users by ticket, in order of their coming."""
        self._tickets = 0
        self._busy = False

    @contextmanager
    def turn(self, user: str, wait_s: float) -> Iterator[bool]:
        """Wait for a turn of a user's; gives False if there was none in time, and then nobody may go on."""
        got = self._wait(user, wait_s)
        began_s = self._clock_s()
        try:
            yield got
        finally:
            if got:
                self._end(user, self._clock_s() - began_s)

    def _wait(self, user: str, wait_s: float) -> bool:
        with self._changed:
            if list(self._waiting.values()).count(user) >= WAITING_MAX:
                return False
            ticket = self._tickets = self._tickets + 1
            self._waiting[ticket] = user
            try:
                got = self._changed.wait_for(lambda: not self._busy and self._next() == ticket, wait_s)
                self._busy = self._busy or got
            finally:
                del self._waiting[ticket]
                self._changed.notify_all()
            return got

    def _next(self) -> int:
        """Return the ticket whose turn it is."""
        return min(self._waiting, key=lambda ticket: (self.had_s(self._waiting[ticket]), ticket))

    def waiting(self) -> list[str]:
        """Return the users who wait, as often as they do."""
        with self._changed:
            return list(self._waiting.values())

    def had_s(self, user: str) -> float:
        """Return the seconds that a user had recently, with older ones weighted less."""
        had_s, at_s = self._had.get(user, (0.0, 0.0))
        return had_s * float(2.0 ** (-max(self._clock_s() - at_s, 0.0) / HALF_LIFE_S))

    def _end(self, user: str, took_s: float) -> None:
        with self._changed:
            self._had[user] = (self.had_s(user) + took_s, self._clock_s())
            if len(self._had) > USERS_MAX:
                del self._had[min(self._had, key=self.had_s)]
            self._busy = False
            self._changed.notify_all()
