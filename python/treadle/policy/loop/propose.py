"""Writing a proposal down, and what changes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.model.in_flight import assume
from treadle.policy.node_search import NODE_LOCAL, OFF_SWITCH, RACK_LOCAL, close_node, count_anew, level_of, place_of
from treadle.policy.state import OFFERS, PLACED

if TYPE_CHECKING:
    from treadle.compiled.array_types import I64, Records
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch


@inner
def propose(
    view: View, scratch: Scratch, knobs: Knobs, out: Records, asked: I64, app: int, row: int, node: int, user: int
) -> None:
    """Write a proposal and assume it."""
    i = scratch.counters[PLACED]
    scratch.counters[PLACED] += 1
    scratch.counters[OFFERS] += 1
    scratch.rows[row].quota -= 1
    level = level_of(view, row, node)
    out[i].application = app
    out[i].key = view.rows[row].key
    out[i].node = node
    out[i].row = row
    out[i].queue = view.apps[app].queue
    out[i].user = user
    out[i].partition = view.nodes[node].partition
    out[i].node_place = place_of(view, row, view.nodes[node].name) if level == NODE_LOCAL else -1
    out[i].rack_place = place_of(view, row, view.nodes[node].rack) if level <= RACK_LOCAL else -1
    out[i].open = 1
    for r in range(len(view.counted)):
        asked[i, r] = view.capability[row, r]
    assume(view, out, asked, i, knobs.decide)
    for r in range(len(view.counted)):
        scratch.available[node, r] -= asked[i, r]
    if level < OFF_SWITCH:
        count_anew(view, scratch, knobs, row, level)
    if view.rows[row].hold_node == node:
        view.rows[row].hold_node = -1
        view.nodes[node].hold_row = -1
    elif scratch.spots[node].open:
        close_node(view, scratch, node)
