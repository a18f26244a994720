"""Which application each of several engines tries next: queues, and back-off after conflicts.

An application waits in its owner's queue from when it asks for something, for its turn; the engine then decides on it,
and it is done, or joins the end of the queue again when its back-off is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from treadle.config.engines import Retry


class Phase(IntEnum):
    """Where an application stands with its engine."""

    IDLE = 0
    """It asks for nothing, or nobody serves it."""
    QUEUED = 1
    DECIDING = 2
    BACKING_OFF = 3


@dataclass(slots=True)
class Waiting:
    """An application that is active."""

    asks: int = 0
    """Containers that it asks for now."""
    phase: Phase = Phase.IDLE
    turn: int = 0
    """Changes with the phase: who remembers an older one comes too late."""
    asked_ms: int = -1
    """When it asked first; -1: it has not, or was tried since."""
    tried: bool = False
    attempts: int = 0
    """To get what it asks for now."""
    conflicts: int = 0
    """In a row, with nothing placed between them."""

    def enter(self, phase: Phase) -> int:
        """Go into a phase; return the turn."""
        self.phase = phase
        self.turn += 1
        return self.turn

    def succeeds(self) -> None:
        """Note that it has got all that it asked for."""
        self.attempts = self.conflicts = 0

    def conflicted(self, retry: Retry, placed: int) -> int:
        """Note a conflict; return for how long it backs off, in milliseconds."""
        self.conflicts = (0 if placed else self.conflicts) + 1
        doublings = min(self.conflicts - 1, 40)
        return min(retry.backoff_ms << doublings, retry.backoff_max_ms)


class Queue:
    """Applications of one engine, those first that have waited longest."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()

    def put(self, application: int, turn: int) -> None:
        """Put an application at the end; it stays in place as long as its turn does."""
        self._waiting.append((application, turn))

    def take(self, known: dict[int, Waiting], most: int) -> Iterator[int]:
        """Take at most ``most`` applications, all if 0, that still wait."""
        taken = 0
        while self._waiting and (taken < most or not most):
            application, turn = self._waiting.popleft()
            waiting = known.get(application)
            if waiting is not None and waiting.turn == turn:
                taken += 1
                yield application

    def __bool__(self) -> bool:
        return bool(self._waiting)
