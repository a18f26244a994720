"""How often containers begin on each node and how long they run: the moments that waits are worked out from.

Older containers weigh less: by 1/e after `WINDOW_MS`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import F64, I32, I64
from treadle.model.cluster import Cluster
from treadle.model.containers import BEGAN, ENDED
from treadle.model.tables import TOTAL, grown

WINDOW_MS: Final = 600_000.0

MOMENT: Final = np.dtype(
    [
        ("begun", "f8"),  # containers that began
        ("share", "f8"),  # of the node, by dominant resource, that they had together
        ("ended", "f8"),
        ("time_ms", "f8"),  # how long those that ended ran, together
        ("square", "f8"),  # and squared
        ("at_ms", "i8"),  # when the above was brought up to date
    ]
)


class Moments:
    """By node."""

    def __init__(self) -> None:
        self.at = np.zeros(0, MOMENT)
        self._since_ms = -1

    def observe(self, event: events.Containers, cluster: Cluster) -> None:
        """Note containers that begin and end; ``cluster.tasks.effects`` says which do."""
        effects = cluster.tasks.effects
        if not len(effects):
            return
        self.at = grown(self.at, len(cluster.nodes.at), 0)
        counts = (event.node >= 0) & (event.node < len(self.at)) & (event.am == 0)
        did = effects["did"][: len(event.node)]
        here = counts & ((did == BEGAN) | (did == ENDED))
        if not here.any():
            return
        now_ms = int(event.time_ms[here].max())
        if self._since_ms < 0:
            self._since_ms = now_ms
        self._decay(np.unique(event.node[here]), now_ms)
        began = here & (did == BEGAN)
        total = np.maximum(cluster.nodes.amounts[event.node[began], TOTAL], 1)
        counted = cluster.counted == 1
        share = (event.capability[began] / total)[:, counted].max(axis=1, initial=0.0)
        np.add.at(self.at["begun"], event.node[began], 1.0)
        np.add.at(self.at["share"], event.node[began], share)
        ended = here & (did == ENDED)
        lasted_ms = effects["duration_ms"][ended].astype(np.float64)
        np.add.at(self.at["ended"], event.node[ended], 1.0)
        np.add.at(self.at["time_ms"], event.node[ended], lasted_ms)
        np.add.at(self.at["square"], event.node[ended], lasted_ms**2)

    def _decay(self, nodes: I64, now_ms: int) -> None:
        left = np.exp(-np.maximum(now_ms - self.at["at_ms"][nodes], 0) / WINDOW_MS)
        for name in ("begun", "share", "ended", "time_ms", "square"):
            self.at[name][nodes] *= left
        self.at["at_ms"][nodes] = np.maximum(self.at["at_ms"][nodes], now_ms)

    def rates(self, nodes: int, now_ms: int) -> tuple[F64, F64, F64]:
        """Return for each of this many nodes: containers per ms, mean of their durations and of the squares.

        A node on which none has ended yet has the mean of all.
        """
        at = grown(self.at, nodes, 0)[:nodes]
        left = np.exp(-np.maximum(now_ms - at["at_ms"], 0) / WINDOW_MS)
        seen_ms = max(now_ms - self._since_ms, 1_000) if self._since_ms >= 0 else 1_000
        window_ms = WINDOW_MS * -np.expm1(-seen_ms / WINDOW_MS)
        ended = at["ended"].sum()
        mean = at["time_ms"].sum() / ended if ended > 0 else 0.0
        square = at["square"].sum() / ended if ended > 0 else 0.0
        known = at["ended"] > 0
        each = np.where(known, at["ended"], 1.0)
        return (
            at["begun"] * left / window_ms,
            np.where(known, at["time_ms"] / each, mean),
            np.where(known, at["square"] / each, square),
        )

    def slots(self, nodes: int, otherwise: F64) -> F64:
        """Return how many containers each node holds at a time, ``otherwise`` where none has begun recently."""
        at = grown(self.at, nodes, 0)[:nodes]
        known = (at["begun"] > 1e-6) & (at["share"] > 0.0)
        return np.maximum(np.where(known, at["begun"] / np.where(known, at["share"], 1.0), otherwise), 1.0)

    def follow(self, nodes: I32, count: int) -> None:
        """Go on after a snapshot; ``nodes`` has the new index of each old node, -1 for none."""
        old, self.at = self.at, np.zeros(count, MOMENT)
        stayed = np.flatnonzero(nodes[: len(old)] >= 0)
        self.at[nodes[stayed]] = old[stayed]
