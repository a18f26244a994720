"""A single order for the applications of all queues."""

from __future__ import annotations

from treadle.compiled.functions import inner
from treadle.config.parts import NoParameters
from treadle.model.queues import FIFO
from treadle.model.tables import View
from treadle.policy.orders import next_application
from treadle.policy.parts import Share
from treadle.policy.shares.tree import BLOCKED, OWED, Shares, ShareTree, TreeParameters
from treadle.policy.state import DecideParameters, Scratch


@inner
def comes_first(view: View, scratch: Scratch, a: int, b: int) -> bool:
    """Return whether leaf ``a``'s next application comes before leaf ``b``'s; -1 is an empty place.

    An application that awaits its AM comes first. Two leaves with the same order are compared as applications within a
    leaf; with different orders (the queues' own may differ) first in, first out: the higher priority, then the smaller
    ID.
    """
    if a < 0 or b < 0:
        return a >= 0
    app, other = scratch.shares.nodes[a].head, scratch.shares.nodes[b].head
    if view.apps[app].awaiting_am != view.apps[other].awaiting_am:
        return view.apps[app].awaiting_am == 1
    order = scratch.queues[scratch.shares.nodes[a].queue].order
    if order == scratch.queues[scratch.shares.nodes[b].queue].order and order != FIFO:
        if scratch.apps[app].band != scratch.apps[other].band:
            return scratch.apps[app].band < scratch.apps[other].band
        if scratch.apps[app].key != scratch.apps[other].key:
            return scratch.apps[app].key < scratch.apps[other].key
        if view.apps[app].start_time_ms != view.apps[other].start_time_ms:
            return view.apps[app].start_time_ms < view.apps[other].start_time_ms
    if view.apps[app].priority != view.apps[other].priority:
        return view.apps[app].priority > view.apps[other].priority
    if view.apps[app].cluster_timestamp != view.apps[other].cluster_timestamp:
        return view.apps[app].cluster_timestamp < view.apps[other].cluster_timestamp
    if view.apps[app].id != view.apps[other].id:
        return view.apps[app].id < view.apps[other].id
    return app < other


@inner
def play_first(view: View, scratch: Scratch, base: int, match: int) -> None:
    """Decide a match by the winners of the two before it."""
    matches = scratch.shares.matches
    left, right = matches[base + 2 * match].first, matches[base + 2 * match + 1].first
    matches[base + match].first = right if comes_first(view, scratch, right, left) else left


@inner
def enter_head(view: View, scratch: Scratch, parameters: DecideParameters, at: int) -> int:
    """Find a leaf's next application and enter the leaf in the tournament; return its place."""
    shares = scratch.shares
    head = -1
    if shares.nodes[at].kind != BLOCKED:
        head = next_application(view, scratch, parameters, shares.nodes[at].queue)
    shares.nodes[at].head = head
    place = shares.nodes[0].child_count + at - shares.nodes[0].first_child
    shares.matches[2 * shares.nodes[0].first_child + place].first = at if head >= 0 else -1
    return place


@inner
def begin(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Run the tournament of the leaves with requests."""
    nodes = scratch.shares.nodes
    for at in range(1, len(nodes)):
        nodes[at].kind = BLOCKED if nodes[at].asks <= 0 else OWED
    first, count = scratch.shares.nodes[0].first_child, scratch.shares.nodes[0].child_count
    for at in range(first, first + count):
        enter_head(view, scratch, parameters, at)
    for match in range(count - 1, 0, -1):
        play_first(view, scratch, 2 * first, match)


@inner
def replay_head(view: View, scratch: Scratch, parameters: DecideParameters, at: int) -> None:
    """Repeat the matches of a leaf."""
    match = enter_head(view, scratch, parameters, at) >> 1
    while match >= 1:
        play_first(view, scratch, 2 * scratch.shares.nodes[0].first_child, match)
        match >>= 1


@inner
def update(view: View, scratch: Scratch, parameters: DecideParameters, at: int, partition: int) -> None:
    """Update the tournament after a change of a leaf's requests."""
    if scratch.shares.nodes[at].asks <= 0:
        scratch.shares.nodes[at].kind = BLOCKED
    replay_head(view, scratch, parameters, at)


@inner
def first_leaf(shares: Shares) -> int:
    """Return the leaf (a node) whose application comes first, or -1."""
    if shares.nodes[0].child_count == 0:
        return -1
    return int(shares.matches[2 * shares.nodes[0].first_child + 1].first)


@inner
def pick(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Return the queue whose application comes first, or -1."""
    at = first_leaf(scratch.shares)
    return int(scratch.shares.nodes[at].queue) if at >= 0 else -1


class NoShare(Share, kind="none"):
    """The applications of all queues come in one order, as if they were in one queue."""

    steps = "none"

    def __init__(self, parameters: NoParameters) -> None:
        self.tree = ShareTree(TreeParameters(weights="equal"), flat=True)
