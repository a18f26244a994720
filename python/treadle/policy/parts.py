"""Interfaces of the five kinds of parts; the gate that admits everything, and estimates from observation or hints.

Built-in parts select a rule that is compiled into the inner loop (`treadle.policy.loop`), or fill a column that the
loop reads. To add one, derive a class from a base in this file and give it a kind: it is then in `BUILTIN_PARTS`. See
`shares.capacity` for a short example. A custom part needs no compiled rule: see `treadle.policy.user_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import DURATIONS, TASK_ESTIMATES, NoParameters, Parameters, Traits
from treadle.config.settings import Settings
from treadle.events import ApplicationState, Event, LearnedState, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.shares.tree import Shares, ShareTree, no_tree
from treadle.policy.work import Durations, Jobs, hinted_durations, observed_durations

NEVER: Final = 1 << 62
ACTIVE: Final = int(ApplicationState.ACTIVE)


class Keeper:
    """State across cycles outside the model, by the model's indices, for the parts that use it.

    It exists while a part of the policy names its class (`PolicyPart.keeper`), for any parameters of that part.
    """

    observes = True
    """Whether it needs events."""

    def configure(self, settings: Settings) -> None:
        """Use other settings from now on."""

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Process an event after the model; for `Containers`, ``cluster.groups.effects`` has a row per effect.

        Not called between the start of a snapshot and `follow`.
        """

    def apply(self, event: Samples | LearnedState, cluster: Cluster) -> None:
        """Restore the state of an earlier engine (see `samples`, `learned`); raises `ModelError` if it is invalid."""

    def samples(self, cluster: Cluster) -> Samples | None:
        """Return the changes since the last call that another engine needs to continue; None if there are none."""
        return None

    def learned(self, cluster: Cluster) -> LearnedState | None:
        """Return the state with which the next process can continue; None if there is none."""
        return None

    def begin(self, jobs: Jobs) -> None:
        """Update the state at the start of a cycle; keepers of the estimate come first, then the order's."""

    def ended(self, cluster: Cluster) -> Records | None:
        """Return ended tasks by group that the model does not count (`Scratch.ended`); None without any."""
        return None

    def summary(self, cluster: Cluster) -> str:
        """Return a short text about node classes for the status; empty if there is nothing to show."""
        return ""

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Continue after a snapshot with the new model, which has already taken over its own learned state."""


Keepers = dict[type[Keeper], Keeper]


class BuiltinPart(NamedTuple):
    """A built-in part."""

    part: str
    """One of `treadle.config.parts.PART_KINDS`."""
    kind: str
    make: type[PolicyPart]
    parameters: type[Parameters]
    traits: Traits


BUILTIN_PARTS: Final[list[BuiltinPart]] = []
"""The built-in parts of all imported modules; `treadle.policy.catalogue` imports all that have some."""
BY_DURATIONS: Final = Traits(estimates=(DURATIONS,))
BY_PILOTS: Final = Traits(by_pilots=True)
FOLLOWS: Final = Traits(overrides=False)


class PolicyPart:
    """Base of all parts."""

    part: ClassVar[str]
    steps = ""
    """Name of its compiled steps: a file of `treadle.policy.shares`, or a key of its kind's `RULES`; empty: none."""
    keeper: type[Keeper] | None = None
    """The class of its state outside the model, if any."""
    kept: Any = None
    """That state."""

    def __init_subclass__(
        cls, kind: str = "", parameters: type[Parameters] = NoParameters, traits: Traits | None = None
    ) -> None:
        """Add a part with a kind to the built-in ones."""
        if kind:
            BUILTIN_PARTS.append(BuiltinPart(cls.part, kind, cls, parameters, traits or Traits()))

    def __init__(self, parameters: Any) -> None:
        """Create the part with its parameters from treadle.yaml."""

    def use(self, keepers: Keepers) -> None:
        """Receive the state of all parts of the policy; called before any other method."""
        self.kept = keepers[self.keeper] if self.keeper else None


class Estimate(PolicyPart):
    """Estimates how long tasks run."""

    part = "estimate"
    default_ms: float
    """Duration of a task without an estimate, in milliseconds."""

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the task durations, in ms, of each request row and of each group of running tasks.

        Both are NaN initially, which means unknown. ``cluster.groups`` has the groups, ``ended`` their ended tasks that
        the model does not count (`treadle.policy.state.Scratch.ended`), ``cluster.hints`` the hints.
        """


class Gate(PolicyPart):
    """Decides which requests may be served now."""

    part = "gate"
    due_ms = NEVER
    """The RM's time, in ms, when the gate must be called again even without events."""
    waits_for = ""
    """Why it held requests back in the last call, as a short text; empty if it held back none."""
    sets_levels = False
    """Whether it limits how far requests may depart from their preferences (`treadle.model.nodes.Classes.levels`)."""
    opens_for_idle = False
    """Whether it may admit held requests to idle nodes (`open_for_idle`)."""

    def know_levels(self, thresholds_ms: F64, sampling_level: int) -> None:
        """Receive the order's level thresholds in ms (none for the last level), and the level of pilots.

        Called once, before anything else.
        """

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Set ``rows["may"]`` to 1 for each request row that may get containers in this cycle (initially 0).

        ``rows["quota"]`` is its maximum number, initially `UNBOUNDED`; ``rows["random"]`` 1 requests randomly drawn
        nodes.
        """

    def mark(self, cluster: Cluster, apps: Records) -> None:
        """Set ``part``, ``level`` and ``ahead`` of the cycle's applications where the gate changes them.

        Called before estimates are computed, and after `open`.
        """

    def open_for_idle(self, rows: Records) -> bool:
        """Admit only held requests that may use otherwise idle nodes; return False if there are none.

        Called after all other requests had their turn; applications are then served by arrival.
        """
        return False


class Share(PolicyPart):
    """Decides which queue comes next. The comparison of queues is compiled (`treadle.policy.shares`)."""

    part = "share"
    walks_queues = False
    """Whether it compares sibling queues, without a tree of its own."""
    compares_shares = False
    """Whether the lower weighted share in its tree is served first."""
    rescales = False
    """Whether vectors of groups are rescaled without saturated resources (dynamic H-DRF)."""
    keyed = False
    """Whether siblings are compared by ``queues["key"]``, the smallest first."""
    tree: ShareTree | None = None
    """The tree to share by; None: the tree of the queues."""

    def shares(self, cluster: Cluster) -> Shares:
        """Return the tree to share by, with the arrays of the rule."""
        return no_tree(len(cluster.counted)) if self.tree is None else self.tree.shares(cluster)

    def warnings(self) -> Sequence[str]:
        """Return warnings about queues and names of a configured tree that do not match."""
        return () if self.tree is None else self.tree.warnings


class Order(PolicyPart):
    """Decides which application of a leaf comes next."""

    part = "order"
    weights: Sequence[float] = ()
    """Weights of the levels, starting with the first, if leaves have the order `LEVELS`; else empty."""
    thresholds_ms: F64 = np.zeros(0)
    """The largest size, in ms of task time, of each level except the last; empty without levels."""
    sampling_level = 0
    """The level of jobs whose pilots have not ended."""

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Set ``leaves["order"]`` by queue: `FIFO` or `FAIR` of `model.queues`, `KEYED` or `LEVELS` of `policy.state`.

        The initial value is `KEYED`, or that of the order's compiled step (`treadle.policy.orders`). `FAIR` also uses
        ``leaves["sized"]``: 1 with size-based weight. Rows of parent queues are ignored.
        """

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set ``key[application]`` (initially 0): for `KEYED` the smallest is first, for `LEVELS` the level, from 0.

        Equal keys are served by start time, then by priority and ID; equal levels by priority and ID. The column
        ``part`` of an application is the fraction of its tasks that the gate admits: sizes are multiplied by it.
        """


class Fit(PolicyPart):
    """Decides which node serves a request."""

    part = "fit"
    draws = False
    """Whether nodes are drawn randomly, with the seed."""
    goes_round = False
    """Whether each search starts after the last node found instead of at the first node."""
    window = 1
    """Number of fitting nodes that are compared."""
    candidates = 0
    """Number of rows of the served leaf that compete for a node; 0: the order alone decides."""
    all_priorities = False
    """Whether an application's rows of all priorities compete, not only its first priority and planned rows."""
    across_queues = False
    """Whether rows of all leaves compete while the share lets the order decide."""
    remote_penalty = -1.0
    """Fraction of its score that a node loses if it is not requested; negative: requests wait for nodes as in YARN."""
    srpt_weight = 0.0
    """Weight of the remaining work relative to the packing score, where rows compete."""
    overbook: Mapping[str, float] = MappingProxyType({})
    """Overbooking factor of a node's capacity, by resource that the RM does not count."""

    def needs(self, cluster: Cluster) -> F64:
        """Return for each node how contended its special resources are, if the fit spares such nodes; else empty."""
        needs: F64 = np.zeros(0) if self.kept is None else self.kept.needs(cluster)
        return needs


class AllGate(Gate, kind="all", traits=FOLLOWS):
    """Every ask may be served at any time."""

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Admit every row."""
        rows["may"] = 1


class NoEstimate(Estimate, kind="none", traits=FOLLOWS):
    """Durations are unknown: all tasks count the same."""

    default_ms = 1000.0


class ObservedParameters(Parameters):
    """Parameters of the estimate `observed`."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run of an application none of whose tasks has ended.",
    )


class ObservedEstimate(Estimate, kind="observed", parameters=ObservedParameters):
    """The mean duration of the application's tasks of the same priority that ended, else of all its tasks that did."""

    def __init__(self, parameters: ObservedParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the means."""
        observed_durations(view, ended, found)


class HintsParameters(Parameters):
    """Parameters of the estimate `hints`."""

    default_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run for which there is no hint."
    )

    def needs(self) -> tuple[str, ...]:
        """Return the required event sources of durations: the history store, or application masters."""
        return ("history.store", "listener.address")


class HintsEstimate(Estimate, kind="hints", parameters=HintsParameters, traits=Traits(estimates=(TASK_ESTIMATES,))):
    """Hints of a profile store, of AMs or of the simulator's oracle (`treadle.events.TaskEstimates`)."""

    def __init__(self, parameters: HintsParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the hints."""
        hinted_durations(view, found)
