"""Compiled bookkeeping of assumed allocations: from the proposal until its fate is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from treadle.model.types import I32, U8

if TYPE_CHECKING:
    from treadle.model.assumed import BatchColumns
    from treadle.model.cluster import View
    from treadle.model.requests import LocalityColumns


@njit(cache=True, nogil=True)
def shift(view: View, batch: BatchColumns, i: int, sign: int) -> None:
    """Add (sign 1) or take off (-1) what proposal ``i`` assumes: on node, queues up to the root, user, application, row."""
    app, row, node, user, partition = batch.application[i], batch.row[i], batch.node[i], batch.user[i], batch.partition[i]
    view.apps.assumed_count[app] += sign
    view.rows.assumed[row] += sign
    for r in range(batch.capability.shape[1]):
        amount = sign * batch.capability[i, r]
        view.nodes.assumed[node, r] += amount
        view.apps.assumed[app, r] += amount
        if user >= 0:
            view.users.assumed[user, r] += amount
        queue = batch.queue[i]
        while queue >= 0:
            view.limits.assumed[queue, partition, r] += amount
            queue = view.queues.parent[queue]


@njit(cache=True, nogil=True)
def shift_locality(places: LocalityColumns, place: int, decide: int, sign: int, committed: bool) -> None:
    """The same for a count at a node or rack. The RM does not send these again after a commit, so the model takes one off."""
    if place < 0 or places.born[place] > decide:
        return
    places.assumed[place] += sign
    if committed and places.told[place] <= decide and places.count[place] > 0:
        places.count[place] -= 1


@njit(cache=True, nogil=True)
def assume(view: View, batch: BatchColumns, i: int, decide: int) -> None:
    """Assume proposal ``i``."""
    shift(view, batch, i, 1)
    shift_locality(view.places, batch.node_place[i], decide, 1, False)
    shift_locality(view.places, batch.rack_place[i], decide, 1, False)


@njit(cache=True, nogil=True)
def resolve(view: View, batch: BatchColumns, decide: int, positions: I32, fates: U8) -> int:
    """Take off what the proposals at ``positions`` assumed; return how many were still open. Fate 0 is a commit."""
    resolved = 0
    for k in range(len(positions)):
        i = positions[k]
        if i < 0 or i >= len(batch.open) or batch.open[i] == 0:
            continue
        batch.open[i] = 0
        resolved += 1
        shift(view, batch, i, -1)
        shift_locality(view.places, batch.node_place[i], decide, -1, fates[k] == 0)
        shift_locality(view.places, batch.rack_place[i], decide, -1, fates[k] == 0)
        if fates[k] == 0:
            view.rows.cool_level[batch.row[i]] = 0
    return resolved
