"""The inner loop: leaf, application, row, node, and again, until nothing fits or the answer is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner, kernel
from treadle.model.tables import TOTAL
from treadle.policy.blocked import drop_application, drop_row
from treadle.policy.limits import asks_here, find_room, has_room, is_over_limit, note_big, user_of
from treadle.policy.loop.bundle import propose_best
from treadle.policy.loop.propose import propose
from treadle.policy.node_search import NO_NODE, WAIT, choose_node
from treadle.policy.orders import begin_leaf, next_application
from treadle.policy.shares.capacity_compiled import add_live
from treadle.policy.shares.rules import begin_shares, end_shares, give_up, note_placed, pick_leaf
from treadle.policy.state import CLUSTER, LARGEST, LEAST, MEMO_COUNT, OPEN_NODES, PARTITION, PLACED, ROOM

if TYPE_CHECKING:
    from treadle.compiled.array_types import I64, Records
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch


@inner
def survey_asks(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> bool:
    """Find the leaves with asks for the partition and the smallest ask in each resource; False if there is none."""
    least, any_ask = scratch.asks[LEAST], False
    for r in range(len(least)):
        least[r] = 1 << 62
    for queue in range(len(scratch.queues)):
        scratch.queues[queue].live = 0
    for leaf in range(len(view.queues)):
        if not view.queues[leaf].exists or not view.queues[leaf].leaf:
            continue
        if not knobs.lends and not view.limit_known[leaf, partition]:
            continue
        live = False
        for at in range(scratch.queues[leaf].first, scratch.queues[leaf + 1].first):
            app = scratch.list[at].application
            scratch.apps[app].done = 1
            if view.apps[app].pending <= view.apps[app].assumed_count or view.apps[app].cool_until > knobs.decide:
                continue
            row = view.apps[app].first_row
            while row >= 0:
                if asks_here(view, scratch, knobs, row, partition):
                    scratch.apps[app].done = 0
                    live = True
                    for r in range(len(least)):
                        least[r] = min(least[r], view.capability[row, r])
                row = view.rows[row].next
        if live:
            begin_leaf(scratch, leaf)
            add_live(view, scratch, leaf, 1)
            any_ask = True
    return any_ask


@inner
def survey_nodes(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """List the nodes of the partition on which the smallest ask fits; add up what the partition has."""
    resources = len(view.counted)
    for r in range(resources):
        scratch.rates[PARTITION, r] = scratch.rates[LARGEST, r] = 0.0
    count = 0
    for node in range(len(view.nodes)):
        scratch.spots[node].open = 0
        if view.nodes[node].state == 0 or view.nodes[node].partition != partition:
            continue
        fits = view.nodes[node].state == 1 and view.nodes[node].hold_row < 0
        fits = fits and view.nodes[node].cool_until <= knobs.decide
        for r in range(resources):
            if view.counted[r]:
                scratch.rates[PARTITION, r] += view.node_amounts[node, TOTAL, r]
            if scratch.bound[r]:
                scratch.rates[LARGEST, r] = max(scratch.rates[LARGEST, r], float(view.node_amounts[node, TOTAL, r]))
                fits = fits and scratch.available[node, r] >= scratch.asks[LEAST, r]
        scratch.spots[node].open = fits
        if fits:
            scratch.spots[count].node = node
            scratch.spots[count].next = count
            count += 1
    scratch.spots[count].next = count
    scratch.counters[OPEN_NODES] = count
    scratch.counters[MEMO_COUNT] = 0
    for r in range(resources):
        if scratch.rates[PARTITION, r] > 0.0:
            scratch.rates[PARTITION, r] = 1.0 / scratch.rates[PARTITION, r]
        if scratch.rates[LARGEST, r] > 0.0:
            scratch.rates[LARGEST, r] = 1.0 / scratch.rates[LARGEST, r]


@inner
def serve_application(
    view: View, scratch: Scratch, knobs: Knobs, out: Records, asked: I64, app: int, leaf: int, partition: int
) -> bool:
    """Propose one container for the application's first row that fits somewhere; False if there is none.

    A row that waits for a nearer node ends the application's turn, as in YARN; one that fits nowhere does not.
    """
    user = user_of(view, knobs, app, leaf, partition)
    if user >= 0 and is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition):
        return False
    row = view.apps[app].first_row
    while row >= 0:
        if asks_here(view, scratch, knobs, row, partition):
            if has_room(view, scratch.asks[ROOM], app, row, user):
                node = choose_node(view, scratch, knobs, row)
                if node >= 0:
                    propose(view, scratch, knobs, out, asked, app, row, node, user)
                    return True
                if node == WAIT:
                    return False
                if node == NO_NODE:
                    note_big(view, scratch, row)
            scratch.rows[row].done = 1
            drop_row(view, scratch, leaf, row)
        row = view.rows[row].next
    return False


@inner
def serve_leaf(view: View, scratch: Scratch, knobs: Knobs, out: Records, asked: I64, leaf: int, partition: int) -> bool:
    """Propose one container for the leaf's next application that can be served; False if there is none."""
    find_room(view, scratch, knobs, leaf, partition)
    while True:
        app = next_application(view, scratch, leaf)
        if app < 0:
            return False
        if knobs.candidates > 0 and not view.apps[app].awaiting_am:
            served = propose_best(view, scratch, knobs, out, asked, app, leaf, partition)
        else:
            served = serve_application(view, scratch, knobs, out, asked, app, leaf, partition)
            if not served:
                drop_application(view, scratch, knobs, leaf, app, partition)
                scratch.apps[app].done = 1
        if served:
            last = out[scratch.counters[PLACED] - 1]
            note_placed(view, scratch, knobs, leaf, last.row, last.node)
            return True


@kernel
def place(view: View, scratch: Scratch, knobs: Knobs, out: Records, asked: I64, partition: int, limit: int) -> int:
    """Propose containers in a partition until there are ``limit`` or nothing more fits; return how many there are.

    What cannot be placed once cannot be placed later in the same decide, since room only shrinks: each leaf,
    application and row is given up at most once, which bounds the loop.
    """
    if not survey_asks(view, scratch, knobs, partition):
        return scratch.counters[PLACED]
    survey_nodes(view, scratch, knobs, partition)
    begin_shares(view, scratch, knobs, partition)
    while scratch.counters[PLACED] < limit:
        leaf = pick_leaf(view, scratch, knobs, partition)
        if leaf < 0:
            break
        if not serve_leaf(view, scratch, knobs, out, asked, leaf, partition):
            give_up(view, scratch, knobs, leaf, partition)
    end_shares(view, scratch, knobs, partition)
    return scratch.counters[PLACED]
