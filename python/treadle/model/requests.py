"""Request rows, one per (application, request key) with its number of containers, and their localities."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.compiled.pair_map import find, give_back, pair, put, remove, take_from
from treadle.model.hints import HintTable, copy_ask
from treadle.model.queues import ApplicationTable
from treadle.model.tables import Names, RowTable, chain, largest, own

UNLINKED: Final = -2
"""`before` of a row that is not in its application's list."""


@inner
def set_count(apps: Records, rows: Records, row: int, memory: int, count: int) -> None:
    """Set the outstanding count of a row at ANY, and update its application's sums."""
    app = rows[row].application
    apps[app].pending += count - rows[row].count
    apps[app].demand += (count - rows[row].count) * memory
    rows[row].count = count


@inner
def comes_before(rows: Records, row: int, other: int) -> bool:
    """Return whether a row comes before another one of its application: by priority, allocation request ID, key."""
    if rows[row].priority != rows[other].priority:
        return bool(rows[row].priority < rows[other].priority)
    if rows[row].allocation_request_id != rows[other].allocation_request_id:
        return bool(rows[row].allocation_request_id < rows[other].allocation_request_id)
    return bool(rows[row].key < rows[other].key)


@kernel
def are_in_order(rows: Records, which: I32) -> bool:
    """Return whether rows are by application, and within it in list order."""
    for i in range(1, len(which)):
        app, before = rows[which[i]].application, rows[which[i - 1]].application
        if app < before or (app == before and comes_before(rows, which[i], which[i - 1])):
            return False
    return True


@kernel
def link_rows(apps: Records, rows: Records, order: I32) -> None:
    """Insert rows into their applications' lists, with one pass over each list.

    ``order`` has the rows by application, and within it in list order.
    """
    app, before, after = -1, -1, -1
    for row in order:
        if rows[row].application != app:
            app = rows[row].application
            before, after = -1, apps[app].first_row
        while after >= 0 and comes_before(rows, after, row):
            before, after = after, rows[after].next
        rows[row].before = before
        rows[row].next = after
        if before < 0:
            apps[app].first_row = row
        else:
            rows[before].next = row
        if after >= 0:
            rows[after].before = row
        before = row


@inner
def unlink(apps: Records, rows: Records, row: int) -> None:
    """Remove a row from its application's list."""
    before, after = rows[row].before, rows[row].next
    if before < 0:
        apps[rows[row].application].first_row = after
    else:
        rows[before].next = after
    if after >= 0:
        rows[after].before = before
    rows[row].before = UNLINKED


@inner
def start_row(rows: Records, row: int, app: int, key: int) -> None:
    """Initialise a row."""
    rows[row].application = app
    rows[row].key = key
    rows[row].before = UNLINKED
    rows[row].count = 0
    rows[row].assumed = 0
    rows[row].first_locality = -1
    rows[row].localities = 0
    rows[row].waiting_since_ms = -1
    rows[row].backoff_until = 0
    rows[row].backoff_level = 0
    rows[row].exclusions = 0
    rows[row].hold_node = -1
    rows[row].hold_avoid = -1
    rows[row].hint = -1
    rows[row].group = -1
    rows[row].met = 0


@tables
class Asks(NamedTuple):
    """The columns of `Requests` that kernels read; partitions by their numbers."""

    application: I32
    key: I32
    priority: I32
    allocation_request_id: I64
    relax_locality: U8
    constrained: U8
    capability: I64
    partition: I32
    wanted: I32
    """Number of containers."""


@tables
class RequestTables(NamedTuple):
    """The tables that contain and link request rows."""

    rows: Records
    capability: I64
    row_index: Records
    free: I32
    next_unused: I64
    places: Records
    place_index: Records
    free_places: I32
    hints: Records
    hint_capability: I64
    hint_index: Records


@inner
def take_ask(model: RequestTables, row: int, asks: Asks, i: int) -> None:
    """Set a row to the request in row ``i`` of ``asks``, except the count."""
    rows = model.rows
    rows[row].priority = asks.priority[i]
    rows[row].allocation_request_id = asks.allocation_request_id[i]
    rows[row].relax = asks.relax_locality[i]
    rows[row].constrained = asks.constrained[i]
    rows[row].partition = asks.partition[i]
    for r in range(asks.capability.shape[1]):
        model.capability[row, r] = asks.capability[i, r]


@kernel
def apply_requests(apps: Records, model: RequestTables, asks: Asks, emptied: I32, moved: I32) -> tuple[int, int]:
    """Apply request keys (absolute values).

    Writes rows without outstanding requests to ``emptied`` and rows to insert into lists to ``moved``; returns the
    length of both. A row without requests drops its localities: they are sent again with a new request.
    """
    rows, capabilities = model.rows, model.capability
    empty, out = 0, 0
    for i in range(len(asks.application)):
        app, count = asks.application[i], asks.wanted[i]
        place = pair(app, asks.key[i])
        row = find(model.row_index, place)
        if row < 0:
            if count <= 0:
                continue
            row = take_from(model.free, model.next_unused)
            put(model.row_index, place, row)
            start_row(rows, row, app, asks.key[i])
            rows[row].hint = find(model.hint_index, place)
            moved[out] = row
            out += 1
        set_count(apps, rows, row, capabilities[row, 0], 0)
        if count > 0:
            other = rows[row].priority != asks.priority[i]
            other |= rows[row].allocation_request_id != asks.allocation_request_id[i]
            if other and rows[row].before != UNLINKED:
                unlink(apps, rows, row)
                moved[out] = row
                out += 1
            take_ask(model, row, asks, i)
            set_count(apps, rows, row, capabilities[row, 0], count)
            if rows[row].hint >= 0:
                copy_ask(rows, capabilities, row, model.hints, model.hint_capability)
        else:
            clear_localities(model, row)
            emptied[empty] = row
            empty += 1
    return empty, out


@inner
def clear_localities(model: RequestTables, row: int) -> None:
    """Drop the localities of a row."""
    places = model.places
    at = model.rows[row].first_locality
    while at >= 0:
        remove(model.place_index, pair(row, places[at].name))
        give_back(model.free_places, at)
        at = places[at].next
    model.rows[row].first_locality = -1
    model.rows[row].localities = 0


@kernel
def drop_asks(apps: Records, app: int, model: RequestTables) -> None:
    """Set an application's requests to 0, and drop localities."""
    row = apps[app].first_row
    while row >= 0:
        set_count(apps, model.rows, row, model.capability[row, 0], 0)
        clear_localities(model, row)
        row = model.rows[row].next


@kernel
def apply_localities(
    model: RequestTables,
    next_unused: I64,
    cycle: int,
    application: I32,
    key: I32,
    name: I32,
    count: I32,
    relax: U8,
) -> None:
    """Apply outstanding counts at nodes and racks (absolute values); unknown rows are ignored."""
    rows, places, index = model.rows, model.places, model.place_index
    for i in range(len(application)):
        row = find(model.row_index, pair(application[i], key[i]))
        if row < 0:
            continue
        place = pair(row, name[i])
        at = find(index, place)
        if at < 0:
            if count[i] <= 0:
                continue
            at = take_from(model.free_places, next_unused)
            put(index, place, at)
            places[at].name = name[i]
            places[at].assumed = 0
            places[at].born = cycle
            places[at].next = rows[row].first_locality
            rows[row].first_locality = at
            rows[row].localities += 1
        places[at].count = max(count[i], 0)
        places[at].relax = relax[i]


@inner
def free_row(apps: Records, model: RequestTables, row: int) -> None:
    """Free a row without requests and in-flight proposals."""
    rows = model.rows
    clear_localities(model, row)
    unlink(apps, rows, row)
    remove(model.row_index, pair(rows[row].application, rows[row].key))
    rows[row].application = -1
    if rows[row].hint >= 0:
        model.hints[rows[row].hint].row = -1
    give_back(model.free, row)


@kernel
def sweep_rows(apps: Records, model: RequestTables, emptied: I32, held: I32) -> tuple[int, int]:
    """Free the rows of ``emptied`` that have neither requests nor in-flight proposals.

    Rows that wait for an outcome stay in ``emptied``; rows with a reserved node are written to ``held``. Returns the
    length of both.
    """
    left, holds, rows = 0, 0, model.rows
    for at in range(len(emptied)):
        row = emptied[at]
        if rows[row].count > 0:
            continue
        if rows[row].assumed > 0:
            emptied[left] = row
            left += 1
            continue
        free_row(apps, model, row)
        if rows[row].hold_node >= 0:
            held[holds] = row
            holds += 1
    return left, holds


REQUEST: Final = np.dtype(
    [
        ("allocation_request_id", "i8"),
        ("waiting_since_ms", "i8"),  # when a node was first skipped for locality, or -1
        ("waiting_since_offers", "i8"),  # number of proposals at that time
        ("backoff_until", "i8"),  # the first cycle that may propose it again
        ("relax", "u1"),  # these four are adjacent to the fields that a cycle reads of each row
        ("constrained", "u1"),
        ("backoff_level", "u1"),
        ("met", "u1"),  # whether a cycle has visited it
        ("application", "i4"),  # -1: a free row
        ("key", "i4"),
        ("priority", "i4"),
        ("count", "i4"),  # at ANY, as reported by the RM
        ("assumed", "i4"),  # of it in flight
        ("partition", "i4"),
        ("before", "i4"),  # in its application's list; -1: first, `UNLINKED`: not in the list
        ("next", "i4"),  # the application's next row, by priority
        ("first_locality", "i4"),
        ("localities", "i4"),
        ("exclusions", "i4"),  # number of nodes that recently rejected it
        ("hold_node", "i4"),  # the node reserved for it, or -1
        ("hold_avoid", "i4"),  # the node of its last failed reservation, or -1
        ("hint", "i4"),  # its row of hints, or -1
        ("group", "i4"),  # the task group found last, or -1
    ],
    align=True,
)

LOCALITY: Final = np.dtype(
    [
        ("born", "i8"),  # number of the cycle after its arrival
        ("name", "i4"),
        ("count", "i4"),
        ("assumed", "i4"),
        ("next", "i4"),
        ("relax", "u1"),
    ],
    align=True,
)


class RequestTable(RowTable):
    """All request rows and their localities: one row per name (node or rack) with outstanding requests."""

    def __init__(self, resources: int, hints: HintTable) -> None:
        """Create an empty table whose rows link to ``hints``."""
        super().__init__(REQUEST, (resources,), {"application": -1})
        self._hints = hints
        self.localities = RowTable(LOCALITY)
        self._emptied: set[int] = set()

    @property
    def capability(self) -> I64:
        """Resources of a container of each row."""
        return self.amounts

    def apply(self, event: events.Requests, apps: ApplicationTable, names: Names) -> None:
        """Apply request keys (absolute values); a count of 0 removes one."""
        partitions = names.partitions_of(event.partition_name)
        apps.cover(event.application, "application")
        largest(event.key, "request key")
        more = len(event.application)
        self.make_room(more)
        emptied, moved = np.empty(more, np.int32), np.empty(more, np.int32)
        columns = {name: own(getattr(event, name)) for name in Asks._fields[:-2]}
        asks = Asks(**columns, partition=partitions, wanted=own(event.count))
        empty, out = apply_requests(apps.at, self._tables(), asks, emptied, moved)
        self.size = int(self.next_unused[0])
        self._emptied.update(emptied[:empty].tolist())
        if out:
            link_rows(apps.at, self.at, self._in_order(moved[:out]))

    def _in_order(self, rows: I32) -> I32:
        """Return rows by application, and within it in list order."""
        if are_in_order(self.at, rows):
            return rows
        by = [self.at[name][rows] for name in ("key", "allocation_request_id", "priority", "application")]
        return rows[np.lexsort(by)]

    def _tables(self) -> RequestTables:
        """Return the tables for kernels; outdated once one grows."""
        return RequestTables(
            rows=self.at,
            capability=self.capability,
            row_index=self.index.pairs,
            free=self.free,
            next_unused=self.next_unused,
            places=self.localities.at,
            place_index=self.localities.index.pairs,
            free_places=self.localities.free,
            hints=self._hints.at,
            hint_capability=self._hints.amounts,
            hint_index=self._hints.index.pairs,
        )

    def apply_localities(self, event: events.Localities, names: Names, cycle: int) -> None:
        """Apply outstanding counts at nodes and racks (absolute values), reported before ``cycle``."""
        names.check(event.name_name)
        largest(event.application, "application")
        largest(event.key, "request key")
        self.localities.make_room(len(event.application))
        apply_localities(
            self._tables(),
            self.localities.next_unused,
            cycle,
            own(event.application),
            own(event.key),
            own(event.name_name),
            own(event.count),
            own(event.relax_locality),
        )

    def drop(self, application: int, apps: ApplicationTable) -> None:
        """Drop the requests of an application. Rows requested again in the same frame keep their other state."""
        drop_asks(apps.at, application, self._tables())
        self._emptied.update(chain(self.at, apps.at["first_row"][application]))

    def sweep(self, apps: ApplicationTable) -> list[int]:
        """Free the rows without requests and in-flight proposals; return those with a reserved node."""
        if not self._emptied:
            return []
        rows = np.array(sorted(self._emptied), np.int32)
        held = np.empty(len(rows), np.int32)
        left, holds = sweep_rows(apps.at, self._tables(), rows, held)
        self._emptied = set(rows[:left].tolist())
        return [int(row) for row in held[:holds]]
