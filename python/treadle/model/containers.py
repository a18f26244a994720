"""Running and ended containers, treated as tasks, grouped by application and priority.

Frameworks give tasks of one kind one priority (the maps of a job, the vertices of a DAG), so all containers of one
application and priority are treated as identical. AM containers are not tasks. A group ends with its application.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.compiled.pair_map import find, give_back, pair, put, remove, take_from
from treadle.model.queues import ApplicationTable
from treadle.model.tables import ModelError, RowTable, chain, largest, own
from treadle.yarn.codes import KILLED_BY_APPMASTER, SUCCESS

COMPLETED: Final = int(events.ContainerEvent.COMPLETED)
RESIZED: Final = int(events.ContainerEvent.RESIZED)
GONE: Final = int(events.ApplicationState.GONE)

# `EFFECT.did`: the effect of a container event.
NOTHING: Final = 0
BEGAN: Final = 1
ENDED: Final = 2


GROUPS_MAX: Final = 2000
"""Maximum number of an application's groups; tasks of further priorities join the latest group."""


@inner
def group_key(app: int, priority: int) -> int:
    """Return the key of an application's priority, which may be negative."""
    return pair(app, priority & 0x7FFFFFFF)


@inner
def task_key(app: int, container: int) -> int:
    """Return the key of a container: 22 bits for its application, 40 for its number mixed with the RM's epoch."""
    epoch = np.uint64(container >> 40) * np.uint64(0x9E3779B97F4A7C15)
    number = np.uint64((np.int64(app) << 40) | (np.int64(container) & 0xFFFFFFFFFF))
    return int(np.int64((number + epoch) & np.uint64(0x3FFFFFFFFFFFFFFF)))


@inner
def group_of(
    apps: Records, groups: Records, amounts: I64, index: Records, free: I32, next_unused: I64, app: int, priority: int
) -> int:
    """Return the task group of an application and priority, a new one if necessary."""
    group = find(index, group_key(app, priority))
    if group < 0 and apps[app].groups >= GROUPS_MAX:
        group = apps[app].first_group
    if group >= 0:
        return group
    apps[app].groups += 1
    group = take_from(free, next_unused)
    put(index, group_key(app, priority), group)
    groups[group].application = app
    groups[group].priority = priority
    groups[group].running = 0
    groups[group].created_ms = 0
    groups[group].ended = 0
    groups[group].ended_ms = 0
    groups[group].first = -1
    groups[group].next = apps[app].first_group
    apps[app].first_group = group
    for r in range(amounts.shape[1]):
        amounts[group, r] = 0
    return group


@inner
def begin_task(
    groups: Records, amounts: I64, tasks: Records, capability: I64, i: int, task: int, group: int, created_ms: int
) -> None:
    """Add a running task with the resources in row ``i`` of ``capability``."""
    tasks[task].group = group
    tasks[task].created_ms = created_ms
    tasks[task].input_bytes = 0.0
    tasks[task].before = -1
    tasks[task].next = groups[group].first
    if groups[group].first >= 0:
        tasks[groups[group].first].before = task
    groups[group].first = task
    groups[group].running += 1
    groups[group].created_ms += created_ms
    for r in range(amounts.shape[1]):
        amounts[group, r] += capability[i, r]


@inner
def end_task(groups: Records, amounts: I64, tasks: Records, task: int) -> None:
    """Remove a running task, whose resources are the mean of its group."""
    group = tasks[task].group
    if tasks[task].before >= 0:
        tasks[tasks[task].before].next = tasks[task].next
    else:
        groups[group].first = tasks[task].next
    if tasks[task].next >= 0:
        tasks[tasks[task].next].before = tasks[task].before
    for r in range(amounts.shape[1]):
        amounts[group, r] -= amounts[group, r] // groups[group].running
    groups[group].running -= 1
    groups[group].created_ms -= tasks[task].created_ms


@inner
def resize_task(groups: Records, amounts: I64, tasks: Records, capability: I64, i: int, task: int) -> None:
    """Resize a running task to row ``i`` of ``capability``; its old resources are the mean of its group."""
    group = tasks[task].group
    for r in range(amounts.shape[1]):
        amounts[group, r] += capability[i, r] - amounts[group, r] // groups[group].running


@kernel
def find_task(task_index: Records, app: int, container: int) -> int:
    """Return the task in a container, -1 if it is not running."""
    return find(task_index, task_key(app, container))


@inner
def ended_well(apps: Records, app: int, exit_status: int, mapreduce: int) -> bool:
    """Return whether a container completed its task, as far as its exit status shows.

    A MapReduce AM kills containers that it no longer needs, such as the slower of two speculative attempts; their
    durations are not task durations. Other frameworks release containers that are done.
    """
    if exit_status == SUCCESS:
        return True
    return bool(apps[app].type != mapreduce and exit_status == KILLED_BY_APPMASTER)


@tables
class TaskArrays(NamedTuple):
    """All tables that container events change."""

    apps: Records
    groups: Records
    amounts: I64
    group_index: Records
    free: I32
    next_unused: I64
    tasks: Records
    task_index: Records
    free_tasks: I32
    next_task: I64


@tables
class ContainerEvents(NamedTuple):
    """Container events: columns of `treadle.events.Containers`."""

    container: I64
    application: I32
    priority: I32
    node: I32
    event: U8
    time_ms: I64
    created_ms: I64
    exit_status: I32
    am: U8
    capability: I64


@inner
def note_begin(effects: Records, i: int, group: int, task: int) -> None:
    """Record the start of a container in ``effects``, unless that is empty."""
    if len(effects) > 0:
        effects[i].did = BEGAN
        effects[i].group = group
        effects[i].task = task


@inner
def note_end(
    effects: Records, i: int, group: int, task: int, tasks: Records, duration_ms: int, exit_status: int
) -> None:
    """Record the end of a container in ``effects``, unless that is empty."""
    if len(effects) > 0:
        effects[i].did = ENDED
        effects[i].group = group
        effects[i].task = task
        effects[i].duration_ms = duration_ms
        effects[i].exit_status = exit_status
        effects[i].input_bytes = tasks[task].input_bytes if task >= 0 else 0.0


@kernel
def apply_containers(to: TaskArrays, given: ContainerEvents, mapreduce: int, effects: Records) -> None:
    """Apply container events in order; ``mapreduce`` is the name index of that application type.

    ``effects`` receives the effect of each event, one row each, initially `NOTHING`; it may be empty.
    """
    # Local variables for the arrays: reading them from the tuples in each iteration was a third slower.
    apps, groups, amounts, tasks = to.apps, to.groups, to.amounts, to.tasks
    group_index, free, next_unused = to.group_index, to.free, to.next_unused
    task_index, free_tasks, next_task = to.task_index, to.free_tasks, to.next_task
    application, container, event, am = given.application, given.container, given.event, given.am
    priority, capability, exit_status = given.priority, given.capability, given.exit_status
    time_ms, created_ms, node = given.time_ms, given.created_ms, given.node
    for i in range(len(container)):
        app = application[i]
        if app < 0 or am[i] or apps[app].state == GONE:
            continue
        key = task_key(app, container[i])
        if event[i] != COMPLETED:
            task = find(task_index, key)
            if task >= 0 and event[i] == RESIZED:
                resize_task(groups, amounts, tasks, capability, i, task)
            if task < 0:
                group = group_of(apps, groups, amounts, group_index, free, next_unused, app, priority[i])
                task = take_from(free_tasks, next_task)
                put(task_index, key, task)
                tasks[task].key = key
                tasks[task].node = node[i]
                begin_task(groups, amounts, tasks, capability, i, task, group, created_ms[i])
                note_begin(effects, i, group, task)
            continue
        group = group_of(apps, groups, amounts, group_index, free, next_unused, app, priority[i])
        task = remove(task_index, key)
        duration_ms = max(time_ms[i] - created_ms[i], 0)
        note_end(effects, i, group, task, tasks, duration_ms, exit_status[i])
        if task >= 0:
            end_task(groups, amounts, tasks, task)
            give_back(free_tasks, task)
        if ended_well(apps, app, exit_status[i], mapreduce):
            groups[group].ended += 1
            groups[group].ended_ms += duration_ms


@kernel
def drop_groups(to: TaskArrays, app: int) -> None:
    """Drop an application's tasks."""
    apps, groups, tasks = to.apps, to.groups, to.tasks
    group = apps[app].first_group
    while group >= 0:
        task = groups[group].first
        while task >= 0:
            remove(to.task_index, tasks[task].key)
            give_back(to.free_tasks, task)
            task = tasks[task].next
        remove(to.group_index, group_key(app, groups[group].priority))
        groups[group].application = -1
        give_back(to.free, group)
        group = groups[group].next
    apps[app].first_group = -1
    apps[app].groups = 0


GROUP: Final = np.dtype(
    [
        ("created_ms", "i8"),  # sum over the running tasks
        ("ended_ms", "i8"),  # sum of the durations of successful tasks
        ("application", "i4"),  # -1: a free row
        ("priority", "i4"),
        ("running", "i4"),
        ("ended", "i4"),  # number of successful tasks
        ("first", "i4"),  # a running task, or -1
        ("next", "i4"),  # the application's next group
        ("covered", "u1"),  # scratch of the work sums: whether a hint covers its running tasks
    ],
    align=True,
)

TASK: Final = np.dtype(
    [
        ("key", "i8"),  # application and container
        ("created_ms", "i8"),
        ("input_bytes", "f8"),  # 0: unknown
        ("group", "i4"),
        ("next", "i4"),
        ("before", "i4"),
        ("node", "i4"),
    ],
    align=True,
)

EFFECT: Final = np.dtype(
    [
        ("duration_ms", "i8"),  # of an ended one
        ("input_bytes", "f8"),  # input bytes; 0: unknown
        ("group", "i4"),
        ("task", "i4"),  # its row, possibly reused by the time of reading; -1: it was not known to run
        ("exit_status", "i4"),  # of an ended one
        ("did", "u1"),  # `NOTHING`, `BEGAN`, `ENDED`
    ],
    align=True,
)
"""The effect of a container event, for observers that keep task data outside the model."""

MANY: Final = 4096
"""Above this number of events it pays to count the distinct groups first."""


class GroupTable(RowTable):
    """Task groups, found by ``index.find(application, priority)``. The amounts are the sums over running tasks."""

    def __init__(self, resources: int) -> None:
        super().__init__(GROUP, (resources,), {"application": -1})
        self.tasks = RowTable(TASK)
        """The running tasks, found by `find_task`."""
        self.notes_effects = False
        """Whether `effects` is written."""
        self.effects: Records = np.zeros(0, EFFECT)
        """The effect of each row of the latest `events.Containers`, if written."""
        self.has_inputs = False
        """Whether the input size of any task is known."""

    def apply(self, event: events.Containers, apps: ApplicationTable, mapreduce: int) -> None:
        """Apply container events in order; those of ended applications are ignored.

        ``mapreduce`` is the name index of the application type with special exit statuses, -1 for none.
        """
        more = len(event.application)
        apps.cover(np.maximum(event.application, 0), "application")
        groups = more
        if more > MANY:
            groups = _most_groups((event.application.astype(np.int64) << 32) | (event.priority & 0x7FFFFFFF))
        self.make_room(groups)
        self.tasks.make_room(more)
        self.effects = np.zeros(more if self.notes_effects else 0, EFFECT)
        columns = {name: own(getattr(event, name)) for name in ContainerEvents._fields}
        apply_containers(self._arrays(apps), ContainerEvents(**columns), mapreduce, self.effects)
        self.size = int(self.next_unused[0])

    def _arrays(self, apps: ApplicationTable) -> TaskArrays:
        return TaskArrays(
            apps=apps.at,
            groups=self.at,
            amounts=self.amounts,
            group_index=self.index.pairs,
            free=self.free,
            next_unused=self.next_unused,
            tasks=self.tasks.at,
            task_index=self.tasks.index.pairs,
            free_tasks=self.tasks.free,
            next_task=self.tasks.next_unused,
        )

    def apply_inputs(self, event: events.TaskInputs) -> None:
        """Apply the input sizes of tasks, in bytes; containers that are not running are ignored.

        Raises:
            ModelError: an input that is negative or not finite.
        """
        largest(event.application, "application")
        if not bool((np.isfinite(event.bytes) & (event.bytes >= 0.0)).all()):
            raise ModelError("TaskInputs.bytes must not be negative")
        rows = zip(event.application.tolist(), event.container.tolist(), event.bytes.tolist(), strict=True)
        for application, container, size in rows:
            task = int(find_task(self.tasks.index.pairs, application, container))
            if task >= 0:
                self.tasks.at["input_bytes"][task] = size
                self.has_inputs = True

    def running(self, application: int, apps: ApplicationTable) -> Iterator[tuple[int, int]]:
        """Yield group and task of each running container of an application, except its AM."""
        for group in chain(self.at, apps.at["first_group"][application]):
            for task in chain(self.tasks.at, self.at["first"][group]):
                yield group, task

    def drop(self, application: int, apps: ApplicationTable) -> None:
        """Drop the tasks of an application."""
        drop_groups(self._arrays(apps), application)


def _most_groups(keys: I64) -> int:
    """Return an upper bound of the number of distinct keys, close if equal keys are mostly adjacent.

    A snapshot lists containers by application, so sorting them would be a waste.
    """
    runs = 1 + int(np.count_nonzero(keys[1:] != keys[:-1]))
    return runs if runs <= len(keys) // 4 else len(np.unique(keys))
