"""Compiled changes of request rows and their localities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from treadle.model.kernel.pairs import find, pair, put, remove
from treadle.model.types import I32, I64, U8

if TYPE_CHECKING:
    from treadle.model.applications import ApplicationColumns
    from treadle.model.pairs import PairColumns
    from treadle.model.requests import LocalityColumns, RequestColumns


@njit(cache=True, nogil=True)
def take_from(free: I32, next_unused: I64) -> int:
    """Return a free row: one given back (``free[0]`` of them, a stack from 1 on), or the next that was never used."""
    if free[0] > 0:
        row = free[free[0]]
        free[0] -= 1
        return row
    next_unused[0] += 1
    return next_unused[0] - 1


@njit(cache=True, nogil=True)
def set_count(apps: ApplicationColumns, rows: RequestColumns, row: int, count: int) -> None:
    """Set what is outstanding of a row at ANY, and its application's sums."""
    app = rows.application[row]
    apps.pending[app] += count - rows.count[row]
    apps.demand[app] += (count - rows.count[row]) * rows.capability[row, 0]
    rows.count[row] = count


@njit(cache=True, nogil=True)
def link(apps: ApplicationColumns, rows: RequestColumns, row: int) -> None:
    """Put a row into its application's list: by priority, allocation request id, key."""
    app = rows.application[row]
    before = -1
    after = apps.first_row[app]
    while after >= 0:
        if rows.priority[after] != rows.priority[row]:
            behind = rows.priority[after] > rows.priority[row]
        elif rows.allocation_request_id[after] != rows.allocation_request_id[row]:
            behind = rows.allocation_request_id[after] > rows.allocation_request_id[row]
        else:
            behind = rows.key[after] > rows.key[row]
        if behind:
            break
        before = after
        after = rows.next[after]
    rows.next[row] = after
    if before < 0:
        apps.first_row[app] = row
    else:
        rows.next[before] = row


@njit(cache=True, nogil=True)
def unlink(apps: ApplicationColumns, rows: RequestColumns, row: int) -> None:
    """Take a row out of its application's list."""
    app = rows.application[row]
    at = apps.first_row[app]
    if at == row:
        apps.first_row[app] = rows.next[row]
        return
    while rows.next[at] != row:
        at = rows.next[at]
    rows.next[at] = rows.next[row]


@njit(cache=True, nogil=True)
def start_row(rows: RequestColumns, row: int, app: int, key: int) -> None:
    """Make a row that nothing has happened to."""
    rows.application[row] = app
    rows.key[row] = key
    rows.count[row] = 0
    rows.assumed[row] = 0
    rows.first_locality[row] = -1
    rows.localities[row] = 0
    rows.waiting_since_ms[row] = -1
    rows.cool_until[row] = 0
    rows.cool_level[row] = 0
    rows.exclusions[row] = 0
    rows.hold_node[row] = -1
    rows.hold_avoid[row] = -1


@njit(cache=True, nogil=True)
def apply_requests(
    apps: ApplicationColumns,
    rows: RequestColumns,
    index: PairColumns,
    free: I32,
    next_unused: I64,
    application: I32,
    key: I32,
    priority: I32,
    allocation_request_id: I64,
    count: I32,
    relax: U8,
    constrained: U8,
    partition: I32,
    capability: I64,
    emptied: I32,
) -> int:
    """Take request keys, absolute; write the rows left without an ask to ``emptied`` and return how many there are."""
    empty = 0
    for i in range(len(application)):
        place = pair(application[i], key[i])
        row = find(index.keys, index.values, place)
        fresh = row < 0
        if fresh:
            if count[i] <= 0:
                continue
            row = take_from(free, next_unused)
            index.used[0] += put(index.keys, index.values, place, row)
            start_row(rows, row, application[i], key[i])
        set_count(apps, rows, row, 0)
        if count[i] > 0:
            moved = rows.priority[row] != priority[i] or rows.allocation_request_id[row] != allocation_request_id[i]
            if moved and not fresh:
                unlink(apps, rows, row)
            rows.priority[row] = priority[i]
            rows.allocation_request_id[row] = allocation_request_id[i]
            rows.relax[row] = relax[i]
            rows.constrained[row] = constrained[i]
            rows.partition[row] = partition[i]
            rows.capability[row] = capability[i]
            if moved or fresh:
                link(apps, rows, row)
            set_count(apps, rows, row, count[i])
        else:
            emptied[empty] = row
            empty += 1
    return empty


@njit(cache=True, nogil=True)
def clear_localities(rows: RequestColumns, row: int, places: LocalityColumns, index: PairColumns, free: I32) -> None:
    """Forget where a row would like to be."""
    at = rows.first_locality[row]
    while at >= 0:
        remove(index.keys, index.values, pair(row, places.name[at]))
        free[0] += 1
        free[free[0]] = at
        at = places.next[at]
    rows.first_locality[row] = -1
    rows.localities[row] = 0


@njit(cache=True, nogil=True)
def drop_asks(
    apps: ApplicationColumns,
    app: int,
    rows: RequestColumns,
    places: LocalityColumns,
    index: PairColumns,
    free: I32,
    emptied: I32,
) -> int:
    """Set all asks of an application to nothing, its localities too; write its rows to ``emptied``, return how many."""
    empty = 0
    row = apps.first_row[app]
    while row >= 0:
        set_count(apps, rows, row, 0)
        clear_localities(rows, row, places, index, free)
        emptied[empty] = row
        empty += 1
        row = rows.next[row]
    return empty


@njit(cache=True, nogil=True)
def count_rows(apps: ApplicationColumns, app: int, rows: RequestColumns) -> int:
    """Return how many rows an application has."""
    count = 0
    row = apps.first_row[app]
    while row >= 0:
        count += 1
        row = rows.next[row]
    return count


@njit(cache=True, nogil=True)
def apply_localities(
    rows: RequestColumns,
    row_index: PairColumns,
    places: LocalityColumns,
    index: PairColumns,
    free: I32,
    next_unused: I64,
    generation: int,
    application: I32,
    key: I32,
    name: I32,
    count: I32,
    relax: U8,
) -> None:
    """Take outstanding counts at nodes and racks, absolute; those of rows that do not exist are ignored."""
    for i in range(len(application)):
        row = find(row_index.keys, row_index.values, pair(application[i], key[i]))
        if row < 0:
            continue
        place = pair(row, name[i])
        at = find(index.keys, index.values, place)
        if at < 0:
            if count[i] <= 0:
                continue
            at = take_from(free, next_unused)
            index.used[0] += put(index.keys, index.values, place, at)
            places.name[at] = name[i]
            places.assumed[at] = 0
            places.born[at] = generation
            places.next[at] = rows.first_locality[row]
            rows.first_locality[row] = at
            rows.localities[row] += 1
        places.count[at] = max(count[i], 0)
        places.relax[at] = relax[i]
        places.told[at] = generation


@njit(cache=True, nogil=True)
def free_row(
    apps: ApplicationColumns,
    rows: RequestColumns,
    row: int,
    row_index: PairColumns,
    free_rows: I32,
    places: LocalityColumns,
    place_index: PairColumns,
    free_places: I32,
) -> None:
    """Give a row back that has no ask and nothing assumed."""
    clear_localities(rows, row, places, place_index, free_places)
    unlink(apps, rows, row)
    remove(row_index.keys, row_index.values, pair(rows.application[row], rows.key[row]))
    rows.application[row] = -1
    free_rows[0] += 1
    free_rows[free_rows[0]] = row
