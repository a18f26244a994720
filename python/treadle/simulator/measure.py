"""Measurements during a simulation, and invariants that hold at every step under every policy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64
from treadle.compiled.simulator import kernel
from treadle.config.settings import Settings
from treadle.events import Fate, Fates, NodeState, Proposals
from treadle.model.tables import chain
from treadle.policy.shares.aims import fill
from treadle.policy.shares.tree import MOST, NEVER, OFF, SHARE_NODE, UNIT, Shares, shares_for
from treadle.simulator.build import Built
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.tables import AppState, ContainerState, RowKind, State, TaskState, integrate_all
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import ScenarioModel


class Window(NamedTuple):
    """A time window, about `Report.window_s` long."""

    begin_ms: int
    end_ms: int
    running: int
    """Containers at its end."""
    pending: int
    """Requested containers at its end."""
    jain: float | None
    """Jain's index over the leaves with usage or requests; None for fewer than two."""
    share_deviation: float | None
    """Fraction of the cluster allocated differently from the ideal at its end; None without demand."""
    used: F64
    """Average usage of each queue, shape (queues, R)."""


class Measurements:
    """Samples a simulation after every cycle and records windows."""

    def __init__(self, built: Built, scenario: ScenarioModel) -> None:
        self._built = built
        self._window_ms = max(round(1000 * scenario.report.window_s), 1)
        self._windows_max = scenario.report.windows_max
        self._begin_ms = 0
        self._before: F64 = np.zeros_like(built.state.queue_integral)
        self._ideal = Ideal(built)
        self.windows: list[Window] = []

    def sample(self, rm: SimulatedRM) -> None:
        """Record a window if it is complete."""
        if rm.now_ms >= self._begin_ms + self._window_ms:
            self._close(rm)
            if len(self.windows) % self._windows_max == 0:
                self._window_ms *= 2  # bounds the number of windows of a long run

    def finish(self, rm: SimulatedRM) -> None:
        """Record the last window."""
        if rm.now_ms > self._begin_ms:
            self._close(rm)

    def _close(self, rm: SimulatedRM) -> None:
        state, now_ms = rm.state, rm.now_ms
        integrate_all(state)
        used = (state.queue_integral - self._before) / (now_ms - self._begin_ms)
        running, pending = int(state.clock[tables.CONTAINERS]), int(state.clock[tables.PENDING])
        jain, deviation = self._jain(state, used), self._share_deviation(state)
        self.windows.append(Window(self._begin_ms, now_ms, running, pending, jain, deviation, used))
        self._begin_ms = now_ms
        self._before = state.queue_integral.copy()

    def _jain(self, state: State, used: F64) -> float | None:
        tree = self._built.tree
        leaves = np.array(tree.leaves)
        share = self._dominant(used[leaves])
        active = (share > 0) | (state.queue_pending[leaves] > 0).any(axis=1)
        weight = np.array(tree.shares)[leaves]
        each = (share / np.where(weight > 0, weight, 1.0))[active & (weight > 0)]
        if len(each) < 2 or not each.any():
            return None
        return float(each.sum() ** 2 / (len(each) * (each**2).sum()))

    def _dominant(self, amounts: F64 | I64) -> F64:
        """Return the dominant share of each row of amounts, over the counted resources."""
        counted = (self._built.state.counted == 1) & (self._built.total > 0)
        if not counted.any():
            return np.zeros(len(amounts))
        shares: F64 = (amounts[:, counted] / self._built.total[counted]).max(axis=1)
        return shares

    def _share_deviation(self, state: State) -> float | None:
        ideal = self._ideal.shares(state.queue_used + state.queue_pending)
        if ideal is None:
            return None
        actual = self._dominant(state.queue_used[list(self._built.tree.leaves)])
        return round(float(np.abs(actual - ideal).sum() / 2), 9)  # further digits are the filling's


@kernel
def fill_tree(shares: Shares) -> int:
    """Fill a tree from empty."""
    return fill(shares)


class Ideal:
    """The H-DRF shares of a queue tree's leaves, filled from empty (`treadle.policy.shares.aims`)."""

    def __init__(self, built: Built) -> None:
        """Build the tree, in the order of the queues: siblings are contiguous, after their parent."""
        tree, nodes = built.tree, np.zeros(len(built.tree.parents), SHARE_NODE)
        nodes["parent"], nodes["weight"] = tree.parents, np.maximum(tree.shares, 1e-9)
        nodes["child_count"] = np.bincount(np.array(tree.parents[1:], np.int64), minlength=len(nodes))
        nodes["first_child"] = 1 + np.cumsum(nodes["child_count"]) - nodes["child_count"]
        self._leaves = list(tree.leaves)
        nodes["leaf"][self._leaves] = 1
        self._counted = (built.state.counted == 1) & (built.total > 0)
        self._total = np.where(self._counted, built.total, 1)
        self._shares = shares_for(nodes, np.zeros(0, np.int32), len(built.total), aims=1)

    def shares(self, wanted: I64) -> F64 | None:
        """Return the dominant share of each leaf, shape (leaves,); None without demand.

        ``wanted`` is each queue's usage plus requests, shape (queues, R).
        """
        nodes, filled = self._shares.fill, self._shares.filled
        wants = np.where(self._counted, wanted / self._total, 0.0)
        limit = np.where(self._shares.nodes["leaf"] == 1, wants.max(axis=1), 0.0)
        if not limit.any():
            return None
        nodes["limit"], filled[:, OFF], filled[:, MOST] = limit, ~self._counted, NEVER
        filled[0, MOST] = 1.0
        filled[:, UNIT] = wants / np.where(limit > 0.0, limit, 1.0)[:, None]
        fill_tree(self._shares)
        return np.array(nodes["clock"][self._leaves])


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Figures of an engine. Decision time is useful if its transaction succeeds, wasted if it conflicts, else empty."""

    name: str
    busyness: float
    """Useful and wasted decision time over the time of the run."""
    conflict_fraction: float
    """Conflicts over successful transactions: 3 means four attempts each. Infinite without successful ones."""
    wait_mean_s: float
    """Mean time from an application's first request to the first attempt."""
    wait_p50_s: float
    wait_p99_s: float
    useful_s: float
    wasted_s: float
    empty_s: float
    decisions: int
    applications: int
    """Applications with an attempt."""
    transactions: int
    """Successful ones: something was placed, without a conflict."""
    conflicts: int
    empty: int
    """Attempts without placements or conflicts."""
    placed: int
    """Containers."""
    retries: int
    """Attempts after the first for the same requests of an application."""
    given_up: int
    """Applications passed to the fallback after too many conflicts."""
    moved: int
    """Applications passed to another engine."""
    over_claim: int
    """Transactions cut short by its claim."""
    too_large: int
    """Transactions rejected because they are atomic and too large."""


class EngineCounts:
    """The same during a simulation, with the same names; times in milliseconds."""

    def __init__(self) -> None:
        self.useful_ms = self.wasted_ms = self.empty_ms = 0
        self.decisions = self.transactions = self.conflicts = self.empty = self.placed = 0
        self.retries = self.given_up = self.moved = self.over_claim = self.too_large = 0
        self.waits_ms: list[int] = []

    def figures(self, name: str, span_ms: int) -> EngineFigures:
        """Return the figures of a run of ``span_ms`` milliseconds."""
        waits_s = np.array(self.waits_ms or [0]) / 1000.0
        p50, p99 = (float(np.percentile(waits_s, part)) for part in (50, 99))
        counts = {each.name: getattr(self, each.name) for each in fields(EngineFigures) if hasattr(self, each.name)}
        without = float("inf") if self.conflicts else 0.0
        return EngineFigures(
            name=name,
            busyness=(self.useful_ms + self.wasted_ms) / max(span_ms, 1),
            conflict_fraction=self.conflicts / self.transactions if self.transactions else without,
            wait_mean_s=float(waits_s.mean()),
            wait_p50_s=p50,
            wait_p99_s=p99,
            useful_s=self.useful_ms / 1000.0,
            wasted_s=self.wasted_ms / 1000.0,
            empty_s=self.empty_ms / 1000.0,
            applications=len(self.waits_ms),
            **counts,
        )


class InvariantError(AssertionError):
    """A violated invariant: an error in Treadle, not in a scenario."""


Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Received(NamedTuple):
    """Requests, nodes (-1: unusable) and queues as received by the engine."""

    counts: I32
    free: I64
    used: I64


class Invariants:
    """Checks a simulation before and after each commit."""

    def __init__(self, built: Built, settings: Settings) -> None:
        self._built = built
        overbooks = bool(getattr(settings.policy.fit.parameters, "overbook", None))
        keeps_free = overbooks or settings.engine_reservation.headroom
        self._all_may_run = not (settings.policy.holds_back() or keeps_free)
        self._held_max = settings.engine_reservation.nodes_max if settings.engine_reservation.duration_ms else 0
        self._asked: I64 = np.zeros(0, np.int64)
        self._received: Received | None = None
        self._rejected_before = 0

    def note_received(self, state: State) -> None:
        """Record the engine's view of the cluster, if time passes during its decision."""
        usable = state.nodes["state"] == NodeState.USABLE
        free = np.where(usable[:, None], state.node_free, -1)
        self._received = Received(state.rows["count"].copy(), free, state.queue_used.copy())

    def before(self, state: State) -> None:
        """Record the requests before a commit."""
        self._asked = state.rows["count"].astype(np.int64)

    def after(self, state: State, made: Proposals, fates: Fates, limit: int) -> None:
        """Check the tables after a commit; raise `InvariantError` on a violation."""
        self._nothing_unasked(state, made, fates)
        self._usage_adds_up(state)
        self._tasks_once(state)
        rejected = int(np.count_nonzero(fates.fate))
        if len(made) < limit and not rejected and not self._rejected_before:
            self._work_conserving(state)
        # After a rejection the engine backs off from the node, row or application that the reason names.
        self._rejected_before = 2048 if rejected else max(self._rejected_before - 1, 0)
        self._received = None

    def _nothing_unasked(self, state: State, made: Proposals, fates: Fates) -> None:
        committed = fates.fate == int(Fate.COMMITTED)
        app, key = made.application[: len(committed)][committed], made.key[: len(committed)][committed]
        rows = state.apps["first_row"][app] + key
        placed = np.bincount(rows, minlength=len(self._asked))
        wrong = np.flatnonzero(placed > self._asked)
        _require(not len(wrong), f"row {wrong[:1]} got more containers than it asked for")
        if bool((state.rows["count"] < 0).any()):
            raise InvariantError("a row asks for less than nothing")

    def _usage_adds_up(self, state: State) -> None:
        alive = np.flatnonzero(state.containers["state"] != ContainerState.FREE)
        _require(len(alive) == state.clock[tables.CONTAINERS], "containers are miscounted")
        held = state.containers[alive]
        bound = state.rows["bound"][held["row"]]
        wrong = (bound >= 0) & (state.allowed[bound, held["node"]] == 0) if len(state.allowed) else bound >= 0
        _require(not wrong.any(), f"a container of row {held['row'][wrong][:1]} is on a node that it must not use")
        amounts = state.capability[held["row"]]
        used = np.zeros_like(state.node_total)
        np.add.at(used, held["node"], amounts)
        counted = state.counted == 1
        over = (used > state.node_total)[:, counted].any(axis=1)
        _require(not over.any(), f"node {np.flatnonzero(over)[:1]} is over its capacity")
        _require(bool((used + state.node_free == state.node_total).all()), "what is free on a node is wrong")
        apps = np.zeros_like(state.app_used)
        np.add.at(apps, held["app"], amounts)
        _require(bool((apps == state.app_used).all()), "what an application uses is wrong")
        queues = np.zeros_like(state.queue_used)
        np.add.at(queues, state.apps["queue"], apps)
        pending = np.zeros_like(state.queue_pending)
        asked = state.rows["count"][:, None] * state.capability
        np.add.at(pending, state.apps["queue"][state.rows["app"]], asked)
        for queue in range(len(state.queues) - 1, 0, -1):
            queues[state.queues["parent"][queue]] += queues[queue]
            pending[state.queues["parent"][queue]] += pending[queue]
        _require(bool((queues == state.queue_used).all()), "what a queue uses is wrong")
        _require(bool((pending == state.queue_pending).all()), "what a queue's applications ask for is wrong")
        _require(bool((queues[:, counted] <= state.queue_maximum[:, counted]).all()), "a queue is over its maximum")
        _require(int(state.rows["count"].sum()) == state.clock[tables.PENDING], "asks are miscounted")

    def _tasks_once(self, state: State) -> None:
        """Check that no task is in two containers, and that containers and tasks refer to each other."""
        held = np.flatnonzero(state.containers["state"] == ContainerState.HELD)
        inside = held[state.containers["task"][held] >= 0]
        inside = inside[state.rows["kind"][state.containers["row"][inside]] != RowKind.EXECUTORS]
        tasks = state.tasks[state.containers["task"][inside]]
        _require(bool((tasks["container"] == inside).all()), "a task is in two containers")
        busy = np.isin(tasks["state"], (TaskState.EARLY, TaskState.RUNNING))
        _require(bool(busy.all()), "a container holds a task that does not run")
        mine = state.rows["app"][tasks["row"]] == state.containers["app"][inside]
        _require(bool(mine.all()), "a task runs in another application's container")
        executors = held[state.rows["kind"][state.containers["row"][held]] == RowKind.EXECUTORS]
        slots = state.containers["busy"][executors]
        _require(bool((slots <= self._built.parameters.spark_slots).all()), "an executor is too full")
        # The stages' counts must equal the containers' tasks: an additional task would run nowhere.
        alive = state.apps["state"][state.rows["app"]] != AppState.FINISHED
        _require(int(state.rows["held"][alive].sum()) == len(inside) + int(slots.sum()), "running tasks are miscounted")

    def _work_conserving(self, state: State) -> None:
        """Check that no request waits that fits on more nodes than may be reserved, except for a preferred node."""
        if not self._all_may_run:
            return
        count, used = state.rows["count"], state.queue_used
        free = np.where((state.nodes["state"] == NodeState.USABLE)[:, None], state.node_free, -1)
        if self._received is not None:
            # Requests and releases during the decision are unknown to the engine.
            count, used = np.minimum(count, self._received.counts), np.maximum(used, self._received.used)
            free = np.minimum(free, self._received.free)
        rows = np.flatnonzero((count > 0) & (state.rows["places"] == 0))
        if not len(rows):
            return
        of = state.apps["state"][state.rows["app"][rows]]
        master = state.rows["kind"][rows] == RowKind.MASTER
        # An application that lost its AM waits with its tasks until another AM runs.
        rows = rows[(of == AppState.RUNNING) | ((of == AppState.STARTING) & master)]
        if not len(rows):
            return
        counted = state.counted == 1
        free = free[:, counted]
        usable = (free >= 0).all(axis=1)
        queue, bound = state.apps["queue"][state.rows["app"][rows]], state.rows["bound"][rows]
        kinds = np.column_stack([queue, bound, state.capability[rows][:, counted]])
        asks, where = np.unique(kinds, axis=0, return_index=True)
        for ask, row in zip(asks, rows[where], strict=True):
            may = usable & (state.allowed[ask[1]] == 1) if ask[1] >= 0 else usable
            fits = int((may & (free >= ask[2:]).all(axis=1)).sum())
            if fits > self._held_max and self._has_room(state, used, int(ask[0]), ask[2:], counted):
                raise InvariantError(f"row {row} waits though it fits on {fits} nodes")

    @staticmethod
    def _has_room(state: State, used: I64, queue: int, ask: I64, counted: Bools) -> bool:
        return not any(
            bool((used[at][counted] + ask > state.queue_maximum[at][counted]).any())
            for at in chain(state.queues, queue, "parent")
        )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(otherwise)
