"""Decisions of the engine alone: runs and their report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.config.reader import read_settings
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import ApplicationState, ContainerEvent, Event, NodeState, Proposals, Replaces, filled
from treadle.policy.catalogue import register_parts
from treadle.policy.user_parts import PolicyFailedError, raise_if_failed
from treadle_lab.rows import Table
from treadle_lab.sls.run import BenchError

NODES: Final = (100, 1_000, 5_000, 20_000)
ROWS: Final = (100, 1_000, 10_000)
LEAVES: Final = (1, 1_000)
QUICK: Final = ((100, 1_000, 1), (1_000, 1_000, 1), (1_000, 10_000, 1), (1_000, 1_000, 1_000), (5_000, 10_000, 1_000))
DIMENSIONS: Final = ("nodes", "rows", "leaves")
TIMES: Final = ("decide_p50", "decide_p99", "apply_p50")
"""Figures of the table."""

WARM_TICKS: Final = 20
"""Ticks before the measurement: compiled code is read, tables have grown."""


Result = dict[str, Any]
"""The figures of a policy in one configuration, by name, or the ``failure`` of a part of it with the configuration."""


def measure_all(
    policies: Mapping[str, Settings],
    configurations: Sequence[Mapping[str, Any]],
    measured: Callable[[str, Settings, Mapping[str, Any]], Result],
    progress: Callable[[str], None],
    *,
    keep_going: bool,
) -> list[Result]:
    """Measure every policy in every configuration.

    Args:
        policies: by name
        configurations: the sizes of each, by name
        measured: measures a policy in one
        progress: is given words for what runs
        keep_going: a configuration in which a part fails has no figures, and the next one follows

    Raises:
        BenchError: a part of a policy failed.
    """
    results: list[Result] = []
    for name, settings in policies.items():
        for sizes in configurations:
            done = f"{len(results)} of {len(policies) * len(configurations)} done"
            words = (f"{size:,} {what}" if isinstance(size, int) else str(size) for what, size in sizes.items())
            progress(f"{done}; {name}: {', '.join(words)}")
            try:
                results.append({"failure": None} | measured(name, settings, sizes))
            except PolicyFailedError as error:
                if not keep_going:
                    raise BenchError(f"{name}: {error}; --keep-going goes on without its figures") from error
                results.append({"failure": str(error), "policy": name, **sizes})
    return results


def load_policies(files: Iterable[Path]) -> dict[str, Settings]:
    """Return the settings in files by the files' names without their ending.

    Raises:
        BenchError: there are none, or one has several engines.
        ConfigError: a file is wrong.
    """
    register_parts()
    policies = {file.stem: read_settings(file) for file in files}
    if several := [name for name, settings in policies.items() if settings.engines]:
        raise BenchError(f"{', '.join(several)}: this benchmark has one engine; take the section engines out")
    if not policies:
        raise BenchError("there are no policies; name files with --policy")
    return policies


def measure(name: str, settings: Settings, load: Load, seconds: float) -> Result:
    """Run a steady state on one thread until applying and deciding have taken ``seconds`` together.

    Figures ``*_cpu`` are the thread's CPU time, the others wall time, which is longer on a loaded machine.

    Raises:
        PolicyFailedError: a part of the policy failed.
    """
    state, engine = SteadyState(load), Engine(settings)
    engine.apply(state.snapshot())
    taken_ns: list[tuple[int, int, int, int]] = []
    placed = ticks = spent_ns = 0
    while ticks < WARM_TICKS or spent_ns < 1e9 * seconds:
        frame = state.tick()
        began, began_cpu = _clocks()
        engine.apply(frame)
        middle, middle_cpu = _clocks()
        made = engine.decide(state.now_ms, load.batch, sequence=state.sequence)
        ended, ended_cpu = _clocks()
        raise_if_failed(engine.failure, f"in tick {ticks + 1}")
        state.commit(made)
        ticks += 1
        placed += len(made)
        spent_ns += ended - began
        taken_ns.append((middle - began, middle_cpu - began_cpu, ended - middle, ended_cpu - middle_cpu))
        if ticks == WARM_TICKS:
            taken_ns, placed, spent_ns = [], 0, 0
    return _figures(name, load, taken_ns, placed, tuple(engine.warnings()))


def _clocks() -> tuple[int, int]:
    """Return the time and the thread's CPU time, in nanoseconds."""
    return time.perf_counter_ns(), time.thread_time_ns()


def _figures(
    name: str, load: Load, taken_ns: Sequence[tuple[int, int, int, int]], placed: int, warnings: tuple[str, ...]
) -> Result:
    """Return figures of ticks; the columns of their times are apply, apply CPU, decide, decide CPU."""
    taken = np.array(taken_ns) / 1e6
    p50, p99 = (np.percentile(taken, percent, axis=0).round(4).tolist() for percent in (50, 99))
    apply_s, apply_cpu_s, decide_s, decide_cpu_s = (taken.sum(axis=0) / 1e3).tolist()
    figures: Result = {"policy": name, "nodes": load.nodes, "rows": load.rows, "leaves": load.leaves}
    figures |= {
        "batch": load.batch,
        "seconds": round(apply_s + decide_s, 3),
        "ticks": len(taken),
        "placed": placed,
        "placements_per_s": round(placed / (apply_s + decide_s), 1),
        "placements_per_s_cpu": round(placed / (apply_cpu_s + decide_cpu_s), 1),
        "placed_per_decide": round(placed / len(taken), 1),
    }
    for column, what in {2: "decide_{}_ms", 3: "decide_{}_ms_cpu", 0: "apply_{}_ms", 1: "apply_{}_ms_cpu"}.items():
        figures |= {what.format("p50"): p50[column], what.format("p99"): p99[column]}
    return figures | {"warnings": warnings}


def grid_of(
    nodes: Sequence[int] | None, rows: Sequence[int] | None, leaves: Sequence[int] | None, *, quick: bool = False
) -> list[tuple[int, int, int]]:
    """Return the configurations to measure: (nodes, rows, leaves)."""
    if quick and not (nodes or rows or leaves):
        return list(QUICK)
    return list(itertools.product(nodes or NODES, rows or ROWS, leaves or LEAVES))


def run_grid(
    policies: Mapping[str, Settings],
    grid: Sequence[tuple[int, int, int]],
    batch: int,
    seconds: float,
    progress: Callable[[str], None],
    *,
    keep_going: bool = False,
) -> list[Result]:
    """Measure every policy in every configuration (nodes, rows, leaves).

    Raises:
        BenchError: a part of a policy failed, and ``keep_going`` is not set.
    """

    def measured(name: str, settings: Settings, sizes: Mapping[str, Any]) -> Result:
        return measure(name, settings, Load(**sizes, batch=batch), seconds)

    sizes = [dict(zip(DIMENSIONS, each, strict=True)) for each in grid]
    return measure_all(policies, sizes, measured, progress, keep_going=keep_going)


def figures_table(results: Sequence[Result]) -> Table:
    """Return a row for each policy and configuration."""
    title = "a steady state: apply the events of a tick, decide; milliseconds, wall (CPU of the thread)"
    heading = ("policy", *DIMENSIONS, "placed a decide", "placements/s", "decide p50", "decide p99", "apply p50")
    return Table(title, heading, [_row(result) for result in results])


def _row(result: Result) -> tuple[str, ...]:
    of = (result["policy"], *(f"{result[name]:,}" for name in DIMENSIONS))
    if result["failure"] is not None:
        return (*of, "failed", *["-"] * 4)
    times = (f"{result[f'{name}_ms']:.2f} ({result[f'{name}_ms_cpu']:.2f})" for name in TIMES)
    rate = f"{result['placements_per_s']:,.0f} ({result['placements_per_s_cpu']:,.0f})"
    return (*of, f"{result['placed_per_decide']:,.0f}", rate, *times)


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
    """A ResourceManager in a steady state: its frames tick by tick, and its handling of answers.

    Nodes are full except for containers that ended since their last heartbeat. In each tick some nodes report, in turn,
    and on each of them the oldest containers have ended; their applications request as many again. The engine's
    proposals are committed, and the next frame has everything that changed, as the shim does: nodes, queues, users,
    applications, requests, container events, fates. At intervals an application ends and another starts. Indices of
    rows are application x `KEYS` + key.
    """

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
