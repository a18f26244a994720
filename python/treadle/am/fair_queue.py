"""Things that wait, taken from each user in turn: nobody's many keep another's few waiting."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

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
