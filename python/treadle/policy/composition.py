"""The parts of a policy, put together for a cluster, and what they decide with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from treadle.compiled.array_types import F64, I32, U8
from treadle.config.part_files import FilePart, KeyedFilePart
from treadle.config.parts import QUESTIONS, Part
from treadle.config.settings import Settings
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.claims import floor_claims
from treadle.policy.cluster_view import ClusterView
from treadle.policy.contention import Contention
from treadle.policy.marks import begin_rows, set_bands, take_keys
from treadle.policy.node_sets import sets_for
from treadle.policy.orders.rules import RULES as ORDERS
from treadle.policy.own_tags import own_tags
from treadle.policy.parts import NEVER, Fit, Gate, Keeper, NodeChooser, Order, Share, UsesKeeper, WeighsClasses
from treadle.policy.state import (
    ASKS,
    KEYED,
    UNBOUNDED,
    Scratch,
    scratch_for,
)
from treadle.policy.user_parts import (
    Calls,
    FileEstimate,
    FileFit,
    FileGate,
    FileOrder,
    FileShare,
)
from treadle.policy.work import Estimate, Jobs, charge

ALL_AT_ONCE: Final = 1 << 62


class Opened(NamedTuple):
    """The gate's word on each request row and the order's on each application, before what is held back is let through.

    `put_back` restores them, so that whoever reads the decide's arrays finds why an ask was not served.
    """

    may: U8
    quota: I32
    key: F64

    def put_back(self, scratch: Scratch) -> None:
        """Restore them."""
        scratch.rows["may"], scratch.rows["quota"], scratch.apps["key"] = self


class Composition:
    """Five parts; any goes with any."""

    # A default, as recordings that were made before this setting existed have none.
    _keeps_headroom: bool = False

    def __init__(
        self, settings: Settings, calls: Calls, keeper: Keeper | None = None, contention: Contention | None = None
    ) -> None:
        """Make the parts; a gate of the kind that ``keeper`` is of goes on with what that has kept.

        So do parts that go by how contended classes of nodes are with what ``contention`` knows.

        Raises:
            PartFailure: one from a file cannot be made.
        """
        self._calls = calls
        self._seed = settings.seed
        self._claims_part = float(settings.plans.claims_part)
        self._keeps_headroom = settings.hold.headroom
        self._ignores_priority = settings.policy.ignore_priority
        chosen = settings.policy
        self._gate: Gate | FileGate = self._make(chosen.gate)
        self.order: Order = self._make(chosen.order)
        if not isinstance(self._gate, FileGate):
            self._gate.know_levels(self.order.thresholds_ms, self.order.sampling_level)
        self._estimate: Estimate = self._make(chosen.estimate)
        self.share: Share = self._make(chosen.share)
        self.fit: Fit = self._make(chosen.fit)
        self.traits = {part: getattr(chosen, part).kind.traits for part in QUESTIONS}
        self.keeper = self._keeper(keeper)
        made = {"gate": self._gate, "fit": self.fit}
        self._choosers: list[NodeChooser] = [
            cast(NodeChooser, made[part])
            for part in made
            if self.traits[part].chooses_nodes and not self.traits[part].weighs_classes
        ]
        self.contention = self._weigh(settings, contention)
        self._restricts = False
        self._not_overbooked: tuple[str, ...] = ()
        self._overbooks: Mapping[int, float] = {}
        self._jobs: Jobs | None = None
        self._durations_ms: F64 = np.zeros(0)
        self._from_files = isinstance(chosen.gate.parameters, FilePart)
        keyed = [part.parameters for part in (chosen.share, chosen.order, chosen.fit)]
        after = [parameters.recompute_after for parameters in keyed if isinstance(parameters, KeyedFilePart)]
        self.recompute_after = min(after, default=ALL_AT_ONCE)
        """Containers placed before `fill` must be called again."""
        self._from_files |= bool(after)
        self.may_fail = any(isinstance(getattr(chosen, part).parameters, FilePart) for part in QUESTIONS)
        """Is any part from a file?"""

    def _keeper(self, old: Keeper | None) -> Keeper | None:
        """Return the keeper of the gate's table, the old one if it is of that kind, and let parts use it."""
        kind = self.traits["gate"].keeper
        keeper: Keeper | None = None if kind is None else old if isinstance(old, kind) else kind()
        for part, made in {"gate": self._gate, "estimate": self._estimate}.items():
            if self.traits[part].uses_keeper:
                cast(UsesKeeper, made).use(keeper)
        return keeper

    def _weigh(self, settings: Settings, old: Contention | None) -> Contention | None:
        """Return what knows how contended classes of nodes are, if a part goes by it, and let parts use it."""
        weighing: list[Any] = [self._gate] if self.traits["gate"].weighs_classes else []
        weighing += [self.order] if self.traits["order"].weighs_classes else []
        if not weighing and not self.fit.scarcity:
            return None
        contention = old or Contention()
        contention.kinds = settings.constraints.kinds
        for part in weighing:
            cast(WeighsClasses, part).weigh(contention)
        return contention

    def _make(self, part: Part) -> Any:
        return part.make(self._calls) if isinstance(part.parameters, FilePart) else part.make()

    @property
    def asks_python(self) -> bool:
        """Is there a share, an order or a fit from a file?"""
        return self.recompute_after < ALL_AT_ONCE

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know about the policy on this cluster."""
        return (*self.share.warnings(), *self._not_overbooked)

    def scratch(self, cluster: Cluster, old: Scratch | None) -> Scratch:
        """Return the arrays of the inner loop for these parts; what outlives a decide is that of ``old``."""
        shares, overbooked = self.share.shares(cluster), self._overbooked(cluster)
        ranks_asks, leaves = self.traits["order"].ranks_asks, len(cluster.queues.at) if self.fit.across_queues else 1
        candidates = self.fit.candidates * leaves
        return scratch_for(
            cluster,
            shares,
            old,
            self.order.weights,
            overbooked,
            candidates,
            ranks_asks,
            self._keeps_headroom,
            counts_asks=not self.traits["share"].walks_queues,
        )

    def _overbooked(self, cluster: Cluster) -> dict[int, float]:
        """Return the resources that the fit overbooks, and how many times; note those that it cannot."""
        overbooked, warnings = {}, []
        for name, factor in self.fit.overbook.items():
            if name not in cluster.types.names:
                warnings.append(f"{name} cannot be overbooked: the cluster has no such resource")
            elif cluster.counted[cluster.types.names.index(name)]:
                warnings.append(f"{name} cannot be overbooked: the ResourceCalculator counts it")
            else:
                overbooked[cluster.types.names.index(name)] = factor
        self._not_overbooked, self._overbooks = tuple(warnings), overbooked
        return overbooked

    def begin(self, cluster: Cluster, view: View, now_ms: int, scratch: Scratch) -> Scratch:
        """Let those speak that are asked once a decide: estimate, gate, and orders that are compiled.

        Adds up the service attained up to now. Returns the arrays of the inner loop with the nodes that asks may use.

        Raises:
            PartFailure: one failed.
        """
        elapsed_ms = max(now_ms - cluster.charged_ms, 0) if cluster.charged_ms >= 0 else 0
        charge(view.apps, cluster.apps.in_use(), elapsed_ms)
        if len(cluster.ended):
            charge(cluster.ended, np.arange(len(cluster.ended), dtype=np.int32), elapsed_ms)
        cluster.charged_ms = now_ms
        if self.keeper is not None:
            scratch = scratch._replace(ended=self.keeper.ended(cluster))
        if cluster.hints.has_claims:
            default_ms = float(self._estimate.default_ms)
            floor_claims(view, scratch.ended, cluster.hints.size, now_ms, default_ms, self._claims_part)
        if not isinstance(self._gate, FileGate):
            self._gate.mark(cluster, scratch.apps)
        self._jobs = Jobs(cluster, view, self._estimate, scratch, now_ms, self._overbooks)
        if isinstance(self._estimate, FileEstimate):
            self._durations_ms = np.full(cluster.requests.size, np.nan)
            self._estimate.ask(self._cluster_view(cluster, now_ms, 0))
        if self._from_files:
            self._durations_ms = self._jobs.durations().rows_ms[: cluster.requests.size]
        scratch = self._weigh_classes(cluster, view, scratch, self._jobs)
        rows = scratch.rows
        begin_rows(rows, UNBOUNDED)
        if isinstance(self._gate, FileGate):
            self._gate.fill(self._cluster_view(cluster, now_ms, 0), rows["may"])
        else:
            self._gate.open(cluster, view, now_ms, rows)
            self._gate.mark(cluster, scratch.apps)
        if len(cluster.ended):
            cluster.ended = cluster.ended[:0]
        key = np.zeros(len(view.apps))
        queues = scratch.queues[:-1]
        ranks_asks = self.traits["order"].ranks_asks
        queues["order"] = ASKS if ranks_asks else ORDERS.get(self.traits["order"].steps, KEYED)
        self.order.orders(cluster, queues)
        if not self._ignores_priority:
            here = cluster.apps.in_use()
            set_bands(scratch.apps, here, view.apps, cluster.queues.at["order"])
        if ranks_asks:
            self.order.ask_keys(self._jobs, scratch.ask_keys)
            scratch.ask_keys[np.isnan(scratch.ask_keys)] = np.inf
        self.order.keys(self._jobs, key)
        take_keys(scratch.apps, cluster.apps.in_use(), key)
        if self.fit.candidates > 0:
            here = cluster.apps.in_use()
            scratch.apps["work"][here] = self._jobs.work()[here]
        return self._choose_nodes(cluster, view, now_ms, scratch)

    def _weigh_classes(self, cluster: Cluster, view: View, scratch: Scratch, jobs: Jobs) -> Scratch:
        """Find out how contended classes of nodes are, if a part goes by it."""
        if not self.traits["gate"].weighs_classes:
            cluster.classes.forget_levels()
        if self.contention is None:
            return scratch
        self.contention.update(cluster, view, jobs.row_ms(), jobs.now_ms)
        return scratch._replace(needs=self.contention.needs(cluster)) if self.fit.scarcity else scratch

    def _choose_nodes(self, cluster: Cluster, view: View, now_ms: int, scratch: Scratch) -> Scratch:
        """Say which nodes asks may use: by their constraints, and by parts that choose any."""
        classes = cluster.classes
        if not self._choosers and not classes.active:
            return scratch
        if classes.active:
            scratch = scratch._replace(tags=own_tags(cluster, cluster.assumed.proposals()))
        sets = sets_for(cluster, view)
        for part in self._choosers:
            part.choose_nodes(cluster, view, now_ms, sets)
        self._restricts = bool((sets.row_nodes >= 0).any())
        nowhere = np.full((len(found := sets.sets()), scratch.asks.shape[1]), -1, np.int64)
        witness = np.zeros(len(found), np.int32)
        return scratch._replace(node_sets=found, row_nodes=sets.row_nodes, nowhere=nowhere, witness=witness)

    def open_for_idle(self, scratch: Scratch) -> Opened | None:
        """Let through what the gate holds back from all but idle machines, by arrival.

        Returns what that overwrites; None if nothing is let through.
        """
        if isinstance(self._gate, FileGate):
            return None
        rows, keys = scratch.rows, scratch.apps["key"]
        before = Opened(rows["may"].copy(), rows["quota"].copy(), keys.copy())
        if not self._gate.open_for_idle(rows):
            return None
        keys[:] = 0.0
        scratch.ask_keys[:] = 0.0
        return before

    @property
    def due_ms(self) -> int:
        """When the gate must be asked again though nothing happens."""
        return NEVER if isinstance(self._gate, FileGate) else self._gate.due_ms

    @property
    def gate_waits_for(self) -> str:
        """For what the gate holds asks back, in a few words; empty if it does not, and of a gate from a file."""
        return "" if isinstance(self._gate, FileGate) else self._gate.waits_for

    def waits_for(self) -> list[str]:
        """Return for what asks are held back on purpose that the RM would serve."""
        overbook = "room within the bounds of overbook" if self._overbooks else ""
        headroom = "room for the largest ask beside it" if self._keeps_headroom else ""
        nodes = "nodes that asks may use" if self._restricts else ""
        return list(filter(None, (self.gate_waits_for, overbook, headroom, nodes)))

    def fill(self, cluster: Cluster, now_ms: int, partition: int, scratch: Scratch) -> Scratch:
        """Ask share, order and fit for their numbers, as far as they are from files; return where they are.

        Raises:
            PartFailure: one failed.
        """
        cluster_view = self._cluster_view(cluster, now_ms, partition)
        if isinstance(self.share, FileShare):
            self.share.fill(cluster_view, scratch.queues["key"])
        if isinstance(self.order, FileOrder):
            self.order.fill(cluster_view, scratch.apps["key"])
        if isinstance(self.fit, FileFit):
            return scratch._replace(scores=self.fit.scores(cluster_view, len(cluster.nodes.at)))
        return scratch

    def _cluster_view(self, cluster: Cluster, now_ms: int, partition: int) -> ClusterView:
        random = np.random.default_rng((self._seed, cluster.decide, self._calls.number))
        assert self._jobs is not None  # there is a decide
        return ClusterView(cluster, self._jobs, now_ms, partition, random, self._durations_ms)
