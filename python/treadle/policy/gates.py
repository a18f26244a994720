"""The gate that lets all asks through, and how many application masters may start at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.array_types import Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, pair
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, MAX_PARTITIONS, View
from treadle.policy.asks import headroom_under_maxima, is_over_limit, within_headroom
from treadle.policy.parts import NEVER, PlainGate

if TYPE_CHECKING:
    from treadle.compiled.array_types import F64, I32, I64


STARTED: Final = -1
"""``APPLICATION.master_since_ms`` of one that has asked for something."""
ACTIVE: Final = 1
"""`treadle.events.ApplicationState.ACTIVE`."""


@inner
def waits_for_master(view: View, app: int) -> bool:
    """Say whether an application's AM has no container, neither allocated nor proposed."""
    if view.apps[app].state != ACTIVE or not view.apps[app].awaiting_am:
        return False
    return bool(view.apps[app].pending > view.apps[app].assumed_count and view.apps[app].first_row >= 0)


@inner
def is_starting(view: View, app: int, now_ms: int, timeout_ms: int) -> bool:
    """Say whether an application's AM has its container, has asked for nothing yet, and is not late."""
    if view.apps[app].state != ACTIVE:
        view.apps[app].master_since_ms = 0
        return False
    if view.apps[app].awaiting_am:
        view.apps[app].master_since_ms = 0
        return not waits_for_master(view, app)
    if view.apps[app].pending > 0 or view.apps[app].first_group >= 0:
        view.apps[app].master_since_ms = STARTED
    if view.apps[app].master_since_ms == STARTED:
        return False
    # A clock that stepped back must not let it start for longer.
    if view.apps[app].master_since_ms == 0 or view.apps[app].master_since_ms > now_ms:
        view.apps[app].master_since_ms = now_ms
    return bool(now_ms - view.apps[app].master_since_ms < timeout_ms)


@inner
def is_allowed(view: View, totals: F64, headroom: I64, app: int, row: int, decide: int) -> bool:
    """Say whether an application's AM would stay within its queues' maxima and its user's limit."""
    leaf, partition = view.apps[app].queue, view.rows[row].partition
    if leaf < 0 or not view.limit_known[leaf, partition]:
        return False
    if view.apps[app].backoff_until > decide or view.rows[row].backoff_until > decide:
        return False
    user = find(view.user_index, pair(leaf * MAX_PARTITIONS + partition, view.apps[app].user))
    if user >= 0 and is_over_limit(view, totals, user, leaf, partition):
        return False
    headroom_under_maxima(view, headroom, leaf, partition)
    return within_headroom(view, headroom, app, row, user)


@inner
def master_fits_on(view: View, row: int, node: int, decide: int) -> bool:
    """Say whether a node has room for an AM's row, and is held for no other."""
    if view.nodes[node].state != 1 or view.nodes[node].partition != view.rows[row].partition:
        return False
    if view.nodes[node].backoff_until > decide or (view.nodes[node].hold_row >= 0 and view.nodes[node].hold_row != row):
        return False
    fits = True
    for r in range(len(view.counted)):
        free = view.node_amounts[node, FREE, r] - view.node_amounts[node, ASSUMED, r]
        fits = fits and (not view.counted[r] or free >= view.capability[row, r])
    return fits


@inner
def finds_node(view: View, nowhere: I64, row: int, decide: int) -> bool:
    """Say whether some node has room for an AM's row.

    ``nowhere`` has for each partition the last ask that found none, so that not each AM looks at all nodes.
    """
    known, partition = True, view.rows[row].partition
    for r in range(len(view.counted)):
        known = known and view.capability[row, r] >= nowhere[partition, r]
    if known:
        return False
    for node in range(len(view.nodes)):
        if master_fits_on(view, row, node, decide):
            return True
    for r in range(len(view.counted)):
        nowhere[partition, r] = view.capability[row, r]
    return False


@kernel
def hold_masters(view: View, rows: Records, which: I32, now_ms: int, timeout_ms: int, waiting: I32, found: I64) -> None:
    """Hold the masters of those of some applications back that have no container, and list these.

    Sets ``found`` to how many these are, how many AMs start, and when the first of these is late (`NEVER`: none).
    """
    found[0] = found[1] = 0
    found[2] = NEVER
    for app in which:
        if is_starting(view, app, now_ms, timeout_ms):
            found[1] += 1
            if view.apps[app].master_since_ms > 0:
                found[2] = min(found[2], view.apps[app].master_since_ms + timeout_ms)
        if waits_for_master(view, app):
            waiting[found[0]] = app
            found[0] += 1
            row = view.apps[app].first_row
            while row >= 0:
                rows[row].may = 0
                row = view.rows[row].next


@kernel
def let_masters_start(
    view: View, rows: Records, waiting: I32, slots: int, decide: int, totals: F64, headroom: I64, nowhere: I64
) -> bool:
    """Let some application masters through, the first ones of a list; say whether others are held back by that.

    Passed are those whose queue or user may have no more: no others must wait for them. Those for which no node has
    room now are let through beyond that, since the only effect in this decide is that a node is held for them.
    """
    for app in waiting:
        if slots <= 0:
            return True
        first = view.apps[app].first_row
        if not is_allowed(view, totals, headroom, app, first, decide):
            continue
        slots -= finds_node(view, nowhere, first, decide)
        row = first
        while row >= 0:
            rows[row].may = 1
            row = view.rows[row].next
    return False


class AllGate(PlainGate):
    """Every ask may be served at any time."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Let every row through."""
        rows["may"] = 1
