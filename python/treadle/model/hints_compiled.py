"""Compiled bookkeeping of the keys that something was told of."""

from __future__ import annotations

from treadle.compiled.array_types import I32, I64, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, give_back, pair, put, remove, take_from


@inner
def copy_ask(rows: Records, capabilities: I64, row: int, told: Records, told_capability: I64) -> None:
    """Remember what the tasks of a key ask for, and at which priority, beyond the end of the asks."""
    at = rows[row].told
    told[at].priority = rows[row].priority
    told[at].row = row
    for r in range(capabilities.shape[1]):
        told_capability[at, r] = capabilities[row, r]


@inner
def told_row(
    apps: Records,
    told: Records,
    told_capability: I64,
    index: Records,
    free: I32,
    next_unused: I64,
    rows: Records,
    capabilities: I64,
    row_index: Records,
    app: int,
    key: int,
) -> int:
    """Return the row of a key, a new one that says nothing if there is none; link the request row to it."""
    place = pair(app, key)
    at = find(index, place)
    if at >= 0:
        return at
    at = take_from(free, next_unused)
    put(index, place, at)
    told[at].application = app
    told[at].key = key
    told[at].duration_ms = -1
    told[at].deviation_ms = -1
    told[at].tasks = -1
    told[at].claimed_ms = -1
    told[at].claimed_tasks = -1
    told[at].score = 1.0
    told[at].ranked = 0
    told[at].priority = -1
    told[at].row = -1
    told[at].next = apps[app].first_told
    apps[app].first_told = at
    for r in range(told_capability.shape[1]):
        told_capability[at, r] = 0
    row = find(row_index, place)
    if row >= 0:
        rows[row].told = at
        copy_ask(rows, capabilities, row, told, told_capability)
    return at


@kernel
def told_rows(
    apps: Records,
    told: Records,
    told_capability: I64,
    index: Records,
    free: I32,
    next_unused: I64,
    rows: Records,
    capabilities: I64,
    row_index: Records,
    application: I32,
    key: I32,
    found: I64,
) -> None:
    """Write the row of each key to ``found``, as `told_row` does for one."""
    for i in range(len(application)):
        found[i] = told_row(
            apps,
            told,
            told_capability,
            index,
            free,
            next_unused,
            rows,
            capabilities,
            row_index,
            application[i],
            key[i],
        )


@kernel
def drop_told(apps: Records, app: int, told: Records, index: Records, free: I32, rows: Records) -> None:
    """Forget what was told of an application's keys."""
    row = apps[app].first_row
    while row >= 0:
        rows[row].told = -1
        row = rows[row].next
    at = apps[app].first_told
    while at >= 0:
        remove(index, pair(app, told[at].key))
        told[at].application = -1
        give_back(free, at)
        at = told[at].next
    apps[app].first_told = -1
