"""Application attempts: state, usage, and a link to the first request row of each."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32
from treadle.events import ApplicationState
from treadle.model.tables import HEADROOM, USED, ModelError, Names, Table, grown

APPLICATION: Final = np.dtype(
    [
        ("cluster_timestamp", "i8"),
        ("submit_time_ms", "i8"),
        ("start_time_ms", "i8"),
        ("pending", "i8"),  # requested containers: sum over its request rows, in-flight proposals included
        ("demand", "i8"),  # the same in memory, MB
        ("backoff_until", "i8"),  # the first cycle that may propose for it again
        ("service_ms", "f8"),  # attained service: dominant share of the cluster x time, up to `charged_ms`
        ("container_ms", "f8"),  # container time so far
        ("share", "f8"),  # usage when the service was last added up
        ("master_since_ms", "i8"),  # when a gate first saw its AM start; 0: not yet, -1: it has requested containers
        ("input_bytes", "f8"),  # hint: mean input of a task of its first stage; 0: unknown
        ("charged", "i4"),  # number of containers at that time
        ("id", "i4"),
        ("attempt", "i4"),
        ("name", "i4"),
        ("type", "i4"),
        ("user", "i4"),
        ("queue", "i4"),
        ("partition", "i4"),
        ("priority", "i4"),
        ("containers", "i4"),
        ("assumed_count", "i4"),
        ("first_row", "i4"),
        ("first_group", "i4"),  # its first task group
        ("groups", "i4"),  # number of its task groups
        ("first_hint", "i4"),  # its first row in the table of task hints
        ("blacklisted", "i4"),  # number of blacklisted names
        ("state", "u1"),
        ("awaiting_am", "u1"),
        ("has_headroom", "u1"),
    ],
    align=True,
)

_DEFAULTS: Final = {"first_row": -1, "first_group": -1, "first_hint": -1, "queue": -1}

_REPORTED: Final = (
    *("cluster_timestamp", "id", "attempt", "name_name", "type_name", "user_name", "queue", "priority"),
    *("submit_time_ms", "start_time_ms", "state", "awaiting_am"),
)
"""Columns of `events.Applications` that the table has too."""

MOVED_MAX: Final = 16
"""Above this number of misplaced applications the whole list is sorted again."""


class ApplicationTable(Table):
    """All application attempts, by the shim's index. Amounts: ASSUMED, USED, HEADROOM."""

    _any_ended = False
    """Whether one of them has ended."""

    def __init__(self, resources: int) -> None:
        super().__init__(APPLICATION, (3, resources), _DEFAULTS)
        self.leaf_first: I32 = np.zeros(1, np.int32)
        self.leaf_applications: I32 = np.zeros(0, np.int32)
        self.rank: I32 = np.zeros(0, np.int32)
        self._in_use: I32 = np.zeros(0, np.int32)
        self._order_is_old = True
        self._moved: set[int] = set()
        """Applications whose position in the order is outdated; unused while the whole order is outdated."""

    def apply(self, event: events.Applications, names: Names) -> None:
        """Apply the state of application attempts (absolute values). The caller handles the attempts in `replaces`."""
        for index in (event.name_name, event.type_name, event.user_name):
            names.check(index)
        partitions = names.partitions_of(event.partition_name)
        self.cover(event.application, "application")
        columns, at = self.at, event.application
        if not self._order_is_old:
            same = (columns["queue"][at] == event.queue) & (columns["priority"][at] == event.priority)
            active = int(ApplicationState.ACTIVE)
            same &= (columns["state"][at] == active) == (event.state == active)
            same &= (columns["id"][at] == event.id) & (columns["attempt"][at] == event.attempt)
            self._moved.update(at[~same].tolist())
        for name in _REPORTED:
            columns[name.removesuffix("_name")][at] = getattr(event, name)
        columns["partition"][at] = partitions
        self._use(at)

    def _use(self, applications: I32) -> None:
        """Mark applications as in use."""
        known, some = self.in_use(), np.unique(applications)
        places = np.searchsorted(known, some)
        new = np.append(known, np.int32(-1))[places] != some
        if new.any():
            self._in_use = np.insert(known, places[new], some[new])
        self._any_ended |= bool((self.at["state"][some] == int(ApplicationState.GONE)).any())

    def in_use(self) -> I32:
        """Return the sorted indices of all applications except those that had ended by the last `drop_ended`.

        Indices are never reused, so the table has many more rows than there are applications in use.
        """
        return self._in_use

    def drop_ended(self) -> None:
        """Drop ended applications from `in_use`; call this after the model has learned from them."""
        if self._any_ended:
            known = self.in_use()
            self._in_use = known[self.at["state"][known] != int(ApplicationState.GONE)]
            self._any_ended = False

    def apply_usage(self, event: events.ApplicationUsage) -> None:
        """Apply the usage of application attempts (absolute values)."""
        self.cover(event.application, "application")
        columns, at = self.at, event.application
        columns["containers"][at] = event.containers
        self.amounts[at, USED] = event.used
        self.amounts[at, HEADROOM] = event.headroom
        columns["has_headroom"][at] = 1

    def apply_inputs(self, event: events.StageInputs) -> None:
        """Apply the mean input of tasks, in bytes; applications that have ended are ignored."""
        self.cover(event.application, "application")
        if not bool((np.isfinite(event.mean_bytes) & (event.mean_bytes >= 0.0)).all()):
            raise ModelError("StageInputs.mean_bytes must not be negative")
        live = self.at["state"][event.application] != int(ApplicationState.GONE)
        self.at["input_bytes"][event.application[live]] = event.mean_bytes[live]

    def queues_changed(self, queues: int) -> None:
        """Make the next `sort` check every application; ``queues`` is one more than the largest queue index."""
        self._order_is_old = True
        self.leaf_first = np.zeros(queues + 1, np.int32)

    def sort(self) -> None:
        """List the active applications of each leaf: highest priority first, then by application ID (YARN's FIFO).

        The applications of queue q are ``leaf_applications[leaf_first[q]:leaf_first[q + 1]]``; ``rank`` is the position
        of an application in the whole list. Unless there are many changes, only applications that started, ended or
        changed queue or priority are moved.
        """
        if self._order_is_old or len(self._moved) > MOVED_MAX:
            self._sort_all()
        elif self._moved:
            moved = np.array(sorted(self._moved), np.int32)
            self._take_out(moved)
            for application in moved.tolist():
                self._put_in(application)
            self._rank()
        self._order_is_old = False
        self._moved.clear()

    def _key(self, application: int) -> tuple[int, ...]:
        row = self.at[application]
        return (-int(row["priority"]), int(row["cluster_timestamp"]), int(row["id"]), int(row["attempt"]), application)

    def _take_out(self, applications: I32) -> None:
        """Remove applications from the list; absent ones are ignored."""
        some = applications[applications < len(self.rank)]
        places = self.rank[some]
        self.rank[some] = 0
        places = np.sort(places[np.append(self.leaf_applications, np.int32(-1))[places] == some])
        self.leaf_applications = np.delete(self.leaf_applications, places)
        self.leaf_first -= np.searchsorted(places, self.leaf_first).astype(np.int32)

    def _put_in(self, application: int) -> None:
        """Insert an active application at its position; all others in the list must be in order."""
        queue = int(self.at["queue"][application])
        if self.at["state"][application] != int(ApplicationState.ACTIVE) or not 0 <= queue < len(self.leaf_first) - 1:
            return
        first, last = int(self.leaf_first[queue]), int(self.leaf_first[queue + 1])
        place = bisect_left(self.leaf_applications, self._key(application), first, last, key=self._key)
        self.leaf_applications = np.insert(self.leaf_applications, place, application)
        self.leaf_first[queue + 1 :] += 1

    def _rank(self) -> None:
        self.rank = grown(self.rank, len(self.at), 0)
        self.rank[self.leaf_applications] = np.arange(len(self.leaf_applications), dtype=np.int32)

    def _sort_all(self) -> None:
        queues = len(self.leaf_first) - 1
        columns = self.at
        here = (
            (columns["state"] == int(ApplicationState.ACTIVE)) & (columns["queue"] >= 0) & (columns["queue"] < queues)
        )
        active = np.flatnonzero(here).astype(np.int32)
        keys = (
            active,
            columns["attempt"][active],
            columns["id"][active],
            columns["cluster_timestamp"][active],
            -columns["priority"][active],
            columns["queue"][active],
        )
        self.leaf_applications = active[np.lexsort(keys)]
        counts = np.bincount(columns["queue"][active], minlength=queues)
        self.leaf_first[1:] = np.cumsum(counts)
        self.rank = np.zeros(len(self.at), np.int32)
        self._rank()
