"""Phoenix: contention of node classes, and the order and the gate that use it.

**CRV**, the constraint resource vector: demand over supply of the usable nodes of a class, by dominant resource; also
by predicate and kind of predicate.

**Wait**: Pollaczek-Khinchine's formula, with the nodes of a class as one server that is m times as fast, m being their
number of concurrent containers: W = λE[S²] / (2m(m - λE[S])). It is at least the waiting work of the class's nodes / m,
and infinite when λE[S] reaches m. The paper's own terms are missing from our copy; these are ours. Older containers
weigh less: by 1/e after `WINDOW_MS`.

**Order and gate**: least remaining work first, but contended classes before others. The gate keeps requests on their
preferred nodes and allows the next alternative where the wait becomes too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
from pydantic import Field

from treadle import events
from treadle.compiled.array_types import F64, I32, I64, Records
from treadle.config.parts import Parameters
from treadle.config.settings import Settings
from treadle.constraints import Choice, Predicate, kind_of
from treadle.events import ApplicationState, Event
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.containers import BEGAN, ENDED
from treadle.model.nodes import Wanted
from treadle.model.tables import TOTAL, View, grown
from treadle.policy.parts import BY_DURATIONS, NEVER, Gate, Keeper, Order
from treadle.policy.work import Jobs

WINDOW_MS: Final = 600_000.0

MOMENT: Final = np.dtype(
    [
        ("begun", "f8"),  # containers that started
        ("share", "f8"),  # sum of their dominant shares of the node
        ("ended", "f8"),
        ("time_ms", "f8"),  # sum of the durations of ended ones, in ms
        ("square", "f8"),  # sum of their squares
        ("at_ms", "i8"),  # time of the last update
    ]
)


class TaskRateStats:
    """Start rates and durations of containers by node, exponentially decayed."""

    def __init__(self) -> None:
        self.at = np.zeros(0, MOMENT)
        self._since_ms = -1

    def observe(self, event: events.Containers, cluster: Cluster) -> None:
        """Count starting and ending containers, as listed in ``cluster.groups.effects``."""
        effects = cluster.groups.effects
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
        """Return for each of ``nodes`` nodes: containers per ms, mean duration (ms) and mean squared duration.

        A node without ended containers has the mean of all nodes.
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
        """Return the number of concurrent containers of each node; ``otherwise`` without recent starts."""
        at = grown(self.at, nodes, 0)[:nodes]
        known = (at["begun"] > 1e-6) & (at["share"] > 0.0)
        return np.maximum(np.where(known, at["begun"] / np.where(known, at["share"], 1.0), otherwise), 1.0)

    def follow(self, nodes: I32, count: int) -> None:
        """Continue after a snapshot; ``nodes`` maps old node indices to new ones, -1 for none."""
        old, self.at = self.at, np.zeros(count, MOMENT)
        stayed = np.flatnonzero(nodes[: len(old)] >= 0)
        self.at[nodes[stayed]] = old[stayed]


CELLS_MAX: Final = 1_000_000
"""Above this number of classes x nodes, waits are computed at most every `REFRESH_MS`."""

REFRESH_MS: Final = 500

LEAST: Final = 1e-4
"""Contention below this is dropped."""

SHOWN_MAX: Final = 3
"""Number of classes in the summary."""


class Contention(Keeper):
    """CRV and wait by class; state across cycles and snapshots."""

    _pairs: tuple[I64, I64] | None = None
    """The (class, node) pairs of all classes; None until computed."""

    def __init__(self) -> None:
        self.kinds: Mapping[str, str] = {}
        """Kinds of predicates by name, in addition to the built-in ones."""
        self.ratio: F64 = np.zeros(1)
        """By class: demand over supply."""
        self.wait_ms: F64 = np.zeros(1)
        """By class: expected wait of a new request, in ms."""
        self.work_ms: F64 = np.zeros(1)
        """By class: waiting requests x their durations, in ms."""
        self.servers: F64 = np.zeros(1)
        """By class: number of concurrent containers of its nodes."""
        self.passed_ms: F64 = np.zeros(0)
        """By application: task time (ms) of the applications that overtook it while it waited."""
        self.since_ms: I64 = np.zeros(0, np.int64)
        """By application: since when it has waited without a new container; -1: it does not wait."""
        self.given: I64 = np.zeros(0, np.int64)
        """By application: its number of containers in the last cycle."""
        self.levels: dict[Choice, int] = {}
        """The last alternative that each choice may use."""
        self.relaxed: list[str] = []
        """Preferences that are currently dropped."""
        self.row_ms: F64 = np.zeros(0)
        """Container duration of each request row, in ms."""
        self.fresh: I64 = np.zeros(0, np.int64)
        """By application: new containers since the last cycle."""
        self._task_rates = TaskRateStats()
        self._usual: F64 = np.zeros(0)
        """By class of `_known`: recent contention; 0: none."""
        self._known: list[Wanted] = []
        self._former: dict[Wanted, float] = {}
        """The same for former classes, which may return after a snapshot."""
        self._member: F64 = np.zeros((0, 0))
        self._supply: F64 = np.zeros((0, 0))
        self._demand: F64 = np.zeros((0, 0))
        self._changes_seen = -1
        self._at_ms = -1

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Count starting and ending containers."""
        if isinstance(event, events.Containers):
            self._task_rates.observe(event, cluster)

    def configure(self, settings: Settings) -> None:
        """Use other kinds of predicates; another gate may relax nothing."""
        self.kinds, self.relaxed = settings.constraints.kinds, []

    def begin(self, jobs: Jobs) -> None:
        """Compute vector and waits."""
        cluster, now_ms = jobs.cluster, jobs.now_ms
        self.row_ms = jobs.row_ms()
        self._note_waits(cluster, now_ms)
        classes = cluster.classes
        count = len(classes.wanted)
        changed = self._changes_seen != classes.changes or len(self.ratio) != count
        late = now_ms - self._at_ms >= REFRESH_MS or now_ms < self._at_ms
        if not (changed or late or self._member.size <= CELLS_MAX):
            return
        if changed:
            self._remember(cluster)
        elapsed_ms = max(now_ms - self._at_ms, 0) if self._at_ms >= 0 else 0
        self._at_ms = now_ms
        self._measure(cluster, jobs.view, self.row_ms, now_ms)
        self._learn(elapsed_ms)

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Continue after a snapshot."""
        self._task_rates.follow(carried.nodes, len(new.nodes.at))
        new.classes.levels = self.levels
        stayed = np.flatnonzero(carried.apps[: len(self.passed_ms)] >= 0)
        passed, since, given = self.passed_ms, self.since_ms, self.given
        self.passed_ms, self.since_ms, self.given = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.fit_applications(len(new.apps.at))
        for to, have in ((self.passed_ms, passed), (self.since_ms, since), (self.given, given)):
            to[carried.apps[stayed]] = have[stayed]
        self._changes_seen = -1

    def fit_applications(self, count: int) -> None:
        """Grow to this many applications."""
        self.passed_ms = grown(self.passed_ms, count, 0.0)
        self.since_ms = grown(self.since_ms, count, -1)
        self.given = grown(self.given, count, 0)

    def _measure(self, cluster: Cluster, view: View, rows_ms: F64, now_ms: int) -> None:
        """Compute demand over supply and the wait of each class."""
        classes = cluster.classes
        count = len(classes.wanted)
        if not classes.active:  # the only class has no nodes and no requests
            self._demand = np.zeros((count, len(cluster.counted)))
            self.work_ms, self.ratio, self.servers = np.zeros(count), np.zeros(count), np.zeros(count)
            self.wait_ms = np.full(count, np.inf)
            return
        left = np.maximum(view.rows["count"] - view.rows["assumed"], 0)
        left[view.rows["application"] < 0] = 0
        bound = classes.row_class[: len(left)]
        asking, free = (left > 0) & (bound >= 0), (left > 0) & (bound < 0)
        at, each = bound[asking], left[asking].astype(np.float64)
        amounts = view.capability[asking] * each[:, None]
        self._demand = np.zeros((count, amounts.shape[1]))
        np.add.at(self._demand, at, amounts)
        self.work_ms = np.zeros(count)
        np.add.at(self.work_ms, at, each * rows_ms[: len(left)][asking])
        self.ratio = _ratio(self._demand, self._supply, cluster.counted == 1)
        free_ms = float((left[free] * rows_ms[: len(left)][free]).sum())
        self._waits(cluster, view, left, free_ms, now_ms)

    def _note_waits(self, cluster: Cluster, now_ms: int) -> None:
        """Update since when applications wait, and their new containers since the last cycle."""
        apps, here = cluster.apps.at, cluster.apps.in_use()
        self.fit_applications(len(apps))
        given = (apps["containers"][here] + apps["assumed_count"][here]).astype(np.int64)
        fresh = np.maximum(given - self.given[here], 0)
        self.fresh = np.zeros(len(apps), np.int64)
        self.fresh[here] = fresh
        self.given[here] = given
        waits = apps["pending"][here] > apps["assumed_count"][here]
        waits &= apps["state"][here] == int(ApplicationState.ACTIVE)
        since = self.since_ms[here]
        self.since_ms[here] = np.where(waits, np.where((since < 0) | (fresh > 0), now_ms, since), -1)
        self.passed_ms[here[~waits | (fresh > 0)]] = 0.0

    def _remember(self, cluster: Cluster) -> None:
        """Cache the nodes of classes and their total resources."""
        classes, size = cluster.classes, cluster.nodes.size
        count = len(classes.wanted)
        member = np.zeros((count, size))
        known = min(size, classes.nodes.shape[1])
        member[:, :known] = classes.nodes[:count, :known]
        self._add_supply(classes.wanted)
        self._member = member
        self._supply = member @ cluster.nodes.amounts[:size, TOTAL].astype(np.float64)
        self._changes_seen = classes.changes
        self._pairs = None

    def _of_classes(self, values: F64) -> F64:
        """Return for each class the sum of a value over its nodes.

        A node is in few classes: this is many times as fast as a product with a dense matrix, and gives the same result
        on each machine.
        """
        classes, nodes = self._class_nodes()
        return np.bincount(classes, values[nodes], len(self._member)).astype(np.float64, copy=False)

    def _of_nodes(self, values: F64) -> F64:
        """Return for each node the sum of a value over its classes."""
        classes, nodes = self._class_nodes()
        return np.bincount(nodes, values[classes], self._member.shape[1]).astype(np.float64, copy=False)

    def _class_nodes(self) -> tuple[I64, I64]:
        if self._pairs is None:
            classes, nodes = np.nonzero(self._member)
            self._pairs = classes.copy(), nodes.copy()  # make the columns contiguous
        return self._pairs

    def _waits(self, cluster: Cluster, view: View, left: I64, free_ms: float, now_ms: int) -> None:
        size = self._member.shape[1]
        total = cluster.nodes.amounts[:size, TOTAL].astype(np.float64)
        usable = cluster.nodes.at["state"][:size] == 1
        counted = cluster.counted == 1
        asked = left.sum()
        mean = (view.capability * left[:, None]).sum(axis=0) / max(float(asked), 1.0)
        needs = counted & (mean > 0.0)
        default = (total[:, needs] / mean[needs]).min(axis=1, initial=1e9) if needs.any() else np.ones(size)
        slots = self._task_rates.slots(size, default) * usable
        rate, first, second = self._task_rates.rates(size, now_ms)
        self.servers = self._of_classes(slots)
        room = np.maximum(self.servers, 1e-9)
        everywhere = max(float(slots.sum()), 1e-9)
        waiting = slots * (self._of_nodes(self.work_ms / room) + free_ms / everywhere)
        busy = self._of_classes(rate * first)
        spread = self._of_classes(rate * second)
        self.wait_ms = np.maximum(pollaczek_khinchine(busy, spread, self.servers), self._of_classes(waiting) / room)
        self.wait_ms[self.servers <= 0.0] = np.inf

    def _add_supply(self, wanted: list[Wanted]) -> None:
        """Move the values of old classes to the new list of classes."""
        usual = self._former | {one: float(at) for one, at in zip(self._known, self._usual, strict=True) if at > 0.0}
        self._usual = np.array([usual.pop(one, 0.0) for one in wanted])
        self._known, self._former = list(wanted), usual

    def _learn(self, elapsed_ms: int) -> None:
        """Add recent requests, so that nodes are spared for the next ones."""
        keeps = float(np.exp(-elapsed_ms / WINDOW_MS))
        self._former = {one: ratio * keeps for one, ratio in self._former.items() if ratio * keeps > LEAST}
        usual = self._usual * keeps
        now = np.minimum(np.where(np.isfinite(self.ratio), self.ratio, 0.0), 1e6)
        self._usual = np.maximum(np.where(usual > LEAST, usual, 0.0), now)

    def needs(self, cluster: Cluster) -> F64:
        """Return for each node the recent contention of the classes that need it; empty if there is none."""
        if self._changes_seen != cluster.classes.changes or not self._usual.any():
            return np.zeros(0)
        needed = np.zeros(len(cluster.nodes.at))
        needed[: self._member.shape[1]] = self._of_nodes(self._usual)
        return needed

    def of(self, values: F64, at: int) -> float:
        """Return a class's value; 0 for a class added after `update`."""
        return float(values[at]) if 0 <= at < len(values) else 0.0

    def wait_with(self, at: int, more_ms: float) -> float:
        """Return the wait for a class with ``more_ms`` of additional work."""
        servers = self.of(self.servers, at)
        return self.of(self.wait_ms, at) + more_ms / servers if servers > 0.0 else float("inf")

    @property
    def most(self) -> int:
        """Return the most contended class, -1 without requests."""
        finite = np.where(np.isfinite(self.ratio), self.ratio, 0.0)
        at = int(np.argmax(finite)) if len(finite) else -1
        return at if at >= 0 and finite[at] > 0.0 else -1

    def shares_nodes(self, one: int, other: int) -> bool:
        """Return whether two classes have a node in common."""
        if max(one, other) >= len(self._member) or min(one, other) < 0:
            return False
        return bool((self._member[one] * self._member[other]).any())

    def summary(self, cluster: Cluster) -> str:
        """Return vector, waits and dropped preferences as a short text, the most contended first."""
        ratios = sorted(self._kinds(cluster).items(), key=lambda pair: (-pair[1], pair[0]))
        kinds = ", ".join(f"{kind} {ratio:.2f}" for kind, ratio in ratios)
        wanted = cluster.classes.wanted
        contended = [at for at in np.flatnonzero(self.ratio > 0.0).tolist() if at < len(wanted)]
        first = sorted((-float(self.ratio[at]), shown(wanted[at]), float(self.wait_ms[at])) for at in contended)
        waits = ", ".join(
            f"{what} {f'{wait_ms / 1000:.0f} s' if np.isfinite(wait_ms) else 'no end'}"
            for _, what, wait_ms in first[:SHOWN_MAX]
        )
        parts = [f"contention {kinds}" if kinds else "", f"waits {waits}" if waits else ""]
        parts.append(f"relaxed {len(self.relaxed)}: {self.relaxed[0]}" if self.relaxed else "")
        return "; ".join(filter(None, parts))

    def _kinds(self, cluster: Cluster) -> dict[str, float]:
        """Return the vector by kind of predicate."""
        wanted = cluster.classes.wanted
        by_predicate: dict[Predicate, F64] = {}
        for at in np.flatnonzero(self._demand.any(axis=1) if self._demand.size else np.zeros(0)).tolist():
            for predicate in {one for part in wanted[at] for one in part.predicates}:
                by_predicate[predicate] = by_predicate.get(predicate, 0.0) + self._demand[at]
        counted = cluster.counted == 1
        kinds: dict[str, float] = {}
        for predicate, demand in by_predicate.items():
            kind, supply = kind_of(predicate.name, self.kinds), cluster.classes.supply(cluster, predicate)
            ratio = float(_ratio(demand[None], supply[None].astype(np.float64), counted)[0])
            kinds[kind] = max(kinds.get(kind, 0.0), ratio)
        return kinds


def shown(conjunctions: Wanted) -> str:
    """Return the condition of a class as text."""
    return " or ".join(one.text() or "any node" for one in conjunctions) or "no node"


def pollaczek_khinchine(busy: F64, spread: F64, servers: F64) -> F64:
    """Return the mean waits in ms: ``busy`` is λE[S], ``spread`` λE[S²], by class; infinite when saturated."""
    left = servers - busy
    return np.where(left > 0.0, spread / np.where(left > 0.0, 2.0 * np.maximum(servers, 1e-9) * left, 1.0), np.inf)


def _ratio(demand: F64, supply: F64, counted: np.ndarray) -> F64:
    """Return demand over supply of the dominant resource; infinite for a demand without supply."""
    demand, supply = demand[:, counted], supply[:, counted]
    ratio = np.where(supply > 0.0, demand / np.where(supply > 0.0, supply, 1.0), np.where(demand > 0.0, np.inf, 0.0))
    return ratio.max(axis=1, initial=0.0)


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


class PhoenixOrder(Order, kind="phoenix", parameters=PhoenixOrderParameters, traits=BY_DURATIONS):
    """The least work left first; where asks wait too long for a class of nodes, the most contended class first."""

    keeper: type[Keeper] | None = Contention
    kept: Contention

    def __init__(self, parameters: PhoenixOrderParameters) -> None:
        self._set = parameters

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set each application's position in the order."""
        cluster, contention = jobs.cluster, self.kept
        work = jobs.work() * jobs.scratch.apps["part"]
        key[:] = work
        apps, here = cluster.apps.at, cluster.apps.in_use()
        waiting = here[apps["pending"][here] > apps["assumed_count"][here]].astype(np.int64)
        contended = self._contended(cluster, len(key))
        if not contended[waiting].any():
            return
        own_ms = self._own_ms(jobs, len(key))
        starved = (contention.since_ms >= 0) & (jobs.now_ms - contention.since_ms >= self._set.max_wait_ms)
        slack_ms = self._set.slack_factor * own_ms
        factor = self._set.bound_factor if self._set.reorder == "bounded" else np.inf
        for charges in (True, False):
            spent = starved[: len(key)] | (contention.passed_ms[: len(key)] > slack_ms)
            order = waiting[arranged(work[waiting], contended[waiting], spent[waiting], factor)]
            if charges:
                self._charge(order, work, contention.fresh * own_ms)
        key[order] = np.arange(len(order))

    def _contended(self, cluster: Cluster, count: int) -> F64:
        """Return for each application the contention of its most contended class with too long a wait, else 0."""
        contended = np.zeros(count)
        classes, contention = cluster.classes, self.kept
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
        return np.bincount(app, left * self.kept.row_ms, count)[:count] / np.maximum(tasks[:count], 1.0)

    def _charge(self, order: I64, work: F64, took_ms: F64) -> None:
        """Charge overtaken applications with the task time of those that overtook them."""
        contention = self.kept
        passes = work[order] > np.minimum.accumulate(work[order][::-1])[::-1]
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


class PhoenixGate(Gate, kind="phoenix", parameters=PhoenixGateParameters):
    """All may be served, first where they prefer to be; what waits too long takes the next alternative."""

    keeper: type[Keeper] | None = Contention
    kept: Contention
    sets_levels = True

    def __init__(self, parameters: PhoenixGateParameters) -> None:
        self._set = parameters
        self._since_ms: dict[Choice, int] = {}

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Admit every row, and set how far each may depart from its preferences."""
        rows["may"] = 1
        self.waits_for, self.due_ms = "", NEVER
        self.kept.relaxed = []
        classes = cluster.classes
        if not classes.active:
            return
        bound = np.flatnonzero(classes.row_choice[: len(view.rows)] >= 0)
        soft = [at for at in np.unique(classes.row_choice[bound]).tolist() if classes.choices[at].last > 0]
        asking = {classes.choices[at]: bound[classes.row_choice[bound] == at] for at in soft}
        levels = {chosen: self.kept.levels.get(chosen, 0) for chosen in asking}
        self.kept.levels = classes.levels = levels
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
                self.kept.relaxed.append(where)

    def _next_level(self, cluster: Cluster, chosen: Choice, left: I64, rows: I64, now_ms: int) -> int:
        """Return the new level of a choice's requests: one alternative more or less, or the same."""
        level, contention = self.kept.levels[chosen], self.kept
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
        contention = self.kept
        applications = cluster.requests.at["application"][rows]
        since = contention.since_ms[applications] if applications.max() < len(contention.since_ms) else np.array([-1])
        stood = now_ms - self._since_ms[chosen]
        seen = [now_ms - int(at) for at in since.tolist() if at >= 0]
        return min(stood, max(seen)) if seen else 0

    def _lifts(self, at: int, wider: int) -> bool:
        """Return whether the most contended class, which these requests do not use yet, would get more work."""
        most = self.kept.most
        if most < 0 or most in (at, wider):
            return most == wider and most != at
        return self.kept.shares_nodes(most, wider) and not self.kept.shares_nodes(most, at)

    @staticmethod
    def _class(cluster: Cluster, chosen: Choice, level: int) -> int:
        return cluster.classes.class_for(chosen.nodes_at(level))
