"""Which leaf is owed most, by the rule of the policy's share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.model.kernel.compiled import inner
from treadle.policy.kernel.blocked import begin_resources, count_all_asks, drop_application, take_resources
from treadle.policy.kernel.scratch import KEYED
from treadle.policy.kernel.share_capacity import add_live, begin_capacity, pick_by_capacity, update_capacity
from treadle.policy.kernel.share_scratch import CAPACITY
from treadle.policy.kernel.share_tree import begin_tree, pick_in_tree, update_path

if TYPE_CHECKING:
    from treadle.model.view import View
    from treadle.policy.kernel.scratch import Knobs, Scratch


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
    begin_resources(view, scratch, knobs, partition)
    count_all_asks(view, scratch, knobs, partition, True)
    begin_tree(view, scratch, knobs.share, partition)


@inner
def pick_leaf(view: View, scratch: Scratch, knobs: Knobs) -> int:
    """Return the leaf that is owed most of those that may still get something, or -1 if there is none."""
    if walks_queues(knobs):
        return pick_by_capacity(view, scratch, knobs)
    return pick_in_tree(scratch.shares)


@inner
def note_placed(view: View, scratch: Scratch, knobs: Knobs, leaf: int, row: int, node: int) -> None:
    """Follow a container that was just proposed for a leaf."""
    partition = view.rows[row].partition
    if walks_queues(knobs):
        update_capacity(view, scratch, leaf, partition)
        return
    app, at = view.rows[row].application, scratch.shares.leaf_node[leaf]
    scratch.shares.nodes[at].asks -= 1
    if view.apps[app].awaiting_am:
        drop_application(view, scratch, knobs, leaf, app, partition)
    if take_resources(view, scratch, knobs, row, node):
        count_all_asks(view, scratch, knobs, partition, False)
        begin_tree(view, scratch, knobs.share, partition)
    else:
        update_path(view, scratch, knobs.share, at, partition)


@inner
def give_up(view: View, scratch: Scratch, knobs: Knobs, leaf: int, partition: int) -> None:
    """Leave a leaf alone for the rest of the decide: nothing of it can be placed."""
    if walks_queues(knobs):
        add_live(view, scratch, leaf, -1)
        return
    at = scratch.shares.leaf_node[leaf]
    scratch.shares.nodes[at].asks = 0
    update_path(view, scratch, knobs.share, at, partition)
