"""Builds the tables of a simulation from a scenario and its jobs.

Jobs as tables: applications, rows, tasks, edges between stages, and the location of the tasks' input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.constraints import DEFAULT_PREFIX, NodeFacts, NodeFactTable, miscounted, node_preference, parse
from treadle.dag import Dag, Stage
from treadle.errors import UserError
from treadle.events import NodeState
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.tables import FrameworkCode, RowKind, SimulationParameters, State
from treadle.simulator.scenario import NodeGroup, QueueTree, ScenarioModel, queue_tree
from treadle.workload.job import Framework, Job, Workload
from treadle.yarn.codes import FAILED_MAP, MAP, REDUCE

CODES: Final = {
    Framework.MAPREDUCE: FrameworkCode.MAPREDUCE,
    Framework.TEZ: FrameworkCode.TEZ,
    Framework.SPARK: FrameworkCode.SPARK,
}


StageOrder = tuple[int, ...]
"""Ids of all stages of a DAG, the first to run first."""


class Bound(NamedTuple):
    """Required and preferred node properties of a stage, as texts; empty: any node."""

    require: str
    prefer: str
    require_by_tag: str = ""
    """Requirements by tags of its job; they are sent with the job, not with its requests."""
    prefer_by_tag: str = ""

    @property
    def hard(self) -> str:
        """All requirements."""
        return ";".join(filter(None, (self.require, self.require_by_tag)))

    @property
    def soft(self) -> str:
        """All preferences."""
        return ";".join(filter(None, (self.prefer_by_tag, self.prefer)))


class Flat(NamedTuple):
    """The tables that depend on the jobs, by their names in `State`."""

    apps: Records
    rows: Records
    capability: I64
    parents: I32
    children: Records
    tasks: Records
    task_places: I32
    places: Records
    place_tasks: I32


@dataclass(slots=True)
class _Row:
    """One row before it is a record."""

    kind: RowKind
    priority: int
    capability: list[int]
    stage: Stage | None = None
    parents: tuple[int, ...] = ()
    one_to_one: frozenset[int] = frozenset()


class _Tables:
    """Collects jobs."""

    def __init__(
        self,
        tree: QueueTree,
        amounts: Callable[[Mapping[str, float]], list[int]],
        master: list[int] | None,
        slots: int,
        nodes: Mapping[str, int],
        racks: I32,
    ) -> None:
        """Begin without jobs.

        Args:
            tree: the queues
            amounts: turns demands into whole amounts, shape (R,)
            master: what an application master's container has; None: it needs none
            slots: tasks at a time in a Spark executor
            nodes: index of each node by name
            racks: of each node, shape (nodes,)
        """
        self._leaf, self._amounts, self._master, self._slots = cache(tree.leaf), amounts, master, slots
        self._nodes, self._racks = nodes, racks
        self._shapes: dict[tuple[int, Framework, StageOrder | None], list[_Row]] = {}
        self._apps: list[dict[str, int]] = []
        self._rows: list[dict[str, int]] = []
        self._capability: list[list[int]] = []
        self._parents: list[int] = []
        self._children: dict[int, list[tuple[int, int]]] = {}
        self._durations: list[Any] = []
        self._owners: list[tuple[int, int, int]] = []
        self._hosts: list[tuple[int, int, tuple[tuple[str, ...], ...]]] = []
        self._tasks = 0
        self.bounds: dict[Bound, int] = {}
        """The requirements and preferences of rows, with the number in ``rows["bound"]``."""

    def add(self, job: Job, order: StageOrder | None) -> None:
        """Add a job; ``order`` has which vertices of a Tez job come first, None for Tez's own order.

        Raises:
            UserError: it cannot run, or one of its tags cannot be read.
        """
        if wrong := miscounted(job.tags):
            raise UserError(f"job {job.id}: a tag cannot be read: {wrong}")
        rows = self._shape(job, order)
        app, first = len(self._apps), len(self._rows)
        stages = {row.stage.id: first + at for at, row in enumerate(rows) if row.stage is not None and _own(row)}
        self._apps.append(
            {
                "arrival_ms": job.arrival_ms,
                "queue": self._leaf(job.queue),
                "first_row": first,
                "rows": len(rows),
                "stages_left": len(stages),
                "framework": int(CODES[job.framework]),
            }
        )
        for at, row in enumerate(rows):
            self._add_row(app, first + at, at, row, stages)
            self._rows[first + at]["bound"] = self._bound(job, row)
        for at, row in enumerate(rows):
            if row.kind == RowKind.RETRIES and row.stage is not None:
                served = stages[row.stage.id]
                self._rows[served]["retries"] = first + at
            if row.stage is not None and _own(row) and row.stage.id in job.hosts:
                begin = self._rows[first + at]["first_task"]
                self._hosts.append((first + at, begin, job.hosts[row.stage.id]))

    def _bound(self, job: Job, row: _Row) -> int:
        """Return the number of a row's requirements and preferences, -1 for none; an AM may run anywhere."""
        if row.kind == RowKind.MASTER:
            return -1
        stage = row.stage.id if row.stage is not None else -1
        if row.kind == RowKind.EXECUTORS:
            wishes = {Bound(job.requires.get(each.id, ""), job.prefers.get(each.id, "")) for each in job.dag.stages}
            if len(wishes) > 1:
                raise UserError(
                    f"job {job.id}: an executor runs tasks of all stages of a Spark job, and these require or prefer "
                    "different nodes; write the same for each"
                )
            stage = job.dag.stages[0].id
        preference = node_preference(list(job.tags))
        if preference.error:
            raise UserError(f"job {job.id}: a tag cannot be read: {preference.error}")
        bound = Bound(
            job.requires.get(stage, ""),
            job.prefers.get(stage, ""),
            ";".join(one.text() for one in preference.required.predicates),
            ";".join(one.text() for one in preference.preferred),
        )
        return self.bounds.setdefault(bound, len(self.bounds)) if any(bound) else -1

    def _add_row(self, app: int, number: int, key: int, row: _Row, stages: dict[int, int]) -> None:
        own = _own(row)
        serves = stages[row.stage.id] if row.stage is not None else number
        tasks = row.stage.tasks if row.stage is not None and own else 0
        barriers = [parent for parent in row.parents if parent not in row.one_to_one] if own else []
        paired = [parent for parent in row.parents if parent in row.one_to_one] if own else []
        self._rows.append(
            {
                "app": app,
                "key": key,
                "priority": row.priority,
                "serves": serves,
                "retries": number,
                "kind": int(row.kind),
                "tasks": tasks,
                "first_task": self._tasks,
                "blockers": len(barriers),
                "paired": len(paired),
                "first_parent": len(self._parents),
                "parents": len(barriers) + len(paired),
            }
        )
        self._capability.append(row.capability)
        for parent in (*barriers, *paired):
            self._parents.append(stages[parent])
            self._children.setdefault(stages[parent], []).append((number, int(parent in row.one_to_one)))
        if tasks and row.stage is not None:
            self._durations.append(row.stage.durations())
            self._owners.append((number, tasks, len(paired)))
            self._tasks += tasks

    def _shape(self, job: Job, order: StageOrder | None) -> list[_Row]:
        """Return the rows of a job; jobs with the same DAG and order have the same."""
        shape = id(job.dag), job.framework, order
        if shape not in self._shapes:
            self._shapes[shape] = self._rows_of(job.dag, job.framework, order)
        return self._shapes[shape]

    def _rows_of(self, dag: Dag, framework: Framework, order: StageOrder | None) -> list[_Row]:
        rows = [] if self._master is None else [_Row(RowKind.MASTER, 0, self._master)]
        stages = _without_empty(dag)
        if framework == Framework.SPARK:
            rows += [
                _Row(RowKind.INSIDE, 0, self._amounts(stage.demand), stage, parents, paired)
                for stage, parents, paired in stages
            ]
            largest = np.max([row.capability for row in rows if row.stage is not None], axis=0, initial=0)
            if stages:
                rows.append(_Row(RowKind.EXECUTORS, 0, [int(amount) * self._slots for amount in largest]))
            return rows
        band = _bands(stages, order)
        for stage, parents, paired in stages:
            if framework == Framework.MAPREDUCE:
                normal = REDUCE if parents else MAP
                again = REDUCE if parents else FAILED_MAP
            else:
                # Tez: a band of three for each vertex.
                normal = 3 * band[stage.id] - 1
                again = normal - 1
            capability = self._amounts(stage.demand)
            rows.append(_Row(RowKind.TASKS, normal, capability, stage, parents, paired))
            if again != normal:
                rows.append(_Row(RowKind.RETRIES, again, capability, stage))
        return rows

    def finish(self) -> Flat:
        """Return the tables."""
        apps = _records(tables.APPLICATION, self._apps)
        for name in ("started_ms", "finish_ms", "beat_ms", "starved_ms", "next_pending", "first_container"):
            apps[name] = -1
        for name in ("new_head", "new_tail", "master", "target"):
            apps[name] = -1
        rows = _records(tables.ROW, self._rows)
        rows["head"] = rows["tail"] = rows["began_ms"] = -1
        children: list[tuple[int, int]] = []
        for row, below in sorted(self._children.items()):
            rows["first_child"][row] = len(children)
            rows["children"][row] = len(below)
            children += below
        tasks = np.zeros(self._tasks, tables.TASK)
        if self._durations:
            tasks["duration_ms"] = np.concatenate(self._durations)
            owner, count, waits = (np.array(column) for column in zip(*self._owners, strict=True))
            tasks["row"] = np.repeat(owner, count)
            tasks["waits"] = np.repeat(waits, count)
        tasks["next"] = tasks["before"] = tasks["container"] = tasks["list"] = -1
        tasks["begin_ms"] = tasks["end_ms"] = tasks["node"] = -1
        capability = np.array(self._capability, np.int64).reshape(len(self._rows), len(self._amounts({})))
        parents, below_rows = np.array(self._parents, np.int32), np.array(children, tables.CHILD)
        return Flat(apps, rows, capability, parents, below_rows, tasks, *self._places(rows, tasks))

    def _places(self, rows: Records, tasks: Records) -> tuple[I32, Records, I32]:
        """Return the input locations of tasks: the places of each task, places by row, and the tasks of each place."""
        place_rows: list[dict[str, int]] = []
        task_places: list[int] = []
        place_tasks: list[int] = []
        for row, first_task, hosts in self._hosts:
            wanted = [self._wheres(names) for names in hosts]
            where_tasks: dict[int, list[int]] = {}
            for at, wheres in enumerate(wanted):
                for where in wheres:
                    where_tasks.setdefault(where, []).append(first_task + at)
            index = {}
            rows["first_place"][row], rows["places"][row] = len(place_rows), len(where_tasks)
            for where, here in sorted(where_tasks.items()):
                index[where] = len(place_rows)
                place_rows.append({"row": row, "where": where, "first_task": len(place_tasks), "tasks": len(here)})
                place_tasks += here
            for at, wheres in enumerate(wanted):
                tasks["first_place"][first_task + at] = len(task_places)
                tasks["places"][first_task + at] = len(wheres)
                task_places += [index[where] for where in wheres]
        places = _records(tables.PLACE, place_rows)
        return np.array(task_places, np.int32), places, np.array(place_tasks, np.int32)

    def _wheres(self, names: tuple[str, ...]) -> list[int]:
        """Return the nodes with these names and their racks; unknown names are skipped."""
        nodes = sorted({self._nodes[name] for name in names if name in self._nodes})
        racks = sorted({int(self._racks[node]) for node in nodes})
        return nodes + [len(self._nodes) + rack for rack in racks]


def _own(row: _Row) -> bool:
    """Return whether a row is a stage itself, rather than for its failed tasks."""
    return row.kind in (RowKind.TASKS, RowKind.INSIDE)


def _records(kind: np.dtype[Any], given: list[dict[str, int]]) -> Records:
    table = np.zeros(len(given), kind)
    for name in given[0] if given else ():
        table[name] = [row[name] for row in given]
    return table


def _without_empty(dag: Dag) -> list[tuple[Stage, tuple[int, ...], frozenset[int]]]:
    """Return the stages that have tasks with their parents; behind a stage without tasks come its parents' children."""
    above: dict[int, tuple[int, ...]] = {}
    kept = []
    for stage in dag.stages:
        parents: list[int] = []
        for parent in stage.parents:
            parents += [each for each in above[parent] if each not in parents]
        above[stage.id] = (stage.id,) if stage.tasks else tuple(parents)
        if stage.tasks:
            kept.append((stage, tuple(parents), stage.one_to_one & set(parents)))
    return kept


def _bands(stages: list[tuple[Stage, tuple[int, ...], frozenset[int]]], order: StageOrder | None) -> dict[int, int]:
    """Return each vertex's place among the priorities of a Tez job, the smallest first, from 1 on.

    Tez's own are by the longest distance from the roots; with an order they follow that.
    """
    if order is not None:
        return {stage: at + 1 for at, stage in enumerate(order)}
    depth: dict[int, int] = {}
    for stage, parents, _ in stages:
        depth[stage.id] = max((depth[parent] + 1 for parent in parents), default=0)
    return {stage.id: (depth[stage.id] + 1) * len(stages) + number for number, (stage, _, _) in enumerate(stages)}


SLOTS: Final = 65_536

USAGE_DRAW: Final = 1
"""Separates the random draw of task usage from other draws with the same seed."""

AMOUNT_MAX: Final = 1 << 60
"""Maximum total capacity and total demand of each resource, so that sums stay exact."""

VERSIONS_KEPT: Final = 4
"""Average number of versions kept of each row: with one for each, a single engine misses none."""


@dataclass(frozen=True, slots=True)
class Built:
    """The initial state of a simulation, and the names of its nodes and jobs."""

    state: State
    parameters: SimulationParameters
    tree: QueueTree
    workload: Workload
    resources: tuple[str, ...]
    node_names: tuple[str, ...]
    rack_names: tuple[str, ...]
    total: I64
    """Total capacity of all nodes, shape (R,)."""
    start_ms: int
    """Clock value at time 0, in ms."""
    facts: tuple[NodeFacts, ...]
    """Properties of each node that requirements test."""
    bounds: tuple[Bound, ...]
    """Requirements and preferences of rows."""


def build(
    scenario: ScenarioModel, workload: Workload, seed: int, orders: Sequence[StageOrder | None] | None = None
) -> Built:
    """Return the tables; ``orders`` has which vertices of each Tez job come first, None for Tez's own order.

    Raises:
        UserError: the scenario and the jobs do not go together.
    """
    resources = tuple(resource.name for resource in scenario.cluster.resources)
    names, rack_names, racks, totals = _nodes(scenario, resources)
    total = totals.sum(axis=0)
    tree = queue_tree(scenario, total)
    _check_demands(workload, resources)
    _check_contention(scenario, workload)
    amounts = partial(_amounts, scenario)
    spark = scenario.frameworks.spark_tasks_per_executor
    master = amounts(scenario.frameworks.master) if scenario.frameworks.master else None
    collected = _Tables(tree, amounts, master, spark, {name: at for at, name in enumerate(names)}, racks)
    for at, job in enumerate(workload.jobs):
        collected.add(job, orders[at] if orders is not None else None)
    flat, bounds = collected.finish(), tuple(collected.bounds)
    _check_asks(flat, resources)
    facts = _facts(scenario, names, rack_names, racks, totals)
    met = {
        "allowed": _met([bound.hard for bound in bounds], facts),
        "preferred": _met([bound.soft for bound in bounds], facts),
    }
    state = _state(scenario, flat, tree, totals, racks, met | {"usage": _usage(scenario, flat, seed)})
    start_ms = round(1000 * scenario.start_s)
    parameters = _parameters(scenario, seed)
    return Built(state, parameters, tree, workload, resources, names, rack_names, total, start_ms, facts, bounds)


def _amounts(scenario: ScenarioModel, amounts: Mapping[str, float]) -> list[int]:
    """Return amounts of a scenario as whole numbers."""
    resources = scenario.cluster.resources
    found = [ceil(amounts.get(each.name, 0.0) * each.scale - 1e-9) for each in resources]
    for each, amount in zip(resources, found, strict=True):
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


def _usage(scenario: ScenarioModel, flat: Flat, seed: int) -> F64:
    """Return the fraction of their request that tasks of each row use; no rows if they use all of it.

    The draw depends on the seed and a stage's position in the tables, so it is equal for all policies.
    """
    ranges = [resource.usage for resource in scenario.cluster.resources]
    if not scenario.cluster.contention or all(low == 1.0 for low, _ in ranges):
        return np.zeros((0, len(ranges)))
    low, high = np.array(ranges).T
    usage = low + (high - low) * np.random.default_rng((seed, USAGE_DRAW)).random((len(flat.rows), len(ranges)))
    usage[flat.rows["kind"] == RowKind.MASTER] = 1.0
    return np.asarray(usage[flat.rows["serves"]])


def _check_contention(scenario: ScenarioModel, workload: Workload) -> None:
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


def _nodes(scenario: ScenarioModel, resources: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], Any, I64]:
    names: list[str] = []
    racks: list[int] = []
    totals: list[list[int]] = []
    rack_names: list[str] = []
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
        totals += [_amounts(scenario, group.resources)] * group.count
    _check_sums(scenario, resources)
    return tuple(names), tuple(rack_names), np.array(racks, np.int32), np.array(totals, np.int64)


def _check_sums(scenario: ScenarioModel, resources: tuple[str, ...]) -> None:
    for at, name in enumerate(resources):
        together = sum(_amounts(scenario, group.resources)[at] * group.count for group in scenario.cluster.nodes)
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
    scenario: ScenarioModel, names: tuple[str, ...], rack_names: tuple[str, ...], racks: Any, totals: I64
) -> tuple[NodeFacts, ...]:
    """Return the properties of each node that requirements test."""
    kinds = [resource.name for resource in scenario.cluster.resources]
    groups = [_attributes(group) for group in scenario.cluster.nodes for _ in range(group.count)]
    return tuple(
        NodeFacts(attributes, rack_names[rack], name, totals=dict(zip(kinds, total, strict=True)))
        for attributes, rack, name, total in zip(groups, racks.tolist(), names, totals.tolist(), strict=True)
    )


def _attributes(group: NodeGroup) -> dict[str, str]:
    return {name if "/" in name else f"{DEFAULT_PREFIX}/{name}": value for name, value in group.attributes.items()}


def _met(requirements: Sequence[str], facts: Sequence[NodeFacts]) -> U8:
    """Return (requirement, node): 1 where a node satisfies it; an empty one is satisfied everywhere."""
    met = np.ones((len(requirements), len(facts)), np.uint8)
    nodes = NodeFactTable(facts)
    for at, text in enumerate(requirements):
        for predicate in parse(text).predicates if text else ():
            met[at] &= nodes.meet(predicate)
    return met


def _state(
    scenario: ScenarioModel, flat: Flat, tree: QueueTree, totals: I64, racks: I32, by_row: Mapping[str, Any]
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
        node_wanted=np.zeros((nodes if scenario.cluster.contention else 0, kinds), np.int64),
        thrashing=np.array([resource.thrashing for resource in scenario.cluster.resources]),
        queues=_queues(tree),
        queue_maximum=tree.maximum,
        queue_used=amounts.copy(),
        queue_pending=amounts.copy(),
        queue_am_limit=tree.am_limit,
        queue_am_used=amounts.copy(),
        queue_integral=np.zeros((count, kinds)),
        queue_since=np.zeros(count, np.int64),
        app_used=np.zeros((len(flat.apps), kinds), np.int64),
        containers=np.zeros(0, tables.CONTAINER),
        counted=counted,
        versions=np.zeros(subjects, np.int64),
        latest=np.zeros(VERSIONS_KEPT * subjects, np.int32),
        container_steps=np.zeros(0, tables.CONTAINER_STEP),
        **flat._asdict(),
        **by_row,
    )
    for free in (tables.EVENTS_FREE, tables.CONTAINERS_FREE):
        state.clock[free] = -1
    return with_room(state, containers=1024, events=len(flat.apps) + 4 * nodes + 4096, container_steps=4096)


def _machines(racks: I32, heartbeat_ms: int) -> Records:
    """Return usable nodes, with heartbeats spread evenly over their period."""
    machines = np.zeros(len(racks), tables.NODE)
    machines["rack"] = racks
    machines["state"] = NodeState.USABLE
    machines["first_container"] = -1
    machines["phase_ms"] = np.arange(len(racks), dtype=np.int64) * heartbeat_ms // max(len(racks), 1)
    return machines


def _queues(tree: QueueTree) -> Records:
    """Return queues without waiting applications."""
    queues = np.zeros(len(tree.paths), tables.QUEUE)
    queues["parent"] = tree.parents
    queues["first_pending"] = queues["last_pending"] = -1
    return queues


def with_room(state: State, *, containers: int, events: int, container_steps: int) -> State:
    """Return the state with capacity for more containers and events, and for this many container events in a frame."""
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


def _parameters(scenario: ScenarioModel, seed: int) -> SimulationParameters:
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
