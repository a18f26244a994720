"""YARN's ids of applications, exit statuses of containers and priorities of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


def application_id(cluster_timestamp: int, number: int) -> str:
    """Return an application's id."""
    return f"application_{cluster_timestamp}_{number:04d}"


def is_named(id_: str, given: str) -> bool:
    """Return whether an application's ID equals the given one, or ends with its number (`0042`, `42`)."""
    number = f"{int(given):04d}" if given.isdecimal() and len(given) < len(id_) else given
    return given in (id_, id_.removeprefix("application_")) or id_.endswith(f"_{number}")


def several(given: str, ids: Iterable[str]) -> str:
    """Return that several applications have an ID with this end."""
    return f"{given} is the end of several applications' ids: {', '.join(ids)}; give one of them whole"


SUCCESS: Final = 0
ABORTED: Final = -100
"""Released by its application, or lost with its node."""
PREEMPTED: Final = -102
KILLED_EXCEEDED_VMEM: Final = -103
KILLED_EXCEEDED_PMEM: Final = -104
KILLED_BY_APPMASTER: Final = -105
KILLED_BY_RESOURCEMANAGER: Final = -106
KILLED_AFTER_APP_COMPLETION: Final = -107
"""Its application had ended: its work was done."""
KILLED_BY_CONTAINER_SCHEDULER: Final = -108
"""An opportunistic container that made room."""
KILLED_FOR_EXCESS_LOGS: Final = -109

SIGKILL: Final = 128 + 9
SIGTERM: Final = 128 + 15


FAILED_MAP: Final = 5
"""Failed maps that are requested again."""
REDUCE: Final = 10
OPPORTUNISTIC_MAP: Final = 19
MAP: Final = 20
