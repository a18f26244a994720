"""Phoenix's order and gate.

The order is least remaining work first, but contended classes before others. The gate keeps requests on their preferred
nodes and allows the next alternative where the wait becomes too long.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, I64, Records
from treadle.config.parts import Parameters
from treadle.constraints import Choice
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.contention import Contention, shown
from treadle.policy.parts import NEVER, Gate, Keeper, Keepers, Order
from treadle.policy.work import Jobs


class PhoenixOrderParameters(Parameters):
    """Parameters of the order `phoenix`."""

    wait_threshold_ms: int = Field(
        default=5_000,
        ge=0,
        le=86_400_000,
        description="Applications of a class whose asks wait longer go by how contended it is.",
    )
    reorder: Literal["bounded", "paper"] = Field(
        default="bounded",
        description="bounded: only among applications whose work left differs by less than bound_factor; paper: any.",
    )
    bound_factor: float = Field(default=4.0, gt=1.0, le=1e6, description="See reorder.")
    slack_factor: float = Field(
        default=5.0,
        ge=0.0,
        le=1e6,
        description="A task is not passed any more once those that passed it take this many times as long as it.",
    )
    max_wait_ms: int = Field(
        default=60_000,
        ge=0,
        le=86_400_000,
        description="After waiting this long without a container, an application cannot be overtaken any more.",
    )


class PhoenixOrder(Order):
    """The least work left first; where asks wait too long for a class of nodes, the most contended class first."""

    keeper: type[Keeper] | None = Contention

    def __init__(self, parameters: PhoenixOrderParameters) -> None:
        self._set = parameters

    def use(self, keepers: Keepers) -> None:
        """Use the measured contention."""
        self._contention = cast(Contention, keepers[Contention])

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set each application's position in the order."""
        cluster, contention = jobs.cluster, self._contention
        work = jobs.work() * jobs.part()
        key[:] = work
        contention.reordered = 0
        apps, here = cluster.apps.at, cluster.apps.in_use()
        waiting = here[apps["pending"][here] > apps["assumed_count"][here]].astype(np.int64)
        contended = self._contended(cluster, len(key))
        if not contended[waiting].any():
            return
        own_ms = self._own_ms(jobs, len(key))
        starved = (contention.since_ms >= 0) & (jobs.now_ms - contention.since_ms >= self._set.max_wait_ms)
        slack_ms = self._set.slack_factor * own_ms
        for charges in (True, False):
            spent = starved[: len(key)] | (contention.passed_ms[: len(key)] > slack_ms)
            order = waiting[arranged(work[waiting], contended[waiting], spent[waiting], self._factor)]
            if charges:
                self._charge(order, work, contention.fresh * own_ms)
        key[order] = np.arange(len(order))

    @property
    def _factor(self) -> float:
        return self._set.bound_factor if self._set.reorder == "bounded" else np.inf

    def _contended(self, cluster: Cluster, count: int) -> F64:
        """Return for each application the contention of its most contended class with too long a wait, else 0."""
        contended = np.zeros(count)
        classes, contention = cluster.classes, self._contention
        if not classes.active:
            return contended
        rows = cluster.requests.at
        bound = np.flatnonzero((classes.row_class[: len(rows)] >= 0) & (rows["count"] > rows["assumed"]))
        at = classes.row_class[bound]
        known = at < len(contention.wait_ms)
        bound, at = bound[known], at[known]
        # Unservable requests must not overtake servable ones.
        late = (contention.wait_ms[at] > self._set.wait_threshold_ms) & np.isfinite(contention.ratio[at])
        np.maximum.at(contended, rows["application"][bound[late]], contention.ratio[at[late]])
        return contended

    def _own_ms(self, jobs: Jobs, count: int) -> F64:
        """Return the mean task duration of each application's requests, in ms."""
        rows = jobs.cluster.requests.at
        left = np.maximum(rows["count"] - rows["assumed"], 0) * (rows["application"] >= 0)
        app = np.maximum(rows["application"], 0)
        tasks = np.bincount(app, left, count)
        return np.bincount(app, left * self._contention.row_ms, count)[:count] / np.maximum(tasks[:count], 1.0)

    def _charge(self, order: I64, work: F64, took_ms: F64) -> None:
        """Charge overtaken applications with the task time of those that overtook them."""
        contention = self._contention
        passes = work[order] > np.minimum.accumulate(work[order][::-1])[::-1]
        contention.reordered = int(np.count_nonzero(passes))
        for at in np.flatnonzero(passes & (took_ms[order] > 0.0)).tolist():
            behind = order[at + 1 :]
            contention.passed_ms[behind[work[behind] < work[order[at]]]] += took_ms[order[at]]


def arranged(work: F64, contended: F64, spent: np.ndarray, factor: float) -> I64:
    """Return the order of applications: least work first; within a band of work, most contended first.

    Args:
        work: remaining work of each
        contended: contention of its class, 0 if its wait is not too long
        spent: whether applications with more work may no longer overtake it
        factor: the width of a band; infinite: one band
    """
    place = np.arange(len(work))
    least = work[work > 0.0].min(initial=np.inf)
    band = np.zeros(len(work), np.int64)
    if np.isfinite(factor) and np.isfinite(least):
        band = np.floor(np.log(np.maximum(work, least) / least) / np.log(factor)).astype(np.int64)
    fixed = np.sort(work[spent])
    # a new segment starts after each application that cannot be overtaken any more
    segment = np.searchsorted(fixed, work, side="left")
    return np.lexsort((place, work, -contended, spent, segment, band))


CHECK_MS = 1_000
"""While requests are restricted to their preferences, waits are checked this often (ms) even without events."""


class PhoenixGateParameters(Parameters):
    """Parameters of the gate `phoenix`."""

    wait_threshold_ms: int = Field(
        default=5_000, ge=0, le=86_400_000, description="Asks that wait longer take the next alternative."
    )
    gain: float = Field(
        default=2 / 3,
        gt=0.0,
        lt=1.0,
        description="An ask falls back only if the wait there is at most this many times as long. It returns when the "
        "wait for its preference is below this many times the threshold.",
    )


class PhoenixGate(Gate):
    """All may be served, first where they prefer to be; what waits too long takes the next alternative."""

    keeper: type[Keeper] | None = Contention
    sets_levels = True

    def __init__(self, parameters: PhoenixGateParameters) -> None:
        self._set = parameters
        self._since_ms: dict[Choice, int] = {}

    def use(self, keepers: Keepers) -> None:
        """Use the measured contention."""
        self._contention = cast(Contention, keepers[Contention])

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Admit every row, and set how far each may depart from its preferences."""
        rows["may"] = 1
        self.waits_for, self.due_ms = "", NEVER
        self._contention.relaxed = []
        classes = cluster.classes
        if not classes.active:
            return
        bound = np.flatnonzero(classes.row_choice[: len(view.rows)] >= 0)
        soft = [at for at in np.unique(classes.row_choice[bound]).tolist() if classes.choices[at].last > 0]
        asking = {classes.choices[at]: bound[classes.row_choice[bound] == at] for at in soft}
        levels = {chosen: self._contention.levels.get(chosen, 0) for chosen in asking}
        self._contention.levels = classes.levels = levels
        self._since_ms = {chosen: self._since_ms.get(chosen, now_ms) for chosen in asking}
        left = np.maximum(view.rows["count"] - view.rows["assumed"], 0)
        for chosen, mine in asking.items():
            level = self._next_level(cluster, chosen, left[mine], mine, now_ms)
            levels[chosen] = level
            for row in mine.tolist():
                classes.set_level(row, level)
            if level < chosen.last:
                self.waits_for, self.due_ms = "nodes that asks prefer", now_ms + CHECK_MS
            if level > 0:
                where = f"{shown(chosen.nodes_at(0))}: now {shown(chosen.nodes_at(level))}"
                self._contention.relaxed.append(where)

    def _next_level(self, cluster: Cluster, chosen: Choice, left: I64, rows: I64, now_ms: int) -> int:
        """Return the new level of a choice's requests: one alternative more or less, or the same."""
        level, contention = self._contention.levels[chosen], self._contention
        if not left.any():
            self._since_ms[chosen] = now_ms
            return level
        own_ms = float((left * contention.row_ms[rows]).sum())
        at = self._class(cluster, chosen, level)
        waits_ms = max(contention.of(contention.wait_ms, at), float(self._waited_ms(chosen, cluster, rows, now_ms)))
        if level < chosen.last and waits_ms > self._set.wait_threshold_ms:
            wider = self._class(cluster, chosen, level + 1)
            own_there = 0.0 if contention.shares_nodes(at, wider) else own_ms
            if contention.wait_with(wider, own_there) <= self._set.gain * waits_ms and not self._lifts(at, wider):
                self._since_ms[chosen] = now_ms
                return level + 1
        elif level > 0:
            narrow = self._class(cluster, chosen, level - 1)
            # a part of their own work is already counted there
            spread = contention.of(contention.servers, narrow) / max(contention.of(contention.servers, at), 1e-9)
            if (
                contention.wait_with(narrow, own_ms * max(1.0 - spread, 0.0))
                < self._set.gain * self._set.wait_threshold_ms
            ):
                self._since_ms[chosen] = now_ms
                return level - 1
        return level

    def _waited_ms(self, chosen: Choice, cluster: Cluster, rows: I64, now_ms: int) -> int:
        """Return the ms that a choice's requests have been at their level without a container: an observed wait."""
        contention = self._contention
        applications = cluster.requests.at["application"][rows]
        since = contention.since_ms[applications] if applications.max() < len(contention.since_ms) else np.array([-1])
        stood = now_ms - self._since_ms[chosen]
        seen = [now_ms - int(at) for at in since.tolist() if at >= 0]
        return min(stood, max(seen)) if seen else 0

    def _lifts(self, at: int, wider: int) -> bool:
        """Return whether the most contended class, which these requests do not use yet, would get more work."""
        most = self._contention.most
        if most < 0 or most in (at, wider):
            return most == wider and most != at
        return self._contention.shares_nodes(most, wider) and not self._contention.shares_nodes(most, at)

    @staticmethod
    def _class(cluster: Cluster, chosen: Choice, level: int) -> int:
        return cluster.classes.class_for(chosen.nodes_at(level))
