"""How much memory the plan listener's process keeps: what is free goes back to the system, and there is an end."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psutil

MEMORY_MAX: Final = 2 << 30
"""Resident bytes; a process that has more ends, and another one is started."""

TRIMMED_EVERY_S: Final = 5.0
TRIMMED_BYTES: Final = 256 << 20
"""While more than this is in use, what is free is given back so often; a process that has planned little uses less."""


def resident_bytes() -> int:
    """Return how much memory this process uses now."""
    return int(psutil.Process().memory_info().rss)


def trim() -> None:
    """Give free memory back to the system, where the C library can: it keeps what a plan took in passing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Memory:
    """Watches a process's memory."""

    def __init__(
        self,
        used: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = trim,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._used = used
        self._give_back = give_back
        self._clock_s = clock_s
        self._next_s = clock_s()

    def is_too_much(self) -> bool:
        """Give back what is free, if it is time; return whether more than `MEMORY_MAX` is in use even so."""
        used, now_s = self._used(), self._clock_s()
        if used > MEMORY_MAX or (used > TRIMMED_BYTES and now_s >= self._next_s):
            self._give_back()
            used = self._used()
            self._next_s = now_s + TRIMMED_EVERY_S
        return used > MEMORY_MAX
