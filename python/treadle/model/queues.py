"""The queue tree, and what each queue may and does use in each partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle import events
from treadle.model.columns import ModelError, Table
from treadle.model.names import Names
from treadle.model.types import I32, I64, U8

FIFO = 0
FAIR = 1

_FIFO_NAMES = ("", "fifo", "fifo-with-partitions", "fifo-for-pending-apps")
_FIFO_CLASSES = ("FifoOrderingPolicy", "FifoOrderingPolicyWithExclusivePartitions", "FifoOrderingPolicyForPendingApps")


class QueueColumns(NamedTuple):
    """A row a queue; ``order`` is `FIFO` or `FAIR`; children are ``children[first_child:first_child + child_count]``."""

    exists: U8
    parent: I32
    leaf: U8
    order: U8
    sized: U8
    priority: I32
    first_child: I32
    child_count: I32
    children: I32


class LimitColumns(NamedTuple):
    """A row a queue and a column a partition, in each resource; ``known`` is 0 where the queue has no access."""

    known: U8
    guaranteed: I64
    maximum: I64
    used: I64
    assumed: I64
    pending: I64
    am_limit: I64
    am_used: I64


class QueueTable(Table[QueueColumns]):
    """The queue tree as last told."""

    def __init__(self) -> None:
        u8, i32 = np.zeros(0, np.uint8), np.zeros(0, np.int32)
        super().__init__(QueueColumns._make, QueueColumns(u8, i32, u8, u8, u8, i32, i32, i32, i32), {"parent": -1})
        self.warnings: tuple[str, ...] = ()

    def apply(self, event: events.Queues, names: Names) -> None:
        """Replace the tree."""
        names.check(event.path_name)
        names.check(event.ordering_policy_name)
        self.cover(event.queue, "queue")
        columns = self.columns
        columns.exists[:] = 0
        columns.child_count[:] = 0
        for row, (queue, parent) in enumerate(zip(event.queue.tolist(), event.parent.tolist(), strict=True)):
            if parent != -1 and not (0 <= parent < self.size and columns.exists[parent]):
                raise ModelError(f"queue {names.texts[event.path_name[row]]}: its parent is not sent before it")
            columns.exists[queue] = 1
        columns.parent[event.queue] = event.parent
        columns.leaf[event.queue] = event.leaf
        columns.sized[event.queue] = event.size_based_weight
        columns.priority[event.queue] = event.priority
        self._link_children(event)
        self._take_orders(event, names)

    def _link_children(self, event: events.Queues) -> None:
        """List the children of each queue, in order of their index."""
        columns = self.columns
        queues = np.sort(event.queue[event.parent >= 0])
        parents = columns.parent[queues]
        order = np.argsort(parents, kind="stable")
        columns.children[: len(order)] = queues[order]
        counts = np.bincount(parents, minlength=len(columns.child_count))
        columns.child_count[:] = counts
        columns.first_child[:] = np.cumsum(counts) - counts

    def _take_orders(self, event: events.Queues, names: Names) -> None:
        """Read each leaf's ordering policy; an unknown class is served as FIFO, with a warning."""
        warnings = []
        for row, queue in enumerate(event.queue.tolist()):
            policy = names.texts[event.ordering_policy_name[row]].strip()
            short = policy.rsplit(".", 1)[-1]
            fair = short.lower() == "fair" or short == "FairOrderingPolicy"
            self.columns.order[queue] = FAIR if fair else FIFO
            known = fair or short.lower() in _FIFO_NAMES or short in _FIFO_CLASSES
            if event.leaf[row] and not known:
                path = names.texts[event.path_name[row]]
                warnings.append(f"queue {path}: ordering policy {policy} is not known here, served as fifo")
        self.warnings = tuple(warnings)


class LimitTable(Table[LimitColumns]):
    """Limits and usage of queues by partition."""

    def __init__(self, resources: int) -> None:
        amounts = np.zeros((0, 1, resources), np.int64)
        super().__init__(LimitColumns._make, LimitColumns(np.zeros((0, 1), np.uint8), *[amounts] * 7))

    def widen(self, partitions: int) -> None:
        """Make room for ``partitions`` partitions."""
        missing = partitions - self.columns.known.shape[1]
        if missing > 0:
            self.columns = LimitColumns(
                *(
                    np.ascontiguousarray(np.pad(column, [(0, 0), (0, missing)] + [(0, 0)] * (column.ndim - 2)))
                    for column in self.columns
                )
            )

    def apply(self, event: events.QueueLimits, names: Names) -> None:
        """Take limits and usage of queues, absolute."""
        partitions = names.partitions_of(event.partition_name)
        self.cover(event.queue, "queue")
        self.widen(len(names.partitions))
        columns = self.columns
        at = (event.queue, partitions)
        columns.known[at] = 1
        columns.guaranteed[at] = event.guaranteed
        columns.maximum[at] = event.maximum
        columns.used[at] = event.used
        columns.pending[at] = event.pending
        columns.am_limit[at] = event.am_limit
        columns.am_used[at] = event.am_used
