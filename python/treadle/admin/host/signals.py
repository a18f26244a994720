"""Signals that end an installation: at once where it takes long, else between two steps, and never half-way back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal has come. Not an Exception: nobody carries on after it."""

    def __init__(self, number: int) -> None:
        """``number`` is the signal's."""
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Signals:
    """Takes the signals of `ENDING` while it is entered; outside the main thread it takes none."""

    def __init__(self) -> None:
        """Take none yet."""
        self._came = 0
        self._at_once = self._settled = False
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Signals:
        """Take them. One that is ignored already, as SIGHUP below nohup, stays so."""
        if threading.current_thread() is threading.main_thread():
            for each in ENDING:
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._come)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give them back to the handlers from before."""
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()

    def _come(self, number: int, _: FrameType | None) -> None:
        if not self._settled:
            self._came = self._came or number
            if self._at_once:
                self.check()

    def check(self) -> None:
        """Let a signal that has come end what is under way.

        Raises:
            Stopped: one has come.
        """
        if self._came and not self._settled:
            self._settled = True
            raise Stopped(self._came)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end what is done in here wherever that is."""
        self._at_once = True
        try:
            self.check()
            yield
        finally:
            self._at_once = False

    def settle(self) -> None:
        """Pass over what comes from now on: what was done stays, or is being taken back."""
        self._settled = True
