"""Whatever comes in frames and whoever serves what: an engine's feed says of its applications what the frames said."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import few

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, Event, Replaces, filled
from treadle.model.cluster import Cluster
from treadle.model.tables import FREE, HEADROOM, LIMIT, TOTAL, USED
from treadle.sidecar.mirror import Feed, Mirror
from treadle.wire.frames import FrameDecoder, FrameEncoder, FrameFlag, FrameHeader

TEXTS = ("", "memory-mb", "vcores", "Mi", "root", "root.a", "root.b", "fifo", "x", "n0", "n1", "n2", "rack", "gpu")
NAME = {text: at for at, text in enumerate(TEXTS)}
PLACES = [NAME[text] for text in ("n0", "n1", "n2", "rack")]
PARTITIONS = [0, NAME["gpu"]]
NODES, QUEUES, APPS, KEYS = 3, 3, 6, 3
LIVE = [int(ApplicationState.ACTIVE), int(ApplicationState.WAITING)]


def rows(kind: Any, found: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """Yield an event of rows by their columns, if there are any."""
    table = list(found)
    if table:
        columns: dict[str, Any] = {name: [row[name] for row in table] for name in table[0]}
        yield filled(kind, len(table), **columns)


class World:
    """Frames that a ResourceManager could send."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.epoch = 0

    def amounts(self) -> list[int]:
        return [self.random.randrange(9), self.random.randrange(9)]

    def some(self, things: Iterable[Any], part: float = 0.5) -> list[Any]:
        return [each for each in things if self.random.random() < part]

    def frame(self, snapshot: bool) -> list[Event]:
        """Return the events of a frame, in the order of sections."""
        if snapshot:
            return [*self._begin(), *self._cluster(1.0), *self._applications()]
        return [*self._cluster(0.3), *self._applications()]

    def _begin(self) -> Iterator[Event]:
        self.epoch += 1
        self.apps: dict[int, int] = {}
        self.next_app = 0
        self.keys: dict[tuple[int, int], bool] = {}
        self.blacklists: dict[int, set[int]] = {}
        self.alive: dict[tuple[int, int], dict[str, Any]] = {}
        self.containers = 0
        yield events.Snapshot(self.epoch)
        yield events.Names(TEXTS)
        ones = np.ones(2, np.int64)
        yield events.ResourceTypes(("memory-mb", "vcores"), ("Mi", ""), ones.astype(np.uint8), ones, ones)

    def _cluster(self, part: float) -> Iterator[Event]:
        draw = self.random
        if draw.random() < part:
            yield events.Settings({"x": draw.choice(TEXTS)})
        if draw.random() < part:
            queues = [
                {"queue": queue, "parent": -1 if queue == 0 else 0, "path_name": 4 + queue, "state": draw.randrange(3)}
                for queue in range(QUEUES)
            ]
            yield from rows(events.Queues, queues)
        places = [(queue, partition) for queue in range(QUEUES) for partition in PARTITIONS]
        amounts = ("guaranteed", "maximum", "used", "pending", "am_limit", "am_used")
        limits = [
            {"queue": queue, "partition_name": partition} | {name: self.amounts() for name in amounts}
            for queue, partition in self.some(places, part)
        ]
        yield from rows(events.QueueLimits, limits)
        users = [
            {"queue": queue, "user_name": NAME["x"], "partition_name": partition}
            | {"limit": self.amounts(), "used": self.amounts()}
            for queue, partition in self.some(places, part)
        ]
        yield from rows(events.Users, users)
        changed = self.some(range(NODES), part)
        nodes = [
            {"node": node, "name_name": PLACES[node], "rack_name": NAME["rack"], "state": draw.randrange(3)}
            | {"partition_name": draw.choice(PARTITIONS), "total": self.amounts(), "free": self.amounts()}
            for node in changed
        ]
        yield from rows(events.Nodes, nodes)
        here = [row["node"] for row in nodes if row["state"]]
        attributes = [
            {"node": node, "attribute_name": name, "value_name": draw.choice(PLACES), "present": draw.randrange(2)}
            for node in here
            for name in self.some(PLACES)
        ]
        yield from rows(events.NodeAttributes, attributes)

    def _applications(self) -> Iterator[Event]:
        draw = self.random
        new = [self.next_app] if self.next_app < APPS and draw.random() < 0.6 else []
        self.next_app += len(new)
        told, tagged = [], []
        for app in [*self.some(self.apps, 0.3), *new]:
            state = draw.choice([0, *LIVE]) if app in self.apps and draw.random() < 0.3 else draw.choice(LIVE)
            replaces = draw.choice([0, 0, *range(8)]) if app in self.apps else 0
            told.append({"application": app, "id": app + 1, "queue": draw.randrange(1, QUEUES), "state": state})
            told[-1] |= {"user_name": NAME["x"], "priority": draw.randrange(9), "replaces": replaces}
            if state == 0:
                self._forget(app)
                continue
            self.apps[app] = state
            if replaces & Replaces.REQUESTS:
                self.keys = {pair: bound for pair, bound in self.keys.items() if pair[0] != app}
            if replaces & Replaces.BLACKLIST:
                self.blacklists.pop(app, None)
            tagged.append(app)
        yield from rows(events.Applications, told)
        usage = [
            {"application": app, "containers": draw.randrange(9), "used": self.amounts(), "headroom": self.amounts()}
            for app in self.some(self.apps)
        ]
        yield from rows(events.ApplicationUsage, usage)
        tags = [{"application": app, "tag_name": tag} for app in tagged for tag in self.some(PLACES)]
        yield from rows(events.Tags, tags)
        unwanted = []
        for app in self.some(self.apps, 0.5):
            names = self.blacklists.setdefault(app, set())
            for name in self.some(PLACES, 0.3):
                unwanted.append({"application": app, "name_name": name, "present": int(name not in names)})
                names ^= {name}
        yield from rows(events.Blacklist, unwanted)
        yield from self._asks()
        yield from self._steps()

    def _forget(self, app: int) -> None:
        del self.apps[app]
        self.blacklists.pop(app, None)
        self.keys = {pair: bound for pair, bound in self.keys.items() if pair[0] != app}
        self.alive = {pair: row for pair, row in self.alive.items() if pair[0] != app}

    def _asks(self) -> Iterator[Event]:
        draw = self.random
        asks = []
        for pair in self.some([(app, key) for app in self.apps for key in range(KEYS)], 0.4):
            count = draw.choice([0, 0, 1, 2])
            if pair not in self.keys and not count:
                continue
            asks.append({"application": pair[0], "key": pair[1], "priority": draw.randrange(3), "count": count})
            asks[-1] |= {"partition_name": draw.choice(PARTITIONS), "capability": self.amounts()}
            self.keys.setdefault(pair, False)
            if not count:
                del self.keys[pair]
        yield from rows(events.Requests, asks)
        places = [
            {"application": app, "key": key, "name_name": name, "count": draw.choice([0, 1, 2])}
            for app, key in self.some(self.keys)
            for name in self.some(PLACES)
        ]
        yield from rows(events.Localities, places)
        bound = self.some(self.keys, 0.2)
        self.keys |= dict.fromkeys(bound, True)
        texts = [{"application": app, "key": key, "text_name": draw.choice(PLACES)} for app, key in bound]
        yield from rows(events.Constraints, texts)
        tags = [{"application": app, "key": key, "tag_name": tag} for app, key in bound for tag in self.some(PLACES)]
        yield from rows(events.AllocationTags, tags)

    def _steps(self) -> Iterator[Event]:
        draw = self.random
        steps = []
        for pair in self.some(list(self.alive), 0.6):
            step = draw.choice([ContainerEvent.LAUNCHED, ContainerEvent.COMPLETED, ContainerEvent.RESIZED])
            row = self.alive[pair] | {"event": int(step), "time_ms": draw.randrange(100)}
            if step == ContainerEvent.RESIZED:
                row["capability"] = self.amounts()
            elif step == ContainerEvent.COMPLETED:
                del self.alive[pair]
            steps.append(row)
        for app in self.some(self.apps):
            self.containers += 1
            row = {"application": app, "container": self.containers, "priority": draw.randrange(3)}
            row |= {"event": int(ContainerEvent.ALLOCATED), "node": draw.randrange(NODES), "time_ms": 5}
            row |= {"created_ms": draw.randrange(100), "capability": self.amounts()}
            self.alive[app, self.containers] = row
            steps.append(row)
        if steps and draw.random() < 0.2:
            steps.append(steps[-1] | {"application": -1, "node": -1})
        yield from rows(events.Containers, steps)


class Reader:
    """A model of the cluster, with what a reader of a wire sees."""

    cluster: Cluster

    def take(self, found: list[Event]) -> None:
        body = list(found)
        if isinstance(body[0], events.Snapshot):
            texts, types, body = body[1], body[2], body[3:]
            assert isinstance(texts, events.Names)
            assert isinstance(types, events.ResourceTypes)
            self.cluster = Cluster([texts], types)
        for event in body:
            self.cluster.apply(event)

    def apps(self) -> set[int]:
        """Return the applications that it knows of."""
        at = self.cluster.apps.at
        return set(np.flatnonzero(np.isin(at["state"], LIVE)).tolist())

    def of_all(self) -> dict[str, Any]:
        """Return what is there of nodes and queues."""
        cluster = self.cluster
        nodes, queues, limits = cluster.nodes, cluster.queues.at, cluster.limits
        texts, partitions = cluster.names.texts, cluster.names.partitions
        view = cluster.view()
        named = ("name", "rack", "state")
        return {
            "settings": cluster.settings,
            "queues": [queues[name][:QUEUES].tolist() for name in ("parent", "path", "exists", "leaf", "priority")],
            "limits": {
                (queue, texts[partitions[at]]): limits.amounts[queue, at, 1:7].tolist()
                for queue, at in zip(*np.nonzero(limits.known), strict=True)
            },
            "users": {
                (at // 64, texts[partitions[at % 64]]): view.user_amounts[row][[USED, LIMIT]].tolist()
                for at in range(64 * QUEUES)
                if (row := cluster.users.index.find(at, NAME["x"])) >= 0
            },
            "nodes": {
                node: [
                    *(int(nodes.at[name][node]) for name in named),
                    texts[partitions[nodes.at["partition"][node]]],
                    *nodes.amounts[node][[FREE, TOTAL]].tolist(),
                ]
                for node in range(nodes.size)
                if nodes.at["state"][node]
            },
            "attributes": {node: found for node, found in cluster.attributes.of_node.items() if found},
        }

    def of(self, app: int) -> dict[str, Any]:
        """Return what is there of an application."""
        cluster = self.cluster
        view, texts, partitions = cluster.view(), cluster.names.texts, cluster.names.partitions
        record = cluster.apps.at[app]
        asks = {}
        for row in view.rows[(view.rows["application"] == app) & (view.rows["count"] > 0)]:
            places, at = {}, int(row["first_locality"])
            while at >= 0:
                place = view.places[at]
                if place["count"] > 0:
                    places[int(place["name"])] = int(place["count"])
                at = int(place["next"])
            key = int(row["key"])
            asks[key] = [
                int(row["count"]),
                int(row["priority"]),
                texts[partitions[row["partition"]]],
                cluster.constraints.text.get(app, {}).get(key),
                cluster.constraints.tags.get(app, {}).get(key, set()),
                view.capability[cluster.requests.index.find(app, key)].tolist(),
                places,
            ]
        groups = view.groups[(view.groups["application"] == app) & (view.groups["running"] > 0)]
        running = {int(group["priority"]): (int(group["running"]), int(group["created_ms"])) for group in groups}
        names = ("id", "queue", "user", "priority", "state", "containers")
        return {
            "record": [int(record[name]) for name in names],
            "usage": view.app_amounts[app][[USED, HEADROOM]].tolist(),
            "tags": cluster.tags(app),
            "blacklist": sorted(cluster._blacklists.get(app, ())),
            "blacklisted": int(record["blacklisted"]),
            "asks": asks,
            "running": running,
        }


class Child(Reader):
    """An engine at the other end of a feed, which goes through the wire."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.feed = Feed(mirror)
        self.encoder, self.decoder = FrameEncoder(), FrameDecoder()
        self.parts: dict[int, bool] = {}
        """The applications that it should know, and whether their asks are held back."""
        self.known: set[int] = set()
        self.unread: list[tuple[int, int, int]] = []
        """Steps of containers in frames since it read."""

    def read(self) -> None:
        """Take what is new, and see that no step of an application that it knew before is missing."""
        found = self.feed.read()
        snapshot = bool(found) and isinstance(found[0], events.Snapshot)
        header = FrameHeader(int(FrameFlag.SNAPSHOT) * snapshot, self.mirror.epoch, 1, 0, 0, 0, 2)
        decoded = self.decoder.decode(self.encoder.encode(header, found)).events
        if decoded:
            self.take(decoded)
        for event in decoded:
            if isinstance(event, events.Containers) and snapshot:
                assert set(event.event.tolist()) <= {ContainerEvent.ALLOCATED, ContainerEvent.LAUNCHED}
                assert (self.cluster.nodes.at["state"][event.node[event.node >= 0]] > 0).all()
        steps = [step for event in decoded for step in steps_of(event)]
        if not snapshot:
            for app in self.known & set(self.parts):
                assert [step for step in steps if step[0] == app] == [step for step in self.unread if step[0] == app]
        self.known, self.unread = set(self.parts), []


def steps_of(event: Event) -> list[tuple[int, int, int]]:
    if not isinstance(event, events.Containers):
        return []
    columns = (event.application, event.container, event.event)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.integers(0, 2**32), st.integers(5, 40), st.sampled_from([4, 1 << 20]))
@settings(max_examples=few(15), deadline=None)
def test_an_engine_knows_of_its_applications_what_the_frames_said(seed: int, frames: int, steps_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treadle.sidecar.mirror.STEPS_MAX", steps_max)
        patch.setattr("treadle.sidecar.mirror._DROP_EVERY", 2)
        patch.setattr("treadle.sidecar.mirror._DROPPED_MIN", 1)
        follow(World(seed), frames)


def follow(world: World, frames: int) -> None:
    """Let three engines read when they like what a number of frames say."""
    all_, mirror, draw = Reader(), Mirror(), world.random
    children = [Child(mirror) for _ in range(3)]
    for at in range(frames):
        snapshot = at == 0 or draw.random() < 0.04
        found = world.frame(snapshot)
        all_.take(found)
        cut = draw.randrange(3, len(found) + 1) if len(found) > 3 else len(found)
        for part in (found[:cut], found[cut:]):
            mirror.take(part)
        for child in children:
            if snapshot:
                child.parts = {}
            child.unread += [step for event in found for step in steps_of(event)]
            child.parts = {app: held for app, held in child.parts.items() if app in world.apps}
            for app in world.some(world.apps, 0.3):
                change(child, app, draw.choice(["serve", "lose", "hold", "open"]))
            if draw.random() < 0.1:
                child.feed.begin_again()
            if draw.random() < 0.4:
                child.read()
                check(child, all_)


def change(child: Child, app: int, how: str) -> None:
    if how == "lose":
        child.feed.lose(app)
        child.parts.pop(app, None)
    elif how == "serve":
        child.feed.serve(app)
        child.parts[app] = False
    elif app in child.parts:
        child.feed.hold(app, how == "hold")
        child.parts[app] = how == "hold"


def check(child: Child, all_: Reader) -> None:
    assert child.of_all() == all_.of_all()
    assert child.apps() == set(child.parts)
    for app, held in child.parts.items():
        expected = all_.of(app)
        if held:
            expected["asks"] = {}
        assert child.of(app) == expected
