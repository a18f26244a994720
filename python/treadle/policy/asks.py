"""Requests that may still be placed in this cycle, by the bounds of queues and users, and those that are dropped.

A leaf's count of placeable requests (`treadle.policy.survey`) decreases as they are placed or dropped, and all are
checked again when another resource becomes saturated. A request that has lost its last node or its headroom since then
is detected when its leaf is served.
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
from treadle.policy.state import (
    BIG_COUNT,
    BIG_ROWS,
    FOUND_NO_NODE,
    LEAF_HEADROOM,
    PLACED,
    RESERVED,
    DecideParameters,
    Reason,
    Scratch,
    set_reason,
)

NOT_KNOWN: Final = -1
"""The user is unknown: the headroom applies."""
NO_LIMIT: Final = -2
"""Users have no limit in a lent partition (UsersManager.computeUserLimit)."""


@inner
def asks_here(view: View, scratch: Scratch, parameters: DecideParameters, row: int, partition: int) -> int:
    """Return how many containers of a row may still be proposed: not in flight, admitted by the gate, not in backoff.

    The row must request the partition, or in a lent one have no label, and its AM must run.
    """
    if parameters.lends:
        if view.rows[row].partition != 0 or view.apps[view.rows[row].application].awaiting_am:
            return 0
    elif view.rows[row].partition != partition:
        return 0
    if scratch.rows[row].done or not scratch.rows[row].may or view.rows[row].backoff_until > parameters.cycle:
        return 0
    return max(min(view.rows[row].count - view.rows[row].assumed, scratch.rows[row].quota), 0)


@inner
def user_of(view: View, parameters: DecideParameters, app: int, leaf: int, partition: int) -> int:
    """Return the row of an application's user in the leaf and partition, or `NOT_KNOWN` or `NO_LIMIT`."""
    if parameters.lends:
        return NO_LIMIT
    return find(view.user_index, pair(leaf * MAX_PARTITIONS + partition, view.apps[app].user))


@inner
def grows_with_leaf(view: View, user: int, leaf: int, partition: int) -> bool:
    """Return whether the user's limit will follow the leaf's usage.

    Once a leaf uses its guarantee, the RM limits a lone user to the leaf's usage plus a little more
    (UsersManager.computeUserLimit), unless user-limit-factor caps it. A limit that covers the leaf's whole usage is not
    capped yet; applied literally, it would admit only one or two containers per tick.
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
    """Return whether the user already exceeds the limit, by dominant share of the cluster as in the RM.

    One container over the limit is allowed, as in YARN: otherwise a request larger than the rest would never be served.
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
def refused(view: View, headroom: I64, reserved: int, app: int, row: int, user: int) -> int:
    """Return why a request exceeds the queues' maxima or, if the user is unknown, the headroom; 0 if it fits.

    ``headroom`` is the leaf's remaining allowance, ``reserved`` whether guarantees of other queues reduce it
    (`find_headroom`).
    """
    for r in range(len(view.counted)):
        if not view.counted[r]:
            continue
        ask = view.capability[row, r]
        if ask > headroom[r]:
            return Reason.RESERVED_GUARANTEE if reserved else Reason.QUEUE_MAXIMUM
        app_headroom = view.app_amounts[app, HEADROOM, r] - view.app_amounts[app, ASSUMED, r]
        if user == NOT_KNOWN and view.apps[app].has_headroom and ask > app_headroom:
            return Reason.USER_LIMIT
    return 0


@inner
def barred(view: View, scratch: Scratch, app: int, row: int, user: int) -> int:
    """Return why a request of the served leaf needs no node search; 0 if it needs one."""
    for r in range(len(view.counted)):
        if scratch.bound[r] and view.capability[row, r] > scratch.largest[r]:
            return Reason.TOO_LARGE
    return refused(view, scratch.asks[LEAF_HEADROOM], scratch.counters[RESERVED], app, row, user)


@inner
def find_headroom(view: View, headroom: I64, leaf: int, partition: int, lends: bool) -> bool:
    """Set ``headroom`` to the smallest allowance left in any queue from leaf to root in the partition.

    A child's allowance excludes unused guarantees of its siblings, except for the child's own guarantee. Returns
    whether that reduces it. In a partition that ``lends`` each queue may use everything, as in YARN
    (AbstractCSQueue.getCurrentLimitResource).
    """
    reserved = False
    for r in range(len(headroom)):
        headroom[r] = 1 << 62
    queue, child = -1 if lends else leaf, -1
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
                    reserved = True
                headroom[r] = min(headroom[r], left)
        child = queue
        queue = view.queues[queue].parent
    return reserved


@inner
def needs_saturated(view: View, scratch: Scratch, row: int) -> bool:
    """Return whether the request needs a saturated resource."""
    needs = False
    for r in range(len(view.counted)):
        needs = needs or (scratch.shares.resources[r].saturated and view.capability[row, r] > 0)
    return needs


@inner
def drop_row(view: View, scratch: Scratch, leaf: int, row: int, left: int, why: int) -> None:
    """Exclude a request for the rest of the cycle; subtract its ``left`` containers from its leaf's count.

    If a search has found no node for it, it is recorded with the number of proposals at that time.
    """
    big = scratch.counters[BIG_COUNT]
    if why >= FOUND_NO_NODE and big < BIG_ROWS and view.rows[row].hold_node < 0:
        scratch.big[big].row = row
        scratch.big[big].placed = scratch.counters[PLACED]
        scratch.big[big].overtaken = 0
        scratch.counters[BIG_COUNT] += 1
    set_reason(scratch, row, why)
    scratch.rows[row].done = 1
    at = scratch.shares.leaf_node[leaf] if len(scratch.shares.nodes) else -1
    if at >= 0:
        scratch.shares.nodes[at].asks -= left


@inner
def drop_saturated(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Drop all requests that need a saturated resource."""
    for at in range(len(scratch.list)):
        app = scratch.list[at].application
        if scratch.apps[app].done or (view.apps[app].awaiting_am and view.apps[app].assumed_count > 0):
            continue
        row = view.apps[app].first_row
        while row >= 0:
            left = asks_here(view, scratch, parameters, row, partition)
            if left > 0 and needs_saturated(view, scratch, row):
                drop_row(view, scratch, view.apps[app].queue, row, left, Reason.SATURATED)
            row = view.rows[row].next


@inner
def skip_application(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int, why: int
) -> None:
    """Exclude an application for the rest of the cycle and record why; rows that wait for a node keep their reason."""
    scratch.apps[app].done = 1
    at = scratch.shares.leaf_node[view.apps[app].queue] if len(scratch.shares.nodes) else -1
    row = view.apps[app].first_row
    while row >= 0:
        left = asks_here(view, scratch, parameters, row, partition)
        if left > 0:
            if at >= 0:
                scratch.shares.nodes[at].asks -= left
            if scratch.rows[row].age > 0 or scratch.rows[row].why != Reason.NEARER_NODE:
                set_reason(scratch, row, why)
        row = view.rows[row].next
