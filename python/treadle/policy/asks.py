"""Which asks are still open in this decide, and what bounds them.

A resource is saturated when no node has room for the smallest ask that needs it; for divisible resources that is
"fully used". A leaf is blocked when each of its asks needs a saturated resource, exceeds a queue's maximum or a user's
limit, or fits on no node. At the start of a decide all asks are looked at; later a leaf's count goes down as its asks
are placed or given up, and all are looked at again when one more resource is saturated. An ask that has lost its
last node since the start, or its headroom under a maximum, is found out when its leaf's turn comes.
"""

from __future__ import annotations

from typing import Final

from treadle.compiled.array_types import F64, I64
from treadle.compiled.functions import inner
from treadle.compiled.pair_map import find, pair
from treadle.model.tables import (
    ASSUMED,
    GUARANTEED,
    HEADROOM,
    LIMIT,
    MAX_PARTITIONS,
    MAXIMUM,
    SIBLING_RESERVE,
    USED,
    View,
)
from treadle.policy.reasons import Reason, close_row, set_reason
from treadle.policy.state import BIG_COUNT, BIG_ROWS, LARGEST, LEAF_HEADROOM, LEAVES, PLACED, DecideParameters, Scratch

NOT_KNOWN: Final = -1
"""Nothing is known of a user: headroom counts."""
NO_LIMIT: Final = -2
"""Users have no limit in a partition that is lent (UsersManager.computeUserLimit)."""


@inner
def may_ask(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> bool:
    """Has the row an ask that is not assumed, let through by the gate, and not in backoff?"""
    if scratch.rows[row].done or not scratch.rows[row].may or view.rows[row].backoff_until > parameters.decide:
        return False
    return asks_left(view, scratch, row) > 0


@inner
def asks_here(view: View, scratch: Scratch, parameters: DecideParameters, row: int, partition: int) -> bool:
    """May the row ask for nodes of the partition? It must name that; of one that is lent, no label, and be no AM."""
    if parameters.lends:
        if view.rows[row].partition != 0 or view.apps[view.rows[row].application].awaiting_am:
            return False
    elif view.rows[row].partition != partition:
        return False
    return may_ask(view, scratch, parameters, row)


@inner
def note_refused(
    view: View, scratch: Scratch, parameters: DecideParameters, row: int, partition: int, backs_off: bool
) -> None:
    """Write down why a row of the partition may not ask, as `may_ask` has it; ``backs_off``: its application does."""
    if scratch.rows[row].done or parameters.lends or view.rows[row].partition != partition:
        return
    if view.rows[row].count <= view.rows[row].assumed:
        set_reason(scratch, row, Reason.PLACED)
    elif not scratch.rows[row].may or scratch.rows[row].quota <= 0:
        set_reason(scratch, row, Reason.GATE)
    elif backs_off or view.rows[row].backoff_until > parameters.decide:
        set_reason(scratch, row, Reason.BACKOFF)


@inner
def user_of(view: View, parameters: DecideParameters, app: int, leaf: int, partition: int) -> int:
    """Return the row of an application's user in the leaf and partition, `NOT_KNOWN` or `NO_LIMIT`."""
    if parameters.lends:
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
    capped yet; taken as it is, it would let one or two containers a tick through.
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
def refused(view: View, headroom: I64, leaves: int, app: int, row: int, user: int) -> int:
    """Say why the ask would exceed the queues' maxima or, if nothing is known of the user, the headroom; 0: it stays.

    ``headroom`` is what the leaf may still get, ``leaves`` whether guarantees of others make it less
    (`headroom_under_maxima`).
    """
    for r in range(len(view.counted)):
        if not view.counted[r]:
            continue
        ask = view.capability[row, r]
        if ask > headroom[r]:
            return Reason.GUARANTEED_TO_OTHERS if leaves else Reason.QUEUE_MAXIMUM
        app_headroom = view.app_amounts[app, HEADROOM, r] - view.app_amounts[app, ASSUMED, r]
        if user == NOT_KNOWN and view.apps[app].has_headroom and ask > app_headroom:
            return Reason.USER_LIMIT
    return 0


@inner
def is_too_large(view: View, scratch: Scratch, row: int) -> bool:
    """Say whether an ask is larger than any node of the partition, were it empty."""
    for r in range(len(view.counted)):
        rate = scratch.rates[LARGEST, r]
        none = rate == 0.0 and view.counted[r] and view.capability[row, r] > 0
        if none or (scratch.bound[r] and view.capability[row, r] * rate > 1.0 + 1e-12):
            return True
    return False


@inner
def barred(view: View, scratch: Scratch, app: int, row: int, user: int) -> int:
    """Say why no node need be looked for, for an ask of the leaf that is served; 0: one must be."""
    if is_too_large(view, scratch, row):
        return Reason.TOO_LARGE
    return refused(view, scratch.asks[LEAF_HEADROOM], scratch.counters[LEAVES], app, row, user)


@inner
def note_big(view: View, scratch: Scratch, row: int) -> None:
    """Remember a row that fits no node, and how many proposals there were when that was found."""
    if view.rows[row].hold_node < 0 and scratch.counters[BIG_COUNT] < BIG_ROWS:
        scratch.big[scratch.counters[BIG_COUNT]].row = row
        scratch.big[scratch.counters[BIG_COUNT]].placed = scratch.counters[PLACED]
        scratch.big[scratch.counters[BIG_COUNT]].overtaken = 0
        scratch.counters[BIG_COUNT] += 1


@inner
def find_headroom(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> None:
    """Set ``headroom`` to the least that any queue from the leaf to the root may still get in the partition.

    Of a partition that is lent each may have all, as in YARN (AbstractCSQueue.getCurrentLimitResource).
    """
    bounded = -1 if parameters.lends else leaf
    scratch.counters[LEAVES] = headroom_under_maxima(view, scratch.asks[LEAF_HEADROOM], bounded, partition)


@inner
def headroom_under_maxima(view: View, headroom: I64, leaf: int, partition: int) -> bool:
    """Set ``headroom`` to the least that any queue from the leaf to the root may still get; no bound if leaf is -1.

    Of what a queue may still get a child gets no more than is left when the others have what they are owed, unless
    that is guaranteed to it. Returns whether that leaves it less.
    """
    leaves = False
    for r in range(len(headroom)):
        headroom[r] = 1 << 62
    queue, child = leaf, -1
    while queue >= 0:
        if view.limit_known[queue, partition]:
            for r in range(len(headroom)):
                used = view.limit_amounts[queue, partition, USED, r] + view.limit_amounts[queue, partition, ASSUMED, r]
                left = view.limit_amounts[queue, partition, MAXIMUM, r] - used
                if child >= 0 and view.limit_amounts[child, partition, SIBLING_RESERVE, r] > 0:
                    own = view.limit_amounts[child, partition, GUARANTEED, r]
                    own -= (
                        view.limit_amounts[child, partition, USED, r] + view.limit_amounts[child, partition, ASSUMED, r]
                    )
                    left = min(left, max(left - view.limit_amounts[child, partition, SIBLING_RESERVE, r], own))
                    leaves = True
                headroom[r] = min(headroom[r], left)
        child = queue
        queue = view.queues[queue].parent
    return leaves


@inner
def needs_saturated(view: View, scratch: Scratch, row: int) -> bool:
    """Does the ask need a resource that is saturated?"""
    needs = False
    for r in range(len(view.counted)):
        needs = needs or (scratch.shares.resources[r].saturated and view.capability[row, r] > 0)
    return needs


@inner
def drop_row(view: View, scratch: Scratch, leaf: int, row: int) -> None:
    """Take off what a row that is given up has asked for."""
    at = scratch.shares.leaf_node[leaf] if len(scratch.shares.nodes) else -1
    if at >= 0:
        scratch.shares.nodes[at].asks -= asks_left(view, scratch, row)


@inner
def drop_saturated(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Give up all asks that need a saturated resource."""
    for at in range(len(scratch.list)):
        app = scratch.list[at].application
        if scratch.apps[app].done or (view.apps[app].awaiting_am and view.apps[app].assumed_count > 0):
            continue
        row = view.apps[app].first_row
        while row >= 0:
            mine = asks_here(view, scratch, parameters, row, partition)
            if mine and needs_saturated(view, scratch, row):
                close_row(scratch, row, Reason.SATURATED)
                drop_row(view, scratch, view.apps[app].queue, row)
            row = view.rows[row].next


@inner
def drop_application(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int, why: int
) -> None:
    """Take off what an application still asks for, and write down why; of a row that waits for a node that is known."""
    row = view.apps[app].first_row
    while row >= 0:
        if asks_here(view, scratch, parameters, row, partition):
            drop_row(view, scratch, view.apps[app].queue, row)
            if scratch.rows[row].age > 0 or scratch.rows[row].why != Reason.NEARER_NODE:
                set_reason(scratch, row, why)
        row = view.rows[row].next


@inner
def skip_application(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int, why: int
) -> None:
    """Leave an application alone for the rest of the decide: nothing of it can be placed."""
    drop_application(view, scratch, parameters, app, partition, why)
    scratch.apps[app].done = 1
