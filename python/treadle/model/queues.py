"""The queue tree: limits and usage of each queue, and of each user in a leaf, by partition."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, U8
from treadle.compiled.pair_map import PairMap, rows_of_pairs
from treadle.model.tables import AM_USED, LIMIT, MAX_PARTITIONS, USED, ModelError, Names, Table, grown, largest, own


class UserTable(Table):
    """Users, found by ``index.find(queue * MAX_PARTITIONS + partition, user name)``. Amounts: ASSUMED, USED, LIMIT."""

    def __init__(self, resources: int) -> None:
        super().__init__(np.dtype([("unused", "u1")]), (3, resources))
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
