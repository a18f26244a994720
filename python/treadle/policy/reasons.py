"""Reasons why a request waits, as the inner loop records them.

A cycle that fills its answer before it reaches a request keeps the request's last reason and counts the cycles since
(`treadle.policy.state.ROW`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from treadle.compiled.array_types import Records
from treadle.compiled.functions import inner
from treadle.model.tables import View
from treadle.policy.state import Scratch


class Reason(IntEnum):
    """Result of the last cycle that reached a request."""

    NEW = 0
    """No cycle has reached it yet."""
    PLACED = 1
    """A container of it was proposed, or all are in flight."""
    BEHIND = 2
    """An earlier request of its application waits for a nearer node."""
    NEARER_NODE = 3
    """It waits for a node nearer to its data; others would fit."""
    BACKOFF = 4
    """The ResourceManager recently rejected it, or its application; it is proposed again after some cycles."""
    GATE = 5
    """The policy's gate holds it back, or admits no more of it now."""
    QUEUE_MAXIMUM = 6
    """A queue is at its maximum."""
    GUARANTEED_TO_OTHERS = 7
    """The rest of a queue is guaranteed to its other children, which other engines serve."""
    USER_LIMIT = 8
    """The user is at the limit in the queue, or the application at the limit of its user."""
    SATURATED = 9
    """No node has any of a needed resource left."""
    TOO_LARGE = 10
    """The request is larger than any empty node of its partition."""
    CONSTRAINT = 11
    """None of the nodes that its requirements, localities, blacklist and the policy allow has room."""
    HELD_FOR_ANOTHER = 12
    """All nodes with room are reserved for other requests."""
    FULL = 13
    """No node has room now."""


class NodeReason(IntEnum):
    """Why a node cannot serve a request; the first reason that applies."""

    ELSEWHERE = 0
    TOO_SMALL = 1
    UNUSABLE = 2
    NOT_NAMED = 3
    NOT_CHOSEN = 4
    OWN_TAGS = 5
    BLACKLISTED = 6
    REJECTED = 7
    RESERVED = 8
    FULL = 9
    KEPT_FREE = 10
    WOULD_DO = 11


FOUND_NO_NODE: Final = Reason.CONSTRAINT
"""From this reason on a search has found no node; the reasons before prevent a search."""


@inner
def set_reason(scratch: Scratch, row: int, why: int) -> None:
    """Record why a request waits."""
    scratch.rows[row].why = why
    scratch.rows[row].age = 0


@inner
def close_row(scratch: Scratch, row: int, why: int) -> None:
    """Exclude a request for the rest of the cycle."""
    scratch.rows[row].done = 1
    set_reason(scratch, row, why)


@inner
def reset_reason(view: View, scratch: Scratch, row: int) -> None:
    """Reset the reason of a request that no cycle has reached: its row may have belonged to another one."""
    if not view.rows[row].met:
        view.rows[row].met = 1
        set_reason(scratch, row, Reason.NEW)


def reasons(view: View, scratch: Scratch) -> Records:
    """Return ``why`` and ``age`` of each request row; `Reason.NEW` if no cycle has reached it."""
    reason_records = np.zeros(len(view.rows), [("why", "u1"), ("age", "u2")])
    size = min(len(view.rows), len(scratch.rows))
    for name in ("why", "age"):
        reason_records[name][:size] = np.where(view.rows["met"][:size] == 1, scratch.rows[name][:size], 0)
    return reason_records
