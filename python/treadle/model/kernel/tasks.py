"""Compiled bookkeeping of tasks that run and have run."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.model.kernel.compiled import inner, kernel
from treadle.model.kernel.pairs import find, pair, put, remove
from treadle.model.kernel.told import take_from
from treadle.model.types import I32, I64, U8, Records

COMPLETED: Final = 3
GONE: Final = 0
SUCCESS: Final = 0
KILLED_BY_AM: Final = -105
"""YARN's exit status of a container that its application gave back."""


@inner
def group_key(app: int, priority: int) -> int:
    """Return the key of an application's priority, which may be negative."""
    return pair(app, priority & 0x7FFFFFFF)


@inner
def task_key(app: int, container: int) -> int:
    """Return the key of a container: 22 bits of its application, 40 of its number, mixed with the RM's epoch."""
    epoch = np.uint64(container >> 40) * np.uint64(0x9E3779B97F4A7C15)
    number = np.uint64((np.int64(app) << 40) | (np.int64(container) & 0xFFFFFFFFFF))
    return int(np.int64((number + epoch) & np.uint64(0x3FFFFFFFFFFFFFFF)))


@inner
def group_of(
    apps: Records, groups: Records, amounts: I64, index: Records, free: I32, next_unused: I64, app: int, priority: int
) -> int:
    """Return the group of an application's tasks of a priority, a new one if there is none."""
    group = find(index, group_key(app, priority))
    if group >= 0:
        return group
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
    """Count a task, that has what is in row ``i`` of ``capability``, among those that run."""
    tasks[task].group = group
    tasks[task].created_ms = created_ms
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
    """Count a task, that has had as much as the others of its group, among those that run no longer."""
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


@kernel
def apply_containers(
    apps: Records,
    groups: Records,
    amounts: I64,
    index: Records,
    free: I32,
    next_unused: I64,
    tasks: Records,
    task_index: Records,
    free_tasks: I32,
    next_task: I64,
    container: I64,
    application: I32,
    priority: I32,
    event: U8,
    time_ms: I64,
    created_ms: I64,
    exit_status: I32,
    am: U8,
    capability: I64,
) -> None:
    """Take steps in the lives of containers, in order."""
    for i in range(len(container)):
        app = application[i]
        if app < 0 or am[i] or apps[app].state == GONE:
            continue
        key = task_key(app, container[i])
        if event[i] != COMPLETED:
            if find(task_index, key) < 0:
                group = group_of(apps, groups, amounts, index, free, next_unused, app, priority[i])
                task = take_from(free_tasks, next_task)
                put(task_index, key, task)
                tasks[task].key = key
                begin_task(groups, amounts, tasks, capability, i, task, group, created_ms[i])
            continue
        group = group_of(apps, groups, amounts, index, free, next_unused, app, priority[i])
        task = remove(task_index, key)
        if task >= 0:
            end_task(groups, amounts, tasks, task)
            free_tasks[0] += 1
            free_tasks[free_tasks[0]] = task
        if exit_status[i] == SUCCESS or exit_status[i] == KILLED_BY_AM:
            groups[group].ended += 1
            groups[group].ended_ms += max(time_ms[i] - created_ms[i], 0)


@kernel
def drop_groups(
    apps: Records,
    app: int,
    groups: Records,
    index: Records,
    free: I32,
    tasks: Records,
    task_index: Records,
    free_tasks: I32,
) -> None:
    """Forget an application's tasks."""
    group = apps[app].first_group
    while group >= 0:
        task = groups[group].first
        while task >= 0:
            remove(task_index, tasks[task].key)
            free_tasks[0] += 1
            free_tasks[free_tasks[0]] = task
            task = tasks[task].next
        remove(index, group_key(app, groups[group].priority))
        groups[group].application = -1
        free[0] += 1
        free[free[0]] = group
        group = groups[group].next
    apps[app].first_group = -1
