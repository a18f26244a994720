"""How the loop follows the share of a policy: begin, pick the next leaf, note a proposal, update, end.

What a share does in each of these steps is in its file; `treadle.policy.shares.rules` finds the one that was chosen.

A reserved node idles, so only applications that would have been served get one. In a tree that shares are compared in,
such an application has, at some level, a lower weighted share than the sibling that was served. Where order alone or
queues' guarantees decide, any later placement overtakes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.policy.asks import drop_application, drop_saturated
from treadle.policy.node_search import headroom_needed
from treadle.policy.open_asks import begin_resources, count_all_asks
from treadle.policy.share_state import AIMS_AT, SATURATED, SERVED
from treadle.policy.shares import capacity, rules
from treadle.policy.shares.aims import STEPS
from treadle.policy.state import BIG_COUNT, PLACED

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.share_state import Shares
    from treadle.policy.state import DecideParameters, Scratch


NOBODY = -1.0
"""As `served_rank`: no child was served."""

FIRST = 2.0 * STEPS
"""What a leaf that has nothing waits for, if a container takes it beyond its aim."""

BEYOND = 1e299
"""A leaf was served that is not below its aim."""


@inner
def forget_served(shares: Shares) -> None:
    """Begin anew: nobody was served."""
    for at in range(len(shares.nodes)):
        shares.nodes[at].served_rank = NOBODY
    shares.clock[SERVED] = NOBODY


@inner
def note_served(scratch: Scratch, leaf: int) -> None:
    """Remember with what ranks a leaf of the tree and the groups above it were served."""
    if scratch.counters[BIG_COUNT] == 0:
        return
    shares, nodes, at = scratch.shares, scratch.shares.nodes, leaf
    shares.clock[SERVED] = max(shares.clock[SERVED], nodes[leaf].wait if shares.counters[AIMS_AT] else BEYOND)
    while at > 0 and not shares.counters[AIMS_AT]:
        parent = nodes[at].parent
        nodes[parent].served_rank = max(nodes[parent].served_rank, nodes[at].rank)
        at = parent


@inner
def comes_before_served(shares: Shares, leaf: int) -> bool:
    """Has the leaf, or a group above it, a lower share than a sibling that was served?

    Where leaves have aims: has it a lower part of its aim, of which the next container is a part or the first?
    """
    if len(shares.aims) > 0:
        return bool(shares.nodes[leaf].wait <= FIRST and shares.nodes[leaf].wait < shares.clock[SERVED])
    at = leaf
    while at > 0:
        parent = shares.nodes[at].parent
        if shares.nodes[at].weight > 0.0 and shares.nodes[at].rank < shares.nodes[parent].served_rank:
            return True
        at = parent
    return False


@inner
def mark_overtaken(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Mark the rows that fit no node of the partition and were overtaken, by the shares as they are now."""
    for at in range(scratch.counters[BIG_COUNT]):
        row = scratch.big[at].row
        if view.rows[row].partition != partition or scratch.counters[PLACED] <= scratch.big[at].placed:
            continue
        if parameters.compares_shares:
            leaf = scratch.shares.leaf_node[view.apps[view.rows[row].application].queue]
            if leaf < 0 or not comes_before_served(scratch.shares, leaf):
                continue
        scratch.big[at].overtaken = 1
    if parameters.compares_shares:
        forget_served(scratch.shares)


@inner
def begin_shares(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Work out what every queue is owed in the partition."""
    if not parameters.walks_queues:
        forget_served(scratch.shares)
        begin_resources(view, scratch, parameters, partition)
        count_all_asks(view, scratch, parameters, partition)
        scratch.shares.counters[SATURATED] = 0
        rules.aim(view, scratch, parameters, partition)
    rules.begin(view, scratch, parameters, partition)


@inner
def end_shares(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Keep what goes on when all is computed anew, in this decide or the next."""
    mark_overtaken(view, scratch, parameters, partition)
    rules.end(view, scratch, parameters, partition)


@inner
def pick_leaf(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Return the leaf that is owed most of those that may still get something, or -1 if there is none."""
    if not parameters.walks_queues and scratch.shares.counters[SATURATED]:
        drop_saturated(view, scratch, parameters, partition)
        end_shares(view, scratch, parameters, partition)
        scratch.shares.counters[SATURATED] = 0
        rules.begin(view, scratch, parameters, partition)
    return rules.pick(view, scratch, parameters, partition)


@inner
def take_resources(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int) -> bool:
    """Follow a container on a node; say whether that has saturated a resource."""
    resources, found = scratch.shares.resources, False
    for r in range(len(resources)):
        left, least = scratch.available[node, r], headroom_needed(scratch, node, r, resources[r].least)
        if left < least <= left + view.capability[row, r]:
            resources[r].nodes -= 1
            if resources[r].nodes == 0 and view.counted[r]:
                resources[r].saturated = 1
                resources[r].counts = resources[r].counts and not parameters.rescales
                found = True
    return found


@inner
def note_placed(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, row: int, node: int) -> None:
    """Follow a container that was just proposed for a leaf."""
    partition = view.nodes[node].partition
    if parameters.walks_queues:
        rules.note(view, scratch, parameters, leaf, row, partition)
        return
    app, at = view.rows[row].application, scratch.shares.leaf_node[leaf]
    scratch.shares.nodes[at].asks -= 1
    if view.apps[app].awaiting_am:
        drop_application(view, scratch, parameters, app, partition)
    rules.note(view, scratch, parameters, leaf, row, partition)
    if parameters.compares_shares:
        note_served(scratch, at)
    if take_resources(view, scratch, parameters, row, node):
        scratch.shares.counters[SATURATED] = 1  # all must be computed anew before the next leaf is picked
    else:
        rules.update(view, scratch, parameters, at, partition)


@inner
def give_up(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> None:
    """Leave a leaf alone for the rest of the decide: nothing of it can be placed."""
    if parameters.walks_queues:
        capacity.give_up(view, scratch, parameters, leaf)
        return
    at = scratch.shares.leaf_node[leaf]
    scratch.shares.nodes[at].asks = 0
    rules.update(view, scratch, parameters, at, partition)
