"""Which leaf is owed most: the CapacityScheduler's order of queues (PriorityUtilizationQueueOrderingPolicy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    from treadle.model.cluster import View
    from treadle.model.types import F64, I64
    from treadle.policy.kernel.scratch import Scratch


@njit(cache=True, nogil=True)
def dominant(amounts: I64, assumed: I64, inverse: F64) -> float:
    """Return the largest share of any counted resource; ``inverse`` is 1 / total, 0 for those not counted."""
    share = 0.0
    for r in range(len(inverse)):
        share = max(share, (amounts[r] + assumed[r]) * inverse[r])
    return share


@njit(cache=True, nogil=True)
def begin_shares(view: View, scratch: Scratch, partition: int) -> None:
    """Work out what every queue has been guaranteed and uses in the partition."""
    limits = view.limits
    for queue in range(len(view.queues.parent)):
        if view.queues.exists[queue]:
            used, assumed = limits.used[queue, partition], limits.assumed[queue, partition]
            scratch.used_share[queue] = dominant(used, assumed, scratch.inverse_total)
            guaranteed = limits.guaranteed[queue, partition]
            scratch.guaranteed_share[queue] = dominant(guaranteed, guaranteed, scratch.inverse_total) / 2


@njit(cache=True, nogil=True)
def update_shares(view: View, scratch: Scratch, leaf: int, partition: int) -> None:
    """Follow an allocation up from its leaf."""
    queue = leaf
    while queue >= 0:
        used, assumed = view.limits.used[queue, partition], view.limits.assumed[queue, partition]
        scratch.used_share[queue] = dominant(used, assumed, scratch.inverse_total)
        queue = view.queues.parent[queue]


@njit(cache=True, nogil=True)
def is_owed_more(view: View, scratch: Scratch, a: int, b: int) -> bool:
    """Is queue ``a`` served before its sibling ``b``?

    Queues with a guarantee come before queues without. Among those that are both under, or both at or over, their guarantee
    the higher priority wins; else the smaller used / guaranteed; then the larger guarantee; then the smaller index.
    """
    guaranteed_a, guaranteed_b = scratch.guaranteed_share[a], scratch.guaranteed_share[b]
    if (guaranteed_a > 0.0) != (guaranteed_b > 0.0):
        return guaranteed_a > 0.0
    ratio_a, ratio_b = scratch.used_share[a], scratch.used_share[b]
    if guaranteed_a > 0.0:
        ratio_a /= guaranteed_a
        ratio_b /= guaranteed_b
    if view.queues.priority[a] != view.queues.priority[b] and (ratio_a >= 1.0) == (ratio_b >= 1.0):
        return view.queues.priority[a] > view.queues.priority[b]
    if ratio_a != ratio_b:
        return ratio_a < ratio_b
    if guaranteed_a != guaranteed_b:
        return guaranteed_a > guaranteed_b
    return a < b


@njit(cache=True, nogil=True)
def pick_leaf(view: View, scratch: Scratch, root: int) -> int:
    """Walk down from the root, at each level to the queue owed most that has a live leaf below; -1 if there is none."""
    queue = root
    if scratch.live[queue] == 0:
        return -1
    while not view.queues.leaf[queue]:
        best = -1
        first = view.queues.first_child[queue]
        for at in range(first, first + view.queues.child_count[queue]):
            child = view.queues.children[at]
            if scratch.live[child] > 0 and (best < 0 or is_owed_more(view, scratch, child, best)):
                best = child
        queue = best
    return queue


@njit(cache=True, nogil=True)
def add_live(view: View, scratch: Scratch, leaf: int, more: int) -> None:
    """Count a leaf as live (1) or not any more (-1), at itself and above."""
    queue = leaf
    while queue >= 0:
        scratch.live[queue] += more
        queue = view.queues.parent[queue]


@njit(cache=True, nogil=True)
def find_room(view: View, scratch: Scratch, leaf: int, partition: int) -> None:
    """Set ``room`` to the least that any queue from the leaf to the root may still get in the partition."""
    room = scratch.room
    room[:] = 1 << 62
    queue = leaf
    while queue >= 0:
        if view.limits.known[queue, partition]:
            for r in range(len(room)):
                used = view.limits.used[queue, partition, r] + view.limits.assumed[queue, partition, r]
                room[r] = min(room[r], view.limits.maximum[queue, partition, r] - used)
        queue = view.queues.parent[queue]
