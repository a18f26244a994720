"""What one reader of the simulated cluster has not read yet: rows of its tables by their versions, containers' steps.

No reader notices whether others read: it is given each row once, where it changed first since that reader's last look,
whatever versions it got meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import I32, I64, Records
from treadle.events import ContainerEvent
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import AppState, ContainerState, RowKind, State


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

    def read(self, state: State) -> Unread:
        """Return what changed since the last call, in the first one everything; steps of containers are all there are.

        Who reads them drops them.
        """
        found = _everything(state) if self._version < 0 else _newer(state, self._version)
        state.clock[tables.READ] = self._version = int(state.clock[tables.VERSION])
        return found


def _newer(state: State, since: int) -> Unread:
    nodes, apps, rows, queues = by_table(state, changed(state, since))
    return Unread(
        snapshot=False,
        nodes=nodes,
        apps=apps,
        themselves=apps[state.apps["own_version"][apps] > since],
        rows=rows,
        queues=np.sort(queues),
        container_steps=state.container_steps[: int(state.clock[tables.CONTAINER_STEPS])].copy(),
    )


def by_table(state: State, subjects: I32) -> list[I32]:
    """Return places in `State.versions` as nodes, applications, rows and queues, each in the given order."""
    firsts = np.cumsum([0, len(state.nodes), len(state.apps), len(state.rows)]).tolist()
    table = np.searchsorted(firsts[1:], subjects, side="right")
    return [subjects[table == at] - first for at, first in enumerate(firsts)]


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
