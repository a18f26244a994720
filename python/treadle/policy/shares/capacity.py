"""Queues ordered by usage relative to their guarantee, as in the CapacityScheduler.

A container changes one path of the tree: the matches of a tournament among siblings at each level. The comparison is a
total order of siblings, so the pairing does not matter.
"""

from __future__ import annotations

from treadle.compiled.functions import inner
from treadle.model.tables import ASSUMED, GUARANTEED, USED, View
from treadle.policy.parts import FOLLOWS, Share
from treadle.policy.state import PARTITION, DecideParameters, Scratch


@inner
def dominant_share(view: View, scratch: Scratch, queue: int, partition: int, kind: int) -> float:
    """Return the queue's dominant share of the partition in an amount; for USED, in-flight proposals included."""
    share = 0.0
    for r in range(len(view.counted)):
        amount = view.limit_amounts[queue, partition, kind, r]
        if kind == USED:
            amount += view.limit_amounts[queue, partition, ASSUMED, r]
        share = max(share, amount * scratch.rates[PARTITION, r])
    return share


@inner
def comes_before(view: View, scratch: Scratch, parameters: DecideParameters, a: int, b: int) -> bool:
    """Return whether queue ``a`` is served before its sibling ``b``: by a custom part's keys, or by guarantees.

    Queues with a guarantee come before queues without. If both are under their guarantee, or both at or above it, the
    higher priority wins; then the smaller used / guaranteed; then the larger guarantee; then the smaller index.
    """
    if parameters.keyed_queues:
        if scratch.queues[a].key != scratch.queues[b].key:
            return scratch.queues[a].key < scratch.queues[b].key
        return a < b
    guaranteed_a, guaranteed_b = scratch.queues[a].guaranteed_share, scratch.queues[b].guaranteed_share
    if (guaranteed_a > 0.0) != (guaranteed_b > 0.0):
        return guaranteed_a > 0.0
    ratio_a, ratio_b = scratch.queues[a].used_share, scratch.queues[b].used_share
    if guaranteed_a > 0.0:
        ratio_a /= guaranteed_a
        ratio_b /= guaranteed_b
    if view.queues[a].priority != view.queues[b].priority and (ratio_a >= 1.0) == (ratio_b >= 1.0):
        return view.queues[a].priority > view.queues[b].priority
    if ratio_a != ratio_b:
        return ratio_a < ratio_b
    if guaranteed_a != guaranteed_b:
        return guaranteed_a > guaranteed_b
    return a < b


@inner
def play(view: View, scratch: Scratch, parameters: DecideParameters, base: int, match: int) -> None:
    """Decide a match of the tournament at ``base`` by the winners of the two before it; -1 is an empty place."""
    left, right = scratch.turns[base + 2 * match], scratch.turns[base + 2 * match + 1]
    wins = right >= 0 and (left < 0 or comes_before(view, scratch, parameters, right, left))
    scratch.turns[base + match] = right if wins else left


@inner
def enter(view: View, scratch: Scratch, queue: int) -> int:
    """Enter a queue in its siblings' tournament if a leaf below it may get containers; return its place."""
    parent = view.queues[queue].parent
    place = view.queues[parent].child_count + scratch.queues[queue].place
    scratch.turns[2 * view.queues[parent].first_child + place] = queue if scratch.queues[queue].live > 0 else -1
    return place


@inner
def replay(view: View, scratch: Scratch, parameters: DecideParameters, queue: int) -> None:
    """Repeat the matches of a queue against its siblings."""
    if view.queues[queue].parent < 0:
        return
    base, match = 2 * view.queues[view.queues[queue].parent].first_child, enter(view, scratch, queue) >> 1
    while match >= 1:
        play(view, scratch, parameters, base, match)
        match >>= 1


@inner
def begin(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute each queue's guarantee and usage in the partition, and run the tournaments."""
    for queue in range(len(view.queues)):
        if view.queues[queue].exists:
            scratch.queues[queue].used_share = dominant_share(view, scratch, queue, partition, USED)
            scratch.queues[queue].guaranteed_share = dominant_share(view, scratch, queue, partition, GUARANTEED)
    for queue in range(len(view.queues)):
        count, first = view.queues[queue].child_count, view.queues[queue].first_child
        for at in range(count):
            scratch.queues[view.children[first + at]].place = at
            enter(view, scratch, view.children[first + at])
        for match in range(count - 1, 0, -1):
            play(view, scratch, parameters, 2 * first, match)


@inner
def note(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, row: int, partition: int) -> None:
    """Add an allocation to its leaf and the queues above."""
    queue = leaf
    while queue >= 0:
        scratch.queues[queue].used_share = dominant_share(view, scratch, queue, partition, USED)
        replay(view, scratch, parameters, queue)
        queue = view.queues[queue].parent


@inner
def skip_queue(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int) -> None:
    """Exclude a leaf for the rest of the cycle."""
    queue = leaf
    while queue >= 0:
        scratch.queues[queue].live -= 1
        if scratch.queues[queue].live == 0:
            replay(view, scratch, parameters, queue)
        queue = view.queues[queue].parent


@inner
def pick(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Return the leaf reached from the root via the most entitled queue with a live leaf at each level; -1 if none."""
    queue = parameters.root
    if scratch.queues[queue].live == 0:
        return -1
    while not view.queues[queue].leaf:
        queue = scratch.turns[2 * view.queues[queue].first_child + 1]
    return queue


class CapacityShare(Share, kind="capacity", traits=FOLLOWS):
    """Queues get the CapacityScheduler's guarantees, and more when others leave it unused."""

    steps, walks_queues = "capacity", True
