"""Applications from submission to the end, in the RM: activation within the limit of application masters, removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.simulator import inner
from treadle.simulator.cluster.application_masters import (
    POLL_MS,
    ask_for_executors,
    ask_for_tasks,
    make_room,
    receive,
    wake,
)
from treadle.simulator.cluster.containers import free_container
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import FINISHED, NOW, AppState, EventKind, FrameworkCode, RowKind
from treadle.simulator.cluster.tasks import release
from treadle.simulator.cluster.usage import ITSELF, set_count, show_app, show_queue
from treadle.yarn.codes import ABORTED, SUCCESS

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import SimulationParameters, State


@inner
def has_master(state: State, app: int) -> bool:
    """Say whether the application's master runs in a container; it does unless the scenario says otherwise."""
    return state.apps[app].rows > 0 and state.rows[state.apps[app].first_row].kind == RowKind.MASTER


@inner
def may_activate(state: State, app: int) -> bool:
    """Say whether the limit of the queue's application masters lets one more in; the first one always may."""
    queue = state.apps[app].queue
    if state.queues[queue].active == 0 or not has_master(state, app):
        return True
    for r in range(len(state.counted)):
        after = state.queue_am_used[queue, r] + state.capability[state.apps[app].first_row, r]
        if state.counted[r] and after > state.queue_am_limit[queue, r]:
            return False
    return True


@inner
def activate(state: State, parameters: SimulationParameters, app: int) -> None:
    """Let an application ask for its master."""
    queue = state.apps[app].queue
    state.queues[queue].active += 1
    show_queue(state, queue)
    state.apps[app].state = AppState.STARTING
    show_app(state, app, ITSELF)
    if has_master(state, app):
        row = state.apps[app].first_row
        for r in range(len(state.counted)):
            state.queue_am_used[queue, r] += state.capability[row, r]
        state.apps[app].awaiting_am = 1
        set_count(state, row, 1)
    else:
        schedule(state, state.clock[NOW], EventKind.AM_STARTED, app, 0)


@inner
def arrive(state: State, parameters: SimulationParameters, app: int) -> None:
    """An application is submitted."""
    show_app(state, app, ITSELF)
    queue = state.apps[app].queue
    if state.queues[queue].first_pending < 0 and may_activate(state, app):
        activate(state, parameters, app)
    else:
        put_off(state, app)


@inner
def put_off(state: State, app: int) -> None:
    """Let an application wait until the limit of application masters lets it in."""
    queue = state.apps[app].queue
    state.apps[app].state = AppState.PENDING
    if state.queues[queue].first_pending < 0:
        state.queues[queue].first_pending = app
    else:
        state.apps[state.queues[queue].last_pending].next_pending = app
    state.queues[queue].last_pending = app


@inner
def finish(state: State, parameters: SimulationParameters, app: int, failed: bool) -> None:
    """An application unregisters, or fails: all it has is free, and others may be activated."""
    state.apps[app].state = AppState.FINISHED
    state.apps[app].failed = failed
    state.apps[app].finish_ms = state.clock[NOW]
    state.apps[app].awaiting_am = 0
    state.clock[FINISHED] += 1
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        set_count(state, row, 0)
    while state.apps[app].first_container >= 0:
        container = state.apps[app].first_container
        free_container(state, container, SUCCESS if container == state.apps[app].master else ABORTED)
    state.apps[app].new_head = state.apps[app].new_tail = state.apps[app].master = -1
    show_app(state, app, ITSELF)
    queue = state.apps[app].queue
    state.queues[queue].active -= 1
    show_queue(state, queue)
    if has_master(state, app):
        for r in range(len(state.counted)):
            state.queue_am_used[queue, r] -= state.capability[first, r]
    while state.queues[queue].first_pending >= 0 and may_activate(state, state.queues[queue].first_pending):
        following = state.queues[queue].first_pending
        state.queues[queue].first_pending = state.apps[following].next_pending
        activate(state, parameters, following)


@inner
def started(state: State, parameters: SimulationParameters, app: int) -> None:
    """An application master registers."""
    if state.apps[app].state == AppState.STARTING:
        registered(state, parameters, app)
        wake(state, parameters, app, state.clock[NOW])


@inner
def registered(state: State, parameters: SimulationParameters, app: int) -> None:
    """Let an application run: the tasks of stages that wait for none may be asked for."""
    state.apps[app].state = AppState.RUNNING
    now = state.clock[NOW]
    state.apps[app].phase_ms = now
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        stage = state.rows[row].kind == RowKind.TASKS or state.rows[row].kind == RowKind.INSIDE
        if stage and state.rows[row].blockers == 0 and not state.rows[row].released:
            release(state, row)
    if state.apps[app].framework == FrameworkCode.SPARK and state.apps[app].target < 0:
        state.apps[app].target = min(parameters.spark_initial, parameters.spark_max)
        state.apps[app].step = 1
        state.apps[app].grow_ms = now


@inner
def heartbeat(state: State, parameters: SimulationParameters, app: int) -> None:
    """An application master talks to the RM."""
    if state.apps[app].beat_ms != state.clock[NOW]:
        return  # an earlier one was scheduled meanwhile
    state.apps[app].beat_ms = -1
    if state.apps[app].state != AppState.RUNNING:
        return
    receive(state, parameters, app)
    if state.apps[app].stages_left == 0:
        finish(state, parameters, app, False)
        return
    now = state.clock[NOW]
    if state.apps[app].framework == FrameworkCode.SPARK:
        first = state.apps[app].first_row
        for row in range(first, first + state.apps[app].rows):
            if state.rows[row].kind == RowKind.EXECUTORS:
                again = ask_for_executors(state, parameters, app, row)
                if again >= 0:
                    wake(state, parameters, app, max(again, now + 1))
        return
    poll = ask_for_tasks(state, parameters, app)
    if make_room(state, parameters, app):
        poll = True
    if poll:
        wake(state, parameters, app, now + POLL_MS)
