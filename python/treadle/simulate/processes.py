"""Processes that run simulations beside the one that wants the results."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

DIED: Final = "look whether the machine ran out of memory, and use a smaller --jobs"
"""What to do where a process has ended without an answer."""

_SAFE_PATH: Final = "PYTHONSAFEPATH"

R = TypeVar("R")


@contextmanager
def processes(count: int, begin: Callable[..., None], *given: Any) -> Iterator[ProcessPoolExecutor]:
    """Yield processes for `submitted`; left by an exception, as Ctrl-C is one, they end at once.

    Args:
        count: how many at most
        begin: called in each before anything else
        given: what it is called with
    """
    before = set(multiprocessing.active_children())
    safe_before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"  # each begins by importing modules: none of the current folder
    # a fork of a process with threads may hang
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), begin, given)
    whole = False
    try:
        yield pool
        whole = True
    finally:
        pool.shutdown(wait=whole, cancel_futures=True)
        os.environ.pop(_SAFE_PATH)
        os.environ.update({} if safe_before is None else {_SAFE_PATH: safe_before})
        if not whole:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()


def submitted(pool: ProcessPoolExecutor, call: Callable[..., R], *given: Any) -> Future[R]:
    """Have a process call a function.

    One that is started for that does not hear of Ctrl-C, not even while it starts: that goes to all processes of a
    terminal, and the one that waits for these ends them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(call, *given)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
