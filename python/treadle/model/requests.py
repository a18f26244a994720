"""Request rows: one for each (application, request key), however many containers it asks for, and their localities."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64
from treadle.compiled.pair_map import PairMap
from treadle.model import requests_compiled as kernel
from treadle.model.applications import ApplicationTable
from treadle.model.hints import ToldTable
from treadle.model.names import Names
from treadle.model.tables import Table, grown, largest, own

REQUEST: Final = np.dtype(
    [
        ("allocation_request_id", "i8"),
        ("waiting_since_ms", "i8"),  # when a node was first passed over for locality's sake, or -1
        ("waiting_since_offers", "i8"),  # how many proposals there had been by then
        ("cool_until", "i8"),  # no proposals before this decide
        ("application", "i4"),  # -1: a free row
        ("key", "i4"),
        ("priority", "i4"),
        ("count", "i4"),  # at ANY, as the RM says
        ("assumed", "i4"),  # of it proposed and not yet decided
        ("partition", "i4"),
        ("next", "i4"),  # the application's next row, by priority
        ("first_locality", "i4"),
        ("localities", "i4"),
        ("exclusions", "i4"),  # how many nodes it was rejected on of late
        ("hold_node", "i4"),  # the node held for it, or -1
        ("hold_avoid", "i4"),  # the node that was held for it in vain, or -1
        ("told", "i4"),  # what was told of its tasks, or -1
        ("group", "i4"),  # where the group of its tasks was found last, or -1
        ("relax", "u1"),
        ("constrained", "u1"),
        ("cool_level", "u1"),
    ],
    align=True,
)

LOCALITY: Final = np.dtype(
    [
        ("born", "i8"),  # the decide before which it came
        ("name", "i4"),
        ("count", "i4"),
        ("assumed", "i4"),
        ("next", "i4"),
        ("relax", "u1"),
    ],
    align=True,
)


class RequestTable(Table):
    """All request rows and their localities: a row a name (node or rack) at which a request row has asks."""

    def __init__(self, resources: int) -> None:
        super().__init__(REQUEST, (resources,), {"application": -1})
        self.index = PairMap()
        self.localities = Table(LOCALITY)
        self.locality_index = PairMap()
        self._free: I32 = np.zeros(16, np.int32)
        self._free_localities: I32 = np.zeros(16, np.int32)
        self._next = np.zeros(1, np.int64)
        self._next_locality = np.zeros(1, np.int64)
        self._emptied: set[int] = set()

    @property
    def capability(self) -> I64:
        """What a container of each row is to have, in each resource."""
        return self.amounts

    def apply(self, event: events.Requests, apps: ApplicationTable, told: ToldTable, names: Names) -> None:
        """Take request keys, absolute; a count of 0 removes one."""
        partitions = names.partitions_of(event.partition_name)
        apps.cover(event.application, "application")
        largest(event.key, "request key")
        more = len(event.application)
        self.reserve(int(self._next[0]) + more)
        self._free = grown(self._free, len(self.at) + 1, 0)
        self.index.reserve(more)
        emptied = np.empty(more, np.int32)
        count = kernel.apply_requests(
            apps.at,
            self.at,
            self.capability,
            self.index.pairs,
            self._free,
            self._next,
            told.at,
            told.amounts,
            told.index.pairs,
            own(event.application),
            own(event.key),
            own(event.priority),
            own(event.allocation_request_id),
            own(event.count),
            own(event.relax_locality),
            own(event.constrained),
            partitions,
            own(event.capability),
            emptied,
            self.localities.at,
            self.locality_index.pairs,
            self._free_localities,
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
        self._free_localities = grown(self._free_localities, len(self.localities.at) + 1, 0)
        self.locality_index.reserve(more)
        kernel.apply_localities(
            self.at,
            self.index.pairs,
            self.localities.at,
            self.locality_index.pairs,
            self._free_localities,
            self._next_locality,
            generation,
            own(event.application),
            own(event.key),
            own(event.name_name),
            own(event.count),
            own(event.relax_locality),
        )

    def drop(self, application: int, apps: ApplicationTable) -> None:
        """Forget all asks of an application. Rows asked for again in the same frame keep what else is known of them."""
        emptied = np.empty(kernel.count_rows(apps.at, application, self.at), np.int32)
        kernel.drop_asks(
            apps.at,
            application,
            self.at,
            self.capability,
            self.localities.at,
            self.locality_index.pairs,
            self._free_localities,
            emptied,
        )
        self._emptied.update(emptied.tolist())

    def sweep(self, apps: ApplicationTable, told: ToldTable) -> list[int]:
        """Free the rows that stayed without an ask and have nothing assumed; return those that a node is held for."""
        if not self._emptied:
            return []
        rows = np.array(sorted(self._emptied), np.int32)
        held = np.empty(len(rows), np.int32)
        left, holds = kernel.sweep_rows(
            apps.at,
            self.at,
            rows,
            held,
            self.index.pairs,
            self._free,
            self.localities.at,
            self.locality_index.pairs,
            self._free_localities,
            told.at,
        )
        self._emptied = set(rows[:left].tolist())
        return [int(row) for row in held[:holds]]
