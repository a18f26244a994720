"""What is kept for users who are not trusted: so much of each thing, of each user, and in all.

When there is no more room the user who takes most makes it, with what was used least recently. So a user who fills the
room loses what is his own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

THING_BYTES: Final = 1_024
"""What a thing takes at the least, so that their number is bounded too."""


class Bounds(NamedTuple):
    """How many bytes may be kept, and how many things."""

    each: int
    user: int
    all: int
    things: int = 2**31


class Keeping(Generic[K, V]):
    """Things by key, each some user's and some bytes large. Not for several threads at a time."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._things: dict[K, tuple[str, int, V]] = {}
        self._users: dict[str, OrderedDict[K, None]] = {}
        """Each user's keys, the one used least recently first."""
        self._bytes: dict[str, int] = {}
        self.bytes = 0
        """Of all things."""
        self.evicted = 0
        """Things that made room for others so far."""

    def __len__(self) -> int:
        return len(self._things)

    def __contains__(self, key: K) -> bool:
        return key in self._things

    def get(self, key: K) -> V | None:
        """Return a thing, which counts as used; None if it is not kept."""
        found = self._things.get(key)
        if found is None:
            return None
        self._users[found[0]].move_to_end(key)
        return found[2]

    def put(self, key: K, user: str, value: V, size_bytes: int) -> bool:
        """Keep a thing in place of what the key had; False, and nothing is kept under the key, if it is too large."""
        self.pop(key)
        size_bytes = max(size_bytes, THING_BYTES)
        if size_bytes > self._bounds.each:
            return False
        self._things[key] = (user, size_bytes, value)
        self._users.setdefault(user, OrderedDict())[key] = None
        self._bytes[user] = self._bytes.get(user, 0) + size_bytes
        self.bytes += size_bytes
        while self._bytes.get(user, 0) > self._bounds.user:
            self._evict(user)
        while self.bytes > self._bounds.all or len(self._things) > self._bounds.things:
            self._evict(max(self._bytes, key=self._bytes.__getitem__))
        return key in self._things

    def pop(self, key: K) -> V | None:
        """Forget a thing and return it; None if it is not kept."""
        found = self._things.pop(key, None)
        if found is None:
            return None
        user, size_bytes, value = found
        del self._users[user][key]
        self._bytes[user] -= size_bytes
        self.bytes -= size_bytes
        if not self._users[user]:
            del self._users[user], self._bytes[user]
        return value

    def things(self) -> list[tuple[K, V]]:
        """Return all things with their keys, in the order in which they were put."""
        return [(key, value) for key, (_, _, value) in self._things.items()]

    def users(self) -> set[str]:
        """Return the users of whom something is kept."""
        return set(self._users)

    def bytes_of(self, user: str) -> int:
        """Return how many bytes a user's things take."""
        return self._bytes.get(user, 0)

    def _evict(self, user: str) -> None:
        self.evicted += 1
        self.pop(next(iter(self._users[user])))
