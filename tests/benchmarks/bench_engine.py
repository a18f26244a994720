"""How long the engine takes: `python tests/benchmarks/bench_engine.py [nodes [applications [leaves]]]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle import events
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.model.scripted import Texts, request, resource_types, rows

SLOT = np.array([1024, 1])
SLOTS = 10


def big_cluster(nodes: int, applications: int, leaves: int, asks: int, hosts: int) -> list[Any]:
    """Return a snapshot; each application asks for ``asks`` slots, on ``hosts`` preferred hosts and their racks."""
    texts, random = Texts(), np.random.default_rng(1)
    whole, none = SLOT * SLOTS * nodes, SLOT * 0
    queues = [{"queue": 0, "parent": -1, "path_name": "root"}]
    queues += [{"queue": q + 1, "parent": 0, "path_name": f"root.q{q}", "leaf": 1} for q in range(leaves)]
    spare = {"maximum": whole, "used": none, "pending": none, "am_limit": whole, "am_used": none}
    limits = [{"queue": 0, "guaranteed": whole} | spare]
    limits += [{"queue": q + 1, "guaranteed": whole // leaves} | spare for q in range(leaves)]
    amounts = {"total": SLOT * SLOTS, "free": SLOT * SLOTS, "state": 1}
    machines = [{"node": n, "name_name": f"n{n}", "rack_name": f"/r{n // 40}"} | amounts for n in range(nodes)]
    apps = [
        {"application": a, "id": a, "queue": 1 + a % leaves, "user_name": "u", "state": 1} for a in range(applications)
    ]
    places: list[dict[str, Any]] = []
    for a in range(applications if hosts else 0):
        chosen = random.choice(nodes, hosts, replace=False).tolist()
        racks = sorted({n // 40 for n in chosen})
        names = [f"n{n}" for n in chosen] + [f"/r{r}" for r in racks]
        places += [{"application": a, "name_name": name, "count": asks, "relax_locality": 1} for name in names]
    told = [
        rows(events.Queues, texts, queues),
        rows(events.QueueLimits, texts, limits),
        rows(events.Nodes, texts, machines),
        rows(events.Applications, texts, apps),
        rows(events.Requests, texts, [request(a, 0, asks, SLOT.tolist()) for a in range(applications)]),
    ]
    if places:
        told.append(rows(events.Localities, texts, places))
    head = [events.Snapshot(1), texts.drain(), resource_types(("memory-mb", "vcores"), (1, 1)), events.Settings({})]
    return head + told


def timed(what: str, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Do something and print how long it took."""
    began = time.perf_counter()
    result = work(*arguments, **named)
    print(f"{what:50s} {1e3 * (time.perf_counter() - began):9.3f} ms")  # noqa: T201
    return result


def free_again(engine: Engine, nodes: events.Nodes, made: Any, sequence: int, count: int) -> list[Any]:
    """Return what a frame says when all of an answer was committed and ``count`` full nodes are free again."""
    pick = np.arange(count, dtype=np.int32) * (len(nodes.node) // count)
    again = events.Nodes(*(getattr(nodes, name)[pick] for name in events.Nodes.__slots__))
    number = len(made)
    fates = events.Fates(
        np.full(number, sequence, np.int64),
        np.arange(number, dtype=np.int32),
        np.zeros(number, np.uint8),
        np.arange(number),
    )
    return [again, fates]


def main(nodes: int = 5000, applications: int = 1000, leaves: int = 2) -> None:
    """Print the times."""
    for hosts in (0, 100):
        print(f"{nodes} nodes, {applications} applications, {leaves} leaves, {hosts} preferred hosts each")  # noqa: T201
        told = big_cluster(nodes, applications, leaves, 240, hosts)
        engine = Engine(default_settings())
        timed("snapshot", engine.apply, told)
        machines = next(event for event in told if isinstance(event, events.Nodes))
        sequence = 1
        made = timed("first decide of 1000 (with compilation)", engine.decide, 1000, 1000, sequence=1)
        total = len(made)
        for _ in range(5):
            sequence += 1
            made = timed("decide of 1000", engine.decide, 1000 + sequence, 1000, sequence=sequence)
            total += len(made)
        while len(made):
            sequence += 1
            made = engine.decide(3000 + 10 * sequence, 4096, sequence=sequence)
            total += len(made)
        print(f"placed {total} in {sequence} decides")  # noqa: T201
        for _ in range(3):
            sequence += 1
            timed("decide with nothing to do", engine.decide, 9000, 1000, sequence=sequence)
        engine.apply([events.Settings({})])
        timed("decide on a full cluster", engine.decide, 9000, 1000, sequence=sequence)
        for _ in range(3):
            frame = free_again(engine, machines, made, sequence, 30)
            frame[0].free[:] += SLOT * SLOTS  # ten more on each than what is assumed
            timed("apply 30 nodes and fates", engine.apply, frame)
            sequence += 1
            made = timed("decide", engine.decide, 9000 + sequence, 1000, sequence=sequence)
            print(f"placed {len(made)}")  # noqa: T201


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
