"""The requests and nodes that are open in a partition before the loop serves it, and the headroom of nodes.

A resource is saturated when no node has room for the smallest request that needs it; for divisible resources that is
"fully used". A leaf is blocked when each of its requests needs a saturated resource, exceeds a queue's maximum or a
user's limit, or fits on no node. All requests are checked here, leaf by leaf; the loop drops further ones
(`treadle.policy.asks`).

The smallest request fits on each open node, and open nodes keep headroom for large requests.
"""

from __future__ import annotations

import numpy as np

from treadle.compiled.functions import inner
from treadle.model.tables import TOTAL, View
from treadle.policy.asks import (
    NOT_KNOWN,
    asks_here,
    barred,
    drop_row,
    find_headroom,
    grows_with_leaf,
    is_over_limit,
    needs_saturated,
    user_of,
)
from treadle.policy.node_search import (
    NO_NODE,
    counts_own,
    fits,
    fits_empty,
    known_node,
    level_of,
    remember_nowhere,
    room_needed,
    set_of,
    unwanted,
    why_no_node,
)
from treadle.policy.shares import rules
from treadle.policy.shares.tree import CHECKS_LEFT, WITNESS
from treadle.policy.state import (
    CLUSTER,
    HELD_NODES,
    INFEASIBLE_COUNT,
    LARGEST,
    LEAF_HEADROOM,
    LEAST,
    NOT_THERE,
    OPEN_NODES,
    PARTITION,
    RESERVED,
    SERVES,
    UNWANTED,
    DecideParameters,
    Reason,
    Scratch,
    set_reason,
)


@inner
def list_ask(view: View, scratch: Scratch, app: int, row: int, left: int, at: int) -> None:
    """Append a row with ``left`` requests for the partition; the list keeps data of later lookups contiguous.

    Its ``size`` is a position in `Scratch.sizes`, -1 if not only its size matters: it names a node, or some are
    excluded. The latest of several sizes with one hash is stored.
    """
    size = -1
    anywhere = view.rows[row].localities == 0 and view.rows[row].relax and view.rows[row].exclusions == 0
    anywhere = anywhere and view.rows[row].hold_node < 0 and view.apps[app].blacklisted == 0
    if anywhere and set_of(scratch, row) < 0 and not counts_own(scratch, row):
        digest = np.uint64(0)
        for r in range(len(view.counted)):
            digest = (digest ^ np.uint64(view.capability[row, r])) * np.uint64(11400714819323198485)
        size = int(np.int64(digest >> np.uint64(58)))
        like = scratch.sizes[size].row
        same = like >= 0
        for r in range(len(view.counted)):
            same = same and view.capability[like, r] == view.capability[row, r]
        if not same:
            scratch.sizes[size].row = row
    scratch.open_asks[at].application = app
    scratch.open_asks[at].user = view.apps[app].user
    scratch.open_asks[at].row = row
    scratch.open_asks[at].size = size
    scratch.open_asks[at].like = scratch.sizes[size].row if size >= 0 else row
    scratch.open_asks[at].left = left
    scratch.open_asks[at].starts = view.apps[app].awaiting_am == 1 and view.apps[app].assumed_count > 0


@inner
def survey_application(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int, count: int
) -> int:
    """List an application's requests for the partition and find the smallest; return the length of the list.

    Records why others may not use the partition (see `asks_here`).
    """
    scratch.apps[app].done = 1
    least = scratch.asks[LEAST]
    if view.apps[app].pending <= view.apps[app].assumed_count:
        return count
    backs_off = view.apps[app].backoff_until > parameters.cycle
    starts = view.apps[app].awaiting_am and view.apps[app].assumed_count > 0
    row = view.apps[app].first_row
    while row >= 0:
        if not view.rows[row].met:  # the row may have belonged to another request
            view.rows[row].met = 1
            set_reason(scratch, row, Reason.NEW)
        left = 0 if backs_off else asks_here(view, scratch, parameters, row, partition)
        if left > 0:
            if starts:
                set_reason(scratch, row, Reason.PLACED)
            scratch.apps[app].done = 0
            for r in range(len(least)):
                least[r] = min(least[r], view.capability[row, r])
            if not parameters.walks_queues:
                list_ask(view, scratch, app, row, left, count)
                count += 1
        elif not scratch.rows[row].done and not parameters.lends and view.rows[row].partition == partition:
            if view.rows[row].count <= view.rows[row].assumed:
                set_reason(scratch, row, Reason.PLACED)
            elif not scratch.rows[row].may or scratch.rows[row].quota <= 0:
                set_reason(scratch, row, Reason.GATE)
            elif backs_off or view.rows[row].backoff_until > parameters.cycle:
                set_reason(scratch, row, Reason.BACKOFF)
        row = view.rows[row].next
    return count


@inner
def survey_asks(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> bool:
    """List the leaves with requests for the partition, find the smallest by resource; False if there is none."""
    least, any_ask, count = scratch.asks[LEAST], False, 0
    scratch.counters[SERVES] = partition
    for r in range(len(least)):
        least[r] = 1 << 62
    for queue in range(len(scratch.queues)):
        scratch.queues[queue].live = 0
    for size in range(len(scratch.sizes)):
        scratch.sizes[size].row = -1
        scratch.sizes[size].judged_for = 0
    for leaf in range(len(view.queues)):
        scratch.queues[leaf].first_open = count
        if not view.queues[leaf].exists or not view.queues[leaf].leaf:
            continue
        if not parameters.lends and not view.limit_known[leaf, partition]:
            continue
        live = False
        for at in range(scratch.queues[leaf].first, scratch.queues[leaf + 1].first):
            app = scratch.list[at].turn = scratch.list[at].application
            count = survey_application(view, scratch, parameters, app, partition, count)
            live = live or not scratch.apps[app].done
        if live:
            scratch.queues[leaf].am_cursor = scratch.queues[leaf].cursor = scratch.queues[leaf].first
            scratch.queues[leaf].end = scratch.queues[leaf].served = -1
            any_ask = True
            queue = leaf
            while queue >= 0:
                scratch.queues[queue].live += 1
                queue = view.queues[queue].parent
    scratch.queues[len(view.queues)].first_open = count
    return any_ask


@inner
def begin_resources(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Find the smallest request above 0 of each resource, and count the nodes of the partition with room for it."""
    resources = scratch.shares.resources
    for r in range(len(resources)):
        resources[r].least = 1 << 62
        resources[r].nodes = 0
    for at in range(scratch.queues[len(view.queues)].first_open):
        for r in range(len(resources)):
            ask = view.capability[scratch.open_asks[at].like, r]
            if ask > 0:
                resources[r].least = min(resources[r].least, ask)
    for r in range(len(resources)):
        resources[r].asked = resources[r].least < 1 << 62
        if not resources[r].asked:
            resources[r].least = 1
    for node in range(len(view.nodes)):
        if view.nodes[node].state == 1 and view.nodes[node].partition == partition:
            for r in range(len(resources)):
                needed = room_needed(scratch, node, r, resources[r].least)
                resources[r].nodes += scratch.available[node, r] >= needed
    for r in range(len(resources)):
        resources[r].saturated = view.counted[r] and resources[r].nodes == 0
        ignored = resources[r].saturated and parameters.rescales
        resources[r].counts = scratch.rates[PARTITION, r] > 0.0 and not ignored


CHECKS_PER_LEAF = 64
"""Average number of nodes checked in a leaf, beyond one for each request, before `judge` assumes that it has room."""


@inner
def judge(view: View, scratch: Scratch, parameters: DecideParameters, app: int, like: int, user: int) -> int:
    """Return why a request cannot be placed, 0 if it can; ``like`` is a row that fits on the same nodes.

    Once too many open nodes have been checked, one of them is assumed to have room.
    """
    why = barred(view, scratch, app, like, user)
    if why:
        return why
    if needs_saturated(view, scratch, like):
        return Reason.SATURATED
    counters, count, chosen = scratch.shares.counters, scratch.counters[OPEN_NODES], set_of(scratch, like)
    scratch.counters[UNWANTED] = 0
    node = known_node(view, scratch, parameters, like)
    if node >= 0:
        return 0
    if node == NO_NODE:
        return why_no_node(view, scratch, like)
    # each set of nodes has its witness: the nodes of other sets have room for other requests
    of_set = 0 <= chosen < len(scratch.witness)
    last = scratch.witness[chosen] if of_set else counters[WITNESS]
    at = last if last < count else 0
    for _ in range(count):
        node = scratch.open_nodes[at].node
        if fits(view, scratch, like, node):
            if level_of(view, like, node) != NOT_THERE and not unwanted(view, scratch, parameters, like, node):
                if of_set:
                    scratch.witness[chosen] = at
                else:
                    counters[WITNESS] = at
                return 0
            scratch.counters[UNWANTED] = 1
        if counters[CHECKS_LEFT] <= 0:
            return 0
        counters[CHECKS_LEFT] -= 1
        at = at + 1 if at + 1 < count else 0
    remember_nowhere(view, scratch, like)
    return why_no_node(view, scratch, like)


@inner
def count_asks(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> int:
    """Return the number of placeable requests of a leaf; drop the others.

    Runs after `survey_asks`. Each row is judged by its `like`, whose data is in the processor's cache: with the rows
    themselves, whose tables are larger than the cache, this took most of a cycle. Requests of one size get one verdict
    if their user's limit in the leaf is known.
    """
    asks, name, user, stuck, first = 0, -1, NOT_KNOWN, False, 0
    scratch.counters[RESERVED] = find_headroom(view, scratch.asks[LEAF_HEADROOM], leaf, partition, parameters.lends)
    for at in range(scratch.queues[leaf].first_open, scratch.queues[leaf + 1].first_open):
        ask = scratch.open_asks[at]
        if ask.starts:
            continue
        if ask.user != name:
            name, first = ask.user, at + 1
            user = user_of(view, parameters, ask.application, leaf, partition)
            # over the limit until the end of this cycle
            over = user >= 0 and is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition)
            stuck = over and not grows_with_leaf(view, user, leaf, partition)
        if stuck:
            scratch.apps[ask.application].done = 1
            set_reason(scratch, ask.row, Reason.USER_LIMIT)
            continue
        size = ask.size
        by_size = size >= 0 and user != NOT_KNOWN and scratch.sizes[size].row == ask.like
        if by_size and scratch.sizes[size].judged_for == first:
            verdict = scratch.sizes[size].verdict
        else:
            verdict = judge(view, scratch, parameters, ask.application, ask.like, user)
            if by_size:
                scratch.sizes[size].judged_for = first
                scratch.sizes[size].verdict = verdict
        if verdict == 0:
            asks += ask.left
            continue
        drop_row(view, scratch, leaf, ask.row, 0, verdict)  # it is not in the leaf's count
    return asks


@inner
def count_all_asks(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Count the placeable requests of every leaf of the tree."""
    shares = scratch.shares
    shares.counters[CHECKS_LEFT] = CHECKS_PER_LEAF * len(shares.nodes)
    for at in range(len(shares.nodes)):
        if shares.nodes[at].leaf:
            queue = shares.nodes[at].queue
            live = scratch.queues[queue].live > 0
            shares.nodes[at].asks = count_asks(view, scratch, parameters, queue, partition) if live else 0


@inner
def find_largest_asks(view: View, scratch: Scratch, parameters: DecideParameters, partition: int, node: int) -> None:
    """Set a node's headroom: by resource, the largest request that the empty node could hold."""
    for r in range(len(view.counted)):
        scratch.headroom[node, r] = 0
    for at in range(len(scratch.list)):
        app = scratch.list[at].application
        row = view.apps[app].first_row if scratch.apps[app].done == 0 else -1
        while row >= 0:
            if asks_here(view, scratch, parameters, row, partition) and fits_empty(view, row, node):
                for r in range(len(view.counted)):
                    scratch.headroom[node, r] = max(scratch.headroom[node, r], view.capability[row, r])
            row = view.rows[row].next


@inner
def survey_headroom(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute the headroom of each node of the partition; a node identical to the previous one has the same."""
    before = -1
    for node in range(len(scratch.headroom)):
        if view.nodes[node].state == 0 or view.nodes[node].partition != partition:
            continue
        same_size = before >= 0
        for r in range(len(view.counted)):
            same_size = same_size and view.node_amounts[node, TOTAL, r] == view.node_amounts[before, TOTAL, r]
        if not same_size:
            find_largest_asks(view, scratch, parameters, partition, node)
        for r in range(len(view.counted)):
            scratch.headroom[node, r] = scratch.headroom[node if not same_size else before, r]
        before = node


@inner
def survey_nodes(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """List the nodes of the partition on which the smallest request fits; add up the partition's resources."""
    resources = len(view.counted)
    for r in range(resources):
        scratch.rates[PARTITION, r] = scratch.rates[LARGEST, r] = 0.0
    count, held, last = 0, 0, len(scratch.open_nodes) - 1
    for node in range(len(view.nodes)):
        scratch.open_nodes[node].open = 0
        scratch.open_nodes[node].first = count
        if view.nodes[node].state == 0 or view.nodes[node].partition != partition:
            continue
        is_open = view.nodes[node].state == 1 and view.nodes[node].hold_row < 0
        is_open = is_open and view.nodes[node].backoff_until <= parameters.cycle
        for r in range(resources):
            if view.counted[r]:
                scratch.rates[PARTITION, r] += view.node_amounts[node, TOTAL, r]
            if scratch.bound[r]:
                scratch.rates[LARGEST, r] = max(scratch.rates[LARGEST, r], float(view.node_amounts[node, TOTAL, r]))
                is_open = is_open and scratch.available[node, r] >= scratch.asks[LEAST, r]
        scratch.open_nodes[node].open = is_open
        if is_open:
            scratch.open_nodes[count].node = node
            scratch.open_nodes[count].next = count
            count += 1
        elif view.nodes[node].hold_row >= 0:
            scratch.open_nodes[last - held].node = node
            held += 1
    scratch.open_nodes[count].next = count
    scratch.open_nodes[last].first = count
    scratch.counters[OPEN_NODES] = count
    scratch.counters[HELD_NODES] = held
    scratch.counters[INFEASIBLE_COUNT] = 0
    scratch.nowhere[:] = -1
    scratch.witness[:] = 0
    for r in range(resources):
        if scratch.rates[PARTITION, r] > 0.0:
            scratch.rates[PARTITION, r] = 1.0 / scratch.rates[PARTITION, r]
        # the same as `treadle.policy.state.offered`
        most = scratch.rates[LARGEST, r]
        scratch.largest[r] = np.int64(most) + np.int64((scratch.factors[r] - 1.0) * most)
        if scratch.rates[LARGEST, r] > 0.0:
            scratch.rates[LARGEST, r] = 1.0 / scratch.rates[LARGEST, r]


@inner
def survey(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> bool:
    """List the open requests and nodes of a partition; return whether there are requests for it.

    For a share with a tree this also counts each leaf's placeable requests, and updates the leaves' aims.
    """
    if not survey_asks(view, scratch, parameters, partition):
        return False
    survey_nodes(view, scratch, parameters, partition)
    survey_headroom(view, scratch, parameters, partition)
    if not parameters.walks_queues:
        begin_resources(view, scratch, parameters, partition)
        count_all_asks(view, scratch, parameters, partition)
        rules.aim(view, scratch, parameters, partition)
    return True
