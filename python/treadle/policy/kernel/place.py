"""The inner loop: leaf, application, row, node, and again, until nothing fits or the answer is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from treadle.model.kernel.assume import assume
from treadle.model.kernel.pairs import find, pair
from treadle.model.names import MAX_PARTITIONS
from treadle.policy.kernel.fit import (
    NO_NODE,
    NODE_LOCAL,
    OFF_SWITCH,
    RACK_LOCAL,
    WAIT,
    choose_node,
    close_node,
    level_of,
    place_of,
)
from treadle.policy.kernel.order import begin_leaf, next_application
from treadle.policy.kernel.scratch import BIG_COUNT, BIG_ROWS, MEMO_COUNT, OPEN_NODES, PLACED
from treadle.policy.kernel.share import add_live, begin_shares, find_room, pick_leaf, update_shares

if TYPE_CHECKING:
    from treadle.model.assumed import BatchColumns
    from treadle.model.cluster import View
    from treadle.policy.kernel.scratch import Knobs, Scratch


@njit(cache=True, nogil=True)
def survey_asks(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> bool:
    """Find the leaves with asks for the partition and the smallest ask in each resource; False if there is none."""
    least, any_ask = scratch.least, False
    least[:] = 1 << 62
    scratch.live[:] = 0
    for leaf in range(len(view.queues.parent)):
        if not view.queues.exists[leaf] or not view.queues.leaf[leaf] or not view.limits.known[leaf, partition]:
            continue
        live = False
        for at in range(scratch.leaf_first[leaf], scratch.leaf_first[leaf + 1]):
            app = scratch.leaf_applications[at]
            scratch.application_done[app] = 1
            if view.apps.pending[app] <= view.apps.assumed_count[app] or view.apps.cool_until[app] > knobs.decide:
                continue
            row = view.apps.first_row[app]
            while row >= 0:
                if view.rows.partition[row] == partition and may_ask(view, scratch, knobs, row):
                    scratch.application_done[app] = 0
                    live = True
                    for r in range(len(least)):
                        least[r] = min(least[r], view.rows.capability[row, r])
                row = view.rows.next[row]
        if live:
            begin_leaf(scratch, leaf)
            add_live(view, scratch, leaf, 1)
            any_ask = True
    return any_ask


@njit(cache=True, nogil=True)
def may_ask(view: View, scratch: Scratch, knobs: Knobs, row: int) -> bool:
    """Has the row an ask that is not assumed, let through by the gate, and not cooling down?"""
    if scratch.row_done[row] or not scratch.may[row] or view.rows.cool_until[row] > knobs.decide:
        return False
    return view.rows.count[row] > view.rows.assumed[row]


@njit(cache=True, nogil=True)
def survey_nodes(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """List the nodes of the partition on which the smallest ask fits; add up what the partition has."""
    resources = len(view.counted)
    scratch.inverse_total[:] = 0.0
    scratch.inverse_node[:] = 0.0
    count = 0
    for node in range(len(view.nodes.name)):
        if view.nodes.state[node] == 0 or view.nodes.partition[node] != partition:
            continue
        fits = view.nodes.state[node] == 1 and view.nodes.hold_row[node] < 0
        fits = fits and view.nodes.cool_until[node] <= knobs.decide
        for r in range(resources):
            if view.counted[r]:
                scratch.inverse_total[r] += view.nodes.total[node, r]
                scratch.inverse_node[r] = max(scratch.inverse_node[r], float(view.nodes.total[node, r]))
                fits = fits and scratch.available[node, r] >= scratch.least[r]
        scratch.node_open[node] = fits
        if fits:
            scratch.open_nodes[count] = node
            scratch.next_open[count] = count
            count += 1
    scratch.next_open[count] = count
    scratch.counters[OPEN_NODES] = count
    scratch.counters[MEMO_COUNT] = 0
    for r in range(resources):
        if scratch.inverse_total[r] > 0.0:
            scratch.inverse_total[r] = 1.0 / scratch.inverse_total[r]
            scratch.inverse_node[r] = 1.0 / scratch.inverse_node[r]


@njit(cache=True, nogil=True)
def is_over_limit(view: View, scratch: Scratch, user: int) -> bool:
    """Does the user already use more than the limit? Compared by the dominant share of the cluster, as the RM does.

    One container over the limit is allowed, as in YARN: else an ask larger than what is left would never be served.
    """
    over, used_share, limit_share = False, 0.0, 0.0
    for r in range(len(view.counted)):
        if view.counted[r]:
            used = view.users.used[user, r] + view.users.assumed[user, r]
            limit = view.users.limit[user, r]
            over = over or used > limit
            if scratch.total[r] > 0.0:
                used_share = max(used_share, used / scratch.total[r])
                limit_share = max(limit_share, limit / scratch.total[r])
    return over and used_share >= limit_share


@njit(cache=True, nogil=True)
def has_room(view: View, scratch: Scratch, app: int, row: int, user: int) -> bool:
    """Does the ask stay within the queues' maxima, and, if nothing is known of the user, within the headroom?"""
    for r in range(len(view.counted)):
        if not view.counted[r]:
            continue
        if view.rows.capability[row, r] > scratch.room[r]:
            return False
        if user < 0 and view.apps.has_headroom[app]:
            if view.rows.capability[row, r] + view.apps.assumed[app, r] > view.apps.headroom[app, r]:
                return False
    return True


@njit(cache=True, nogil=True)
def note_big(view: View, scratch: Scratch, row: int) -> None:
    """Remember a row that fits no node, and how many proposals there were when that was found."""
    if view.rows.hold_node[row] < 0 and scratch.counters[BIG_COUNT] < BIG_ROWS:
        scratch.big_row[scratch.counters[BIG_COUNT]] = row
        scratch.big_at[scratch.counters[BIG_COUNT]] = scratch.counters[PLACED]
        scratch.counters[BIG_COUNT] += 1


@njit(cache=True, nogil=True)
def propose(
    view: View, scratch: Scratch, knobs: Knobs, out: BatchColumns, app: int, row: int, node: int, user: int
) -> None:
    """Write a proposal and assume it."""
    i = scratch.counters[PLACED]
    scratch.counters[PLACED] += 1
    level = level_of(view, row, node)
    out.application[i] = app
    out.key[i] = view.rows.key[row]
    out.node[i] = node
    out.row[i] = row
    out.queue[i] = view.apps.queue[app]
    out.user[i] = user
    out.partition[i] = view.rows.partition[row]
    out.capability[i] = view.rows.capability[row]
    out.node_place[i] = place_of(view, row, view.nodes.name[node]) if level == NODE_LOCAL else -1
    out.rack_place[i] = place_of(view, row, view.nodes.rack[node]) if level <= RACK_LOCAL else -1
    out.open[i] = 1
    assume(view, out, i, knobs.decide)
    for r in range(len(view.counted)):
        scratch.available[node, r] -= view.rows.capability[row, r]
    if level < OFF_SWITCH:
        view.rows.waiting_since_ms[row] = -1
    if view.rows.hold_node[row] == node:
        view.rows.hold_node[row] = -1
        view.nodes.hold_row[node] = -1
    elif scratch.node_open[node]:
        close_node(view, scratch, node)


@njit(cache=True, nogil=True)
def serve_application(
    view: View, scratch: Scratch, knobs: Knobs, out: BatchColumns, app: int, leaf: int, partition: int
) -> bool:
    """Propose one container for the application's first row that fits somewhere; False if there is none.

    A row that waits for a nearer node ends the application's turn, as in YARN; one that fits nowhere does not.
    """
    user = find(view.user_index.keys, view.user_index.values, pair(leaf * MAX_PARTITIONS + partition, view.apps.user[app]))
    if user >= 0 and is_over_limit(view, scratch, user):
        return False
    row = view.apps.first_row[app]
    while row >= 0:
        if view.rows.partition[row] == partition and may_ask(view, scratch, knobs, row):
            if has_room(view, scratch, app, row, user):
                node = choose_node(view, scratch, knobs, row)
                if node >= 0:
                    propose(view, scratch, knobs, out, app, row, node, user)
                    return True
                if node == WAIT:
                    return False
                if node == NO_NODE:
                    note_big(view, scratch, row)
            scratch.row_done[row] = 1
        row = view.rows.next[row]
    return False


@njit(cache=True, nogil=True)
def serve_leaf(view: View, scratch: Scratch, knobs: Knobs, out: BatchColumns, leaf: int, partition: int) -> bool:
    """Propose one container for the leaf's next application that can be served; False if there is none."""
    find_room(view, scratch, leaf, partition)
    while True:
        app = next_application(view, scratch, leaf)
        if app < 0:
            return False
        if serve_application(view, scratch, knobs, out, app, leaf, partition):
            update_shares(view, scratch, leaf, partition)
            return True
        scratch.application_done[app] = 1


@njit(cache=True, nogil=True)
def place(view: View, scratch: Scratch, knobs: Knobs, out: BatchColumns, partition: int, limit: int) -> int:
    """Propose containers in a partition until the answer holds ``limit`` or nothing more can be placed; return how many it holds.

    What cannot be placed once cannot be placed later in the same decide, since room only shrinks: each leaf, application and
    row is given up at most once, which bounds the loop.
    """
    if not survey_asks(view, scratch, knobs, partition):
        return scratch.counters[PLACED]
    survey_nodes(view, scratch, knobs, partition)
    begin_shares(view, scratch, partition)
    while scratch.counters[PLACED] < limit:
        leaf = pick_leaf(view, scratch, knobs.root)
        if leaf < 0:
            break
        if not serve_leaf(view, scratch, knobs, out, leaf, partition):
            add_live(view, scratch, leaf, -1)
    return scratch.counters[PLACED]
