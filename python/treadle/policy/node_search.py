"""The node for a request: nodes that it names first, then a window of the others; the best by the fit's score."""

from __future__ import annotations

from typing import Final

import numpy as np
from pydantic import Field, field_validator

from treadle.compiled.array_types import U8
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, pair
from treadle.config.parts import Parameters
from treadle.model.tables import TOTAL, View
from treadle.policy.parts import BY_DURATIONS, Fit
from treadle.policy.phoenix import Contention
from treadle.policy.state import (
    CURSOR,
    DELAYED,
    HELD_NODES,
    INFEASIBLE,
    INFEASIBLE_COUNT,
    INFEASIBLE_MAX,
    LARGEST,
    NODE_LOCAL,
    NOT_THERE,
    OFF_SWITCH,
    OFFERS,
    OPEN_NODES,
    RACK_LOCAL,
    SCANNED,
    UNWANTED,
    DecideParameters,
    NodeReason,
    Reason,
    Scratch,
    counts_allow,
    in_set,
)


class FirstFitParameters(Parameters):
    """Parameters of the fit `first_fit`."""

    scarcity: bool = Field(
        default=False,
        description="Only among those nodes on which the ask fits and which contended classes need least.",
    )


class FirstFit(Fit, kind="first_fit", parameters=FirstFitParameters):
    """The first node on which the ask fits, in the order of the RM's nodes."""

    def __init__(self, parameters: FirstFitParameters) -> None:
        self.keeper = Contention if parameters.scarcity else None


class RandomFit(Fit, kind="random_fit"):
    """Any node on which the ask fits, drawn with the seed."""

    draws = True


ALL: Final = 1 << 30
"""`Tetris.candidates` without a limit: more rows than there can be."""


class PackingParameters(Parameters):
    """Parameters of the fit `packing`."""

    window: int = Field(
        default=32,
        ge=1,
        le=1_000_000,
        description="How many nodes on which the ask fits are compared; more pack better and take longer.",
    )
    scarcity: bool = Field(
        default=False,
        description="Only among those nodes on which the ask fits and which contended classes need least.",
    )


class Packing(Fit, kind="packing", parameters=PackingParameters):
    """The node whose free resources are most like the ask: the largest dot product among a window of nodes."""

    steps = "packing"
    goes_round = True

    def __init__(self, parameters: PackingParameters) -> None:
        self.window = parameters.window
        self.keeper = Contention if parameters.scarcity else None


class TetrisParameters(Parameters):
    """Parameters of the fit `tetris`."""

    window: int = Field(
        default=32,
        ge=1,
        le=1_000_000,
        description="How many nodes on which the first ask fits are compared; more pack better and take longer.",
    )
    candidates: int = Field(
        default=16,
        ge=0,
        le=1024,
        description="How many requests of a queue compete for the node chosen, those of the first applications; "
        "0: all. A decision takes longer in proportion; one that has looked at 4,000,000 goes on with 16 of one queue.",
    )
    all_priorities: bool = Field(
        default=False,
        description="Requests of all of an application's priorities compete, not only of the first one that has any. "
        "Those that a plan ranked always do.",
    )
    across_queues: bool = Field(
        default=False,
        description="Requests of all queues compete, of each as many as candidates says, as long as the share lets the "
        "order decide: deficit below its bound, none always.",
    )
    remote_penalty: float = Field(
        default=0.1,
        ge=0.0,
        le=1.0,
        description="What part of its packing score an ask loses on another node than those that it names.",
    )
    srpt_weight: float = Field(
        default=1.0,
        ge=0.0,
        le=1000.0,
        description="Weight of an application's remaining work against the packing score; 0: it does not count.",
    )
    overbook: dict[str, float] = Field(
        default={},
        description="Resources that the ResourceManager does not count, and how many times what a node has of them "
        "may be given out: {disk: 2.0, network: 1.5}. Never memory.",
    )

    @field_validator("overbook")
    @classmethod
    def _possible(cls, overbook: dict[str, float]) -> dict[str, float]:
        for name, factor in overbook.items():
            if name in ("memory", "memory-mb"):
                raise ValueError("memory is never overbooked; leave it out")
            if not 0.0 < factor <= 1000.0:
                raise ValueError(f"{name} is {factor}; it must be above 0 and at most 1000")
        return overbook


class Tetris(Fit, kind="tetris", parameters=TetrisParameters, traits=BY_DURATIONS):
    """Requests of a queue compete for a node until none fits: packing score x plan score - eta x work left."""

    steps = "packing"
    goes_round = True

    def __init__(self, parameters: TetrisParameters) -> None:
        self.window = parameters.window
        self.candidates = parameters.candidates or ALL
        self.all_priorities = parameters.all_priorities
        self.across_queues = parameters.across_queues
        self.remote_penalty = parameters.remote_penalty
        self.srpt_weight = parameters.srpt_weight
        self.overbook = parameters.overbook


RULES: Final = {"keyed": 0, "packing": 1}
"""The number of each fit with a compiled step."""


@inner
def score(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int, level: int) -> float:
    """Return the score of a request on a node with room: a custom part's, of the node or of both, or how well it packs.

    The latter is the dot product of request and free resources, in shares of the largest node (Graphene's pScore), less
    a penalty for a remote node. Contended classes' need for a node outweighs any score.
    """
    value = 0.0
    if parameters.fit == 0:
        value = scratch.scores[row if len(scratch.scores) > 1 else 0, node]
    if parameters.fit == 1:
        for r in range(len(view.counted)):
            scale = scratch.rates[LARGEST, r]
            value += view.capability[row, r] * scale * scratch.available[node, r] * scale
        if parameters.remote_penalty >= 0.0 and view.rows[row].localities > 0 and level != NODE_LOCAL:
            value *= 1.0 - parameters.remote_penalty
    return value - scratch.needs[node] * SCARCE if len(scratch.needs) > 0 else value


DRAWS = 16
"""Random nodes that are tried before a scan of all nodes from a random start."""

NO_NODE = -1
WAIT = -2
UNKNOWN = -3
"""A search has to find the node."""

SPARED_MAX = 4
"""Maximum number of windows that are scanned for a node that no contended class needs."""

SCARCE = 1e9
"""Weight of contended classes' need for a node, relative to the score of a fit."""

NO_WAIT = 1 << 40
"""More missed opportunities than any delay."""


@inner
def room_needed(scratch: Scratch, node: int, r: int, ask: int) -> int:
    """Return how much of a resource must be free on a node for a request that needs ``ask`` of it.

    With headroom there must also be room for the largest request, if this one needs the resource (H-DRF, section 5).
    """
    return ask if len(scratch.headroom) == 0 or ask <= 0 else max(ask, scratch.headroom[node, r])


@inner
def fits(view: View, scratch: Scratch, row: int, node: int) -> bool:
    """Return whether the node has room in each bounded resource, headroom included for those that the row needs."""
    for r in range(len(view.counted)):
        if scratch.bound[r] and scratch.available[node, r] < room_needed(scratch, node, r, view.capability[row, r]):
            return False
    return True


@inner
def place_of(view: View, row: int, name: int) -> int:
    """Return the locality row for this name with an open request of ``row``, or -1."""
    place = find(view.place_index, pair(row, name))
    if place >= 0 and view.places[place].count > view.places[place].assumed:
        return place
    return -1


@inner
def level_of(view: View, row: int, node: int) -> int:
    """Return the locality level of a node for a row, `NOT_THERE` if relaxLocality excludes it."""
    if view.rows[row].localities > 0 and not view.rows[row].constrained:
        rack = place_of(view, row, view.nodes[node].rack)
        if rack >= 0:
            if place_of(view, row, view.nodes[node].name) >= 0:
                return NODE_LOCAL
            if view.places[rack].relax:
                return RACK_LOCAL
    if view.rows[row].relax or view.rows[row].constrained:
        return OFF_SWITCH
    return NOT_THERE


@inner
def set_of(scratch: Scratch, row: int) -> int:
    """Return the set of nodes that a row may use, -1 for all: those of its constraints and a part's choice."""
    return scratch.row_nodes[row] if len(scratch.row_nodes) > 0 else -1


@inner
def counts_own(scratch: Scratch, row: int) -> bool:
    """Return whether a row's nodes depend on where its application's containers are."""
    return len(scratch.tags.row_bounds) > 0 and scratch.tags.row_bounds[row] >= 0


@inner
def unwanted(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int) -> int:
    """Return why the row may not use the node, whatever its free resources (`NodeReason`); 0 if it may."""
    chosen = set_of(scratch, row)
    if chosen >= 0 and not in_set(scratch.node_sets, chosen, node):
        return NodeReason.NOT_CHOSEN
    if counts_own(scratch, row) and not counts_allow(scratch.node_sets, scratch.tags, row, node):
        return NodeReason.OWN_TAGS
    app = view.rows[row].application
    if view.apps[app].blacklisted > 0:
        if find(view.blacklist, pair(app, view.nodes[node].name)) >= 0:
            return NodeReason.BLACKLISTED
        if find(view.blacklist, pair(app, view.nodes[node].rack)) >= 0:
            return NodeReason.BLACKLISTED
    if view.rows[row].exclusions > 0 and find(view.excluded, pair(row, node)) > parameters.cycle:
        return NodeReason.REJECTED
    return 0


@inner
def draw(parameters: DecideParameters, scratch: Scratch, row: int, attempt: int, below: int) -> int:
    """Return a number from 0 to ``below`` - 1: equal for equal seed, proposal, row and attempt (SplitMix64)."""
    state = np.uint64(parameters.seed) + np.uint64(scratch.counters[OFFERS]) * np.uint64(0x9E3779B97F4A7C15)
    state += np.uint64(row) * np.uint64(0xD1B54A32D192ED03) + np.uint64(attempt) * np.uint64(0x8CB92BA72F3D8DD7)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.int64((state ^ (state >> np.uint64(31))) % np.uint64(below)))


@inner
def draw_node(view: View, scratch: Scratch, parameters: DecideParameters, row: int, farthest: np.int64) -> int:
    """Return a random usable node; `NO_NODE` if some draws find none, which happens if few nodes fit."""
    count = scratch.counters[OPEN_NODES]
    for attempt in range(DRAWS):
        at = draw(parameters, scratch, row, attempt, count)
        node = scratch.open_nodes[at].node
        good = scratch.open_nodes[at].next == at and fits(view, scratch, row, node)
        if good and level_of(view, row, node) <= farthest and not unwanted(view, scratch, parameters, row, node):
            return node
    return NO_NODE


@inner
def first_place(scratch: Scratch, chosen: int, place: int) -> int:
    """Return the first candidate at or after ``place``: a position in the list of open nodes (with path halving).

    With a set, its first open node, or the sets' width if there is none. Skips eight nodes outside the set at once, so
    a request of a small class need not check all open nodes.
    """
    if chosen < 0:
        open_nodes = scratch.open_nodes
        while open_nodes[place].next != place:
            open_nodes[place].next = open_nodes[open_nodes[place].next].next
            place = open_nodes[place].next
        return int(place)
    node, wide = place, scratch.node_sets.shape[1] << 3
    while node < wide:
        bits = scratch.node_sets[chosen, node >> 3] >> (node & 7)
        if bits == 0:
            node = (node | 7) + 1
        elif bits & 1 and scratch.open_nodes[node].open:
            return node
        else:
            node += 1
    return wide


@inner
def scan(view: View, scratch: Scratch, parameters: DecideParameters, row: int, farthest: np.int64) -> int:
    """Return the best node no farther than ``farthest``; `NO_NODE` if none fits.

    The nearest is best, then the highest score; with a penalty for remote nodes only the score counts. Scans open nodes
    from the cursor until ``window`` of them fit, however many are skipped. Callers pass ``farthest`` as `np.int64`:
    numba specialises on each literal.
    """
    count, chosen = scratch.counters[OPEN_NODES], set_of(scratch, row)
    # Scanning a short list of open nodes is faster than scanning the bits of a set.
    walked = chosen if count > scratch.node_sets.shape[1] else -1
    start = 0
    if (parameters.draws or scratch.rows[row].random) and count > 0:
        node = draw_node(view, scratch, parameters, row, farthest)
        if node >= 0:
            return node
        start = draw(parameters, scratch, row, DRAWS, count)
        start = start if walked < 0 else scratch.open_nodes[start].node
    elif parameters.goes_round:
        start = min(scratch.counters[CURSOR], len(view.nodes))
        start = start if walked >= 0 else scratch.open_nodes[start].first
    places = count if walked < 0 else len(view.nodes)
    best, best_level, best_score, found, last, spared = NO_NODE, NOT_THERE, 0.0, 0, 0, 0
    most, is_open = SPARED_MAX * parameters.window, False
    for lap in range(2):
        at = first_place(scratch, walked, start if lap == 0 else 0)
        end = places if lap == 0 else start
        while at < end and found < parameters.window and spared < most:
            node = at if walked >= 0 else scratch.open_nodes[at].node
            at = first_place(scratch, walked, at + 1)
            if chosen != walked and not in_set(scratch.node_sets, chosen, node):
                continue
            is_open = True
            scratch.counters[SCANNED] += 1
            if not fits(view, scratch, row, node):
                continue
            level = level_of(view, row, node)
            if level > farthest or unwanted(view, scratch, parameters, row, node):
                scratch.counters[UNWANTED] |= farthest == OFF_SWITCH
                continue
            spares = len(scratch.needs) > 0 and scratch.needs[node] > 0.0
            found += not spares
            spared += spares
            last = node
            value = score(view, scratch, parameters, row, node, level)
            nearer = level < best_level and (parameters.remote_penalty < 0.0 or best < 0)
            if nearer or (value > best_score and (level == best_level or parameters.remote_penalty >= 0.0)):
                best, best_level, best_score = node, level, value
    if best >= 0 and farthest == OFF_SWITCH:
        scratch.counters[CURSOR] = last + 1
    if not is_open and 0 <= chosen < len(scratch.nowhere):
        scratch.nowhere[chosen, :] = 0  # no node of the set is open: not even an empty request fits there
    return best


@inner
def scan_local(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return the best node that the row names, or `NO_NODE`."""
    if scratch.counters[OPEN_NODES] <= parameters.window:
        return scan(view, scratch, parameters, row, np.int64(NODE_LOCAL))
    best, best_score, found = NO_NODE, 0.0, 0
    if scratch.rows[row].random:
        best = draw_node(view, scratch, parameters, row, np.int64(NODE_LOCAL))
    if best >= 0:
        return best
    place = view.rows[row].first_locality
    while place >= 0 and found < parameters.window:
        asked = view.places[place].count > view.places[place].assumed
        node = view.first_node[view.places[place].name] if asked else -1
        while node >= 0:
            good = scratch.open_nodes[node].open and fits(view, scratch, row, node)
            if good and level_of(view, row, node) == NODE_LOCAL and not unwanted(view, scratch, parameters, row, node):
                found += 1
                value = score(view, scratch, parameters, row, node, NODE_LOCAL)
                if best < 0 or value > best_score or (value == best_score and node < best):
                    best, best_score = node, value
            node = view.nodes[node].next_same_name
        place = view.places[place].next
    return best


@inner
def known_node(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return the node reserved for the row if the request fits there now; otherwise `NO_NODE` or `UNKNOWN`.

    `NO_NODE`: none is open, or a request of at most this size fits nowhere or on no node of the same set.
    """
    node = view.rows[row].hold_node
    held = node >= 0 and view.nodes[node].state == 1 and view.nodes[node].partition == view.rows[row].partition
    held = held and view.nodes[node].backoff_until <= parameters.cycle and fits(view, scratch, row, node)
    if held and level_of(view, row, node) != NOT_THERE and not unwanted(view, scratch, parameters, row, node):
        return node
    chosen, sizes = set_of(scratch, row), scratch.counters[INFEASIBLE_COUNT]
    of_set = 0 <= chosen < len(scratch.nowhere) and scratch.nowhere[chosen, 0] >= 0
    for at in range(sizes + of_set):
        nowhere = scratch.asks[INFEASIBLE + at] if at < sizes else scratch.nowhere[chosen]
        larger = True
        for r in range(len(view.counted)):
            larger = larger and not (scratch.bound[r] and view.capability[row, r] < nowhere[r])
        if larger:
            return NO_NODE
    return NO_NODE if scratch.counters[OPEN_NODES] == 0 else UNKNOWN


@inner
def remember_nowhere(view: View, scratch: Scratch, row: int) -> None:
    """Record that a request fits nowhere, or on no node of its set, if only its size mattered."""
    by_size = view.rows[row].relax and view.rows[row].exclusions == 0 and not counts_own(scratch, row)
    if not by_size or view.apps[view.rows[row].application].blacklisted > 0:
        return
    chosen = set_of(scratch, row)
    if chosen >= 0:
        # One size for each set: requests of one class usually have equal sizes.
        if chosen < len(scratch.nowhere):
            for r in range(len(view.counted)):
                scratch.nowhere[chosen, r] = view.capability[row, r]
    elif scratch.counters[INFEASIBLE_COUNT] < INFEASIBLE_MAX:
        for r in range(len(view.counted)):
            scratch.asks[INFEASIBLE + scratch.counters[INFEASIBLE_COUNT], r] = view.capability[row, r]
        scratch.counters[INFEASIBLE_COUNT] += 1


@inner
def named_nodes_are_full(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> bool:
    """Return whether the row may use none of the nodes that it names: then waiting for a nearer node is useless."""
    if set_of(scratch, row) < 0 and not counts_own(scratch, row):
        return False
    place = view.rows[row].first_locality
    while place >= 0:
        node = view.first_node[view.places[place].name]
        while node >= 0:
            why = unwanted(view, scratch, parameters, row, node)
            if why != NodeReason.NOT_CHOSEN and why != NodeReason.OWN_TAGS:
                return False
            node = view.nodes[node].next_same_name
        place = view.places[place].next
    return True


@inner
def missed_opportunities(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return the number of offers in YARN, including this one, since the row first skipped a node.

    YARN offers a node at each of its heartbeats, again after each container placed there, and, with asynchronous
    scheduling, in each pass over the nodes; a cycle in which the row waited counts as such a pass.
    """
    since = view.rows[row].waiting_since_ms
    if since < 0:
        return 1
    heartbeats = (parameters.now_ms - since) * parameters.cluster_nodes // parameters.heartbeat_ms
    return int(1 + heartbeats + scratch.counters[OFFERS] - view.rows[row].waiting_since_offers)


@inner
def restart_count(view: View, scratch: Scratch, parameters: DecideParameters, row: int, level: int) -> None:
    """Reset missed opportunities after a proposal on a node or rack that the row names, as YARN does.

    YARN offers nodes one by one: between two cycles it could have placed several containers on the rack, each after its
    own delay. A rack-local one therefore subtracts its delay from the count, up to a full round of the nodes.
    """
    left = 0
    if level == RACK_LOCAL:
        needed = min(parameters.cluster_nodes, parameters.node_delay) + 1
        # one less: this proposal already counts as an offer
        left = min(missed_opportunities(view, scratch, parameters, row) - 1, parameters.cluster_nodes) - needed
    if left > 1:
        view.rows[row].waiting_since_ms = parameters.now_ms
        view.rows[row].waiting_since_offers = scratch.counters[OFFERS] - (left - 1)
    else:
        view.rows[row].waiting_since_ms = -1


HELD_SCANNED_MAX: Final = 16
"""Maximum number of reserved nodes checked to explain a waiting request."""


@inner
def why_no_node(view: View, scratch: Scratch, row: int) -> int:
    """Return why the latest search found no node for a row."""
    if scratch.counters[UNWANTED] or set_of(scratch, row) >= 0 or counts_own(scratch, row):
        return Reason.CONSTRAINT
    last = len(scratch.open_nodes) - 1
    for at in range(min(scratch.counters[HELD_NODES], HELD_SCANNED_MAX)):
        if fits(view, scratch, row, scratch.open_nodes[last - at].node):
            return Reason.RESERVED_FOR_ANOTHER
    return Reason.FULL


@inner
def choose_near(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return a node that the row names or on such a rack; `NO_NODE` if it may go to any other, `WAIT` if not yet.

    How many opportunities must be missed before another node is allowed is as in YARN.
    """
    if scratch.rows[row].nearest == NODE_LOCAL:
        node = scan_local(view, scratch, parameters, row)
        if node >= 0:
            return node
        scratch.rows[row].nearest = RACK_LOCAL
    missed = missed_opportunities(view, scratch, parameters, row)
    if named_nodes_are_full(view, scratch, parameters, row):
        missed = NO_WAIT
    if scratch.rows[row].nearest == RACK_LOCAL and missed > min(parameters.cluster_nodes, parameters.node_delay):
        node = scan(view, scratch, parameters, row, np.int64(RACK_LOCAL))
        if node >= 0:
            return node
        scratch.rows[row].nearest = OFF_SWITCH
    delay = float(parameters.node_delay + parameters.rack_delay)
    if parameters.rack_delay < 0:
        asks = view.rows[row].count - view.rows[row].assumed
        delay = asks * min(view.rows[row].localities / parameters.cluster_nodes, 1.0)
    return WAIT if not view.rows[row].relax or missed <= min(float(parameters.cluster_nodes), delay) else NO_NODE


@inner
def choose_node(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return a node for the row's next container; `NO_NODE` if it fits on none, `WAIT` if it waits for a nearer one.

    Free resources only shrink in a cycle: a row whose search found no node that is near enough is not searched again.
    """
    scratch.counters[UNWANTED] = 0
    node = known_node(view, scratch, parameters, row)
    if node != UNKNOWN:
        return node
    near = NO_NODE
    if parameters.remote_penalty >= 0.0 and view.rows[row].localities > 0:
        near = scan_local(view, scratch, parameters, row)
    elif view.rows[row].localities > 0 and not view.rows[row].constrained:
        near = choose_near(view, scratch, parameters, row)
        if near >= 0:
            return near
    cursor = scratch.counters[CURSOR]
    node = scan(view, scratch, parameters, row, np.int64(OFF_SWITCH))
    if node < 0:
        remember_nowhere(view, scratch, row)
        return near if near >= 0 else NO_NODE
    if near >= 0:
        near_score = score(view, scratch, parameters, row, near, NODE_LOCAL)
        return near if near_score >= score(view, scratch, parameters, row, node, level_of(view, row, node)) else node
    if near == WAIT:
        scratch.counters[CURSOR] = cursor
        if view.rows[row].waiting_since_ms < 0:
            view.rows[row].waiting_since_ms = parameters.now_ms
            view.rows[row].waiting_since_offers = scratch.counters[OFFERS]
        # Like a pass of asynchronous scheduling, this cycle has offered the row every node with room once.
        view.rows[row].waiting_since_offers -= scratch.counters[OPEN_NODES]
        scratch.counters[DELAYED] = 1
        return WAIT
    return node


@inner
def fits_empty(view: View, row: int, node: int) -> bool:
    """Return whether the request would fit on the empty node, in each resource that the RM counts."""
    for r in range(len(view.counted)):
        if view.counted[r] and view.node_amounts[node, TOTAL, r] < view.capability[row, r]:
            return False
    return True


@inner
def node_reason(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int) -> int:
    """Return why a node of any partition cannot serve a row (`NodeReason`), after the latest cycle."""
    if not fits_empty(view, row, node):
        return NodeReason.TOO_SMALL
    if view.nodes[node].state != 1:
        return NodeReason.UNUSABLE
    if level_of(view, row, node) == NOT_THERE:
        return NodeReason.NOT_NAMED
    why = unwanted(view, scratch, parameters, row, node)
    if why:
        return why
    if view.nodes[node].backoff_until > parameters.cycle:
        return NodeReason.REJECTED
    if view.nodes[node].hold_row >= 0 and view.nodes[node].hold_row != row:
        return NodeReason.RESERVED
    for r in range(len(view.counted)):
        if scratch.bound[r] and scratch.available[node, r] < view.capability[row, r]:
            return NodeReason.FULL
    return NodeReason.FITS if fits(view, scratch, row, node) else NodeReason.HEADROOM


@kernel
def node_reasons(view: View, scratch: Scratch, parameters: DecideParameters, row: int, out: U8) -> None:
    """Write for each node of the latest cycle why it cannot serve a row (see `node_reason`)."""
    for node in range(min(len(out), len(scratch.available))):
        out[node] = node_reason(view, scratch, parameters, row, node)
