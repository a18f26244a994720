"""What bounds an ask besides nodes: gate and cool-down, the maxima of queues, the limits of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.compiled.pair_map import find, pair
from treadle.model.tables import ASSUMED, GUARANTEED, HEADROOM, LIMIT, MAX_PARTITIONS, MAXIMUM, USED
from treadle.policy.state import BIG_COUNT, BIG_ROWS, PLACED, ROOM

if TYPE_CHECKING:
    from treadle.compiled.array_types import F64, I64
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch

NOT_KNOWN: Final = -1
"""Nothing is known of a user: headroom counts."""
NO_LIMIT: Final = -2
"""Users have no limit in a partition that is lent (UsersManager.computeUserLimit)."""


@inner
def may_ask(view: View, scratch: Scratch, knobs: Knobs, row: int) -> bool:
    """Has the row an ask that is not assumed, let through by the gate, and not cooling down?"""
    if scratch.rows[row].done or not scratch.rows[row].may or view.rows[row].cool_until > knobs.decide:
        return False
    return asks_left(view, scratch, row) > 0


@inner
def asks_here(view: View, scratch: Scratch, knobs: Knobs, row: int, partition: int) -> bool:
    """May the row ask for nodes of the partition? It must name that; of one that is lent, no label, and be no AM."""
    if knobs.lends:
        if view.rows[row].partition != 0 or view.apps[view.rows[row].application].awaiting_am:
            return False
    elif view.rows[row].partition != partition:
        return False
    return may_ask(view, scratch, knobs, row)


@inner
def user_of(view: View, knobs: Knobs, app: int, leaf: int, partition: int) -> int:
    """Return the row of an application's user in the leaf and partition, `NOT_KNOWN` or `NO_LIMIT`."""
    if knobs.lends:
        return NO_LIMIT
    return find(view.user_index, pair(leaf * MAX_PARTITIONS + partition, view.apps[app].user))


@inner
def asks_left(view: View, scratch: Scratch, row: int) -> int:
    """Return how many containers of a row may still be proposed, as far as the gate counts them."""
    return min(view.rows[row].count - view.rows[row].assumed, scratch.rows[row].quota)


@inner
def grows_with_leaf(view: View, user: int, leaf: int, partition: int) -> bool:
    """Say whether the user's limit will follow what the leaf uses.

    Once a leaf uses what it is guaranteed, the RM makes the limit of a lone user what the leaf uses and a little more
    (UsersManager.computeUserLimit), unless user-limit-factor caps it. A limit that covers all that the leaf uses is not
    capped yet; taken as it was told, it would let one or two containers a tick through.
    """
    full = False
    for r in range(len(view.counted)):
        if view.counted[r]:
            used = view.limit_amounts[leaf, partition, USED, r]
            if view.user_amounts[user, LIMIT, r] < used:
                return False
            full = full or used >= view.limit_amounts[leaf, partition, GUARANTEED, r]
    return full


@inner
def is_over_limit(view: View, totals: F64, user: int, leaf: int, partition: int) -> bool:
    """Say whether the user is over the limit already, by the dominant share of the cluster as the RM does.

    One container over the limit is allowed, as in YARN: else an ask larger than what is left would never be served.
    ``totals`` are the cluster's resources.
    """
    over, used_share, limit_share = False, 0.0, 0.0
    grows = grows_with_leaf(view, user, leaf, partition)
    for r in range(len(view.counted)):
        if view.counted[r]:
            used = view.user_amounts[user, USED, r] + view.user_amounts[user, ASSUMED, r]
            limit = view.user_amounts[user, LIMIT, r]
            if grows:
                limit += view.limit_amounts[leaf, partition, ASSUMED, r]
            over = over or used > limit
            if totals[r] > 0.0:
                used_share = max(used_share, used / totals[r])
                limit_share = max(limit_share, limit / totals[r])
    return over and used_share >= limit_share


@inner
def has_room(view: View, room: I64, app: int, row: int, user: int) -> bool:
    """Say whether the ask stays within the queues' maxima, and, if nothing is known of the user, the headroom.

    ``room`` is what the leaf may still get, as by `room_under_maxima`.
    """
    for r in range(len(view.counted)):
        if not view.counted[r]:
            continue
        ask = view.capability[row, r]
        if ask > room[r]:
            return False
        headroom = view.app_amounts[app, HEADROOM, r] - view.app_amounts[app, ASSUMED, r]
        if user == NOT_KNOWN and view.apps[app].has_headroom and ask > headroom:
            return False
    return True


@inner
def note_big(view: View, scratch: Scratch, row: int) -> None:
    """Remember a row that fits no node, and how many proposals there were when that was found."""
    if view.rows[row].hold_node < 0 and scratch.counters[BIG_COUNT] < BIG_ROWS:
        scratch.big[scratch.counters[BIG_COUNT]].row = row
        scratch.big[scratch.counters[BIG_COUNT]].placed = scratch.counters[PLACED]
        scratch.big[scratch.counters[BIG_COUNT]].overtaken = 0
        scratch.counters[BIG_COUNT] += 1


@inner
def find_room(view: View, scratch: Scratch, knobs: Knobs, leaf: int, partition: int) -> None:
    """Set ``room`` to the least that any queue from the leaf to the root may still get in the partition.

    Of a partition that is lent each may have all, as in YARN (AbstractCSQueue.getCurrentLimitResource).
    """
    room_under_maxima(view, scratch.asks[ROOM], -1 if knobs.lends else leaf, partition)


@inner
def room_under_maxima(view: View, room: I64, leaf: int, partition: int) -> None:
    """Set ``room`` to the least that any queue from the leaf to the root may still get; without bound if leaf is -1."""
    for r in range(len(room)):
        room[r] = 1 << 62
    queue = leaf
    while queue >= 0:
        if view.limit_known[queue, partition]:
            for r in range(len(room)):
                used = view.limit_amounts[queue, partition, USED, r] + view.limit_amounts[queue, partition, ASSUMED, r]
                room[r] = min(room[r], view.limit_amounts[queue, partition, MAXIMUM, r] - used)
        queue = view.queues[queue].parent
