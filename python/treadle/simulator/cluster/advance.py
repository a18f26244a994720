"""Events of the simulated RM: the event loop, and the commit of proposals.

A proposal is checked against the current state, then allocated or rejected with the reason. A simulation that starts in
the middle first puts the containers, applications and requests of that time into its tables.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.simulator import inner, kernel
from treadle.events import ContainerEvent, Fate, NodeState
from treadle.simulator.cluster.applications import (
    activate,
    arrive,
    container_is_through,
    executor_ready,
    fill_executor,
    fill_executors,
    finish,
    has_master,
    heartbeat,
    may_go,
    put_off,
    registered,
    started,
    wake,
)
from treadle.simulator.cluster.containers import (
    FAILED,
    NODE_DOWN,
    NODE_UP,
    allocate,
    changed,
    dequeue,
    exponential,
    fails,
    free_container,
    log_step,
    release,
    reported,
    stop_task,
    take_places,
    task_done,
)
from treadle.simulator.cluster.tables import (
    CONTAINERS_EVER,
    FINISHED,
    HANDLED,
    ITSELF,
    NOW,
    TASKS_DONE,
    TASKS_FAILED,
    TASKS_LOST,
    AppState,
    ContainerState,
    EventKind,
    FrameworkCode,
    RowKind,
    TaskState,
    fits_queues,
    is_due,
    pop,
    schedule,
    set_count,
    show_app,
    show_node,
)
from treadle.yarn.codes import ABORTED, SUCCESS

if TYPE_CHECKING:
    from treadle.compiled.array_types import I32, I64, U8, Records
    from treadle.simulator.cluster.tables import SimulationParameters, State


@inner
def schedule_failure(state: State, parameters: SimulationParameters, node: int) -> None:
    """Schedule a node's next failure, unless it is beyond the end of the simulation."""
    if parameters.node_mtbf_ms <= 0.0:
        return
    up_ms = exponential(parameters.node_mtbf_ms, parameters.seed, NODE_UP, node, state.nodes[node].failures)
    at_ms = float(state.clock[NOW]) + up_ms
    if at_ms < float(parameters.horizon_ms):
        # at least a millisecond later, so that time advances however often nodes fail
        schedule(state, max(int(at_ms), state.clock[NOW] + 1), EventKind.NODE_FAILS, node, 0)


@inner
def fail_node(state: State, parameters: SimulationParameters, node: int) -> None:
    """Stop a node: its containers are lost at once, which the RM notices later; it places nothing there meanwhile."""
    state.nodes[node].down = 1
    state.nodes[node].state = NodeState.UNUSABLE
    show_node(state, node)
    container = state.nodes[node].first_container
    while container >= 0:
        stop_tasks_in(state, container, False)
        container = state.containers[container].node_next
    turn = state.nodes[node].failures
    state.nodes[node].failures += 1
    down_ms = int(exponential(parameters.node_repair_ms, parameters.seed, NODE_DOWN, node, turn))
    schedule(state, state.clock[NOW] + down_ms, EventKind.NODE_RETURNS, node, 0)
    schedule(state, state.clock[NOW] + parameters.node_detection_ms, EventKind.NODE_LOST, node, turn)


@inner
def stop_tasks_in(state: State, container: int, again: bool) -> None:
    """Cancel the scheduled ends of the tasks in a container; with ``again`` they wait for another one."""
    held = state.containers[container]
    if held.state != ContainerState.HELD or state.rows[held.row].kind == RowKind.MASTER:
        return
    if state.rows[held.row].kind != RowKind.EXECUTORS:
        if held.task >= 0:
            stop_one(state, held.task, again)
        return
    app, stopped = held.app, 0
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        if state.rows[row].kind == RowKind.INSIDE and state.rows[row].held > 0:
            begin = state.rows[row].first_task
            for task in range(begin, begin + state.rows[row].tasks):
                if state.tasks[task].container == container and state.tasks[task].state == TaskState.RUNNING:
                    stop_one(state, task, again)
                    stopped += 1
    if again:
        state.apps[app].busy -= stopped
    held.slots = 0


@inner
def stop_one(state: State, task: int, again: bool) -> None:
    """Cancel a task's scheduled end, or let it wait for another container."""
    if not again:
        state.tasks[task].attempt += 1
        return
    stage = state.tasks[task].row
    early = state.tasks[task].state == TaskState.EARLY
    stop_task(state, task, stage if early else state.rows[stage].retries)
    state.clock[TASKS_LOST] += 1


@inner
def lose_containers(state: State, parameters: SimulationParameters, node: int) -> None:
    """Mark all containers of a node as lost in the RM, and report that to their application masters."""
    while state.nodes[node].first_container >= 0:
        container = state.nodes[node].first_container
        held = state.containers[container]
        app = held.app
        stop_tasks_in(state, container, True)
        if held.state == ContainerState.NEW:
            forget_new(state, app, container)
        if state.rows[held.row].kind == RowKind.EXECUTORS and held.state != ContainerState.ENDING:
            state.apps[app].executors -= 1
        free_container(state, container, ABORTED)
        if container == state.apps[app].master:
            state.apps[app].master = -1
            if has_master(state, app) and state.apps[app].state != AppState.FINISHED:
                state.apps[app].state = AppState.STARTING
                state.apps[app].awaiting_am = 1
                show_app(state, app, ITSELF)
                set_count(state, state.apps[app].first_row, 1)
        elif state.apps[app].state == AppState.RUNNING:
            wake(state, parameters, app, state.clock[NOW])


@inner
def forget_new(state: State, app: int, container: int) -> None:
    """Remove a container from the list of those that its application master does not know yet."""
    at, before = state.apps[app].new_head, -1
    while at >= 0 and at != container:
        before = at
        at = state.containers[at].next
    if at < 0:
        return
    following = state.containers[at].next
    if before >= 0:
        state.containers[before].next = following
    else:
        state.apps[app].new_head = following
    if state.apps[app].new_tail == at:
        state.apps[app].new_tail = before


@inner
def lose_node(state: State, parameters: SimulationParameters, node: int, turn: int) -> None:
    """Mark a node as lost that has been silent for too long."""
    if state.nodes[node].down and state.nodes[node].failures == turn + 1:
        lose_containers(state, parameters, node)
        state.nodes[node].state = NodeState.GONE
        show_node(state, node)


@inner
def return_node(state: State, parameters: SimulationParameters, node: int) -> None:
    """Return a node to service, without containers."""
    lose_containers(state, parameters, node)
    state.nodes[node].down = 0
    state.nodes[node].state = NodeState.USABLE
    show_node(state, node)
    schedule_failure(state, parameters, node)


@inner
def task_ends(state: State, parameters: SimulationParameters, task: int, attempt: int) -> None:
    """End a task, successfully or not."""
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
def handle_event(state: State, parameters: SimulationParameters, kind: int, subject: int, stamp: int) -> None:
    """Process one event."""
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
    """Process all events up to and including a time, which becomes the current time."""
    while is_due(state, until_ms):
        event = state.events[pop(state)]
        kind, subject, stamp = event.kind, event.subject, event.stamp
        state.clock[NOW] = event.time_ms
        state.clock[HANDLED] += 1
        handle_event(state, parameters, kind, subject, stamp)
    state.clock[NOW] = until_ms


@kernel
def begin(state: State, parameters: SimulationParameters) -> None:
    """Schedule each node's first failure."""
    for node in range(len(state.nodes)):
        schedule_failure(state, parameters, node)


@inner
def why_not(state: State, app: int, key: int, node: int) -> int:
    """Return the fate of a proposal, `Fate.COMMITTED` if there is no reason against it."""
    if app < 0 or key < 0 or node < 0:
        return Fate.NEGATIVE
    if app >= len(state.apps) or node >= len(state.nodes) or state.apps[app].state == AppState.AHEAD:
        return Fate.OUT_OF_RANGE
    if state.apps[app].state == AppState.FINISHED:
        return Fate.UNKNOWN_APPLICATION
    if state.apps[app].state == AppState.PENDING:
        return Fate.INACTIVE_APPLICATION
    if key >= state.apps[app].rows:
        return Fate.UNKNOWN_REQUEST
    return why_not_here(state, state.apps[app].first_row + key, node)


@inner
def why_not_here(state: State, row: int, node: int) -> int:
    """Return the fate of a proposal for a row of an active application on a node."""
    if state.rows[row].count <= 0:
        return Fate.NO_PENDING_ASK
    if state.nodes[node].state == NodeState.GONE:
        return Fate.UNKNOWN_NODE
    if state.nodes[node].state != NodeState.USABLE:
        return Fate.NODE_STALE
    if not may_go(state, row, node):
        return Fate.CONSTRAINT
    for r in range(len(state.counted)):
        if state.counted[r] and state.capability[row, r] > state.node_free[node, r]:
            return Fate.NODE_FULL
    if not fits_queues(state, row):
        return Fate.QUEUE_MAXIMUM
    return Fate.COMMITTED


@inner
def commit_one(state: State, parameters: SimulationParameters, row: int, node: int) -> int:
    """Allocate a container; return its number."""
    app = state.rows[row].app
    set_count(state, row, state.rows[row].count - 1)
    take_places(state, row, node)
    container = allocate(state, row, node)
    if state.rows[row].kind == RowKind.MASTER:
        state.containers[container].state = ContainerState.HELD
        state.apps[app].master = container
        state.apps[app].awaiting_am = 0
        show_app(state, app, ITSELF)
        log_step(state, container, ContainerEvent.LAUNCHED, 0)
        schedule(state, state.clock[NOW] + parameters.master_start_ms, EventKind.AM_STARTED, app, 0)
        return state.containers[container].number
    if state.rows[row].kind == RowKind.EXECUTORS:
        state.apps[app].executors += 1
    if state.apps[app].new_tail >= 0:
        state.containers[state.apps[app].new_tail].next = container
    else:
        state.apps[app].new_head = container
    state.apps[app].new_tail = container
    if state.apps[app].state == AppState.RUNNING:
        wake(state, parameters, app, state.clock[NOW])
    return state.containers[container].number


@kernel
def commit(
    state: State, parameters: SimulationParameters, application: I32, key: I32, node: I32, fates: U8, numbers: I64
) -> int:
    """Commit the valid proposals of an answer in order, and set the fates; return the number of commits."""
    committed = 0
    for i in range(len(application)):
        fate = why_not(state, application[i], key[i], node[i])
        fates[i] = fate
        numbers[i] = 0
        if fate == Fate.COMMITTED:
            row = state.apps[application[i]].first_row + key[i]
            numbers[i] = commit_one(state, parameters, row, node[i])
            committed += 1
    return committed


OVER_CLAIM: Final = 254
"""Placeholder of a fate: the row exceeds the engine's limit of the cluster."""

TO_JUDGE: Final = 255
"""Placeholder of a fate: no reason against the row yet."""


@inner
def judge(state: State, app: int, key: int, node: int, changed: int, room: I64) -> int:
    """Return the fate of a row; ``room`` is the rest of its engine's limit."""
    fate = why_not(state, app, key, node)
    if fate == Fate.NODE_FULL and changed:
        return Fate.CHANGED
    if fate != Fate.COMMITTED:
        return fate
    row = state.apps[app].first_row + key
    for r in range(len(state.counted)):
        if state.counted[r] and state.capability[row, r] > room[r]:
            return OVER_CLAIM
    return Fate.COMMITTED


@inner
def apply_tentatively(state: State, row: int, node: int, room: I64, sign: int) -> None:
    """Allocate the resources of a row's container (1), or release them (-1), without reporting it."""
    state.rows[row].count -= sign
    queue = state.apps[state.rows[row].app].queue
    for r in range(len(state.counted)):
        amount = sign * state.capability[row, r]
        state.node_free[node, r] -= amount
        room[r] -= amount
    while queue >= 0:
        for r in range(len(state.counted)):
            state.queue_used[queue, r] += sign * state.capability[row, r]
        queue = state.queues[queue].parent


@inner
def judge_all(state: State, rows: tuple[I32, I32, I32], changed: U8, first: int, end: int, room: I64, fates: U8) -> int:
    """Judge the rows of a transaction in order; return how many cannot be committed.

    An atomic transaction with such a row is not committed at all.
    """
    application, key, node = rows
    refused = 0
    for i in range(first, end):
        if fates[i] == TO_JUDGE:
            fates[i] = judge(state, application[i], key[i], node[i], changed[i], room)
        if fates[i] == Fate.COMMITTED:
            apply_tentatively(state, state.apps[application[i]].first_row + key[i], node[i], room, 1)
        else:
            refused += 1
    for i in range(first, end):
        if fates[i] == Fate.COMMITTED:
            apply_tentatively(state, state.apps[application[i]].first_row + key[i], node[i], room, -1)
            if refused > 0:
                fates[i] = Fate.TRANSACTION
    return refused


@kernel
def commit_transactions(
    state: State,
    parameters: SimulationParameters,
    rows: tuple[I32, I32, I32],
    changed: U8,
    first: I32,
    whole: U8,
    room: I64,
    fates: U8,
    numbers: I64,
) -> int:
    """Commit the valid rows of transactions in order, and set the fates; return the number of containers.

    Args:
        state: the tables
        parameters: parameters of the simulation
        rows: application, request key and node of each proposal
        changed: 1 for nodes with commits by others since the answer's base
        first: the first row of each transaction, followed by the number of rows
        whole: 1 for each transaction that is committed as a whole or not at all
        room: the rest of the engine's limit of each resource; reduced by commits
        fates: fate of each row; values other than `TO_JUDGE` stay
        numbers: container numbers, 0 for none
    """
    application, key, node = rows
    committed = 0
    for transaction in range(len(whole)):
        begin, end = first[transaction], first[transaction + 1]
        if whole[transaction] and judge_all(state, rows, changed, begin, end, room, fates) > 0:
            continue
        for i in range(begin, end):
            if not whole[transaction]:
                if fates[i] == TO_JUDGE:
                    fates[i] = judge(state, application[i], key[i], node[i], changed[i], room)
                if fates[i] != Fate.COMMITTED:
                    continue
            row = state.apps[application[i]].first_row + key[i]
            numbers[i] = commit_one(state, parameters, row, node[i])
            committed += 1
            for r in range(len(state.counted)):
                room[r] -= state.capability[row, r]
    return committed


class Put(IntEnum):
    """The effect of a step on the tables."""

    ENDED = 0
    """An application that ended earlier, at ``end_ms``."""
    WAITS = 1
    """An application that is not activated yet."""
    ASKS_MASTER = 2
    """An application that is activated, and requests its AM container."""
    MASTER = 3
    """The AM container, on ``node`` since ``created_ms``; registers at ``end_ms``, -1: it has."""
    REGISTERED = 4
    """Its AM registered at ``begin_ms``."""
    DONE = 5
    """A completed task: in its container from ``created_ms``, ran from ``begin_ms`` to ``end_ms``."""
    RUNS = 6
    """A task in its container on ``node`` since ``created_ms``: it runs, or waits for its input."""
    ASKS = 7
    """A row requests ``count`` containers."""
    GOES_ON = 8
    """Its AM sends heartbeats from now on."""
    USED = 9
    """A row had a container for ``end_ms - created_ms``, without further information."""


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
    """Add the time of a row's container to the usage of its queues."""
    queue = state.apps[state.rows[row].app].queue
    while queue >= 0:
        for r in range(len(state.counted)):
            state.queue_integral[queue, r] += float(state.capability[row, r]) * elapsed_ms
        queue = state.queues[queue].parent


@inner
def place(state: State, row: int, node: int, created_ms: int) -> int:
    """Create a container that was created at an earlier time; return it."""
    container = allocate(state, row, node)
    state.containers[container].created_ms = created_ms
    state.containers[container].state = ContainerState.HELD
    used(state, row, state.clock[NOW] - created_ms)
    return container


@inner
def put_master(state: State, app: int, node: int, created_ms: int, registers_ms: int) -> None:
    """Create an application's AM container."""
    row = state.apps[app].first_row
    set_count(state, row, 0)
    state.apps[app].awaiting_am = 0
    state.apps[app].master = place(state, row, node, created_ms)
    show_app(state, app, ITSELF)
    if registers_ms >= 0:
        schedule(state, max(registers_ms, state.clock[NOW]), EventKind.AM_STARTED, app, 0)


@inner
def put_registered(state: State, parameters: SimulationParameters, app: int, time_ms: int) -> None:
    """Set an application's AM to registered."""
    first = state.apps[app].first_row
    if state.apps[app].rows > 0 and state.rows[first].kind == RowKind.MASTER:
        set_count(state, first, 0)  # the container of one from before the recording is unknown
    state.apps[app].awaiting_am = 0
    registered(state, parameters, app)
    state.apps[app].phase_ms = time_ms
    show_app(state, app, ITSELF)


@inner
def take(state: State, task: int, begin_ms: int, node: int) -> int:
    """Remove a task that has started from the waiting ones; return its row."""
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
    """Set a task to completed; return its row."""
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
    """Put a task into its container; it ends on schedule, or waits there for the stages before its own."""
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
    """Mark an application as ended: no engine receives it."""
    state.apps[app].state = AppState.FINISHED
    state.apps[app].stages_left = 0
    state.apps[app].finish_ms = end_ms
    state.clock[FINISHED] += 1


@inner
def ask(state: State, row: int, count: int) -> None:
    """Set a row's requested containers, at most the number of its waiting tasks."""
    if not state.rows[row].released:
        release(state, row)
    set_count(state, row, min(count, state.rows[row].waiting))


@kernel
def resume(state: State, parameters: SimulationParameters, steps: Records) -> None:
    """Put the state at the current time into the tables: stages before those that wait for them."""
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
