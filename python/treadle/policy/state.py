"""What the inner loop keeps while it makes one answer, and the numbers that steer it.

What is kept of each application and of each request row is begun anew with each decide. Applications that have ended
are left as they are: there may be many times as many of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.compiled.functions import kernel
from treadle.compiled.structs import tables
from treadle.model.applications import ApplicationTable
from treadle.model.cluster import Cluster
from treadle.model.queues import FAIR as FAIR
from treadle.model.queues import FIFO as FIFO
from treadle.model.tables import ASSUMED, FREE, TOTAL
from treadle.policy.own_tags import OwnTags, no_tags
from treadle.policy.shares.tree import Shares


@kernel
def reset_app_records(apps: Records, which: I32, listed: I32) -> None:
    """Begin the records (`APPLICATION`) of some applications; ``listed`` has the ranked ones."""
    for app in which:
        apps[app].key = 0.0
        apps[app].work = 0.0
        apps[app].fair_up_to = 0.0
        apps[app].share = 0.0
        apps[app].part = 1.0
        apps[app].level = -1
        apps[app].rank = 0
        apps[app].band = 0
        apps[app].done = 0
        apps[app].ahead = 0
    for rank in range(len(listed)):
        apps[listed[rank]].rank = rank


AGE_MAX: Final = 65_535


@kernel
def reset_row_records(rows: Records, quota: int) -> None:
    """Begin the records of all rows (`ROW`): none may be served, each as far as ``quota``; why it waits stays."""
    for row in range(len(rows)):
        rows[row].quota = quota
        rows[row].may = 0
        rows[row].done = 0
        rows[row].nearest = 0
        rows[row].held = 0
        rows[row].random = 0
        if rows[row].age < AGE_MAX:
            rows[row].age += 1


@kernel
def set_bands(apps: Records, which: I32, model: Records, orders: U8) -> None:
    """Set the bands of some applications: priority comes first where the queue's own ordering policy is fifo."""
    for app in which:
        queue = model[app].queue
        if queue >= 0 and orders[queue] == FIFO:
            apps[app].band = -model[app].priority


@kernel
def take_keys(apps: Records, which: I32, key: F64) -> None:
    """Put the keys of some applications into their records; what is no number comes last."""
    for app in which:
        apps[app].key = inf if isnan(key[app]) else key[app]


BIG_ROWS: Final = 64
"""Maximum number of rows that fit no free node and are remembered in a decide, as candidates for a reserved node."""

INFEASIBLE_MAX: Final = 8
"""Asks that fit nowhere and are remembered, to spare larger ones the search."""

# Places in `Scratch.counters`.
PLACED: Final = 0
OPEN_NODES: Final = 1
INFEASIBLE_COUNT: Final = 2
BIG_COUNT: Final = 3
CURSOR: Final = 4  # the node at which the next search starts; kept from decide to decide
DELAYED: Final = 5  # 1 if a row waits for a node that it prefers
OFFERS: Final = 6  # proposals so far; kept from decide to decide
SCANNED: Final = 7  # nodes looked at in this decide, and what competed for them: what searches cost
BUNDLE: Final = 8  # the node that tasks are bundled on, or -1; kept from decide to decide
SCORED: Final = 9  # proposals in the averages; kept from decide to decide
SERVES: Final = 10  # the partition whose nodes are given out
UNWANTED: Final = 11  # 1: the latest search has passed a node with room that the ask may not use
HELD_NODES: Final = 12  # nodes held for asks, of the partition being served; at the end of `Scratch.open_nodes`
LEAVES: Final = 13  # 1 if what the leaf may still get is less by what is guaranteed to queues beside it
COUNTERS: Final = 14

# Places in `Scratch.averages`, over the latest proposals; they are kept from decide to decide.
PACKED: Final = 0  # packing score
WORK: Final = 1  # work left in the application

# Rows of `Scratch.rates`.
CLUSTER: Final = 0  # the cluster's resources
PARTITION: Final = 1  # 1 / the partition's resources, 0 for those not counted
LARGEST: Final = 2  # 1 / those of the largest node, 0 for those not counted

# Rows of `Scratch.asks`.
LEAST: Final = 0  # the smallest ask of the partition in each resource
LEAF_HEADROOM: Final = 1  # what the leaf being served may still get
INFEASIBLE: Final = 2  # asks that fit nowhere

# How near a node is to what an ask names.
NODE_LOCAL: Final = 0
RACK_LOCAL: Final = 1
OFF_SWITCH: Final = 2
NOT_THERE: Final = 3

KEYED: Final = 255
"""Of a leaf's order: no rule compiled in, but numbers that a part has put into ``apps.key``, smallest first."""

# How the applications of a leaf are ordered besides `KEYED`; the first two are those of `treadle.model.queues`.
LEVELS: Final = 3  # levels that share the leaf by weights, first in, first out within one
FINISH: Final = 5  # first those that share fairly, by memory used, then by `apps.key`


@tables
class DecideParameters(NamedTuple):
    """Numbers that hold for one decide."""

    now_ms: int
    decide: int
    root: int
    cluster_nodes: int
    heartbeat_ms: int
    node_delay: int
    rack_delay: int  # -1: as many opportunities as asks x share of the cluster's nodes and racks that they name
    fit: int  # which fit's compiled step (`treadle.policy.node_search`), -1 for none
    draws: bool  # nodes are drawn
    goes_round: bool  # a search begins after the node found last
    window: int
    share: int  # which share's compiled steps (`treadle.policy.shares.rules`)
    keyed_queues: bool  # siblings are compared by what a part in Python says
    walks_queues: bool  # the share compares queues that are siblings, and keeps no tree of its own
    compares_shares: bool  # the share serves by shares in a tree
    rescales: bool  # groups' vectors are rescaled, and what is saturated does not count
    candidates: int  # rows that compete for a node; 0: the order alone decides
    all_priorities: bool  # rows of all of an application's priorities compete, not only those of its first one
    across_queues: bool  # rows of all leaves compete as long as the share lets the order decide
    remote_penalty: float  # what a node takes off the score that is not the one asked for; negative: rows wait instead
    srpt_weight: float
    seed: int
    lends: bool  # nodes of a non-exclusive partition go to asks without a label


OPEN_NODE: Final = np.dtype([("node", "i4"), ("next", "i4"), ("open", "u1")], align=True)
"""``open_nodes[n].open``: 1 if node n is in the list of open nodes. ``open_nodes[i].node`` is place i of that list,
``open_nodes[i].next`` the next place whose node is still open."""

UNBOUNDED: Final = 1 << 30
"""The quota of a row of which the gate does not count containers."""

ROW: Final = np.dtype(
    [
        ("quota", "i4"),  # how many containers more the gate lets it have in this decide
        ("may", "u1"),
        ("done", "u1"),
        ("nearest", "u1"),  # the nearest level on which a node may still be found in this decide
        ("held", "u1"),  # held back, but for machines that would be idle
        ("random", "u1"),  # its nodes are drawn, whatever the fit
        ("why", "u1"),  # `treadle.policy.reasons.Reason`, kept from decide to decide
        ("age", "u2"),  # how many decides ago that was, `AGE_MAX` at most
    ],
    align=True,
)

# How the work of stages counts that have hints and are not asked for yet (``APPLICATION.ahead``).
TIME_ONLY: Final = 0  # their demands are not known
MAX_DEMAND: Final = 1  # as demanding as the most demanding of what the application asks for and runs
IGNORED: Final = 2  # not yet

APPLICATION: Final = np.dtype(
    [
        ("key", "f8"),  # for the leaf's order
        ("work", "f8"),  # what is left of it, if rows compete
        ("fair_up_to", "f8"),  # up to this memory it shares fairly before all others; 0: it has a key
        ("share", "f8"),  # dominant share of the cluster, as it stood when its level was served last
        ("part", "f8"),  # what part of its tasks it may run now, by the gate; 1: all
        ("level", "i4"),  # its level until it has a size, by the gate; -1: that of its size
        ("rank", "i4"),
        ("band", "i4"),  # compared before the key: minus the priority where the queue compares it first, else 0
        ("done", "u1"),
        ("ahead", "u1"),  # `TIME_ONLY`, `MAX_DEMAND` or `IGNORED`, by the gate
    ],
    align=True,
)

SUMS: Final = np.dtype([("ended", "i8"), ("ended_ms", "i8")], align=True)
"""Tasks of a group that have ended, and their durations together, besides those that the model counts."""
LEVEL: Final = np.dtype([("used", "f8"), ("cursor", "i4"), ("end", "i4")], align=True)
"""A level of a leaf: the dominant shares of its applications added up, and which of them have not had their turn."""

QUEUE: Final = np.dtype(
    [
        ("used_share", "f8"),
        ("guaranteed_share", "f8"),
        ("key", "f8"),
        ("place", "i4"),  # among its siblings
        ("live", "i4"),  # leaves below (or itself) that may still get something
        ("first", "i4"),  # its applications in the list; they end where those of the next queue begin
        ("first_open", "i4"),  # its asks among those that are open; they end where those of the next queue begin
        ("am_cursor", "i4"),
        ("cursor", "i4"),
        ("heap_size", "i4"),  # -1: not made yet in this decide
        ("served", "i4"),  # the application served last by levels, or -1
        ("placed", "i4"),  # containers proposed in this decide
        ("order", "u1"),
        ("sized", "u1"),
    ],
    align=True,
)
LISTED: Final = np.dtype([("application", "i4"), ("heap", "i4")])
OPEN_ASK: Final = np.dtype(
    [
        ("application", "i4"),
        ("user", "i4"),  # its application's
        ("row", "i4"),
        ("like", "i4"),  # a row that room is found for exactly where it is for this one; itself if none is known
        ("left", "i4"),  # how many containers of it may be proposed
        ("size", "i1"),  # the place of its size in `Scratch.sizes`; -1: not only its size matters
        ("starts", "u1"),  # its application awaits an AM container that is proposed already
    ],
    align=True,
)
"""A row with asks for the partition that is being served."""

SIZES: Final = 64
"""How many sizes of asks are told apart at a time."""

SIZE: Final = np.dtype(
    [
        ("row", "i4"),  # one with an ask of that size; -1: none yet
        (
            "judged_for",
            "i4",
        ),  # for which asks of a user in a leaf the verdict holds: the first of them, plus 1; 0: none
        ("verdict", "u1"),
    ],
    align=True,
)
"""A size of asks that go wherever there is room, by a digest of it."""

BIG: Final = np.dtype([("placed", "i8"), ("row", "i4"), ("overtaken", "u1")], align=True)


@tables
class Scratch(NamedTuple):
    """Arrays that the loop uses; nothing but the cursor and the offers among the counters outlives a decide."""

    counters: I64
    out: Records  # `treadle.model.in_flight.PROPOSAL`: the answer
    asked: I64  # proposal, resource: what it asks for
    available: I64  # node, resource: free and not assumed
    rates: F64  # CLUSTER, PARTITION, LARGEST
    asks: I64  # LEAST, LEAF_HEADROOM, INFEASIBLE...
    headroom: I64  # node, resource: the largest ask that the node could hold when empty; no rows unless it is kept free
    open_nodes: Records
    rows: Records
    apps: Records
    queues: Records
    list: Records  # the applications of each leaf, in fifo order, and the leaf's heap or levels
    turns: I32  # a tournament of each queue's children, beside theirs; nothing unless the share walks the queues
    open_asks: Records  # leaf by leaf in the order of `list`; nothing unless the share counts asks
    user_asks: I64  # user, resource: what was counted of the user's asks, where leaves have aims; else nothing
    sizes: Records
    levels: Records  # queue x level, nothing unless a leaf is served by levels
    weights: F64  # of the levels
    big: Records  # rows that fit no node, how many proposals had been made then, and whether others got before them
    bound: U8  # resources that nodes bound: those counted, and those overbooked
    averages: F64
    candidates: I32  # rows that compete for a node
    shares: Shares
    scores: F64  # of a keyed fit: (1, node), or (request row, node) where they differ from row to row
    node_sets: U8  # set, node / 8: a bit a node that is in the set; those of classes come first
    row_nodes: I32  # which set each request row may use, -1: any node; nothing without constraints and choices
    nowhere: I64  # set, resource: an ask that fits on no node of the set in this partition, -1: none known
    witness: I32  # by set: the place in the list of open nodes where an ask of it found room last
    tags: OwnTags
    needs: F64  # node: how contended what is special about it is, for fits that spare such nodes; else nothing
    ended: Records  # `SUMS` by group of tasks, by the table beside the model that the gate keeps; nothing without one


def _marks(apps: ApplicationTable, old: Scratch | None) -> Records:
    """Return the records of a decide's applications; those of applications that have ended mean nothing."""
    marks = _room("apps", APPLICATION, len(apps.at), old)
    reset_app_records(marks, apps.in_use(), apps.leaf_applications)
    return marks


def _room(name: str, record: np.dtype[Any], count: int, old: Scratch | None) -> Records:
    """Return room for records that are written before they are read: that of the decide before, if it will do."""
    before: Records | None = None if old is None else getattr(old, name)
    return np.zeros(count, record) if before is None or (before.dtype, len(before)) != (record, count) else before


def _rows(count: int, old: Scratch | None) -> Records:
    """Return records of rows, with what the decide before has said of them."""
    rows = _room("rows", ROW, count, old)
    if old is not None and rows is not old.rows:
        known = min(count, len(old.rows))
        rows[:known] = old.rows[:known]
    return rows


def scratch_for(
    cluster: Cluster,
    shares: Shares,
    old: Scratch | None,
    out: Records,
    asked: I64,
    weights: Sequence[float] = (),
    overbook: Mapping[int, float] | None = None,
    candidates: int = 0,
    headroom: bool = False,
    counts_asks: bool = False,
) -> Scratch:
    """Return arrays large enough for the cluster, cleared as the loop expects; keep the lasting part of ``old``.

    Args:
        cluster: the model
        shares: the tree to share by
        old: that of the decide before
        out: room for the answer
        asked: and for what each proposal asks for
        weights: those of the order's levels
        overbook: resources that the RM does not count, and how many times what a node has may be given out
        candidates: how many rows compete for a node, no more than there are
        headroom: whether nodes keep room for the largest ask
        counts_asks: whether the share has a tree of its own, and counts what could be placed; else it walks the queues
    """
    nodes, queues = cluster.nodes, _queues_of(cluster)
    resources = nodes.amounts.shape[2]
    available, bound = _offered(cluster, overbook or {})
    return Scratch(
        counters=_counters_after(old),
        out=out,
        asked=asked,
        available=available,
        rates=np.zeros((3, resources)),
        asks=np.zeros((INFEASIBLE + INFEASIBLE_MAX, resources), np.int64),
        headroom=np.zeros((len(nodes.at) if headroom else 0, resources), np.int64),
        open_nodes=np.zeros(len(nodes.at) + 1, OPEN_NODE),
        rows=_rows(len(cluster.requests.at), old),
        apps=_marks(cluster.apps, old),
        queues=queues,
        list=_listed(cluster),
        turns=np.zeros(0 if counts_asks else 2 * len(cluster.queues.children), np.int32),
        open_asks=_room("open_asks", OPEN_ASK, len(cluster.requests.at) if counts_asks else 0, old),
        user_asks=np.zeros((len(cluster.users.amounts) if len(shares.aims) else 0, resources), np.int64),
        sizes=np.zeros(SIZES, SIZE),
        levels=np.zeros(len(queues) * len(weights), LEVEL),
        weights=np.array(weights, np.float64),
        big=np.zeros(BIG_ROWS, BIG),
        bound=bound,
        averages=old.averages if old is not None else np.zeros(2),
        candidates=np.zeros(min(candidates, len(cluster.requests.at)), np.int32),
        shares=shares,
        scores=np.zeros((1, 1)),
        node_sets=np.zeros((0, 1), np.uint8),
        row_nodes=np.zeros(0, np.int32),
        nowhere=np.zeros((0, resources), np.int64),
        witness=np.zeros(0, np.int32),
        tags=no_tags(),
        needs=np.zeros(0),
        ended=np.zeros(0, SUMS),
    )


def _counters_after(old: Scratch | None) -> I64:
    """Return the counters of the decide before, or new ones, with those set to 0 that count in one decide."""
    counters = old.counters if old is not None else np.zeros(COUNTERS, np.int64)
    if old is None:
        counters[BUNDLE] = -1
    counters[PLACED] = counters[DELAYED] = counters[BIG_COUNT] = counters[SCANNED] = 0
    return counters


def _queues_of(cluster: Cluster) -> Records:
    """Return a row for each queue and one more, with where its applications begin in the list of all."""
    apps = cluster.apps
    queues = np.zeros(len(cluster.queues.at) + 1, QUEUE)
    queues["first"] = len(apps.leaf_applications)
    queues["first"][: len(apps.leaf_first)] = apps.leaf_first
    return queues


def _listed(cluster: Cluster) -> Records:
    """Return the applications, leaf by leaf."""
    listed = np.zeros(len(cluster.apps.leaf_applications), LISTED)
    listed["application"] = cluster.apps.leaf_applications
    return listed


def _offered(cluster: Cluster, overbook: Mapping[int, float]) -> tuple[I64, U8]:
    """Return what nodes have to give, (node, resource), and which resources bound what they take."""
    nodes = cluster.nodes
    available = nodes.amounts[:, FREE] - nodes.amounts[:, ASSUMED]
    bound = cluster.counted.copy()
    for resource, factor in overbook.items():
        bound[resource] = 1
        available[:, resource] += ((factor - 1.0) * nodes.amounts[:, TOTAL, resource]).astype(np.int64)
    return available, bound
