"""Which rows compete for a node, and which of them has the best perfScore there (Tetris; Graphene, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.policy.asks import (
    asks_here,
    drop_row,
    find_headroom,
    give_up_application,
    is_over_limit,
    user_of,
    within_headroom,
)
from treadle.policy.fits.packing import dot_product, locality_factor
from treadle.policy.node_search import fits, is_wanted, level_of
from treadle.policy.orders.leaf import application_after, next_application, wants
from treadle.policy.share_state import BLOCKED
from treadle.policy.shares import rules
from treadle.policy.state import CLUSTER, LEAF_HEADROOM, LOOKED, NOT_THERE, PACKED, SCORED, WORK

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch


LOOKS_MAX: Final = 4_000_000
"""Nodes, applications and rows that a decide looks at before it lets only `FEW` rows compete: some 0.3 s."""
FEW: Final = 16
"""As many compete then: the default."""

MEMORY: Final = 1000
"""The averages are over about this many of the latest proposals."""


@inner
def plan_score(view: View, row: int) -> float:
    """Return how early the plan wants a row: 1 first, 0 last; 1 without a plan."""
    hint = view.rows[row].hint
    return view.hints[hint].score if hint >= 0 else 1.0


@inner
def is_ranked(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> bool:
    """Has a plan said when the row's tasks are wanted, or the order, or does any row compete?"""
    if parameters.all_priorities:
        return True
    hint = view.rows[row].hint
    return len(scratch.ask_keys) > 0 or (hint >= 0 and view.hints[hint].ranked == 1)


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
    """Add an application's rows that may compete to the candidates, up to ``most``; return how many there are.

    Those of its first request priority that has any; rows that a plan or the order ranked compete whatever their
    priority. Of the latter the one with the least key comes first.
    """
    first, begin = -1, candidates
    row = view.apps[app].first_row
    while row >= 0 and candidates < most:
        if asks_here(view, scratch, parameters, row, partition):
            if not within_headroom(view, scratch.asks[LEAF_HEADROOM], app, row, user):
                scratch.rows[row].done = 1
                drop_row(view, scratch, leaf, row)
            elif (
                first < 0
                or view.rows[row].priority == view.rows[first].priority
                or is_ranked(view, scratch, parameters, row)
            ):
                if first < 0:
                    first = row
                scratch.candidates[candidates] = row
                if len(scratch.ask_keys) > 0 and scratch.ask_keys[row] < scratch.ask_keys[scratch.candidates[begin]]:
                    scratch.candidates[candidates] = scratch.candidates[begin]
                    scratch.candidates[begin] = row
                candidates += 1
        row = view.rows[row].next
    return candidates


@inner
def gather_leaf(
    view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int, candidates: int, count: int
) -> int:
    """Add up to ``count`` rows of a leaf that compete, the next application's first; return how many candidates are.

    Only applications of the band of the next one compete. Applications without any that may be served are done. At most
    four times as many applications are looked at as rows may compete.
    """
    at, most = 0, candidates + count
    first = application_after(scratch, leaf, 0)
    while candidates < most and at < 4 * count:
        app = application_after(scratch, leaf, at)
        if app < 0:
            break
        at += 1
        if view.apps[app].awaiting_am or not wants(view, scratch, app):
            continue
        if scratch.apps[app].band != scratch.apps[first].band:
            continue
        user = user_of(view, parameters, app, leaf, partition)
        before = candidates
        if user < 0 or not is_over_limit(view, scratch.rates[CLUSTER], user, leaf, partition):
            candidates = add_candidates(view, scratch, parameters, app, user, leaf, partition, candidates, most)
        if candidates == before:
            give_up_application(view, scratch, parameters, app, partition)
    scratch.counters[LOOKED] += at
    return candidates


@inner
def gather_others(
    view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int, candidates: int
) -> int:
    """Add the rows that compete of all leaves but one, as many of each; return how many candidates there are.

    A leaf whose next application is of a later band is left out, and one whose next application awaits its master:
    the master comes first, when it is the leaf's turn.
    """
    band = scratch.apps[view.rows[scratch.candidates[0]].application].band
    scratch.counters[LOOKED] += len(view.queues)
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
def gather(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> int:
    """List the rows that compete, those of the leaf first; return how many.

    A decide that has looked at `LOOKS_MAX` nodes, applications and rows goes on with the first `FEW` rows of the leaf
    that is served: else it would last as long as rows times containers take.
    """
    scarce = scratch.counters[LOOKED] >= LOOKS_MAX
    count = min(parameters.candidates, FEW) if scarce else parameters.candidates
    candidates = gather_leaf(view, scratch, parameters, leaf, partition, 0, count)
    across = candidates > 0 and parameters.across_queues and not scarce
    if across and rules.lets_order_decide(view, scratch, parameters):
        candidates = gather_others(view, scratch, parameters, leaf, partition, candidates)
    scratch.counters[LOOKED] += candidates
    return candidates


@inner
def best_candidate(view: View, scratch: Scratch, parameters: DecideParameters, candidates: int, node: int) -> int:
    """Return the candidate with the highest perfScore on a node, or -1 if none fits there.

    perfScore is packing score x plan score - eta x work left; eta makes the averages of both terms equal, times the
    weight that is set.
    """
    eta = 0.0
    if scratch.averages[WORK] > 0.0:
        eta = parameters.srpt_weight * scratch.averages[PACKED] / scratch.averages[WORK]
    best, best_score = -1, 0.0
    for at in range(candidates):
        row = scratch.candidates[at]
        if not fits(view, scratch, row, node) or not is_wanted(view, scratch, parameters, row, node):
            continue
        level = level_of(view, row, node)
        if level == NOT_THERE or (parameters.remote_penalty < 0.0 and level > 0 and view.rows[row].localities > 0):
            continue
        value = dot_product(view, scratch, row, node) * locality_factor(view, parameters, row, level)
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
