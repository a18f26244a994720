"""What each kind of part must do, and the gate that lets all asks through.

Treadle's own parts choose a rule that is compiled into the inner loop (`treadle.policy.loop`), or fill a column that
the loop reads. A new one is a class with one of the bases of this file, or of `treadle.policy.work.Estimate`, and
a line in `treadle.policy.catalogue`; see `shares.capacity` for a short example. A user's part needs no rule compiled:
see `treadle.policy.user_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, pair
from treadle.config.parts import NoParameters
from treadle.events import Event, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, MAX_PARTITIONS, View
from treadle.policy.asks import headroom_under_maxima, is_over_limit, refused
from treadle.policy.contention import Contention
from treadle.policy.node_sets import NodeSets
from treadle.policy.shares.tree import Shares, no_tree
from treadle.policy.work import Jobs

NEVER: Final = 1 << 62


class Keeper(Protocol):
    """Maintains a table that a gate keeps beside the model (`Traits.keeper`), by the model's indices.

    It is there as long as the policy's gate is of that kind, whatever parameters it gets.
    """

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Note an event that the model has just taken; of `Containers` ``cluster.tasks.effects`` has what each row did.

        Not called between the start of a snapshot and `follow`.
        """

    def apply(self, event: Samples, cluster: Cluster) -> None:
        """Take back the samples of an earlier engine (`samples`); raises `ModelError` for what is not possible."""

    def samples(self, cluster: Cluster) -> Samples | None:
        """Return what has changed since the last call and another engine should know; None if nothing has."""

    def ended(self, cluster: Cluster) -> Records:
        """Return what has ended of each group of tasks besides what the model counts (`Scratch.ended`)."""

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Go on after a snapshot, with the model that has taken over what the one before had learned."""


class UsesKeeper(Protocol):
    """A gate or an estimate that goes by the table of the policy's gate (`Traits.uses_keeper`)."""

    def use(self, keeper: Keeper | None) -> None:
        """Take the table's keeper, before anything else; None if the gate keeps no table."""


class WeighsClasses(Protocol):
    """A gate or an order that goes by how contended classes of nodes are (`Traits.weighs_classes`)."""

    def weigh(self, contention: Contention) -> None:
        """Take what knows, before anything else; it is brought up to date when a decide begins."""


class CountsTasks(Protocol):
    """An order or an estimate that goes by how far tasks are (`Traits.counts_tasks`)."""

    def count(self, progress: Any) -> None:
        """Take the counts (`treadle.policy.fair_finish.Progress`), before anything else."""


class Gate:
    """May this ask be served now?"""

    due_ms = NEVER
    """When the gate must be asked again though nothing happens."""
    waits_for = ""
    """For what, in a few words, it held asks back when it was asked last; empty if it held back none."""

    def know_levels(self, thresholds_ms: F64, sampling_level: int) -> None:
        """Take the largest sizes of the order's levels but the last, empty if it has none, and that of pilots.

        Called once, before anything else.
        """

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Set ``rows["may"]`` to 1 for each request row that may get containers in this decide (0 before).

        ``rows["quota"]`` is how many at most, `UNBOUNDED` before; ``rows["random"]`` says that nodes are to be drawn.
        """

    def mark(self, cluster: Cluster, apps: Records) -> None:
        """Set ``part``, ``level`` and ``ahead`` of a decide's applications where they are not as without a gate.

        Called before estimates are asked, and after `open`.
        """

    def open_for_idle(self, rows: Records) -> bool:
        """Let through only what was held back and may go to machines that nobody else wants; False if that is nothing.

        Asked when all others have had their turn; applications are then served by arrival.
        """
        return False


class Share:
    """Which queue is owed most? What compares queues is compiled (`treadle.policy.shares`)."""

    rescales = False
    """Groups' vectors are rescaled, and what is saturated does not count (dynamic H-DRF)."""
    keyed = False
    """Siblings are compared by ``queues["key"]``, the smallest first."""

    def shares(self, cluster: Cluster) -> Shares:
        """Return the tree to share by, and room for what the rule keeps (`treadle.policy.shares.tree` makes both).

        No tree: the rule walks down that of the queues.
        """
        return no_tree(len(cluster.counted))

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know about the share."""
        return ()


class Order:
    """Which application first?"""

    weights: Sequence[float] = ()
    """Of the levels, the first level's first, if leaves have the order `LEVELS`; else empty."""
    thresholds_ms: F64 = np.zeros(0)
    """The largest sizes of the levels but the last, in task time; empty if there are no levels."""
    sampling_level = 0
    """The level of jobs whose pilots have not ended."""

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Set ``leaves["order"]`` by queue: `FIFO`, `FAIR`, `KEYED` or `LEVELS` of `treadle.policy.state`.

        Before, it is `KEYED`, `ASKS` if it ranks asks, or that of the order's compiled step if it has one
        (`treadle.policy.orders`). For `FAIR` also ``leaves["sized"]``: with size-based weight or not. The rows of
        parents do not matter.
        """

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set ``key[application]`` (0 before) for the orders `KEYED`: least first, and `LEVELS`: the level, from 0.

        Equal keys are served by start time, then by priority and id; those of one level by priority and id.
        """

    def ask_keys(self, jobs: Jobs, key: F64) -> None:
        """Set ``key[request row]`` (0 before) for the order `ASKS` (`Traits.ranks_asks`): the least of a leaf first.

        Whose ask it is does not matter, nor its request priority; of equal keys the application's start time decides.
        An ask that fits nowhere is passed over; one that waits for a nearer node ends its application's turn.
        """


class NodeChooser(Protocol):
    """A gate or a fit that says which nodes asks may use (`Traits.chooses_nodes`)."""

    def choose_nodes(self, cluster: Cluster, view: View, now_ms: int, sets: NodeSets) -> None:
        """Restrict rows to nodes, once a decide; of what several parts say all holds."""


class Fit:
    """Which node for an ask?"""

    draws = False
    """Nodes are drawn with the seed."""
    goes_round = False
    """Each search begins after the node that the last one found, not at the first."""
    window = 1
    """How many nodes on which the ask fits are compared."""
    candidates = 0
    """How many rows of the leaf that is served compete for a node; 0: the order alone decides."""
    all_priorities = False
    """Of an application rows of all priorities compete, not only those of the first and those that a plan ranked."""
    across_queues = False
    """As long as the share lets the order decide, rows of all leaves compete."""
    remote_penalty = -1.0
    """What part of its score a node loses that is not the one asked for; negative: asks wait for nodes as in YARN."""
    srpt_weight = 0.0
    """Where rows compete, what the work left weighs beside the packing score."""
    overbook: Mapping[str, float] = MappingProxyType({})
    """How many times what a node has may be given out, of resources that the RM does not count."""
    scarcity = False
    """Nodes are spared that contended classes need (`Scratch.needs`)."""


STARTED: Final = -1
"""``APPLICATION.master_since_ms`` of one that has asked for something."""
ACTIVE: Final = 1
"""`treadle.events.ApplicationState.ACTIVE`."""


@inner
def waits_for_master(view: View, app: int) -> bool:
    """Say whether an application's AM has no container, neither allocated nor proposed."""
    if view.apps[app].state != ACTIVE or not view.apps[app].awaiting_am:
        return False
    return bool(view.apps[app].pending > view.apps[app].assumed_count and view.apps[app].first_row >= 0)


@inner
def is_starting(view: View, app: int, now_ms: int, timeout_ms: int) -> bool:
    """Say whether an application's AM has its container, has asked for nothing yet, and is not late."""
    if view.apps[app].state != ACTIVE:
        view.apps[app].master_since_ms = 0
        return False
    if view.apps[app].awaiting_am:
        view.apps[app].master_since_ms = 0
        return not waits_for_master(view, app)
    if view.apps[app].pending > 0 or view.apps[app].first_group >= 0:
        view.apps[app].master_since_ms = STARTED
    if view.apps[app].master_since_ms == STARTED:
        return False
    # A clock that stepped back must not let it start for longer.
    if view.apps[app].master_since_ms == 0 or view.apps[app].master_since_ms > now_ms:
        view.apps[app].master_since_ms = now_ms
    return bool(now_ms - view.apps[app].master_since_ms < timeout_ms)


@inner
def is_allowed(view: View, totals: F64, headroom: I64, app: int, row: int, decide: int) -> bool:
    """Say whether an application's AM would stay within its queues' maxima and its user's limit."""
    leaf, partition = view.apps[app].queue, view.rows[row].partition
    if leaf < 0 or not view.limit_known[leaf, partition]:
        return False
    if view.apps[app].backoff_until > decide or view.rows[row].backoff_until > decide:
        return False
    user = find(view.user_index, pair(leaf * MAX_PARTITIONS + partition, view.apps[app].user))
    if user >= 0 and is_over_limit(view, totals, user, leaf, partition):
        return False
    headroom_under_maxima(view, headroom, leaf, partition)
    return refused(view, headroom, 0, app, row, user) == 0


@inner
def master_fits_on(view: View, row: int, node: int, decide: int) -> bool:
    """Say whether a node has room for an AM's row, and is held for no other."""
    if view.nodes[node].state != 1 or view.nodes[node].partition != view.rows[row].partition:
        return False
    if view.nodes[node].backoff_until > decide or (view.nodes[node].hold_row >= 0 and view.nodes[node].hold_row != row):
        return False
    fits = True
    for r in range(len(view.counted)):
        free = view.node_amounts[node, FREE, r] - view.node_amounts[node, ASSUMED, r]
        fits = fits and (not view.counted[r] or free >= view.capability[row, r])
    return fits


@inner
def finds_node(view: View, nowhere: I64, row: int, decide: int) -> bool:
    """Say whether some node has room for an AM's row.

    ``nowhere`` has for each partition the last ask that found none, so that not each AM looks at all nodes.
    """
    known, partition = True, view.rows[row].partition
    for r in range(len(view.counted)):
        known = known and view.capability[row, r] >= nowhere[partition, r]
    if known:
        return False
    for node in range(len(view.nodes)):
        if master_fits_on(view, row, node, decide):
            return True
    for r in range(len(view.counted)):
        nowhere[partition, r] = view.capability[row, r]
    return False


@kernel
def hold_masters(view: View, rows: Records, which: I32, now_ms: int, timeout_ms: int, waiting: I32, found: I64) -> None:
    """Hold the masters of those of some applications back that have no container, and list these.

    Sets ``found`` to how many these are, how many AMs start, and when the first of these is late (`NEVER`: none).
    """
    found[0] = found[1] = 0
    found[2] = NEVER
    for app in which:
        if is_starting(view, app, now_ms, timeout_ms):
            found[1] += 1
            if view.apps[app].master_since_ms > 0:
                found[2] = min(found[2], view.apps[app].master_since_ms + timeout_ms)
        if waits_for_master(view, app):
            waiting[found[0]] = app
            found[0] += 1
            row = view.apps[app].first_row
            while row >= 0:
                rows[row].may = 0
                row = view.rows[row].next


@kernel
def let_masters_start(
    view: View, rows: Records, waiting: I32, slots: int, decide: int, totals: F64, headroom: I64, nowhere: I64
) -> bool:
    """Let some application masters through, the first ones of a list; say whether others are held back by that.

    Passed are those whose queue or user may have no more: no others must wait for them. Those for which no node has
    room now are let through beyond that, since the only effect in this decide is that a node is held for them.
    """
    for app in waiting:
        if slots <= 0:
            return True
        first = view.apps[app].first_row
        if not is_allowed(view, totals, headroom, app, first, decide):
            continue
        slots -= finds_node(view, nowhere, first, decide)
        row = first
        while row >= 0:
            rows[row].may = 1
            row = view.rows[row].next
    return False


class AllGate(Gate):
    """Every ask may be served at any time."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Let every row through."""
        rows["may"] = 1
