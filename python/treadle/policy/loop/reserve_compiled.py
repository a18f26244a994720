"""Which node to hold for an ask that is too big for any node's free space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import kernel
from treadle.model.tables import TOTAL
from treadle.policy.node_search import NOT_THERE, is_wanted, level_of

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch


@kernel
def missing_share(view: View, scratch: Scratch, row: int, node: int) -> float:
    """Return the largest share of the node's resources that is still missing for the ask; -1 if it can never fit."""
    missing = 0.0
    for r in range(len(view.counted)):
        if view.counted[r]:
            ask, total = view.capability[row, r], view.node_amounts[node, TOTAL, r]
            if ask > total:
                return -1.0
            if total > 0:
                missing = max(missing, (ask - scratch.available[node, r]) / total)
    return missing


@kernel
def best_hold(view: View, scratch: Scratch, knobs: Knobs, row: int) -> int:
    """Return the node with the least missing on which the ask would fit if it were empty, or -1.

    A node that was held for the row in vain comes last.
    """
    best, best_missing = -1, 1e18
    for node in range(len(view.nodes)):
        if view.nodes[node].state != 1 or view.nodes[node].partition != view.rows[row].partition:
            continue
        if view.nodes[node].hold_row >= 0 or view.nodes[node].cool_until > knobs.decide:
            continue
        missing = missing_share(view, scratch, row, node)
        if missing < 0.0:
            continue
        if node == view.rows[row].hold_avoid:
            missing += 1e9
        if missing >= best_missing:
            continue
        if level_of(view, row, node) != NOT_THERE and is_wanted(view, knobs, row, node):
            best, best_missing = node, missing
    return best
