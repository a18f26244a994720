"""Of which kind a predicate is: the dimensions of Phoenix's constraint resource vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KINDS: Final = ("cpu", "mem", "disk", "os", "clock", "net")
"""The paper's. What is none of these, and not set otherwise, is `OTHER`."""

OTHER: Final = "other"

BUILT_IN: Final = {
    "cpu": ("arch", "architecture", "cores", "cpu", "isa", "platform", "vcores"),
    "mem": ("mem", "memory", "memory-mb"),
    "disk": ("disk", "disks", "max_disks", "min_disks", "ssd", "storage"),
    "os": ("kernel", "os"),
    "clock": ("clock", "clock_speed", "frequency", "mhz"),
    "net": ("bandwidth", "ethernet", "net", "network"),
}
"""Names of attributes and resource types, without prefix."""

_KIND: Final = {name: kind for kind, names in BUILT_IN.items() for name in names}


def kind_of(name: str, given: Mapping[str, str]) -> str:
    """Return the kind of a predicate's name; ``given`` has those that are set, with prefix or without."""
    short = name.lower().rpartition("/")[2]
    return given.get(name.lower()) or given.get(short) or _KIND.get(short, OTHER)
