"""Stops custom parts that take too long; a trial and a simulation only measure them.

The watchdog's thread raises an exception in Python code. Code that does not return to the interpreter (a call into C
that never returns, with or without the interpreter's lock) cannot be stopped that way: a timer in C, which needs no
lock, writes the stack to a file and ends the process. The ResourceManager restarts the sidecar, which finds the file
(`treadle.live.policies`).
"""

from __future__ import annotations

import ctypes
import faulthandler
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from treadle.config.part_files import PartStoppedError

T = TypeVar("T")

GRACE: Final = 2.0
"""Code that still runs after this multiple of its limit ends the process."""

IDLE_S: Final = 10.0
"""The watching thread ends after this idle time, in seconds."""

ENDLESS_S: Final = 60.0
"""A call longer than this, in seconds, counts as endless where no other limit applies."""


class Watchdog:
    """Runs functions on one thread, and stops those that exceed a time budget."""

    def __init__(self, limit_s: float, stuck: int | None = None) -> None:
        """Create a watchdog.

        Args:
            limit_s: the budget between two calls of `begin`, in seconds
            stuck: descriptor of the file for unstoppable code; without it the process never ends
        """
        self.limit_s = limit_s
        self._stuck = stuck
        self._left_s = limit_s
        self._condition = threading.Condition()
        self._monitor: threading.Thread | None = None
        self._deadline: float | None = None
        self._wakes_at: float | None = None
        """When the watching thread checks next (s); None: when it is woken."""
        self._thread = 0
        self._fired = False

    def follow(self, limit_s: float, stuck: int | None) -> None:
        """Use another budget and another file from now on."""
        self.limit_s, self._stuck = limit_s, stuck
        self.begin()

    def begin(self) -> None:
        """Start a cycle: the following functions share a budget."""
        self._left_s = self.limit_s

    def __call__(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns.

        Raises:
            PartStoppedError: the budget is used up; the function called instead gets a new one.
        """
        began = time.monotonic()
        try:
            if self._left_s <= 0:
                raise PartStoppedError
            self._arm(began)
            try:
                return function()
            finally:
                self._disarm_surely()
                self._left_s -= time.monotonic() - began
        except PartStoppedError:
            self.begin()
            raise

    def _arm(self, now: float) -> None:
        with self._condition:
            self._deadline = now + self._left_s
            self._thread = threading.get_ident()
            self._fired = False
            if self._monitor is None:
                self._monitor = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._monitor.start()
            if self._wakes_at is None or self._deadline < self._wakes_at:
                self._condition.notify()  # not for each call: waking a thread costs more than most calls
        if self._stuck is not None:
            faulthandler.dump_traceback_later(self._left_s * GRACE, exit=True, file=self._stuck)

    def _disarm_surely(self) -> None:
        """Stop watching, even if the exception arrives just now."""
        while True:
            try:
                self._disarm()
            except PartStoppedError:  # it is raised once at most
                continue
            return

    def _disarm(self) -> None:
        if self._stuck is not None:
            faulthandler.cancel_dump_traceback_later()
        with self._condition:
            self._deadline = None
            if self._fired:
                # A pending exception must not be raised in code outside the part.
                self._fired = False
                _raise_in(self._thread, None)

    def _run(self) -> None:
        with self._condition:
            while True:
                if self._deadline is None:
                    self._wakes_at = None
                    if not self._condition.wait(IDLE_S) and self._deadline is None:
                        self._monitor = None
                        return
                    continue
                left = self._deadline - time.monotonic()
                if left > 0:
                    self._wakes_at = self._deadline
                    self._condition.wait(left)
                    continue
                self._deadline = None
                self._fired = True
                _raise_in(self._thread, PartStoppedError)


class Endless:
    """Stops endless calls in simulations and replays, where parts have no other time limit."""

    def __init__(self, limit_s: float = 0.0) -> None:
        """Stop calls that exceed both a limit, in seconds, and `ENDLESS_S`."""
        self._watchdog = Watchdog(max(limit_s, ENDLESS_S))

    def __call__(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns.

        Raises:
            PartStoppedError: it took too long.
        """
        self._watchdog.begin()
        return self._watchdog(function)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Schedule an exception in a thread for when it next runs Python code; None cancels a pending one."""
    raised = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


@dataclass(slots=True)
class PartTimes:
    """Wall-clock times of custom parts; a live engine stops them after `limits.part_timeout_ms` per cycle."""

    total_s: float = 0.0
    decides: int = 0
    """Number of cycles with a call."""
    too_slow: int = 0
    """Number of cycles in which a live engine would have stopped them."""
    slowest_s: float = 0.0
    slowest_at_ms: int = 0

    def warning(self, timeout_ms: int, clock: str = " of simulated time") -> str:
        """Return a warning for the user; empty if they were fast enough."""
        if not self.too_slow:
            return ""
        return (
            f"parts from files took longer than limits.part_timeout_ms ({timeout_ms} ms) in {self.too_slow} of "
            f"{self.decides} decisions, {1000 * self.slowest_s:.0f} ms at {self.slowest_at_ms / 1000:g} s{clock}; "
            "a live engine stops them there, and another policy takes over: do less, or raise the limit"
        )


class Stopwatch:
    """Runs parts without a limit, except for endless calls, and measures them.

    Implements `treadle.policy.user_parts.Watch`.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """Compare each cycle with a limit, in seconds."""
        self.times = PartTimes()
        self.longest_call_s = 0.0
        self._limit_s, self._clock = limit_s, clock
        self._endless = Endless(limit_s)
        self._in_decide_s, self._called, self._at_ms = 0.0, False, 0

    def begin(self, at_ms: int) -> None:
        """Start a cycle at a time in ms; ends the previous one."""
        self.end()
        self._at_ms = at_ms

    def end(self) -> None:
        """Count the current cycle, which ends."""
        if self._called:
            times, took_s = self.times, self._in_decide_s
            times.decides += 1
            times.total_s += took_s
            times.too_slow += took_s > self._limit_s
            if took_s > times.slowest_s:
                times.slowest_s, times.slowest_at_ms = took_s, self._at_ms
        self._in_decide_s, self._called = 0.0, False

    def __call__(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns.

        Raises:
            PartStoppedError: it was endless.
        """
        began = self._clock()
        try:
            return self._endless(function)
        finally:
            took_s = self._clock() - began
            self._in_decide_s += took_s
            self._called = True
            self.longest_call_s = max(self.longest_call_s, took_s)
