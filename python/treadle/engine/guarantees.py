"""What one of several engines leaves to queues of others: what these are guaranteed and ask for.

An engine sees what all queues use, are guaranteed and have outstanding, but only asks of its own applications. What a
queue has outstanding beyond those others ask for. Of that it is owed what it lacks of its guarantee, and a queue
beside it may not take that room, unless it is within a guarantee of its own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.array_types import I64
from treadle.events import ApplicationState
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, BESIDE, GUARANTEED, PENDING, USED, View

LAPSES_MS: Final = 60_000
"""How long a queue's unused guarantee is left to it while it gets nothing: nobody may be able to serve its asks."""


class Guarantees:
    """What is left to others now."""

    def __init__(self) -> None:
        """Leave nothing yet."""
        self._cluster: Cluster | None = None
        self._since: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        """Of each queue and partition that is owed something what it uses, and since when."""
        self.leaves = False
        """Whether anything is left."""

    def leave(self, cluster: Cluster, view: View, now_ms: int) -> None:
        """Work out what must be left in the next decide, for the kernels to go by."""
        if self._cluster is not cluster:
            self._cluster, self._since = cluster, {}
        amounts = view.limit_amounts
        lacks = np.maximum(amounts[:, :, GUARANTEED] - amounts[:, :, USED] - amounts[:, :, ASSUMED], 0)
        owed = np.minimum(np.maximum(amounts[:, :, PENDING] - self._own_asks(view), 0), lacks)
        owed[(view.queues["exists"][: len(owed)] == 0) | (view.queues["parent"][: len(owed)] < 0)] = 0
        self._let_lapse(owed, amounts[:, :, USED], now_ms)
        self.leaves = bool(owed.any())
        amounts[:, :, BESIDE] = 0
        if self.leaves:
            has_parent = np.flatnonzero((view.queues["exists"] == 1) & (view.queues["parent"] >= 0))
            parent = view.queues["parent"][has_parent]
            below = np.zeros_like(owed)
            np.add.at(below, parent, owed[has_parent])
            amounts[has_parent, :, BESIDE] = below[parent] - owed[has_parent]

    def stop(self, cluster: Cluster) -> None:
        """Leave nothing from now on: there is one engine."""
        cluster.limits.amounts[:, :, BESIDE] = 0
        self.leaves = False

    @staticmethod
    def _own_asks(view: View) -> I64:
        """Return what the engine's applications ask for by queue and partition; of a queue with what is below it."""
        amounts = view.limit_amounts
        own: I64 = np.zeros((len(amounts), amounts.shape[1], amounts.shape[3]), np.int64)
        row = np.flatnonzero(view.rows["count"] > 0)
        app = view.rows["application"][row]
        mine = (view.apps["state"][app] == ApplicationState.ACTIVE) | (
            view.apps["state"][app] == ApplicationState.WAITING
        )
        row, app = row[mine], app[mine]
        queue = view.apps["queue"][app]
        asked = view.rows["count"][row][:, None] * view.capability[row]
        while len(row):
            there = queue >= 0
            row, queue, asked = row[there], queue[there], asked[there]
            np.add.at(own, (queue, view.rows["partition"][row]), asked)
            queue = view.queues["parent"][queue]
        return own

    def _let_lapse(self, owed: I64, used: I64, now_ms: int) -> None:
        """Owe nothing to a queue that has got nothing for long."""
        before, self._since = self._since, {}
        for queue, partition in np.argwhere(owed.any(axis=2)).tolist():
            now = tuple(used[queue, partition].tolist())
            was, since_ms = before.get((queue, partition), (now, now_ms))
            since_ms = since_ms if was == now else now_ms
            self._since[queue, partition] = now, since_ms
            if now_ms - since_ms >= LAPSES_MS:
                owed[queue, partition] = 0
