"""Which input split each map container of a MapReduce job is for.

An application master gives a container the first map of its list that has its input on the container's node, else in
its rack, else the first of all (`RMContainerAllocator.ScheduledRequests.assignMapsWithLocality`); the list is sorted by
the splits' lengths, the largest first (`JobSubmitter`). Who knows the splits and sees the containers can do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, StageInputs, TaskInputs
from treadle.yarn.priorities import MAP

SPLITS_MAX: Final = 100_000
"""Jobs with more are not followed."""


class Split(NamedTuple):
    """What one map reads."""

    bytes: int
    hosts: tuple[str, ...] = ()


class Places:
    """Where the nodes of a cluster are, by the shim's indices."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._known = np.zeros(0, bool)
        """By index: is it among the nodes?"""
        self._nodes: dict[int, tuple[str, str]] = {}

    def follow(self, event: events.Event) -> None:
        """Take an event of a frame."""
        if isinstance(event, events.Snapshot):
            self._names, self._nodes, self._known = [], {}, np.zeros(0, bool)
        elif isinstance(event, events.Names):
            self._names += event.texts
        elif isinstance(event, events.Nodes):
            self._take_nodes(event)

    def place(self, node: int) -> tuple[str, str] | None:
        """Return the host and the rack of a node; None if it is not known."""
        return self._nodes.get(node)

    def racks(self) -> dict[str, str]:
        """Return the rack of each host."""
        return dict(self._nodes.values())

    def _take_nodes(self, event: events.Nodes) -> None:
        """Remember the nodes that are new; most events tell again of those that are known."""
        size = int(event.node.max(initial=-1)) + 1
        if size > len(self._known):
            self._known = np.concatenate([self._known, np.zeros(2 * size - len(self._known), bool)])
        for row in np.flatnonzero(~self._known[event.node]).tolist():
            name, rack = self._names[int(event.name_name[row])], self._names[int(event.rack_name[row])]
            self._nodes[int(event.node[row])] = _host(name), rack
        self._known[event.node] = True


class SplitOrder:
    """The splits of a job that no map container has been given for yet."""

    def __init__(self, splits: Sequence[Split], racks: Mapping[str, str]) -> None:
        """Take the splits in the order of the job's maps.

        Args:
            splits: at most `SPLITS_MAX`
            racks: of the cluster's hosts; splits may name others, on which no container will be
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
            numbers.reverse()  # the first is taken off the end

    def take(self, host: str, rack: str) -> int | None:
        """Return the length of the split that a container on a host is for; None if none is left."""
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
    """Follows the map containers of jobs whose splits are known; tells the engine what they read. By shim's indices."""

    def __init__(self) -> None:
        self.places = Places()
        """Of the nodes that it was told of."""
        self._orders: dict[int, SplitOrder] = {}
        self._new: list[int] = []

    def know(self, application: int, order: SplitOrder) -> None:
        """Take the splits of an application none of whose maps has a container yet; they are arranged elsewhere."""
        self._orders[application] = order
        self._new.append(application)

    def follow(self, told: Iterable[events.Event]) -> list[events.Event]:
        """Take the events of a frame; return what the engine is to be told after them."""
        inputs: list[tuple[int, int, int]] = []
        for event in told:
            self.places.follow(event)
            if isinstance(event, events.Snapshot):
                # Which splits the containers before it had is known no more.
                self._orders, self._new = {}, []
            elif isinstance(event, events.Applications):
                for gone in event.application[event.state == ApplicationState.GONE].tolist():
                    self._orders.pop(gone, None)
            elif isinstance(event, events.Containers) and self._orders:
                inputs += self._containers(event)
        return [*self._means(), *_inputs(inputs)]

    def _containers(self, event: events.Containers) -> list[tuple[int, int, int]]:
        wanted = (event.event == ContainerEvent.ALLOCATED) & (event.priority == MAP) & (event.am == 0)
        found = []
        for row in np.flatnonzero(wanted).tolist():
            application = int(event.application[row])
            order, place = self._orders.get(application), self.places.place(int(event.node[row]))
            if order is None or place is None:
                continue
            size = order.take(*place)
            if size is not None:
                found.append((application, int(event.container[row]), size))
        return found

    def _means(self) -> list[events.Event]:
        live = [application for application in self._new if application in self._orders]
        self._new = []
        if not live:
            return []
        means = [self._orders[application].mean_bytes for application in live]
        return [StageInputs(np.array(live, np.int32), np.array(means, np.float64))]


def _inputs(rows: Sequence[tuple[int, int, int]]) -> list[events.Event]:
    if not rows:
        return []
    application, container, size = (np.array(column) for column in zip(*rows, strict=True))
    return [TaskInputs(application.astype(np.int32), container.astype(np.int64), size.astype(np.float64))]


def _host(node: str) -> str:
    """Return a node's host: splits name hosts, and a node may be told with its port."""
    return node.partition(":")[0]
