"""Queues served in turn within a bound, by deficit counters (Graphene).

A container of size f for group g changes g's deficit by f x (fairShare(g) - 1), and every other's by f x fairShare.
Fair shares are fractions of the weights of the groups that may be served, so all deficits rise with one virtual time,
each at the rate of its weight: a group's deficit is a line. A kinetic tournament finds the largest: each match knows
when its loser will overtake its winner, and is repeated only then. So a container changes one path.

A blocked group's deficit is frozen. A group without requests neither gains nor loses.
"""

from __future__ import annotations

from math import floor

from pydantic import Field

from treadle.compiled.functions import inner
from treadle.model.tables import View
from treadle.policy.parts import Share
from treadle.policy.shares.aims import STEPS
from treadle.policy.shares.hdrf import enter, first_child, weigh_children
from treadle.policy.shares.none import begin as begin_heads
from treadle.policy.shares.none import first_leaf, replay_head
from treadle.policy.shares.tree import BLOCKED, NEVER, UNITS, VIRTUAL_TIME, WEIGHTS, Shares, ShareTree, TreeParameters
from treadle.policy.state import PARTITION, DecideParameters, Scratch


@inner
def deficit(shares: Shares, at: int) -> float:
    """Return a node's current deficit."""
    if shares.nodes[at].kind == BLOCKED:
        return float(shares.nodes[at].key)
    return float(shares.nodes[at].key + max(shares.nodes[at].weight, 0.0) * shares.clock[VIRTUAL_TIME])


@inner
def rounded(shares: Shares, at: int) -> float:
    """Return a node's deficit rounded to whole steps, so that ties are exact."""
    return float(floor(deficit(shares, at) * STEPS + 0.5))


@inner
def is_owed_more(shares: Shares, a: int, b: int) -> bool:
    """Return whether ``a`` has the larger deficit; ties: the faster rise, then the left; -1 is an empty place."""
    if a < 0 or b < 0:
        return a >= 0
    mine, other = rounded(shares, a), rounded(shares, b)
    if mine != other:
        return mine > other
    if shares.nodes[a].weight != shares.nodes[b].weight:
        return shares.nodes[a].weight > shares.nodes[b].weight
    return a < b


@inner
def play_deficit(shares: Shares, match: int) -> None:
    """Decide a match by the winners of the two before it, and compute when the loser overtakes the winner."""
    base, count = 2 * shares.nodes[0].first_child, shares.nodes[0].child_count
    left, right = shares.matches[base + 2 * match].owed, shares.matches[base + 2 * match + 1].owed
    if is_owed_more(shares, right, left):
        winner, loser = right, left
    else:
        winner, loser = left, right
    deadline, faster = NEVER, 0.0
    if winner >= 0 and loser >= 0:
        faster = shares.nodes[loser].weight - max(shares.nodes[winner].weight, 0.0)
    if faster > 0.0:
        later = (deficit(shares, winner) - deficit(shares, loser)) / faster
        deadline = shares.clock[VIRTUAL_TIME] + max(later, 1.0 / STEPS)
    for before in range(2 * match, 2 * match + 2):
        if before < count:
            deadline = min(deadline, shares.matches[base + before].deadline)
    shares.matches[base + match].owed = winner
    shares.matches[base + match].deadline = deadline


@inner
def replay_deficit(shares: Shares, at: int) -> None:
    """Repeat the matches of a leaf."""
    match = enter(shares, at) >> 1
    while match >= 1:
        play_deficit(shares, match)
        match >>= 1


@inner
def is_due(shares: Shares, match: int) -> bool:
    """Return whether a match, or one below it, must be repeated; half a step early, to be safe from rounding."""
    deadline = shares.matches[2 * shares.nodes[0].first_child + match].deadline
    return bool(deadline <= shares.clock[VIRTUAL_TIME] + 0.5 / STEPS)


@inner
def catch_up(shares: Shares) -> None:
    """Repeat all matches whose result has expired."""
    count = shares.nodes[0].child_count
    while count > 1 and is_due(shares, 1):
        match, found = 1, True
        while found:
            found = False
            for before in range(2 * match, min(2 * match + 2, count)):
                if is_due(shares, before):
                    match, found = before, True
                    break
        while match >= 1:
            play_deficit(shares, match)
            match >>= 1


@inner
def begin(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Restore the deficits of the last cycle."""
    begin_heads(view, scratch, parameters, partition)
    shares = scratch.shares
    first, count = shares.nodes[0].first_child, shares.nodes[0].child_count
    weigh_children(view, scratch, 0, partition)
    shares.clock[VIRTUAL_TIME] = shares.clock[WEIGHTS] = 0.0
    for at in range(first, first + count):
        if scratch.queues[shares.nodes[at].queue].live == 0:
            shares.kept[partition, at] = 0.0
        shares.nodes[at].key = shares.kept[partition, at]
        if shares.nodes[at].kind != BLOCKED:
            shares.clock[WEIGHTS] += max(shares.nodes[at].weight, 0.0)
        enter(shares, at)
    for match in range(count - 1, 0, -1):
        play_deficit(shares, match)
    shares.clock[UNITS] = NEVER if shares.slots else 1.0
    for r in range(len(shares.resources)):
        if shares.slots and shares.resources[r].asked and scratch.rates[PARTITION, r] > 0.0:
            fit = 1.0 / (scratch.rates[PARTITION, r] * shares.resources[r].least)  # of the smallest request
            shares.clock[UNITS] = min(shares.clock[UNITS], fit)


@inner
def note(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, row: int, partition: int) -> None:
    """Update all deficits for a container given to a leaf."""
    shares, counts = scratch.shares, 1.0
    at = shares.leaf_node[leaf]
    if not shares.slots:
        counts = 0.0
        for r in range(len(view.counted)):
            counts = max(counts, view.capability[row, r] * scratch.rates[PARTITION, r])
    if shares.clock[WEIGHTS] > 0.0:
        shares.clock[VIRTUAL_TIME] += counts / shares.clock[WEIGHTS]
    shares.nodes[at].key -= counts
    replay_deficit(shares, at)


@inner
def update(view: View, scratch: Scratch, parameters: DecideParameters, at: int, partition: int) -> None:
    """Update the state after a change of a leaf's requests; without any its deficit is frozen."""
    shares = scratch.shares
    if shares.nodes[at].asks <= 0 and shares.nodes[at].kind != BLOCKED:
        shares.nodes[at].key = deficit(shares, at)
        shares.clock[WEIGHTS] -= max(shares.nodes[at].weight, 0.0)
        shares.nodes[at].kind = BLOCKED
        replay_deficit(shares, at)
    replay_head(view, scratch, parameters, at)


@inner
def end(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Save the deficits for the next cycle."""
    shares = scratch.shares
    first = shares.nodes[0].first_child
    for at in range(first, first + shares.nodes[0].child_count):
        shares.kept[partition, at] = deficit(shares, at)


@inner
def is_bounded(shares: Shares) -> bool:
    """Return whether the largest deficit is below kappa x capacity, so that the order alone may decide."""
    catch_up(shares)
    best = first_child(shares, 0)
    return best < 0 or rounded(shares, best) < shares.kappa * shares.clock[UNITS] * STEPS


@inner
def pick(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Return the queue whose application comes first, or the one with the largest deficit if that is too large."""
    at = first_leaf(scratch.shares) if is_bounded(scratch.shares) else first_child(scratch.shares, 0)
    return int(scratch.shares.nodes[at].queue) if at >= 0 else -1


class DeficitParameters(TreeParameters):
    """Parameters of the share `deficit`."""

    kappa: float = Field(
        default=0.1,
        ge=0.0,
        le=1.0,
        description="The largest deficit, as a part of the capacity, up to which the order decides across all queues.",
    )
    slots: bool = Field(
        default=False, description="A container counts 1 (slots); else its dominant demand (as DRF would)."
    )


class DeficitShare(Share, kind="deficit", parameters=DeficitParameters):
    """The order decides across all leaf queues, until one is too far behind its fair share; then that one is served."""

    steps = "deficit"

    def __init__(self, parameters: DeficitParameters) -> None:
        self.tree = ShareTree(parameters, flat=True, keeps=True, kappa=parameters.kappa, slots=parameters.slots)
