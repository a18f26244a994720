"""The decision engine: events in, proposals out; no sockets, files or clocks. Equal inputs give equal outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import treadle.policy  # noqa: F401 (registers the parts)
from treadle.config.settings import Settings
from treadle.events import Event, Names, ResourceTypes, Snapshot
from treadle.model.cluster import Cluster
from treadle.model.columns import ModelError
from treadle.model.scripted import small_cluster, small_events
from treadle.policy.policy import Policy
from treadle.proposals import Proposals


class Engine:
    """Keeps a model of the cluster and proposes containers. Not for several threads at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._policy = Policy(settings)
        self._names: list[Names] | None = None
        self._cluster: Cluster | None = None
        self._decides = 0

    def apply(self, events: Sequence[Event]) -> None:
        """Take in what a frame, or a part of one, says.

        Rows are absolute and tell the state after the commits whose fates are among the same events. Columns are
        copied.

        Raises:
            ModelError: the events contradict the contract; a new snapshot is the remedy.
        """
        for event in events:
            self._apply(event)
        if self._cluster is not None:
            self._cluster.sweep()

    def _apply(self, event: Event) -> None:
        match event:
            case Snapshot():
                self._names, self._cluster = [], None
            case Names() if self._cluster is None and self._names is not None:
                self._names.append(event)
            case ResourceTypes() if self._cluster is None and self._names is not None:
                self._cluster = Cluster.start(self._names, event)
                self._cluster.decide = self._decides + 1
                self._policy = Policy(self._settings)
            case _:
                if self._cluster is None:
                    raise ModelError(f"{type(event).__name__} before a snapshot's resource types")
                self._cluster.apply(event)

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool = True) -> Proposals:
        """Return at most ``limit`` proposals, fewer if the settings say so.

        Args:
            now_ms: the RM's time
            limit: how many there may be
            sequence: what the events' `Fates` will call this answer
            assume: whether the proposals count as placed until their fate is known; without, nothing will be committed
        """
        cluster = self._cluster
        self._decides += 1
        if cluster is None:
            return Proposals.none()
        cluster.decide = self._decides
        view = cluster.view()
        expired = cluster.assumed.expire(view, now_ms, self._settings.assumed.timeout_ms)
        released = self._policy.holds.forget_ended(cluster, view, now_ms)
        cooling = cluster.rejections.last_cool >= cluster.decide
        if not (cluster.changed or expired or released or cooling or self._policy.waiting):
            cluster.decide += 1
            return Proposals.none()
        limit = min(limit, self._settings.limits.proposals_max)
        made = self._policy.decide(cluster, view, now_ms, limit)
        count = made.left
        cluster.changed = count >= limit or not assume
        if count:
            cluster.assumed.add(view, sequence, made)
            if not assume:
                cluster.assumed.give_up(view, sequence)
        cluster.decide += 1
        table = made.proposals
        return Proposals(*(np.ascontiguousarray(table[name]) for name in ("application", "key", "node")))

    def warm_up(self) -> int:
        """Compile every kernel, or read it from numba's cache, by scheduling a small invented cluster.

        The engine itself is not touched. Returns how many containers were proposed.
        """
        engine = Engine(self._settings)
        engine.apply(small_cluster())
        placed = 0
        for sequence, told in enumerate(small_events(), 1):
            placed += len(engine.decide(1_000 * sequence, 16, sequence=sequence))
            engine.apply(told)
        return placed

    def configure(self, settings: Settings) -> None:
        """Follow other settings from now on. The model, what is assumed and what is held stay."""
        self._policy.configure(settings)
        self._settings = settings
        if self._cluster is not None:
            self._cluster.changed = True

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know: what in the cluster is followed otherwise than configured."""
        return () if self._cluster is None else (*self._cluster.queues.warnings, *self._policy.warnings())

    def assumed(self) -> int:
        """Return how many proposals have no known fate."""
        return 0 if self._cluster is None else len(self._cluster.assumed)
