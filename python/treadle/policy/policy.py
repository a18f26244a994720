"""A policy: five parts put together, and the loop that fills a decide with proposals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.config.part_files import FilePart, KeyedFilePart
from treadle.config.parts import PART_KINDS, Part
from treadle.config.settings import Settings
from treadle.events import Event, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.in_flight import PROPOSAL, Batch
from treadle.model.tables import View
from treadle.policy.loop import place
from treadle.policy.node_search import RULES as FITS
from treadle.policy.node_search import node_reasons
from treadle.policy.node_sets import rows_bound
from treadle.policy.orders import RULES as ORDERS
from treadle.policy.own_tags import own_tags
from treadle.policy.parts import Estimate, Fit, Gate, Keepers, Order, PolicyPart, Share
from treadle.policy.reasons import Reason
from treadle.policy.reserve import DecideCheckpoint, Holds
from treadle.policy.shares.rules import RULES as SHARES
from treadle.policy.state import (
    BUNDLE,
    CLUSTER,
    CURSOR,
    DELAYED,
    KEYED,
    PLACED,
    UNBOUNDED,
    DecideParameters,
    Scratch,
    reset_row_records,
    scratch_for,
    set_bands,
    take_keys,
)
from treadle.policy.user_parts import (
    Calls,
    ClusterView,
    FileEstimate,
    FileFit,
    FileGate,
    FileOrder,
    FileShare,
    PartFailure,
    Watch,
    unwatched,
)
from treadle.policy.work import Jobs, add_up_nodes, charge, floor_claims, note_use

ALL_AT_ONCE: Final = 1 << 62


class Opened(NamedTuple):
    """What is said of each request row and the order's keys, before what is held back is let through.

    `restore` restores them, so that whoever reads the decide's arrays finds why an ask was not served.
    """

    rows: Records
    key: F64

    def restore(self, scratch: Scratch) -> None:
        """Restore them."""
        for name in ("may", "quota", "why", "age"):
            scratch.rows[name] = self.rows[name]
        scratch.apps["key"] = self.key


NO_STEP: Final = -1
"""Of a fit: it scores no nodes."""

NODE_LOCALITY_DELAY = 40
"""YARN's default of yarn.scheduler.capacity.node-locality-delay."""

HEARTBEAT_MS = 1000
"""YARN's default of yarn.resourcemanager.nodemanagers.heartbeat-interval-ms."""

Fallback = Callable[[PartFailure], Settings]
"""What to follow after a part has failed. Raises what it is given when there is nothing else."""


def integer(settings: dict[str, str], key: str, default: int) -> int:
    """Return a setting of the RM as an integer; what is none counts as not set."""
    try:
        return int(settings.get(key, default))
    except ValueError:
        return default


def no_fallback(failure: PartFailure) -> Settings:
    """Follow nothing else: raise the failure."""
    raise failure


class Policy:
    """Answers who gets what where, by five parts; any goes with any. Outlives the models that snapshots make."""

    def __init__(self, settings: Settings, fallback: Fallback = no_fallback, watch: Watch = unwatched) -> None:
        self._scratch: Scratch | None = None
        self._fallback = fallback
        self._calls = Calls(watch)
        self._kept: Keepers = {}
        """What parts keep beside the model; of earlier parts too, as long as those that run may give way to them."""
        self.holds = Holds()
        self._delayed = False
        self._decided: tuple[Cluster, DecideParameters] | None = None
        try:
            self.configure(settings)
        except PartFailure as failure:
            self._follow_another(failure)

    def configure(self, settings: Settings) -> None:
        """Use other parts from now on; what is held stays held, and what parts keep if they are of its kind.

        Raises:
            PartFailure: one of them cannot be made; those of before stay.
        """
        chosen = settings.policy
        gate: Gate = self._make(chosen.gate)
        order: Order = self._make(chosen.order)
        gate.know_levels(order.thresholds_ms, order.sampling_level)
        estimate: Estimate = self._make(chosen.estimate)
        share: Share = self._make(chosen.share)
        fit: Fit = self._make(chosen.fit)
        self._settings = settings
        self.gate, self.order, self.estimate, self.share, self.fit = gate, order, estimate, share, fit
        parts: list[PolicyPart] = [estimate, order, gate, fit]
        self._keepers: Keepers = {
            part.keeper: self._kept.get(part.keeper) or part.keeper() for part in parts if part.keeper
        }
        """Those of these parts, in the order in which they are brought up to date."""
        for keeper in self._keepers.values():
            keeper.configure(settings)
        for part in parts:
            part.use(self._keepers)
        may_fail = any(isinstance(getattr(chosen, part).parameters, FilePart) for part in PART_KINDS)
        self._kept = (self._kept if may_fail else {}) | self._keepers
        self._restricts = False
        self._not_overbooked: tuple[str, ...] = ()
        self._overbooks: Mapping[int, float] = {}
        self.jobs: Jobs | None = None
        """Those of the latest decide."""
        self._durations_ms: F64 = np.zeros(0)
        keyed = [part.parameters for part in (chosen.share, chosen.order, chosen.fit)]
        after = [parameters.recompute_after for parameters in keyed if isinstance(parameters, KeyedFilePart)]
        self._recompute_after = min(after, default=ALL_AT_ONCE)
        """Containers placed before `_fill` must be called again."""
        self._from_files = isinstance(chosen.gate.parameters, FilePart) or bool(after)

    def _make(self, part: Part) -> Any:
        return part.make(self._calls) if isinstance(part.parameters, FilePart) else part.make()

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know about the policy on this cluster."""
        return (*self.share.warnings(), *self._not_overbooked)

    def waits_for(self) -> str:
        """Return for what asks are held back on purpose that the RM would serve, in a few words; empty if none is."""
        overbook = "room within the bounds of overbook" if self._overbooks else ""
        headroom = "room for the largest ask too" if self._settings.hold.headroom else ""
        nodes = "nodes that asks may use" if self._restricts else ""
        held = "a held node" if len(self.holds) else ""
        return ", ".join(filter(None, (self.gate.waits_for, overbook, headroom, nodes, held)))

    @property
    def latest(self) -> Scratch | None:
        """What the latest decide has kept, None before the first; to be read only."""
        return self._scratch

    def latest_on(self, cluster: Cluster) -> Scratch | None:
        """Return `latest` if that decide was made on this model, else None; a snapshot brings another one."""
        return self._scratch if self._decided is not None and self._decided[0] is cluster else None

    def node_reasons(self, cluster: Cluster, view: View, row: int) -> U8:
        """Return what is against each node for a request row (`NodeReason`), as the latest decide left it."""
        found, scratch = np.zeros(len(view.nodes), np.uint8), self.latest_on(cluster)
        if self._decided is not None and scratch is not None and row < len(scratch.rows):
            node_reasons(view, scratch, self._decided[1], row, found)
        return found

    @property
    def observes(self) -> bool:
        """Whether it keeps anything beside the model for which it must see events."""
        return any(keeper.observes for keeper in self._kept.values())

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Note an event that the model has just taken, if it `observes`; not while a snapshot comes."""
        for keeper in self._kept.values():
            keeper.observe(event, cluster)

    def apply(self, event: Samples, cluster: Cluster) -> None:
        """Take back the samples of an earlier engine; raises `ModelError` for a number that is not possible."""
        for keeper in self._kept.values():
            keeper.apply(event, cluster)

    def contention(self, cluster: Cluster) -> str:
        """Return in a few words how contended classes of nodes are, and what was given up; empty if nobody asks."""
        if not cluster.classes.active:
            return ""
        return "; ".join(filter(None, (keeper.summary(cluster) for keeper in self._keepers.values())))

    def samples(self, cluster: Cluster) -> Samples | None:
        """Return what another engine should know of what this one keeps, as far as it has changed; else None."""
        found = (keeper.samples(cluster) for keeper in self._kept.values())
        return next((samples for samples in found if samples is not None), None)

    def follow(self, old: Cluster, cluster: Cluster, carried: Carried) -> None:
        """Go on after a snapshot, with the model that it has made, which has taken over what the old one had."""
        nodes = carried.nodes
        for keeper in self._kept.values():
            keeper.follow(old, cluster, carried)
        self.holds.follow(cluster, nodes)
        if self._scratch is not None:
            counters = self._scratch.counters
            counters[BUNDLE] = _new_index(nodes, int(counters[BUNDLE]))
            counters[CURSOR] = _new_index(nodes, int(counters[CURSOR]) - 1) + 1  # it is one after the node chosen last

    def waits(self, now_ms: int) -> bool:
        """Say whether time alone may change the next answer: a row waits for a nearer node, or the gate is due."""
        return self._delayed or now_ms >= self.gate.due_ms

    def decide(
        self, cluster: Cluster, view: View, now_ms: int, limit: int, stop_at: int = 0, *, commits: bool = True
    ) -> Batch:
        """Return at most ``limit`` proposals, which are assumed in the columns already.

        When a part fails, what has been proposed stays, and the parts of the fallback go on from there. `note_use`
        must follow.

        Args:
            cluster: the model
            view: its tables
            now_ms: the RM's time
            limit: how many proposals there may be
            stop_at: the call to a part from a file that was stopped when these events came first (0: none)
            commits: whether the proposals may be committed; without, nothing else that they change outlives the call
        """
        cluster.apps.sort()
        self._calls.begin(stop_at)
        out, asked = np.zeros(limit, PROPOSAL), np.zeros((limit, len(cluster.counted)), np.int64)
        self._scratch = self._new_scratch(cluster, out, asked)
        before = None if commits else DecideCheckpoint(view, self._scratch)
        while True:
            try:
                parameters = self._place(cluster, view, self._scratch, now_ms)
                break
            except PartFailure as failure:
                self._follow_another(failure)
                placed = self._scratch.counters[PLACED]
                self._scratch = self._new_scratch(cluster, out, asked)
                self._scratch.counters[PLACED] = placed
        self._decided = cluster, parameters
        self._delayed = bool(self._scratch.counters[DELAYED])
        placed = int(self._scratch.counters[PLACED])
        if before is None:
            self.holds.choose(view, self._scratch, parameters, self._settings.hold)
        else:
            before.restore(view, self._scratch, out[:placed])
        return Batch(out[:placed].copy(), asked[:placed].copy(), cluster.decide, now_ms, placed)

    def note_use(self, cluster: Cluster, view: View) -> None:
        """Note what applications use from now on, after a decide: what is assumed counts, what is given up does not."""
        assert self._scratch is not None
        note_use(view.apps, view.app_amounts, view.counted, cluster.apps.in_use(), self._scratch.rates[CLUSTER])
        cluster.apps.drop_ended()

    def _follow_another(self, failure: PartFailure) -> None:
        """Use the parts that the fallback names; ask it again if they cannot be made either."""
        while True:
            settings = self._fallback(failure)
            try:
                self.configure(settings)
                return
            except PartFailure as another:
                failure = another

    def _new_scratch(self, cluster: Cluster, out: Records, asked: I64) -> Scratch:
        """Return the arrays of the inner loop, with room for an answer; what outlives a decide is that of the last."""
        leaves = len(cluster.queues.at) if self.fit.across_queues else 1
        return scratch_for(
            cluster,
            self.share.shares(cluster),
            self._scratch,
            out,
            asked,
            self.order.weights,
            self._overbooked(cluster),
            self.fit.candidates * leaves,
            self._settings.hold.headroom,
            counts_asks=not self.share.walks_queues,
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

    def _place(self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int) -> DecideParameters:
        """Fill the answer up from wherever it is; return the numbers that it was done by."""
        parameters = self._parameters(cluster, view, scratch, now_ms)
        self._scratch = scratch = self._begin(cluster, view, now_ms, scratch)
        if parameters.root < 0:
            return parameters
        most = len(scratch.out)
        for partition in range(len(cluster.names.partitions)):
            end = 0
            while end < most:
                if self._recompute_after < ALL_AT_ONCE:  # a share, an order or a fit is from a file
                    scratch = self._fill(cluster, now_ms, partition, scratch)
                end = min(most, int(scratch.counters[PLACED]) + self._recompute_after)
                if place(view, scratch, parameters, partition, end) < end:
                    break
        _place_shared(cluster, view, scratch, parameters)
        opened = self._open_for_idle(scratch) if scratch.counters[PLACED] < most else None
        if opened is not None:
            for partition in range(len(cluster.names.partitions)):
                place(view, scratch, parameters, partition, most)
            _place_shared(cluster, view, scratch, parameters)
            opened.restore(scratch)
        return parameters

    def _begin(self, cluster: Cluster, view: View, now_ms: int, scratch: Scratch) -> Scratch:
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
        for keeper in self._keepers.values():
            ended = keeper.ended(cluster)
            scratch = scratch if ended is None else scratch._replace(ended=ended)
        if cluster.hints.has_claims:
            default_ms, part = float(self.estimate.default_ms), float(self._settings.plans.claims_part)
            floor_claims(view, scratch.ended, cluster.hints.size, now_ms, default_ms, part)
        self.gate.mark(cluster, scratch.apps)
        jobs = self.jobs = Jobs(
            cluster, view, self.estimate.durations, float(self.estimate.default_ms), scratch, now_ms, self._overbooks
        )
        if isinstance(self.estimate, FileEstimate):
            self._durations_ms = np.full(cluster.requests.size, np.nan)
            self.estimate.ask(self.cluster_view(cluster, now_ms, 0))
        if not self.gate.sets_levels:
            cluster.classes.forget_levels()
        for keeper in self._keepers.values():
            keeper.begin(jobs)
        if self.fit.keeper is not None:
            scratch = scratch._replace(needs=self.fit.needs(cluster))
        if self._from_files:
            self._durations_ms = jobs.durations().rows_ms[: cluster.requests.size]
        self._ask_gate(cluster, view, now_ms, scratch)
        key, queues, here = np.zeros(len(view.apps)), scratch.queues[:-1], cluster.apps.in_use()
        queues["order"] = ORDERS.get(self.order.steps, KEYED)
        self.order.orders(cluster, queues)
        if not self._settings.policy.ignore_priority:
            set_bands(scratch.apps, here, view.apps, cluster.queues.at["order"])
        self.order.keys(jobs, key)
        take_keys(scratch.apps, here, key)
        if self.fit.candidates > 0:
            scratch.apps["work"][here] = jobs.work()[here]
        return self._choose_nodes(cluster, view, scratch)

    def _ask_gate(self, cluster: Cluster, view: View, now_ms: int, scratch: Scratch) -> None:
        """Let the gate say what may be served now."""
        reset_row_records(scratch.rows, UNBOUNDED)
        if isinstance(self.gate, FileGate):
            self.gate.fill(self.cluster_view(cluster, now_ms, 0), scratch.rows["may"])
        else:
            self.gate.open(cluster, view, now_ms, scratch.rows)
            self.gate.mark(cluster, scratch.apps)
        if len(cluster.ended):
            cluster.ended = cluster.ended[:0]

    def _choose_nodes(self, cluster: Cluster, view: View, scratch: Scratch) -> Scratch:
        """Say which nodes asks may use, where constraints say that they may not use all."""
        if not cluster.classes.active:
            return scratch
        node_sets, row_nodes = cluster.classes.packed, rows_bound(cluster, view)
        self._restricts = bool((row_nodes >= 0).any())
        return scratch._replace(
            tags=own_tags(cluster, cluster.assumed.proposals()),
            node_sets=node_sets,
            row_nodes=row_nodes,
            nowhere=np.full((len(node_sets), scratch.asks.shape[1]), -1, np.int64),
            witness=np.zeros(len(node_sets), np.int32),
        )

    def _open_for_idle(self, scratch: Scratch) -> Opened | None:
        """Let through what the gate holds back from all but idle machines, by arrival.

        Returns what that overwrites; None if nothing is let through.
        """
        rows, keys = scratch.rows, scratch.apps["key"]
        before = Opened(rows.copy(), keys.copy())
        if not self.gate.open_for_idle(rows):
            return None
        keys[:] = 0.0
        return before

    def _fill(self, cluster: Cluster, now_ms: int, partition: int, scratch: Scratch) -> Scratch:
        """Ask share, order and fit for their numbers, as far as they are from files; return where they are.

        Raises:
            PartFailure: one failed.
        """
        cluster_view = self.cluster_view(cluster, now_ms, partition)
        if isinstance(self.share, FileShare):
            self.share.fill(cluster_view, scratch.queues["key"])
        if isinstance(self.order, FileOrder):
            self.order.fill(cluster_view, scratch.apps["key"])
        if isinstance(self.fit, FileFit):
            return scratch._replace(scores=self.fit.scores(cluster_view, len(cluster.nodes.at)))
        return scratch

    def cluster_view(self, cluster: Cluster, now_ms: int, partition: int) -> ClusterView:
        """Return what a part from a file sees."""
        random = np.random.default_rng((self._settings.seed, cluster.decide, self._calls.number))
        assert self.jobs is not None  # there is a decide
        return ClusterView(cluster, self.jobs, now_ms, partition, random, self._durations_ms)

    def _parameters(self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int) -> DecideParameters:
        settings, fit, share = cluster.settings, self.fit, self.share
        nodes = int(add_up_nodes(view, scratch.rates[CLUSTER]))
        return DecideParameters(
            now_ms=now_ms,
            decide=cluster.decide,
            root=cluster.queues.root(),
            cluster_nodes=max(nodes, 1),
            heartbeat_ms=max(integer(settings, "nm-heartbeat-ms", HEARTBEAT_MS), 1),
            node_delay=max(integer(settings, "node-locality-delay", NODE_LOCALITY_DELAY), 0),
            rack_delay=max(integer(settings, "rack-locality-additional-delay", -1), -1),
            fit=FITS.get(fit.steps, NO_STEP),
            draws=fit.draws,
            goes_round=fit.goes_round,
            window=fit.window,
            share=SHARES[share.steps],
            keyed_queues=share.keyed,
            walks_queues=share.walks_queues,
            compares_shares=share.compares_shares,
            rescales=share.rescales,
            candidates=fit.candidates,
            all_priorities=fit.all_priorities,
            across_queues=fit.across_queues,
            remote_penalty=float(fit.remote_penalty),
            srpt_weight=float(fit.srpt_weight),
            seed=self._settings.seed,
            lends=False,
        )


def _new_index(nodes: I32, node: int) -> int:
    return int(nodes[node]) if 0 <= node < len(nodes) else -1


def _place_shared(cluster: Cluster, view: View, scratch: Scratch, parameters: DecideParameters) -> None:
    """Give what is left idle on nodes of non-exclusive labels to the applications that the gate lets through."""
    shared = cluster.shared_partitions()
    before = scratch.rows[["why", "age"]].copy() if shared else None
    for partition in shared:
        scratch.rows["done"] = scratch.rows["nearest"] = 0
        place(view, scratch, parameters._replace(lends=True), partition, len(scratch.out))
    if before is not None:  # who gets nothing there either waits for what stood in the way where it asks, or for room
        why = scratch.rows["why"]
        waits = (why != Reason.PLACED) & ((before["why"] != Reason.TOO_LARGE) | (why == Reason.TOO_LARGE))
        for name in ("why", "age"):
            scratch.rows[name][waits] = before[name][waits]
