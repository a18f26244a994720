"""A small ResourceManager in Python: it keeps the state, sends it as the shim does, and checks every proposal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle import events
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.engine.testing import StringTable, resource_types, rows
from treadle.events import ApplicationState, Event, Fate, NodeState, Proposals, Replaces

Amounts = tuple[int, ...]

RESOURCES = ("memory-mb", "vcores", "cpu", "gpu")
LEAF = 1
"""The first queue below the root."""


def add(a: Amounts, b: Amounts, sign: int = 1) -> Amounts:
    return tuple(x + sign * y for x, y in zip(a, b, strict=True))


@dataclass
class Node:
    name: str
    rack: str
    total: Amounts
    free: Amounts
    partition: str = ""
    state: NodeState = NodeState.USABLE


@dataclass
class Queue:
    parent: int
    guaranteed: Amounts
    maximum: Amounts
    order: str = "fifo"
    sized: int = 0
    priority: int = 0
    used: dict[str, Amounts] = field(default_factory=dict)
    pending: Amounts = ()
    """What is outstanding, of applications of other engines too."""


@dataclass
class Ask:
    count: int
    capability: Amounts
    priority: int = 0
    partition: str = ""
    relax: bool = True
    constrained: bool = False
    places: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Name of a node or rack -> outstanding count, relaxLocality."""


@dataclass
class Application:
    queue: int
    user: str = "u"
    priority: int = 0
    start_ms: int = 0
    awaiting_am: bool = False
    state: ApplicationState = ApplicationState.ACTIVE
    asks: dict[int, Ask] = field(default_factory=dict)
    blacklist: list[str] = field(default_factory=list)
    kind: str = ""
    name: str = ""
    used: Amounts = ()
    containers: int = 0


class FakeRM:
    """The state. ``counted`` says which resources the calculator looks at; there are as many as it is long."""

    def __init__(self, counted: Amounts = (1, 1), settings: dict[str, str] | None = None) -> None:
        self.counted = counted
        self.none: Amounts = (0,) * len(counted)
        self.plenty: Amounts = (1 << 40,) * len(counted)
        self.settings = {"node-locality-delay": "0", "nm-heartbeat-ms": "1000", "shared-partitions": ""} | (
            settings or {}
        )
        self.nodes: list[Node] = []
        self.queues: list[Queue] = []
        self._parents: set[int] = set()
        self.applications: list[Application] = []
        self.user_limit: dict[str, Amounts] = {}
        self.user_used: dict[tuple[int, str, str], Amounts] = {}
        self.containers: list[tuple[int, int, Amounts, str]] = []
        self.sequence = 0
        self._texts = StringTable()
        self._told = False
        self._changed: set[int] = set()
        self._fates: list[dict[str, int]] = []
        self._told_used: dict[tuple[int, str], Amounts] = {}

    def node(self, name: str, total: Amounts, rack: str = "/r", partition: str = "") -> int:
        self.nodes.append(Node(name, rack, total, total, partition))
        return len(self.nodes) - 1

    def queue(self, parent: int, guaranteed: Amounts, maximum: Amounts | None = None, **more: Any) -> int:
        self._parents.add(parent)
        self.queues.append(Queue(parent, guaranteed, maximum or self.plenty, **more))
        return len(self.queues) - 1

    def application(self, queue: int, **more: Any) -> int:
        self.applications.append(Application(queue, used=self.none, **more))
        self._changed.add(len(self.applications) - 1)
        return len(self.applications) - 1

    def ask(self, application: int, key: int, count: int, capability: Amounts, **more: Any) -> None:
        self.applications[application].asks[key] = Ask(count, capability, **more)
        self._changed.add(application)

    def job(self, count: int, capability: Amounts = (1, 1), queue: int = LEAF, **more: Any) -> int:
        """Add an application that asks for so many containers under the key 0; return it."""
        application = self.application(queue, **more)
        self.ask(application, 0, count, capability)
        return application

    def change(self, application: int) -> None:
        """Tell everything of an application again."""
        self._changed.add(application)

    def complete(self, container: int) -> None:
        """End a running container, by its place in `containers`."""
        application, node, capability, partition = self.containers.pop(container)
        self._use(application, node, capability, partition, -1)

    def partitions(self) -> list[str]:
        return sorted({node.partition for node in self.nodes} | {""})

    def path(self, queue: int) -> list[int]:
        found = []
        while queue >= 0:
            found.append(queue)
            queue = self.queues[queue].parent
        return found

    def _use(self, application: int, node: int, capability: Amounts, partition: str, sign: int) -> None:
        app = self.applications[application]
        app.used = add(app.used, capability, sign)
        app.containers += sign
        self.nodes[node].free = add(self.nodes[node].free, capability, -sign)
        for queue in self.path(app.queue):
            used = self.queues[queue].used
            used[partition] = add(used.get(partition, self.none), capability, sign)
        key = (app.queue, app.user, partition)
        self.user_used[key] = add(self.user_used.get(key, self.none), capability, sign)

    # What the shim would send.

    def frame(self) -> list[Event]:
        """Return the events of the next frame: the snapshot, or what may have changed, then the fates."""
        body = self._body()
        head: list[Event] = []
        if not self._told:
            self._texts.again()
            head.append(events.Snapshot(1))
        head.append(self._texts.drain())
        if not self._told:
            head += [resource_types(RESOURCES[: len(self.counted)], self.counted), events.Settings(self.settings)]
        self._told = True
        self._changed.clear()
        self._fates.clear()
        self._told_used = {
            (at, partition): used for at, queue in enumerate(self.queues) for partition, used in queue.used.items()
        }
        self.sequence += 1
        return head + body

    def snapshot_next(self) -> None:
        """Let the next frame be a snapshot."""
        self._told = False
        self._fates.clear()

    def _body(self) -> list[Event]:
        everyone = range(len(self.applications))
        changed = sorted(self._changed) if self._told else list(everyone)
        told: list[Any] = (
            [] if self._told else [rows(events.Queues, self._texts, map(self._queue_row, range(len(self.queues))))]
        )
        told += [
            rows(events.QueueLimits, self._texts, self._limit_rows()),
            rows(events.Users, self._texts, self._user_rows()),
            rows(events.Nodes, self._texts, map(self._node_row, range(len(self.nodes)))),
            rows(events.Applications, self._texts, (self._application_row(at, at in changed) for at in everyone)),
            rows(events.ApplicationUsage, self._texts, map(self._usage_row, everyone)),
            rows(events.Blacklist, self._texts, self._blacklist_rows(changed)),
            rows(events.Requests, self._texts, [row for at in everyone for row in self._request_rows(at)]),
            rows(events.Localities, self._texts, [row for at in everyone for row in self._locality_rows(at)]),
            rows(events.Fates, self._texts, self._fates),
        ]
        return [event for event in told if len(getattr(event, event.__slots__[0]))]

    def _queue_row(self, at: int) -> dict[str, Any]:
        queue = self.queues[at]
        leaf = at not in self._parents
        row = {"queue": at, "parent": queue.parent, "path_name": f"q{at}", "state": 1, "leaf": leaf}
        return row | {"ordering_policy_name": queue.order, "size_based_weight": queue.sized, "priority": queue.priority}

    def _limit_rows(self) -> list[dict[str, Any]]:
        none = self.none
        return [
            {"queue": at, "partition_name": partition, "guaranteed": queue.guaranteed, "maximum": queue.maximum}
            | {
                "used": queue.used.get(partition, none),
                "pending": queue.pending or none,
                "am_limit": none,
                "am_used": none,
            }
            for at, queue in enumerate(self.queues)
            for partition in self.partitions()
        ]

    def _user_rows(self) -> list[dict[str, Any]]:
        leaves = sorted({(app.queue, app.user) for app in self.applications if app.user in self.user_limit})
        return [
            {"queue": queue, "user_name": user, "partition_name": partition, "limit": self.user_limit[user]}
            | {"used": self.user_used.get((queue, user, partition), self.none)}
            for queue, user in leaves
            for partition in self.partitions()
        ]

    def _node_row(self, at: int) -> dict[str, Any]:
        node = self.nodes[at]
        row = {"node": at, "name_name": node.name, "rack_name": node.rack, "partition_name": node.partition}
        return row | {"state": int(node.state), "total": node.total, "free": node.free}

    def _application_row(self, at: int, changed: bool) -> dict[str, Any]:
        app = self.applications[at]
        row = {"application": at, "id": at + 1, "attempt": 1, "user_name": app.user, "queue": app.queue}
        row |= {"type_name": app.kind, "name_name": app.name}
        row |= {"priority": app.priority, "start_time_ms": app.start_ms, "state": int(app.state)}
        replaces = int(Replaces.REQUESTS | Replaces.BLACKLIST) if changed else 0
        return row | {"awaiting_am": app.awaiting_am, "replaces": replaces}

    def _usage_row(self, at: int) -> dict[str, Any]:
        app = self.applications[at]
        return {"application": at, "containers": app.containers, "used": app.used, "headroom": self.plenty}

    def _blacklist_rows(self, changed: list[int]) -> list[dict[str, Any]]:
        return [
            {"application": at, "name_name": name, "present": 1}
            for at in changed
            for name in self.applications[at].blacklist
        ]

    def _request_rows(self, at: int) -> list[dict[str, Any]]:
        if self.applications[at].state == ApplicationState.GONE:
            return []
        return [
            {"application": at, "key": key, "priority": ask.priority, "count": ask.count, "relax_locality": ask.relax}
            | {"constrained": ask.constrained, "partition_name": ask.partition, "capability": ask.capability}
            for key, ask in self.applications[at].asks.items()
        ]

    def _locality_rows(self, at: int) -> list[dict[str, Any]]:
        if self.applications[at].state == ApplicationState.GONE:
            return []
        return [
            {"application": at, "key": key, "name_name": name, "count": count, "relax_locality": relax}
            for key, ask in self.applications[at].asks.items()
            if ask.count > 0
            for name, (count, relax) in ask.places.items()
        ]

    # The fates of proposals.

    def commit(
        self,
        made: Proposals,
        reject: Callable[[int], Fate] = lambda position: Fate.COMMITTED,
        sequence: int | None = None,
        *,
        overtaken: bool = False,
    ) -> list[Fate]:
        """Check each proposal against the state, commit those that ``reject`` does not turn down; return the fates.

        ``sequence`` is that of the frame that they answer, else the last; if something has ``overtaken`` them, those
        that may not be placed any more are stale.
        """
        fates = []
        for position, (app, key, node) in enumerate(listed(made)):
            fate = reject(position)
            if overtaken and self.why_not(app, key, node):
                fate = Fate.STALE_STATE
            else:
                self.check(app, key, node)
            if fate == Fate.COMMITTED:
                self._commit(app, key, node)
            fates.append(fate)
            row = {"sequence": sequence or self.sequence, "position": position, "fate": int(fate)}
            self._fates.append(row | {"container": len(fates) if fate == Fate.COMMITTED else 0})
        return fates

    def turn(
        self,
        engine: Engine,
        now_ms: int = 1000,
        limit: int = 1000,
        more: Iterable[Event] = (),
        fate: Fate = Fate.COMMITTED,
    ) -> Proposals:
        """Tell an engine everything and more, and let it decide; what it proposes has this fate."""
        engine.apply([*self.frame(), *more])
        made = engine.decide(now_ms, limit, sequence=self.sequence)
        self.commit(made, lambda _: fate)
        return made

    def why_not(self, application: int, key: int, node: int) -> str:
        """Return why a container may not be placed now, or nothing."""
        app, machine = self.applications[application], self.nodes[node]
        ask = app.asks.get(key)
        if app.state != ApplicationState.ACTIVE or ask is None or ask.count <= 0:
            return "nothing is asked for"
        if machine.state != NodeState.USABLE:
            return "node not usable"
        lent = machine.partition != ask.partition
        if lent and (ask.partition or app.awaiting_am or machine.partition not in self.settings["shared-partitions"]):
            return "wrong partition"
        if machine.name in app.blacklist or machine.rack in app.blacklist:
            return "blacklisted"
        if not self._near_enough(ask, machine):
            return "relaxLocality"
        over = [r for r in range(len(self.counted)) if self.counted[r] and ask.capability[r] > machine.free[r]]
        if over:
            return "node full"
        return "" if lent else self._over_limit(app, ask)

    def _over_limit(self, app: Application, ask: Ask) -> str:
        for queue in self.path(app.queue):
            used = self.queues[queue].used.get(ask.partition, self.none)
            after = add(used, ask.capability)
            if any(self.counted[r] and after[r] > self.queues[queue].maximum[r] for r in range(len(self.counted))):
                return "queue maximum"
        used = self.user_used.get((app.queue, app.user, ask.partition), self.none)
        limit = self._limit_now(app, ask.partition)
        over_limit = any(self.counted[r] and used[r] > limit[r] for r in range(len(self.counted)))
        return "user limit" if over_limit and self._dominant(used) >= self._dominant(limit) else ""

    def _limit_now(self, app: Application, partition: str) -> Amounts:
        """Return the user's limit: as sent last, and what a leaf at its guarantee has grown by since."""
        limit = self.user_limit.get(app.user, (1 << 60,) * len(self.counted))
        then = self._told_used.get((app.queue, partition), self.none)
        queue = self.queues[app.queue]
        counted = [r for r in range(len(self.counted)) if self.counted[r]]
        full = any(then[r] >= queue.guaranteed[r] for r in counted)
        if not full or any(limit[r] < then[r] for r in counted):
            return limit
        return add(limit, add(queue.used.get(partition, self.none), then, -1))

    def _dominant(self, amounts: Amounts) -> float:
        total = [
            sum(node.total[r] for node in self.nodes if node.state != NodeState.GONE) for r in range(len(self.counted))
        ]
        return max(
            (amounts[r] / total[r] for r in range(len(self.counted)) if self.counted[r] and total[r]), default=0.0
        )

    def check(self, application: int, key: int, node: int) -> None:
        """Fail if a container may not be placed now."""
        reason = self.why_not(application, key, node)
        assert not reason, f"application {application} key {key} on node {node}: {reason}"

    @staticmethod
    def _near_enough(ask: Ask, node: Node) -> bool:
        rack_count, rack_relax = ask.places.get(node.rack, (0, False))
        node_count, _ = ask.places.get(node.name, (0, False))
        return ask.relax or ask.constrained or (rack_count > 0 and (node_count > 0 or rack_relax))

    def _commit(self, application: int, key: int, node: int) -> None:
        app, machine = self.applications[application], self.nodes[node]
        ask = app.asks[key]
        rack = ask.places.get(machine.rack, (0, False))
        near = ask.places.get(machine.name, (0, False))
        if rack[0] > 0 and not ask.constrained:
            if near[0] > 0:
                ask.places[machine.name] = (near[0] - 1, near[1])
                ask.places[machine.rack] = (rack[0] - 1, rack[1])
            elif rack[1]:
                ask.places[machine.rack] = (rack[0] - 1, rack[1])
        ask.count -= 1
        app.awaiting_am = False
        self._use(application, node, ask.capability, machine.partition, 1)
        self.containers.append((application, node, ask.capability, machine.partition))


def flat(rm: FakeRM, leaves: int, guaranteed: Amounts, **more: Any) -> list[int]:
    """Add a root with equal leaves; return the leaves."""
    root = rm.queue(-1, tuple(leaves * amount for amount in guaranteed))
    return [rm.queue(root, guaranteed, **more) for _ in range(leaves)]


def cluster(*nodes: Amounts, leaves: int = 1, settings: dict[str, str] | None = None, **queue: Any) -> FakeRM:
    """Return nodes of these sizes, and a root with equal leaves that are guaranteed all of them."""
    rm = FakeRM(settings=settings)
    for at, total in enumerate(nodes):
        rm.node(f"n{at}", total)
    flat(rm, leaves, tuple(sum(amounts) // leaves for amounts in zip(*nodes, strict=True)), **queue)
    return rm


def listed(made: Proposals) -> list[tuple[int, int, int]]:
    """Return the application, key and node of each proposal."""
    return list(zip(made.application.tolist(), made.key.tolist(), made.node.tolist(), strict=True))


def nodes_of(made: Iterable[tuple[int, int, int]]) -> list[int]:
    """Return the node of each proposal that was `listed`."""
    return [node for _, _, node in made]


def placed(
    rm: FakeRM, limit: int, engine: Engine | None = None, now_ms: int = 1000, more: Iterable[Event] = ()
) -> list[tuple[int, int, int]]:
    """Tell an engine everything, commit what it proposes, and return that in order."""
    return listed(rm.turn(engine or Engine(default_settings()), now_ms, limit, more))


def assumed(engine: Any) -> int:
    """Return how many proposals of an engine have no known fate."""
    return 0 if engine._cluster is None else len(engine._cluster.assumed)


def none_assumed(engine: Any) -> bool:
    """Say whether the engine assumes nothing, in any of its columns."""
    view = engine._cluster.view()
    amounts = (view.node_amounts, view.app_amounts, view.user_amounts)
    counts = (view.rows["assumed"], view.apps["assumed_count"], view.places["assumed"])
    zero = all(not np.any(each[:, 0]) for each in amounts) and not np.any(view.limit_amounts[:, :, 0])
    return bool(zero and not any(np.any(each) for each in counts) and assumed(engine) == 0)
