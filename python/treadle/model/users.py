"""Users in leaf queues: what the RM lets each of them use in a partition."""

from __future__ import annotations

import numpy as np

from treadle import events
from treadle.compiled.pair_map import PairMap, rows_of_pairs
from treadle.model.names import MAX_PARTITIONS, Names
from treadle.model.tables import LIMIT, USED, Table, largest, own


class UserTable(Table):
    """Users, found by ``index.find(queue * MAX_PARTITIONS + partition, user name)``. Amounts: ASSUMED, USED, LIMIT."""

    def __init__(self, resources: int) -> None:
        super().__init__(np.dtype([("unused", "u1")]), (3, resources))
        self.index = PairMap()

    def apply(self, event: events.Users, names: Names) -> None:
        """Take limits and usage of users, absolute."""
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
