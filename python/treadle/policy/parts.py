"""What each kind of part must do.

Treadle's own parts choose a rule that is compiled into the inner loop (`treadle.policy.loop`), or fill a column that
the loop reads. A new one is a class with one of the interfaces of this file, or of `treadle.policy.work.Estimate`, and
a line in `treadle.policy.catalogue`; see `shares.capacity` for a short example. A user's part needs no rule compiled:
see `treadle.policy.user_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from treadle.compiled.array_types import F64, Records
from treadle.events import Event, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.tables import View
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


class Gate(Protocol):
    """May this ask be served now?"""

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

    @property
    def due_ms(self) -> int:
        """When the gate must be asked again though nothing happens."""

    @property
    def waits_for(self) -> str:
        """For what, in a few words, it held asks back when it was asked last; empty if it held back none."""


class PlainGate:
    """What a gate has that lets a row through or not."""

    due_ms = NEVER
    waits_for = ""

    def know_levels(self, thresholds_ms: F64, sampling_level: int) -> None:
        """Ignore levels."""

    def mark(self, cluster: Cluster, apps: Records) -> None:
        """Leave all as it is."""

    def open_for_idle(self, rows: Records) -> bool:
        """Let nothing more through."""
        return False


class Share(Protocol):
    """Which queue is owed most? What compares queues is compiled (`treadle.policy.shares`)."""

    rescales: bool
    """Groups' vectors are rescaled, and what is saturated does not count (dynamic H-DRF)."""
    keyed: bool
    """Siblings are compared by ``queues["key"]``, the smallest first."""

    def shares(self, cluster: Cluster) -> Shares:
        """Return the tree to share by, and room for what the rule keeps; `treadle.policy.shares.tree` makes both."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know about the share."""


class PlainShare:
    """What a share has that walks down the queues themselves."""

    rescales = False
    keyed = False

    def shares(self, cluster: Cluster) -> Shares:
        """Return no tree: the rule walks down that of the queues."""
        return no_tree(len(cluster.counted))

    def warnings(self) -> Sequence[str]:
        """Return nothing."""
        return ()


class Order(Protocol):
    """Which application first?"""

    weights: Sequence[float]
    """Of the levels, the first level's first, if leaves have the order `LEVELS`; else empty."""
    thresholds_ms: F64
    """The largest sizes of the levels but the last, in task time; empty if there are no levels."""
    sampling_level: int
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


class PlainOrder:
    """What an order has that has no levels."""

    weights: Sequence[float] = ()
    thresholds_ms: F64 = np.zeros(0)
    sampling_level = 0

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Leave it at keys, or at the compiled step."""

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing."""

    def ask_keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing."""


class NodeChooser(Protocol):
    """A gate or a fit that says which nodes asks may use (`Traits.chooses_nodes`)."""

    def choose_nodes(self, cluster: Cluster, view: View, now_ms: int, sets: NodeSets) -> None:
        """Restrict rows to nodes, once a decide; of what several parts say all holds."""


class Fit(Protocol):
    """Which node for an ask?"""

    draws: bool
    """Nodes are drawn with the seed."""
    goes_round: bool
    """Each search begins after the node that the last one found, not at the first."""
    window: int
    """How many nodes on which the ask fits are compared."""
    candidates: int
    """How many rows of the leaf that is served compete for a node; 0: the order alone decides."""
    all_priorities: bool
    """Of an application rows of all priorities compete, not only those of the first and those that a plan ranked."""
    across_queues: bool
    """As long as the share lets the order decide, rows of all leaves compete."""
    remote_penalty: float
    """What part of its score a node loses that is not the one asked for; negative: asks wait for nodes as in YARN."""
    srpt_weight: float
    """Where rows compete, what the work left weighs beside the packing score."""
    overbook: Mapping[str, float]
    """How many times what a node has may be given out, of resources that the RM does not count."""
    scarcity: bool
    """Nodes are spared that contended classes need (`Scratch.needs`)."""


class PlainFit:
    """What a fit has that does nothing out of the ordinary."""

    draws = False
    goes_round = False
    window = 1
    candidates = 0
    all_priorities = False
    across_queues = False
    remote_penalty = -1.0
    srpt_weight = 0.0
    overbook: Mapping[str, float] = MappingProxyType({})
    scarcity = False
