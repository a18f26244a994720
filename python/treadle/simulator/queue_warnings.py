"""What YARN's CapacityScheduler would do otherwise with a scenario's queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treadle.simulator.scenario import Queue

WITHIN: Final = 0.05
"""Percent that a sum may be off, as Hadoop has it."""


def queue_warnings(queues: Mapping[str, Queue], path: str = "root") -> list[str]:
    """Return what a CapacityScheduler would do otherwise with these queues, a line each.

    Its legacy queue mode, the default, refuses percentages of siblings that are neither 100 nor 0 together, within
    `WITHIN` (``AbstractParentQueue.setChildQueues``). It accepts a capacity above the maximum, which then counts.
    """
    lines = []
    given = [queue.capacity for queue in queues.values() if queue.capacity is not None]
    if len(given) == len(queues) and WITHIN < sum(given) < 100 - WITHIN:
        lines.append(
            f"queues: the capacities below {path} are {sum(given):g} together, and nobody is guaranteed the rest; "
            "YARN's CapacityScheduler refuses that in its legacy queue mode, the default: let them be 100"
        )
    for name, queue in queues.items():
        below = f"{path}.{name}"
        if queue.capacity is not None and queue.capacity > queue.maximum_capacity:
            lines.append(
                f"queues: {below} has capacity {queue.capacity:g} and maximum_capacity {queue.maximum_capacity:g}: it "
                "never has what it is guaranteed; raise the maximum"
            )
        lines += queue_warnings(queue.children, below)
    return lines
