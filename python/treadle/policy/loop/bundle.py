"""Several tasks for a node in one pass: rows compete for the node by Graphene's perfScore (OSDI 2016, section 5).

The share picks a leaf, the order an application of it; that application and those after it bring forward a bounded
number of rows, the rivals. As long as one of them fits on the node that was chosen last, the best of those goes there.
Then a node is chosen for the first of the rivals, as without competition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.policy.blocked import drop_application, drop_row
from treadle.policy.limits import asks_here, has_room, is_over_limit, note_big, user_of
from treadle.policy.loop.propose import propose
from treadle.policy.node_search import (
    NOT_THERE,
    WAIT,
    choose_node,
    dot_product,
    fits,
    is_wanted,
    level_of,
    locality_factor,
)
from treadle.policy.orders import application_after, wants
from treadle.policy.state import BUNDLE, CLUSTER, PACKED, ROOM, SCORED, WORK

if TYPE_CHECKING:
    from treadle.compiled.array_types import I64, Records
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch

MEMORY = 1000
"""The averages are over about so many of the latest proposals."""


@inner
def plan_score(view: View, row: int) -> float:
    """Return how early the plan wants a row: 1 first, 0 last; 1 without a plan."""
    told = view.rows[row].told
    return view.told[told].score if told >= 0 else 1.0


@inner
def is_ranked(view: View, row: int) -> bool:
    """Has a plan said when the row's tasks are wanted?"""
    told = view.rows[row].told
    return bool(told >= 0 and view.told[told].ranked)


@inner
def add_rivals(
    view: View, scratch: Scratch, knobs: Knobs, app: int, user: int, leaf: int, partition: int, rivals: int
) -> int:
    """Add an application's rows that may compete to the rivals; return how many rivals there are.

    Those of its first request priority that has any; rows that a plan ranked compete whatever their priority.
    """
    first = -1
    row = view.apps[app].first_row
    while row >= 0 and rivals < knobs.candidates:
        if asks_here(view, scratch, knobs, row, partition):
            if not has_room(view, scratch.asks[ROOM], app, row, user):
                scratch.rows[row].done = 1
                drop_row(view, scratch, leaf, row)
            elif first < 0 or view.rows[row].priority == view.rows[first].priority or is_ranked(view, row):
                if first < 0:
                    first = row
                scratch.rivals[rivals] = row
                rivals += 1
        row = view.rows[row].next
    return rivals


@inner
def gather(view: View, scratch: Scratch, knobs: Knobs, leaf: int, partition: int) -> int:
    """List the rows that compete, the first application's first; return how many.

    Applications without any that may be served are done. At most four times as many applications are looked at as
    rows may compete.
    """
    rivals, at = 0, 0
    while rivals < knobs.candidates and at < 4 * knobs.candidates:
        app = application_after(scratch, leaf, at)
        if app < 0:
            break
        at += 1
        if view.apps[app].awaiting_am or not wants(view, scratch, app):
            continue
        user = user_of(view, knobs, app, leaf, partition)
        before = rivals
        if user < 0 or not is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition):
            rivals = add_rivals(view, scratch, knobs, app, user, leaf, partition, rivals)
        if rivals == before:
            drop_application(view, scratch, knobs, leaf, app, partition)
            scratch.apps[app].done = 1
    return rivals


@inner
def best_rival(view: View, scratch: Scratch, knobs: Knobs, rivals: int, node: int) -> int:
    """Return the rival with the highest perfScore on a node, or -1 if none fits there.

    perfScore is packing score x plan score - eta x work left; eta makes the averages of both terms equal, times the
    weight that is set.
    """
    eta = 0.0
    if scratch.averages[WORK] > 0.0:
        eta = knobs.srpt_weight * scratch.averages[PACKED] / scratch.averages[WORK]
    best, best_score = -1, 0.0
    for at in range(rivals):
        row = scratch.rivals[at]
        if not fits(view, scratch, row, node) or not is_wanted(view, knobs, row, node):
            continue
        level = level_of(view, row, node)
        if level == NOT_THERE or (knobs.remote_penalty < 0.0 and level > 0 and view.rows[row].localities > 0):
            continue
        value = dot_product(view, scratch, row, node) * locality_factor(view, knobs, row, level)
        value = value * plan_score(view, row) - eta * scratch.apps[view.rows[row].application].work
        if best < 0 or value > best_score:
            best, best_score = row, value
    return best


@inner
def learn(view: View, scratch: Scratch, row: int, node: int) -> None:
    """Take a proposal into the averages."""
    scratch.counters[SCORED] += 1
    share = 1.0 / min(scratch.counters[SCORED], MEMORY)
    packed = dot_product(view, scratch, row, node) * plan_score(view, row)
    work = scratch.apps[view.rows[row].application].work
    scratch.averages[PACKED] += share * (packed - scratch.averages[PACKED])
    scratch.averages[WORK] += share * (work - scratch.averages[WORK])


@inner
def choose_rival(view: View, scratch: Scratch, knobs: Knobs, leaf: int, partition: int, rivals: int) -> int:
    """Return the row to place on the node ``scratch.counters[BUNDLE]``, -1 if the first rival has no node now."""
    node = scratch.counters[BUNDLE]
    if 0 <= node < len(view.nodes) and scratch.spots[node].open:
        row = best_rival(view, scratch, knobs, rivals, node)
        if row >= 0:
            return row
    first = scratch.rivals[0]
    app = view.rows[first].application
    node = choose_node(view, scratch, knobs, first)
    if node < 0:
        if node == WAIT:
            drop_application(view, scratch, knobs, leaf, app, partition)
            scratch.apps[app].done = 1
        else:
            note_big(view, scratch, first)
            scratch.rows[first].done = 1
            drop_row(view, scratch, leaf, first)
        return -1
    scratch.counters[BUNDLE] = node
    if view.nodes[node].hold_row == first:
        return first
    row = best_rival(view, scratch, knobs, rivals, node)
    return row if row >= 0 else first


@inner
def propose_best(
    view: View, scratch: Scratch, knobs: Knobs, out: Records, asked: I64, app: int, leaf: int, partition: int
) -> bool:
    """Propose one container for the best of the leaf's rivals; False if a row or application has had its turn."""
    rivals = gather(view, scratch, knobs, leaf, partition)
    if rivals == 0:
        if not scratch.apps[app].done:
            drop_application(view, scratch, knobs, leaf, app, partition)
            scratch.apps[app].done = 1
        return False
    row = choose_rival(view, scratch, knobs, leaf, partition, rivals)
    if row < 0:
        return False
    node = scratch.counters[BUNDLE]
    learn(view, scratch, row, node)
    app = view.rows[row].application
    propose(view, scratch, knobs, out, asked, app, row, node, user_of(view, knobs, app, leaf, partition))
    return True
