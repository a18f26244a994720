"""The input split of each map container of a MapReduce job.

An application master assigns a container the first map of its list with input on the container's node, else in its
rack, else the first of all (`RMContainerAllocator.ScheduledRequests.assignMapsWithLocality`); the list is sorted by the
splits' lengths, the largest first (`JobSubmitter`). The splits and the containers are sufficient to reproduce that.

Hadoop's `SplitMetaInfoReader` reads the same file for the application master: a header, a version, and for each map the
hosts, the offset and the length of its split. Maps are in the order of the file.

The folder belongs to a user, and is untrusted. Below the configured part of the path no link is followed, and the file
must belong to the user: otherwise a user could make the sidecar read files that the user cannot.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from treadle import events
from treadle.events import ContainerEvent, StageInputs, TaskInputs
from treadle.yarn.codes import MAP

HEADER: Final = b"META-SPL"
VERSION: Final = 1
BYTES_MAX: Final = 4 << 20
"""Maximum size: about 50,000 maps."""
HOSTS_KEPT: Final = 10
"""Maximum number of hosts of a split; MapReduce's clients write up to 15 (``mapreduce.job.max.split.locations``)."""
HOSTS_MAX: Final = 1_000

_USER: Final = "{user}"


class SplitMetaError(ValueError):
    """A file that is not a job.splitmetainfo, is too large, or has another owner."""


def open_staged(staging: str, user: str, application_id: str) -> BinaryIO:
    """Open the splits of a job; ``{user}`` in the staging folder's path is the job's user.

    Raises:
        OSError: the file cannot be opened, or a link is in the path.
        SplitMetaError: it has another owner, or is not a regular file.
    """
    if not user.isprintable() or "/" in user or user in {"", ".", ".."}:
        raise SplitMetaError("no folder can have the user's name")
    parts = Path(staging).parts
    named = next((at for at, part in enumerate(parts) if _USER in part), len(parts))
    job = application_id.replace("application_", "job_")
    folders = [*(part.replace(_USER, user) for part in parts[named:]), job]
    at = os.open(Path(*parts[:named]), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            within = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = within
        # do not wait for a pipe
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open("job.splitmetainfo", flags, dir_fd=at)
    finally:
        os.close(at)
    stream = os.fdopen(file, "rb")
    try:
        _check(os.fstat(file), user)
    except SplitMetaError:
        stream.close()
        raise
    return stream


def uid_of(user: str) -> int | None:
    """Return the ID of a user; None if this machine does not know the user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def read_splits(stream: BinaryIO) -> list[Split]:
    """Read the splits of a job, with at most `HOSTS_KEPT` hosts each.

    Raises:
        OSError: the file cannot be read.
        SplitMetaError: it is not a job.splitmetainfo, or has more than `SPLITS_MAX` splits.
    """
    content = stream.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise SplitMetaError(f"more than {BYTES_MAX} bytes")
    if not content.startswith(HEADER):
        raise SplitMetaError("no job.splitmetainfo")
    reader = _Reader(content, len(HEADER))
    version, count = reader.number(), reader.number()
    if version != VERSION:
        raise SplitMetaError(f"version {version}, and only {VERSION} is known")
    if not 0 <= count <= SPLITS_MAX:
        raise SplitMetaError(f"{count} splits, at most {SPLITS_MAX} are read")
    return [reader.split() for _ in range(count)]


def _check(status: os.stat_result, user: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SplitMetaError("no regular file")
    if status.st_uid != uid_of(user):
        raise SplitMetaError(f"it belongs to uid {status.st_uid}, which is not {user}")
    if status.st_mode & stat.S_IWOTH:
        raise SplitMetaError("every user may write it")


class _Reader:
    """Reads Hadoop's variable-length numbers and texts (`WritableUtils`, `Text`)."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at
        self._names: dict[bytes, str] = {}
        """Hosts read so far, since the same ones are repeated."""

    def split(self) -> Split:
        hosts = self.number()
        if not 0 <= hosts <= HOSTS_MAX:
            raise SplitMetaError(f"a split on {hosts} hosts")
        names = tuple(self.text() for _ in range(min(hosts, HOSTS_KEPT)))
        for _ in range(hosts - len(names)):
            self._take(self.number())
        self.number()  # its offset
        return Split(max(0, self.number()), names)

    def text(self) -> str:
        content = self._take(self.number())
        name = self._names.get(content)
        if name is None:
            name = self._names[content] = content.decode("utf-8", "replace")
        return name

    def number(self) -> int:
        """Return a VLong: one byte from -112 to 127, or the number of following bytes and the sign, and those bytes."""
        first = int.from_bytes(self._take(1), signed=True)
        if first >= -112:
            return first
        negative = first < -120
        value = int.from_bytes(self._take(-first - 120 if negative else -first - 112))
        return ~value if negative else value

    def _take(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise SplitMetaError("it is cut off")
        self._at += count
        return found


SPLITS_MAX: Final = 100_000
"""Maximum number of splits of a followed job."""


class Split(NamedTuple):
    """The input of one map."""

    bytes: int
    hosts: tuple[str, ...] = ()


class Places:
    """Hosts and racks of a cluster's nodes, by the shim's indices."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._known = np.zeros(0, bool)
        """By index: whether it is a node."""
        self._nodes: dict[int, tuple[str, str]] = {}

    def follow(self, event: events.Event) -> None:
        """Process an event of a frame."""
        if isinstance(event, events.Snapshot):
            self._names, self._nodes, self._known = [], {}, np.zeros(0, bool)
        elif isinstance(event, events.Names):
            event.into(self._names)
        elif isinstance(event, events.Nodes):
            self._take_nodes(event)

    def place(self, node: int) -> tuple[str, str] | None:
        """Return the host and the rack of a node; None if unknown."""
        return self._nodes.get(node)

    def racks(self) -> dict[str, str]:
        """Return the rack of each host."""
        return dict(self._nodes.values())

    def _take_nodes(self, event: events.Nodes) -> None:
        """Add new nodes; most events repeat known ones."""
        size = int(event.node.max(initial=-1)) + 1
        if size > len(self._known):
            self._known = np.concatenate([self._known, np.zeros(2 * size - len(self._known), bool)])
        for row in np.flatnonzero(~self._known[event.node]).tolist():
            name, rack = self._names[int(event.name_name[row])], self._names[int(event.rack_name[row])]
            # splits name hosts, while nodes may be reported with their port
            self._nodes[int(event.node[row])] = name.partition(":")[0], rack
        self._known[event.node] = True


class SplitOrder:
    """The splits of a job without a map container so far."""

    def __init__(self, splits: Sequence[Split], racks: Mapping[str, str]) -> None:
        """Take the splits in the order of the job's maps.

        Args:
            splits: at most `SPLITS_MAX`
            racks: by host of the cluster; splits may name other hosts, which never have a container
        """
        self._bytes = [split.bytes for split in splits]
        self.mean_bytes = sum(self._bytes) / len(splits) if splits else 0.0
        """The mean of all splits, 0.0 if there are none."""
        self._taken = [False] * len(splits)
        self._next = 0
        self._at: dict[str, list[int]] = {}
        for number, split in enumerate(splits):
            hosts = [host for host in split.hosts if host in racks]
            for place in sorted({*hosts, *(racks[host] for host in hosts)}):
                self._at.setdefault(place, []).append(number)
        for numbers in self._at.values():
            numbers.reverse()  # pop takes the first from the end

    def take(self, host: str, rack: str) -> int | None:
        """Remove and return the length of the split for a container on a host; None if none is left."""
        for place in (host, rack):
            numbers = self._at.get(place, [])
            while numbers and self._taken[numbers[-1]]:
                numbers.pop()
            if numbers:
                return self._give(numbers.pop())
        while self._next < len(self._bytes) and self._taken[self._next]:
            self._next += 1
        return self._give(self._next) if self._next < len(self._bytes) else None

    def _give(self, number: int) -> int:
        self._taken[number] = True
        return self._bytes[number]


class SplitFollower:
    """Assigns splits to the map containers of jobs, and reports their inputs to the engine. Uses the shim's indices."""

    def __init__(self) -> None:
        self.places = Places()
        """The known nodes."""
        self._orders: dict[int, SplitOrder] = {}
        self._new: list[int] = []

    def know(self, application: int, order: SplitOrder) -> None:
        """Set the splits of an application without map containers so far; they are computed elsewhere."""
        self._orders[application] = order
        self._new.append(application)

    def follow(self, received: Iterable[events.Event]) -> list[events.Event]:
        """Process the events of a frame; return the resulting events for the engine."""
        inputs: list[tuple[int, int, int]] = []
        for event in received:
            self.places.follow(event)
            if isinstance(event, events.Snapshot):
                # The splits of earlier containers are no longer known.
                self._orders, self._new = {}, []
            elif isinstance(event, events.Applications):
                for gone in event.application[event.ended()].tolist():
                    self._orders.pop(gone, None)
            elif isinstance(event, events.Containers) and self._orders:
                inputs += self._containers(event)
        live = [application for application in self._new if application in self._orders]
        self._new = []
        found: list[events.Event] = []
        if live:
            means = [self._orders[application].mean_bytes for application in live]
            found.append(StageInputs(application=np.array(live, np.int32), mean_bytes=np.array(means, np.float64)))
        if inputs:
            application, container, size = (np.array(column) for column in zip(*inputs, strict=True))
            found.append(
                events.filled(TaskInputs, len(inputs), application=application, container=container, bytes=size)
            )
        return found

    def _containers(self, event: events.Containers) -> list[tuple[int, int, int]]:
        is_map = (event.event == ContainerEvent.ALLOCATED) & (event.priority == MAP) & (event.am == 0)
        containers = []
        for row in np.flatnonzero(is_map).tolist():
            application = int(event.application[row])
            order, place = self._orders.get(application), self.places.place(int(event.node[row]))
            if order is None or place is None:
                continue
            size = order.take(*place)
            if size is not None:
                containers.append((application, int(event.container[row]), size))
        return containers
