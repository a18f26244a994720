"""The inner loop: leaf, application, ask, node, proposal.

The share picks a leaf, the order an application of it; that application and those after it bring forward rows, the
candidates (`treadle.policy.loop.candidates`). As long as one of them fits on the node that was chosen last, the best
of those goes there. Then a node is chosen for the first candidate, as without competition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner, kernel
from treadle.model.in_flight import assume
from treadle.policy.asks import (
    asks_here,
    drop_row,
    find_headroom,
    give_up_application,
    is_over_limit,
    note_big,
    user_of,
    within_headroom,
)
from treadle.policy.loop.candidates import best_candidate, gather, learn
from treadle.policy.loop.following import begin_shares, end_shares, give_up, note_placed, pick_leaf
from treadle.policy.node_search import (
    NO_NODE,
    WAIT,
    choose_node,
    close_node,
    count_anew,
    level_of,
    place_of,
)
from treadle.policy.open_asks import survey_asks
from treadle.policy.open_nodes import survey_headroom, survey_nodes
from treadle.policy.orders.leaf import least_ask, next_application
from treadle.policy.own_tags import count_proposed
from treadle.policy.state import (
    ASKS,
    BUNDLE,
    CLUSTER,
    LEAF_HEADROOM,
    NODE_LOCAL,
    OFF_SWITCH,
    OFFERS,
    PLACED,
    RACK_LOCAL,
)

if TYPE_CHECKING:
    from treadle.compiled.array_types import I64, Records
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch


@inner
def propose(
    view: View,
    scratch: Scratch,
    parameters: DecideParameters,
    out: Records,
    asked: I64,
    app: int,
    row: int,
    node: int,
    user: int,
) -> None:
    """Write a proposal and assume it."""
    i = scratch.counters[PLACED]
    scratch.counters[PLACED] += 1
    scratch.counters[OFFERS] += 1
    scratch.rows[row].quota -= 1
    level = level_of(view, row, node)
    out[i].application = app
    out[i].key = view.rows[row].key
    out[i].node = node
    out[i].row = row
    out[i].queue = view.apps[app].queue
    out[i].user = user
    out[i].partition = view.nodes[node].partition
    out[i].node_place = place_of(view, row, view.nodes[node].name) if level == NODE_LOCAL else -1
    out[i].rack_place = place_of(view, row, view.nodes[node].rack) if level <= RACK_LOCAL else -1
    out[i].open = 1
    for r in range(len(view.counted)):
        asked[i, r] = view.capability[row, r]
    assume(view, out, asked, i, parameters.decide)
    for r in range(len(view.counted)):
        scratch.available[node, r] -= asked[i, r]
    if len(scratch.tags.row_tags) > 0:
        count_proposed(scratch.tags, row, node)
    if level < OFF_SWITCH:
        count_anew(view, scratch, parameters, row, level)
    if view.rows[row].hold_node == node:
        view.rows[row].hold_node = -1
        view.nodes[node].hold_row = -1
    elif scratch.open_nodes[node].open:
        close_node(view, scratch, node)


@inner
def choose_candidate(
    view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int, candidates: int
) -> int:
    """Return the row to place on the node ``scratch.counters[BUNDLE]``, -1 if the first candidate has no node now."""
    node = scratch.counters[BUNDLE]
    if 0 <= node < len(view.nodes) and scratch.open_nodes[node].open:
        row = best_candidate(view, scratch, parameters, candidates, node)
        if row >= 0:
            return row
    first = scratch.candidates[0]
    app = view.rows[first].application
    node = choose_node(view, scratch, parameters, first)
    if node < 0:
        if node == WAIT:
            give_up_application(view, scratch, parameters, app, partition)
        else:
            note_big(view, scratch, first)
            scratch.rows[first].done = 1
            drop_row(view, scratch, leaf, first)
        return -1
    scratch.counters[BUNDLE] = node
    if view.nodes[node].hold_row == first:
        return first
    row = best_candidate(view, scratch, parameters, candidates, node)
    return row if row >= 0 else first


@inner
def propose_best(
    view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64, app: int, partition: int
) -> bool:
    """Propose one container for the best of the leaf's candidates; False if a row or application has had its turn."""
    leaf = view.apps[app].queue
    candidates = gather(view, scratch, parameters, leaf, partition)
    if candidates == 0:
        if not scratch.apps[app].done:
            give_up_application(view, scratch, parameters, app, partition)
        return False
    row = choose_candidate(view, scratch, parameters, leaf, partition, candidates)
    if row < 0:
        return False
    node = scratch.counters[BUNDLE]
    learn(view, scratch, row, node)
    app = view.rows[row].application
    user = user_of(view, parameters, app, view.apps[app].queue, partition)
    propose(view, scratch, parameters, out, asked, app, row, node, user)
    return True


@inner
def serve_row(
    view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64, row: int, leaf: int, user: int
) -> int:
    """Propose one container for an ask and return its node; `WAIT` if it waits, `NO_NODE` if it is given up."""
    app = view.rows[row].application
    if within_headroom(view, scratch.asks[LEAF_HEADROOM], app, row, user):
        node = choose_node(view, scratch, parameters, row)
        if node >= 0:
            propose(view, scratch, parameters, out, asked, app, row, node, user)
            return node
        if node == WAIT:
            return WAIT
        note_big(view, scratch, row)
    scratch.rows[row].done = 1
    drop_row(view, scratch, leaf, row)
    return NO_NODE


@inner
def serve_ask(
    view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64, app: int, partition: int
) -> bool:
    """Propose one container for the application's ask with the least key; False if ask or application had its turn."""
    leaf = view.apps[app].queue
    row, user = least_ask(view, scratch, parameters, app), user_of(view, parameters, app, leaf, partition)
    if row >= 0 and (user < 0 or not is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition)):
        node = serve_row(view, scratch, parameters, out, asked, row, leaf, user)
        if node != WAIT:
            return node >= 0
    give_up_application(view, scratch, parameters, app, partition)
    return False


@inner
def serve_application(
    view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64, app: int, partition: int
) -> bool:
    """Propose one container for the application's first row that fits somewhere; False if there is none.

    A row that waits for a nearer node ends the application's turn, as in YARN; one that fits nowhere does not.
    """
    leaf = view.apps[app].queue
    user = user_of(view, parameters, app, leaf, partition)
    if user >= 0 and is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition):
        return False
    row = view.apps[app].first_row
    while row >= 0:
        if asks_here(view, scratch, parameters, row, partition):
            node = serve_row(view, scratch, parameters, out, asked, row, leaf, user)
            if node != NO_NODE:
                return node >= 0
        row = view.rows[row].next
    return False


@inner
def serve_leaf(
    view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64, leaf: int, partition: int
) -> bool:
    """Propose one container for the leaf's next application that can be served; False if there is none."""
    find_headroom(view, scratch, parameters, leaf, partition)
    while True:
        app = next_application(view, scratch, parameters, leaf)
        if app < 0:
            return False
        if parameters.candidates > 0 and not view.apps[app].awaiting_am:
            served = propose_best(view, scratch, parameters, out, asked, app, partition)
        elif scratch.queues[leaf].order == ASKS and not view.apps[app].awaiting_am:
            served = serve_ask(view, scratch, parameters, out, asked, app, partition)
        else:
            served = serve_application(view, scratch, parameters, out, asked, app, partition)
            if not served:
                give_up_application(view, scratch, parameters, app, partition)
        if served:
            last = out[scratch.counters[PLACED] - 1]
            note_placed(view, scratch, parameters, last.queue, last.row, last.node)
            return True


@kernel
def place(
    view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64, partition: int, limit: int
) -> int:
    """Propose containers in a partition until there are ``limit`` or nothing more fits; return how many there are.

    What cannot be placed once cannot be placed later in the same decide, since room only shrinks: each leaf,
    application and row is given up at most once, which bounds the loop.
    """
    if not survey_asks(view, scratch, parameters, partition):
        return scratch.counters[PLACED]
    survey_nodes(view, scratch, parameters, partition)
    survey_headroom(view, scratch, parameters, partition)
    begin_shares(view, scratch, parameters, partition)
    while scratch.counters[PLACED] < limit:
        leaf = pick_leaf(view, scratch, parameters, partition)
        if leaf < 0:
            break
        if not serve_leaf(view, scratch, parameters, out, asked, leaf, partition):
            give_up(view, scratch, parameters, leaf, partition)
    end_shares(view, scratch, parameters, partition)
    return scratch.counters[PLACED]
