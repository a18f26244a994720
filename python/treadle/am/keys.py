"""The keys of application attempts, each known to the attempt, the ResourceManager and us alone."""

from __future__ import annotations

from threading import Lock
from typing import Final, NamedTuple

KEY_BYTES: Final = 32

NUMBERS_MAX: Final = 2
"""Keys kept of an attempt: after the ResourceManager has rolled its master key over, the one before is still used."""

ATTEMPTS_MAX: Final = 100_000
"""Attempts whose keys are kept; the oldest is dropped first."""


class Attempt(NamedTuple):
    """An application attempt, by YARN's numbers."""

    cluster_timestamp: int
    application: int
    attempt: int


class KeyRing:
    """Keys by attempt and number. For several threads. Never shown, and not written anywhere."""

    def __init__(self) -> None:
        self._keys: dict[Attempt, dict[int, bytes]] = {}
        self._lock = Lock()

    def give(self, attempt: Attempt, number: int, key: bytes) -> None:
        """Keep a key of `KEY_BYTES` bytes."""
        with self._lock:
            keys = self._keys.setdefault(attempt, {})
            keys.pop(number, None)
            keys[number] = key
            while len(keys) > NUMBERS_MAX:
                del keys[next(iter(keys))]
            while len(self._keys) > ATTEMPTS_MAX:
                del self._keys[next(iter(self._keys))]

    def forget(self, attempt: Attempt) -> None:
        """Forget the keys of an attempt that has ended."""
        with self._lock:
            self._keys.pop(attempt, None)

    def find(self, attempt: Attempt, number: int) -> bytes | None:
        """Return a key; None if it is not known."""
        with self._lock:
            return self._keys.get(attempt, {}).get(number)

    def __len__(self) -> int:
        return len(self._keys)
