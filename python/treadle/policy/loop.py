"""The inner loop: leaf, application, request, node, proposal.

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
from treadle.model.in_flight import assume
from treadle.model.tables import View
from treadle.policy.asks import (
    asks_here,
    barred,
    begin_resources,
    count_all_asks,
    drop_row,
    drop_saturated,
    find_headroom,
    is_over_limit,
    skip_application,
    survey_asks,
    survey_headroom,
    survey_nodes,
    user_of,
)
from treadle.policy.node_search import (
    NO_NODE,
    WAIT,
    choose_node,
    dot_product,
    fits,
    headroom_needed,
    level_of,
    place_of,
    position_of,
    restart_count,
    score,
    unwanted,
)
from treadle.policy.orders import application_after, next_application, wants
from treadle.policy.shares import rules
from treadle.policy.shares.aims import STEPS
from treadle.policy.shares.tree import AIMS_AT, BLOCKED, SATURATED, SERVED, Shares
from treadle.policy.state import (
    BIG_COUNT,
    BUNDLE,
    CLUSTER,
    LEAST,
    NODE_LOCAL,
    NOT_THERE,
    OFF_SWITCH,
    OFFERS,
    OPEN_NODES,
    PACKED,
    PLACED,
    RACK_LOCAL,
    SCANNED,
    SCORED,
    WORK,
    DecideParameters,
    Reason,
    Scratch,
    count_proposed,
    set_reason,
)

SCAN_LIMIT: Final = 4_000_000
"""Nodes, applications and rows scanned in a cycle before only `MAX_CANDIDATES_DEGRADED` rows compete: about 0.3 s."""
MAX_CANDIDATES_DEGRADED: Final = 16
"""Number of competing rows then; this is the default setting."""

MEMORY: Final = 1000
"""Number of recent proposals that the averages cover, approximately."""


@inner
def plan_score(view: View, row: int) -> float:
    """Return the plan's rank of a row: 1 first, 0 last; 1 without a plan."""
    hint = view.rows[row].hint
    return view.hints[hint].score if hint >= 0 else 1.0


@inner
def add_candidates(
    view: View,
    scratch: Scratch,
    parameters: DecideParameters,
    app: int,
    user: int,
    leaf: int,
    partition: int,
    candidates: int,
    most: int,
) -> int:
    """Add an application's competing rows to the candidates, up to ``most``; return the number of candidates.

    These are the rows of its first request priority that has any, and rows that a plan ranks, whatever their priority.
    """
    first = -1
    row = view.apps[app].first_row
    while row >= 0 and candidates < most:
        if asks_here(view, scratch, parameters, row, partition):
            why, hint = barred(view, scratch, app, row, user), view.rows[row].hint
            ranked = parameters.all_priorities or (hint >= 0 and view.hints[hint].ranked == 1)
            if why:
                drop_row(view, scratch, leaf, row, why)
            elif first < 0 or view.rows[row].priority == view.rows[first].priority or ranked:
                if first < 0:
                    first = row
                scratch.candidates[candidates] = row
                candidates += 1
        row = view.rows[row].next
    return candidates


@inner
def gather_leaf(
    view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int, candidates: int, count: int
) -> int:
    """Add up to ``count`` competing rows of a leaf, the next application's first; return the number of candidates.

    Only applications in the band of the next one compete. Applications without servable rows are done. At most four
    times as many applications as competing rows are checked.
    """
    at, most = 0, candidates + count
    first = application_after(scratch, leaf, 0)
    while candidates < most and at < 4 * count:
        app = application_after(scratch, leaf, at)
        if app < 0:
            break
        at += 1
        if not wants(view, scratch, app) or scratch.apps[app].band != scratch.apps[first].band:
            continue
        user = user_of(view, parameters, app, leaf, partition)
        before, over = candidates, user >= 0 and is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition)
        if not over:
            candidates = add_candidates(view, scratch, parameters, app, user, leaf, partition, candidates, most)
        if candidates == before:
            why = Reason.USER_LIMIT if over else Reason.AFTER_EARLIER_REQUEST
            skip_application(view, scratch, parameters, app, partition, why)
    scratch.counters[SCANNED] += at
    return candidates


@inner
def gather_others(
    view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int, candidates: int
) -> int:
    """Add the competing rows of all other leaves, equally many of each; return the number of candidates.

    Leaves are skipped if their next application is in a later band or awaits its AM, which goes first once its leaf is
    picked.
    """
    band = scratch.apps[view.rows[scratch.candidates[0]].application].band
    scratch.counters[SCANNED] += len(view.queues)
    for other in range(len(view.queues)):
        at = scratch.shares.leaf_node[other]
        if other == leaf or at < 0 or scratch.shares.nodes[at].kind == BLOCKED or scratch.shares.nodes[at].asks <= 0:
            continue
        asks = scratch.shares.nodes[at].asks
        find_headroom(view, scratch, parameters, other, partition)
        app = next_application(view, scratch, parameters, other)
        if app >= 0 and not view.apps[app].awaiting_am and scratch.apps[app].band <= band:
            candidates = gather_leaf(view, scratch, parameters, other, partition, candidates, parameters.candidates)
        if scratch.shares.nodes[at].asks != asks:
            rules.update(view, scratch, parameters, at, partition)
    find_headroom(view, scratch, parameters, leaf, partition)
    return candidates


@inner
def best_candidate(view: View, scratch: Scratch, parameters: DecideParameters, candidates: int, node: int) -> int:
    """Return the candidate with the highest perfScore on a node, or -1 if none fits there.

    perfScore is packing score x plan score - eta x remaining work; eta equalises the averages of both terms, times the
    configured weight.
    """
    eta = 0.0
    if scratch.averages[WORK] > 0.0:
        eta = parameters.srpt_weight * scratch.averages[PACKED] / scratch.averages[WORK]
    best, best_score = -1, 0.0
    for at in range(candidates):
        row = scratch.candidates[at]
        if not fits(view, scratch, row, node) or unwanted(view, scratch, parameters, row, node):
            continue
        level = level_of(view, row, node)
        if level == NOT_THERE or (parameters.remote_penalty < 0.0 and level > 0 and view.rows[row].localities > 0):
            continue
        value = score(view, scratch, parameters, row, node, level) * plan_score(view, row)
        value -= eta * scratch.apps[view.rows[row].application].work
        if best < 0 or value > best_score:
            best, best_score = row, value
    return best


NO_CHILD = -1.0
"""`served_rank` of a group without a served child."""

FIRST = 2.0 * STEPS
"""The wait of a leaf without containers if one container takes it beyond its aim."""

BEYOND = 1e299
"""Rank of a served leaf that is not below its aim."""


@inner
def comes_before_served(shares: Shares, leaf: int) -> bool:
    """Return whether the leaf, or a parent, has a lower share than a served sibling.

    Where leaves have aims: whether its fraction of the aim is lower, if the next container is within it or the first.
    """
    if len(shares.aims) > 0:
        return bool(shares.nodes[leaf].wait <= FIRST and shares.nodes[leaf].wait < shares.clock[SERVED])
    at = leaf
    while at > 0:
        parent = shares.nodes[at].parent
        if shares.nodes[at].weight > 0.0 and shares.nodes[at].rank < shares.nodes[parent].served_rank:
            return True
        at = parent
    return False


@inner
def end_shares(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Save the state that the next computation continues from, in this cycle or the next.

    Marks the rows that fit no node of the partition and were overtaken, by the current shares.
    """
    for at in range(scratch.counters[BIG_COUNT]):
        row = scratch.big[at].row
        if view.rows[row].partition != partition or scratch.counters[PLACED] <= scratch.big[at].placed:
            continue
        if parameters.compares_shares:
            leaf = scratch.shares.leaf_node[view.apps[view.rows[row].application].queue]
            if leaf < 0 or not comes_before_served(scratch.shares, leaf):
                continue
        scratch.big[at].overtaken = 1
    rules.end(view, scratch, parameters, partition)


@inner
def begin_shares(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute the shares; no leaf has been served by them."""
    scratch.shares.counters[SATURATED] = 0
    scratch.shares.clock[SERVED] = NO_CHILD
    for at in range(len(scratch.shares.nodes)):
        scratch.shares.nodes[at].served_rank = NO_CHILD
    rules.begin(view, scratch, parameters, partition)


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
        shares.clock[SERVED] = max(shares.clock[SERVED], nodes[at].wait if shares.counters[AIMS_AT] else BEYOND)
        child = at
        while child > 0 and not shares.counters[AIMS_AT]:
            parent = nodes[child].parent
            nodes[parent].served_rank = max(nodes[parent].served_rank, nodes[child].rank)
            child = parent
    for r in range(len(resources)):
        left, least = scratch.available[node, r], headroom_needed(scratch, node, r, resources[r].least)
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
    assume(view, out, asked, i, parameters.decide)
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
            at = position_of(scratch.open_nodes, scratch.counters[OPEN_NODES], node)
            scratch.open_nodes[at].next = at + 1


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
            set_reason(scratch, first, Reason.NEARER_NODE)
            skip_application(view, scratch, parameters, app, partition, Reason.AFTER_EARLIER_REQUEST)
        else:
            drop_row(view, scratch, leaf, first, 0)
        return -1
    scratch.counters[BUNDLE] = node
    if view.nodes[node].hold_row == first:
        return first
    row = best_candidate(view, scratch, parameters, candidates, node)
    return row if row >= 0 else first


@inner
def propose_best(view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int) -> bool:
    """Propose one container for the best of the competing rows; False if a row or application is done.

    After `SCAN_LIMIT` scanned nodes, applications and rows a cycle continues with the first `MAX_CANDIDATES_DEGRADED`
    rows of the served leaf; otherwise its duration would grow with rows times containers.
    """
    leaf, scarce = view.apps[app].queue, scratch.counters[SCANNED] >= SCAN_LIMIT
    count = min(parameters.candidates, MAX_CANDIDATES_DEGRADED) if scarce else parameters.candidates
    candidates = gather_leaf(view, scratch, parameters, leaf, partition, 0, count)
    across = candidates > 0 and parameters.across_queues and not scarce
    if across and rules.lets_order_decide(view, scratch, parameters):
        candidates = gather_others(view, scratch, parameters, leaf, partition, candidates)
    scratch.counters[SCANNED] += candidates
    if candidates == 0:
        if not scratch.apps[app].done:
            skip_application(view, scratch, parameters, app, partition, Reason.AFTER_EARLIER_REQUEST)
        return False
    row = choose_candidate(view, scratch, parameters, leaf, partition, candidates)
    if row < 0:
        return False
    app, node = view.rows[row].application, scratch.counters[BUNDLE]
    scratch.counters[SCORED] += 1
    share = 1.0 / min(scratch.counters[SCORED], MEMORY)
    packed = dot_product(view, scratch, row, node) * plan_score(view, row)
    scratch.averages[PACKED] += share * (packed - scratch.averages[PACKED])
    scratch.averages[WORK] += share * (scratch.apps[app].work - scratch.averages[WORK])
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
        if asks_here(view, scratch, parameters, row, partition):
            why = barred(view, scratch, app, row, user)
            node = NO_NODE if why else choose_node(view, scratch, parameters, row)
            if node >= 0:
                propose(view, scratch, parameters, app, row, node, user)
                return True
            if node == WAIT:
                set_reason(scratch, row, Reason.NEARER_NODE)
                break
            drop_row(view, scratch, leaf, row, why)
        row = view.rows[row].next
    skip_application(view, scratch, parameters, app, partition, Reason.AFTER_EARLIER_REQUEST)
    return False


@inner
def serve_leaf(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> bool:
    """Propose one container for the leaf's next servable application; False if there is none."""
    find_headroom(view, scratch, parameters, leaf, partition)
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


@kernel
def place(view: View, scratch: Scratch, parameters: DecideParameters, partition: int, limit: int) -> int:
    """Propose containers in a partition until there are ``limit`` or nothing more fits; return their number.

    Free resources only shrink in a cycle, so an unplaceable request stays unplaceable: each leaf, application and row
    is dropped at most once, which bounds the loop.
    """
    if not survey_asks(view, scratch, parameters, partition):
        return scratch.counters[PLACED]
    survey_nodes(view, scratch, parameters, partition)
    survey_headroom(view, scratch, parameters, partition)
    if not parameters.walks_queues:
        begin_resources(view, scratch, parameters, partition)
        count_all_asks(view, scratch, parameters, partition)
        rules.aim(view, scratch, parameters, partition)
    begin_shares(view, scratch, parameters, partition)
    while scratch.counters[PLACED] < limit:
        if scratch.shares.counters[SATURATED]:
            drop_saturated(view, scratch, parameters, partition)
            end_shares(view, scratch, parameters, partition)
            begin_shares(view, scratch, parameters, partition)
        leaf = rules.pick(view, scratch, parameters, partition)
        if leaf < 0:
            break
        if not serve_leaf(view, scratch, parameters, leaf, partition):
            rules.skip(view, scratch, parameters, leaf, partition)
    end_shares(view, scratch, parameters, partition)
    return scratch.counters[PLACED]
