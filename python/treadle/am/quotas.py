"""Quotas for untrusted users: cached data, requests and bytes of each, and a fair order of requests."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Final, Generic, NamedTuple, TypeVar

from treadle.am.protocol import Attempt
from treadle.processes import Bucket, Rate

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

THING_BYTES: Final = 1_024
"""Minimum size charged for an item, which bounds their number."""


class Bounds(NamedTuple):
    """Maximum number of bytes and of items."""

    each: int
    user: int
    all: int
    things: int = 2**31


class QuotaCache(Generic[K, V]):
    """A cache of items by key, each with a user and a size in bytes. Not thread-safe."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._entries: dict[K, tuple[str, int, V]] = {}
        self._users: dict[str, OrderedDict[K, None]] = {}
        """Each user's keys, least recently used first."""
        self._bytes: dict[str, int] = {}
        self.bytes = 0
        """Total size of all items."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return an item, which counts as a use; None if it is not cached."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._users[entry[0]].move_to_end(key)
        return entry[2]

    def put(self, key: K, user: str, value: V, size_bytes: int) -> bool:
        """Set the item of a key; if it is too large, remove the key and return False."""
        self.pop(key)
        size_bytes = max(size_bytes, THING_BYTES)
        if size_bytes > self._bounds.each:
            return False
        self._entries[key] = (user, size_bytes, value)
        self._users.setdefault(user, OrderedDict())[key] = None
        self._bytes[user] = self._bytes.get(user, 0) + size_bytes
        self.bytes += size_bytes
        while self._bytes.get(user, 0) > self._bounds.user:
            self._evict(user)
        while self.bytes > self._bounds.all or len(self._entries) > self._bounds.things:
            self._evict(max(self._bytes, key=self._bytes.__getitem__))
        return key in self._entries

    def pop(self, key: K) -> V | None:
        """Remove and return an item; None if it is not cached."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        user, size_bytes, value = entry
        del self._users[user][key]
        self._bytes[user] -= size_bytes
        self.bytes -= size_bytes
        if not self._users[user]:
            del self._users[user], self._bytes[user]
        return value

    def held_keys(self) -> list[tuple[K, V]]:
        """Return all items with their keys, in insertion order."""
        return [(key, value) for key, (_, _, value) in self._entries.items()]

    def users(self) -> set[str]:
        """Return the users with cached items."""
        return set(self._users)

    def _evict(self, user: str) -> None:
        self.pop(next(iter(self._users[user])))


REQUESTS: Final = Rate(40.0, 4.0)
"""Requests of an attempt; beyond, the answer is `BUSY`."""

ATTEMPT_BYTES: Final = Rate(512 << 10, 48 << 10)
USER_BYTES: Final = Rate(2 << 20, 128 << 10)
ALL_BYTES: Final = Rate(8 << 20, 512 << 10)
"""Bytes. A report of 1,000 tasks that ended is 45,000 bytes."""

ATTEMPTS_MAX: Final = 10_000
USERS_MAX: Final = 10_000
"""Maximum number of attempts and users with a stored rate; the least recently active is dropped first."""


class Rates:
    """Current request and byte allowances of each attempt. Thread-safe."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._attempts: OrderedDict[Attempt, tuple[Bucket, Bucket]] = OrderedDict()
        """Requests and bytes of each."""
        self._users: OrderedDict[str, Bucket] = OrderedDict()
        self._all = Bucket(ALL_BYTES, clock_s())
        self._lock = Lock()
        self.refused = 0
        """Number of requests beyond a rate so far."""

    def allows(self, attempt: Attempt, user: str, size_bytes: int) -> bool:
        """Count a request with a body of so many bytes; return whether it is within all rates.

        A rejected one counts as a request of its attempt only.
        """
        now_s = self._clock_s()
        with self._lock:
            both = self._attempts.pop(attempt, None)
            requests, own = both or (Bucket(REQUESTS, now_s), Bucket(ATTEMPT_BYTES, now_s))
            of_user = self._users.pop(user, None) or Bucket(USER_BYTES, now_s)
            self._attempts[attempt], self._users[user] = (requests, own), of_user
            in_bytes = min(each.left(now_s) for each in (own, of_user, self._all)) >= size_bytes
            in_requests = requests.left(now_s) >= 1.0
            requests.take(1.0 if in_requests else 0.0)
            allowed = in_requests and in_bytes
            for each in (own, of_user, self._all):
                each.take(size_bytes if allowed else 0)
            self.refused += not allowed
            while len(self._attempts) > ATTEMPTS_MAX:
                self._attempts.popitem(last=False)
            while len(self._users) > USERS_MAX:
                self._users.popitem(last=False)
        return allowed


T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """A queue that serves users in turn, without duplicate items. Not thread-safe."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """By user, the next one first."""

    def __bool__(self) -> bool:
        return bool(self._users)

    def put(self, user: str, thing: T) -> None:
        """Add an item of a user unless it is already waiting."""
        self._users.setdefault(user, OrderedDict()).setdefault(thing)

    def pop(self) -> tuple[str, T]:
        """Remove and return the next user and that user's oldest item.

        Raises:
            KeyError: the queue is empty.
        """
        user, waiting = self._users.popitem(last=False)
        thing, _ = waiting.popitem(last=False)
        if waiting:
            self._users[user] = waiting
        return user, thing

    def discard(self, user: str, thing: T) -> None:
        """Remove an item."""
        waiting = self._users.get(user)
        if waiting is not None:
            waiting.pop(thing, None)
            if not waiting:
                del self._users[user]

    def clear(self) -> None:
        """Remove all items."""
        self._users.clear()


HALF_LIFE_S: Final = 60.0
"""Half-life of a user's past time, in seconds."""

WAITING_MAX: Final = 4
"""Maximum number of waiting requests of a user; further ones are rejected at once."""


class FairScheduler:
    """Lets one thread at a time proceed, users in turn. Thread-safe."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._changed = Condition()
        self._recent: dict[str, tuple[float, float]] = {}
        """Seconds of each user, and when they were updated."""
        self._waiting: dict[int, str] = {}
        """Users by ticket, in order of arrival."""
        self._tickets = 0
        self._busy = False

    @contextmanager
    def turn(self, user: str, wait_s: float) -> Iterator[bool]:
        """Wait for a user's turn; yields False after a timeout, without the turn."""
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
        return min(self._waiting, key=lambda ticket: (self.recent_s(self._waiting[ticket]), ticket))

    def recent_s(self, user: str) -> float:
        """Return a user's recent seconds, exponentially decayed."""
        had_s, at_s = self._recent.get(user, (0.0, 0.0))
        return had_s * float(2.0 ** (-max(self._clock_s() - at_s, 0.0) / HALF_LIFE_S))

    def _end(self, user: str, took_s: float) -> None:
        with self._changed:
            self._recent[user] = (self.recent_s(user) + took_s, self._clock_s())
            if len(self._recent) > USERS_MAX:
                del self._recent[min(self._recent, key=self.recent_s)]
            self._busy = False
            self._changed.notify_all()
