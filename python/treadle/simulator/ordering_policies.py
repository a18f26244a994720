"""The ordering policies that a queue of a scenario may have."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator

from treadle.config.errors import unknown

NAMES: Final = (
    "fifo",
    "fair",
    "fifo-with-partitions",
    "fifo-for-pending-apps",
    "utilization",
    "priority-utilization",
)
"""YARN's names, for leaves and for parents."""


def _known(value: str) -> str:
    if "." not in value and value not in NAMES:
        raise ValueError(f"{unknown(value, NAMES)}; write one of these, or a class with its package")
    return value


OrderingPolicy = Annotated[str, AfterValidator(_known)]
"""One of YARN's names, or the name of a class."""
