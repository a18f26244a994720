"""What one reader of the simulated cluster has not read yet: rows of its tables by their versions, containers' steps.

Each engine has a cursor of its own, and none notices whether others read: a reader is given each row once, where it
changed first since that reader's last look, whatever versions it got meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import I32, I64, Records
from treadle.events import ContainerEvent
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import AppState, ContainerState, RowKind, State

CONTAINER_STEPS_KEPT: Final = 1 << 20
"""Container events that are kept for readers that lag behind; a reader that misses one reads everything anew."""


class Unread(NamedTuple):
    """What a reader has to take, in the order in which it changed; in a snapshot everything, in the tables' order."""

    snapshot: bool
    nodes: I32
    apps: I32
    themselves: I32
    """Of the applications those that changed in more than what they use."""
    rows: I32
    queues: I32
    """In their order."""
    container_steps: Records


class Cursor:
    """How far one reader has read."""

    def __init__(self) -> None:
        """Have read nothing: what is read first is a snapshot."""
        self._version = -1
        self.steps_read = -1
        """How many steps of containers were taken or came before the snapshot."""

    def read(self, state: State) -> Unread:
        """Return what changed since the last call, and everything in the first one or if steps were missed."""
        since, clock = self._version, state.clock
        dropped, kept = int(clock[tables.CONTAINER_STEPS_DROPPED]), int(clock[tables.CONTAINER_STEPS])
        behind = since < 0 or self.steps_read < dropped
        found = _everything(state) if behind else _newer(state, since, self.steps_read - dropped)
        self._version = int(clock[tables.VERSION])
        self.steps_read = dropped + kept
        clock[tables.READ] = self._version
        return found


def drop_steps(state: State, read: Iterable[int]) -> None:
    """Drop steps of containers that all readers have taken, and those beyond `CONTAINER_STEPS_KEPT`.

    The rest is moved only if as much or more is dropped, so that a step is moved once on average.

    Args:
        state: the tables
        read: `Cursor.steps_read` of all readers; one that gets a snapshot next needs no steps
    """
    clock = state.clock
    dropped, kept = int(clock[tables.CONTAINER_STEPS_DROPPED]), int(clock[tables.CONTAINER_STEPS])
    taken = min((each - dropped for each in read if each >= dropped), default=kept)
    over = max(taken, kept - CONTAINER_STEPS_KEPT)
    if over > 0 and 2 * over >= kept:
        state.container_steps[: kept - over] = state.container_steps[over:kept].copy()
        clock[tables.CONTAINER_STEPS] -= over
        clock[tables.CONTAINER_STEPS_DROPPED] += over


def _newer(state: State, since: int, first_step: int) -> Unread:
    subjects = changed(state, since)
    first_app = len(state.nodes)
    first_row = first_app + len(state.apps)
    first_queue = first_row + len(state.rows)
    table = np.searchsorted(np.array((first_app, first_row, first_queue)), subjects, side="right")
    order = np.argsort(table, kind="stable")
    subjects, ends = subjects[order], np.bincount(table, minlength=4).cumsum().tolist()
    apps = subjects[ends[0] : ends[1]] - first_app
    return Unread(
        snapshot=False,
        nodes=subjects[: ends[0]],
        apps=apps,
        themselves=apps[state.apps["own_version"][apps] > since],
        rows=subjects[ends[1] : ends[2]] - first_row,
        queues=np.sort(subjects[ends[2] :] - first_queue),
        container_steps=state.container_steps[first_step : int(state.clock[tables.CONTAINER_STEPS])].copy(),
    )


def changed(state: State, since: int) -> I32:
    """Return the places in `State.versions` of what has a version above ``since``: first what changed first since then.

    Of what changed too long ago for `State.latest` nobody knows when; then they come in the tables' order.
    """
    newest, size = int(state.clock[tables.VERSION]), len(state.latest)
    if newest - since > size:
        return np.flatnonzero(state.versions > since).astype(np.int32)
    subjects: I32 = state.latest[np.arange(since + 1, newest + 1) % size]
    if since < state.clock[tables.READ]:  # somebody else has read since, and what changed again has two versions
        first = np.unique(subjects, return_index=True)[1]
        return subjects[np.sort(first)]
    return subjects


def _everything(state: State) -> Unread:
    apps = np.flatnonzero((state.apps["state"] != AppState.AHEAD) & (state.apps["state"] != AppState.FINISHED))
    return Unread(
        snapshot=True,
        nodes=np.arange(len(state.nodes), dtype=np.int32),
        apps=apps.astype(np.int32),
        themselves=apps.astype(np.int32),
        rows=np.flatnonzero(state.rows["count"] > 0).astype(np.int32),
        queues=np.arange(len(state.queues), dtype=np.int32),
        container_steps=_alive(state, np.flatnonzero(state.containers["state"] != ContainerState.FREE)),
    )


def _alive(state: State, containers: I64) -> Records:
    """Return the last step of containers that the RM has, the oldest first."""
    found = state.containers[containers]
    found = found[np.argsort(found["number"])]
    steps = np.zeros(len(found), tables.CONTAINER_STEP)
    for name in ("app", "row", "node", "created_ms"):
        steps[name] = found[name]
    steps["container"] = found["number"]
    steps["time_ms"] = found["created_ms"]
    steps["am"] = state.rows["kind"][found["row"]] == RowKind.MASTER
    steps["event"] = np.where(steps["am"], ContainerEvent.LAUNCHED, ContainerEvent.ALLOCATED)
    return steps
