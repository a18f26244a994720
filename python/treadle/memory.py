"""How much memory a process has used, and how often Python looks for garbage in it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

RARE_THRESHOLDS: Final = (100_000, 50, 1_000)
"""When Python looks for garbage where nearly all that is made stays, or is gone without looking."""


@contextmanager
def garbage_sought_rarely() -> Iterator[None]:
    """Let Python look for garbage rarely while the context lasts."""
    before = gc.get_threshold()
    gc.set_threshold(*RARE_THRESHOLDS)
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
