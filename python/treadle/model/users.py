"""Users in leaf queues: what the RM lets each of them use in a partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle import events
from treadle.model.columns import Table, largest
from treadle.model.names import MAX_PARTITIONS, Names
from treadle.model.pairs import PairMap
from treadle.model.types import I64


class UserColumns(NamedTuple):
    """A row a user in a leaf queue and partition."""

    limit: I64
    used: I64
    assumed: I64


class UserTable(Table[UserColumns]):
    """Users, found by ``index.find(queue * MAX_PARTITIONS + partition, user name)``."""

    def __init__(self, resources: int) -> None:
        amounts = np.zeros((0, resources), np.int64)
        super().__init__(UserColumns._make, UserColumns(amounts, amounts, amounts))
        self.index = PairMap()

    def apply(self, event: events.Users, names: Names) -> None:
        """Take limits and usage of users, absolute."""
        names.check(event.user_name)
        largest(event.queue, "queue")
        places = event.queue * MAX_PARTITIONS + names.partitions_of(event.partition_name)
        rows = np.empty(len(event.queue), np.int32)
        for at, (place, user) in enumerate(zip(places.tolist(), event.user_name.tolist(), strict=True)):
            row = self.index.find(place, user)
            if row < 0:
                row = self.size
                self.size += 1
                self.index.put(place, user, row)
            rows[at] = row
        self.reserve(self.size)
        self.columns.limit[rows] = event.limit
        self.columns.used[rows] = event.used
