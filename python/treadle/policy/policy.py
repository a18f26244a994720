"""A policy: five parts, and the loop that fills a cycle with proposals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.config.part_files import FilePart
from treadle.config.parts import PART_KINDS, Part
from treadle.config.settings import Settings
from treadle.events import Event, LearnedState, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.in_flight import PROPOSAL, Batch
from treadle.model.nodes import ANY_NODE
from treadle.model.tables import View
from treadle.policy.loop import serve_partition
from treadle.policy.node_search import RULES as FITS
from treadle.policy.node_search import node_reasons
from treadle.policy.orders import RULES as ORDERS
from treadle.policy.parts import Estimate, Fit, Gate, Keepers, Order, PolicyPart, Share
from treadle.policy.shares.rules import RULES as SHARES
from treadle.policy.state import (
    BUNDLE,
    CLUSTER,
    CURSOR,
    DELAYED,
    KEYED,
    OFFERS,
    PLACED,
    SCORED,
    UNBOUNDED,
    DecideParameters,
    Reason,
    Scratch,
    own_tags,
    reset_row_records,
    scratch_for,
    set_bands,
    take_keys,
)
from treadle.policy.unserved import Holds
from treadle.policy.user_parts import Calls, ClusterView, FromFile, PartFailure, Watch
from treadle.policy.work import Jobs, add_up_nodes, charge, floor_claims, note_use

ALL_AT_ONCE: Final = 1 << 62
"""More containers than any cycle places: a partition is served in one call."""

NO_STEP: Final = -1
"""The step number of a fit that scores no nodes."""

NODE_LOCALITY_DELAY: Final = 40
"""YARN's default of yarn.scheduler.capacity.node-locality-delay."""

HEARTBEAT_MS: Final = 1000
"""YARN's default of yarn.resourcemanager.nodemanagers.heartbeat-interval-ms."""

Fallback = Callable[[PartFailure], Settings]
"""Returns the settings to use after a part failed."""


def integer(settings: dict[str, str], key: str, default: int) -> int:
    """Return a setting of the RM as an integer; an invalid one counts as not set."""
    try:
        return int(settings.get(key, default))
    except ValueError:
        return default


_KEPT_COUNTERS = [OFFERS, CURSOR, BUNDLE, SCORED]
"""Places in `Scratch.counters` that outlive a cycle."""


class DecideCheckpoint:
    """The state across cycles as of the start of a cycle, to undo proposals that are never committed (`observe_only`).

    They charge no application; `Assumed.give_up` removes those in flight.
    """

    def __init__(self, view: View, scratch: Scratch) -> None:
        """Save the state."""
        self._counters = scratch.counters[_KEPT_COUNTERS]
        self._averages = scratch.averages.copy()
        self._kept = scratch.shares.kept.copy()
        self._waiting_ms = view.rows["waiting_since_ms"].copy()
        self._waiting_offers = view.rows["waiting_since_offers"].copy()
        self._held_for = view.nodes["hold_row"].copy()
        self._holds = view.rows["hold_node"].copy()

    def restore(self, view: View, scratch: Scratch, proposed: Records) -> None:
        """Restore the state; for rows that wait for a nearer node only ``proposed`` ones: the others wait on."""
        scratch.counters[_KEPT_COUNTERS] = self._counters
        scratch.averages[:] = self._averages
        if scratch.shares.kept.shape == self._kept.shape:  # otherwise another policy took over meanwhile
            scratch.shares.kept[:] = self._kept
        rows = proposed["row"]
        view.rows["waiting_since_ms"][rows] = self._waiting_ms[rows]
        view.rows["waiting_since_offers"][rows] = self._waiting_offers[rows]
        view.nodes["hold_row"] = self._held_for
        view.rows["hold_node"] = self._holds


class Policy:
    """Decides which request gets which node, by any combination of five parts. Outlives the models of snapshots."""

    def __init__(self, settings: Settings, fallback: Fallback, watch: Watch) -> None:
        self.latest: Scratch | None = None
        """The loop's arrays of the latest cycle, None before the first; read-only."""
        self._fallback = fallback
        self._calls = Calls(watch)
        self._all_keepers: Keepers = {}
        """State of parts outside the model, including parts of an earlier policy that may return as the fallback."""
        self.holds = Holds()
        self._delayed = False
        self._latest_input: tuple[Cluster, DecideParameters] | None = None
        """Model and parameters of the latest cycle."""
        try:
            self.configure(settings)
        except PartFailure as failure:
            self._fall_back(failure)

    def configure(self, settings: Settings) -> None:
        """Use other parts from now on; reservations stay, and so does state that the new parts use.

        Raises:
            PartFailure: a part cannot be created; the old parts stay.
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
        parts: list[PolicyPart] = [estimate, order, gate, share, fit]
        self._keepers: Keepers = {
            part.keeper: self._all_keepers.get(part.keeper) or part.keeper() for part in parts if part.keeper
        }
        """The state of the current parts, in update order."""
        for keeper in self._keepers.values():
            keeper.configure(settings)
        for part in parts:
            part.use(self._keepers)
        self._has_custom_part = any(isinstance(getattr(chosen, part).parameters, FilePart) for part in PART_KINDS)
        """Only custom parts may fail."""
        self._all_keepers = (self._all_keepers if self._has_custom_part else {}) | self._keepers
        self._restricts_nodes = False
        self._not_overbooked: tuple[str, ...] = ()
        self._overbooks: Mapping[int, float] = {}
        self.jobs: Jobs | None = None
        """The jobs of the latest cycle."""
        self._durations_ms: F64 = np.zeros(0)
        self._recomputed = [part for part in (share, order, fit) if isinstance(part, FromFile)]
        """The custom parts whose numbers are computed again as containers are placed."""
        self._recompute_after = min((part.parameters.recompute_after for part in self._recomputed), default=ALL_AT_ONCE)
        """Number of placed containers after which these compute again."""

    def _make(self, part: Part) -> Any:
        return part.make(self._calls) if isinstance(part.parameters, FilePart) else part.make()

    def warnings(self) -> Sequence[str]:
        """Return warnings for the administrator about the policy on this cluster."""
        return (*self.share.warnings(), *self._not_overbooked)

    def waits_for(self) -> str:
        """Return why requests that the RM would serve are deliberately held back, as a short text; empty if none is."""
        overbook = "room within the bounds of overbook" if self._overbooks else ""
        headroom = "room for the largest ask too" if self._settings.engine_reservation.headroom else ""
        nodes = "nodes that asks may use" if self._restricts_nodes else ""
        held = "a held node" if len(self.holds) else ""
        return ", ".join(filter(None, (self.gate.waits_for, overbook, headroom, nodes, held)))

    def latest_on(self, cluster: Cluster) -> Scratch | None:
        """Return `latest` if that cycle was computed on this model, else None; a snapshot creates another model."""
        return self.latest if self._latest_input is not None and self._latest_input[0] is cluster else None

    def node_reasons(self, cluster: Cluster, view: View, row: int) -> U8:
        """Return for each node why a request row cannot use it (`NodeReason`), after the latest cycle."""
        found, scratch = np.zeros(len(view.nodes), np.uint8), self.latest_on(cluster)
        if self._latest_input is not None and scratch is not None and row < len(scratch.rows):
            node_reasons(view, scratch, self._latest_input[1], row, found)
        return found

    @property
    def observes(self) -> bool:
        """Whether its state outside the model needs events."""
        return any(keeper.observes for keeper in self._all_keepers.values())

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Process an event that the model has just applied, if it `observes`; not during a snapshot."""
        for keeper in self._all_keepers.values():
            keeper.observe(event, cluster)

    def apply(self, event: Samples | LearnedState, cluster: Cluster) -> None:
        """Restore the state of an earlier engine; raises `ModelError` if it is invalid."""
        for keeper in self._all_keepers.values():
            keeper.apply(event, cluster)

    def contention(self, cluster: Cluster) -> str:
        """Return a short text on contended node classes and dropped preferences; empty if no part uses them."""
        if not cluster.classes.active:
            return ""
        return "; ".join(filter(None, (keeper.summary(cluster) for keeper in self._keepers.values())))

    def samples(self, cluster: Cluster) -> Samples | None:
        """Return the changes that another engine needs to continue; None if there are none."""
        found = (keeper.samples(cluster) for keeper in self._all_keepers.values())
        return next((samples for samples in found if samples is not None), None)

    def learned(self, cluster: Cluster) -> LearnedState | None:
        """Return the state with which the next process can continue; None if there is none."""
        found = (keeper.learned(cluster) for keeper in self._all_keepers.values())
        return next((state for state in found if state is not None), None)

    def follow(self, old: Cluster, cluster: Cluster, carried: Carried) -> None:
        """Continue after a snapshot with the new model, which has taken over the old one's learned state."""
        nodes = carried.nodes
        for keeper in self._all_keepers.values():
            keeper.follow(old, cluster, carried)
        self.holds.follow(cluster, nodes)
        if self.latest is not None:
            counters = self.latest.counters
            counters[BUNDLE] = _new_index(nodes, int(counters[BUNDLE]))
            counters[CURSOR] = _new_index(nodes, int(counters[CURSOR]) - 1) + 1  # one after the last chosen node

    def waits(self, now_ms: int) -> bool:
        """Return whether time alone may change the next answer: a row waits for a nearer node, or the gate is due."""
        return self._delayed or now_ms >= self.gate.due_ms

    def decide(self, cluster: Cluster, view: View, now_ms: int, limit: int, stop_at: int, *, commits: bool) -> Batch:
        """Return at most ``limit`` proposals, already counted as in flight in the tables.

        If a part fails, the proposals so far stay, and the fallback's parts continue from there. Call `note_use` next.

        Args:
            cluster: the model
            view: its tables
            now_ms: the RM's time
            limit: maximum number of proposals
            stop_at: the call of a custom part that was stopped when these events were first processed (0: none)
            commits: whether the proposals may be committed; if not, their other effects end with the call
        """
        cluster.apps.sort()
        if self._has_custom_part:
            self._calls.begin(stop_at)
        out, asked = np.zeros(limit, PROPOSAL), np.zeros((limit, len(cluster.counted)), np.int64)
        self.latest = self._new_scratch(cluster, out, asked)
        before = None if commits else DecideCheckpoint(view, self.latest)
        while True:
            try:
                parameters = self._place(cluster, view, self.latest, now_ms)
                break
            except PartFailure as failure:
                self._fall_back(failure)
                placed = self.latest.counters[PLACED]
                self.latest = self._new_scratch(cluster, out, asked)
                self.latest.counters[PLACED] = placed
        self._latest_input = cluster, parameters
        self._delayed = bool(self.latest.counters[DELAYED])
        placed = int(self.latest.counters[PLACED])
        if before is None:
            self.holds.choose(view, self.latest, parameters, self._settings.engine_reservation)
        else:
            before.restore(view, self.latest, out[:placed])
        return Batch(out[:placed].copy(), asked[:placed].copy(), cluster.cycle, now_ms, placed)

    def note_use(self, cluster: Cluster, view: View) -> None:
        """Record the applications' usage after a cycle: proposals in flight count, expired ones do not."""
        assert self.latest is not None
        note_use(view.apps, view.app_amounts, view.counted, cluster.apps.in_use(), self.latest.rates[CLUSTER])
        cluster.apps.drop_ended()

    def _fall_back(self, failure: PartFailure) -> None:
        """Use the fallback's parts, or those of the next fallback if these cannot be created."""
        while True:
            settings = self._fallback(failure)
            try:
                self.configure(settings)
                return
            except PartFailure as another:
                failure = another

    def _new_scratch(self, cluster: Cluster, out: Records, asked: I64) -> Scratch:
        """Return the inner loop's arrays, with room for an answer, and with the lasting state of the last cycle."""
        leaves = len(cluster.queues.at) if self.fit.across_queues else 1
        return scratch_for(
            cluster,
            self.share.shares(cluster),
            self.latest,
            out,
            asked,
            weights=self.order.weights,
            overbook=self._overbooked(cluster),
            candidates=self.fit.candidates * leaves,
            headroom=self._settings.engine_reservation.headroom,
            counts_asks=not self.share.walks_queues,
        )

    def _overbooked(self, cluster: Cluster) -> dict[int, float]:
        """Return the overbooked resources with their factors; record those that cannot be overbooked."""
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
        """Fill the rest of the answer; return the parameters used."""
        parameters = self._parameters(cluster, view, scratch, now_ms)
        self.latest = scratch = self._begin(cluster, view, now_ms, scratch)
        if parameters.root < 0:
            return parameters
        most = len(scratch.out)
        for partition in range(len(cluster.names.partitions)):
            end = 0
            while end < most:
                if self._recomputed:
                    cluster_view = self.cluster_view(cluster, now_ms, partition)
                    for part in self._recomputed:
                        scratch = part.fill(cluster_view, scratch)
                end = min(most, int(scratch.counters[PLACED]) + self._recompute_after)
                if serve_partition(view, scratch, parameters, partition, end) < end:
                    break
        _place_shared(cluster, view, scratch, parameters)
        if scratch.counters[PLACED] < most and self.gate.opens_for_idle:
            self._place_idle(cluster, view, scratch, parameters)
        return parameters

    def _place_idle(self, cluster: Cluster, view: View, scratch: Scratch, parameters: DecideParameters) -> None:
        """Give otherwise idle nodes to held requests that the gate admits there, by arrival.

        Afterwards the arrays have the gate's first result and the order's keys again, for reports on why requests wait.
        """
        rows, key = scratch.rows.copy(), scratch.apps["key"].copy()
        if self.gate.open_for_idle(scratch.rows):
            scratch.apps["key"] = 0.0
            for partition in range(len(cluster.names.partitions)):
                serve_partition(view, scratch, parameters, partition, len(scratch.out))
            _place_shared(cluster, view, scratch, parameters)
            for name in ("may", "quota", "why", "age"):
                scratch.rows[name] = rows[name]
            scratch.apps["key"] = key

    def _begin(self, cluster: Cluster, view: View, now_ms: int, scratch: Scratch) -> Scratch:
        """Add up the service attained until now; run the estimate, the gate and the order (custom ones: `_place`).

        Returns the inner loop's arrays with the nodes that requests may use.

        Raises:
            PartFailure: a part failed.
        """
        elapsed_ms = max(now_ms - cluster.charged_ms, 0) if cluster.charged_ms >= 0 else 0
        charge(view.apps, cluster.apps.in_use(), elapsed_ms)
        if len(cluster.ended):
            charge(cluster.ended, np.arange(len(cluster.ended), dtype=np.int32), elapsed_ms)
        cluster.charged_ms = now_ms
        for keeper in self._keepers.values():
            ended = keeper.ended(cluster)
            scratch = scratch if ended is None else scratch._replace(ended=ended)
        default_ms = float(self.estimate.default_ms)
        if cluster.hints.has_claims:
            fraction = float(self._settings.plans.claims_fraction)
            floor_claims(view, scratch.ended, cluster.hints.size, now_ms, default_ms, fraction)
        self.gate.mark(cluster, scratch.apps)
        jobs = self.jobs = Jobs(cluster, view, self.estimate.durations, default_ms, scratch, now_ms, self._overbooks)
        if isinstance(self.estimate, FromFile):
            self._durations_ms = np.full(cluster.requests.size, np.nan)
            self.estimate.fill(self.cluster_view(cluster, now_ms, 0), scratch)
        if not self.gate.sets_levels:
            cluster.classes.forget_levels()
        for keeper in self._keepers.values():
            keeper.begin(jobs)
        if self.fit.keeper is not None:
            scratch = scratch._replace(needs=self.fit.needs(cluster))
        if self._recomputed or isinstance(self.gate, FromFile):
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
        """Let the gate admit requests, and learn from the applications that ended."""
        reset_row_records(scratch.rows, UNBOUNDED)
        if isinstance(self.gate, FromFile):
            self.gate.fill(self.cluster_view(cluster, now_ms, 0), scratch)
        else:
            self.gate.open(cluster, view, now_ms, scratch.rows)
            self.gate.mark(cluster, scratch.apps)
        cluster.ended = cluster.ended[:0]  # the gate has learned from them

    def _choose_nodes(self, cluster: Cluster, view: View, scratch: Scratch) -> Scratch:
        """Set the nodes that requests may use, where constraints exclude some."""
        self._restricts_nodes = False
        if not cluster.classes.active:
            return scratch
        node_sets = cluster.classes.packed
        row_nodes: I32 = np.array(cluster.classes.row_class[: len(view.rows)])
        bound = np.flatnonzero(row_nodes >= 0)
        masters = view.apps["awaiting_am"][view.rows["application"][bound]] == 1
        row_nodes[bound[masters]] = ANY_NODE  # AMs may use any
        self._restricts_nodes = bool((row_nodes >= 0).any())
        return scratch._replace(
            tags=own_tags(cluster, cluster.assumed.proposals()),
            node_sets=node_sets,
            row_nodes=row_nodes,
            nowhere=np.full((len(node_sets), scratch.asks.shape[1]), -1, np.int64),
            witness=np.zeros(len(node_sets), np.int32),
        )

    def cluster_view(self, cluster: Cluster, now_ms: int, partition: int) -> ClusterView:
        """Return the input of a custom part."""
        random = np.random.default_rng((self._settings.seed, cluster.cycle, self._calls.number))
        assert self.jobs is not None  # only within a cycle
        return ClusterView(cluster, self.jobs, now_ms, partition, random, self._durations_ms)

    def _parameters(self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int) -> DecideParameters:
        settings, fit, share = cluster.settings, self.fit, self.share
        nodes = int(add_up_nodes(view, scratch.rates[CLUSTER]))
        return DecideParameters(
            now_ms=now_ms,
            cycle=cluster.cycle,
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
    """Give idle nodes with non-exclusive labels to the applications that the gate admits."""
    shared = cluster.shared_partitions()
    before = scratch.rows[["why", "age"]].copy() if shared else None
    for partition in shared:
        scratch.rows["done"] = scratch.rows["nearest"] = 0
        serve_partition(view, scratch, parameters._replace(lends=True), partition, len(scratch.out))
    if before is not None:  # without a container there, the reason of its own partition stays
        why = scratch.rows["why"]
        waits = (why != Reason.PLACED) & ((before["why"] != Reason.TOO_LARGE) | (why == Reason.TOO_LARGE))
        for name in ("why", "age"):
            scratch.rows[name][waits] = before[name][waits]
