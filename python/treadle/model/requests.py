"""Request rows: one for each (application, request key), however many containers it asks for; and where they would run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle import events
from treadle.model.applications import ApplicationTable
from treadle.model.columns import Table, grown, largest
from treadle.model.kernel import requests as kernel
from treadle.model.names import Names
from treadle.model.pairs import PairMap
from treadle.model.types import I32, I64, U8


class RequestColumns(NamedTuple):
    """A row a request key; ``count`` at ANY as the RM says, ``assumed`` of it proposed and not yet decided."""

    application: I32  # -1: a free row
    key: I32
    priority: I32
    allocation_request_id: I64
    count: I32
    assumed: I32
    relax: U8
    constrained: U8
    partition: I32
    capability: I64
    next: I32  # the application's next row, by priority
    first_locality: I32
    localities: I32
    waiting_since_ms: I64  # when a node was first passed over for locality's sake, or -1
    cool_until: I64  # no proposals before this decide
    cool_level: U8
    exclusions: I32  # how many nodes it was rejected on of late
    hold_node: I32  # the node held for it, or -1
    hold_avoid: I32  # the node that was held for it in vain, or -1


class LocalityColumns(NamedTuple):
    """A row a name (node or rack) at which a request row has asks; ``born`` and ``told`` are decide numbers."""

    name: I32
    count: I32
    assumed: I32
    relax: U8
    next: I32
    born: I64
    told: I64


class RequestTable(Table[RequestColumns]):
    """All request rows and their localities."""

    def __init__(self, resources: int) -> None:
        i32, i64, u8 = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
        types = {"allocation_request_id": i64, "waiting_since_ms": i64, "cool_until": i64}
        types |= {"relax": u8, "constrained": u8, "cool_level": u8, "capability": np.zeros((0, resources), np.int64)}
        columns = RequestColumns._make(types.get(name, i32) for name in RequestColumns._fields)
        super().__init__(RequestColumns._make, columns, {"application": -1})
        self.index = PairMap()
        self.localities: Table[LocalityColumns] = Table(
            LocalityColumns._make, LocalityColumns(i32, i32, i32, u8, i32, i64, i64)
        )
        self.locality_index = PairMap()
        self._free: I32 = np.zeros(16, np.int32)
        self._free_localities: I32 = np.zeros(16, np.int32)
        self._next = np.zeros(1, np.int64)
        self._next_locality = np.zeros(1, np.int64)
        self._emptied: set[int] = set()

    def apply(self, event: events.Requests, apps: ApplicationTable, names: Names) -> None:
        """Take request keys, absolute; a count of 0 removes one."""
        partitions = names.partitions_of(event.partition_name)
        apps.cover(event.application, "application")
        largest(event.key, "request key")
        more = len(event.application)
        self.reserve(int(self._next[0]) + more)
        self._free = grown(self._free, len(self.columns.key) + 1, 0)
        self.index.reserve(more)
        emptied = np.empty(more, np.int32)
        count = kernel.apply_requests(
            apps.columns,
            self.columns,
            self.index.columns,
            self._free,
            self._next,
            event.application,
            event.key,
            event.priority,
            event.allocation_request_id,
            event.count,
            event.relax_locality,
            event.constrained,
            partitions,
            event.capability,
            emptied,
        )
        self.size = int(self._next[0])
        self._emptied.update(emptied[:count].tolist())

    def apply_localities(self, event: events.Localities, names: Names, generation: int) -> None:
        """Take outstanding counts at nodes and racks, absolute, as told before decide ``generation``."""
        names.check(event.name_name)
        largest(event.application, "application")
        largest(event.key, "request key")
        more = len(event.application)
        self.localities.reserve(int(self._next_locality[0]) + more)
        self._free_localities = grown(self._free_localities, len(self.localities.columns.name) + 1, 0)
        self.locality_index.reserve(more)
        kernel.apply_localities(
            self.columns,
            self.index.columns,
            self.localities.columns,
            self.locality_index.columns,
            self._free_localities,
            self._next_locality,
            generation,
            event.application,
            event.key,
            event.name_name,
            event.count,
            event.relax_locality,
        )

    def drop(self, application: int, apps: ApplicationTable) -> None:
        """Forget all asks of an application. Rows asked for again in the same frame keep what else is known of them."""
        emptied = np.empty(kernel.count_rows(apps.columns, application, self.columns), np.int32)
        kernel.drop_asks(
            apps.columns,
            application,
            self.columns,
            self.localities.columns,
            self.locality_index.columns,
            self._free_localities,
            emptied,
        )
        self._emptied.update(emptied.tolist())

    def sweep(self, apps: ApplicationTable) -> list[int]:
        """Free the rows that stayed without an ask and have nothing assumed; return them, in order."""
        if not self._emptied:
            return []
        columns = self.columns
        ended = sorted(row for row in self._emptied if columns.count[row] == 0)
        free = [row for row in ended if columns.assumed[row] == 0]
        for row in free:
            kernel.free_row(
                apps.columns,
                columns,
                row,
                self.index.columns,
                self._free,
                self.localities.columns,
                self.locality_index.columns,
                self._free_localities,
            )
        self._emptied = {row for row in ended if columns.assumed[row] > 0}
        return free
