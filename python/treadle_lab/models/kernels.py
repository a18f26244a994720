"""Compiled functions of the models, their runs on all cores, their tables, and a heap of events.

Events are in order of their time and, at the same instant, in the order in which they were scheduled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar, get_type_hints

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8
from treadle.compiled.functions import cache_folder, compiled_in, inner

__all__ = ["inner", "kernel"]


F = TypeVar("F", bound=Callable[..., Any])

FOLDER: Final = cache_folder("models", ("treadle_lab.models",))


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled_in(FOLDER, function)


T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with (runs done, all runs)."""


def on_all_cores(call: Callable[[T], R], items: Sequence[T], progress: Progress | None = None) -> list[R]:
    """Return what a function returns for each item, whose compiled code runs without Python's lock."""
    results: list[R] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for one in pool.map(call, items):
                results.append(one)
                if progress is not None:
                    progress(len(results), len(items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return results


_KINDS: Final[Mapping[Any, Any]] = {U8: np.uint8, I32: np.int32, I64: np.int64, F64: np.float64}


def blank(kind: Callable[..., T], sizes: Mapping[str, int], **given: Any) -> T:
    """Return tables: the given columns, and all others of zeros, by the names of sizes in their annotations."""
    hints = get_type_hints(kind, include_extras=True)
    zeros = {
        name: np.zeros([sizes[each] for each in hint.__metadata__], _KINDS[hint.__origin__])
        for name, hint in hints.items()
        if name not in given
    }
    return kind(**zeros, **given)


class Tables(Protocol):
    """The tables that an event queue needs, empty at first, and its own counters in ``totals``."""

    @property
    def totals(self) -> I64:
        """Counters, starting with `Queued`."""

    @property
    def event_s(self) -> F64:
        """When each event happens."""

    @property
    def event_order(self) -> I64:
        """Sequence number of each event by scheduling order."""

    @property
    def event_kind(self) -> I32:
        """Kind of each event."""

    @property
    def event_subject(self) -> I32:
        """To whom."""


class Queued(IntEnum):
    """Places of the queue's own counters in `totals` of the tables that it is part of."""

    EVENTS = 0
    ORDER = 1


@inner
def random_below(states: I64, at: int, bound: int) -> int:
    """Return the next random number from 0 to below a bound, at most 2^31, by the state at a place: xorshift64*."""
    value = states[at]
    value ^= (value >> 12) & 0xFFFFFFFFFFFFF
    value ^= value << 25
    value ^= (value >> 27) & 0x1FFFFFFFFF
    states[at] = value
    high = ((value * 2685821657736338717) >> 33) & 0x7FFFFFFF
    return (high * bound) >> 31


@inner
def schedule(run: Tables, time_s: float, kind: int, subject: int) -> None:
    """Schedule an event."""
    at = run.totals[Queued.EVENTS]
    order = run.totals[Queued.ORDER]
    run.totals[Queued.EVENTS] = at + 1
    run.totals[Queued.ORDER] = order + 1
    while at > 0:
        above = (at - 1) >> 1
        if run.event_s[above] <= time_s:
            break
        _move(run, above, at)
        at = above
    run.event_s[at] = time_s
    run.event_order[at] = order
    run.event_kind[at] = kind
    run.event_subject[at] = subject


@inner
def remove_first(run: Tables) -> None:
    """Take the first event away; there is one."""
    last = run.totals[Queued.EVENTS] - 1
    run.totals[Queued.EVENTS] = last
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and _earlier(run, below + 1, below):
            below += 1
        if not _earlier(run, below, last):
            break
        _move(run, below, at)
        at = below
    _move(run, last, at)


@inner
def _earlier(run: Tables, a: int, b: int) -> bool:
    if run.event_s[a] != run.event_s[b]:
        return run.event_s[a] < run.event_s[b]
    return run.event_order[a] < run.event_order[b]


@inner
def _move(run: Tables, here: int, there: int) -> None:
    run.event_s[there] = run.event_s[here]
    run.event_order[there] = run.event_order[here]
    run.event_kind[there] = run.event_kind[here]
    run.event_subject[there] = run.event_subject[here]
