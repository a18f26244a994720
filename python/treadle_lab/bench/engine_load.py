"""A ResourceManager in a steady state: its frames tick by tick, and its handling of answers.

Nodes are full except for containers that ended since their last heartbeat. In each tick some nodes report, in turn, and
on each of them the oldest containers have ended; their applications request as many again. The engine's proposals are
committed, and the next frame has everything that changed, as the shim does: nodes, queues, users, applications,
requests, container events, fates. At intervals an application ends and another starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, Event, NodeState, Replaces, filled
from treadle.proposals import Proposals

NODE: Final = np.array([131_072, 64])
"""Memory (MB) and vcores of a node: about 45 containers."""

SLOTS: Final = 128
"""No more containers than these fit on a node."""

SHAPES: Final = np.array([[1024, 1], [2048, 1], [2048, 2], [4096, 1], [4096, 2]])
"""Resources of requests."""

ASKS: Final = 16
"""Number of containers per request beyond the running ones, at the start."""

KEYS: Final = 2
"""Request keys of an application, at priorities of their own."""

NAMES: Final = ("", "memory-mb", "vcores", "user", "fifo", "/rack", "root")
"""Texts by index, before those of the other queues and of the nodes."""

USER_NAME: Final = 3
FIFO_NAME: Final = 4
RACK_NAME: Final = 5
ROOT_NAME: Final = 6

GROUPS: Final = 10
"""Queues between the root and the leaves, where there are more leaves than that."""


@dataclass(frozen=True, slots=True)
class Load:
    """One configuration of the benchmark."""

    nodes: int
    rows: int
    leaves: int
    batch: int = 500
    """Placements a decide, and container ends before it."""
    ends_per_heartbeat: int = 20
    """100,000 ends a second come with 5,000 heartbeats."""
    arrivals: int = 1000
    """Placements in which one application ends and another begins; 0: none do."""
    seed: int = 1


class Held:
    """The containers on each node, oldest first: a ring a node. A container is (number, row, node, when created)."""

    def __init__(self, nodes: int) -> None:
        self._ring = np.zeros((nodes, SLOTS, 3), np.int64)
        self._head = np.zeros(nodes, np.int64)
        self._length = np.zeros(nodes, np.int64)

    def put(self, containers: Any) -> None:
        """Add containers."""
        containers = containers[np.argsort(containers[:, 2], kind="stable")]
        nodes, first, counts = np.unique(containers[:, 2], return_index=True, return_counts=True)
        place = np.arange(len(containers)) - np.repeat(first, counts)
        at = containers[:, 2]
        self._ring[at, (self._head[at] + self._length[at] + place) % SLOTS] = containers[:, [0, 1, 3]]
        self._length[nodes] += counts

    def take_oldest(self, nodes: Any, most: int) -> Any:
        """Remove and return the oldest containers of different nodes, at most this many of each."""
        order = np.arange(most)
        there = order < self._length[nodes][:, None]
        slots = (self._head[nodes][:, None] + order) % SLOTS
        found = self._ring[nodes[:, None], slots][there]
        counts = there.sum(axis=1)
        self._head[nodes] = (self._head[nodes] + counts) % SLOTS
        self._length[nodes] -= counts
        return np.stack([found[:, 0], found[:, 1], np.repeat(nodes, counts), found[:, 2]], axis=1)

    def every(self) -> Any:
        """Return all containers."""
        everyone = np.arange(len(self._head))
        before = self._head.copy(), self._length.copy()
        found = self.take_oldest(everyone, SLOTS)
        self._head, self._length = before
        return found


class SteadyState:
    """The cluster's true state. Indices of rows are application x `KEYS` + key."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._random = np.random.default_rng(load.seed)
        self.sequence = 0
        self.now_ms = 1_000_000
        apps = max(load.rows // KEYS, 1)
        self._groups = GROUPS if load.leaves > GROUPS else 0
        self._leaf = 1 + self._groups + np.arange(apps) % load.leaves
        self._shape = self._random.integers(len(SHAPES), size=apps * KEYS)
        self._count = np.full(apps * KEYS, ASKS)
        self._free = np.tile(NODE, (load.nodes, 1))
        self._used = np.zeros((apps, 2), np.int64)
        self._running = np.zeros(apps, np.int64)
        self._queue_used = np.zeros((1 + self._groups + load.leaves, 2), np.int64)
        self._held = Held(load.nodes)
        self._living = list(range(apps))
        self._alive = np.ones(apps, bool)
        self._node_name = len(NAMES) + len(self._queue_used) - 1
        self._committed: Any = np.zeros((0, 4), np.int64)
        """Columns number, row, node, creation time: content of the next frame."""
        self._next_node = 0
        self._next_container = 0
        self._placed = 0
        self._fill()

    def _fill(self) -> None:
        """Put containers of random rows on all nodes until the next would not fit."""
        rows = self._random.integers(len(self._count), size=(self._load.nodes, SLOTS))
        fits = (np.cumsum(SHAPES[self._shape[rows]], axis=1) <= NODE).all(axis=2)
        nodes, rows = np.nonzero(fits)[0], rows[fits]
        self._take(nodes, rows)
        self._put(nodes, rows)

    def _put(self, nodes: Any, rows: Any) -> Any:
        numbers = self._next_container + np.arange(len(rows))
        self._next_container += len(rows)
        containers = np.stack([numbers, rows, nodes, np.full(len(rows), self.now_ms)], axis=1)
        self._held.put(containers)
        return containers

    def _take(self, nodes: Any, rows: Any, sign: int = 1) -> None:
        amounts = sign * SHAPES[self._shape[rows]]
        apps = rows // KEYS
        np.subtract.at(self._free, nodes, amounts)
        np.add.at(self._used, apps, amounts)
        np.add.at(self._running, apps, sign)
        np.add.at(self._queue_used, self._leaf[apps], amounts)
        self._queue_used[0] += amounts.sum(axis=0)
        if self._groups:
            np.add.at(self._queue_used, 1 + self._leaf[apps] % self._groups, amounts)

    # The same content as the shim's.

    def snapshot(self) -> list[Event]:
        """Return the whole cluster."""
        queues = len(self._queue_used)
        names = [*NAMES, *(f"root.{queue}" for queue in range(1, queues)), *(f"n{n}" for n in range(self._load.nodes))]
        every, living = np.arange(queues), np.array(self._living)
        held = self._held.every()
        leaf = every > self._groups
        parents = np.where(leaf & (self._groups > 0), 1 + every % max(self._groups, 1), 0)
        parents[0] = -1
        return [
            events.Snapshot(1),
            events.Names(tuple(names)),
            events.ResourceTypes(
                names=("memory-mb", "vcores"),
                units=("Mi", ""),
                counted=np.ones(2, np.uint8),
                minimum=np.ones(2, np.int64),
                maximum=NODE,
            ),
            events.Settings({"node-locality-delay": "40", "nm-heartbeat-ms": "1000"}),
            filled(
                events.Queues,
                queues,
                queue=every,
                parent=parents,
                path_name=ROOT_NAME + every,
                state=1,
                leaf=leaf,
                ordering_policy_name=np.where(leaf, FIFO_NAME, 0),
            ),
            self._limits(every),
            self._users(every[leaf]),
            self._node_rows(np.arange(self._load.nodes)),
            self._applications(living, ApplicationState.ACTIVE),
            self._usage(living),
            self._requests(np.arange(len(self._count))),
            # application by application, as the shim writes them
            self._container_events(ContainerEvent.LAUNCHED, held[np.argsort(held[:, 1], kind="stable")]),
        ]

    def tick(self) -> list[Event]:
        """Let nodes report what ended on them; return the frame. `commit` must have had the answer before."""
        load = self._load
        beats = max(load.batch // load.ends_per_heartbeat, 1)
        reporting = (self._next_node + np.arange(beats)) % load.nodes
        self._next_node = int(reporting[-1]) + 1
        reporting = np.unique(reporting)
        self.now_ms += max(load.batch // 100, 1)
        gone = self._held.take_oldest(reporting, load.ends_per_heartbeat)
        self._take(gone[:, 2], gone[:, 1], -1)
        asked_again = gone[self._alive[gone[:, 1] // KEYS], 1]
        np.add.at(self._count, asked_again, 1)
        made = self._committed
        nodes = np.unique(np.concatenate([reporting, made[:, 2]]))
        rows = np.unique(np.concatenate([gone[:, 1], made[:, 1]]))
        apps = np.unique(rows // KEYS)
        leaves = np.unique(self._leaf[apps])
        above = np.arange(1 + self._groups)
        events: list[Event] = [
            self._limits(np.concatenate([above, leaves])),
            self._users(leaves),
            self._node_rows(nodes),
            *self._churn(),
            self._usage(apps),
            self._requests(rows),
            self._container_events(ContainerEvent.ALLOCATED, made),
            self._container_events(ContainerEvent.COMPLETED, gone),
        ]
        if len(made):
            events.append(self._fates(len(made)))
        self.sequence += 1
        return events

    def commit(self, made: Proposals) -> None:
        """Commit everything."""
        rows = made.application.astype(np.int64) * KEYS + made.key
        nodes = made.node.astype(np.int64)
        self._take(nodes, rows)
        np.subtract.at(self._count, rows, 1)
        if len(rows) and (int(self._count[rows].min()) < 0 or int(self._free[nodes].min()) < 0):
            raise AssertionError("the engine placed containers that no request has, or more than fits on a node")
        self._committed = self._put(nodes, rows)
        self._placed += len(rows)

    def _churn(self) -> list[Event]:
        """End an application and start another in its leaf, if due; the old one's containers end gradually."""
        if not self._load.arrivals or self._placed < self._load.arrivals:
            return []
        self._placed -= self._load.arrivals
        at = int(self._random.integers(len(self._living)))
        old, new = self._living[at], len(self._leaf)
        self._living[at] = new
        self._alive = np.append(self._alive, True)
        self._alive[old] = False
        self._leaf = np.append(self._leaf, self._leaf[old])
        self._shape = np.append(self._shape, self._random.integers(len(SHAPES), size=KEYS))
        self._count = np.append(self._count, np.full(KEYS, ASKS))
        self._used = np.concatenate([self._used, np.zeros((1, 2), np.int64)])
        self._running = np.append(self._running, 0)
        states = np.array([ApplicationState.GONE, ApplicationState.ACTIVE])
        return [self._applications(np.array([old, new]), states), self._requests(new * KEYS + np.arange(KEYS))]

    # Columns.

    def _limits(self, queues: Any) -> events.QueueLimits:
        count = len(queues)
        whole = NODE * self._load.nodes
        leaves = queues > self._groups
        parts = np.where(leaves, self._load.leaves, max(self._groups, 1))
        parts[queues == 0] = 1
        all_of_it = np.tile(whole, (count, 1))
        return filled(
            events.QueueLimits,
            count,
            queue=queues,
            guaranteed=whole // parts[:, None],
            maximum=all_of_it,
            used=self._queue_used[queues],
            am_limit=all_of_it,
        )

    def _users(self, leaves: Any) -> events.Users:
        count = len(leaves)
        limit = np.tile(NODE * self._load.nodes, (count, 1))
        return filled(
            events.Users, count, queue=leaves, user_name=USER_NAME, limit=limit, used=self._queue_used[leaves]
        )

    def _node_rows(self, nodes: Any) -> events.Nodes:
        count = len(nodes)
        return filled(
            events.Nodes,
            count,
            node=nodes,
            name_name=self._node_name + nodes,
            rack_name=RACK_NAME,
            state=int(NodeState.USABLE),
            total=np.tile(NODE, (count, 1)),
            free=self._free[nodes],
        )

    def _applications(self, apps: Any, states: Any) -> events.Applications:
        return filled(
            events.Applications,
            len(apps),
            application=apps,
            id=apps,
            user_name=USER_NAME,
            queue=self._leaf[apps],
            submit_time_ms=apps,
            start_time_ms=apps,
            state=states,
            replaces=int(Replaces.REQUESTS | Replaces.BLACKLIST | Replaces.TAGS),
        )

    def _usage(self, apps: Any) -> events.ApplicationUsage:
        apps = apps[self._alive[apps]]
        headroom = np.tile(NODE * self._load.nodes, (len(apps), 1))
        return filled(
            events.ApplicationUsage,
            len(apps),
            application=apps,
            containers=self._running[apps],
            used=self._used[apps],
            headroom=headroom,
        )

    def _requests(self, rows: Any) -> events.Requests:
        rows = rows[self._alive[rows // KEYS]]
        return filled(
            events.Requests,
            len(rows),
            application=rows // KEYS,
            key=rows % KEYS,
            priority=rows % KEYS,
            count=self._count[rows],
            relax_locality=1,
            capability=SHAPES[self._shape[rows]],
        )

    def _container_events(self, event: ContainerEvent, steps: Any) -> events.Containers:
        count = len(steps)
        numbers, rows, nodes, created = steps.T
        apps = rows // KEYS
        return filled(
            events.Containers,
            count,
            container=np.ascontiguousarray(numbers),
            application=np.where(self._alive[apps], apps, -1),
            priority=rows % KEYS,
            node=np.ascontiguousarray(nodes),
            event=int(event),
            time_ms=self.now_ms,
            created_ms=np.ascontiguousarray(created),
            by_treadle=1,
            capability=SHAPES[self._shape[rows]],
        )

    def _fates(self, count: int) -> events.Fates:
        position, container = np.arange(count), self._committed[:, 0].copy()
        return filled(events.Fates, count, sequence=self.sequence, position=position, container=container)
