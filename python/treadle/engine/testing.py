"""Events written by hand: for warm-up, tests and benchmarks.

>>> texts = StringTable()
>>> event = rows(events.Nodes, texts, [{"node": 0, "name_name": "n0", "state": 1, "total": [8, 4], "free": [8, 4]}])
>>> texts.drain()
Names(texts=('', 'n0'))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from treadle import events
from treadle.events import array_fields

E = TypeVar("E")


class StringTable:
    """Assigns indices to texts, and returns new ones as a `Names` event."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {"": 0}
        self._sent = 0

    def index(self, text: str) -> int:
        """Return the index of a text."""
        return self._index.setdefault(text, len(self._index))

    def drain(self) -> events.Names:
        """Return the texts added since the last call."""
        new = tuple(self._index)[self._sent :]
        self._sent = len(self._index)
        return events.Names(new)

    def again(self) -> None:
        """Restart, for a snapshot: the next `drain` returns all texts."""
        self._sent = 0


def rows(kind: type[E], texts: StringTable, given: Iterable[Mapping[str, Any]]) -> E:
    """Return an event of a kind with these rows; a column that a row lacks is 0, columns of names take texts."""
    listed = list(given)
    columns = {}
    of: Any = kind
    for field in array_fields(of):
        values: list[Any] = [row.get(field.name, 0) for row in listed]
        if field.name.endswith("_name"):
            values = [texts.index(value or "") for value in values]
        columns[field.name] = np.array(values, field.dtype)
    return kind(**columns)


def resource_types(names: Sequence[str], counted: Sequence[int]) -> events.ResourceTypes:
    """Return resource types with practically unlimited bounds."""
    ones = np.ones(len(names), np.int64)
    return events.ResourceTypes(
        tuple(names), tuple("" for _ in names), np.array(counted, np.uint8), 0 * ones, ones << 40
    )


def request(application: int, key: int, count: int, capability: Sequence[int], **columns: Any) -> dict[str, Any]:
    """Return a row of `Requests` for any node, unless ``columns`` override that."""
    row = {"application": application, "key": key, "count": count, "relax_locality": 1, "capability": list(capability)}
    return row | columns


def small_cluster(nodes: int = 8, leaves: int = 2, applications: int = 4) -> list[Any]:
    """Return a snapshot: nodes of 16 GB and 8 vcores, 4 per rack; equal leaves; applications that request 8 x 1 GB."""
    texts = StringTable()
    whole = np.array([16384, 8]) * nodes
    queues = [{"queue": 0, "parent": -1, "path_name": "root", "state": 1}]
    names = [f"root.q{leaf}" for leaf in range(leaves)]
    queues += [
        {"queue": at + 1, "parent": 0, "path_name": name, "state": 1, "leaf": 1, "ordering_policy_name": "fifo"}
        for at, name in enumerate(names)
    ]
    none, share = whole * 0, whole // max(leaves, 1)
    spare = {"used": none, "pending": none, "am_limit": whole, "am_used": none, "maximum": whole}
    limits = [{"queue": 0, "guaranteed": whole} | spare]
    limits += [{"queue": leaf + 1, "guaranteed": share} | spare for leaf in range(leaves)]
    amounts = {"total": [16384, 8], "free": [16384, 8]}
    machines = [
        {"node": at, "name_name": f"n{at}", "rack_name": f"/r{at // 4}", "state": 1} | amounts for at in range(nodes)
    ]
    apps = [
        {"application": at, "cluster_timestamp": 1, "id": at, "attempt": 1, "user_name": "u", "queue": at % leaves + 1}
        | {"state": 1, "start_time_ms": at, "submit_time_ms": at, "name_name": f"job {at}"}
        for at in range(applications)
    ]
    users = [{"queue": leaf + 1, "user_name": "u", "limit": whole, "used": none} for leaf in range(leaves)]
    asks = [request(at, 0, 8, [1024, 1]) for at in range(applications)]
    described: list[tuple[type[Any], list[dict[str, Any]]]] = [
        (events.Queues, queues),
        (events.QueueLimits, limits),
        (events.Users, users),
        (events.Nodes, machines),
        (events.Applications, apps),
        (events.Requests, asks),
    ]
    described_rows = [rows(kind, texts, given) for kind, given in described if given]
    settings = {"node-locality-delay": "2", "nm-heartbeat-ms": "1000"}
    types = resource_types(("memory-mb", "vcores"), (1, 1))
    for text in (*types.names, *settings, *settings.values()):
        texts.index(text)
    return [events.Snapshot(1), texts.drain(), types, events.Settings(settings), *described_rows]


def small_events() -> list[list[Any]]:
    """Return lists of follow-up events of `small_cluster`, one for each cycle; together they exercise every kernel."""
    texts = StringTable()
    for text in ("root", "root.q0"):
        texts.index(text)
    names = events.Names(("host", "/rack"))
    places = [{"application": 0, "key": 1, "name_name": "root", "count": 2, "relax_locality": 1}]
    big = request(2, 5, 1, [16384, 8], priority=0)
    fates = [{"sequence": 1, "position": at, "fate": at % 2 * int(events.Fate.NODE_FULL)} for at in range(16)]
    hint = {"application": 1, "key": 0}
    containers = [{"container": at, "application": at, "event": 1 + 2 * (at // 2), "time_ms": 2000} for at in range(3)]
    ended = {"application": 1, "id": 1, "attempt": 1, "queue": 2, "state": 0, "replaces": 7}
    return [
        [
            names,
            rows(events.Applications, texts, [{"application": 0, "queue": 1, "state": 1, "replaces": 3}]),
            rows(events.ApplicationUsage, texts, [{"application": 1, "used": [0, 0], "headroom": [1 << 20, 1 << 10]}]),
            rows(events.Tags, texts, [{"application": 0, "tag_name": "root"}]),
            rows(events.Blacklist, texts, [{"application": 0, "name_name": "root.q0", "present": 1}]),
            rows(events.Requests, texts, [big, request(0, 1, 2, [1024, 1]), request(3, 0, 200, [1024, 1])]),
            rows(events.Localities, texts, places),
            rows(events.Fates, texts, fates),
            rows(events.Containers, texts, [container | {"capability": [1024, 1]} for container in containers]),
            rows(events.TaskInputs, texts, [{"application": 0, "container": 0, "bytes": 1e6}]),
            rows(events.TaskEstimates, texts, [hint | {"duration_ms": 1000, "deviation_ms": -1, "tasks": 8}]),
            rows(events.TaskClaims, texts, [hint | {"duration_ms": 1000, "deviation_ms": -1, "tasks": 8}]),
            rows(events.PlanRanks, texts, [hint | {"score": 0.5}]),
        ],
        [rows(events.Applications, texts, [ended])],
        [rows(events.Requests, texts, [request(3, key, 1, [1024, 1]) for key in range(1, 64)])],
    ]
