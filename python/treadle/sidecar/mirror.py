"""The cluster's state according to the frames so far, in rows with versions; the part that each engine receives of it.

An engine receives all nodes and queues, and the changes of its own applications since its previous frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.events import I64, U8, ApplicationState, ContainerEvent, Event, NodeState, Replaces, array_fields
from treadle.sidecar.conversation import Application

Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.integer]

NEW: Final = -1
"""The version of a reader that has read nothing."""

_NONE: Final[Places] = np.zeros(0, np.int64)
_DROPPED_MIN: Final = 64


class Rows:
    """The rows of an event by their keys: columns, versions, and which of them are live.

    One key column that is an index is the row's place; other keys have their places in a dictionary. A row that is not
    live stays until all readers have read that.
    """

    def __init__(self, kind: Any, resources: int, *keys: str, zero: str = "") -> None:
        """Begin empty.

        Args:
            kind: the type of the event
            resources: columns of an amount
            keys: the columns that identify a row
            zero: the column that is 0 in a row that is not live; without one only `kill` ends rows
        """
        self.kind, self._keys, self.zero = kind, keys, zero
        self.columns: dict[str, npt.NDArray[Any]] = {}
        for field in array_fields(kind):
            wide = field.column is not None and field.column.type == "R*i64"
            self.columns[field.name] = np.zeros((0, resources) if wide else 0, field.dtype)
        self.version: I64 = np.zeros(0, np.int64)
        self.live: Bools = np.zeros(0, bool)
        self.newest = 0
        self._places: dict[tuple[int, ...], int] = {}
        self._killed = False

    def __len__(self) -> int:
        """Return the number of places, more than there are rows."""
        return len(self.version)

    def place(self, *key: int) -> int | None:
        """Return the place of a row, by a key in the dictionary, live or not; None if there is none."""
        return self._places.get(key)

    def find(self, *key: int) -> int | None:
        """Return the place of a live row, by a key in the dictionary; None if there is none."""
        at = self._places.get(key)
        return at if at is not None and self.live[at] else None

    def has(self, *key: int) -> bool:
        """Say whether a row is live, by a key in the dictionary."""
        return self.find(*key) is not None

    def cover(self, rows: int) -> None:
        """Make room for ``rows`` rows; it grows by half at least."""
        more = rows - len(self)
        if more > 0:
            more = max(more, len(self) // 2, 16)
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])
            self.version = np.append(self.version, np.zeros(more, np.int64))
            self.live = np.append(self.live, np.zeros(more, bool))

    def put(self, event: Any, version: int) -> Places:
        """Take rows, of several with one key the last; return their places."""
        at = self._find(event)
        for name in self.columns:
            self.columns[name][at] = getattr(event, name)
        self.version[at] = version
        self.live[at] = self.columns[self.zero][at] > 0 if self.zero else True
        self._killed |= bool(self.zero)
        self.newest = version
        return at

    def _find(self, event: Any) -> Places:
        keys = [getattr(event, name) for name in self._keys]
        if len(keys) == 1:
            self.cover(int(keys[0].max()) + 1)
            return np.array(keys[0])
        places = self._places
        rows = [places.setdefault(key, len(places)) for key in zip(*(key.tolist() for key in keys), strict=True)]
        self.cover(len(places))
        return np.array(rows)

    def kill(self, at: Places, version: int) -> None:
        """Mark rows as not live."""
        if len(at):
            self.live[at] = False
            self.version[at] = version
            if self.zero:
                self.columns[self.zero][at] = 0
            self._killed, self.newest = True, version

    def newer(self, version: int) -> Places:
        """Return the places of rows that changed after a version; after `NEW` those of all live rows."""
        if version == NEW:
            return np.flatnonzero(self.live)
        return _NONE if self.newest <= version else np.flatnonzero(self.version > version)

    def of(self, column: str, wanted: Bools) -> Places:
        """Return the places of live rows whose index in a column is wanted."""
        return np.flatnonzero(self.live & wanted[self.columns[column]])

    def event(self, at: Places, **columns: Any) -> Any:
        """Return some rows as an event, some of its columns given."""
        return self.kind(**{name: column[at] for name, column in self.columns.items()} | columns)

    def part(self, event: Any, at: Any) -> Any:
        """Return some rows of an event that may have more columns than the table."""
        return self.kind(**{name: np.array(getattr(event, name)[at]) for name in self.columns})

    def drop(self, version: int) -> None:
        """Free the places of rows that ceased to be live at a version or before, if they are many."""
        if not self._killed or len(self._keys) == 1:
            return
        size = len(self._places)
        dead = ~self.live[:size] & (self.version[:size] <= version)
        count = int(np.count_nonzero(dead))
        if count < max(_DROPPED_MIN, size // 2):
            return
        kept = np.flatnonzero(~dead)
        self.columns = {name: column[kept] for name, column in self.columns.items()}
        self.version, self.live = self.version[kept], self.live[kept]
        keys = (self.columns[name].tolist() for name in self._keys)
        self._places = {key: at for at, key in enumerate(zip(*keys, strict=True))}
        self._killed = not bool(self.live.all())


STEPS_MAX: Final = 1 << 20
"""Steps of containers that are stored for readers that lag behind; a reader that misses one begins with a snapshot."""

EVERYTHING: Final = int(Replaces.REQUESTS | Replaces.BLACKLIST | Replaces.TAGS)
_COMPLETED, _LAUNCHED, _RESIZED = (
    int(each) for each in (ContainerEvent.COMPLETED, ContainerEvent.LAUNCHED, ContainerEvent.RESIZED)
)
_DROP_EVERY: Final = 16
E = TypeVar("E")


class Cursor:
    """The version up to which a reader has read; `NEW` if a snapshot is due."""

    def __init__(self) -> None:
        """Begin with `NEW`."""
        self.version = NEW

    def forget(self) -> None:
        """Begin again: indices mean something else from now on."""
        self.version = NEW


class Mirror:
    """The cluster as the frames since the latest snapshot describe it.

    Tables are `Rows` by the names of their events; ``columns`` of an index-keyed one (nodes, applications, usage) are
    indexed by that. Readers only read.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self.version = 0
        """Version of the latest events; each `take` raises it."""
        self.epoch = 0
        self.texts: list[str] = []
        self.texts_again: dict[int, int] = {}
        """When the texts came that have the index of another one."""
        self.cursors: WeakSet[Cursor] = WeakSet()
        self._queue_paths: dict[int, str] | None = None
        """None: not asked for since the latest events."""
        self._clear(0)

    def _clear(self, resources: int) -> None:
        self.types: events.ResourceTypes | None = None
        self.settings: dict[str, str] = {}
        self.settings_version = 0
        self.queues: events.Queues | None = None
        self.queues_version = 0
        self.limits = Rows(events.QueueLimits, resources, "queue", "partition_name")
        self.users = Rows(events.Users, resources, "queue", "user_name", "partition_name")
        self.nodes = Rows(events.Nodes, resources, "node", zero="state")
        self.attributes = Rows(events.NodeAttributes, resources, "node", "attribute_name", zero="present")
        self.applications = Rows(events.Applications, resources, "application", zero="state")
        self.usage = Rows(events.ApplicationUsage, resources, "application")
        self.tags = Rows(events.Tags, resources, "application", "tag_name")
        self.blacklist = Rows(events.Blacklist, resources, "application", "name_name", zero="present")
        self.requests = Rows(events.Requests, resources, "application", "key", zero="count")
        self.localities = Rows(events.Localities, resources, "application", "key", "name_name", zero="count")
        self.constraints = Rows(events.Constraints, resources, "application", "key")
        self.allocation_tags = Rows(events.AllocationTags, resources, "application", "key", "tag_name")
        self.containers = Rows(events.Containers, resources, "application", "container")
        """The latest step of each that lives."""
        own = (self.limits, self.users, self.attributes, self.usage)
        of_asks = (self.tags, self.blacklist, self.localities, self.allocation_tags)
        self._tables: dict[type[Any], Rows] = {table.kind: table for table in (*own, *of_asks)}
        """Tables by event type, for events whose rows are stored unchanged."""
        self.replaced: dict[int, I64] = {int(bit): np.zeros(0, np.int64) for bit in Replaces}
        """When each application's requests, blacklist and tags were replaced last, by the bit of `Replaces`."""
        self.steps: deque[tuple[int, events.Containers]] = deque()
        """Steps of containers with their versions, in order."""
        self._steps_kept = 0
        self.steps_dropped = 0
        """The newest version of dropped steps."""

    def take(self, events: Sequence[Event]) -> None:
        """Apply the events of a frame or of a part of it. Attempts' keys, fates and offline events are ignored."""
        self.version += 1
        self._queue_paths = None
        for event in events:
            self._take(event)
        read = min((each.version for each in self.cursors if each.version != NEW), default=self.version)
        if self.version % _DROP_EVERY == 0:
            for table in (*self._tables.values(), self.requests, self.constraints, self.containers):
                table.drop(read)
        while self.steps and (self.steps[0][0] <= read or self._steps_kept > STEPS_MAX):
            self.steps_dropped, steps = self.steps.popleft()
            self._steps_kept -= len(steps.event)

    def _take(self, event: Event) -> None:
        match event:
            case events.Containers():
                self._take_containers(event)
            case events.Nodes():
                self._take_nodes(event)
            case events.Requests():
                self._take_requests(event)
            case events.Applications():
                self._take_applications(event)
            case events.Constraints():
                self._put(self.constraints, event)
                self._kill_of(event.application, event.key, self.allocation_tags)
            case _:
                table = self._tables.get(type(event))
                if table is not None:
                    self._put(table, event)
                else:
                    self._take_whole(event)

    def _take_whole(self, event: Event) -> None:
        """Take an event that replaces earlier ones as a whole."""
        match event:
            case events.Names():
                event.into(self.texts)
                self.texts_again.update(dict.fromkeys(event.index or (), self.version))
            case events.Settings():
                self.settings, self.settings_version = dict(event.values), self.version
            case events.Queues():
                self.queues, self.queues_version = _copy(event), self.version
            case events.ResourceTypes():
                self._clear(len(event.names))
                self.types = _copy(event, names=event.names, units=event.units)
            case events.Snapshot():
                self._clear(0)
                self.epoch, self.texts, self.texts_again = event.epoch, [], {}
                for cursor in self.cursors:
                    cursor.forget()

    def _put(self, table: Rows, event: Any) -> Places:
        at = table.put(event, self.version)
        if "application" in table.columns:
            self.applications.cover(int(event.application.max()) + 1)
        return at

    def _take_nodes(self, event: events.Nodes) -> None:
        at = self.nodes.put(event, self.version)
        gone = event.state == int(NodeState.GONE)
        if gone.any():
            self.attributes.kill(self.attributes.of("node", _mask(len(self.nodes), at[gone])), self.version)

    def _take_applications(self, event: events.Applications) -> None:
        at, version = self.applications.put(event, self.version), self.version
        for bit, versions in self.replaced.items():
            self.replaced[bit] = _covering(versions, len(self.applications))
        gone = event.state == int(ApplicationState.GONE)
        replaces = np.where(gone, EVERYTHING, event.replaces)
        if not replaces.any():
            return
        for bit, tables in (
            (Replaces.REQUESTS, (self.requests, self.localities, self.constraints, self.allocation_tags)),
            (Replaces.BLACKLIST, (self.blacklist,)),
            (Replaces.TAGS, (self.tags,)),
        ):
            some = at[replaces & int(bit) != 0]
            self.replaced[bit][some] = version
            self._kill(some, *tables)
        self._kill(at[gone], self.usage, self.containers)

    def _kill(self, applications: Places, *tables: Rows) -> None:
        """Mark all rows of applications as not live."""
        if len(applications):
            wanted = _mask(len(self.applications), applications)
            for table in tables:
                table.kill(table.of("application", wanted), self.version)

    def _take_requests(self, event: events.Requests) -> None:
        self._put(self.requests, event)
        none = event.count == 0
        if none.any():
            of_keys = (self.localities, self.constraints, self.allocation_tags)
            self._kill_of(event.application[none], event.key[none], *of_keys)

    def _kill_of(self, applications: Places, keys: Places, *tables: Rows) -> None:
        """Mark all rows of request keys as not live."""
        wanted, pairs = _mask(len(self.applications), applications), paired(applications, keys)
        for table in tables:
            at = table.of("application", wanted)
            if len(at):
                mine = paired(table.columns["application"][at], table.columns["key"][at])
                table.kill(at[np.isin(mine, pairs)], self.version)

    def _take_containers(self, event: events.Containers) -> None:
        steps = self.containers.part(event, slice(None))
        self.steps.append((self.version, steps))
        self._steps_kept += len(steps.event)
        known = steps.application >= 0
        if not known.all():
            steps = self.containers.part(steps, known)
        if len(steps.event):
            at, table = self._put(self.containers, steps), self.containers
            last = table.columns["event"][at]
            table.columns["event"][at[last == _RESIZED]] = _LAUNCHED  # only running containers are resized
            table.kill(at[(last == _COMPLETED) | ~self.applications.live[steps.application]], self.version)

    # Further state that the hub reads.

    def application_at(self, index: int) -> Application | None:
        """Return an application; None if it is not known."""
        if not 0 <= index < len(self.applications):
            return None
        columns = self.applications.columns
        names = ("cluster_timestamp", "id", "attempt", "queue", "type_name")
        timestamp, number, attempt, queue, type_ = (int(columns[name][index]) for name in names)
        return Application(timestamp << 32 | number, attempt, self.queue_paths().get(queue, ""), self.texts[type_])

    def priority_of(self, application: int, key: int) -> int | None:
        """Return the priority of a request key, also of one that is asked for no more; None if it is not known."""
        at = self.requests.place(application, key)
        return None if at is None else int(self.requests.columns["priority"][at])

    def queue_paths(self) -> dict[int, str]:
        """Return the whole path of each queue."""
        if self._queue_paths is None:
            columns = () if self.queues is None else (self.queues.queue.tolist(), self.queues.path_name.tolist())
            self._queue_paths = {queue: self.texts[name] for queue, name in zip(*columns, strict=True)}
        return self._queue_paths

    def tags_of(self, application: int) -> tuple[str, ...]:
        """Return the tags of an application."""
        at = np.flatnonzero(self.tags.live & (self.tags.columns["application"] == application))
        return tuple(self.texts[name] for name in self.tags.columns["tag_name"][at].tolist())

    def asks(self) -> I64:
        """Return how many containers each application asks for, shape (applications,)."""
        columns = self.requests.columns
        counts: Any = np.bincount(columns["application"], columns["count"], minlength=len(self.applications))
        wanted: I64 = counts.astype(np.int64)
        return wanted

    def used(self, applications: Bools) -> dict[int, I64]:
        """Return the resources of some applications' containers, shape (resources,), by the name of the partition.

        ``applications`` has the shape (applications,). Containers on nodes that are gone are left out.
        """
        at = self.containers.of("application", applications)
        node, amounts = self.containers.columns["node"][at], self.containers.columns["capability"][at]
        here = (node >= 0) & (node < len(self.nodes))
        return _sums(self.nodes.columns["partition_name"][node[here]], amounts[here])

    def totals(self) -> dict[int, I64]:
        """Return the resources of usable nodes, shape (resources,), by the name of the partition."""
        at = np.flatnonzero(self.nodes.columns["state"] == int(NodeState.USABLE))
        return _sums(self.nodes.columns["partition_name"][at], self.nodes.columns["total"][at])


def paired(applications: Places, keys: Places) -> I64:
    """Return one number for an application and a key."""
    return (np.asarray(applications, np.int64) << 32) | keys


def _sums(names: Places, amounts: I64) -> dict[int, I64]:
    return {name: amounts[names == name].sum(axis=0) for name in np.unique(names).tolist()}


def _mask(size: int, at: Places) -> Bools:
    mask = np.zeros(size, bool)
    mask[at] = True
    return mask


def _covering(versions: I64, rows: int) -> I64:
    return np.append(versions, np.zeros(rows - len(versions), np.int64)) if rows > len(versions) else versions


def _copy(event: E, **others: Any) -> E:
    kind: Any = type(event)
    copied: E = kind(**{each.name: np.array(getattr(event, each.name)) for each in array_fields(kind)}, **others)
    return copied


_MOVED: Final = int(ApplicationState.MOVED)
_REQUESTS: Final = int(Replaces.REQUESTS)


_NOTHING, _HELD, _OPEN = range(3)
"""The part of an application that an engine receives: nothing, all but its requests, everything."""


class Feed(Cursor):
    """The events for one engine, from a mirror. Its owner assigns applications to it at any time.

    A snapshot changes the mirror's indices: the feed then begins again, without applications.
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
        """The part of each application that was sent last."""

    def serve(self, application: int) -> None:
        """Assign an application to the engine from its next frame on."""
        self._set(application, _OPEN)

    def lose(self, application: int) -> None:
        """Withdraw an application from the engine: it has moved."""
        self._set(application, _NOTHING)

    def hold(self, application: int, held: bool) -> None:
        """Withhold an application's requests from the engine, or send them."""
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
            self._sent[:] = _NOTHING
        live = mirror.applications.live
        after = np.where(live, self._parts[:size], _NOTHING)
        events = [*self._cluster(), *_Reading(mirror, self.version, self._sent[:size], after).events()]
        self._sent[:size] = after
        self.version = mirror.version
        return events

    def _cluster(self) -> list[Event]:
        """Return what all engines receive."""
        mirror, since = self._mirror, self.version
        rows_as_events: list[Event] = []
        if since == NEW:
            rows_as_events.append(events.Snapshot(mirror.epoch))
            self._texts = 0
        again = [at for at, version in mirror.texts_again.items() if version > since and at < self._texts]
        if again or self._texts < len(mirror.texts):
            index = (*again, *range(self._texts, len(mirror.texts)))
            rows_as_events.append(events.Names(tuple(mirror.texts[at] for at in index), index if again else None))
            self._texts = len(mirror.texts)
        if since == NEW and mirror.types is not None:
            rows_as_events.append(mirror.types)
        if mirror.settings_version > since:
            rows_as_events.append(events.Settings(mirror.settings))
        if mirror.queues is not None and mirror.queues_version > since:
            rows_as_events.append(mirror.queues)
        for table in (mirror.limits, mirror.users, mirror.nodes, mirror.attributes):
            _add(rows_as_events, table, table.newer(since))
        return rows_as_events


class _Reading:
    """The events of applications in one read, from the part of each that was sent before and the part to send now."""

    def __init__(self, mirror: Mirror, since: int, before: U8, after: U8) -> None:
        live = mirror.applications.live
        self._mirror, self._since = mirror, since
        self._known = (before != _NOTHING) & (after != _NOTHING)
        self._gained = (before == _NOTHING) & (after != _NOTHING)
        self._gone = (before != _NOTHING) & ~live
        self._lost = (before != _NOTHING) & (after == _NOTHING) & live
        self._open = (before == _OPEN) & (after == _OPEN)
        self._opened = (before != _OPEN) & (after == _OPEN)
        self._closed = (before == _OPEN) & (after == _HELD)
        self._stale = self._stale_requirements()

    def events(self) -> list[Event]:
        """Return them in the order of their sections."""
        mirror = self._mirror
        events: list[Event] = []
        self._applications(events)
        for table in (mirror.usage, mirror.tags, mirror.blacklist):
            _add(events, table, self._rows(table, self._known, self._gained))
        whole = self._opened | self._stale
        at = self._rows(mirror.requests, self._open | self._closed, whole | self._closed)
        count = mirror.requests.columns["count"][at]
        count[self._closed[mirror.requests.columns["application"][at]]] = 0
        _add(events, mirror.requests, at, count=count)
        for table in (mirror.localities, mirror.constraints, mirror.allocation_tags):
            _add(events, table, self._rows(table, self._open, whole))
        self._containers(events)
        return events

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

    def _applications(self, events: list[Event]) -> None:
        """Add applications that are new, have changed, are gone or have moved, and what each replaces."""
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
        events.append(table.event(at, state=state, replaces=replaces))

    def _containers(self, out: list[Event]) -> None:
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
            out.append(events.Containers(**joined))


def _add(events: list[Event], table: Rows, at: Places, **columns: Any) -> None:
    if len(at):
        events.append(table.event(at, **columns))
