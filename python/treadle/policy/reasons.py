"""Why a request waits: what the inner loop writes down of each as it passes it.

A decide that does not come to a request, since its answer was full before, leaves what the latest one said, and how
many decides ago that was (`treadle.policy.state.ROW`).
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
    """What the loop did with a request when it came to it last."""

    NEW = 0
    """No decision has come to it yet."""
    PLACED = 1
    """A container of it was proposed, or all are, and the ResourceManager has not answered yet."""
    BEHIND = 2
    """Another ask of its application, before it, waits for a nearer node."""
    NEARER_NODE = 3
    """It waits for a node nearer to its data; others would do."""
    BACKOFF = 4
    """The ResourceManager turned it, or its application, down recently; it is proposed again after some decisions."""
    GATE = 5
    """The policy's gate holds it back, or lets no more of it run now."""
    QUEUE_MAXIMUM = 6
    """A queue is at its maximum."""
    GUARANTEED_TO_OTHERS = 7
    """The rest of a queue is guaranteed to its other children, which other engines serve."""
    USER_LIMIT = 8
    """The user is at the limit of the queue, or the application at that of its user."""
    SATURATED = 9
    """No node has anything left of a resource that it needs."""
    TOO_LARGE = 10
    """The ask is larger than any node of its partition, were it empty."""
    CONSTRAINT = 11
    """None of the nodes that its requirements, places, blacklist and the policy leave has room."""
    HELD_FOR_ANOTHER = 12
    """Of the nodes with room all are kept free for other asks."""
    FULL = 13
    """No node has room now."""


class NodeReason(IntEnum):
    """What is against a node for a request; the first that holds."""

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
"""From here on a search has found no node; all before stood in the way of one."""


@inner
def set_reason(scratch: Scratch, row: int, why: int) -> None:
    """Write down why a request waits."""
    scratch.rows[row].why = why
    scratch.rows[row].age = 0


@inner
def close_row(scratch: Scratch, row: int, why: int) -> None:
    """Leave a request alone for the rest of the decide."""
    scratch.rows[row].done = 1
    set_reason(scratch, row, why)


@inner
def reset_reason(view: View, scratch: Scratch, row: int) -> None:
    """Know nothing of a request that no decide has come to: its place had what was said of another one."""
    if not view.rows[row].met:
        view.rows[row].met = 1
        set_reason(scratch, row, Reason.NEW)


def reasons(view: View, scratch: Scratch) -> Records:
    """Return ``why`` and ``age`` of each request row; of one that no decide has come to `Reason.NEW`."""
    reason_records = np.zeros(len(view.rows), [("why", "u1"), ("age", "u2")])
    size = min(len(view.rows), len(scratch.rows))
    for name in ("why", "age"):
        reason_records[name][:size] = np.where(view.rows["met"][:size] == 1, scratch.rows[name][:size], 0)
    return reason_records
