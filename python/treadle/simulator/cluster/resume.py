"""A simulation that begins in the middle: what ran, waited and was asked for at an instant, put into the tables."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.simulator import inner, kernel
from treadle.simulator.cluster.applications import activate, put_off, registered, wake
from treadle.simulator.cluster.containers import allocate
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import (
    CONTAINERS_EVER,
    FINISHED,
    ITSELF,
    NOW,
    TASKS_DONE,
    AppState,
    ContainerState,
    EventKind,
    RowKind,
    TaskState,
    set_count,
    show_app,
)
from treadle.simulator.cluster.tasks import dequeue, release, task_done

if TYPE_CHECKING:
    from treadle.compiled.array_types import Records
    from treadle.simulator.cluster.state import SimulationParameters, State


class Put(IntEnum):
    """What a step puts into the tables."""

    ENDED = 0
    """An application that ended before, at ``end_ms``."""
    WAITS = 1
    """An application that is not activated yet."""
    ASKS_MASTER = 2
    """An application that is activated, and asks for its master."""
    MASTER = 3
    """The container of its master, on ``node`` since ``created_ms``; registers at ``end_ms``, -1: it has."""
    REGISTERED = 4
    """Its master has registered, at ``begin_ms``."""
    DONE = 5
    """A task that was done: in its container from ``created_ms``, from ``begin_ms`` to ``end_ms``."""
    RUNS = 6
    """A task in its container on ``node`` since ``created_ms``: it began, or would if its input were there."""
    ASKS = 7
    """A row asks for ``count`` containers."""
    GOES_ON = 8
    """Its master talks to the RM from now on."""
    USED = 9
    """A row had a container for ``end_ms - created_ms``, of which nothing else is known."""


STEP: Final = np.dtype(
    [
        ("created_ms", "i8"),
        ("begin_ms", "i8"),
        ("end_ms", "i8"),
        ("what", "i4"),
        ("app", "i4"),
        ("row", "i4"),
        ("task", "i4"),
        ("node", "i4"),
        ("count", "i4"),
    ],
    align=True,
)


@inner
def used(state: State, row: int, elapsed_ms: int) -> None:
    """Count the time that a container of a row was there into what its queues have used."""
    queue = state.apps[state.rows[row].app].queue
    while queue >= 0:
        for r in range(len(state.counted)):
            state.queue_integral[queue, r] += float(state.capability[row, r]) * elapsed_ms
        queue = state.queues[queue].parent


@inner
def place(state: State, row: int, node: int, created_ms: int) -> int:
    """Make a container that has been there since an instant; return it."""
    container = allocate(state, row, node)
    state.containers[container].created_ms = created_ms
    state.containers[container].state = ContainerState.HELD
    used(state, row, state.clock[NOW] - created_ms)
    return container


@inner
def put_master(state: State, app: int, node: int, created_ms: int, registers_ms: int) -> None:
    """Give an application its master's container."""
    row = state.apps[app].first_row
    set_count(state, row, 0)
    state.apps[app].awaiting_am = 0
    state.apps[app].master = place(state, row, node, created_ms)
    show_app(state, app, ITSELF)
    if registers_ms >= 0:
        schedule(state, max(registers_ms, state.clock[NOW]), EventKind.AM_STARTED, app, 0)


@inner
def put_registered(state: State, parameters: SimulationParameters, app: int, time_ms: int) -> None:
    """Let an application's master have registered."""
    first = state.apps[app].first_row
    if state.apps[app].rows > 0 and state.rows[first].kind == RowKind.MASTER:
        set_count(state, first, 0)  # of one that was there before the recording its container is not known
    state.apps[app].awaiting_am = 0
    registered(state, parameters, app)
    state.apps[app].phase_ms = time_ms
    show_app(state, app, ITSELF)


@inner
def take(state: State, task: int, begin_ms: int, node: int) -> int:
    """Take a task out of those that wait, as one that has begun; return its row."""
    row = state.tasks[task].row
    if not state.rows[row].released:
        release(state, row)
    dequeue(state, row, task)
    state.rows[row].held += 1
    state.tasks[task].state = TaskState.RUNNING
    state.tasks[task].begin_ms = begin_ms
    state.tasks[task].node = node
    app = state.rows[row].app
    if state.apps[app].started_ms < 0 or begin_ms < state.apps[app].started_ms:
        state.apps[app].started_ms = begin_ms
    if state.rows[row].began_ms < 0 or begin_ms < state.rows[row].began_ms:
        state.rows[row].began_ms = begin_ms
    return row


@inner
def put_done(state: State, parameters: SimulationParameters, task: int, node: int, begin_ms: int, end_ms: int) -> int:
    """Let a task be done; return its row."""
    row = take(state, task, begin_ms, node)
    app = state.rows[row].app
    state.clock[TASKS_DONE] += 1
    state.clock[CONTAINERS_EVER] += 1
    state.apps[app].containers_ever += 1
    task_done(state, parameters, task)
    state.tasks[task].end_ms = end_ms
    state.rows[row].ended_ms -= state.clock[NOW] - end_ms
    return row


@inner
def put_running(
    state: State, parameters: SimulationParameters, task: int, node: int, created_ms: int, begin_ms: int
) -> None:
    """Let a task be in its container; it ends when it would have, or waits there for the stages before its own."""
    row = take(state, task, begin_ms, node)
    container = place(state, row, node, created_ms)
    state.tasks[task].container = container
    state.containers[container].task = task
    state.containers[container].ready_ms = begin_ms
    if state.rows[row].blockers > 0:
        state.tasks[task].state = TaskState.EARLY
        state.rows[row].early += 1
        return
    end_ms = max(begin_ms + state.tasks[task].duration_ms, state.clock[NOW] + 1)
    schedule(state, end_ms, EventKind.TASK_ENDS, task, state.tasks[task].attempt)


@inner
def put_ended(state: State, app: int, end_ms: int) -> None:
    """Mark an application as ended: no engine ever hears of it."""
    state.apps[app].state = AppState.FINISHED
    state.apps[app].stages_left = 0
    state.apps[app].finish_ms = end_ms
    state.clock[FINISHED] += 1


@inner
def ask(state: State, row: int, count: int) -> None:
    """Let a row ask for containers, at most for as many as it has tasks that wait."""
    if not state.rows[row].released:
        release(state, row)
    set_count(state, row, min(count, state.rows[row].waiting))


@kernel
def resume(state: State, parameters: SimulationParameters, steps: Records) -> None:
    """Put what was at an instant, which is now, into the tables: stages before those that wait for them."""
    for i in range(len(steps)):
        step = steps[i]
        what, app, row = step.what, step.app, step.row
        if what == Put.ENDED:
            put_ended(state, app, step.end_ms)
        elif what == Put.WAITS:
            show_app(state, app, ITSELF)
            put_off(state, app)
        elif what == Put.ASKS_MASTER:
            show_app(state, app, ITSELF)
            activate(state, parameters, app)
        elif what == Put.MASTER:
            put_master(state, app, step.node, step.created_ms, step.end_ms)
        elif what == Put.REGISTERED:
            put_registered(state, parameters, app, step.begin_ms)
        elif what == Put.DONE:
            row = put_done(state, parameters, step.task, step.node, step.begin_ms, step.end_ms)
            used(state, row, step.end_ms - step.created_ms)
        elif what == Put.RUNS:
            put_running(state, parameters, step.task, step.node, step.created_ms, step.begin_ms)
        elif what == Put.ASKS:
            ask(state, row, step.count)
        elif what == Put.GOES_ON:
            wake(state, parameters, app, state.clock[NOW])
        else:
            used(state, row, step.end_ms - step.created_ms)
