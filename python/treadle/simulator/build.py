"""Makes the tables of a simulation from a scenario and its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.constraints.expression import parse
from treadle.constraints.placement import DEFAULT_PREFIX, NodeFacts, NodeTable
from treadle.errors import UserError
from treadle.events import NodeState
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import RowKind, SimulationParameters, State
from treadle.simulator.flatten import Bound, Flat, Master, StageOrder, flatten
from treadle.simulator.scenario import NodeGroup, QueueTree, Scenario, queue_tree
from treadle.workload.job import Framework, Workload

SLOTS: Final = 65_536

USAGE_DRAW: Final = 1
"""Distinguishes the draw of what tasks use from others of a seed."""

AMOUNT_MAX: Final = 1 << 60
"""Of each resource the nodes together have, and the tasks together ask for, at most so much: sums stay exact."""

VERSIONS_KEPT: Final = 4
"""Versions of each row that are kept on average: with one for each, an engine alone misses none."""


@dataclass(frozen=True, slots=True)
class Built:
    """A simulation at its start, and the names of what is in it."""

    state: State
    parameters: SimulationParameters
    tree: QueueTree
    workload: Workload
    resources: tuple[str, ...]
    node_names: tuple[str, ...]
    rack_names: tuple[str, ...]
    total: I64
    """What all nodes have together, shape (R,)."""
    start_ms: int
    """What clocks show at time 0."""
    facts: tuple[NodeFacts, ...]
    """What each node is to requirements."""
    bounds: tuple[Bound, ...]
    """What rows require and prefer of nodes."""


def build(
    scenario: Scenario, workload: Workload, seed: int, orders: Sequence[StageOrder | None] | None = None
) -> Built:
    """Return the tables; ``orders`` as `flatten` takes them.

    Raises:
        UserError: the scenario and the jobs do not go together.
    """
    resources = tuple(resource.name for resource in scenario.cluster.resources)
    names, rack_names, racks, totals = _nodes(scenario, resources)
    total = totals.sum(axis=0)
    tree = queue_tree(scenario, total)
    _check_demands(workload, resources)
    _check_contention(scenario, workload)
    amounts = _Scale(scenario)
    spark = scenario.frameworks.spark_tasks_per_executor
    master = Master(amounts.of(scenario.frameworks.master)) if scenario.frameworks.master else None
    places = {name: at for at, name in enumerate(names)}
    flat = flatten(workload, tree, amounts.of, master, spark, places, racks, len(rack_names), orders)
    _check_asks(flat, resources)
    facts = _facts(scenario, names, rack_names, racks, totals)
    allowed = _met([bound.hard for bound in flat.bounds], facts)
    preferred = _met([bound.soft for bound in flat.bounds], facts)
    usage = _usage(scenario, flat, seed)
    state = _state(scenario, flat, tree, totals, racks, len(rack_names), allowed, preferred, usage)
    start_ms = round(1000 * scenario.start_s)
    parameters = _parameters(scenario, seed)
    return Built(state, parameters, tree, workload, resources, names, rack_names, total, start_ms, facts, flat.bounds)


class _Scale:
    """Amounts of a scenario as whole numbers."""

    def __init__(self, scenario: Scenario) -> None:
        self._resources = scenario.cluster.resources

    def of(self, amounts: Mapping[str, float]) -> list[int]:
        found = [ceil(amounts.get(each.name, 0.0) * each.scale - 1e-9) for each in self._resources]
        for each, amount in zip(self._resources, found, strict=True):
            if amount > AMOUNT_MAX:
                raise UserError(
                    f"cluster.resources: an amount of {each.name} is {amount:.3g} in whole units; the simulator counts "
                    f"to {AMOUNT_MAX:.3g}; give it in a larger unit, or a smaller scale"
                )
        return found


def _check_demands(workload: Workload, resources: tuple[str, ...]) -> None:
    for name in workload.resources:
        if name not in resources:
            raise UserError(
                f"workload: its tasks ask for {name!r}, which cluster.resources does not name "
                f"({', '.join(resources)}); add it there"
            )


def _usage(scenario: Scenario, flat: Flat, seed: int) -> F64:
    """Return what part of what they ask for the tasks of each row use; no rows where that is all of it.

    The same draw for any policy: by the place of a stage in the tables, and the seed.
    """
    ranges = [resource.usage for resource in scenario.cluster.resources]
    if not scenario.cluster.contention or all(low == 1.0 for low, _ in ranges):
        return np.zeros((0, len(ranges)))
    low, high = np.array(ranges).T
    usage = low + (high - low) * np.random.default_rng((seed, USAGE_DRAW)).random((len(flat.rows), len(ranges)))
    usage[flat.rows["kind"] == RowKind.MASTER] = 1.0
    return np.asarray(usage[flat.rows["serves"]])


def _check_contention(scenario: Scenario, workload: Workload) -> None:
    peaks = [resource.name for resource in scenario.cluster.resources if resource.usage != (1.0, 1.0)]
    if peaks and not scenario.cluster.contention:
        raise UserError(
            f"cluster.resources: {peaks[0]} has a usage, which only slows tasks down under contention; "
            "set cluster.contention: true, or leave usage out"
        )
    thrashed = [resource.name for resource in scenario.cluster.resources if resource.thrashing != 1.0]
    if thrashed and not scenario.cluster.contention:
        raise UserError(
            f"cluster.resources: {thrashed[0]} has thrashing, which only counts under contention; "
            "set cluster.contention: true, or leave thrashing out"
        )
    if scenario.cluster.contention and any(job.framework is Framework.SPARK for job in workload.jobs):
        raise UserError(
            "cluster.contention: is for containers that run one task at a time, and there are Spark jobs; "
            "leave it out, or use another framework"
        )


def _nodes(scenario: Scenario, resources: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], Any, I64]:
    names: list[str] = []
    racks: list[int] = []
    totals: list[list[int]] = []
    rack_names: list[str] = []
    scale = _Scale(scenario)
    for number, group in enumerate(scenario.cluster.nodes):
        strange = sorted(set(group.resources) - set(resources))
        if strange:
            raise UserError(
                f"cluster.nodes.{number}.resources: {strange[0]!r} is none of cluster.resources "
                f"({', '.join(resources)})"
            )
        per_rack = ceil(group.count / group.racks)
        first = len(rack_names)
        rack_names += [f"/rack{first + rack}" for rack in range(ceil(group.count / per_rack))]
        start = len(names)
        names += [f"{group.name}{start + at}" for at in range(group.count)]
        racks += [first + at // per_rack for at in range(group.count)]
        totals += [[int(amount) for amount in scale.of(group.resources)]] * group.count
    _check_sums(scenario, resources, scale)
    return tuple(names), tuple(rack_names), np.array(racks, np.int32), np.array(totals, np.int64)


def _check_sums(scenario: Scenario, resources: tuple[str, ...], scale: _Scale) -> None:
    for at, name in enumerate(resources):
        together = sum(scale.of(group.resources)[at] * group.count for group in scenario.cluster.nodes)
        if together > AMOUNT_MAX:
            raise UserError(
                f"cluster.nodes: all together have {together:.3g} of {name}; the simulator counts to {AMOUNT_MAX:.3g}; "
                "lower count or resources, or give them in a larger unit"
            )


def _check_asks(flat: Flat, resources: tuple[str, ...]) -> None:
    tasks = np.bincount(flat.tasks["row"], minlength=len(flat.rows)).astype(float)
    for name, together in zip(resources, tasks @ flat.capability.astype(float), strict=True):
        if together > AMOUNT_MAX:
            raise UserError(
                f"workload: its tasks ask for {together:.3g} of {name} together; the simulator counts to "
                f"{AMOUNT_MAX:.3g}; lower tasks or demand, or give it in a larger unit"
            )


def _facts(
    scenario: Scenario, names: tuple[str, ...], rack_names: tuple[str, ...], racks: Any, totals: I64
) -> tuple[NodeFacts, ...]:
    """Return what each node is to requirements."""
    kinds = [resource.name for resource in scenario.cluster.resources]
    groups = [_attributes(group) for group in scenario.cluster.nodes for _ in range(group.count)]
    return tuple(
        NodeFacts(attributes, rack_names[rack], name, totals=dict(zip(kinds, total, strict=True)))
        for attributes, rack, name, total in zip(groups, racks.tolist(), names, totals.tolist(), strict=True)
    )


def _attributes(group: NodeGroup) -> dict[str, str]:
    return {name if "/" in name else f"{DEFAULT_PREFIX}/{name}": value for name, value in group.attributes.items()}


def _met(requirements: Sequence[str], facts: Sequence[NodeFacts]) -> U8:
    """Return (requirement, node): 1 where a node meets it; nothing is met everywhere."""
    met = np.ones((len(requirements), len(facts)), np.uint8)
    nodes = NodeTable(facts)
    for at, text in enumerate(requirements):
        for predicate in parse(text).predicates if text else ():
            met[at] &= nodes.meet(predicate)
    return met


def _state(
    scenario: Scenario,
    flat: Flat,
    tree: QueueTree,
    totals: I64,
    racks: I32,
    rack_count: int,
    allowed: U8,
    preferred: U8,
    usage: F64,
) -> State:
    nodes, kinds = totals.shape
    count = len(tree.paths)
    counted = np.array([resource.counted for resource in scenario.cluster.resources], np.uint8)
    amounts = np.zeros((count, kinds), np.int64)
    subjects = nodes + len(flat.apps) + len(flat.rows) + count
    state = State(
        clock=np.zeros(tables.CLOCKS, np.int64),
        events=np.zeros(0, tables.EVENT),
        slots=np.full(SLOTS, -1, np.int32),
        heap=np.zeros(0, np.int32),
        nodes=_machines(racks, scenario.cluster.heartbeat_ms),
        node_total=totals.copy(),
        node_free=totals.copy(),
        allowed=allowed,
        preferred=preferred,
        node_wanted=np.zeros((nodes if scenario.cluster.contention else 0, kinds), np.int64),
        thrashing=np.array([resource.thrashing for resource in scenario.cluster.resources]),
        usage=usage,
        racks=np.concatenate([racks, np.arange(rack_count, dtype=np.int32)]),
        queues=_queues(tree),
        queue_maximum=tree.maximum,
        queue_used=amounts.copy(),
        queue_pending=amounts.copy(),
        queue_am_limit=tree.am_limit,
        queue_am_used=amounts.copy(),
        queue_integral=np.zeros((count, kinds)),
        queue_since=np.zeros(count, np.int64),
        apps=flat.apps,
        app_used=np.zeros((len(flat.apps), kinds), np.int64),
        rows=flat.rows,
        capability=flat.capability,
        parents=flat.parents,
        children=flat.children,
        tasks=flat.tasks,
        task_places=flat.task_places,
        places=flat.places,
        place_tasks=flat.place_tasks,
        containers=np.zeros(0, tables.CONTAINER),
        counted=counted,
        versions=np.zeros(subjects, np.int64),
        latest=np.zeros(VERSIONS_KEPT * subjects, np.int32),
        container_steps=np.zeros(0, tables.CONTAINER_STEP),
    )
    for free in (tables.EVENTS_FREE, tables.CONTAINERS_FREE):
        state.clock[free] = -1
    return with_room(state, containers=1024, events=len(flat.apps) + 4 * nodes + 4096, container_steps=4096)


def _machines(racks: I32, heartbeat_ms: int) -> Records:
    """Return nodes that can be used, whose heartbeats are spread evenly over their period."""
    machines = np.zeros(len(racks), tables.NODE)
    machines["rack"] = racks
    machines["state"] = NodeState.USABLE
    machines["first_container"] = -1
    machines["phase_ms"] = np.arange(len(racks), dtype=np.int64) * heartbeat_ms // max(len(racks), 1)
    return machines


def _queues(tree: QueueTree) -> Records:
    """Return queues in which nothing waits."""
    queues = np.zeros(len(tree.paths), tables.QUEUE)
    queues["parent"] = tree.parents
    queues["first_pending"] = queues["last_pending"] = -1
    queues["leaf"][list(tree.leaves)] = 1
    return queues


def with_room(state: State, *, containers: int, events: int, container_steps: int) -> State:
    """Return the state with room for more containers and events, and for this many container events in a frame."""
    clock = state.clock
    changed: dict[str, Any] = {}
    if len(state.containers) - int(clock[tables.CONTAINERS]) < containers:
        changed["containers"] = _more(state.containers, containers, clock, tables.CONTAINERS_FREE)
    if len(state.events) - int(clock[tables.EVENTS]) < events:
        changed["events"] = _more(state.events, events, clock, tables.EVENTS_FREE)
        heap = np.zeros(len(changed["events"]), np.int32)
        heap[: len(state.heap)] = state.heap
        changed["heap"] = heap
    if len(state.container_steps) < container_steps:
        log = np.zeros(max(container_steps, 2 * len(state.container_steps)), tables.CONTAINER_STEP)
        log[: len(state.container_steps)] = state.container_steps
        changed["container_steps"] = log
    return state._replace(**changed) if changed else state


def _more(pool: Any, more: int, clock: I64, free: int) -> Any:
    """Return a pool of records with ``more`` added to its list of free ones."""
    size = len(pool)
    added = max(more, size)
    bigger = np.zeros(size + added, pool.dtype)
    bigger[:size] = pool
    bigger["next"][size:] = np.arange(size + 1, size + added + 1)
    bigger["next"][-1] = clock[free]
    clock[free] = size
    return bigger


def _parameters(scenario: Scenario, seed: int) -> SimulationParameters:
    frameworks, failures, stragglers = scenario.frameworks, scenario.failures, scenario.stragglers
    return SimulationParameters(
        node_heartbeat_ms=scenario.cluster.heartbeat_ms,
        am_heartbeat_ms=frameworks.heartbeat_ms,
        launch_ms=frameworks.launch_ms,
        master_start_ms=frameworks.master_start_ms,
        seed=seed,
        attempts_max=failures.attempts_max,
        task_failure=failures.task_probability,
        straggler=stragglers.probability,
        straggler_min=stragglers.factor_min,
        straggler_max=stragglers.factor_max,
        relaxed_slowdown=scenario.cluster.relaxed_slowdown,
        node_mtbf_ms=1000.0 * failures.node_mtbf_s,
        node_repair_ms=1000.0 * failures.node_repair_s,
        node_detection_ms=round(1000 * failures.node_detection_s),
        slow_start=frameworks.slow_start,
        ramp_up_limit=frameworks.ramp_up_limit,
        preemption_limit=frameworks.reduce_preemption_limit,
        tez_min_fraction=frameworks.tez_min_fraction,
        tez_max_fraction=frameworks.tez_max_fraction,
        tez_preemption=frameworks.tez_preemption,
        tez_reuse=int(frameworks.tez_reuse),
        spark_slots=frameworks.spark_tasks_per_executor,
        spark_dynamic=int(frameworks.spark_dynamic),
        spark_initial=frameworks.spark_initial_executors,
        spark_max=frameworks.spark_max_executors,
        spark_idle_ms=frameworks.spark_idle_ms,
        horizon_ms=round(1000 * scenario.duration_limit_s),
    )
