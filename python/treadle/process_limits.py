"""Priorities of processes on the engine's host, for processor and memory, and their peak memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

RELAXED_THRESHOLDS: Final = (100_000, 50, 1_000)
"""Garbage collection thresholds for programs whose objects mostly persist, or are freed without a collection."""


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Collect garbage rarely during the context."""
    before = gc.get_threshold()
    gc.set_threshold(*RELAXED_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def peak_memory_mb() -> float:
    """Return the peak resident memory (MB) of this process since its program started.

    `getrusage` does not show that: after fork and exec, its `ru_maxrss` starts at the parent's value.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


LISTENER: Final = 10
"""Niceness of processes that serve waiting application masters: a tenth of a contended processor."""

LEAST: Final = 19
"""Niceness of background work: the minimum share of a processor."""

FIRST: Final = 900
"""OOM score of the process that the kernel should kill first; 0 is the default, 1,000 the maximum."""


def prefer_oom_kill() -> None:
    """Make the kernel kill this process and its children before others when memory runs out.

    A custom part may use all memory of the ResourceManager's host: then the sidecar must be killed first.
    """
    with suppress(OSError, ValueError):  # the file may be missing
        path = Path("/proc/self/oom_score_adj")
        if int(path.read_text("ascii")) < FIRST:
            path.write_text(f"{FIRST}\n", "ascii")


def lower_priority(nice: int) -> None:
    """Give other processes priority, where supported; applies to threads started later too.

    Only within a session: some kernels first share processors between sessions (`sched_autogroup_enabled`). So a
    process that is to yield to its parent must not have its own session.
    """
    with suppress(OSError, AttributeError):
        os.nice(nice)
    with suppress(OSError, AttributeError):
        # Waking up, as it does for each connection, preempts no other process.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
