"""Queues by what they use of what they are guaranteed, as the CapacityScheduler orders them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.config.parts import NoParameters
from treadle.model.tables import ASSUMED, GUARANTEED, USED
from treadle.policy.parts import PlainShare
from treadle.policy.state import PARTITION

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch


@inner
def dominant_share(view: View, scratch: Scratch, queue: int, partition: int, kind: int) -> float:
    """Return the largest share of the partition that an amount of the queue is; with what is assumed, if USED."""
    share = 0.0
    for r in range(len(view.counted)):
        amount = view.limit_amounts[queue, partition, kind, r]
        if kind == USED:
            amount += view.limit_amounts[queue, partition, ASSUMED, r]
        share = max(share, amount * scratch.rates[PARTITION, r])
    return share


@inner
def begin(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Work out what every queue has been guaranteed and uses in the partition."""
    for queue in range(len(view.queues)):
        if view.queues[queue].exists:
            scratch.queues[queue].used_share = dominant_share(view, scratch, queue, partition, USED)
            scratch.queues[queue].guaranteed_share = dominant_share(view, scratch, queue, partition, GUARANTEED)


@inner
def note(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, row: int, partition: int) -> None:
    """Follow an allocation up from its leaf."""
    queue = leaf
    while queue >= 0:
        scratch.queues[queue].used_share = dominant_share(view, scratch, queue, partition, USED)
        queue = view.queues[queue].parent


@inner
def is_owed_more(view: View, scratch: Scratch, a: int, b: int) -> bool:
    """Is queue ``a`` served before its sibling ``b``?

    Queues with a guarantee come before queues without. Among those that are both under, or both at or over, their
    guarantee the higher priority wins; else the smaller used / guaranteed; then the larger guarantee; then the
    smaller index.
    """
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
def comes_before(view: View, scratch: Scratch, parameters: DecideParameters, a: int, b: int) -> bool:
    """Is queue ``a`` served before its sibling ``b``: by the guarantees, or by what a part in Python says?"""
    if parameters.keyed_queues:
        return scratch.queues[a].key < scratch.queues[b].key
    return is_owed_more(view, scratch, a, b)


@inner
def pick(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Walk down from the root, at each level to the queue owed most that has a live leaf below; -1 if there is none."""
    queue = parameters.root
    if scratch.queues[queue].live == 0:
        return -1
    while not view.queues[queue].leaf:
        best = -1
        first = view.queues[queue].first_child
        for at in range(first, first + view.queues[queue].child_count):
            child = view.children[at]
            if scratch.queues[child].live > 0 and (best < 0 or comes_before(view, scratch, parameters, child, best)):
                best = child
        queue = best
    return queue


@inner
def add_live(view: View, scratch: Scratch, leaf: int, more: int) -> None:
    """Count a leaf as live (1) or not any more (-1), at itself and above."""
    queue = leaf
    while queue >= 0:
        scratch.queues[queue].live += more
        queue = view.queues[queue].parent


class CapacityShare(PlainShare):
    """Queues get what the CapacityScheduler guarantees them, and more when others leave it unused."""

    def __init__(self, parameters: NoParameters) -> None:
        pass
