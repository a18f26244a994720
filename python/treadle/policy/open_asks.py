"""The open requests and open nodes of a partition.

Requests are listed leaf by leaf, with the placeable number of each leaf; the smallest request fits on each open node,
and open nodes keep headroom for large requests.
"""

from __future__ import annotations

import numpy as np

from treadle.compiled.functions import inner
from treadle.model.tables import TOTAL, View
from treadle.policy.asks import (
    NOT_KNOWN,
    asks_here,
    asks_left,
    barred,
    find_headroom,
    grows_with_leaf,
    is_over_limit,
    needs_saturated,
    note_big,
    note_refused,
    user_of,
)
from treadle.policy.node_search import (
    fits,
    fits_empty,
    fits_nowhere,
    headroom_needed,
    held_node,
    level_of,
    remember_nowhere,
    unwanted,
    why_no_node,
)
from treadle.policy.node_sets import is_restricted, set_of
from treadle.policy.shares.capacity import add_live
from treadle.policy.shares.tree import CHECKS_LEFT, WITNESS
from treadle.policy.state import (
    CLUSTER,
    FOUND_NO_NODE,
    HELD_NODES,
    INFEASIBLE_COUNT,
    LARGEST,
    LEAST,
    NOT_THERE,
    OPEN_NODES,
    PARTITION,
    SERVES,
    UNWANTED,
    DecideParameters,
    Reason,
    Scratch,
    close_row,
    set_reason,
)


@inner
def is_surveyed(view: View, parameters: DecideParameters, queue: int, partition: int) -> bool:
    """Return whether a queue is a leaf that may get resources of the partition."""
    if not view.queues[queue].exists or not view.queues[queue].leaf:
        return False
    return bool(parameters.lends or view.limit_known[queue, partition])


@inner
def size_of(view: View, scratch: Scratch, app: int, row: int) -> int:
    """Return the position of the request's size in `Scratch.sizes`, -1 if other properties matter too.

    Only size matters if it names no node and no node is excluded. The latest of several sizes with one hash is stored.
    """
    if view.rows[row].localities > 0 or not view.rows[row].relax or view.rows[row].exclusions > 0:
        return -1
    if view.rows[row].hold_node >= 0 or view.apps[app].blacklisted > 0 or is_restricted(scratch, row):
        return -1
    digest = np.uint64(0)
    for r in range(len(view.counted)):
        digest = (digest ^ np.uint64(view.capability[row, r])) * np.uint64(11400714819323198485)
    at = int(np.int64(digest >> np.uint64(58)))
    like = scratch.sizes[at].row
    same = like >= 0
    for r in range(len(view.counted)):
        same = same and view.capability[like, r] == view.capability[row, r]
    if not same:
        scratch.sizes[at].row = row
    return at


@inner
def note_open(view: View, scratch: Scratch, app: int, row: int, at: int) -> None:
    """Append a row with requests for the partition; the list keeps data of later lookups contiguous."""
    scratch.open_asks[at].application = app
    scratch.open_asks[at].user = view.apps[app].user
    size = size_of(view, scratch, app, row)
    scratch.open_asks[at].row = row
    scratch.open_asks[at].size = size
    scratch.open_asks[at].like = scratch.sizes[size].row if size >= 0 else row
    scratch.open_asks[at].left = asks_left(view, scratch, row)
    scratch.open_asks[at].starts = view.apps[app].awaiting_am == 1 and view.apps[app].assumed_count > 0


@inner
def survey_application(
    view: View, scratch: Scratch, parameters: DecideParameters, app: int, partition: int, count: int
) -> int:
    """List an application's requests for the partition and find the smallest; return the length of the list."""
    scratch.apps[app].done = 1
    least = scratch.asks[LEAST]
    if view.apps[app].pending <= view.apps[app].assumed_count:
        return count
    backs_off = view.apps[app].backoff_until > parameters.decide
    starts = view.apps[app].awaiting_am and view.apps[app].assumed_count > 0
    row = view.apps[app].first_row
    while row >= 0:
        if not view.rows[row].met:  # the row may have belonged to another request
            view.rows[row].met = 1
            set_reason(scratch, row, Reason.NEW)
        if backs_off or not asks_here(view, scratch, parameters, row, partition):
            note_refused(view, scratch, parameters, row, partition, backs_off)
        else:
            if starts:
                set_reason(scratch, row, Reason.PLACED)
            scratch.apps[app].done = 0
            for r in range(len(least)):
                least[r] = min(least[r], view.capability[row, r])
            if not parameters.walks_queues:
                note_open(view, scratch, app, row, count)
                count += 1
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
        if not is_surveyed(view, parameters, leaf, partition):
            continue
        live = False
        for at in range(scratch.queues[leaf].first, scratch.queues[leaf + 1].first):
            app = scratch.list[at].application
            count = survey_application(view, scratch, parameters, app, partition, count)
            live = live or not scratch.apps[app].done
        if live:
            scratch.queues[leaf].am_cursor = scratch.queues[leaf].cursor = scratch.queues[leaf].first
            scratch.queues[leaf].heap_size = scratch.queues[leaf].served = -1
            add_live(view, scratch, leaf, 1)
            any_ask = True
    scratch.queues[len(view.queues)].first_open = count
    return any_ask


@inner
def take_least(view: View, scratch: Scratch, row: int) -> None:
    """Lower the smallest request of each resource to this row's."""
    resources = scratch.shares.resources
    for r in range(len(resources)):
        if view.capability[row, r] > 0:
            resources[r].least = min(resources[r].least, view.capability[row, r])


@inner
def find_least_asks(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Find the smallest request above 0 of each resource in the partition."""
    resources = scratch.shares.resources
    for r in range(len(resources)):
        resources[r].least = 1 << 62
    for queue in range(len(view.queues)):
        if is_surveyed(view, parameters, queue, partition):
            for at in range(scratch.queues[queue].first_open, scratch.queues[queue + 1].first_open):
                take_least(view, scratch, scratch.open_asks[at].like)
            continue
        for at in range(scratch.queues[queue].first, scratch.queues[queue + 1].first):
            app = scratch.list[at].application
            row = view.apps[app].first_row if scratch.apps[app].done == 0 else -1
            while row >= 0:
                if asks_here(view, scratch, parameters, row, partition):
                    take_least(view, scratch, row)
                row = view.rows[row].next
    for r in range(len(resources)):
        resources[r].asked = resources[r].least < 1 << 62
        if not resources[r].asked:
            resources[r].least = 1


@inner
def begin_resources(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Count the nodes of the partition with room for the smallest request of each resource."""
    find_least_asks(view, scratch, parameters, partition)
    resources = scratch.shares.resources
    for r in range(len(resources)):
        resources[r].nodes = 0
    for node in range(len(view.nodes)):
        if view.nodes[node].state == 1 and view.nodes[node].partition == partition:
            for r in range(len(resources)):
                needed = headroom_needed(scratch, node, r, resources[r].least)
                resources[r].nodes += scratch.available[node, r] >= needed
    for r in range(len(resources)):
        resources[r].saturated = view.counted[r] and resources[r].nodes == 0
        ignored = resources[r].saturated and parameters.rescales
        resources[r].counts = scratch.rates[PARTITION, r] > 0.0 and not ignored


CHECKS_PER_LEAF = 64
"""Average number of nodes checked for requests that lack room where the last one had it, beyond one each."""


@inner
def judge(view: View, scratch: Scratch, parameters: DecideParameters, app: int, like: int, user: int) -> int:
    """Return why a request cannot be placed, 0 if it can; ``like`` is a row that fits on the same nodes."""
    why = barred(view, scratch, app, like, user)
    if why:
        return why
    if needs_saturated(view, scratch, like):
        return Reason.SATURATED
    return 0 if has_node(view, scratch, parameters, like) else why_no_node(view, scratch, like)


@inner
def has_node(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> bool:
    """Return whether some open node can serve the row; assumed once too many have been checked."""
    counters, count, chosen = scratch.shares.counters, scratch.counters[OPEN_NODES], set_of(scratch, row)
    scratch.counters[UNWANTED] = 0
    if held_node(view, scratch, parameters, row) >= 0:
        return True
    if count == 0 or fits_nowhere(view, scratch, row):
        return False
    # requests of another class have room on other nodes
    of_set = 0 <= chosen < len(scratch.witness)
    last = scratch.witness[chosen] if of_set else counters[WITNESS]
    at = last if last < count else 0
    for _ in range(count):
        node = scratch.open_nodes[at].node
        if fits(view, scratch, row, node):
            if level_of(view, row, node) != NOT_THERE and not unwanted(view, scratch, parameters, row, node):
                if of_set:
                    scratch.witness[chosen] = at
                else:
                    counters[WITNESS] = at
                return True
            scratch.counters[UNWANTED] = 1
        if counters[CHECKS_LEFT] <= 0:
            return True
        counters[CHECKS_LEFT] -= 1
        at = at + 1 if at + 1 < count else 0
    remember_nowhere(view, scratch, row)
    return False


@inner
def count_asks(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> int:
    """Return the number of placeable requests of a leaf; drop the others.

    Runs after `survey_asks`. Questions are answered for a similar row, whose data is at hand: checking each row itself,
    in tables larger than a processor's cache, took most of a cycle. Requests of one size get one verdict if their
    user's limit in the leaf is known.
    """
    asks, name, user, stuck, first = 0, -1, NOT_KNOWN, False, 0
    find_headroom(view, scratch, parameters, leaf, partition)
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
        if verdict >= FOUND_NO_NODE:
            note_big(view, scratch, ask.row)
        close_row(scratch, ask.row, verdict)
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
        alike = before >= 0
        for r in range(len(view.counted)):
            alike = alike and view.node_amounts[node, TOTAL, r] == view.node_amounts[before, TOTAL, r]
        if not alike:
            find_largest_asks(view, scratch, parameters, partition, node)
        for r in range(len(view.counted)):
            scratch.headroom[node, r] = scratch.headroom[node if not alike else before, r]
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
        if view.nodes[node].state == 0 or view.nodes[node].partition != partition:
            continue
        fits = view.nodes[node].state == 1 and view.nodes[node].hold_row < 0
        fits = fits and view.nodes[node].backoff_until <= parameters.decide
        for r in range(resources):
            if view.counted[r]:
                scratch.rates[PARTITION, r] += view.node_amounts[node, TOTAL, r]
            if scratch.bound[r]:
                scratch.rates[LARGEST, r] = max(scratch.rates[LARGEST, r], float(view.node_amounts[node, TOTAL, r]))
                fits = fits and scratch.available[node, r] >= scratch.asks[LEAST, r]
        scratch.open_nodes[node].open = fits
        if fits:
            scratch.open_nodes[count].node = node
            scratch.open_nodes[count].next = count
            count += 1
        elif view.nodes[node].hold_row >= 0:
            scratch.open_nodes[last - held].node = node
            held += 1
    scratch.open_nodes[count].next = count
    scratch.counters[OPEN_NODES] = count
    scratch.counters[HELD_NODES] = held
    scratch.counters[INFEASIBLE_COUNT] = 0
    scratch.nowhere[:] = -1
    scratch.witness[:] = 0
    for r in range(resources):
        if scratch.rates[PARTITION, r] > 0.0:
            scratch.rates[PARTITION, r] = 1.0 / scratch.rates[PARTITION, r]
        # as `offered` of the state
        most = scratch.rates[LARGEST, r]
        scratch.largest[r] = np.int64(most) + np.int64((scratch.factors[r] - 1.0) * most)
        if scratch.rates[LARGEST, r] > 0.0:
            scratch.rates[LARGEST, r] = 1.0 / scratch.rates[LARGEST, r]
