"""What happens: the loop over events, and what each kind does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.simulator import inner, kernel
from treadle.simulator.cluster.application_masters import (
    container_is_through,
    executor_ready,
    fill_executor,
    fill_executors,
    wake,
)
from treadle.simulator.cluster.applications import arrive, finish, heartbeat, started
from treadle.simulator.cluster.containers import FAILED, changed, reported
from treadle.simulator.cluster.event_queue import is_due, pop
from treadle.simulator.cluster.nodes import fail_node, lose_node, return_node, schedule_failure
from treadle.simulator.cluster.state import (
    HANDLED,
    NOW,
    TASKS_DONE,
    TASKS_FAILED,
    AppState,
    EventKind,
    FrameworkCode,
    TaskState,
)
from treadle.simulator.cluster.tasks import fails, stop_task, task_done
from treadle.yarn.codes import SUCCESS

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import SimulationParameters, State


@inner
def task_ends(state: State, parameters: SimulationParameters, task: int, attempt: int) -> None:
    """A task is over, well or not."""
    if state.tasks[task].state != TaskState.RUNNING or state.tasks[task].attempt != attempt:
        return  # killed or lost meanwhile
    app = state.rows[state.tasks[task].row].app
    if state.apps[app].state == AppState.FINISHED:
        return
    container = state.tasks[task].container
    failed = fails(parameters, task, attempt)
    spark = state.apps[app].framework == FrameworkCode.SPARK
    more = False
    if failed:
        state.clock[TASKS_FAILED] += 1
        state.tasks[task].failures += 1
        if state.tasks[task].failures >= parameters.attempts_max:
            finish(state, parameters, app, True)
            return
        stop_task(state, task, state.rows[state.tasks[task].row].retries)
    else:
        state.clock[TASKS_DONE] += 1
        more = task_done(state, parameters, task)
    if spark:
        state.containers[container].busy -= 1
        state.apps[app].busy -= 1
        fill_executor(state, parameters, container)
        if more:
            fill_executors(state, parameters, app)
    else:
        container_is_through(state, parameters, container, FAILED if failed else SUCCESS)
    if state.apps[app].state == AppState.RUNNING:
        wake(state, parameters, app, state.clock[NOW])


@inner
def happen(state: State, parameters: SimulationParameters, kind: int, subject: int, stamp: int) -> None:
    """Let one event happen."""
    if kind == EventKind.TASK_ENDS:
        task_ends(state, parameters, subject, stamp)
    elif kind == EventKind.CONTAINER_REPORTED:
        reported(state, subject, stamp)
    elif kind == EventKind.AM_HEARTBEAT:
        heartbeat(state, parameters, subject)
    elif kind == EventKind.EXECUTOR_READY:
        executor_ready(state, parameters, subject, stamp)
    elif kind == EventKind.JOB_ARRIVES:
        arrive(state, parameters, subject)
    elif kind == EventKind.AM_STARTED:
        started(state, parameters, subject)
    elif kind == EventKind.NODE_CHANGES:
        changed(state, subject)
    elif kind == EventKind.NODE_FAILS:
        fail_node(state, parameters, subject)
    elif kind == EventKind.NODE_LOST:
        lose_node(state, parameters, subject, stamp)
    else:
        return_node(state, parameters, subject)


@kernel
def advance(state: State, parameters: SimulationParameters, until_ms: int) -> None:
    """Let everything happen up to and at an instant; it is now afterwards."""
    while is_due(state, until_ms):
        event = state.events[pop(state)]
        kind, subject, stamp = event.kind, event.subject, event.stamp
        state.clock[NOW] = event.time_ms
        state.clock[HANDLED] += 1
        happen(state, parameters, kind, subject, stamp)
    state.clock[NOW] = until_ms


@kernel
def begin(state: State, parameters: SimulationParameters) -> None:
    """Schedule each node's first failure."""
    for node in range(len(state.nodes)):
        schedule_failure(state, parameters, node)
