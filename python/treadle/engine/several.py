"""One of several engines: retries after conflicts with other engines, and reserves for other queues' guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.config.settings import GANG_MAX, RosterEngine
from treadle.events import CONFLICTS, ApplicationState, Fate
from treadle.model.cluster import Cluster
from treadle.model.in_flight import Batch
from treadle.model.tables import ASSUMED, GUARANTEED, PENDING, SIBLING_RESERVE, USED, View, chain, renumbered

_WAITS: Final = frozenset({Fate.TRANSACTION, Fate.CLAIM})
NAMED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Divided:
    """An answer in transactions."""

    sent: int
    """Number of proposals to send, from the first one on."""
    transaction: I32 | None
    """The transaction of each sent proposal; None if each is its own."""


@dataclass(slots=True)
class _Retry:
    """Retry state of an application that is backing off, or was."""

    retry_at_ms: int = 0
    waits: bool = False
    conflicts: int = 0
    """Number of consecutive conflicts without a placement."""


@dataclass(slots=True)
class _Outcome:
    """The outcome of an application's proposals since the last cycle."""

    placed: int = 0
    conflict: bool = False
    refused: bool = False


class Attempts:
    """Gang placement, backoff and giving up in one engine. Times are the ResourceManager's, in milliseconds."""

    def __init__(self, engine: RosterEngine) -> None:
        """Create the state without any attempts."""
        self.engine = engine
        """Its current entry in the roster."""
        self._retries: dict[int, _Retry] = {}
        self._outcomes: dict[int, _Outcome] = {}
        self._given_up: dict[int, str] = {}
        self._too_large: dict[int, int] = {}
        self._most = GANG_MAX
        self.retries = 0
        """Number of attempts after a backoff."""

    def learn(self, batch: Records, positions: I32, fates: U8) -> U8:
        """Apply an answer's outcomes; return them, conflicts as COMMITTED: these blame no node, row or application."""
        mine = np.where((positions >= 0) & (positions < len(batch)), positions, -1)
        left = fates.copy()
        for at in np.flatnonzero(mine >= 0).tolist():
            fate = int(fates[at])
            outcome = self._outcomes.setdefault(int(batch["application"][mine[at]]), _Outcome())
            if fate == Fate.COMMITTED:
                outcome.placed += 1
            elif fate in CONFLICTS:
                outcome.conflict = True
                left[at] = Fate.COMMITTED
            elif fate in _WAITS:
                outcome.refused = True
        return left

    def begin(self, cluster: Cluster, view: View, now_ms: int, most: int = GANG_MAX) -> bool:
        """Exclude applications still in backoff from the next cycle; return whether a retry is due.

        ``most``: maximum number of proposals in an answer.
        """
        self._most = min(most, GANG_MAX)
        for app, outcome in self._outcomes.items():
            self._apply_outcome(app, outcome, now_ms)
        self._outcomes = {}
        due = False
        for app, trying in list(self._retries.items()):
            if view.apps["state"][app] != ApplicationState.ACTIVE:
                del self._retries[app]
                self._given_up.pop(app, None)
            elif trying.waits and now_ms >= trying.retry_at_ms:
                trying.waits = False
                self._given_up.pop(app, None)
                self.retries += 1
                due = True
        self._too_large = self._find_too_large(cluster, view)
        kept = [app for app, trying in self._retries.items() if trying.waits] + list(self._too_large)
        until = view.apps["backoff_until"]
        until[kept] = np.maximum(until[kept], cluster.cycle + 1)
        return due

    def _apply_outcome(self, app: int, outcome: _Outcome, now_ms: int) -> None:
        """Start an application's backoff after a conflict; otherwise reset its conflicts."""
        retry = self.engine.entry.retry
        if outcome.conflict:
            state = self._retries.setdefault(app, _Retry())
            state.conflicts = (0 if outcome.placed else state.conflicts) + 1
            wait_ms = retry.wait_ms(state.conflicts)
            if state.conflicts >= retry.attempts_max:
                self._given_up[app] = (
                    f"engine {self.engine.name} has given this application up after {state.conflicts} conflicts"
                )
                state.conflicts, wait_ms = 0, retry.backoff_max_ms
            state.waits, state.retry_at_ms = True, now_ms + wait_ms
        elif outcome.refused and not outcome.placed:
            self._back_off(app, now_ms)
        elif outcome.placed:
            self._retries.pop(app, None)

    def _back_off(self, app: int, now_ms: int) -> None:
        """Back off for an application that failed without a conflict."""
        trying = self._retries.setdefault(app, _Retry())
        trying.waits, trying.conflicts = True, 0
        trying.retry_at_ms = now_ms + self.engine.entry.retry.backoff_ms

    def _find_too_large(self, cluster: Cluster, view: View) -> dict[int, int]:
        """Return applications whose transaction exceeds the maximum size, each with its number of containers."""
        apps, found = view.apps, dict[int, int]()
        asks = (apps["state"] == ApplicationState.ACTIVE) & (apps["awaiting_am"] == 0) & (apps["pending"] > 0)
        if self._is_gang:
            asks &= apps["pending"] > self._most
            large = np.flatnonzero(asks)
            found = dict(zip(large.tolist(), apps["pending"][large].tolist(), strict=True))
        for app, gang_size in cluster.gang_sizes.items():
            if gang_size > self._most and asks[app] and (need := self._needed(cluster, view, app)) > self._most:
                found[app] = need
        return found

    @property
    def _is_gang(self) -> bool:
        return self.engine.entry.transactions == "gang"

    def _needed(self, cluster: Cluster, view: View, app: int) -> int:
        """Return the minimum number of containers of an application's transaction; 0 if it need not be atomic."""
        if view.apps["awaiting_am"][app]:
            return 0
        gang_size = cluster.gang_sizes.get(app, 0)
        containers = view.groups["running"][[*chain(view.groups, view.apps["first_group"][app])]]
        missing = gang_size - int(containers.sum()) if gang_size else 0
        return max(int(view.apps["pending"][app]) if self._is_gang else 0, missing)

    def divide(self, cluster: Cluster, view: View, made: Batch, now_ms: int, *, full: bool) -> Divided:
        """Group atomic transactions, and move incomplete ones to the end, where they are not sent.

        ``full``: the answer had no room for more; an incomplete transaction may get more next time.
        """
        apps = made.proposals["application"]
        count = len(apps)
        if not count or not (self._is_gang or cluster.gang_sizes):
            return Divided(count, None)
        applications, sizes = np.unique(apps, return_counts=True)
        needs = {app: self._needed(cluster, view, app) for app in applications.tolist()}
        size = dict(zip(applications.tolist(), sizes.tolist(), strict=True))
        sent: list[int] = []
        kept: list[int] = []
        numbers: list[int] = []
        done: set[int] = set()
        for at, app in enumerate(apps.tolist()):
            if needs[app] <= 0:
                sent.append(at)
                numbers.append(numbers[-1] + 1 if numbers else 0)
            elif app not in done:
                done.add(app)
                rows = np.flatnonzero(apps == app).tolist()
                if size[app] < needs[app]:
                    kept += rows
                    if not full:
                        self._back_off(app, now_ms)
                    continue
                sent += rows[:GANG_MAX]
                kept += rows[GANG_MAX:]
                number = numbers[-1] + 1 if numbers else 0
                numbers += [number] * len(rows[:GANG_MAX])
        order = np.array(sent + kept, np.int64)
        made.proposals, made.capability = made.proposals[order], made.capability[order]
        if len(set(numbers)) == len(numbers):
            return Divided(len(sent), None)
        return Divided(len(sent), np.array(numbers, np.int32))

    def carry(self, apps: I32) -> None:
        """Continue after a snapshot; ``apps`` maps old application indices to new ones, -1 for none."""
        self._retries = renumbered(self._retries, apps)
        self._outcomes = renumbered(self._outcomes, apps)
        self._given_up = renumbered(self._given_up, apps)
        self._too_large = {}

    def given_up(self) -> tuple[tuple[int, str], ...]:
        """Return applications for another engine to serve, each with the reason."""
        return tuple(self._given_up.items())[:NAMED_MAX]

    @property
    def too_large(self) -> int:
        """Number of applications whose transaction exceeds the maximum size."""
        return len(self._too_large)

    def diagnostics(self) -> tuple[tuple[int, str], ...]:
        """Return diagnostics for applications: (index, text)."""
        named = list(self._too_large.items())[:NAMED_MAX]
        rule = f"places all requested containers or none, and at most {self._most} containers at once"
        return tuple(
            (app, f"Treadle's engine {self.engine.name} {rule}; this needs {need}: ask for fewer at a time")
            for app, need in named
        )


LAPSES_MS: Final = 60_000
"""How long the unused guarantee of a queue without allocations is reserved, in ms: it may not be servable at all."""


class Guarantees:
    """Reserves for the guarantees of queues that other engines serve."""

    def __init__(self) -> None:
        """Create it without reserves."""
        self._cluster: Cluster | None = None
        self._since: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        """By queue and partition with an unused guarantee: usage, and since when (ms) it is unchanged."""
        self.reserves_any = False
        """Whether there is any reserve."""

    def update_reserves(self, cluster: Cluster, view: View, now_ms: int) -> None:
        """Compute the reserves of the next cycle, for the kernels."""
        if self._cluster is not cluster:
            self._cluster, self._since = cluster, {}
        amounts = view.limit_amounts
        lacks = np.maximum(amounts[:, :, GUARANTEED] - amounts[:, :, USED] - amounts[:, :, ASSUMED], 0)
        owed = np.minimum(np.maximum(amounts[:, :, PENDING] - self._own_asks(view), 0), lacks)
        owed[(view.queues["exists"][: len(owed)] == 0) | (view.queues["parent"][: len(owed)] < 0)] = 0
        self._expire(owed, amounts[:, :, USED], now_ms)
        self.reserves_any = bool(owed.any())
        amounts[:, :, SIBLING_RESERVE] = 0
        if self.reserves_any:
            has_parent = np.flatnonzero((view.queues["exists"] == 1) & (view.queues["parent"] >= 0))
            parent = view.queues["parent"][has_parent]
            below = np.zeros_like(owed)
            np.add.at(below, parent, owed[has_parent])
            amounts[has_parent, :, SIBLING_RESERVE] = below[parent] - owed[has_parent]

    def stop(self, cluster: Cluster) -> None:
        """Remove all reserves: there is only one engine."""
        cluster.limits.amounts[:, :, SIBLING_RESERVE] = 0
        self.reserves_any = False

    @staticmethod
    def _own_asks(view: View) -> I64:
        """Return the outstanding requests of this engine's applications by queue and partition, subqueues included."""
        amounts = view.limit_amounts
        own: I64 = np.zeros((len(amounts), amounts.shape[1], amounts.shape[3]), np.int64)
        row = np.flatnonzero(view.rows["count"] > 0)
        app = view.rows["application"][row]
        mine = (view.apps["state"][app] == ApplicationState.ACTIVE) | (
            view.apps["state"][app] == ApplicationState.WAITING
        )
        row, app = row[mine], app[mine]
        queue = view.apps["queue"][app]
        amounts_asked = view.rows["count"][row][:, None] * view.capability[row]
        while len(row):
            there = queue >= 0
            row, queue, amounts_asked = row[there], queue[there], amounts_asked[there]
            np.add.at(own, (queue, view.rows["partition"][row]), amounts_asked)
            queue = view.queues["parent"][queue]
        return own

    def _expire(self, owed: I64, used: I64, now_ms: int) -> None:
        """Drop the reserve of a queue that has received nothing for `LAPSES_MS`."""
        before, self._since = self._since, {}
        for queue, partition in np.argwhere(owed.any(axis=2)).tolist():
            now = tuple(used[queue, partition].tolist())
            was, since_ms = before.get((queue, partition), (now, now_ms))
            since_ms = since_ms if was == now else now_ms
            self._since[queue, partition] = now, since_ms
            if now_ms - since_ms >= LAPSES_MS:
                owed[queue, partition] = 0
