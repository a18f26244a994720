"""What one engine of several receives: all nodes and queues, and of its own applications what is new since it read."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from treadle import events
from treadle.events import ApplicationState, Event, Replaces
from treadle.events.columns import U8
from treadle.sidecar.mirror import EVERYTHING, NEW, Bools, Cursor, Mirror, Places, Rows

_MOVED: Final = int(ApplicationState.MOVED)
_REQUESTS: Final = int(Replaces.REQUESTS)


_NONE, _HELD, _OPEN = range(3)
"""How much of an application an engine receives: nothing, all but its asks, everything."""


class Feed(Cursor):
    """The events for one engine, from a mirror. Which applications are its own is for its owner to say, at any time.

    A snapshot that the mirror takes gives out other indices: then the feed begins again and serves none.
    """

    def __init__(self, mirror: Mirror) -> None:
        """Begin with a snapshot, and no application."""
        self._mirror = mirror
        self._texts = 0
        self.forget()
        mirror.cursors.add(self)

    def forget(self) -> None:
        """Begin again, and serve no application."""
        super().forget()
        self._parts: U8 = np.zeros(0, np.uint8)
        self._sent: U8 = self._parts
        """What was sent of each application last."""

    def serve(self, application: int) -> None:
        """Let an application be its own from its next frame on."""
        self._set(application, _OPEN)

    def lose(self, application: int) -> None:
        """Let an application not be its own any more: it has moved."""
        self._set(application, _NONE)

    def hold(self, application: int, held: bool) -> None:
        """Let an application be its own without its asks, or with them."""
        self._set(application, _HELD if held else _OPEN)

    def begin_again(self) -> None:
        """Let the next frame be a snapshot, of the same applications."""
        self.version = NEW

    def _set(self, application: int, part: int) -> None:
        self._cover(application + 1)
        self._parts[application] = part

    def _cover(self, applications: int) -> None:
        """Have a place for each application."""
        more = applications - len(self._parts)
        if more > 0:
            room = np.zeros(max(more, len(self._parts)), np.uint8)
            self._parts, self._sent = np.append(self._parts, room), np.append(self._sent, room)

    def read(self) -> list[Event]:
        """Return the next frame's events, at most one of a type; a `Snapshot` first if one is due.

        It is due at first, after `begin_again`, if the mirror took one, and if steps of containers were missed.
        """
        mirror, size = self._mirror, len(self._mirror.applications)
        self._cover(size)
        if self.version < mirror.steps_dropped:
            self.version = NEW
        if self.version == NEW:
            self._sent[:] = _NONE
        live = mirror.applications.live
        after = np.where(live, self._parts[:size], _NONE)
        found = [*self._cluster(), *_Reading(mirror, self.version, self._sent[:size], after).events()]
        self._sent[:size] = after
        self.version = mirror.version
        return found

    def _cluster(self) -> list[Event]:
        """Return what all engines receive."""
        mirror, since = self._mirror, self.version
        found: list[Event] = []
        if since == NEW:
            found.append(events.Snapshot(mirror.epoch))
            self._texts = 0
        if self._texts < len(mirror.texts):
            found.append(events.Names(tuple(mirror.texts[self._texts :])))
            self._texts = len(mirror.texts)
        if since == NEW and mirror.types is not None:
            found.append(mirror.types)
        if mirror.settings_version > since:
            found.append(events.Settings(mirror.settings))
        if mirror.queues is not None and mirror.queues_version > since:
            found.append(mirror.queues)
        for table in (mirror.limits, mirror.users):
            _add(found, table, table.newer(since))
        nodes = mirror.nodes.newer(since)
        whole = mirror.nodes_version[nodes] > since
        _add(found, mirror.nodes, nodes[whole])
        node = nodes[~whole]
        if len(node):
            found.append(events.NodesFree(node.astype(np.int32), mirror.nodes.columns["free"][node]))
        _add(found, mirror.attributes, mirror.attributes.newer(since))
        return found


class _Reading:
    """What one read takes of applications, by what was sent of each before and what is to be known after it."""

    def __init__(self, mirror: Mirror, since: int, before: U8, after: U8) -> None:
        live = mirror.applications.live
        self._mirror, self._since = mirror, since
        self._known = (before != _NONE) & (after != _NONE)
        self._gained = (before == _NONE) & (after != _NONE)
        self._gone = (before != _NONE) & ~live
        self._lost = (before != _NONE) & (after == _NONE) & live
        self._open = (before == _OPEN) & (after == _OPEN)
        self._opened = (before != _OPEN) & (after == _OPEN)
        self._closed = (before == _OPEN) & (after == _HELD)
        self._stale = self._stale_requirements()

    def events(self) -> list[Event]:
        """Return them in the order of their sections."""
        mirror = self._mirror
        found: list[Event] = []
        self._applications(found)
        for table in (mirror.usage, mirror.tags, mirror.blacklist):
            _add(found, table, self._rows(table, self._known, self._gained))
        whole = self._opened | self._stale
        at = self._rows(mirror.requests, self._open | self._closed, whole | self._closed)
        count = mirror.requests.columns["count"][at]
        count[self._closed[mirror.requests.columns["application"][at]]] = 0
        _add(found, mirror.requests, at, count=count)
        for table in (mirror.localities, mirror.constraints, mirror.allocation_tags):
            _add(found, table, self._rows(table, self._open, whole))
        self._containers(found)
        return found

    def _rows(self, table: Rows, known: Bools, whole: Bools) -> Places:
        """Return the new rows of some applications, and all live rows of others."""
        at = table.newer(max(self._since, 0))
        if len(at):
            application, live = table.columns["application"][at], table.live[at]
            at = at[known[application] & ~(live & whole[application]) & (live | bool(table.zero))]
        return np.concatenate([at, table.of("application", whole)]) if whole.any() else at

    def _stale_requirements(self) -> Bools:
        """Return the applications with a key that is back without the constraint or a tag that the engine knows."""
        mirror = self._mirror
        stale = np.zeros(len(self._open), bool)
        for table in (mirror.constraints, mirror.allocation_tags):
            at = table.newer(max(self._since, 0))
            at = at[~table.live[at]]
            application, key = table.columns["application"][at], table.columns["key"][at]
            for app, ask in zip(application.tolist(), key.tolist(), strict=True):
                stale[app] |= bool(self._open[app]) and mirror.requests.has(app, ask)
        return stale

    def _applications(self, found: list[Event]) -> None:
        """Add applications that are new, have changed, are gone or have moved, with what is replaced of each."""
        table = self._mirror.applications
        changed = (table.version > self._since) & (self._known | self._gone)
        at = np.flatnonzero(changed | self._gained | self._lost | self._stale)
        if not len(at):
            return
        ended = self._gone[at] | self._lost[at]
        replaces = np.where(self._stale[at], _REQUESTS, 0)
        for bit, versions in self._mirror.replaced.items():
            replaces |= np.where((versions[at] > self._since) & ~self._gained[at], bit, 0)
        replaces = np.where(ended, EVERYTHING, replaces).astype(np.uint8)
        state = np.where(self._lost[at], _MOVED, table.columns["state"][at]).astype(np.uint8)
        found.append(table.event(at, state=state, replaces=replaces))

    def _containers(self, found: list[Event]) -> None:
        """Add the latest step of each container of applications that are new, then the steps of the others."""
        mirror = self._mirror
        parts: list[events.Containers] = []
        if self._gained.any():
            at = mirror.containers.of("application", self._gained)
            node = mirror.containers.columns["node"][at]
            known = (node >= 0) & (node < len(mirror.nodes))
            known[known] = mirror.nodes.live[node[known]]
            parts.append(mirror.containers.event(at, node=np.where(known, node, -1).astype(np.int32)))
        mine = self._known | self._gone
        for version, steps in mirror.steps:
            if version > self._since >= 0:
                here = steps.application >= 0
                here[here] = mine[steps.application[here]]
                parts.append(mirror.containers.part(steps, here))
        names = mirror.containers.columns
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names} if parts else {}
        if parts and len(joined["event"]):
            gone = self._gone[joined["application"]]
            joined["application"][gone] = -1
            found.append(events.Containers(**joined))


def _add(found: list[Event], table: Rows, at: Places, **columns: Any) -> None:
    if len(at):
        found.append(table.event(at, **columns))
