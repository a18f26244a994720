"""Application attempts: where they stand, what they use, and the first of their request rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle import events
from treadle.events import ApplicationState
from treadle.model.columns import Table
from treadle.model.names import Names
from treadle.model.types import I32, I64, U8


class ApplicationColumns(NamedTuple):
    """A row an application attempt. ``pending`` and ``demand`` are sums over its request rows, nothing assumed taken off."""

    cluster_timestamp: I64
    id: I32
    attempt: I32
    name: I32
    type: I32
    user: I32
    queue: I32
    partition: I32
    priority: I32
    submit_time_ms: I64
    start_time_ms: I64
    state: U8
    awaiting_am: U8
    containers: I32
    used: I64
    headroom: I64
    has_headroom: U8
    assumed: I64
    assumed_count: I32
    pending: I64
    demand: I64  # memory outstanding, MB
    first_row: I32
    blacklisted: I32  # how many names it does not want
    cool_until: I64  # no proposals before this decide


class ApplicationTable(Table[ApplicationColumns]):
    """All application attempts, by the shim's index."""

    def __init__(self, resources: int) -> None:
        i32, i64, u8 = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
        amounts = np.zeros((0, resources), np.int64)
        types = {"cluster_timestamp": i64, "submit_time_ms": i64, "start_time_ms": i64, "pending": i64, "demand": i64}
        types |= {"cool_until": i64, "state": u8, "awaiting_am": u8, "has_headroom": u8}
        types |= {"used": amounts, "headroom": amounts, "assumed": amounts}
        columns = ApplicationColumns._make(types.get(name, i32) for name in ApplicationColumns._fields)
        super().__init__(ApplicationColumns._make, columns, {"first_row": -1, "queue": -1})
        self.leaf_first: I32 = np.zeros(1, np.int32)
        self.leaf_applications: I32 = np.zeros(0, np.int32)
        self.rank: I32 = np.zeros(0, np.int32)
        self._order_is_old = True

    def apply(self, event: events.Applications, names: Names) -> None:
        """Take the state of application attempts, absolute. What `replaces` drops is the caller's business."""
        for index in (event.name_name, event.type_name, event.user_name):
            names.check(index)
        partitions = names.partitions_of(event.partition_name)
        self.cover(event.application, "application")
        columns, at = self.columns, event.application
        if not self._order_is_old:
            same = (columns.queue[at] == event.queue) & (columns.priority[at] == event.priority)
            active = int(ApplicationState.ACTIVE)
            same &= (columns.state[at] == active) == (event.state == active)
            self._order_is_old = not bool(same.all())
        columns.cluster_timestamp[at] = event.cluster_timestamp
        columns.id[at] = event.id
        columns.attempt[at] = event.attempt
        columns.name[at] = event.name_name
        columns.type[at] = event.type_name
        columns.user[at] = event.user_name
        columns.queue[at] = event.queue
        columns.partition[at] = partitions
        columns.priority[at] = event.priority
        columns.submit_time_ms[at] = event.submit_time_ms
        columns.start_time_ms[at] = event.start_time_ms
        columns.state[at] = event.state
        columns.awaiting_am[at] = event.awaiting_am

    def apply_usage(self, event: events.ApplicationUsage) -> None:
        """Take the usage of application attempts, absolute."""
        self.cover(event.application, "application")
        columns, at = self.columns, event.application
        columns.containers[at] = event.containers
        columns.used[at] = event.used
        columns.headroom[at] = event.headroom
        columns.has_headroom[at] = 1

    def queues_changed(self, queues: int) -> None:
        """Make the next `sort` look at every application again; there are indices of queues below ``queues``."""
        self._order_is_old = True
        self.leaf_first = np.zeros(queues + 1, np.int32)

    def sort(self) -> None:
        """List the active applications of each leaf, highest priority first, then by application id (YARN's fifo order).

        The applications of queue q are ``leaf_applications[leaf_first[q]:leaf_first[q + 1]]``; ``rank`` is the place of an
        application in the whole list. Sorts only if an application came, went, or changed its queue or priority.
        """
        if not self._order_is_old:
            return
        self._order_is_old = False
        queues = len(self.leaf_first) - 1
        columns = self.columns
        here = (columns.state == int(ApplicationState.ACTIVE)) & (columns.queue >= 0) & (columns.queue < queues)
        active = np.flatnonzero(here).astype(np.int32)
        keys = (
            active,
            columns.attempt[active],
            columns.id[active],
            columns.cluster_timestamp[active],
            -columns.priority[active],
            columns.queue[active],
        )
        self.leaf_applications = active[np.lexsort(keys)]
        counts = np.bincount(columns.queue[active], minlength=queues)
        self.leaf_first[1:] = np.cumsum(counts)
        self.rank = np.zeros(len(columns.queue), np.int32)
        self.rank[self.leaf_applications] = np.arange(len(active), dtype=np.int32)
