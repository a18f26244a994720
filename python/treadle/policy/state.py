"""The inner loop's arrays for one answer, its parameters, and the reasons why requests wait.

Records of applications and request rows are reset in each cycle, except for ended applications, which may be many times
as many. Where placement constraints limit how many of an application's own tagged containers a node or rack has, a
proposal counts at once (`OwnTags`); a row without such limits depends on its set of nodes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf, isnan
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.constraints import Choice
from treadle.model.cluster import Cluster
from treadle.model.nodes import Classes
from treadle.model.queues import FIFO
from treadle.model.tables import ASSUMED, FREE, TOTAL, View, chain
from treadle.policy.shares.tree import Shares


@kernel
def reset_app_records(apps: Records, which: I32, new: Records, listed: I32) -> None:
    """Reset the records (`APPLICATION`) of some applications to ``new``; ``listed`` has the ranked ones."""
    for app in which:
        apps[app] = new[0]
    for rank in range(len(listed)):
        apps[listed[rank]].rank = rank


AGE_MAX: Final = 65_535


@kernel
def reset_row_records(rows: Records, quota: int) -> None:
    """Reset the records of all rows (`ROW`) to not admitted, with ``quota``; their reasons stay."""
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
    """Set the bands of some applications: priority counts first where the queue's own ordering policy is FIFO."""
    for app in which:
        queue = model[app].queue
        if queue >= 0 and orders[queue] == FIFO:
            apps[app].band = -model[app].priority


@kernel
def take_keys(apps: Records, which: I32, key: F64) -> None:
    """Copy the keys of some applications into their records; NaN sorts last."""
    for app in which:
        apps[app].key = inf if isnan(key[app]) else key[app]


BIG_ROWS: Final = 64
"""Maximum number of rows without a fitting node that a cycle records as candidates for a reserved node."""

INFEASIBLE_MAX: Final = 8
"""Maximum number of unplaceable sizes that are stored, to avoid searches for larger requests."""

# Places in `Scratch.counters`.
PLACED: Final = 0
OPEN_NODES: Final = 1
INFEASIBLE_COUNT: Final = 2
BIG_COUNT: Final = 3
CURSOR: Final = 4  # the node at which the next search starts; kept across cycles
DELAYED: Final = 5  # 1 if a row waits for a preferred node
OFFERS: Final = 6  # proposals so far; kept across cycles
SCANNED: Final = 7  # search cost of this cycle: nodes and competing rows scanned
BUNDLE: Final = 8  # the node on which tasks are bundled, or -1; kept across cycles
SCORED: Final = 9  # proposals in the averages; kept across cycles
SERVES: Final = 10  # the partition being served
UNWANTED: Final = 11  # 1: the latest search has skipped a node with room that the request may not use
HELD_NODES: Final = 12  # nodes reserved in the served partition; listed at the end of `Scratch.open_nodes`
RESERVED: Final = 13  # 1 if guarantees of sibling queues reduce the leaf's allowance
COUNTERS: Final = 14

# Places in `Scratch.averages`, over the latest proposals; kept across cycles.
PACKED: Final = 0  # packing score
WORK: Final = 1  # remaining work of the application

# Rows of `Scratch.rates`.
CLUSTER: Final = 0  # the cluster's resources
PARTITION: Final = 1  # 1 / the partition's resources, 0 for those not counted
LARGEST: Final = 2  # 1 / those of the largest node, 0 for those not counted

# Rows of `Scratch.asks`.
LEAST: Final = 0  # the smallest request of the partition by resource
LEAF_HEADROOM: Final = 1  # remaining allowance of the served leaf
INFEASIBLE: Final = 2  # unplaceable sizes

# Locality level of a node for a request.
NODE_LOCAL: Final = 0
RACK_LOCAL: Final = 1
OFF_SWITCH: Final = 2
NOT_THERE: Final = 3

KEYED: Final = 255
"""Order of a leaf by numbers in ``apps.key``, smallest first, without a compiled rule."""

# Other orders of a leaf, next to `FIFO` and `FAIR` of `treadle.model.queues`.
LEVELS: Final = 3  # levels that share the leaf by weights, first in, first out within a level
FINISH: Final = 5  # first the applications that share fairly, by memory used, then by `apps.key`


@tables
class DecideParameters(NamedTuple):
    """Parameters of a cycle."""

    now_ms: int
    cycle: int  # the cycle's number; backoffs end at such numbers
    root: int  # the root queue; negative: there is none yet
    cluster_nodes: int
    heartbeat_ms: int
    node_delay: int
    rack_delay: int  # -1: requests x fraction of the cluster's nodes and racks that they name
    fit: int  # the fit's compiled step (`treadle.policy.node_search`), -1 for none
    draws: bool  # nodes are drawn randomly
    goes_round: bool  # a search starts after the last node found
    window: int  # number of fitting nodes that are compared
    share: int  # the share's compiled steps (`treadle.policy.shares.rules`)
    keyed_queues: bool  # siblings are compared by a custom part's keys
    walks_queues: bool  # the share compares sibling queues, without a tree of its own
    compares_shares: bool  # the share compares shares in a tree
    rescales: bool  # vectors of groups are rescaled without saturated resources
    candidates: int  # number of rows that compete for a node; 0: the order alone decides
    all_priorities: bool  # rows of all of an application's priorities compete, not only the first
    across_queues: bool  # rows of all leaves compete while the share lets the order decide
    remote_penalty: float  # fraction of the score that an unrequested node loses; negative: rows wait instead
    srpt_weight: float  # weight of the remaining work against the packing score
    seed: int
    lends: bool  # nodes of a non-exclusive partition serve requests without a label


OPEN_NODE: Final = np.dtype([("node", "i4"), ("next", "i4"), ("first", "i4"), ("open", "u1")], align=True)
"""``open_nodes[n].open``: 1 if node n is in the list of open nodes. ``open_nodes[i].node`` is element i of that list,
``open_nodes[i].next`` the next element whose node is still open, ``open_nodes[n].first`` the first one at or after
node n."""

UNBOUNDED: Final = 1 << 30
"""The quota of a row without a limit by the gate."""

ROW: Final = np.dtype(
    [
        ("quota", "i4"),  # how many more containers the gate admits in this cycle
        ("may", "u1"),  # whether the gate admits it
        ("done", "u1"),  # not considered again in this cycle
        ("nearest", "u1"),  # the nearest locality level where a node may still be found in this cycle
        ("held", "u1"),  # held back, except for otherwise idle nodes
        ("random", "u1"),  # its nodes are drawn randomly, whatever the fit
        ("why", "u1"),  # `Reason`, kept across cycles
        ("age", "u2"),  # number of cycles since, at most `AGE_MAX`
    ],
    align=True,
)

# How hinted stages without requests count as work (``APPLICATION.ahead``).
TIME_ONLY: Final = 0  # their demands are unknown
MAX_DEMAND: Final = 1  # with the largest demand among the application's requests and tasks
IGNORED: Final = 2  # not at all

APPLICATION: Final = np.dtype(
    [
        ("key", "f8"),  # for the leaf's order
        ("work", "f8"),  # its remaining work, if rows compete
        ("fair_up_to", "f8"),  # up to this memory (MB) it shares fairly before all with keys, then after; 0: has a key
        ("share", "f8"),  # dominant share of the cluster when its level was last served
        ("part", "f8"),  # fraction of its tasks that the gate lets run now; 1: all
        ("level", "i4"),  # its level by the gate while it has no size; -1: by its size
        ("rank", "i4"),  # its position in `Scratch.list`
        ("band", "i4"),  # compared before the key: minus the priority where the queue compares it first, else 0
        ("done", "u1"),  # not served again in this cycle
        ("ahead", "u1"),  # `TIME_ONLY`, `MAX_DEMAND` or `IGNORED`, by the gate
    ],
    align=True,
)

SUMS: Final = np.dtype([("ended", "i8"), ("ended_ms", "i8")], align=True)
"""Number and total duration (ms) of a group's ended tasks that the model does not count."""
LEVEL: Final = np.dtype([("used", "f8"), ("cursor", "i4"), ("end", "i4")], align=True)
"""A level of a leaf: its applications' total dominant share, and those that have not had their turn."""

QUEUE: Final = np.dtype(
    [
        ("used_share", "f8"),
        ("guaranteed_share", "f8"),
        ("key", "f8"),
        ("place", "i4"),  # place among its siblings
        ("live", "i4"),  # leaves below (or itself) that may still get containers
        ("first", "i4"),  # start of its applications in the list; they end where those of the next queue start
        ("first_open", "i4"),  # start of its requests among the open ones; they end where those of the next queue start
        ("am_cursor", "i4"),
        ("cursor", "i4"),  # place of the next turn in the list
        ("end", "i4"),  # end of the turns that may follow it; -1: not computed yet in this cycle
        ("served", "i4"),  # the level last served, or -1
        ("placed", "i4"),  # containers proposed in this cycle
        ("order", "u1"),
        ("sized", "u1"),
    ],
    align=True,
)
LISTED: Final = np.dtype([("application", "i4"), ("turn", "i4")])
"""An application at its place in FIFO order, and the one whose turn is at this place in the leaf's order."""
OPEN_ASK: Final = np.dtype(
    [
        ("application", "i4"),
        ("user", "i4"),  # its application's user
        ("row", "i4"),
        ("like", "i4"),  # a row that fits on exactly the same nodes; itself if none is known
        ("left", "i4"),  # how many of its containers may be proposed
        ("size", "i1"),  # position of its size in `Scratch.sizes`; -1: not only its size matters
        ("starts", "u1"),  # its application awaits an AM container that is already proposed
    ],
    align=True,
)
"""A row with requests for the served partition."""

SIZES: Final = 64
"""Maximum number of distinct sizes in the cache."""

SIZE: Final = np.dtype(
    [
        ("row", "i4"),  # a row with that size; -1: none yet
        ("judged_for", "i4"),  # 1 + the first open request of the leaf and user that the verdict is for; 0: none
        ("verdict", "u1"),  # `Reason`; 0: it can be placed
    ],
    align=True,
)
"""A cached size of requests for which only size matters, by its hash."""

BIG: Final = np.dtype([("placed", "i8"), ("row", "i4"), ("overtaken", "u1")], align=True)

CANDIDATE: Final = np.dtype([("plan", "f8"), ("row", "i4")], align=True)
"""A row that competes for a node, and its rank in the plan: 1 first, 0 last; 1 without a plan."""

BOUND: Final = np.dtype(
    [
        ("set", "i4"),  # the nodes of the alternative; -1: any node
        ("least", "i4"),
        ("most", "i4"),
        ("first", "i4"),  # its counters in `OwnTags.listed`
        ("counters", "i4"),
        ("rack", "u1"),
        ("ends", "u1"),  # `GOES_ON`, `ENDS_ALTERNATIVE` or `ENDS_ROW`
    ],
    align=True,
)
GOES_ON: Final = 0
ENDS_ALTERNATIVE: Final = 1
ENDS_ROW: Final = 2


@tables
class OwnTags(NamedTuple):
    """Limits on the number of an application's own tagged containers at a node or rack, and the counters."""

    row_bounds: I32  # the first limit of each request row, or -1; empty if no row has any
    row_tags: I32  # start of the counters of a row's containers in `listed`, which -1 ends; -1: none
    bounds: Records
    listed: I32  # counters, by limit and by row
    at_node: I32  # counter, node
    at_rack: I32  # counter, rack
    rack_of: I32  # the number of each node's rack


def no_tags() -> OwnTags:
    """Return the value for a cluster where no request counts containers."""
    none, table = np.zeros(0, np.int32), np.zeros((0, 0), np.int32)
    return OwnTags(none, none, np.zeros(0, BOUND), none, table, table, none)


@tables
class Scratch(NamedTuple):
    """Arrays of the loop; only the counters marked as kept, averages and reasons outlive a cycle."""

    counters: I64
    out: Records  # `treadle.model.in_flight.PROPOSAL`: the answer
    asked: I64  # proposal, resource: its request
    available: I64  # node, resource: free without in-flight proposals
    rates: F64  # CLUSTER, PARTITION, LARGEST
    asks: I64  # LEAST, LEAF_HEADROOM, INFEASIBLE...
    headroom: I64  # node, resource: the largest request that fits on the empty node; no rows unless headroom is kept
    open_nodes: Records
    rows: Records
    apps: Records
    queues: Records
    list: Records  # the applications of each leaf in FIFO order, and their turns: also FIFO, a heap, or levels
    turns: I32  # tournaments of each queue's children, parallel to them; empty unless the share walks the queues
    open_asks: Records  # leaf by leaf in the order of `list`; empty unless the share counts requests
    user_asks: I64  # user, resource: counted requests of the user, if leaves have aims; else empty
    sizes: Records
    levels: Records  # queue x level; empty unless a leaf is served by levels
    weights: F64  # of the levels
    big: Records  # rows that fit no node, the number of proposals then, and whether others overtook them
    bound: U8  # bounded resources: counted and overbooked ones
    factors: F64  # resource: how many times what a node has may be given out; 1 unless it is overbooked
    largest: I64  # resource: the most that an empty node of the served partition may give out, if bounded
    averages: F64
    candidates: Records  # rows that compete for a node
    shares: Shares
    scores: F64  # of a keyed fit: (1, node), or (request row, node) if they depend on the row
    node_sets: U8  # set, node / 8: one bit per node; the sets of classes come first
    row_nodes: I32  # the set of each request row, -1: any node; empty without constraints and choices
    nowhere: I64  # set, resource: a request that fits on no node of the set in this partition, -1: none known
    witness: I32  # by set: position in the list of open nodes where a request of it last found room
    tags: OwnTags
    needs: F64  # node: contention of its special resources, for fits that spare such nodes; else empty
    ended: Records  # `SUMS` by task group, from the gate's table outside the model; empty without one


_NEW_APPLICATION: Final = np.zeros(1, APPLICATION)
_NEW_APPLICATION["part"], _NEW_APPLICATION["level"] = 1.0, -1


def _reused_or_new(name: str, record: np.dtype[Any], count: int, old: Scratch | None) -> Records:
    """Return an array for records that are written before they are read; reuses the previous one if possible."""
    before: Records | None = None if old is None else getattr(old, name)
    return np.zeros(count, record) if before is None or (before.dtype, len(before)) != (record, count) else before


def _rows(count: int, old: Scratch | None) -> Records:
    """Return the records of rows, with the reasons of the previous cycle."""
    rows = _reused_or_new("rows", ROW, count, old)
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
    *,
    weights: Sequence[float],
    overbook: Mapping[int, float],
    candidates: int,
    headroom: bool,
    counts_asks: bool,
) -> Scratch:
    """Return arrays large enough for the cluster, initialised for the loop; the lasting part of ``old`` is kept.

    Args:
        cluster: the model
        shares: the tree to share by
        old: the arrays of the previous cycle
        out: array for the answer
        asked: array for the resources of each proposal
        weights: weights of the order's levels
        overbook: factor of a node's capacity, by resource that the RM does not count
        candidates: maximum number of rows that compete for a node
        headroom: whether nodes keep room for the largest request
        counts_asks: whether the share has its own tree and counts placeable requests; if not, it walks the queues
    """
    nodes, queues = cluster.nodes, _queues_of(cluster)
    resources = nodes.amounts.shape[2]
    apps = _reused_or_new("apps", APPLICATION, len(cluster.apps.at), old)  # undefined for ended applications
    reset_app_records(apps, cluster.apps.in_use(), _NEW_APPLICATION, cluster.apps.leaf_applications)
    listed = np.zeros(len(cluster.apps.leaf_applications), LISTED)
    listed["application"] = cluster.apps.leaf_applications
    available, bound, factors = _offered(cluster, overbook)
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
        apps=apps,
        queues=queues,
        list=listed,
        turns=np.zeros(0 if counts_asks else 2 * len(cluster.queues.children), np.int32),
        open_asks=_reused_or_new("open_asks", OPEN_ASK, len(cluster.requests.at) if counts_asks else 0, old),
        user_asks=np.zeros((len(cluster.users.amounts) if len(shares.aims) else 0, resources), np.int64),
        sizes=np.zeros(SIZES, SIZE),
        levels=np.zeros(len(queues) * len(weights), LEVEL),
        weights=np.array(weights, np.float64),
        big=np.zeros(BIG_ROWS, BIG),
        bound=bound,
        factors=factors,
        largest=np.zeros(resources, np.int64),
        averages=old.averages if old is not None else np.zeros(2),
        candidates=np.zeros(min(candidates, len(cluster.requests.at)), CANDIDATE),
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
    """Return the previous cycle's counters, or new ones, with the ones for a single cycle set to 0."""
    counters = old.counters if old is not None else np.zeros(COUNTERS, np.int64)
    if old is None:
        counters[BUNDLE] = -1
    counters[PLACED] = counters[DELAYED] = counters[BIG_COUNT] = counters[SCANNED] = 0
    return counters


def _queues_of(cluster: Cluster) -> Records:
    """Return a record for each queue and one more, with the start of its applications in the list of all."""
    apps = cluster.apps
    queues = np.zeros(len(cluster.queues.at) + 1, QUEUE)
    queues["first"] = len(apps.leaf_applications)
    queues["first"][: len(apps.leaf_first)] = apps.leaf_first
    return queues


def offered(totals: I64, factors: F64 | float) -> I64:
    """Return what empty nodes with ``totals`` may give out; ``factors`` as in `Scratch`."""
    return totals + ((factors - 1.0) * totals).astype(np.int64)


def _offered(cluster: Cluster, overbook: Mapping[int, float]) -> tuple[I64, U8, F64]:
    """Return what nodes can give, (node, resource), whether each resource bounds it, and its factor."""
    nodes = cluster.nodes
    available = nodes.amounts[:, FREE] - nodes.amounts[:, ASSUMED]
    bound, factors = cluster.counted.copy(), np.ones(len(cluster.counted))
    for resource, factor in overbook.items():
        bound[resource], factors[resource] = 1, factor
        totals = nodes.amounts[:, TOTAL, resource]
        available[:, resource] += offered(totals, factor) - totals
    return available, bound, factors


class Reason(IntEnum):
    """Why a request waits: the result of the last cycle that reached it; ``age`` counts the cycles since."""

    NEW = 0
    """No cycle has reached it yet."""
    PLACED = 1
    """A container of it was proposed, or all are in flight."""
    AFTER_EARLIER_REQUEST = 2
    """An earlier request of its application waits for a nearer node."""
    NEARER_NODE = 3
    """It waits for a node nearer to its data; others would fit."""
    BACKOFF = 4
    """The ResourceManager recently rejected it, or its application; it is proposed again after some cycles."""
    GATE = 5
    """The policy's gate holds it back, or admits no more of it now."""
    QUEUE_MAXIMUM = 6
    """A queue is at its maximum."""
    RESERVED_GUARANTEE = 7
    """The rest of a queue is guaranteed to its other children, which other engines serve."""
    USER_LIMIT = 8
    """The user is at the limit in the queue, or the application at the limit of its user."""
    SATURATED = 9
    """No node has any of a needed resource left."""
    TOO_LARGE = 10
    """The request is larger than any empty node of its partition."""
    CONSTRAINT = 11
    """None of the nodes that its requirements, localities, blacklist and the policy allow has room."""
    RESERVED_FOR_ANOTHER = 12
    """All nodes with room are reserved for other requests."""
    FULL = 13
    """No node has room now."""


class NodeReason(IntEnum):
    """Why a node cannot serve a request; the first reason that applies."""

    OTHER_PARTITION = 0
    TOO_SMALL = 1
    UNUSABLE = 2
    NOT_NAMED = 3
    NOT_CHOSEN = 4
    OWN_TAGS = 5
    BLACKLISTED = 6
    REJECTED = 7
    RESERVED = 8
    FULL = 9
    HEADROOM = 10
    FITS = 11


FOUND_NO_NODE: Final = Reason.CONSTRAINT
"""From this reason on a search has found no node; the reasons before prevent a search."""


@inner
def set_reason(scratch: Scratch, row: int, why: int) -> None:
    """Record why a request waits."""
    scratch.rows[row].why = why
    scratch.rows[row].age = 0


def reasons(view: View, scratch: Scratch) -> Records:
    """Return ``why`` and ``age`` of each request row; `Reason.NEW` if no cycle has reached it."""
    reason_records = np.zeros(len(view.rows), [("why", "u1"), ("age", "u2")])
    size = min(len(view.rows), len(scratch.rows))
    for name in ("why", "age"):
        reason_records[name][:size] = np.where(view.rows["met"][:size] == 1, scratch.rows[name][:size], 0)
    return reason_records


@inner
def in_set(node_sets: U8, chosen: int, node: int) -> bool:
    """Return whether a node is in a set, which has one bit per node."""
    return bool((node_sets[chosen, node >> 3] >> (node & 7)) & 1)


@inner
def counts_allow(node_sets: U8, tags: OwnTags, row: int, node: int) -> bool:
    """Return whether one of a row's alternatives holds on a node, proposals of this cycle included."""
    at, holds = tags.row_bounds[row], True
    while True:
        bound = tags.bounds[at]
        holds = holds and (bound.set < 0 or in_set(node_sets, bound.set, node))
        for place in range(bound.first, bound.first + bound.counters):
            counter = tags.listed[place]
            count = tags.at_rack[counter, tags.rack_of[node]] if bound.rack else tags.at_node[counter, node]
            holds = holds and bound.least <= count <= bound.most
        if bound.ends != GOES_ON:
            if holds or bound.ends == ENDS_ROW:
                return holds
            holds = True
        at += 1


@inner
def count_proposed(tags: OwnTags, row: int, node: int) -> None:
    """Count a container that was just proposed."""
    at = tags.row_tags[row]
    while at >= 0 and tags.listed[at] >= 0:
        tags.at_node[tags.listed[at], node] += 1
        tags.at_rack[tags.listed[at], tags.rack_of[node]] += 1
        at += 1


@dataclass
class _Counters:
    """Counters by application and tag, and the lists of them."""

    number: dict[tuple[int, str], int] = field(default_factory=dict)
    listed: list[int] = field(default_factory=list)

    def add(self, application: int, tags: Iterable[str], *, ended: bool) -> tuple[int, int]:
        """List the counters of some tags; return where they start in `listed`, and their number."""
        first = len(self.listed)
        self.listed += [self.number.setdefault((application, tag), len(self.number)) for tag in sorted(tags)]
        count = len(self.listed) - first
        if ended:
            self.listed.append(-1)
        return first, count


def own_tags(cluster: Cluster, proposals: Iterable[Records]) -> OwnTags:
    """Return the current counts, including ``proposals`` without an outcome."""
    classes, own = cluster.classes, cluster.own_tags
    counting = [at for at, chosen in enumerate(classes.choices) if chosen.counts_tags]
    rows = np.flatnonzero(np.isin(classes.row_choice, counting)) if counting else np.zeros(0, np.intp)
    if not len(rows):
        return no_tags()
    counters = _Counters()
    row_bounds, bounds = _row_bounds(cluster, rows, counters)
    applications: list[int] = np.unique(cluster.requests.at["application"][row_bounds >= 0]).tolist()
    row_tags = _row_tags(cluster, applications, counters)
    racks, rack_of = np.unique(cluster.nodes.at["rack"], return_inverse=True)
    tags = OwnTags(
        row_bounds=row_bounds,
        row_tags=row_tags,
        bounds=np.array(bounds, BOUND),
        listed=np.array(counters.listed, np.int32),
        at_node=np.zeros((len(counters.number), len(cluster.nodes.at)), np.int32),
        at_rack=np.zeros((len(counters.number), len(racks)), np.int32),
        rack_of=rack_of.astype(np.int32),
    )
    groups, tasks = cluster.groups.at, cluster.groups.tasks.at
    for application in applications:
        for group, task in cluster.groups.running(application, cluster.apps):
            mine = own.of[application].get(int(groups["priority"][group])) or ()
            _count(tags, counters, application, mine, int(tasks["node"][task]))
    for batch in proposals:
        for at in np.flatnonzero((batch["open"] == 1) & np.isin(batch["application"], applications)).tolist():
            application, row = int(batch["application"][at]), int(batch["row"][at])
            priority = int(cluster.requests.at["priority"][row])
            _count(tags, counters, application, own.of[application].get(priority) or (), int(batch["node"][at]))
    return tags


def _count(tags: OwnTags, counters: _Counters, application: int, names: Iterable[str], node: int) -> None:
    for name in names:
        counter = counters.number.get((application, name), -1)
        if counter >= 0 and 0 <= node < len(tags.rack_of):
            tags.at_node[counter, node] += 1
            tags.at_rack[counter, tags.rack_of[node]] += 1


def _distinct(*columns: I32) -> tuple[list[list[int]], npt.NDArray[np.intp]]:
    """Return the distinct rows of some columns, and the index of each row among them."""
    found, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return found.T.tolist(), which.reshape(-1)


def _row_tags(cluster: Cluster, applications: list[int], counters: _Counters) -> I32:
    """List the counters that containers of each row of some applications increase; return the start by row, or -1."""
    requests = cluster.requests.at
    rows = np.flatnonzero(np.isin(requests["application"], applications) & (requests["constrained"] == 1))
    distinct, which = _distinct(requests["application"][rows], requests["priority"][rows])
    first = np.full(len(distinct), -1, np.int32)
    for at, (application, priority) in enumerate(distinct):
        if mine := cluster.own_tags.of[application].get(priority):
            first[at], _ = counters.add(application, mine, ended=True)
    row_tags: I32 = np.full(len(requests), -1, np.int32)
    row_tags[rows] = first[which]
    return row_tags


def _row_bounds(cluster: Cluster, rows: npt.NDArray[np.intp], counters: _Counters) -> tuple[I32, list[tuple[int, ...]]]:
    """Return the start of the limits by row, or -1, and the limits.

    An application's requests with the same choices have the same limits.
    """
    classes, requests = cluster.classes, cluster.requests.at
    distinct, which = _distinct(requests["application"][rows], classes.row_choice[rows], classes.row_level[rows])
    first, bounds = np.full(len(distinct), -1, np.int32), list[tuple[int, ...]]()
    complete: dict[int, bool | None] = {}
    for at, (application, number, level) in enumerate(distinct):
        if application not in complete:
            complete[application] = _knows_all(cluster, application)
        mine = _bounds(classes, application, classes.choices[number], level, counters, complete=complete[application])
        if mine:
            first[at] = len(bounds)
            bounds += mine
    row_bounds: I32 = np.full(len(requests), -1, np.int32)
    row_bounds[rows] = first[which]
    return row_bounds, bounds


def _knows_all(cluster: Cluster, application: int) -> bool | None:
    """Return whether the tags of all running containers are known; None: those of a priority are not."""
    known = cluster.own_tags.of.setdefault(application, {})
    if None in known.values():
        return None
    groups = cluster.groups.at
    mine = chain(groups, cluster.apps.at["first_group"][application])
    return all(int(groups["priority"][group]) in known for group in mine if groups["running"][group] > 0)


def _bounds(
    classes: Classes, application: int, chosen: Choice, level: int, counters: _Counters, *, complete: bool | None
) -> list[tuple[int, ...]]:
    """Return the limits of requests, by alternative; empty if counts are unknown, so that the RM checks them."""
    if complete is None:
        return []
    bounds = list[tuple[int, ...]]()
    for alternative in chosen.alternatives[: (chosen.last if level < 0 else level) + 1]:
        at = classes.class_for((alternative.where,))
        if at < 0:
            return []
        one: list[tuple[int, ...]] = [(at, 0, 0, 0, 0, 0, GOES_ON)]
        for count in alternative.counts:
            first, tags = counters.add(application, count.tags, ended=False)
            least = count.least if complete else 0  # while some containers' tags are unknown, a low count says nothing
            one.append((-1, least, count.most, first, tags, int(count.rack), GOES_ON))
        bounds += one[:-1]
        bounds.append((*one[-1][:-1], ENDS_ALTERNATIVE))
    return [*bounds[:-1], (*bounds[-1][:-1], ENDS_ROW)] if bounds else []
