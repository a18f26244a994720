"""The queue tree with limits, usage and users by partition, and the application attempts in its leaves."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, U8
from treadle.compiled.pair_map import PairMap, rows_of_pairs
from treadle.events import ApplicationState
from treadle.model.tables import (
    AM_USED,
    HEADROOM,
    LIMIT,
    MAX_PARTITIONS,
    USED,
    ModelError,
    Names,
    Table,
    grown,
    largest,
    own,
)


class UserTable(Table):
    """Users, found by ``index.find(queue * MAX_PARTITIONS + partition, user name)``. Amounts: ASSUMED, USED, LIMIT."""

    def __init__(self, resources: int) -> None:
        super().__init__(np.dtype([("unused", "u1")]), (3, resources))  # a user has amounts alone
        self.index = PairMap()

    def apply(self, event: events.Users, names: Names) -> None:
        """Apply limits and usage of users (absolute values)."""
        names.check(event.user_name)
        largest(event.queue, "queue")
        places = event.queue * MAX_PARTITIONS + names.partitions_of(event.partition_name)
        more = len(event.queue)
        self.index.reserve(more)
        rows = np.empty(more, np.int32)
        self.size = int(rows_of_pairs(self.index.pairs, own(places), own(event.user_name), self.size, rows))
        self.reserve(self.size)
        self.amounts[rows, LIMIT] = event.limit
        self.amounts[rows, USED] = event.used


FIFO = 0
FAIR = 1

_FIFO_NAMES = ("", "fifo", "fifo-with-partitions", "fifo-for-pending-apps")
_FIFO_CLASSES = ("FifoOrderingPolicy", "FifoOrderingPolicyWithExclusivePartitions", "FifoOrderingPolicyForPendingApps")

QUEUE: Final = np.dtype(
    [
        ("parent", "i4"),
        ("path", "i4"),  # name
        ("priority", "i4"),
        ("first_child", "i4"),  # the children are children[first_child:first_child + child_count]
        ("child_count", "i4"),
        ("exists", "u1"),
        ("leaf", "u1"),
        ("order", "u1"),  # FIFO or FAIR
        ("sized", "u1"),  # fair order with size-based weight
    ],
    align=True,
)


class QueueTable(Table):
    """The queue tree as last reported."""

    _root: int | None = None

    def __init__(self) -> None:
        super().__init__(QUEUE, (), {"parent": -1})
        self.children: I32 = np.zeros(0, np.int32)
        self.warnings: tuple[str, ...] = ()

    def apply(self, event: events.Queues, names: Names) -> None:
        """Replace the tree."""
        names.check(event.path_name)
        names.check(event.ordering_policy_name)
        self.cover(event.queue, "queue")
        known = self.at["exists"][event.queue] == 1
        if bool((known & (self.at["parent"][event.queue] != event.parent)).any()):
            raise ModelError("a queue has moved to another parent")
        exists = self.at["exists"]
        exists[:] = 0
        for row, (queue, parent) in enumerate(zip(event.queue.tolist(), event.parent.tolist(), strict=True)):
            if parent != -1 and not (0 <= parent < self.size and exists[parent]):
                raise ModelError(f"queue {names.texts[event.path_name[row]]}: its parent is not sent before it")
            exists[queue] = 1
        self.at["parent"][event.queue] = event.parent
        self.at["path"][event.queue] = event.path_name
        self.at["leaf"][event.queue] = event.leaf
        self.at["sized"][event.queue] = event.size_based_weight
        self.at["priority"][event.queue] = event.priority
        self._link_children(event)
        self._take_orders(event, names)
        self._root = None

    def root(self) -> int:
        """Return the queue without a parent, -1 before the first event."""
        if self._root is None:
            roots = np.flatnonzero((self.at["exists"] == 1) & (self.at["parent"] < 0))
            self._root = int(roots[0]) if len(roots) else -1
        return self._root

    def _link_children(self, event: events.Queues) -> None:
        """List the children of each queue, in order of their index."""
        queues = np.sort(event.queue[event.parent >= 0])
        parents = self.at["parent"][queues]
        self.children = queues[np.argsort(parents, kind="stable")]
        counts = np.bincount(parents, minlength=len(self.at))
        self.at["child_count"] = counts
        self.at["first_child"] = np.cumsum(counts) - counts

    def _take_orders(self, event: events.Queues, names: Names) -> None:
        """Read each leaf's ordering policy; an unknown class is served as FIFO, with a warning."""
        warnings = []
        for row, queue in enumerate(event.queue.tolist()):
            policy = names.texts[event.ordering_policy_name[row]].strip()
            short = policy.rsplit(".", 1)[-1]
            fair = short.lower() == "fair" or short == "FairOrderingPolicy"
            self.at["order"][queue] = FAIR if fair else FIFO
            known = fair or short.lower() in _FIFO_NAMES or short in _FIFO_CLASSES
            if event.leaf[row] and not known:
                path = names.texts[event.path_name[row]]
                warnings.append(f"queue {path}: ordering policy {policy} is not known here, served as fifo")
        self.warnings = tuple(warnings)


class LimitTable:
    """Limits and usage of queues by partition.

    ``amounts`` are (queue, partition, kind, resource): ASSUMED, USED, MAXIMUM, GUARANTEED, PENDING, AM_LIMIT, AM_USED,
    SIBLING_RESERVE. ``known[queue, partition]`` is 0 where the queue has no access.
    """

    def __init__(self, resources: int) -> None:
        self.known: U8 = np.zeros((16, 1), np.uint8)
        self.amounts: I64 = np.zeros((16, 1, 8, resources), np.int64)

    def reserve(self, queues: int, partitions: int) -> None:
        """Make room for a number of queues and partitions."""
        self.known = grown(self.known, queues, 0)
        self.amounts = grown(self.amounts, queues, 0)
        missing = partitions - self.known.shape[1]
        if missing > 0:
            self.known = np.pad(self.known, [(0, 0), (0, missing)])
            self.amounts = np.pad(self.amounts, [(0, 0), (0, missing), (0, 0), (0, 0)])

    def apply(self, event: events.QueueLimits, names: Names) -> None:
        """Apply limits and usage of queues (absolute values)."""
        partitions = names.partitions_of(event.partition_name)
        self.reserve(largest(event.queue, "queue") + 1, len(names.partitions))
        self.known[event.queue, partitions] = 1
        kinds = event.used, event.maximum, event.guaranteed, event.pending, event.am_limit, event.am_used
        # One write for all kinds, which are adjacent: a write for each takes twice as long.
        self.amounts[event.queue, partitions, USED : AM_USED + 1] = np.array(kinds).swapaxes(0, 1)


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
