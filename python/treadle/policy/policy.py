"""A policy: five parts put together, and the loop that fills a decide with proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, I64, Records
from treadle.config.settings import Settings
from treadle.events import Event, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.in_flight import PROPOSAL, Batch
from treadle.model.tables import View
from treadle.policy.composition import Composition
from treadle.policy.contention import Contention
from treadle.policy.fits.rules import RULES as FITS
from treadle.policy.loop.place import place
from treadle.policy.loop.reserve import Holds
from treadle.policy.loop.uncommitted import Uncommitted
from treadle.policy.parts import Keeper
from treadle.policy.shares.rules import RULES as SHARES
from treadle.policy.state import (
    BUNDLE,
    CLUSTER,
    CURSOR,
    DELAYED,
    PLACED,
    DecideParameters,
    Scratch,
)
from treadle.policy.user_parts import (
    Calls,
    PartFailure,
    Watch,
    unwatched,
)
from treadle.policy.work import add_up_nodes, note_use

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
        self.holds = Holds()
        self._delayed = False
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
        self._parts = Composition(settings, self._calls, self._keeper, self._contention)
        if self._parts.keeper is not None or not self._parts.may_fail:  # else that of before may be wanted again
            self._keeper = self._parts.keeper
        if self._parts.contention is not None or not self._parts.may_fail:
            self._contention = self._parts.contention
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
                if parts.asks_python:
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
    for partition in cluster.shared_partitions():
        scratch.rows["done"] = scratch.rows["nearest"] = 0
        place(view, scratch, parameters._replace(lends=True), out, asked, partition, len(out))
