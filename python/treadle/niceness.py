"""How processes that may be kept busy by others leave the processor to the engine."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

LISTENER: Final = 10
"""Of who serves application masters, which wait: a tenth of a processor that another one wants too."""

LEAST: Final = 19
"""Of what nobody waits for: as little of a processor as can be."""


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
