"""Which leaves are blocked (H-DRF, section 3.4): no ask left, or none that could be placed.

A resource is saturated when no node has room for the smallest ask that needs it; for divisible resources that is
"fully used". A leaf is blocked when each of its asks needs a saturated resource, exceeds a queue's maximum or a user's
limit, or fits on no node. At the start of a decide all asks are looked at; later a leaf's count goes down as its asks
are placed or given up, and all are looked at again when one more resource is saturated. An ask that has lost its
last node since the start, or its room under a maximum, is found out when its leaf's turn comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.policy.limits import (
    asks_here,
    asks_left,
    find_room,
    grows_with_leaf,
    has_room,
    is_over_limit,
    note_big,
    user_of,
)
from treadle.policy.node_search import NOT_THERE, fits, fits_nowhere, held_node, is_wanted, level_of, remember_nowhere
from treadle.policy.share_state import CHECKS_LEFT, HDRF, WITNESS
from treadle.policy.state import CLUSTER, OPEN_NODES, PARTITION, ROOM

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch

CHECKS_PER_LEAF = 64
"""How many nodes are looked at for asks that have no room where the last ask had: on average, beyond one each."""


@inner
def find_least_asks(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Find the smallest ask of each resource in the partition that is not 0."""
    resources = scratch.shares.resources
    for r in range(len(resources)):
        resources[r].least = 1 << 62
    for at in range(len(scratch.list)):
        app = scratch.list[at].application
        row = view.apps[app].first_row if scratch.apps[app].done == 0 else -1
        while row >= 0:
            if asks_here(view, scratch, knobs, row, partition):
                for r in range(len(resources)):
                    if view.capability[row, r] > 0:
                        resources[r].least = min(resources[r].least, view.capability[row, r])
            row = view.rows[row].next
    for r in range(len(resources)):
        resources[r].asked = resources[r].least < 1 << 62
        if not resources[r].asked:
            resources[r].least = 1


@inner
def begin_resources(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Count the nodes of the partition with room for the smallest ask of each resource."""
    find_least_asks(view, scratch, knobs, partition)
    resources = scratch.shares.resources
    for r in range(len(resources)):
        resources[r].nodes = 0
    for node in range(len(view.nodes)):
        if view.nodes[node].state == 1 and view.nodes[node].partition == partition:
            for r in range(len(resources)):
                resources[r].nodes += scratch.available[node, r] >= resources[r].least
    for r in range(len(resources)):
        resources[r].saturated = view.counted[r] and resources[r].nodes == 0
        ignored = resources[r].saturated and knobs.share == HDRF
        resources[r].counts = scratch.rates[PARTITION, r] > 0.0 and not ignored


@inner
def take_resources(view: View, scratch: Scratch, knobs: Knobs, row: int, node: int) -> bool:
    """Follow a container on a node; say whether that has saturated a resource."""
    resources, found = scratch.shares.resources, False
    for r in range(len(resources)):
        left, least = scratch.available[node, r], resources[r].least
        if left < least <= left + view.capability[row, r]:
            resources[r].nodes -= 1
            if resources[r].nodes == 0 and view.counted[r]:
                resources[r].saturated = 1
                resources[r].counts = resources[r].counts and knobs.share != HDRF
                found = True
    return found


@inner
def needs_saturated(view: View, scratch: Scratch, row: int) -> bool:
    """Does the ask need a resource that is saturated?"""
    found = False
    for r in range(len(view.counted)):
        found = found or (scratch.shares.resources[r].saturated and view.capability[row, r] > 0)
    return found


@inner
def takes(view: View, scratch: Scratch, knobs: Knobs, row: int, node: int) -> bool:
    """Would this node do for the ask?"""
    if not fits(view, scratch, row, node) or level_of(view, row, node) == NOT_THERE:
        return False
    return is_wanted(view, knobs, row, node)


@inner
def has_node(view: View, scratch: Scratch, knobs: Knobs, row: int) -> bool:
    """Say whether some open node would do for the ask; taken for granted when too many have been looked at."""
    counters, count = scratch.shares.counters, scratch.counters[OPEN_NODES]
    if held_node(view, scratch, knobs, row) >= 0:
        return True
    if count == 0 or fits_nowhere(view, scratch, row):
        return False
    at = counters[WITNESS] if counters[WITNESS] < count else 0
    for _ in range(count):
        if takes(view, scratch, knobs, row, scratch.spots[at].node):
            counters[WITNESS] = at
            return True
        if counters[CHECKS_LEFT] <= 0:
            return True
        counters[CHECKS_LEFT] -= 1
        at = at + 1 if at + 1 < count else 0
    remember_nowhere(view, scratch, row)
    return False


@inner
def is_stuck(view: View, scratch: Scratch, user: int, leaf: int, partition: int) -> bool:
    """Is the user over the limit, and will remain so in this decide?"""
    if not is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition):
        return False
    return not grows_with_leaf(view, user, leaf, partition)


@inner
def count_asks(view: View, scratch: Scratch, knobs: Knobs, leaf: int, partition: int) -> int:
    """Return how many of a leaf's asks could be placed; give up the others."""
    asks = 0
    find_room(view, scratch, knobs, leaf, partition)
    for at in range(scratch.queues[leaf].first, scratch.queues[leaf + 1].first):
        app = scratch.list[at].application
        if scratch.apps[app].done or (view.apps[app].awaiting_am and view.apps[app].assumed_count > 0):
            continue
        user = user_of(view, knobs, app, leaf, partition)
        if user >= 0 and is_stuck(view, scratch, user, leaf, partition):
            scratch.apps[app].done = 1
            continue
        row = view.apps[app].first_row
        while row >= 0:
            if asks_here(view, scratch, knobs, row, partition):
                could = has_room(view, scratch.asks[ROOM], app, row, user) and not needs_saturated(view, scratch, row)
                if could and not has_node(view, scratch, knobs, row):
                    note_big(view, scratch, row)
                    could = False
                if could:
                    asks += asks_left(view, scratch, row)
                else:
                    scratch.rows[row].done = 1
            row = view.rows[row].next
    return asks


@inner
def count_all_asks(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Count the asks of every leaf of the tree."""
    shares = scratch.shares
    shares.counters[CHECKS_LEFT] = CHECKS_PER_LEAF * len(shares.nodes)
    for at in range(len(shares.nodes)):
        if shares.nodes[at].leaf:
            queue = shares.nodes[at].queue
            live = scratch.queues[queue].live > 0
            shares.nodes[at].asks = count_asks(view, scratch, knobs, queue, partition) if live else 0


@inner
def drop_row(view: View, scratch: Scratch, leaf: int, row: int) -> None:
    """Take off what a row that is given up has asked for."""
    at = scratch.shares.leaf_node[leaf] if len(scratch.shares.nodes) else -1
    if at >= 0:
        scratch.shares.nodes[at].asks -= asks_left(view, scratch, row)


@inner
def drop_saturated(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Give up all asks that need a saturated resource."""
    for at in range(len(scratch.list)):
        app = scratch.list[at].application
        if scratch.apps[app].done or (view.apps[app].awaiting_am and view.apps[app].assumed_count > 0):
            continue
        row = view.apps[app].first_row
        while row >= 0:
            mine = asks_here(view, scratch, knobs, row, partition)
            if mine and needs_saturated(view, scratch, row):
                scratch.rows[row].done = 1
                drop_row(view, scratch, view.apps[app].queue, row)
            row = view.rows[row].next


@inner
def drop_application(view: View, scratch: Scratch, knobs: Knobs, leaf: int, app: int, partition: int) -> None:
    """Take off what an application that is given up has asked for."""
    row = view.apps[app].first_row
    while row >= 0:
        if asks_here(view, scratch, knobs, row, partition):
            drop_row(view, scratch, leaf, row)
        row = view.rows[row].next
