"""The five parts of a policy, made from settings, and how each gets its say in the columns of the inner loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle.config.part_files import FilePart, KeyedFilePart
from treadle.config.parts import Part
from treadle.config.settings import Settings
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.claims import floor_claims
from treadle.policy.jobs import Jobs
from treadle.policy.moment import Moment
from treadle.policy.parts import NEVER, Estimate, Fit, Gate, Order, Share
from treadle.policy.state import CLUSTER, UNBOUNDED, Scratch, scratch_for
from treadle.policy.user_parts import Calls, FileEstimate, FileFit, FileGate, FileOrder, FileShare
from treadle.policy.work import charge

ALL_AT_ONCE: Final = 1 << 62


class Composition:
    """Five parts; any goes with any."""

    def __init__(self, settings: Settings, calls: Calls) -> None:
        """Make the parts.

        Raises:
            PartFailure: one from a file cannot be made.
        """
        self._calls = calls
        self._seed = settings.seed
        self._claims_part = float(settings.plans.claims_part)
        chosen = settings.policy
        self._gate: Gate | FileGate = self._make(chosen.gate)
        self.order: Order = self._make(chosen.order)
        if not isinstance(self._gate, FileGate):
            self._gate.know_levels(self.order.thresholds_ms, self.order.sampling_level)
        self._estimate: Estimate = self._make(chosen.estimate)
        self.share: Share = self._make(chosen.share)
        self.fit: Fit = self._make(chosen.fit)
        self._not_overbooked: tuple[str, ...] = ()
        self._overbooks = False
        self._jobs: Jobs | None = None
        self._durations_ms: F64 = np.zeros(0)
        self._from_files = isinstance(chosen.gate.parameters, FilePart)
        keyed = [part.parameters for part in (chosen.share, chosen.order, chosen.fit)]
        after = [parameters.recompute_after for parameters in keyed if isinstance(parameters, KeyedFilePart)]
        self.recompute_after = min(after, default=ALL_AT_ONCE)
        """Containers placed before `fill` is to be called again."""
        self._from_files |= bool(after)

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
        return scratch_for(cluster, shares, old, self.order.weights, overbooked, self.fit.candidates)

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
        self._not_overbooked, self._overbooks = tuple(warnings), bool(overbooked)
        return overbooked

    def begin(self, cluster: Cluster, view: View, now_ms: int, scratch: Scratch) -> None:
        """Let those speak that are asked once a decide: estimate, gate, and orders that are compiled.

        Adds up the service attained up to now.

        Raises:
            PartFailure: one failed.
        """
        elapsed_ms = max(now_ms - cluster.charged_ms, 0) if cluster.charged_ms >= 0 else 0
        charge(view.apps, cluster.apps.size, elapsed_ms)
        if len(cluster.ended):
            charge(cluster.ended, len(cluster.ended), elapsed_ms)
        cluster.charged_ms = now_ms
        if cluster.told.has_claims:
            floor_claims(view, cluster.told.size, now_ms, float(self._estimate.default_ms), self._claims_part)
        self._jobs = Jobs(cluster, view, self._estimate, scratch.rates[CLUSTER], now_ms)
        if isinstance(self._estimate, FileEstimate):
            self._durations_ms = np.full(cluster.requests.size, np.nan)
            self._estimate.ask(self._moment(cluster, now_ms, 0))
        if self._from_files:
            self._durations_ms = self._jobs.durations().rows_ms[: cluster.requests.size]
        rows = scratch.rows
        rows["may"] = rows["held"] = rows["random"] = 0
        rows["quota"] = UNBOUNDED
        if isinstance(self._gate, FileGate):
            self._gate.fill(self._moment(cluster, now_ms, 0), rows["may"])
        else:
            self._gate.open(cluster, view, now_ms, rows)
        if len(cluster.ended):
            cluster.ended = cluster.ended[:0]
        key = np.zeros(len(view.apps))
        self.order.orders(cluster, scratch.queues[:-1])
        self.order.keys(self._jobs, key)
        scratch.apps["key"] = np.where(np.isnan(key), np.inf, key)
        if self.fit.candidates > 0:
            scratch.apps["work"] = self._jobs.work()

    def open_for_idle(self, scratch: Scratch) -> bool:
        """Let through what the gate holds back from all but idle machines, by arrival; False if that is nothing."""
        if isinstance(self._gate, FileGate) or not self._gate.open_for_idle(scratch.rows):
            return False
        scratch.apps["key"] = 0.0
        return True

    @property
    def due_ms(self) -> int:
        """When the gate is to be asked again though nothing happens."""
        return NEVER if isinstance(self._gate, FileGate) else self._gate.due_ms

    def waits_for(self) -> list[str]:
        """Return for what asks are held back on purpose that the RM would serve; a gate from a file says nothing."""
        gate = "" if isinstance(self._gate, FileGate) else self._gate.waits_for
        return list(filter(None, (gate, "room within the bounds of overbook" if self._overbooks else "")))

    def fill(self, cluster: Cluster, now_ms: int, partition: int, scratch: Scratch) -> Scratch:
        """Ask share, order and fit for their numbers, as far as they are from files; return where they are.

        Raises:
            PartFailure: one failed.
        """
        moment = self._moment(cluster, now_ms, partition)
        if isinstance(self.share, FileShare):
            self.share.fill(moment, scratch.queues["key"])
        if isinstance(self.order, FileOrder):
            self.order.fill(moment, scratch.apps["key"])
        if isinstance(self.fit, FileFit):
            return scratch._replace(scores=self.fit.scores(moment, len(cluster.nodes.at)))
        return scratch

    def _moment(self, cluster: Cluster, now_ms: int, partition: int) -> Moment:
        random = np.random.default_rng((self._seed, cluster.decide, self._calls.number))
        assert self._jobs is not None  # there is a decide
        return Moment(cluster, self._jobs, now_ms, partition, random, self._durations_ms)
