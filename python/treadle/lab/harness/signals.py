"""What signals do while clusters and simulations run: end them on the way out, or wait until they are stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM while a cluster is being stopped (in the main thread; elsewhere none arrive).

    By a handler: processes that are started meanwhile would inherit SIG_IGN, and a JVM then heeds no SIGTERM ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what runs as Ctrl-C does: by an exception, so that its processes are ended on the way.

    One that is ignored, as SIGHUP below nohup, stays so. In the main thread; elsewhere no signal arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
