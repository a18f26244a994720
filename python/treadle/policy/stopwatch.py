"""How long parts from files take where nobody stops them: in a trial, and in a simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from treadle.policy.watchdog import Endless

T = TypeVar("T")


@dataclass(slots=True)
class PartTimes:
    """What parts from files took by the clock; a live engine stops them after `limits.part_timeout_ms` of a decide."""

    all_s: float = 0.0
    decides: int = 0
    """In which any was called."""
    too_slow: int = 0
    """Decides that a live engine would have stopped them in."""
    slowest_s: float = 0.0
    slowest_at_ms: int = 0

    def warning(self, timeout_ms: int, clock: str = " of simulated time") -> str:
        """Return what a user must know; empty if they were quick enough."""
        if not self.too_slow:
            return ""
        return (
            f"parts from files took longer than limits.part_timeout_ms ({timeout_ms} ms) in {self.too_slow} of "
            f"{self.decides} decisions, {1000 * self.slowest_s:.0f} ms at {self.slowest_at_ms / 1000:g} s{clock}; "
            "a live engine stops them there, and another policy takes over: do less, or raise the limit"
        )


class Stopwatch:
    """Runs the code of parts for as long as it takes, if it ever ends, and measures it.

    It is a `treadle.policy.user_parts.Watch`.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """Compare each decide with a limit."""
        self.times = PartTimes()
        self.longest_call_s = 0.0
        self._limit_s, self._clock = limit_s, clock
        self._endless = Endless(limit_s)
        self._in_decide_s, self._called, self._at_ms = 0.0, False, 0

    def begin(self, at_ms: int) -> None:
        """Begin a decide at an instant; the one before is over."""
        self.end()
        self._at_ms = at_ms

    def end(self) -> None:
        """Count the decide that is over."""
        if self._called:
            times, took_s = self.times, self._in_decide_s
            times.decides += 1
            times.all_s += took_s
            times.too_slow += took_s > self._limit_s
            if took_s > times.slowest_s:
                times.slowest_s, times.slowest_at_ms = took_s, self._at_ms
        self._in_decide_s, self._called = 0.0, False

    def __call__(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns.

        Raises:
            PartStoppedError: it never ends.
        """
        began = self._clock()
        try:
            return self._endless(function)
        finally:
            took_s = self._clock() - began
            self._in_decide_s += took_s
            self._called = True
            self.longest_call_s = max(self.longest_call_s, took_s)
