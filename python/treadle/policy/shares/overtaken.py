"""Which of the asks that fit no node were overtaken: something was placed that was not owed it before them.

A hold keeps resources idle, so it is for those alone who would have been served. In a tree that shares are compared
in, that is whoever has, at some level, the lower weighted share than the sibling that was served. Where order alone or
queues' guarantees decide, whatever is placed later overtakes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.policy.share_state import CAPACITY, DEFICIT
from treadle.policy.state import BIG_COUNT, PLACED

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.share_state import Shares
    from treadle.policy.state import Knobs, Scratch

NOBODY = -1.0
"""As `served_rank`: no child was served."""


@inner
def compares_shares(knobs: Knobs) -> bool:
    """Does the rule serve by shares in a tree?"""
    return CAPACITY < knobs.share < DEFICIT


@inner
def forget_served(shares: Shares) -> None:
    """Begin anew: nobody was served."""
    for at in range(len(shares.nodes)):
        shares.nodes[at].served_rank = NOBODY


@inner
def note_served(scratch: Scratch, leaf: int) -> None:
    """Remember with what ranks a leaf of the tree and the groups above it were served."""
    if scratch.counters[BIG_COUNT] == 0:
        return
    nodes, at = scratch.shares.nodes, leaf
    while at > 0:
        parent = nodes[at].parent
        nodes[parent].served_rank = max(nodes[parent].served_rank, nodes[at].rank)
        at = parent


@inner
def comes_before_served(shares: Shares, leaf: int) -> bool:
    """Has the leaf, or a group above it, a lower share than a sibling that was served?"""
    at = leaf
    while at > 0:
        parent = shares.nodes[at].parent
        if shares.nodes[at].weight > 0.0 and shares.nodes[at].rank < shares.nodes[parent].served_rank:
            return True
        at = parent
    return False


@inner
def mark_overtaken(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Mark the rows that fit no node of the partition and were overtaken, by the shares as they are now."""
    for at in range(scratch.counters[BIG_COUNT]):
        row = scratch.big[at].row
        if view.rows[row].partition != partition or scratch.counters[PLACED] <= scratch.big[at].placed:
            continue
        if compares_shares(knobs):
            leaf = scratch.shares.leaf_node[view.apps[view.rows[row].application].queue]
            if leaf < 0 or not comes_before_served(scratch.shares, leaf):
                continue
        scratch.big[at].overtaken = 1
    if compares_shares(knobs):
        forget_served(scratch.shares)
