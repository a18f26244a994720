"""Events for one of several engines: all nodes and queues, but only its own applications.

Its scope may change from frame to frame. An application that comes into it is sent as in a snapshot, with the
containers that it has; one that leaves it has moved. Of an application that is its own and closed the engine knows all
but the asks.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import numpy as np

from treadle.compiled.array_types import I32, U8
from treadle.events import ApplicationState, Event, Replaces
from treadle.simulator.build import Built
from treadle.simulator.cluster.state import AppState, State
from treadle.simulator.cursor import Unread, alive
from treadle.simulator.feed import Feed, outstanding, ranges


class Part(IntEnum):
    """How much of an application an engine receives."""

    NONE = 0
    CLOSED = 1
    """All but its asks."""
    OPEN = 2


class Scope:
    """What an engine receives of each application, from its next frame on."""

    def __init__(self, applications: int) -> None:
        """Begin with nothing."""
        self.parts: U8 = np.zeros(applications, np.uint8)


class PartialFeed(Feed):
    """The feed of one of several engines."""

    def __init__(self, built: Built, settings: dict[str, str], oracle: bool, scope: Scope) -> None:
        super().__init__(built, settings, oracle, None, None)
        self._scope = scope
        self._parts_sent: U8 = np.zeros_like(scope.parts)
        """What was sent of each application last."""
        self._lost: I32 = np.zeros(0, np.int32)
        self._closed: I32 = np.zeros(0, np.int32)
        """Rows whose asks are no longer sent."""

    def _unread(self, state: State) -> Unread:
        found = super()._unread(state)
        if found.snapshot:
            self._parts_sent[:] = Part.NONE
        now, before = self._scope.parts, self._parts_sent
        ended = state.apps["state"] == AppState.FINISHED
        gone = ended & (before != Part.NONE)
        own = (now != Part.NONE) & ~ended
        gained = np.flatnonzero(own & (before == Part.NONE)).astype(np.int32)
        self._lost = np.flatnonzero((now == Part.NONE) & (before != Part.NONE) & ~ended).astype(np.int32)
        opened = np.flatnonzero(own & (now == Part.OPEN) & (before != Part.OPEN))
        closed = np.flatnonzero(own & (now == Part.CLOSED) & (before == Part.OPEN))
        self._parts_sent = np.where(ended, Part.NONE, now).astype(np.uint8)
        rows, first, count = found.rows, state.apps["first_row"], state.apps["rows"]
        rows = rows[(now[state.rows["app"][rows]] == Part.OPEN) & own[state.rows["app"][rows]]]
        new = ranges(first[opened], count[opened])
        new = new[state.rows["count"][new] > 0]
        self._places_sent[new] = 0
        self._closed = ranges(first[closed], count[closed])
        if found.snapshot:
            new = new[:0]
        return found._replace(
            apps=_with(found.apps[own[found.apps]], gained),
            themselves=_with(found.themselves[(own | gone)[found.themselves]], gained),
            rows=_with(rows, new),
            container_steps=self._steps_of(state, found, own | gone, gained),
        )

    @staticmethod
    def _steps_of(state: State, found: Unread, sent: np.ndarray, gained: I32) -> np.ndarray:
        """Return the steps of the engine's containers; of applications that it gains the last step of each."""
        steps = found.container_steps[sent[found.container_steps["app"]]]
        if found.snapshot or not len(gained):
            return steps
        containers = []
        for app in gained.tolist():
            at = int(state.apps["first_container"][app])
            while at >= 0:
                containers.append(at)
                at = int(state.containers["app_next"][at])
        steps = steps[~np.isin(steps["app"], gained)]
        return np.concatenate([steps, alive(state, np.array(containers, np.int64))])

    def _applications(self, state: State, unread: Unread) -> list[Event]:
        sent = super()._applications(state, unread)
        if len(self._lost):
            everything = int(Replaces.REQUESTS | Replaces.BLACKLIST | Replaces.TAGS)
            moved = np.full(len(self._lost), ApplicationState.MOVED, np.uint8)
            dropped = np.full(len(self._lost), everything, np.uint8)
            sent.append(replace(self._themselves(state, self._lost), state=moved, replaces=dropped))
            self._bound_sent[np.isin(state.rows["app"], self._lost)] = False
        return sent

    def _requests(self, state: State, row: I32) -> list[Event]:
        sent = super()._requests(state, row)
        if len(self._closed):
            sent.append(outstanding(state.rows[self._closed], state.capability[self._closed], 0))
            self._bound_sent[self._closed] = False
        return sent


def _with(found: I32, more: I32) -> I32:
    """Return what is in either, in order, each once."""
    return np.concatenate([found, more[~np.isin(more, found)]]).astype(np.int32) if len(more) else found
