"""Codes in the columns of events."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final


class QueueState(IntEnum):
    """May applications be submitted to a queue, and those that are there be served?"""

    STOPPED = 0
    RUNNING = 1
    DRAINING = 2


class NodeState(IntEnum):
    """May containers be placed on a node?"""

    GONE = 0
    USABLE = 1
    UNUSABLE = 2


class ApplicationState(IntEnum):
    """Where an application attempt stands in its queue."""

    GONE = 0
    ACTIVE = 1
    WAITING = 2
    MOVED = 3


class Replaces(IntFlag):
    """Bits of `Applications.replaces`: what is dropped before the later events of the same frame."""

    REQUESTS = 1
    BLACKLIST = 2
    TAGS = 4


class ContainerEvent(IntEnum):
    """What happened to a container."""

    ALLOCATED = 1
    LAUNCHED = 2
    COMPLETED = 3
    RESIZED = 4


class Fate(IntEnum):
    """The fate of a proposal: committed, or the reason why not."""

    COMMITTED = 0
    UNKNOWN_APPLICATION = 1
    FINISHED_ATTEMPT = 2
    STOPPED_ATTEMPT = 3
    INACTIVE_APPLICATION = 4
    UNKNOWN_REQUEST = 5
    NO_PENDING_ASK = 6
    UNKNOWN_NODE = 7
    NODE_NOT_RUNNING = 8
    NODE_STALE = 9
    NODE_RESERVED = 10
    BLACKLISTED = 11
    WRONG_PARTITION = 12
    LOCALITY = 13
    CONSTRAINT = 14
    CONTAINER_UPDATE = 15
    NODE_FULL = 16
    QUEUE_MAXIMUM = 17
    USER_LIMIT = 18
    DUPLICATE = 19
    OUT_OF_RANGE = 20
    OVER_BATCH = 21
    LEASE_LOST = 22
    NOT_READY = 23
    STALE_STATE = 24
    INTERNAL_ERROR = 25
    OBSERVED = 26
    NEGATIVE = 27
    NOT_OWNER = 28
    CHANGED = 29
    TRANSACTION = 30
    CLAIM = 31


CONFLICTS: Final = frozenset(
    {Fate.CHANGED, Fate.NODE_FULL, Fate.NODE_RESERVED, Fate.QUEUE_MAXIMUM, Fate.USER_LIMIT, Fate.STALE_STATE}
)
"""Fates of what could have been committed when the engine looked, and cannot any more."""
