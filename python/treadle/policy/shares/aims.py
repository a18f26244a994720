"""Aims: the share of each leaf if H-DRF fills the tree from empty, for current usage and requests.

The weights on its path entitle each leaf to a minimum. Leaves are served in this order: those that the next container
keeps within their entitlement; those that it keeps within their aims; those that it takes beyond; those that have
reached their aim. Within a group the leaf with the lowest fraction goes first. So each leaf reaches its entitlement and
its aim, except for less than a container, before any leaf exceeds its own. If none of these can be served, the tree
decides (`treadle.policy.shares.hdrf`).

The filling is static H-DRF in floating point; `treadle_lab.fairness.fluid` is the exact version and explains the
method. Every node has a clock: a leaf's shows its dominant share, a group's the least weighted share among its children
that are not blocked; a parent knows the speed of each child's clock. An event changes one path of the tree. Here queues
also have maxima: a resource in which a queue is at its maximum is saturated for the queue and its subtree.
"""

from __future__ import annotations

from math import floor
from typing import Final

from treadle.compiled.functions import inner
from treadle.model.tables import ASSUMED, LIMIT, MAXIMUM, USED, View
from treadle.policy.asks import grows_with_leaf, user_of
from treadle.policy.shares.tree import (
    AIM,
    AIMS,
    EVENTS,
    GIVEN,
    HAS,
    HAS_RATE,
    MOST,
    NEVER,
    OFF,
    REAL,
    REAL_GIVEN,
    REAL_RATE,
    STEP,
    UNIT,
    Shares,
)
from treadle.policy.state import LARGEST, PARTITION, DecideParameters, Scratch

NEAR: Final = 1e-11
"""Tolerance for rounding errors."""


@inner
def fill(shares: Shares) -> int:
    """Fill the tree from empty and leave each leaf's dominant share as its clock; return the number of events.

    Requires `limit`, `UNIT` and `MOST` of all nodes (1 for the root), and `OFF` for resources that the partition lacks.
    """
    nodes, events, most = shares.fill, 0, 16 * len(shares.fill) * (1 + len(shares.resources))
    for at in range(len(nodes)):
        nodes[at].clock = nodes[at].base = nodes[at].speed = 0.0
        nodes[at].moves = 0
    block_off(shares)
    rebuild_all(shares)
    while not nodes[0].blocked and events < most:
        events += 1
        follow(shares, nodes[0].due)
    sync_all(shares)
    return events


@inner
def bind(shares: Shares, at: int) -> None:
    """Mark resources as saturated, for a node and its subtree, of which the node has its maximum."""
    for r in range(len(shares.resources)):
        if shares.filled[at, REAL, r] >= shares.filled[at, MOST, r] - NEAR:
            shares.filled[at, OFF, r] = 1.0
    sync_all(shares)
    block_off(shares)
    rebuild_all(shares)


@inner
def block_off(shares: Shares) -> None:
    """Propagate saturated resources of a node to its subtree."""
    for at in range(1, len(shares.fill)):
        parent = shares.nodes[at].parent
        for r in range(len(shares.resources)):
            if shares.filled[parent, OFF, r] > 0.0:
                shares.filled[at, OFF, r] = 1.0


@inner
def advance(shares: Shares, at: int, time: float) -> None:
    """Advance a node, but not its subtree, to a time by its own clock."""
    node, filled = shares.fill[at], shares.filled
    elapsed = time - node.clock
    shares.fill[at].clock = time
    shares.fill[at].level += node.level_rate * elapsed
    shares.fill[at].share += node.share_rate * elapsed
    for r in range(len(shares.resources)):
        filled[at, HAS, r] += filled[at, HAS_RATE, r] * elapsed
        filled[at, REAL, r] += filled[at, REAL_RATE, r] * elapsed


@inner
def sync(shares: Shares, at: int) -> None:
    """Advance a node to the time of its parent."""
    now = shares.fill[shares.nodes[at].parent].clock
    if shares.fill[at].moves:
        advance(shares, at, shares.fill[at].clock + shares.fill[at].speed * (now - shares.fill[at].base))
    shares.fill[at].base = now


@inner
def sync_all(shares: Shares) -> None:
    """Advance all nodes to the time of the root."""
    for at in range(1, len(shares.fill)):
        sync(shares, at)


@inner
def rebuild_all(shares: Shares) -> None:
    """Recompute all nodes from the leaves; all must be at the same time."""
    for at in range(len(shares.fill) - 1, -1, -1):
        if shares.nodes[at].leaf:
            measure(shares, at)
        else:
            rebuild(shares, at)


@inner
def measure(shares: Shares, at: int) -> None:
    """Compute a leaf's vector and share, and whether it is blocked."""
    nodes, filled, rate = shares.fill, shares.filled, 0.0
    blocked = nodes[at].clock >= nodes[at].limit
    for r in range(len(shares.resources)):
        unit = filled[at, UNIT, r]
        if filled[at, OFF, r] == 0.0:
            rate = max(rate, unit)
        elif unit > 0.0:
            blocked = True
        filled[at, HAS, r] = filled[at, REAL, r] = unit * nodes[at].clock
        filled[at, HAS_RATE, r] = filled[at, REAL_RATE, r] = unit
    nodes[at].blocked = blocked
    nodes[at].share, nodes[at].share_rate = rate * nodes[at].clock, rate
    nodes[at].due = nodes[at].limit


@inner
def rebuild(shares: Shares, at: int) -> None:
    """Compute a group from its children, which must be at its time."""
    nodes, filled = shares.fill, shares.filled
    first, last = shares.nodes[at].first_child, shares.nodes[at].first_child + shares.nodes[at].child_count
    for r in range(len(shares.resources)):
        for row in range(HAS, REAL_RATE + 1):
            filled[at, row, r] = 0.0
    weighs, level = False, NEVER
    for child in range(first, last):
        nodes[child].moves, nodes[child].speed, nodes[child].base = 0, 0.0, nodes[at].clock
        weighs = weighs or (not nodes[child].blocked and shares.nodes[child].weight > 0.0)
        for r in range(len(shares.resources)):
            filled[child, GIVEN, r] = filled[child, REAL_GIVEN, r] = 0.0
            filled[at, REAL, r] += filled[child, REAL, r]
    for child in range(first, last):
        if is_active(shares, child, weighs):
            level = min(level, nodes[child].share / abs(shares.nodes[child].weight))
    nodes[at].rising, nodes[at].level, nodes[at].level_rate = 0, level, 1.0
    nodes[at].blocked = level >= NEVER
    for child in range(first, last):
        if is_lowest(shares, at, child, weighs) and nodes[child].share_rate <= NEAR:
            nodes[at].level_rate = 0.0
    for child in range(first, last):
        set_due(shares, child, NEVER)
        place_child(shares, at, child, weighs)
    for match in range(shares.nodes[at].child_count - 1, 0, -1):
        play_due(shares, 2 * first, match)
    remeasure(shares, at)


@inner
def is_active(shares: Shares, child: int, weighs: bool) -> bool:
    """Return whether a child may be served: one without a weight only if no sibling with a weight may."""
    return not shares.fill[child].blocked and (shares.nodes[child].weight > 0.0) == weighs


@inner
def is_lowest(shares: Shares, at: int, child: int, weighs: bool) -> bool:
    """Return whether a child has the least share among those that may be served."""
    level = shares.fill[at].level * (1.0 + NEAR) + NEAR * NEAR
    return is_active(shares, child, weighs) and shares.fill[child].share <= level * abs(shares.nodes[child].weight)


@inner
def place_child(shares: Shares, at: int, child: int, weighs: bool) -> None:
    """Add a child's vector to its group's; let the child rise, wait until the others reach it, or stay as it is."""
    nodes, filled, weight = shares.fill, shares.filled, abs(shares.nodes[child].weight)
    if is_lowest(shares, at, child, weighs):
        stalled = nodes[at].level_rate == 0.0
        add_part(shares, at, child, 1.0)
        if not stalled:
            move(shares, at, child, weight / nodes[child].share_rate)
        elif nodes[child].share_rate <= NEAR:
            move(shares, at, child, weight)
    elif is_active(shares, child, weighs):
        factor = weight / nodes[child].share
        add_part(shares, at, child, nodes[at].level * factor)
        if nodes[at].level_rate > 0.0:
            set_due(shares, child, nodes[at].clock + nodes[child].share / weight - nodes[at].level)
            for r in range(len(shares.resources)):
                filled[child, GIVEN, r] = filled[child, HAS, r] * factor
                filled[at, HAS_RATE, r] += filled[child, GIVEN, r]
    elif nodes[child].blocked:
        add_part(shares, at, child, 1.0)


@inner
def add_part(shares: Shares, at: int, child: int, factor: float) -> None:
    """Add a child's scaled vector to its group's."""
    for r in range(len(shares.resources)):
        shares.filled[at, HAS, r] += shares.filled[child, HAS, r] * factor


@inner
def move(shares: Shares, at: int, child: int, speed: float) -> None:
    """Start a child's clock; it must be at its parent's time and not in the group's rates."""
    nodes, filled = shares.fill, shares.filled
    nodes[child].moves, nodes[child].speed, nodes[child].base = 1, speed, nodes[at].clock
    nodes[at].rising += 1
    for r in range(len(shares.resources)):
        filled[child, GIVEN, r] = filled[child, HAS_RATE, r] * speed
        filled[child, REAL_GIVEN, r] = filled[child, REAL_RATE, r] * speed
        filled[at, HAS_RATE, r] += filled[child, GIVEN, r]
        filled[at, REAL_RATE, r] += filled[child, REAL_GIVEN, r]
    due = NEVER
    if nodes[child].due < NEVER:
        due = nodes[at].clock + max(nodes[child].due - nodes[child].clock, 0.0) / speed
    set_due(shares, child, due)


@inner
def set_due(shares: Shares, child: int, due: float) -> None:
    """Set when a child changes next, by its parent's clock."""
    parent = shares.nodes[child].parent
    place = shares.nodes[parent].child_count + child - shares.nodes[parent].first_child
    shares.matches[2 * shares.nodes[parent].first_child + place].deadline = due
    shares.matches[2 * shares.nodes[parent].first_child + place].owed = child


@inner
def play_due(shares: Shares, base: int, match: int) -> None:
    """Decide which of two children changes first."""
    left, right = shares.matches[base + 2 * match], shares.matches[base + 2 * match + 1]
    first = right if right.deadline < left.deadline else left
    shares.matches[base + match].deadline, shares.matches[base + match].owed = first.deadline, first.owed


@inner
def replay_due(shares: Shares, child: int) -> None:
    """Update which child of a group changes first, after one has a new time."""
    parent = shares.nodes[child].parent
    base = 2 * shares.nodes[parent].first_child
    match = (shares.nodes[parent].child_count + child - shares.nodes[parent].first_child) >> 1
    while match >= 1:
        play_due(shares, base, match)
        match >>= 1


@inner
def remeasure(shares: Shares, at: int) -> None:
    """Compute a group's share, its speed, and when the group changes next."""
    node, filled = shares.fill[at], shares.filled
    share, rate, due, binds = 0.0, 0.0, NEVER, NEVER
    for r in range(len(shares.resources)):
        if filled[at, OFF, r] == 0.0:
            share = max(share, filled[at, HAS, r])
            if filled[at, REAL_RATE, r] > 0.0 and filled[at, MOST, r] < NEVER:
                left = max(filled[at, MOST, r] - filled[at, REAL, r], 0.0)
                binds = min(binds, node.clock + left / filled[at, REAL_RATE, r])
    for r in range(len(shares.resources)):
        if filled[at, OFF, r] == 0.0 and filled[at, HAS, r] >= share * (1.0 - NEAR):
            rate = max(rate, filled[at, HAS_RATE, r])
    for r in range(len(shares.resources)):
        has, faster = filled[at, HAS, r], filled[at, HAS_RATE, r] - rate
        if filled[at, OFF, r] == 0.0 and has < share * (1.0 - NEAR) and faster > NEAR * rate:
            due = min(due, node.clock + (share - has) / faster)
    if shares.nodes[at].child_count > 0:
        due = min(due, shares.matches[2 * shares.nodes[at].first_child + 1].deadline)
    shares.fill[at].share, shares.fill[at].share_rate = share, rate
    shares.fill[at].binds, shares.fill[at].due = binds, min(due, binds)


@inner
def follow(shares: Shares, time: float) -> None:
    """Apply the event at a time by the root's clock."""
    nodes, at, jumped = shares.fill, 0, False
    advance(shares, 0, time)
    while True:
        if shares.nodes[at].leaf:
            nodes[at].blocked = 1
            break
        if nodes[at].binds <= nodes[at].clock:
            bind(shares, at)
            return
        first = shares.matches[2 * shares.nodes[at].first_child + 1]
        if first.deadline > nodes[at].clock:
            remeasure(shares, at)
            break
        if not nodes[first.owed].moves:  # the rising ones have reached it
            jumped = child_changes(shares, at, first.owed, False)
            break
        advance(shares, first.owed, nodes[first.owed].due)
        nodes[first.owed].base = nodes[at].clock
        at = first.owed
    while at > 0:
        parent = shares.nodes[at].parent
        jumped = child_changes(shares, parent, at, jumped)
        at = parent


@inner
def child_changes(shares: Shares, at: int, child: int, jumped: bool) -> bool:
    """Apply a child's change; return whether the group's vector has jumped."""
    nodes, filled = shares.fill, shares.filled
    stalls = not nodes[child].blocked and nodes[child].share_rate <= NEAR
    if jumped or stalls or nodes[at].level_rate == 0.0 or (nodes[child].blocked and nodes[at].rising <= 1):
        return rebuild_synced(shares, at)
    # no longer in its group's rates
    nodes[at].rising -= nodes[child].moves
    nodes[child].moves, nodes[child].speed = 0, 0.0
    for r in range(len(shares.resources)):
        filled[at, HAS_RATE, r] = max(filled[at, HAS_RATE, r] - filled[child, GIVEN, r], 0.0)
        filled[at, REAL_RATE, r] = max(filled[at, REAL_RATE, r] - filled[child, REAL_GIVEN, r], 0.0)
        filled[child, GIVEN, r] = filled[child, REAL_GIVEN, r] = 0.0
    set_due(shares, child, NEVER)
    if not nodes[child].blocked:
        move(shares, at, child, abs(shares.nodes[child].weight) / nodes[child].share_rate)
    replay_due(shares, child)
    remeasure(shares, at)
    return False


@inner
def rebuild_synced(shares: Shares, at: int) -> bool:
    """Compute a group from its children; return whether its vector has jumped."""
    before = 0.0
    for r in range(len(shares.resources)):
        before += shares.filled[at, HAS, r]
    share = shares.fill[at].share
    first = shares.nodes[at].first_child
    for child in range(first, first + shares.nodes[at].child_count):
        sync(shares, child)
    rebuild(shares, at)
    for r in range(len(shares.resources)):
        before -= shares.filled[at, HAS, r]
    return abs(before) > NEAR or abs(share - shares.fill[at].share) > NEAR


STEPS: Final = 2.0**36
"""Distances to aims, weighted shares and deficits are rounded to multiples of 1 / STEPS, so that ties are exact."""

REACHED: Final = 1.0 - 1e-9
"""An aim counts as reached from this fraction on, because of rounding."""


@inner
def aims_there(shares: Shares, parameters: DecideParameters, partition: int) -> bool:
    """Return whether leaves have aims in a partition; in a lent one the tree decides alone."""
    return partition < len(shares.aims) and not parameters.lends


@inner
def find_aims(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute the aims of the leaves in a partition; weights of nodes must be set."""
    shares = scratch.shares
    scratch.user_asks[:] = 0
    for at in range(len(shares.nodes)):
        shares.fill[at].limit = 0.0
        for r in range(len(view.counted)):
            shares.filled[at, UNIT, r] = shares.filled[at, HAS, r] = 0.0
            shares.filled[at, OFF, r] = scratch.rates[PARTITION, r] <= 0.0
        find_most(view, scratch, at, partition)
        if shares.nodes[at].leaf:
            find_wants(view, scratch, parameters, at, partition)
    shares.counters[EVENTS] = fill(shares)
    shares.unaimed[partition] = 0
    for at in range(len(shares.nodes)):
        if shares.nodes[at].leaf:
            most = 0.0
            for r in range(len(view.counted)):
                if shares.aims[partition, at, AIMS + r] > 0.0:
                    most = max(most, shares.filled[at, UNIT, r])
            shares.aims[partition, at, AIM] = most * shares.fill[at].clock


@inner
def find_most(view: View, scratch: Scratch, at: int, partition: int) -> None:
    """Set the maximum of a node's queue; for a leaf the minimum over its queue and its parents; 1 for the root."""
    filled, queue = scratch.shares.filled, scratch.shares.nodes[at].queue
    for r in range(len(view.counted)):
        filled[at, MOST, r] = NEVER if at > 0 else 1.0
    while queue >= 0:
        if view.limit_known[queue, partition]:
            for r in range(len(view.counted)):
                most = view.limit_amounts[queue, partition, MAXIMUM, r] * scratch.rates[PARTITION, r]
                if scratch.rates[PARTITION, r] > 0.0 and most < 1.0:
                    filled[at, MOST, r] = min(filled[at, MOST, r], most)
        queue = view.queues[queue].parent if scratch.shares.nodes[at].leaf else -1


@inner
def find_wants(view: View, scratch: Scratch, parameters: DecideParameters, at: int, partition: int) -> None:
    """Set a leaf's vector, and the share at which it has all that it uses and requests."""
    shares, rates = scratch.shares, scratch.rates
    filled, queue, limit = shares.filled, shares.nodes[at].queue, 0.0
    shares.aims[partition, at, STEP] = 0.0
    for r in range(len(view.counted)):
        used = view.limit_amounts[queue, partition, USED, r] + view.limit_amounts[queue, partition, ASSUMED, r]
        filled[at, HAS, r] = used * rates[PARTITION, r]
        shares.aims[partition, at, AIMS + r] = 0.0
    for place in range(scratch.queues[queue].first_open, scratch.queues[queue + 1].first_open):
        if not scratch.open_asks[place].starts:
            add_ask(view, scratch, parameters, at, place, partition)
    for r in range(len(view.counted)):
        limit = max(limit, filled[at, HAS, r])
    shares.fill[at].limit = limit
    for r in range(len(view.counted)):
        if limit > 0.0:
            filled[at, UNIT, r] = filled[at, HAS, r] / limit
        if filled[at, UNIT, r] > 0.0 and filled[at, MOST, r] < NEVER:
            shares.fill[at].limit = min(shares.fill[at].limit, filled[at, MOST, r] / filled[at, UNIT, r])


@inner
def add_ask(view: View, scratch: Scratch, parameters: DecideParameters, at: int, place: int, partition: int) -> None:
    """Add a request to a leaf's demand, as far as some node, its queues' maxima and its user's limit allow it."""
    shares, rates, ask = scratch.shares, scratch.rates, scratch.open_asks[place]
    aims, step = shares.aims, 0.0
    for r in range(len(view.counted)):
        if view.counted[r] and view.capability[ask.like, r] > 0:
            share = view.capability[ask.like, r] * rates[PARTITION, r]
            if rates[PARTITION, r] <= 0.0 or share > shares.filled[at, MOST, r]:
                return
            if view.capability[ask.like, r] * rates[LARGEST, r] > 1.0:
                return
            step = max(step, share)
    left = within_limit(
        view, scratch, parameters, ask.application, ask.like, ask.left, shares.nodes[at].queue, partition
    )
    if left <= 0:
        return
    if aims[partition, at, STEP] == 0.0 or step < aims[partition, at, STEP]:
        aims[partition, at, STEP] = step
    for r in range(len(view.counted)):
        if view.capability[ask.like, r] > 0:
            shares.filled[at, HAS, r] += left * (view.capability[ask.like, r] * rates[PARTITION, r])
            aims[partition, at, AIMS + r] = 1.0


@inner
def within_limit(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, row: int, left: int, leaf: int, partition: int
) -> int:
    """Return how many containers of a row the user's limit allows, and count them."""
    user = user_of(view, parameters, app, leaf, partition)
    if user < 0 or grows_with_leaf(view, user, leaf, partition):
        return left
    for r in range(len(view.counted)):
        if view.counted[r] and view.capability[row, r] > 0:
            has = view.user_amounts[user, USED, r] + view.user_amounts[user, ASSUMED, r] + scratch.user_asks[user, r]
            room = view.user_amounts[user, LIMIT, r] - has
            left = min(left, room // view.capability[row, r] + 1 if room >= 0 else 0)
    for r in range(len(view.counted)):
        scratch.user_asks[user, r] += left * view.capability[row, r]
    return left


@inner
def begin_aims(view: View, scratch: Scratch, partition: int) -> bool:
    """Run the tournament of the leaves below their aims; return whether one of them may be served."""
    shares, count = scratch.shares, len(scratch.shares.nodes)
    for at in range(count):
        enter_aim(view, scratch, at, partition)
    for match in range(count - 1, 0, -1):
        play_aim(shares, match)
    return nearest(shares) >= 0


@inner
def enter_aim(view: View, scratch: Scratch, at: int, partition: int) -> None:
    """Compute a node's rank by the distance to its aim, the smallest goes first; enter it if it may be served.

    Leaves that are more than one container above their aims are not ranked.
    """
    shares = scratch.shares
    shares.matches[len(shares.nodes) + at].owed = -1
    if not shares.nodes[at].leaf:
        return
    entitled, step = shares.nodes[at].entitled, shares.aims[partition, at, STEP]
    goal, used, queue = max(shares.aims[partition, at, AIM], entitled), 0.0, shares.nodes[at].queue
    for r in range(len(view.counted)):
        if step == 0.0 or shares.aims[partition, at, AIMS + r] > 0.0:
            amount = view.limit_amounts[queue, partition, USED, r] + view.limit_amounts[queue, partition, ASSUMED, r]
            used = max(used, amount * scratch.rates[PARTITION, r])
    shares.nodes[at].wait = NEVER
    if goal > 0.0 and used < (goal + step) * REACHED:
        if (used + step) * REACHED <= entitled:
            turn = used / entitled
        else:
            turn = 1.0 + ((used + step) * REACHED > goal) + (used >= goal * REACHED) + used / goal
        shares.nodes[at].wait = floor(turn * STEPS + 0.5)
        if shares.nodes[at].asks > 0:
            shares.matches[len(shares.nodes) + at].owed = at


@inner
def play_aim(shares: Shares, match: int) -> None:
    """Decide a match by the winners of the two before it; a tie goes to the left one, -1 is an empty place."""
    left, right = shares.matches[2 * match].owed, shares.matches[2 * match + 1].owed
    wins = right >= 0 and (left < 0 or shares.nodes[right].wait < shares.nodes[left].wait)
    shares.matches[match].owed = right if wins else left


@inner
def replay_aim(view: View, scratch: Scratch, at: int, partition: int) -> None:
    """Repeat the matches of a leaf."""
    enter_aim(view, scratch, at, partition)
    match = (len(scratch.shares.nodes) + at) >> 1
    while match >= 1:
        play_aim(scratch.shares, match)
        match >>= 1


@inner
def nearest(shares: Shares) -> int:
    """Return the leaf (a node) below its aim that goes first, or -1."""
    return int(shares.matches[1].owed) if len(shares.nodes) > 1 else -1
