"""A policy: five parts put together, and the loop that fills a decide with proposals.

The parts of a policy, put together for a cluster, and what they decide with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.config.part_files import FilePart, KeyedFilePart
from treadle.config.parts import QUESTIONS, Part
from treadle.config.settings import Settings
from treadle.events import Event, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.in_flight import PROPOSAL, Batch
from treadle.model.tables import View
from treadle.policy.contention import Contention
from treadle.policy.fair_finish import Progress
from treadle.policy.loop import place
from treadle.policy.node_search import RULES as FITS
from treadle.policy.node_search import node_reasons
from treadle.policy.node_sets import sets_for
from treadle.policy.orders import RULES as ORDERS
from treadle.policy.own_tags import own_tags
from treadle.policy.parts import CountsTasks, Fit, Gate, Keeper, NodeChooser, Order, Share, UsesKeeper, WeighsClasses
from treadle.policy.reasons import Reason
from treadle.policy.reserve import Holds, Uncommitted
from treadle.policy.shares.rules import RULES as SHARES
from treadle.policy.state import (
    ASKS,
    BUNDLE,
    CLUSTER,
    CURSOR,
    DELAYED,
    KEYED,
    PLACED,
    UNBOUNDED,
    DecideParameters,
    Scratch,
    begin_rows,
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
from treadle.policy.work import Estimate, Jobs, add_up_nodes, charge, floor_claims, note_use

ALL_AT_ONCE: Final = 1 << 62


class Opened(NamedTuple):
    """What is said of each request row and the order's keys, before what is held back is let through.

    `put_back` restores them, so that whoever reads the decide's arrays finds why an ask was not served.
    """

    rows: Records
    key: F64

    def put_back(self, scratch: Scratch) -> None:
        """Restore them."""
        for name in ("may", "quota", "why", "age"):
            scratch.rows[name] = self.rows[name]
        scratch.apps["key"] = self.key


class Composition:
    """Five parts; any goes with any."""

    def __init__(
        self,
        settings: Settings,
        calls: Calls,
        keeper: Keeper | None = None,
        contention: Contention | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make the parts; a gate of the kind that ``keeper`` is of goes on with what that has kept.

        So do parts that go by how contended classes of nodes are with what ``contention`` knows, and those that count
        tasks with ``progress``.

        Raises:
            PartFailure: one from a file cannot be made.
        """
        self._calls = calls
        self._seed = settings.seed
        self._claims_part = float(settings.plans.claims_part)
        self._keeps_headroom = settings.hold.headroom
        self._ignores_priority = settings.policy.ignore_priority
        chosen = settings.policy
        self._gate: Gate = self._make(chosen.gate)
        self.order: Order = self._make(chosen.order)
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
        self.progress = self._count(progress)
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

    def _count(self, old: Progress | None) -> Progress | None:
        """Return the counts of tasks, if a part goes by them, and let parts use them."""
        made = {"order": self.order, "estimate": self._estimate}
        counting = [cast(CountsTasks, made[part]) for part in made if self.traits[part].counts_tasks]
        if not counting:
            return None
        progress = old or Progress()
        for part in counting:
            part.count(progress)
        return progress

    def _make(self, part: Part) -> Any:
        return part.make(self._calls) if isinstance(part.parameters, FilePart) else part.make()

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
        self._gate.mark(cluster, scratch.apps)
        self._jobs = Jobs(cluster, view, self._estimate, scratch, now_ms, self._overbooks)
        if self.progress is not None:
            self.progress.update(cluster, view, self._jobs.given_out(), now_ms)
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
        rows, keys = scratch.rows, scratch.apps["key"]
        before = Opened(rows.copy(), keys.copy())
        if not self._gate.open_for_idle(rows):
            return None
        keys[:] = 0.0
        scratch.ask_keys[:] = 0.0
        return before

    @property
    def due_ms(self) -> int:
        """When the gate must be asked again though nothing happens."""
        return self._gate.due_ms

    @property
    def gate_waits_for(self) -> str:
        """For what the gate holds asks back, in a few words; empty if it does not, and of a gate from a file."""
        return self._gate.waits_for

    def waits_for(self) -> list[str]:
        """Return for what asks are held back on purpose that the RM would serve."""
        overbook = "room within the bounds of overbook" if self._overbooks else ""
        headroom = "room for the largest ask too" if self._keeps_headroom else ""
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
    """Answers who gets what where. Outlives the models that snapshots make."""

    def __init__(self, settings: Settings, fallback: Fallback = no_fallback, watch: Watch = unwatched) -> None:
        self._scratch: Scratch | None = None
        self._fallback = fallback
        self._calls = Calls(watch)
        self._keeper: Keeper | None = None
        self._contention: Contention | None = None
        self._progress: Progress | None = None
        self.holds = Holds()
        self._delayed = False
        self._decided: tuple[Cluster, DecideParameters] | None = None
        try:
            self.configure(settings)
        except PartFailure as failure:
            self._follow_another(failure)

    def configure(self, settings: Settings) -> None:
        """Use other parts from now on; what is held stays held.

        What a gate keeps stays as long as gates are of its kind, or parts run that may fail and give way to them.

        Raises:
            PartFailure: one of them cannot be made; those of before stay.
        """
        self._parts = Composition(settings, self._calls, self._keeper, self._contention, self._progress)
        if self._parts.keeper is not None or not self._parts.may_fail:  # else that of before may be wanted again
            self._keeper = self._parts.keeper
        if self._parts.contention is not None or not self._parts.may_fail:
            self._contention = self._parts.contention
        if self._parts.progress is not None or not self._parts.may_fail:
            self._progress = self._parts.progress
        self._settings = settings

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know about the policy on this cluster."""
        return self._parts.warnings()

    def waits_for(self) -> str:
        """Return for what asks are held back on purpose, in a few words; empty if none is."""
        return ", ".join([*self._parts.waits_for(), *(["a held node"] if len(self.holds) else [])])

    @property
    def gate_waits_for(self) -> str:
        """For what the gate holds asks back, in a few words; empty if it holds none back."""
        return self._parts.gate_waits_for

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
        """Whether it keeps anything beside the model, so that it must see events."""
        return self._keeper is not None or self._contention is not None

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Note an event that the model has just taken, if it `observes`; not while a snapshot comes."""
        if self._keeper is not None:
            self._keeper.observe(event, cluster)
        if self._contention is not None:
            self._contention.observe(event, cluster)

    def apply(self, event: Samples, cluster: Cluster) -> None:
        """Take back the samples of an earlier engine; raises `ModelError` for a number that is not possible."""
        if self._keeper is not None:
            self._keeper.apply(event, cluster)

    def contention(self, cluster: Cluster) -> str:
        """Return in a few words how contended classes of nodes are, and what was given up; empty if nobody asks."""
        if self._parts.contention is None or not cluster.classes.active:
            return ""
        return self._parts.contention.summary(cluster)

    def samples(self, cluster: Cluster) -> Samples | None:
        """Return what another engine should know of what this one keeps, as far as it has changed; else None."""
        return None if self._keeper is None else self._keeper.samples(cluster)

    def follow(self, old: Cluster, cluster: Cluster, carried: Carried) -> None:
        """Go on after a snapshot, with the model that it has made, which has taken over what the old one had."""
        nodes = carried.nodes
        if self._keeper is not None:
            self._keeper.follow(old, cluster, carried)
        if self._contention is not None:
            self._contention.follow(old, cluster, carried)
        if self._progress is not None:
            self._progress.follow(old, cluster, carried)
        self.holds.follow(cluster, nodes)
        if self._scratch is not None:
            counters = self._scratch.counters
            counters[BUNDLE] = _new_index(nodes, int(counters[BUNDLE]))
            counters[CURSOR] = _new_index(nodes, int(counters[CURSOR]) - 1) + 1  # it is one after the node chosen last

    def waits(self, now_ms: int) -> bool:
        """Say whether time alone may change the next answer: a row waits for a nearer node, or the gate is due."""
        return self._delayed or now_ms >= self._parts.due_ms

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
        self._scratch = self._parts.scratch(cluster, self._scratch)
        before = None if commits else Uncommitted(view, self._scratch)
        out, asked = np.zeros(limit, PROPOSAL), np.zeros((limit, len(cluster.counted)), np.int64)
        while True:
            try:
                parameters = self._place(cluster, view, self._scratch, now_ms, out, asked)
                break
            except PartFailure as failure:
                self._follow_another(failure)
                placed = self._scratch.counters[PLACED]
                self._scratch = self._parts.scratch(cluster, self._scratch)
                self._scratch.counters[PLACED] = placed
        self._decided = cluster, parameters
        self._delayed = bool(self._scratch.counters[DELAYED])
        placed = int(self._scratch.counters[PLACED])
        if before is None:
            self.holds.choose(view, self._scratch, parameters, self._settings.hold)
        else:
            before.put_back(view, self._scratch, out[:placed])
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

    def _place(
        self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int, out: Records, asked: I64
    ) -> DecideParameters:
        """Fill the answer up from wherever it is; return the numbers that it was done by."""
        parts = self._parts
        parameters = self._parameters(cluster, view, scratch, now_ms)
        self._scratch = scratch = parts.begin(cluster, view, now_ms, scratch)
        if parameters.root < 0:
            return parameters
        for partition in range(len(cluster.names.partitions)):
            end = 0
            while end < len(out):
                if parts.recompute_after < ALL_AT_ONCE:  # a share, an order or a fit is from a file
                    scratch = parts.fill(cluster, now_ms, partition, scratch)
                end = min(len(out), int(scratch.counters[PLACED]) + parts.recompute_after)
                if place(view, scratch, parameters, out, asked, partition, end) < end:
                    break
        _lend(cluster, view, scratch, parameters, out, asked)
        opened = parts.open_for_idle(scratch) if scratch.counters[PLACED] < len(out) else None
        if opened is not None:
            for partition in range(len(cluster.names.partitions)):
                place(view, scratch, parameters, out, asked, partition, len(out))
            _lend(cluster, view, scratch, parameters, out, asked)
            opened.put_back(scratch)
        return parameters

    def _parameters(self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int) -> DecideParameters:
        settings, traits = cluster.settings, self._parts.traits
        fit, share = self._parts.fit, self._parts.share
        nodes = int(add_up_nodes(view, scratch.rates[CLUSTER]))
        return DecideParameters(
            now_ms=now_ms,
            decide=cluster.decide,
            root=cluster.queues.root(),
            cluster_nodes=max(nodes, 1),
            heartbeat_ms=max(integer(settings, "nm-heartbeat-ms", HEARTBEAT_MS), 1),
            node_delay=max(integer(settings, "node-locality-delay", NODE_LOCALITY_DELAY), 0),
            rack_delay=max(integer(settings, "rack-locality-additional-delay", -1), -1),
            fit=FITS.get(traits["fit"].steps, NO_STEP),
            draws=fit.draws,
            goes_round=fit.goes_round,
            window=fit.window,
            share=SHARES[traits["share"].steps],
            keyed_queues=share.keyed,
            walks_queues=traits["share"].walks_queues,
            compares_shares=traits["share"].compares_shares,
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


def _lend(
    cluster: Cluster, view: View, scratch: Scratch, parameters: DecideParameters, out: Records, asked: I64
) -> None:
    """Give what is left idle on nodes of non-exclusive labels to the applications that the gate lets through."""
    shared = cluster.shared_partitions()
    before = scratch.rows[["why", "age"]].copy() if shared else None
    for partition in shared:
        scratch.rows["done"] = scratch.rows["nearest"] = 0
        place(view, scratch, parameters._replace(lends=True), out, asked, partition, len(out))
    if before is not None:  # who gets nothing there either waits for what stood in the way where it asks
        waits = scratch.rows["why"] != Reason.PLACED
        for name in ("why", "age"):
            scratch.rows[name][waits] = before[name][waits]
