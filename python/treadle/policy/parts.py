"""What each kind of part must do; the gate that lets all asks through, and estimates by what is seen or hinted.

Treadle's own parts choose a rule that is compiled into the inner loop (`treadle.policy.loop`), or fill a column that
the loop reads. A new one is a class with one of the bases of this file, and a line in `treadle.policy.catalogue`; see
`shares.capacity` for a short example. A user's part needs no rule compiled: see `treadle.policy.user_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, I32, I64, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, pair
from treadle.config.parts import Parameters
from treadle.config.settings import Settings
from treadle.events import Event, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, MAX_PARTITIONS, View
from treadle.policy.asks import headroom_under_maxima, is_over_limit, refused
from treadle.policy.shares.tree import Shares, ShareTree, no_tree
from treadle.policy.work import Durations, Jobs, hinted_durations, observed_durations

NEVER: Final = 1 << 62


class Keeper:
    """Keeps something beside the model from decide to decide, by the model's indices, for parts that go by it.

    It is there as long as a part of the policy names its class (`PolicyPart.keeper`), whatever parameters that gets.
    """

    observes = True
    """Does it go by events?"""

    def configure(self, settings: Settings) -> None:
        """Follow other settings from now on."""

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Note an event that the model has just taken; of `Containers` ``cluster.tasks.effects`` has what each row did.

        Not called between the start of a snapshot and `follow`.
        """

    def apply(self, event: Samples, cluster: Cluster) -> None:
        """Take back the samples of an earlier engine (`samples`); raises `ModelError` for what is not possible."""

    def samples(self, cluster: Cluster) -> Samples | None:
        """Return what has changed since the last call and another engine should know; None if nothing has."""
        return None

    def begin(self, jobs: Jobs) -> None:
        """Bring it up to date, as a decide begins; those of the estimate first, then the order's."""

    def ended(self, cluster: Cluster) -> Records | None:
        """Return what has ended of each group of tasks besides what the model counts (`Scratch.ended`), if any has."""
        return None

    def summary(self, cluster: Cluster) -> str:
        """Return in a few words what it knows of classes of nodes, for the status; empty if that is nothing."""
        return ""

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Go on after a snapshot, with the model that has taken over what the one before had learned."""


Keepers = dict[type[Keeper], Keeper]


class PolicyPart:
    """What all parts have in common."""

    steps = ""
    """The file beside those of its sort with what of it is compiled into the inner loop; empty: nothing."""
    keeper: type[Keeper] | None = None
    """What it has kept beside the model."""

    def __init__(self, parameters: Any) -> None:
        """Take what treadle.yaml says of it."""

    def use(self, keepers: Keepers) -> None:
        """Take what the policy's parts keep, before anything else; of other parts too."""


class Estimate(PolicyPart):
    """How long, and how much is left?"""

    default_ms: float
    """How long a task is taken to run of which nothing is known."""

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set how long a task takes: of each request row, and of each of the cluster's groups of tasks that run.

        Both are NaN before, which means not known; ``cluster.tasks`` has the groups, ``ended`` what ended of them
        besides (`treadle.policy.state.Scratch.ended`), ``cluster.hints`` the hints.
        """


class Gate(PolicyPart):
    """May this ask be served now?"""

    due_ms = NEVER
    """When the gate must be asked again though nothing happens."""
    waits_for = ""
    """For what, in a few words, it held asks back when it was asked last; empty if it held back none."""
    sets_levels = False
    """Does it say how far asks may depart from what they prefer (`treadle.model.classes.Classes.levels`)?"""

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


class Share(PolicyPart):
    """Which queue is owed most? What compares queues is compiled (`treadle.policy.shares`)."""

    walks_queues = False
    """It compares queues that are siblings, and keeps no tree of its own."""
    compares_shares = False
    """In its tree the lower weighted share is served first."""
    rescales = False
    """Groups' vectors are rescaled, and what is saturated does not count (dynamic H-DRF)."""
    keyed = False
    """Siblings are compared by ``queues["key"]``, the smallest first."""
    tree: ShareTree | None = None
    """What to share by; None: the rule walks down the tree of the queues."""

    def shares(self, cluster: Cluster) -> Shares:
        """Return the tree to share by, and room for what the rule keeps."""
        return no_tree(len(cluster.counted)) if self.tree is None else self.tree.shares(cluster)

    def warnings(self) -> Sequence[str]:
        """Return which queues and names of a given tree do not match."""
        return () if self.tree is None else self.tree.warnings


class Order(PolicyPart):
    """Which application first?"""

    weights: Sequence[float] = ()
    """Of the levels, the first level's first, if leaves have the order `LEVELS`; else empty."""
    thresholds_ms: F64 = np.zeros(0)
    """The largest sizes of the levels but the last, in task time; empty if there are no levels."""
    sampling_level = 0
    """The level of jobs whose pilots have not ended."""

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Set ``leaves["order"]`` by queue: `FIFO`, `FAIR`, `KEYED` or `LEVELS` of `treadle.policy.state`.

        Before, it is `KEYED`, or that of the order's compiled step if it has one (`treadle.policy.orders`). For `FAIR`
        also ``leaves["sized"]``: with size-based weight or not. The rows of parents do not matter.
        """

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set ``key[application]`` (0 before) for the orders `KEYED`: least first, and `LEVELS`: the level, from 0.

        Equal keys are served by start time, then by priority and id; those of one level by priority and id.
        """


class Fit(PolicyPart):
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

    def needs(self, cluster: Cluster) -> F64:
        """Return how contended what is special about each node is, of a fit that spares such nodes; else nothing."""
        return np.zeros(0)


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
def admit_masters(
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

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Let every row through."""
        rows["may"] = 1


class NoEstimate(Estimate):
    """Durations are unknown: all tasks count the same."""

    default_ms = 1000.0


class ObservedParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run of an application none of whose tasks has ended.",
    )


class ObservedEstimate(Estimate):
    """The mean duration of the application's tasks of the same priority that ended, else of all its tasks that did."""

    def __init__(self, parameters: ObservedParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the means."""
        observed_durations(view, ended, found)


class HintsParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run for which there is no hint."
    )

    def needs(self) -> tuple[str, ...]:
        """Return the event sources of durations: the store of earlier runs, or application masters."""
        return ("profiles.store", "listener.address")


class HintsEstimate(Estimate):
    """Hints of a profile store, of AMs or of the simulator's oracle (`treadle.events.TaskEstimates`)."""

    def __init__(self, parameters: HintsParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the hints."""
        hinted_durations(view, found)
