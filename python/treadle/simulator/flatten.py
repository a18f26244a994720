"""Jobs as tables: applications, rows, tasks, edges between stages, and where the tasks' input is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import I32, I64, Records
from treadle.constraints.choices import miscounted, wish
from treadle.dag.dag import Dag, Stage
from treadle.errors import UserError
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import FrameworkCode, RowKind
from treadle.simulator.scenario import QueueTree
from treadle.workload.job import Framework, Job, Workload
from treadle.yarn.codes import FAILED_MAP, MAP, REDUCE

CODES: Final = {
    Framework.MAPREDUCE: FrameworkCode.MAPREDUCE,
    Framework.TEZ: FrameworkCode.TEZ,
    Framework.SPARK: FrameworkCode.SPARK,
}


StageOrder = tuple[int, ...]
"""Ids of all stages of a DAG, the first to run first."""


@dataclass(frozen=True, slots=True)
class Master:
    """What the container of an application master has."""

    capability: list[int]


class Bound(NamedTuple):
    """What the nodes of a stage must and should be, as texts; empty: anything."""

    require: str
    prefer: str
    require_by_tag: str = ""
    """What tags of its job require; they are sent with the job, not with its asks."""
    prefer_by_tag: str = ""

    @property
    def hard(self) -> str:
        """All that its nodes must be."""
        return ";".join(filter(None, (self.require, self.require_by_tag)))

    @property
    def soft(self) -> str:
        """All that they should be."""
        return ";".join(filter(None, (self.prefer_by_tag, self.prefer)))


@dataclass(frozen=True, slots=True)
class Flat:
    """The tables that depend on the jobs."""

    apps: Records
    rows: Records
    capability: I64
    parents: I32
    children: Records
    tasks: Records
    task_places: I32
    places: Records
    place_tasks: I32
    bounds: tuple[Bound, ...]
    """What rows require and prefer of nodes, by the number in ``rows["bound"]``."""


def flatten(
    workload: Workload,
    tree: QueueTree,
    amounts: Callable[[Mapping[str, float]], list[int]],
    master: Master | None,
    slots: int,
    nodes: Mapping[str, int],
    racks: I32,
    rack_count: int,
    orders: Sequence[StageOrder | None] | None = None,
) -> Flat:
    """Return the tables.

    Args:
        workload: the jobs
        tree: the queues
        amounts: turns demands into whole amounts, shape (R,)
        master: what an application master needs, or None
        slots: tasks at a time in a Spark executor
        nodes: index of each node by name
        racks: of each node, shape (nodes,)
        rack_count: how many racks there are
        orders: of each Tez job, which of its vertices come first; None for Tez's own order
    """
    made = _Tables(tree, amounts, master, slots, nodes, racks)
    for at, job in enumerate(workload.jobs):
        made.add(job, orders[at] if orders is not None else None)
    return made.finish(rack_count)


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
        master: Master | None,
        slots: int,
        nodes: Mapping[str, int],
        racks: I32,
    ) -> None:
        self._tree, self._amounts, self._master, self._slots = tree, amounts, master, slots
        self._nodes, self._racks = nodes, racks
        self._queue_of: dict[str, int] = {}
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
        self._bounds: dict[Bound, int] = {}

    def add(self, job: Job, order: StageOrder | None) -> None:
        """Add a job.

        Raises:
            UserError: it cannot run, or one of its tags cannot be read.
        """
        if wrong := miscounted(job.tags):
            raise UserError(f"job {job.id}: a tag cannot be read: {wrong}")
        rows = self._shape(job, order)
        app, first = len(self._apps), len(self._rows)
        if job.queue not in self._queue_of:
            self._queue_of[job.queue] = self._tree.leaf(job.queue)
        stages = {row.stage.id: first + at for at, row in enumerate(rows) if row.stage is not None and _own(row)}
        self._apps.append(
            {
                "arrival_ms": job.arrival_ms,
                "queue": self._queue_of[job.queue],
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
        """Return the number of what a row requires and prefers, -1 for nothing; a master may run anywhere."""
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
        asked = wish(list(job.tags))
        if asked.error:
            raise UserError(f"job {job.id}: a tag cannot be read: {asked.error}")
        bound = Bound(
            job.requires.get(stage, ""),
            job.prefers.get(stage, ""),
            ";".join(one.text() for one in asked.required.predicates),
            ";".join(one.text() for one in asked.preferred),
        )
        return self._bounds.setdefault(bound, len(self._bounds)) if any(bound) else -1

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
        """Return the rows of a job; jobs of the same DAG and order have the same."""
        shape = id(job.dag), job.framework, order
        known = self._shapes.get(shape)
        if known is None:
            known = self._rows_of(job.dag, job.framework, order)
            self._shapes[shape] = known
        return known

    def _rows_of(self, dag: Dag, framework: Framework, order: StageOrder | None) -> list[_Row]:
        rows = [] if self._master is None else [_Row(RowKind.MASTER, 0, self._master.capability)]
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

    def finish(self, rack_count: int) -> Flat:
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
        places, task_places, place_tasks = self._places(rows, tasks, rack_count)
        return Flat(
            apps,
            rows,
            np.array(self._capability, np.int64).reshape(len(self._rows), len(self._amounts({}))),
            np.array(self._parents, np.int32),
            np.array(children, tables.CHILD),
            tasks,
            task_places,
            places,
            place_tasks,
            tuple(self._bounds),
        )

    def _places(self, rows: Records, tasks: Records, rack_count: int) -> tuple[Records, I32, I32]:
        """Return where tasks have their input: places by row, and the places of each task."""
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
        return places, np.array(task_places, np.int32), np.array(place_tasks, np.int32)

    def _wheres(self, names: tuple[str, ...]) -> list[int]:
        """Return the nodes of these names and their racks; names that no node has are left out."""
        nodes = sorted({self._nodes[name] for name in names if name in self._nodes})
        racks = sorted({int(self._racks[node]) for node in nodes})
        return nodes + [len(self._nodes) + rack for rack in racks]


def _own(row: _Row) -> bool:
    """Say whether a row is a stage itself, and not for its failed tasks."""
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

    Tez's own are by distance from the roots; with an order they follow that.
    """
    if order is not None:
        return {stage: at + 1 for at, stage in enumerate(order)}
    depth = _depths(stages)
    return {stage.id: (depth[stage.id] + 1) * len(stages) + number for number, (stage, _, _) in enumerate(stages)}


def _depths(stages: list[tuple[Stage, tuple[int, ...], frozenset[int]]]) -> dict[int, int]:
    """Return each stage's longest distance from a stage without others before it."""
    depth: dict[int, int] = {}
    for stage, parents, _ in stages:
        depth[stage.id] = max((depth[parent] + 1 for parent in parents), default=0)
    return depth
