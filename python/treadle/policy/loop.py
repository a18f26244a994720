"""The inner loop over a partition that was surveyed: leaf, application, request, node, proposal.

The share selects a leaf, the order an application in it; that application and the following ones contribute candidate
rows. While one of them fits on the node chosen last, the best of those is placed there, by perfScore (Tetris; Graphene,
section 5). Then a node is chosen for the first candidate, as without competition.

The loop calls the share of a policy in steps: begin, pick the next leaf, note a proposal, update, end. Each share
defines them in its file; `treadle.policy.shares.rules` dispatches to the selected one.

A reserved node idles, so only an overtaken application gets one. In a tree whose shares are compared, an application is
overtaken if at some level it has a lower weighted share than the sibling that was served. Where order alone or
guarantees decide, any later placement overtakes it.
"""

from __future__ import annotations

from typing import Final

from treadle.compiled.functions import inner, kernel
from treadle.model.in_flight import count_in_flight
from treadle.model.tables import View
from treadle.policy.asks import (
    asks_here,
    barred,
    drop_row,
    drop_saturated,
    find_headroom,
    is_over_limit,
    skip_application,
    user_of,
)
from treadle.policy.node_search import (
    NO_NODE,
    WAIT,
    choose_node,
    fits,
    level_of,
    place_of,
    restart_count,
    room_needed,
    score,
    unwanted,
    why_no_node,
)
from treadle.policy.orders import next_application, wants
from treadle.policy.shares import rules
from treadle.policy.shares.aims import STEPS
from treadle.policy.shares.tree import AIMS_AT, BLOCKED, SATURATED, SERVED
from treadle.policy.state import (
    BIG_COUNT,
    BUNDLE,
    CLUSTER,
    LEAF_HEADROOM,
    LEAST,
    NODE_LOCAL,
    NOT_THERE,
    OFF_SWITCH,
    OFFERS,
    PACKED,
    PLACED,
    RACK_LOCAL,
    RESERVED,
    SCANNED,
    SCORED,
    WORK,
    DecideParameters,
    Reason,
    Scratch,
    count_proposed,
    set_reason,
)
from treadle.policy.survey import survey

SCAN_LIMIT: Final = 4_000_000
"""Nodes, applications and rows scanned in a cycle before only `MAX_CANDIDATES_DEGRADED` rows compete: about 0.3 s."""
MAX_CANDIDATES_DEGRADED: Final = 16
"""Number of competing rows then; this is the default setting."""

AVERAGED: Final = 1000
"""Number of recent proposals that `Scratch.averages` cover, approximately."""


@inner
def gather_leaf(
    view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int, candidates: int, count: int
) -> int:
    """Add up to ``count`` competing rows of a leaf, the next application's first; return the number of candidates.

    Only applications in the band of the next one compete, each with the rows of its first request priority that has any
    and with rows that a plan ranks. Applications without servable rows are done. At most four times as many
    applications as competing rows are checked.
    """
    begin, most = scratch.queues[leaf].cursor, candidates + count
    band = scratch.apps[scratch.list[begin].turn].band
    for at in range(begin, min(scratch.queues[leaf].end, begin + 4 * count)):
        if candidates == most:
            break
        app, before, first = scratch.list[at].turn, candidates, -1
        scratch.counters[SCANNED] += 1
        if not wants(view, scratch, app) or scratch.apps[app].band != band:
            continue
        user = user_of(view, parameters, app, leaf, partition)
        over = user >= 0 and is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition)
        row = -1 if over else view.apps[app].first_row
        while row >= 0 and candidates < most:
            left = asks_here(view, scratch, parameters, row, partition)
            if left > 0:
                why, hint = barred(view, scratch, app, row, user), view.rows[row].hint
                ranked = parameters.all_priorities or (hint >= 0 and view.hints[hint].ranked == 1)
                if why:
                    drop_row(view, scratch, leaf, row, left, why)
                elif first < 0 or view.rows[row].priority == view.rows[first].priority or ranked:
                    first = row if first < 0 else first
                    scratch.candidates[candidates].row = row
                    scratch.candidates[candidates].plan = view.hints[hint].score if hint >= 0 else 1.0
                    candidates += 1
            row = view.rows[row].next
        if candidates == before:
            reason = Reason.USER_LIMIT if over else Reason.AFTER_EARLIER_REQUEST
            skip_application(view, scratch, parameters, app, partition, reason)
    return candidates


@inner
def gather(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> int:
    """List the competing rows of a leaf, and as many of each other leaf if all compete; return their number.

    Other leaves are skipped if their next application is in a later band or awaits its AM, which goes first once its
    leaf is picked. After `SCAN_LIMIT` scanned nodes, applications and rows a cycle continues with the first
    `MAX_CANDIDATES_DEGRADED` rows of the served leaf; otherwise its duration would grow with rows times containers.
    """
    nodes, scarce = scratch.shares.nodes, scratch.counters[SCANNED] >= SCAN_LIMIT
    most = min(parameters.candidates, MAX_CANDIDATES_DEGRADED) if scarce else parameters.candidates
    candidates = gather_leaf(view, scratch, parameters, leaf, partition, 0, most)
    across = candidates > 0 and parameters.across_queues and not scarce
    if across and rules.lets_order_decide(view, scratch, parameters):
        band = scratch.apps[view.rows[scratch.candidates[0].row].application].band
        scratch.counters[SCANNED] += len(view.queues)
        for other in range(len(view.queues)):
            at = scratch.shares.leaf_node[other]
            if other == leaf or at < 0 or nodes[at].kind == BLOCKED or nodes[at].asks <= 0:
                continue
            asks = nodes[at].asks
            scratch.counters[RESERVED] = find_headroom(
                view, scratch.asks[LEAF_HEADROOM], other, partition, parameters.lends
            )
            app = next_application(view, scratch, parameters, other)
            if app >= 0 and not view.apps[app].awaiting_am and scratch.apps[app].band <= band:
                candidates = gather_leaf(view, scratch, parameters, other, partition, candidates, most)
            if nodes[at].asks != asks:
                rules.update(view, scratch, parameters, at, partition)
        scratch.counters[RESERVED] = find_headroom(view, scratch.asks[LEAF_HEADROOM], leaf, partition, parameters.lends)
    scratch.counters[SCANNED] += candidates
    return candidates


@inner
def best_candidate(view: View, scratch: Scratch, parameters: DecideParameters, candidates: int, node: int) -> int:
    """Return the position of the candidate with the highest perfScore on a node, or -1 if none fits there.

    perfScore is packing score x plan score - eta x remaining work; eta equalises the averages of both terms, times the
    configured weight.
    """
    eta = 0.0
    if scratch.averages[WORK] > 0.0:
        eta = parameters.srpt_weight * scratch.averages[PACKED] / scratch.averages[WORK]
    best, best_score = -1, 0.0
    for at in range(candidates):
        row = scratch.candidates[at].row
        if not fits(view, scratch, row, node) or unwanted(view, scratch, parameters, row, node):
            continue
        level = level_of(view, row, node)
        if level == NOT_THERE or (parameters.remote_penalty < 0.0 and level > 0 and view.rows[row].localities > 0):
            continue
        value = score(view, scratch, parameters, row, node, level) * scratch.candidates[at].plan
        value -= eta * scratch.apps[view.rows[row].application].work
        if best < 0 or value > best_score:
            best, best_score = at, value
    return best


NO_RANK = -1.0
"""`served_rank` of a group without a served child."""

FIRST_BEYOND_AIM = 2.0 * STEPS
"""`wait` of a leaf without containers whose first one would exceed its aim (`treadle.policy.shares.aims`)."""

BEYOND_AIMS = 1e299
"""`SERVED` once the tree, which comes after all aims, has served a leaf: more than any `wait` of a ranked leaf."""


@inner
def mark_overtaken(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Mark the rows that fit no node of the partition and were overtaken, by the current shares.

    Where these are compared: the leaf, or a parent, has a lower share than a served sibling. Where leaves have aims:
    the leaf's fraction of its aim is lower, if the next container is within it or the first.
    """
    shares, nodes = scratch.shares, scratch.shares.nodes
    for big in range(scratch.counters[BIG_COUNT]):
        row, at, overtaken = scratch.big[big].row, -1, not parameters.compares_shares
        if view.rows[row].partition != partition or scratch.counters[PLACED] <= scratch.big[big].placed:
            continue
        if parameters.compares_shares:
            at = shares.leaf_node[view.apps[view.rows[row].application].queue]
        if at >= 0 and len(shares.aims) > 0:
            overtaken = nodes[at].wait <= FIRST_BEYOND_AIM and nodes[at].wait < shares.clock[SERVED]
            at = -1
        while at > 0 and not overtaken:
            parent = nodes[at].parent
            overtaken = nodes[at].weight > 0.0 and nodes[at].rank < nodes[parent].served_rank
            at = parent
        if overtaken:
            scratch.big[big].overtaken = 1


@inner
def note_placed(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, row: int, node: int) -> None:
    """Update the state after a proposal for a leaf: its share, the ranks it was served with, saturated resources."""
    partition = view.nodes[node].partition
    if parameters.walks_queues:
        rules.note(view, scratch, parameters, leaf, row, partition)
        return
    shares, nodes, resources = scratch.shares, scratch.shares.nodes, scratch.shares.resources
    app, at = view.rows[row].application, shares.leaf_node[leaf]
    nodes[at].asks -= 1
    if view.apps[app].awaiting_am:
        skip_application(view, scratch, parameters, app, partition, Reason.PLACED)
    rules.note(view, scratch, parameters, leaf, row, partition)
    if parameters.compares_shares and scratch.counters[BIG_COUNT] > 0:
        shares.clock[SERVED] = max(shares.clock[SERVED], nodes[at].wait if shares.counters[AIMS_AT] else BEYOND_AIMS)
        child = at
        while child > 0 and not shares.counters[AIMS_AT]:
            parent = nodes[child].parent
            nodes[parent].served_rank = max(nodes[parent].served_rank, nodes[child].rank)
            child = parent
    for r in range(len(resources)):
        left, least = scratch.available[node, r], room_needed(scratch, node, r, resources[r].least)
        if left < least <= left + view.capability[row, r]:
            resources[r].nodes -= 1
            if resources[r].nodes == 0 and view.counted[r]:
                resources[r].saturated = 1
                resources[r].counts = resources[r].counts and not parameters.rescales
                shares.counters[SATURATED] = 1  # compute the shares again before the next pick
    if not shares.counters[SATURATED]:
        rules.update(view, scratch, parameters, at, partition)


@inner
def propose(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, row: int, node: int, user: int
) -> None:
    """Append a proposal and count it as in flight."""
    i, out, asked = scratch.counters[PLACED], scratch.out, scratch.asked
    scratch.counters[PLACED] += 1
    scratch.counters[OFFERS] += 1
    scratch.rows[row].quota -= 1
    scratch.queues[view.apps[app].queue].placed += 1
    held_back = scratch.rows[row].quota <= 0 and view.rows[row].count > view.rows[row].assumed + 1
    set_reason(scratch, row, Reason.GATE if held_back else Reason.PLACED)
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
    count_in_flight(view, out, asked, i, parameters.cycle, 1)
    for r in range(len(view.counted)):
        scratch.available[node, r] -= asked[i, r]
    if len(scratch.tags.row_tags) > 0:
        count_proposed(scratch.tags, row, node)
    if level < OFF_SWITCH:
        restart_count(view, scratch, parameters, row, level)
    if view.rows[row].hold_node == node:
        view.rows[row].hold_node = -1
        view.nodes[node].hold_row = -1
        return
    for r in range(len(view.counted)):
        too_full = scratch.bound[r] and scratch.available[node, r] < scratch.asks[LEAST, r]
        if scratch.open_nodes[node].open and too_full:  # even for the smallest request
            scratch.open_nodes[node].open = 0
            at = scratch.open_nodes[node].first
            scratch.open_nodes[at].next = at + 1


@inner
def propose_best(view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int) -> bool:
    """Propose one container for the best of the competing rows; False if a row or application is done.

    It is placed on the node chosen last, while a row fits there. Then a node is chosen for the first row, as without
    competition.
    """
    leaf = view.apps[app].queue
    candidates = gather(view, scratch, parameters, leaf, partition)
    if candidates == 0:
        if not scratch.apps[app].done:
            skip_application(view, scratch, parameters, app, partition, Reason.AFTER_EARLIER_REQUEST)
        return False
    node, best, row = scratch.counters[BUNDLE], -1, scratch.candidates[0].row
    if 0 <= node < len(view.nodes) and scratch.open_nodes[node].open:
        best = best_candidate(view, scratch, parameters, candidates, node)
    if best < 0:
        node, app = choose_node(view, scratch, parameters, row), view.rows[row].application
        if node == WAIT:
            set_reason(scratch, row, Reason.NEARER_NODE)
            skip_application(view, scratch, parameters, app, partition, Reason.AFTER_EARLIER_REQUEST)
            return False
        if node < 0:
            left = asks_here(view, scratch, parameters, row, partition)
            drop_row(view, scratch, leaf, row, left, why_no_node(view, scratch, row))
            return False
        scratch.counters[BUNDLE] = node
        held = view.nodes[node].hold_row == row
        best = 0 if held else max(best_candidate(view, scratch, parameters, candidates, node), 0)
    row = scratch.candidates[best].row
    app = view.rows[row].application
    scratch.counters[SCORED] += 1
    weight = 1.0 / min(scratch.counters[SCORED], AVERAGED)
    packed = score(view, scratch, parameters, row, node, NODE_LOCAL) * scratch.candidates[best].plan
    scratch.averages[PACKED] += weight * (packed - scratch.averages[PACKED])
    scratch.averages[WORK] += weight * (scratch.apps[app].work - scratch.averages[WORK])
    user = user_of(view, parameters, app, view.apps[app].queue, partition)
    propose(view, scratch, parameters, app, row, node, user)
    return True


@inner
def serve_application(view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int) -> bool:
    """Propose one container for the application's first row that fits somewhere; False if there is none.

    A row that waits for a nearer node ends the application's turn, as in YARN; one that fits on no node does not.
    """
    leaf = view.apps[app].queue
    user = user_of(view, parameters, app, leaf, partition)
    if user >= 0 and is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition):
        skip_application(view, scratch, parameters, app, partition, Reason.USER_LIMIT)
        return False
    row = view.apps[app].first_row
    while row >= 0:
        left = asks_here(view, scratch, parameters, row, partition)
        if left > 0:
            why = barred(view, scratch, app, row, user)
            node = NO_NODE if why else choose_node(view, scratch, parameters, row)
            if node >= 0:
                propose(view, scratch, parameters, app, row, node, user)
                return True
            if node == WAIT:
                set_reason(scratch, row, Reason.NEARER_NODE)
                break
            drop_row(view, scratch, leaf, row, left, why or why_no_node(view, scratch, row))
        row = view.rows[row].next
    skip_application(view, scratch, parameters, app, partition, Reason.AFTER_EARLIER_REQUEST)
    return False


@inner
def serve_leaf(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> bool:
    """Propose one container for the leaf's next servable application; False if there is none."""
    scratch.counters[RESERVED] = find_headroom(view, scratch.asks[LEAF_HEADROOM], leaf, partition, parameters.lends)
    while True:
        app = next_application(view, scratch, parameters, leaf)
        if app < 0:
            return False
        if parameters.candidates > 0 and not view.apps[app].awaiting_am:
            served = propose_best(view, scratch, parameters, app, partition)
        else:
            served = serve_application(view, scratch, parameters, app, partition)
        if served:
            last = scratch.out[scratch.counters[PLACED] - 1]
            note_placed(view, scratch, parameters, last.queue, last.row, last.node)
            return True


@inner
def place(view: View, scratch: Scratch, parameters: DecideParameters, partition: int, limit: int) -> None:
    """Propose containers in a surveyed partition until there are ``limit`` or nothing more fits.

    Free resources only shrink in a cycle, so an unplaceable request stays unplaceable: each leaf, application and row
    is dropped at most once, which bounds the loop. Once a resource is saturated, the shares are computed again.
    """
    shares = scratch.shares
    while True:
        shares.counters[SATURATED] = 0
        shares.clock[SERVED] = NO_RANK
        for at in range(len(shares.nodes)):
            shares.nodes[at].served_rank = NO_RANK
        rules.begin(view, scratch, parameters, partition)
        while scratch.counters[PLACED] < limit and not shares.counters[SATURATED]:
            leaf = rules.pick(view, scratch, parameters, partition)
            if leaf < 0:
                break
            if not serve_leaf(view, scratch, parameters, leaf, partition):
                rules.skip(view, scratch, parameters, leaf, partition)
        mark_overtaken(view, scratch, parameters, partition)
        rules.end(view, scratch, parameters, partition)
        if scratch.counters[PLACED] >= limit or not shares.counters[SATURATED]:
            return
        drop_saturated(view, scratch, parameters, partition)


@kernel
def serve_partition(view: View, scratch: Scratch, parameters: DecideParameters, partition: int, limit: int) -> int:
    """Survey a partition and place containers there, until there are ``limit`` of the cycle; return their number."""
    if survey(view, scratch, parameters, partition):
        place(view, scratch, parameters, partition, limit)
    return scratch.counters[PLACED]
