"""How processes that others may keep busy leave the processor to the engine, and the sidecar its memory to the host."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

LISTENER: Final = 10
"""Of who serves application masters, which wait: a tenth of a processor that another one wants too."""

LEAST: Final = 19
"""Of what nobody waits for: as little of a processor as can be."""

FIRST: Final = 900
"""Of the process that the kernel is to end first when memory runs out; 0 is usual, 1,000 the most."""


def go_first() -> None:
    """Let the kernel end this process, and those that it starts, before others when memory runs out.

    A part of a user's may take all memory of the ResourceManager's host: then the sidecar has to go.
    """
    with suppress(OSError, ValueError):  # there may be no such file
        path = Path("/proc/self/oom_score_adj")
        if int(path.read_text("ascii")) < FIRST:
            path.write_text(f"{FIRST}\n", "ascii")


def give_way(nice: int) -> None:
    """Let others on the processor first, where the system can do that; for all threads begun afterwards too.

    Only within a session: some kernels share processors out between sessions first (`sched_autogroup_enabled`). So a
    process that is to give way to the one that starts it must not have a session of its own.
    """
    with suppress(OSError, AttributeError):
        os.nice(nice)
    with suppress(OSError, AttributeError):
        # It interrupts nobody when it wakes up, as it does at each connection.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
