"""Compiled bookkeeping of assumed allocations: from the proposal until its fate is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel
from treadle.model.tables import ASSUMED

if TYPE_CHECKING:
    from treadle.model.view import View


@inner
def shift(view: View, batch: Records, capability: I64, i: int, sign: int) -> None:
    """Add (sign 1) or take off (-1) what proposal ``i`` assumes: on node, queues, user, application, row."""
    app, row, node = batch[i].application, batch[i].row, batch[i].node
    user, partition = batch[i].user, batch[i].partition
    view.apps[app].assumed_count += sign
    view.rows[row].assumed += sign
    for r in range(capability.shape[1]):
        amount = sign * capability[i, r]
        view.node_amounts[node, ASSUMED, r] += amount
        view.app_amounts[app, ASSUMED, r] += amount
        if user >= 0:
            view.user_amounts[user, ASSUMED, r] += amount
        queue = batch[i].queue
        while queue >= 0:
            view.limit_amounts[queue, partition, ASSUMED, r] += amount
            queue = view.queues[queue].parent


@inner
def shift_locality(places: Records, place: int, decide: int, sign: int) -> None:
    """Do the same to a count at a node or rack, unless it was forgotten since and the row stands for another."""
    if place >= 0 and places[place].born <= decide:
        places[place].assumed += sign


@inner
def assume(view: View, batch: Records, capability: I64, i: int, decide: int) -> None:
    """Assume proposal ``i``."""
    shift(view, batch, capability, i, 1)
    shift_locality(view.places, batch[i].node_place, decide, 1)
    shift_locality(view.places, batch[i].rack_place, decide, 1)


@kernel
def resolve(view: View, batch: Records, capability: I64, decide: int, positions: I32, fates: U8) -> int:
    """Take off what the proposals at ``positions`` assumed; return how many were still open. Fate 0 is a commit."""
    resolved = 0
    for k in range(len(positions)):
        i = positions[k]
        if i < 0 or i >= len(batch) or batch[i].open == 0:
            continue
        batch[i].open = 0
        resolved += 1
        shift(view, batch, capability, i, -1)
        shift_locality(view.places, batch[i].node_place, decide, -1)
        shift_locality(view.places, batch[i].rack_place, decide, -1)
        if fates[k] == 0:
            view.rows[batch[i].row].cool_level = 0
    return resolved
