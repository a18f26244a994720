"""Which leaf is owed most, by the rule of the policy's share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.policy.blocked import (
    begin_resources,
    count_all_asks,
    drop_application,
    drop_saturated,
    take_resources,
)
from treadle.policy.share_state import BLOCKED, CAPACITY, DEFICIT, NONE, OWED, SATURATED
from treadle.policy.shares.capacity_compiled import add_live, begin_capacity, pick_by_capacity, update_capacity
from treadle.policy.shares.deficit_compiled import begin_deficits, charge, is_bounded, keep_deficits, stop_deficit
from treadle.policy.shares.hdrf_compiled import begin_tree, first_child, pick_in_tree, update_path
from treadle.policy.shares.none_compiled import begin_heads, first_leaf, replay_head
from treadle.policy.shares.overtaken import compares_shares, forget_served, mark_overtaken, note_served
from treadle.policy.state import KEYED

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch


@inner
def walks_queues(knobs: Knobs) -> bool:
    """Does the rule compare queues that are siblings, and keep no tree of its own?"""
    return knobs.share == CAPACITY or knobs.share == KEYED


@inner
def begin_shares(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Work out what every queue is owed in the partition."""
    if walks_queues(knobs):
        begin_capacity(view, scratch, partition)
        return
    forget_served(scratch.shares)
    begin_resources(view, scratch, knobs, partition)
    count_all_asks(view, scratch, knobs, partition)
    begin_rule(view, scratch, knobs, partition)


@inner
def begin_rule(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Begin with the tree as it stands: the asks of its leaves are counted."""
    scratch.shares.counters[SATURATED] = 0
    if knobs.share < DEFICIT:
        begin_tree(view, scratch, knobs.share, partition)
        return
    nodes = scratch.shares.nodes
    for at in range(1, len(nodes)):
        nodes[at].kind = BLOCKED if nodes[at].asks <= 0 else OWED
    begin_heads(view, scratch)
    if knobs.share == DEFICIT:
        begin_deficits(view, scratch, partition)


@inner
def end_shares(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Keep what goes on when all is computed anew, in this decide or the next."""
    mark_overtaken(view, scratch, knobs, partition)
    if knobs.share == DEFICIT:
        keep_deficits(scratch.shares, partition)


@inner
def pick_leaf(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> int:
    """Return the leaf that is owed most of those that may still get something, or -1 if there is none."""
    if walks_queues(knobs):
        return pick_by_capacity(view, scratch, knobs)
    if scratch.shares.counters[SATURATED]:
        drop_saturated(view, scratch, knobs, partition)
        end_shares(view, scratch, knobs, partition)
        begin_rule(view, scratch, knobs, partition)
    if knobs.share < DEFICIT:
        return pick_in_tree(scratch.shares)
    if knobs.share == NONE or is_bounded(scratch.shares):
        at = first_leaf(scratch.shares)
    else:
        at = first_child(scratch.shares, 0)
    return int(scratch.shares.nodes[at].queue) if at >= 0 else -1


@inner
def note_placed(view: View, scratch: Scratch, knobs: Knobs, leaf: int, row: int, node: int) -> None:
    """Follow a container that was just proposed for a leaf."""
    partition = view.nodes[node].partition
    if walks_queues(knobs):
        update_capacity(view, scratch, leaf, partition)
        return
    app, at = view.rows[row].application, scratch.shares.leaf_node[leaf]
    scratch.shares.nodes[at].asks -= 1
    if view.apps[app].awaiting_am:
        drop_application(view, scratch, knobs, leaf, app, partition)
    if knobs.share == DEFICIT:
        charge(view, scratch, at, row)
    if compares_shares(knobs):
        note_served(scratch, at)
    if take_resources(view, scratch, knobs, row, node):
        scratch.shares.counters[SATURATED] = 1  # all must be computed anew before the next leaf is picked
    else:
        update_leaf(view, scratch, knobs, at, partition)


@inner
def update_leaf(view: View, scratch: Scratch, knobs: Knobs, at: int, partition: int) -> None:
    """Follow a change of a leaf's use or asks."""
    if knobs.share < DEFICIT:
        update_path(view, scratch, knobs.share, at, partition)
        return
    nodes = scratch.shares.nodes
    if nodes[at].asks <= 0 and nodes[at].kind != BLOCKED:
        if knobs.share == DEFICIT:
            stop_deficit(scratch.shares, at)
        nodes[at].kind = BLOCKED
    replay_head(view, scratch, at)


@inner
def give_up(view: View, scratch: Scratch, knobs: Knobs, leaf: int, partition: int) -> None:
    """Leave a leaf alone for the rest of the decide: nothing of it can be placed."""
    if walks_queues(knobs):
        add_live(view, scratch, leaf, -1)
        return
    at = scratch.shares.leaf_node[leaf]
    scratch.shares.nodes[at].asks = 0
    update_leaf(view, scratch, knobs, at, partition)
