"""What must hold at every step, whatever the policy does.

Usage is counted incrementally by compiled code; here it is added up anew from the containers alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import I32, I64
from treadle.config.settings import Settings
from treadle.events import Fate, Fates, NodeState
from treadle.proposals import Proposals
from treadle.simulator.build import Built
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import AppState, ContainerState, RowKind, State, TaskState


class InvariantError(AssertionError):
    """Something that must never happen has happened: an error in Treadle, not in a scenario."""


Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Received(NamedTuple):
    """What the engine received of asks, nodes (-1: not usable) and queues."""

    counts: I32
    free: I64
    used: I64


class Invariants:
    """Checks a simulation before and after each commit."""

    def __init__(self, built: Built, settings: Settings) -> None:
        self._built = built
        overbooks = bool(getattr(settings.policy.fit.parameters, "overbook", None))
        keeps_free = overbooks or settings.hold.headroom
        self._all_may_run = not (settings.policy.holds_back() or settings.policy.chooses_nodes() or keeps_free)
        self._held_max = settings.hold.nodes_max if settings.hold.duration_ms else 0
        self._asked: I64 = np.zeros(0, np.int64)
        self._received: Received | None = None
        self._rejected_before = 0

    def note_received(self, state: State) -> None:
        """Look at what the engine decides on, if time goes on while it does."""
        usable = state.nodes["state"] == NodeState.USABLE
        free = np.where(usable[:, None], state.node_free, -1)
        self._received = Received(state.rows["count"].copy(), free, state.queue_used.copy())

    def before(self, state: State, made: Proposals) -> None:
        """Look at an answer before it is committed."""
        self._asked = state.rows["count"].astype(np.int64)

    def after(self, state: State, made: Proposals, fates: Fates, limit: int) -> None:
        """Check the tables after a commit; raise `InvariantError` if anything is wrong."""
        self._nothing_unasked(state, made, fates)
        self._usage_adds_up(state)
        self._tasks_once(state)
        rejected = int(np.count_nonzero(fates.fate))
        if len(made) < limit and not rejected and not self._rejected_before:
            self._work_conserving(state)
        # After a rejection the engine leaves alone for a while what the reason names.
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
        """No task in two containers, none in a container that does not know it, none without a container."""
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
        # What the stages count must be what the containers hold: a task more would be one that runs nowhere.
        alive = state.apps["state"][state.rows["app"]] != AppState.FINISHED
        _require(int(state.rows["held"][alive].sum()) == len(inside) + int(slots.sum()), "running tasks are miscounted")

    def _work_conserving(self, state: State) -> None:
        """Nobody waits whose ask fits on more nodes than may be held, unless it waits for a node that it prefers."""
        if not self._all_may_run:
            return
        count, used = state.rows["count"], state.queue_used
        free = np.where((state.nodes["state"] == NodeState.USABLE)[:, None], state.node_free, -1)
        if self._received is not None:
            # what was asked for or given back while the engine decided, it has not heard of
            count, used = np.minimum(count, self._received.counts), np.maximum(used, self._received.used)
            free = np.minimum(free, self._received.free)
        rows = np.flatnonzero((count > 0) & (state.rows["places"] == 0))
        if not len(rows):
            return
        of = state.apps["state"][state.rows["app"][rows]]
        master = state.rows["kind"][rows] == RowKind.MASTER
        # Whose master was lost waits with its tasks until another runs.
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
        while queue >= 0:
            if bool((used[queue][counted] + ask > state.queue_maximum[queue][counted]).any()):
                return False
            queue = int(state.queues["parent"][queue])
        return True


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(otherwise)
