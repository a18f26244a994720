"""The figures of Graphene (OSDI 2016). The text at hand has lost almost all digits; these are left."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

MEDIAN_SHORTER_PERCENT: Final = 25.0
"""Abstract: median job completion time, against breadth first + capacity."""
THROUGHPUT_HIGHER_PERCENT: Final = 30.0
"""Abstract: cluster throughput."""
HALF_SHORTER_PERCENT: Final = 30.0
"""Technical report: half of the jobs are this much faster, or more."""

LOST: Final = (
    "offline makespans against other algorithms and the lower bound",
    "completion times by benchmark and percentile",
    "makespan of a batch",
    "completion times with two queues, and Jain's index by window",
    "wrong estimates",
)
"""What else the paper measured: no figure of these is left, and none here is the paper's."""


class Part(StrEnum):
    """A part of the evaluation; each can be run by itself."""

    ONLINE = "online"
    """Poisson arrivals under all schemes."""
    BATCH = "batch"
    """The same jobs at once: throughput."""
