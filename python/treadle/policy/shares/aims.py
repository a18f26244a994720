"""Aims: where H-DRF, filled from empty for what leaves run and ask for now, takes each of them.

What the weights on its path give a leaf is the least that it aims at. Leaves that the next container leaves within that
are served first; then those that it leaves within their aims; then those that it takes beyond; then those that have
their aim and no container more. Of equals the one with the least part comes first. So each leaf has its part and its
aim, but for less than a container, before any goes beyond. When none of these can be served, the tree decides
(`treadle.policy.shares.hdrf`).
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.model.tables import ASSUMED, LIMIT, MAXIMUM, USED
from treadle.policy.asks import grows_with_leaf, user_of
from treadle.policy.share_state import (
    AIM,
    AIMS,
    EVENTS,
    HAS,
    MOST,
    NEVER,
    OFF,
    STEP,
    UNIT,
    Shares,
)
from treadle.policy.shares.filling import fill
from treadle.policy.state import LARGEST, PARTITION

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch

STEPS: Final = 2.0**36
"""Ways to aims are compared in steps of 1 / STEPS."""

RARELY: Final = 50
"""Aims are computed when decides have worked so many times as much, in asks and nodes that they have looked at."""

DECIDES: Final = 6000
"""What a decide takes besides, in the same."""

REACHED: Final = 1.0 - 1e-9
"""So much of an aim is all of it, but for rounding."""


@inner
def aims_there(shares: Shares, parameters: DecideParameters, partition: int) -> bool:
    """Say whether leaves have aims in a partition; what a partition lends goes by the tree alone."""
    return partition < len(shares.aims) and not parameters.lends


@inner
def is_due(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> bool:
    """Say whether leaves have aims, and decides have worked so much since that new ones cost little beside it."""
    shares, asks = scratch.shares, scratch.queues[len(view.queues)].first_open
    if not aims_there(shares, parameters, partition):
        return False
    shares.unaimed[partition] += DECIDES + asks + len(view.nodes)
    return bool(shares.unaimed[partition] >= RARELY * (asks + 8 * len(shares.nodes) + 16 * shares.counters[EVENTS]))


@inner
def find_aims(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute the leaves' aims in a partition; the nodes have their weights."""
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
    """Set the maximum of a node's queue; of a leaf the least of its queue's and those above it."""
    filled, queue = scratch.shares.filled, scratch.shares.nodes[at].queue
    for r in range(len(view.counted)):
        filled[at, MOST, r] = NEVER
    while queue >= 0:
        if view.limit_known[queue, partition]:
            for r in range(len(view.counted)):
                most = view.limit_amounts[queue, partition, MAXIMUM, r] * scratch.rates[PARTITION, r]
                if scratch.rates[PARTITION, r] > 0.0 and most < 1.0:
                    filled[at, MOST, r] = min(filled[at, MOST, r], most)
        queue = view.queues[queue].parent if scratch.shares.nodes[at].leaf else -1


@inner
def find_wants(view: View, scratch: Scratch, parameters: DecideParameters, at: int, partition: int) -> None:
    """Set a leaf's vector and the share with which it has all that it uses and asks for."""
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
    """Add to what a leaf wants an ask that some node, its queues' maxima and its user's limit could let it have."""
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
    """Return how many containers of a row its user's limit lets the user have, and count them."""
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
    """Play the tournament of the leaves below their aims; say whether there is one that may be served."""
    shares, count = scratch.shares, len(scratch.shares.nodes)
    for at in range(count):
        enter_aim(view, scratch, at, partition)
    for match in range(count - 1, 0, -1):
        play_aim(shares, match)
    return nearest(shares) >= 0


@inner
def enter_aim(view: View, scratch: Scratch, at: int, partition: int) -> None:
    """Find the way of a node to its aim; put it in its place if it is a leaf that may be served."""
    shares = scratch.shares
    shares.matches[len(shares.nodes) + at].owed = -1
    if not shares.nodes[at].leaf:
        return
    goal, step = max(shares.aims[partition, at, AIM], shares.nodes[at].entitled), shares.aims[partition, at, STEP]
    used, queue = 0.0, shares.nodes[at].queue
    for r in range(len(view.counted)):
        if step == 0.0 or shares.aims[partition, at, AIMS + r] > 0.0:
            amount = view.limit_amounts[queue, partition, USED, r] + view.limit_amounts[queue, partition, ASSUMED, r]
            used = max(used, amount * scratch.rates[PARTITION, r])
    shares.nodes[at].wait = NEVER
    if goal > 0.0 and used < (goal + step) * REACHED:
        shares.nodes[at].wait = floor(turn(used, step, shares.nodes[at].entitled, goal) * STEPS + 0.5)
        if shares.nodes[at].asks > 0:
            shares.matches[len(shares.nodes) + at].owed = at


@inner
def turn(used: float, step: float, entitled: float, goal: float) -> float:
    """Return the turn of a leaf that has less than a container more than its aim: the smallest comes first."""
    if (used + step) * REACHED <= entitled:
        return used / entitled
    return 1.0 + ((used + step) * REACHED > goal) + (used >= goal * REACHED) + used / goal


@inner
def play_aim(shares: Shares, match: int) -> None:
    """Decide one match by the winners of the two before it; of equals the left one wins, -1 is nobody."""
    left, right = shares.matches[2 * match].owed, shares.matches[2 * match + 1].owed
    wins = right >= 0 and (left < 0 or shares.nodes[right].wait < shares.nodes[left].wait)
    shares.matches[match].owed = right if wins else left


@inner
def replay_aim(view: View, scratch: Scratch, at: int, partition: int) -> None:
    """Decide anew the matches that a leaf plays."""
    enter_aim(view, scratch, at, partition)
    match = (len(scratch.shares.nodes) + at) >> 1
    while match >= 1:
        play_aim(scratch.shares, match)
        match >>= 1


@inner
def nearest(shares: Shares) -> int:
    """Return the leaf below its aim that is served first, as a node, or -1."""
    return int(shares.matches[1].owed) if len(shares.nodes) > 1 else -1
