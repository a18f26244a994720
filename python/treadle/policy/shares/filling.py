"""Static H-DRF in floating point: where the tree, filled from empty, takes each leaf.

As `treadle.fairness`, which is exact and explains the method: every node has a clock, a leaf's shows its dominant
share, a group's the least weighted share among its children that are not blocked; a parent knows the speed of each
child's clock. An event changes one path of the tree. Here queues also have maxima: a resource in which a queue is at
its maximum is saturated for the queue and all below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.policy.share_state import (
    GIVEN,
    HAS,
    HAS_RATE,
    MOST,
    NEVER,
    OFF,
    REAL,
    REAL_GIVEN,
    REAL_RATE,
    UNIT,
)

if TYPE_CHECKING:
    from treadle.policy.share_state import Shares

NEAR: Final = 1e-11
"""What rounding may have set apart."""


@inner
def fill(shares: Shares) -> int:
    """Fill the tree from empty; leave each leaf's dominant share as its clock. Return how many events that took.

    `limit`, `UNIT` and `MOST` of all nodes, and the `OFF` of resources that the partition has none of, must be set.
    """
    nodes, events, most = shares.fill, 0, 16 * len(shares.fill) * (1 + len(shares.resources))
    for at in range(len(nodes)):
        nodes[at].clock = nodes[at].base = nodes[at].speed = 0.0
        nodes[at].moves = 0
    block_off(shares)
    rebuild_all(shares)
    while not nodes[0].blocked and events < most:
        events += 1
        full = nodes[0].clock + until_full(shares)
        if full <= nodes[0].due:
            advance(shares, 0, full)
            saturate(shares)
        else:
            follow(shares, nodes[0].due)
    sync_all(shares)
    return events


@inner
def until_full(shares: Shares) -> float:
    """Return how long, by the root's clock, until the next resource is used up."""
    left, filled = NEVER, shares.filled
    for r in range(len(shares.resources)):
        if filled[0, OFF, r] == 0.0 and filled[0, REAL_RATE, r] > 0.0:
            left = min(left, max(1.0 - filled[0, REAL, r], 0.0) / filled[0, REAL_RATE, r])
    return left


@inner
def saturate(shares: Shares) -> None:
    """Let used up resources count no more."""
    for r in range(len(shares.resources)):
        if shares.filled[0, REAL, r] >= 1.0 - NEAR:
            shares.filled[0, OFF, r] = 1.0
    sync_all(shares)
    block_off(shares)
    rebuild_all(shares)


@inner
def bind(shares: Shares, at: int) -> None:
    """Saturate, for a queue and all below it, the resources in which the queue is at its maximum."""
    for r in range(len(shares.resources)):
        if shares.filled[at, REAL, r] >= shares.filled[at, MOST, r] - NEAR:
            shares.filled[at, OFF, r] = 1.0
    sync_all(shares)
    block_off(shares)
    rebuild_all(shares)


@inner
def block_off(shares: Shares) -> None:
    """Let what does not count at a node not count below it either."""
    for at in range(1, len(shares.fill)):
        parent = shares.nodes[at].parent
        for r in range(len(shares.resources)):
            if shares.filled[parent, OFF, r] > 0.0:
                shares.filled[at, OFF, r] = 1.0


@inner
def advance(shares: Shares, at: int, time: float) -> None:
    """Bring a node, though not what is below it, to a time by its own clock."""
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
    """Bring a node to the time of its parent."""
    now = shares.fill[shares.nodes[at].parent].clock
    if shares.fill[at].moves:
        advance(shares, at, shares.fill[at].clock + shares.fill[at].speed * (now - shares.fill[at].base))
    shares.fill[at].base = now


@inner
def sync_all(shares: Shares) -> None:
    """Bring all nodes to the time of the root."""
    for at in range(1, len(shares.fill)):
        sync(shares, at)


@inner
def rebuild_all(shares: Shares) -> None:
    """Compute all nodes from what the leaves have; they must be in sync."""
    for at in range(len(shares.fill) - 1, -1, -1):
        if shares.nodes[at].leaf:
            measure(shares, at)
        else:
            rebuild(shares, at)


@inner
def measure(shares: Shares, at: int) -> None:
    """Compute a leaf's vector, its share, and whether it is blocked."""
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
    """Compute a group from its children, which must be in sync."""
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
    """Say whether a child may be served: one without a weight only if no sibling with one may."""
    return not shares.fill[child].blocked and (shares.nodes[child].weight > 0.0) == weighs


@inner
def is_lowest(shares: Shares, at: int, child: int, weighs: bool) -> bool:
    """Say whether a child has the least share among those that may be served."""
    level = shares.fill[at].level * (1.0 + NEAR) + NEAR * NEAR
    return is_active(shares, child, weighs) and shares.fill[child].share <= level * abs(shares.nodes[child].weight)


@inner
def place_child(shares: Shares, at: int, child: int, weighs: bool) -> None:
    """Add a child's vector to its group's, and let it move, wait until the others reach it, or stay as it is."""
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
    """Add a child's vector, scaled, to its group's."""
    for r in range(len(shares.resources)):
        shares.filled[at, HAS, r] += shares.filled[child, HAS, r] * factor


@inner
def move(shares: Shares, at: int, child: int, speed: float) -> None:
    """Let a child's clock run; it must be in sync and without a part in the group's rates."""
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
def take_back(shares: Shares, at: int, child: int) -> None:
    """Remove a child's part from its group's rates."""
    filled = shares.filled
    shares.fill[at].rising -= shares.fill[child].moves
    shares.fill[child].moves, shares.fill[child].speed = 0, 0.0
    for r in range(len(shares.resources)):
        filled[at, HAS_RATE, r] = max(filled[at, HAS_RATE, r] - filled[child, GIVEN, r], 0.0)
        filled[at, REAL_RATE, r] = max(filled[at, REAL_RATE, r] - filled[child, REAL_GIVEN, r], 0.0)
        filled[child, GIVEN, r] = filled[child, REAL_GIVEN, r] = 0.0
    set_due(shares, child, NEVER)


@inner
def set_due(shares: Shares, child: int, due: float) -> None:
    """Say when something changes at a child, by its parent's clock."""
    parent = shares.nodes[child].parent
    place = shares.nodes[parent].child_count + child - shares.nodes[parent].first_child
    shares.matches[2 * shares.nodes[parent].first_child + place].deadline = due
    shares.matches[2 * shares.nodes[parent].first_child + place].owed = child


@inner
def play_due(shares: Shares, base: int, match: int) -> None:
    """Find which of two children changes first."""
    left, right = shares.matches[base + 2 * match], shares.matches[base + 2 * match + 1]
    first = right if right.deadline < left.deadline else left
    shares.matches[base + match].deadline, shares.matches[base + match].owed = first.deadline, first.owed


@inner
def replay_due(shares: Shares, child: int) -> None:
    """Find which child of a group changes first, after one has another time."""
    parent = shares.nodes[child].parent
    base = 2 * shares.nodes[parent].first_child
    match = (shares.nodes[parent].child_count + child - shares.nodes[parent].first_child) >> 1
    while match >= 1:
        play_due(shares, base, match)
        match >>= 1


@inner
def remeasure(shares: Shares, at: int) -> None:
    """Find a group's share, how fast it rises, and when something about the group changes next."""
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
    """Apply the event that is due at a time by the root's clock."""
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
        if not nodes[first.owed].moves:
            jumped = join(shares, at, first.owed)
            break
        advance(shares, first.owed, nodes[first.owed].due)
        nodes[first.owed].base = nodes[at].clock
        at = first.owed
    while at > 0:
        parent = shares.nodes[at].parent
        jumped = child_changes(shares, parent, at, jumped)
        at = parent


@inner
def join(shares: Shares, at: int, child: int) -> bool:
    """Let a child move that the rising ones have reached; say whether the group's vector has jumped."""
    take_back(shares, at, child)
    if shares.fill[child].share_rate <= NEAR:
        return rebuild_synced(shares, at)
    move(shares, at, child, abs(shares.nodes[child].weight) / shares.fill[child].share_rate)
    replay_due(shares, child)
    remeasure(shares, at)
    return False


@inner
def child_changes(shares: Shares, at: int, child: int, jumped: bool) -> bool:
    """Follow what has changed at a child; say whether the group's vector has jumped."""
    nodes = shares.fill
    stalls = not nodes[child].blocked and nodes[child].share_rate <= NEAR
    if jumped or stalls or nodes[at].level_rate == 0.0 or (nodes[child].blocked and nodes[at].rising <= 1):
        return rebuild_synced(shares, at)
    take_back(shares, at, child)
    if not nodes[child].blocked:
        move(shares, at, child, abs(shares.nodes[child].weight) / nodes[child].share_rate)
    replay_due(shares, child)
    remeasure(shares, at)
    return False


@inner
def rebuild_synced(shares: Shares, at: int) -> bool:
    """Compute a group from its children; say whether its vector has jumped."""
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
