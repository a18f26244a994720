"""How processes leave a host's processor and memory to the engine, and how much memory one has used."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

RELAXED_THRESHOLDS: Final = (100_000, 50, 1_000)
"""When Python looks for garbage where nearly all that is made stays, or is gone without looking."""


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Let Python look for garbage rarely while the context lasts."""
    before = gc.get_threshold()
    gc.set_threshold(*RELAXED_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def peak_memory_mb() -> float:
    """Return the most memory (MB) that this process has had resident since its program began.

    `getrusage` does not show that: after fork and exec, its `ru_maxrss` begins with what the parent had.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


LISTENER: Final = 10
"""Of who serves application masters, which wait: a tenth of a processor that another one wants too."""

LEAST: Final = 19
"""Of what nobody waits for: as little of a processor as can be."""

FIRST: Final = 900
"""Of the process that the kernel is to end first when memory runs out; 0 is usual, 1,000 the most."""


def raise_priority() -> None:
    """Let the kernel end this process, and those that it starts, before others when memory runs out.

    A part of a user's may take all memory of the ResourceManager's host: then the sidecar has to go.
    """
    with suppress(OSError, ValueError):  # there may be no such file
        path = Path("/proc/self/oom_score_adj")
        if int(path.read_text("ascii")) < FIRST:
            path.write_text(f"{FIRST}\n", "ascii")


def lower_priority(nice: int) -> None:
    """Let others on the processor first, where the system can do that; for all threads begun afterwards too.

    Only within a session: some kernels share processors out between sessions first (`sched_autogroup_enabled`). So a
    process that is to give way to the one that starts it must not have a session of its own.
    """
    with suppress(OSError, AttributeError):
        os.nice(nice)
    with suppress(OSError, AttributeError):
        # It interrupts nobody when it wakes up, as it does at each connection.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
