"""A policy: the five parts put together over the inner loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.config.settings import Settings
from treadle.model.assumed import PROPOSAL, Batch
from treadle.model.cluster import Cluster
from treadle.model.columns import TOTAL
from treadle.model.view import View
from treadle.policy.holds import Holds
from treadle.policy.jobs import Jobs
from treadle.policy.kernel.place import place
from treadle.policy.kernel.scratch import CLUSTER, DELAYED, PLACED, Knobs, Scratch, scratch_for
from treadle.policy.kernel.work import charge, note_use
from treadle.policy.parts import Estimate, Fit, Gate, Order, Share

NODE_LOCALITY_DELAY = 40
"""YARN's default of yarn.scheduler.capacity.node-locality-delay."""

HEARTBEAT_MS = 1000
"""YARN's default of yarn.resourcemanager.nodemanagers.heartbeat-interval-ms."""


def integer(settings: dict[str, str], key: str, default: int) -> int:
    """Return a setting of the RM as an integer; what is none counts as not set."""
    try:
        return int(settings.get(key, default))
    except ValueError:
        return default


class Policy:
    """Answers who gets what where, for one cluster model."""

    def __init__(self, settings: Settings) -> None:
        self._scratch: Scratch | None = None
        self.holds = Holds()
        self.waiting = False
        """Does a row wait for a nearer node? Then time alone may change the next answer."""
        self._not_overbooked: tuple[str, ...] = ()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Use other parts from now on; what is held stays held."""
        self._settings = settings
        parts = settings.policy
        self._gate: Gate = parts.gate.make()
        self._share: Share = parts.share.make()
        self._order: Order = parts.order.make()
        self._fit: Fit = parts.fit.make()
        self._estimate: Estimate = parts.estimate.make()

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know about the policy on this cluster."""
        return (*self._share.warnings(), *self._not_overbooked)

    def decide(self, cluster: Cluster, view: View, now_ms: int, limit: int) -> Batch:
        """Return at most ``limit`` proposals, which are assumed in the columns already."""
        cluster.apps.sort()
        fit, shares = self._fit, self._share.shares(cluster)
        overbooked = self._overbooked(cluster)
        scratch = scratch_for(cluster, shares, self._scratch, self._order.weights, overbooked, fit.candidates)
        self._scratch = scratch
        self._gate.open(cluster, scratch.rows["may"])
        knobs = self._knobs(cluster, view, scratch, now_ms)
        self._arrange(cluster, view, scratch, now_ms)
        out, asked = np.zeros(limit, PROPOSAL), np.zeros((limit, len(cluster.counted)), np.int64)
        if knobs.root >= 0:
            for partition in range(len(cluster.names.partitions)):
                place(view, scratch, knobs, out, asked, partition, limit)
            self.holds.choose(view, scratch, knobs, self._settings.hold)
        note_use(view.apps, view.app_amounts, view.counted, cluster.apps.size, scratch.rates[CLUSTER])
        self.waiting = bool(scratch.counters[DELAYED])
        placed = int(scratch.counters[PLACED])
        return Batch(out[:placed].copy(), asked[:placed].copy(), cluster.decide, now_ms, placed)

    def _overbooked(self, cluster: Cluster) -> dict[int, float]:
        """Return the resources that the fit overbooks, and how many times; note those that it cannot."""
        overbooked, warnings = {}, []
        for name, factor in self._fit.overbook.items():
            if name not in cluster.types.names:
                warnings.append(f"{name} cannot be overbooked: the cluster has no such resource")
            elif cluster.counted[cluster.types.names.index(name)]:
                warnings.append(f"{name} cannot be overbooked: the ResourceCalculator counts it")
            else:
                overbooked[cluster.types.names.index(name)] = factor
        self._not_overbooked = tuple(warnings)
        return overbooked

    def _arrange(self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int) -> None:
        """Let the order say how the leaves are served; add up the service attained up to now."""
        totals = scratch.rates[CLUSTER]
        elapsed_ms = max(now_ms - cluster.charged_ms, 0) if cluster.charged_ms >= 0 else 0
        charge(view.apps, cluster.apps.size, elapsed_ms)
        cluster.charged_ms = now_ms
        key = np.zeros(len(view.apps))
        self._order.orders(cluster, scratch.queues[:-1])
        jobs = Jobs(cluster, view, self._estimate, scratch.list, totals, now_ms)
        self._order.keys(jobs, key)
        if self._fit.candidates > 0:
            scratch.apps["work"] = jobs.work()
        scratch.apps["key"] = np.where(np.isnan(key), np.inf, key)

    def _knobs(self, cluster: Cluster, view: View, scratch: Scratch, now_ms: int) -> Knobs:
        settings = cluster.settings
        here = view.nodes["state"] > 0
        scratch.rates[CLUSTER] = view.node_amounts[here, TOTAL].sum(axis=0)
        roots = np.flatnonzero((view.queues["exists"] == 1) & (view.queues["parent"] < 0))
        return Knobs(
            now_ms=now_ms,
            decide=cluster.decide,
            root=int(roots[0]) if len(roots) else -1,
            cluster_nodes=max(int(np.count_nonzero(here)), 1),
            heartbeat_ms=max(integer(settings, "nm-heartbeat-ms", HEARTBEAT_MS), 1),
            node_delay=max(integer(settings, "node-locality-delay", NODE_LOCALITY_DELAY), 0),
            rack_delay=max(integer(settings, "rack-locality-additional-delay", -1), -1),
            fit=self._fit.rule,
            window=self._fit.window,
            share=self._share.rule,
            candidates=self._fit.candidates,
            remote_penalty=float(self._fit.remote_penalty),
            srpt_weight=float(self._fit.srpt_weight),
            seed=self._settings.seed,
        )
