"""What signals do while clusters and simulations run: end them on the way out, or wait until they are stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM while a cluster is being stopped (in the main thread; elsewhere none arrive).

    By a handler: processes that are started meanwhile would inherit SIG_IGN, and a JVM then heeds no SIGTERM ever.
    """
    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), lambda *_: None):
        yield


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what runs as Ctrl-C does: by an exception, so that its processes are ended on the way.

    One that is ignored, as SIGHUP below nohup, stays so. In the main thread; elsewhere no signal arrives.
    """
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    with _handling(numbers, signal.default_int_handler):
        yield


@contextmanager
def _handling(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Give signals a handler for a while; outside the main thread, to which no other may give any, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
