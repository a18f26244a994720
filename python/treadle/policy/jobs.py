"""What an order may look at: applications, the work left in them, the service they have had."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32
from treadle.model.applications import Sampling
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy import work as kernel
from treadle.policy.parts import Estimate


class Durations(NamedTuple):
    """How long a task takes, NaN where that is not known."""

    rows_ms: F64
    """Of each request row."""
    groups_ms: F64
    """Of each group of tasks that run or have run."""
    told_ms: F64
    """Of each key that something was told of."""


class Jobs:
    """The applications of one decide. What is dear is worked out when it is first asked for.

    Columns are by application index and as long as ``cluster.apps.at``; they say nothing of applications that are not
    active.
    """

    def __init__(self, cluster: Cluster, view: View, estimate: Estimate, totals: F64, now_ms: int) -> None:
        """Look at a cluster.

        Args:
            cluster: the model
            view: its columns
            estimate: how long tasks take
            totals: the cluster's resources
            now_ms: the RM's time
        """
        self.cluster = cluster
        self.now_ms = now_ms
        self._view, self._estimate, self._totals = view, estimate, totals
        self._work: tuple[F64, F64] | None = None

    def durations(self) -> Durations:
        """Return how long tasks take by the estimate."""
        rows_ms, groups_ms = np.full(len(self._view.rows), np.nan), np.full(len(self._view.groups), np.nan)
        said_ms = self._view.told["duration_ms"]
        found = Durations(rows_ms, groups_ms, np.where(said_ms < 0, np.nan, said_ms))
        self._estimate.durations(self.cluster, self._view, *found)
        return found

    def work(self) -> F64:
        """Return the work left: over the remaining tasks the sum of duration x demands, shares of the cluster x ms."""
        return self._both()[0]

    def left_ms(self) -> F64:
        """Return the sum of the durations of the remaining tasks."""
        return self._both()[1]

    def service_ms(self) -> F64:
        """Return the service attained: dominant share of the cluster x ms."""
        return np.ascontiguousarray(self._view.apps["service_ms"])

    def container_ms(self) -> F64:
        """Return the time that all containers have had."""
        return np.ascontiguousarray(self._view.apps["container_ms"])

    def whole_ms(self) -> F64:
        """Return what all tasks that are asked for, run or have ended well take together, by the estimate.

        Stages that were told of and are not asked for yet are in it.
        """
        whole_ms = np.zeros(len(self._view.apps))
        default_ms = float(self._estimate.default_ms)
        kernel.add_whole(self._view, *self._sizes(), *self.durations(), default_ms, whole_ms)
        return whole_ms

    def sampling(self) -> I32:
        """Return where each application stands with the gate, a `treadle.model.applications.Sampling`."""
        return np.ascontiguousarray(self._view.apps["sampling"])

    def sampling_level(self) -> I32:
        """Return the level of each application whose pilots have not ended, by history; -1: as without history."""
        return np.ascontiguousarray(self._view.apps["sampling_level"])

    def pilots_part(self) -> F64:
        """Return what part of its tasks an application may run now: of one whose pilots have not ended, its pilots."""
        apps = self._view.apps
        part = np.ones(len(apps))
        sampled = apps["sampling"] == Sampling.RUNS_PILOTS
        part[sampled] = apps["pilots"][sampled] / np.maximum(apps["width"][sampled], 1)
        return part

    def _both(self) -> tuple[F64, F64]:
        if self._work is None:
            work, left_ms = np.zeros(len(self._view.apps)), np.zeros(len(self._view.apps))
            kernel.add_work(
                self._view,
                *self._sizes(),
                *self.durations(),
                float(self._estimate.default_ms),
                self._totals,
                self.now_ms,
                work,
                left_ms,
            )
            self._work = work, left_ms
        return self._work

    def _sizes(self) -> tuple[int, int, int]:
        """Return how many request rows, told keys and groups of tasks there are."""
        return self.cluster.requests.size, self.cluster.told.size, self.cluster.tasks.size
