"""Hierarchical dominant resource fairness (H-DRF), and flat DRF as a tree with one level.

Rescaling needs the least share M among a group's children that are not blocked, and then all their vectors. A group
stores the sum of its non-blocked children's vectors, each scaled to one unit of weighted share, and the sum of its
blocked children's; its own vector is M x the first + the second. So a container changes one path of the tree: an
addition and a repeated tournament among siblings at each level. `treadle_lab.fairness.algorithms` is the exact version.

A child without a weight is served when no sibling with a weight can be. Such children have a separate sum with equal
weights, which counts only then.
"""

from __future__ import annotations

from math import floor
from typing import Final

from pydantic import Field

from treadle.compiled.functions import inner
from treadle.model.tables import ASSUMED, GUARANTEED, USED, View
from treadle.policy.parts import Share
from treadle.policy.shares.aims import STEPS, aims_there, begin_aims, find_aims, nearest, replay_aim
from treadle.policy.shares.tree import (
    AIMS_AT,
    BLOCKED,
    EVENTS,
    FROM_QUEUE,
    LAST,
    OWED,
    PART,
    USE,
    Shares,
    ShareTree,
    TreeParameters,
)
from treadle.policy.state import PARTITION, DecideParameters, Scratch

RARELY: Final = 50
"""Aims are recomputed once the cycles' work, in scanned requests and nodes, is this multiple of the computation's."""

DECIDES: Final = 6000
"""Fixed cost of a cycle, in the same unit."""

NOTHING = 2.0**-48
"""Rounding errors of a share of 0 are below this."""


@inner
def is_before(shares: Shares, a: int, b: int) -> bool:
    """Return whether node ``a`` is served before its sibling ``b``; ties go to the left; -1 is an empty place."""
    if a < 0 or b < 0:
        return a >= 0
    if shares.nodes[a].kind != shares.nodes[b].kind:
        return shares.nodes[a].kind < shares.nodes[b].kind
    if shares.nodes[a].rank != shares.nodes[b].rank:
        return shares.nodes[a].rank < shares.nodes[b].rank
    return a < b


@inner
def first_child(shares: Shares, group: int) -> int:
    """Return the child of a group that is served first, or -1 if all are blocked."""
    if shares.nodes[group].child_count == 0:
        return -1
    return int(shares.matches[2 * shares.nodes[group].first_child + 1].owed)


@inner
def play(shares: Shares, base: int, match: int) -> None:
    """Decide a match of the tournament at ``base`` by the winners of the two before it."""
    left, right = shares.matches[base + 2 * match].owed, shares.matches[base + 2 * match + 1].owed
    shares.matches[base + match].owed = right if is_before(shares, right, left) else left


@inner
def enter(shares: Shares, at: int) -> int:
    """Enter a node, unless it is blocked, in its siblings' tournament; return its place."""
    siblings = shares.nodes[shares.nodes[at].parent].first_child
    place = shares.nodes[shares.nodes[at].parent].child_count + at - siblings
    shares.matches[2 * siblings + place].owed = -1 if shares.nodes[at].kind == BLOCKED else at
    return place


@inner
def replay(shares: Shares, at: int) -> None:
    """Repeat the matches of a node."""
    place = enter(shares, at) >> 1
    base = 2 * shares.nodes[shares.nodes[at].parent].first_child
    while place >= 1:
        play(shares, base, place)
        place >>= 1


@inner
def weigh_children(view: View, scratch: Scratch, group: int, partition: int) -> None:
    """Set each child's weight as a fraction of the siblings' total; children without a weight count equally."""
    nodes = scratch.shares.nodes
    first = nodes[group].first_child
    total, without = 0.0, 0
    for at in range(first, first + nodes[group].child_count):
        weight = nodes[at].given
        if weight == FROM_QUEUE:
            weight = 0.0
            for r in range(len(view.counted)):
                guaranteed = view.limit_amounts[nodes[at].queue, partition, GUARANTEED, r]
                weight = max(weight, guaranteed * scratch.rates[PARTITION, r])
        nodes[at].weight = weight
        total += weight
        without += weight <= 0.0
    for at in range(first, first + nodes[group].child_count):
        nodes[at].weight = nodes[at].weight / total if nodes[at].weight > 0.0 else -1.0 / without


@inner
def measure_leaf(view: View, scratch: Scratch, at: int, partition: int) -> None:
    """Compute a leaf's vector and share from its queue's usage, in-flight proposals included."""
    shares, share = scratch.shares, 0.0
    queue = shares.nodes[at].queue
    for r in range(len(view.counted)):
        if shares.resources[r].counts:
            amount = view.limit_amounts[queue, partition, USED, r] + view.limit_amounts[queue, partition, ASSUMED, r]
            shares.vectors[at, USE, r] = amount * scratch.rates[PARTITION, r]
            share = max(share, shares.vectors[at, USE, r])
    shares.nodes[at].share = share


@inner
def measure_group(shares: Shares, at: int, rescale: bool) -> int:
    """Compute a group's vector and share from its sums; return the child that is served first, or -1."""
    best, share = first_child(shares, at), 0.0
    scaled = rescale and best >= 0
    for r in range(len(shares.resources)):
        if shares.resources[r].counts:
            amount = shares.vectors[at, BLOCKED, r]
            if scaled:
                amount += shares.nodes[best].key * shares.vectors[at, shares.nodes[best].kind, r]
            shares.vectors[at, USE, r] = amount
            share = max(share, amount)
    shares.nodes[at].share = share if share > NOTHING else 0.0
    return best


@inner
def set_rank(shares: Shares, at: int, blocked: bool) -> None:
    """Set a node's rank among its siblings."""
    weight = shares.nodes[at].weight
    shares.nodes[at].kind = BLOCKED if blocked else (OWED if weight > 0.0 else LAST)
    shares.nodes[at].key = shares.nodes[at].share / abs(weight)
    shares.nodes[at].rank = floor(shares.nodes[at].key * STEPS + 0.5)


@inner
def add_part(shares: Shares, at: int, rescale: bool) -> None:
    """Add a node's vector to its parent's sum for this kind of node."""
    parent, kind, factor = shares.nodes[at].parent, BLOCKED, 1.0
    if rescale and shares.nodes[at].kind != BLOCKED:
        kind = shares.nodes[at].kind
        factor = 1.0 / shares.nodes[at].key if shares.nodes[at].share > 0.0 else 0.0
    shares.nodes[at].sum = kind
    for r in range(len(shares.resources)):
        if shares.resources[r].counts:
            part = shares.vectors[at, USE, r] * factor
            shares.vectors[at, PART, r] = part
            shares.vectors[parent, kind, r] += part


@inner
def aim(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Add the cycle's work; compute the leaves' aims if there are any and this is cheap relative to it."""
    if not aims_there(scratch.shares, parameters, partition):
        return
    shares, asks = scratch.shares, scratch.queues[len(view.queues)].first_open
    shares.unaimed[partition] += DECIDES + asks + len(view.nodes)
    if shares.unaimed[partition] >= RARELY * (asks + 8 * len(shares.nodes) + 16 * shares.counters[EVENTS]):
        weigh(view, scratch, partition)
        find_aims(view, scratch, parameters, partition)


@inner
def begin(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Find the leaves below their aims; if none of them may be served, use the tree."""
    weigh(view, scratch, partition)
    aimed = aims_there(scratch.shares, parameters, partition) and begin_aims(view, scratch, partition)
    scratch.shares.counters[AIMS_AT] = aimed
    if not aimed:
        begin_tree(view, scratch, parameters, partition)


@inner
def weigh(view: View, scratch: Scratch, partition: int) -> None:
    """Compute all weights, and the share that the weights on its path give each node."""
    nodes = scratch.shares.nodes
    for group in range(len(nodes)):
        weigh_children(view, scratch, group, partition)
    nodes[0].entitled = 1.0
    for at in range(1, len(nodes)):
        nodes[at].entitled = nodes[nodes[at].parent].entitled * max(nodes[at].weight, 0.0)


@inner
def begin_tree(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute the whole tree from the leaves up."""
    shares, rescale = scratch.shares, parameters.rescales
    for at in range(len(shares.nodes) - 1, -1, -1):
        if shares.nodes[at].leaf:
            measure_leaf(view, scratch, at, partition)
            blocked = shares.nodes[at].asks <= 0
        else:
            first, count = shares.nodes[at].first_child, shares.nodes[at].child_count
            for r in range(len(shares.resources)):
                shares.vectors[at, OWED, r] = shares.vectors[at, LAST, r] = shares.vectors[at, BLOCKED, r] = 0.0
            for child in range(first, first + count):
                enter(shares, child)
                add_part(shares, child, rescale)
            for match in range(count - 1, 0, -1):
                play(shares, 2 * first, match)
            blocked = measure_group(shares, at, rescale) < 0
        if at > 0:
            set_rank(shares, at, blocked)


@inner
def update(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> None:
    """Update the tree, up to the root, after a change of a leaf's usage or requests."""
    shares, rescale = scratch.shares, parameters.rescales
    if shares.counters[AIMS_AT]:
        replay_aim(view, scratch, leaf, partition)
        return
    measure_leaf(view, scratch, leaf, partition)
    blocked, at = shares.nodes[leaf].asks <= 0, leaf
    while at > 0:
        parent, kind = shares.nodes[at].parent, shares.nodes[at].sum
        for r in range(len(shares.resources)):
            if shares.resources[r].counts:
                shares.vectors[parent, kind, r] -= shares.vectors[at, PART, r]
        set_rank(shares, at, blocked)
        add_part(shares, at, rescale)
        replay(shares, at)
        at = parent
        blocked = measure_group(shares, at, rescale) < 0


@inner
def pick(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Return the queue nearest to its aim; otherwise descend the tree to the child served first; -1 if none."""
    shares, at = scratch.shares, 0
    if shares.counters[AIMS_AT]:
        leaf = nearest(shares)
        if leaf >= 0:
            return int(shares.nodes[leaf].queue)
        shares.counters[AIMS_AT] = 0
        begin_tree(view, scratch, parameters, partition)
    while not shares.nodes[at].leaf:
        at = first_child(shares, at)
        if at < 0:
            return -1
    return int(shares.nodes[at].queue)


class HdrfParameters(TreeParameters):
    """Parameters of the share `hdrf`."""

    algorithm: str = Field(
        default="repaired",
        alias="as",
        pattern="^(repaired|paper)$",
        description="paper: Algorithms 2 to 4 alone; leaves may starve (docs/hdrf-counterexamples.md).",
    )
    static: bool = Field(
        default=False,
        description="Algorithm 1, without rescaling, not 2 to 4. As tasks end, leaves may starve (section 3.3).",
    )


class HdrfShare(Share, kind="hdrf", parameters=HdrfParameters):
    """H-DRF: at each level of the tree the queue with the least dominant share, rescaled, comes first."""

    steps, compares_shares = "hdrf", True

    def __init__(self, parameters: HdrfParameters) -> None:
        self.rescales = not parameters.static
        aims = parameters.algorithm == "repaired" and not parameters.static
        self.tree = ShareTree(parameters, flat=False, aims=aims)


class DrfShare(Share, kind="drf", parameters=TreeParameters):
    """DRF: the leaf queue with the least dominant share comes first, whatever tree it is in."""

    steps, compares_shares = "hdrf", True

    def __init__(self, parameters: TreeParameters) -> None:
        self.tree = ShareTree(parameters, flat=True)
