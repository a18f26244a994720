"""Containers from allocation to their node's report, and the tasks in them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner
from treadle.events import ContainerEvent
from treadle.simulator.cluster.tables import (
    CONTAINER_STEPS,
    CONTAINERS,
    CONTAINERS_EVER,
    CONTAINERS_FREE,
    NOW,
    OUT_OF_ROOM,
    ContainerState,
    EventKind,
    RowKind,
    TaskState,
    schedule,
    show_row_and_places,
    use,
)

if TYPE_CHECKING:
    from treadle.simulator.cluster.tables import SimulationParameters, State


FAILED: Final = 1
"""The exit status of a process that failed."""


@inner
def next_beat(phase_ms: int, period_ms: int, time_ms: int) -> int:
    """Return the first heartbeat at or after a time; without a period, the time itself."""
    if period_ms <= 0:
        return time_ms
    return time_ms + (phase_ms - time_ms) % period_ms


@inner
def log_step(state: State, container: int, event: int, exit_status: int) -> None:
    """Record a step in a container's life for the next frame."""
    at = state.clock[CONTAINER_STEPS]
    if at >= len(state.container_steps):
        state.clock[OUT_OF_ROOM] = 1
        return
    state.clock[CONTAINER_STEPS] += 1
    held = state.containers[container]
    step = state.container_steps[at]
    step.container = held.number
    step.time_ms = state.clock[NOW]
    step.created_ms = held.created_ms
    step.app = held.app
    step.row = held.row
    step.node = held.node
    step.exit_status = exit_status
    step.event = event
    step.am = state.rows[held.row].kind == RowKind.MASTER


@inner
def allocate(state: State, row: int, node: int) -> int:
    """Create a container of a row on a node; return it."""
    clock, containers = state.clock, state.containers
    at = clock[CONTAINERS_FREE]
    if at < 0:
        clock[OUT_OF_ROOM] = 1
        return -1
    clock[CONTAINERS_FREE] = containers[at].next
    clock[CONTAINERS] += 1
    clock[CONTAINERS_EVER] += 1
    app = state.rows[row].app
    state.apps[app].containers_ever += 1
    made = containers[at]
    made.number = clock[CONTAINERS_EVER]
    made.created_ms = clock[NOW]
    made.ready_ms = made.idle_ms = clock[NOW]
    made.app = app
    made.row = row
    made.node = node
    made.task = -1
    made.busy = 0
    made.slots = 0
    made.next = -1
    made.state = ContainerState.NEW
    link(state, at)
    use(state, row, node, 1)
    log_step(state, at, ContainerEvent.ALLOCATED, 0)
    return at


@inner
def link(state: State, container: int) -> None:
    """Insert a container at the head of its node's and its application's lists."""
    containers = state.containers
    node, app = containers[container].node, containers[container].app
    first = state.nodes[node].first_container
    containers[container].node_next = first
    containers[container].node_before = -1
    if first >= 0:
        containers[first].node_before = container
    state.nodes[node].first_container = container
    first = state.apps[app].first_container
    containers[container].app_next = first
    containers[container].app_before = -1
    if first >= 0:
        containers[first].app_before = container
    state.apps[app].first_container = container


@inner
def unlink(state: State, container: int) -> None:
    """Remove a container from both lists."""
    containers = state.containers
    node, app = containers[container].node, containers[container].app
    before, after = containers[container].node_before, containers[container].node_next
    if before >= 0:
        containers[before].node_next = after
    else:
        state.nodes[node].first_container = after
    if after >= 0:
        containers[after].node_before = before
    before, after = containers[container].app_before, containers[container].app_next
    if before >= 0:
        containers[before].app_next = after
    else:
        state.apps[app].first_container = after
    if after >= 0:
        containers[after].app_before = before


@inner
def free_container(state: State, container: int, exit_status: int) -> None:
    """Release a container's resources in the RM."""
    held = state.containers[container]
    log_step(state, container, ContainerEvent.COMPLETED, exit_status)
    use(state, held.row, held.node, -1)
    unlink(state, container)
    changed(state, held.node)
    held.state = ContainerState.FREE
    held.stamp += 1
    held.next = state.clock[CONTAINERS_FREE]
    state.clock[CONTAINERS_FREE] = container
    state.clock[CONTAINERS] -= 1


@inner
def end_container(state: State, parameters: SimulationParameters, container: int, exit_status: int) -> None:
    """End a container: its node reports that with its next heartbeat."""
    held = state.containers[container]
    time_ms = state.clock[NOW]
    report_ms = next_beat(state.nodes[held.node].phase_ms, parameters.node_heartbeat_ms, time_ms)
    held.task = -1
    held.slots = 0  # an ending executor takes no task, though the RM does not know of its end yet
    if report_ms == time_ms:
        free_container(state, container, exit_status)
        return
    changed(state, held.node)
    held.state = ContainerState.ENDING
    held.exit_status = exit_status
    schedule(state, report_ms, EventKind.CONTAINER_REPORTED, container, held.stamp)


@inner
def reported(state: State, container: int, stamp: int) -> None:
    """Report the end of a container by its node."""
    held = state.containers[container]
    if held.stamp == stamp and held.state == ContainerState.ENDING:
        free_container(state, container, held.exit_status)


@inner
def place_of(state: State, row: int, where: int) -> int:
    """Return the place of a row at a node or rack (`PLACE.where`), or -1."""
    low = state.rows[row].first_place
    high = low + state.rows[row].places
    end = high
    while low < high:
        middle = (low + high) // 2
        if state.places[middle].where < where:
            low = middle + 1
        else:
            high = middle
    if low < end and state.places[low].where == where:
        return low
    return -1


@inner
def take_places(state: State, row: int, node: int) -> None:
    """Subtract a container at its node and rack, as the RM does on allocation."""
    if state.rows[row].places == 0:
        return
    rack = place_of(state, row, len(state.nodes) + state.nodes[node].rack)
    if rack < 0 or state.places[rack].count == 0:
        return
    near = place_of(state, row, node)
    if near >= 0 and state.places[near].count > 0:
        state.places[near].count -= 1
    state.places[rack].count -= 1
    show_row_and_places(state, row)


DONE_MS: Final = 1e-6
"""A task with less remaining time has ended, in ms."""
ENDING_MS: Final = -1.0
"""Remaining time of a task whose end is scheduled."""


@inner
def is_contended(state: State) -> bool:
    """Return whether tasks slow each other down."""
    return len(state.node_wanted) > 0


@inner
def has_begun(state: State, container: int) -> bool:
    """Return whether a task runs in a container."""
    task = state.containers[container].task
    if task < 0 or state.tasks[task].state != TaskState.RUNNING:
        return False
    return bool(state.tasks[task].begin_ms <= state.clock[NOW])


@inner
def settle(state: State, node: int) -> None:
    """Subtract the progress of a node's tasks since the last update from their remaining time."""
    now, since = state.clock[NOW], state.nodes[node].settled_ms
    state.nodes[node].settled_ms = now
    container = state.nodes[node].first_container
    while container >= 0:
        if has_begun(state, container):
            task = state.containers[container].task
            if state.tasks[task].left_ms > 0.0:
                ran_ms = float(now - max(since, state.tasks[task].begin_ms))
                state.tasks[task].left_ms = max(state.tasks[task].left_ms - ran_ms * state.tasks[task].rate, 0.0)
        container = state.containers[container].node_next


@inner
def uses(state: State, row: int, r: int) -> int:
    """Return a row's usage of a resource by each task; the request is its peak."""
    asked = int(state.capability[row, r])
    return asked if len(state.usage) == 0 else math.ceil(asked * state.usage[row, r] - DONE_MS)


@inner
def want(state: State, node: int) -> None:
    """Add up the usage that a node's running tasks need at full speed."""
    for r in range(len(state.counted)):
        state.node_wanted[node, r] = 0
    container = state.nodes[node].first_container
    while container >= 0:
        if has_begun(state, container):
            for r in range(len(state.counted)):
                state.node_wanted[node, r] += uses(state, state.containers[container].row, r)
        container = state.containers[container].node_next


@inner
def rate_of(state: State, row: int, node: int) -> float:
    """Return the speed of a row's tasks on a node, 1 if they have all that they need."""
    rate = 1.0
    for r in range(len(state.counted)):
        wanted, total = state.node_wanted[node, r], state.node_total[node, r]
        if state.capability[row, r] > 0 and wanted > total:
            rate = min(rate, (float(total) / float(wanted)) ** state.thrashing[r])
    return rate


@inner
def changed(state: State, node: int) -> None:
    """Recompute the speed of a node's tasks after a start or end, and the time of the next update."""
    if not is_contended(state) or state.nodes[node].down:
        return
    settle(state, node)
    want(state, node)
    now = state.clock[NOW]
    soonest_ms = -1
    container = state.nodes[node].first_container
    while container >= 0:
        task = state.containers[container].task
        due_ms = -1
        if has_begun(state, container):
            due_ms = goes_on(state, task, rate_of(state, state.containers[container].row, node))
        elif task >= 0 and state.tasks[task].state == TaskState.RUNNING:
            due_ms = state.tasks[task].begin_ms
        if due_ms >= 0 and (soonest_ms < 0 or due_ms < soonest_ms):
            soonest_ms = due_ms
        container = state.containers[container].node_next
    pending_ms = state.nodes[node].look_ms
    if soonest_ms >= 0 and (pending_ms <= now or soonest_ms < pending_ms):
        state.nodes[node].look_ms = soonest_ms
        schedule(state, soonest_ms, EventKind.NODE_CHANGES, node, 0)


@inner
def goes_on(state: State, task: int, rate: float) -> int:
    """Set a task's speed and return when it will end; schedule the end and return -1 if it is due."""
    if state.tasks[task].left_ms < 0.0:
        return -1
    if state.tasks[task].left_ms <= DONE_MS:
        state.tasks[task].left_ms = ENDING_MS
        schedule(state, state.clock[NOW], EventKind.TASK_ENDS, task, state.tasks[task].attempt)
        return -1
    state.tasks[task].rate = rate
    return state.clock[NOW] + math.ceil(state.tasks[task].left_ms / rate - DONE_MS)


TASK_FAILS: Final = 1
TASK_SLOW: Final = 2
TASK_FACTOR: Final = 3
NODE_UP: Final = 4
NODE_DOWN: Final = 5
TASK_FAILS_AT: Final = 6


@inner
def mixed(value: int) -> int:
    """Return splitmix64's mix of 62 bits: products wrap around as in C."""
    value = (value ^ ((value >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    value = (value ^ ((value >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return value ^ ((value >> 31) & 0x1FFFFFFFF)


@inner
def uniform(seed: int, what: int, subject: int, draw: int) -> float:
    """Return a number in [0, 1) for the ``draw``-th draw of a kind and subject."""
    value = mixed(seed + 0x1E3779B97F4A7C15 * what)
    value = mixed(value + subject)
    value = mixed(value + draw)
    return ((value >> 11) & 0x1FFFFFFFFFFFFF) / 9007199254740992.0


@inner
def exponential(mean: float, seed: int, what: int, subject: int, draw: int) -> float:
    """Return a draw from an exponential distribution."""
    return -mean * math.log(1.0 - uniform(seed, what, subject, draw))


@inner
def enqueue(state: State, row: int, task: int) -> None:
    """Append a task to those that wait for a container of a row."""
    tail = state.rows[row].tail
    state.tasks[task].state = TaskState.WAITING
    state.tasks[task].list = row
    state.tasks[task].next = -1
    state.tasks[task].before = tail
    if tail >= 0:
        state.tasks[tail].next = task
    else:
        state.rows[row].head = task
    state.rows[row].tail = task
    state.rows[row].waiting += 1
    if state.rows[row].kind == RowKind.TASKS:
        count_places(state, task, 1)


@inner
def dequeue(state: State, row: int, task: int) -> None:
    """Remove a task from those that wait for a container of a row."""
    before, after = state.tasks[task].before, state.tasks[task].next
    if before >= 0:
        state.tasks[before].next = after
    else:
        state.rows[row].head = after
    if after >= 0:
        state.tasks[after].before = before
    else:
        state.rows[row].tail = before
    state.rows[row].waiting -= 1
    if state.rows[row].kind == RowKind.TASKS:
        count_places(state, task, -1)


@inner
def count_places(state: State, task: int, change: int) -> None:
    """Add ``change`` to the task counts of the nodes and racks with its input."""
    first = state.tasks[task].first_place
    for at in range(first, first + state.tasks[task].places):
        state.places[state.task_places[at]].waiting += change


@inner
def waiting_task_at(state: State, row: int, where: int) -> int:
    """Return the first waiting task of a row with input at a node or rack, or -1."""
    place = place_of(state, row, where)
    if place < 0 or state.places[place].waiting == 0:
        return -1
    first = state.places[place].first_task
    for at in range(first, first + state.places[place].tasks):
        task = state.place_tasks[at]
        # A failed task waits in another row's list.
        if state.tasks[task].state == TaskState.WAITING and state.tasks[task].list == row:
            return task
    return -1


@inner
def choose_task(state: State, row: int, node: int) -> int:
    """Return the task for a container on a node: one with input there, or in the rack, or the first."""
    if state.rows[row].places > 0:
        task = waiting_task_at(state, row, node)
        if task < 0:
            task = waiting_task_at(state, row, len(state.nodes) + state.nodes[node].rack)
        if task >= 0:
            return task
    return state.rows[row].head


@inner
def run_task(state: State, parameters: SimulationParameters, task: int) -> None:
    """Start a task in its container as soon as that is ready, and schedule its end."""
    container = state.tasks[task].container
    state.tasks[task].state = TaskState.RUNNING
    if state.nodes[state.containers[container].node].down:
        return  # it will never end; the RM does not know yet
    begin_ms = max(state.clock[NOW], state.containers[container].ready_ms)
    attempt = state.tasks[task].attempt
    duration = float(state.tasks[task].duration_ms)
    if parameters.straggler > 0.0 and uniform(parameters.seed, TASK_SLOW, task, attempt) < parameters.straggler:
        factor = uniform(parameters.seed, TASK_FACTOR, task, attempt)
        duration *= parameters.straggler_min + (parameters.straggler_max - parameters.straggler_min) * factor
    bound = state.rows[state.tasks[task].row].bound
    if bound >= 0 and state.preferred[bound, state.containers[container].node] == 0:
        duration *= parameters.relaxed_slowdown
    if fails(parameters, task, attempt):
        duration *= uniform(parameters.seed, TASK_FAILS_AT, task, attempt)
    row = state.tasks[task].row
    app = state.rows[row].app
    if state.apps[app].started_ms < 0:
        state.apps[app].started_ms = begin_ms
    if state.rows[row].began_ms < 0:
        state.rows[row].began_ms = begin_ms
    state.tasks[task].begin_ms = begin_ms
    state.tasks[task].node = state.containers[container].node
    if is_contended(state):
        state.tasks[task].left_ms = float(int(duration))
        changed(state, state.containers[container].node)
    else:
        schedule(state, begin_ms + int(duration), EventKind.TASK_ENDS, task, attempt)


@inner
def fails(parameters: SimulationParameters, task: int, attempt: int) -> bool:
    """Return whether this attempt at a task will fail by itself."""
    return (
        parameters.task_failure > 0.0 and uniform(parameters.seed, TASK_FAILS, task, attempt) < parameters.task_failure
    )


@inner
def start_task(state: State, parameters: SimulationParameters, row: int, task: int, container: int) -> None:
    """Put a waiting task of a row into a container; it runs at once unless its input is missing."""
    dequeue(state, row, task)
    state.tasks[task].container = container
    state.containers[container].task = task
    stage = state.tasks[task].row
    state.rows[stage].held += 1
    if state.rows[stage].blockers > 0:
        state.tasks[task].state = TaskState.EARLY
        state.rows[stage].early += 1
    else:
        run_task(state, parameters, task)


@inner
def stop_task(state: State, task: int, row: int) -> None:
    """Remove a task from its container and let it wait for a container of a row; its work is lost."""
    stage = state.tasks[task].row
    state.rows[stage].held -= 1
    if state.tasks[task].state == TaskState.EARLY:
        state.rows[stage].early -= 1
    state.tasks[task].attempt += 1
    state.tasks[task].container = -1
    enqueue(state, row, task)


@inner
def release(state: State, row: int) -> None:
    """Make a stage's tasks wait for containers, except those that wait for a task of a one-to-one stage."""
    state.rows[row].released = 1
    first = state.rows[row].first_task
    for task in range(first, first + state.rows[row].tasks):
        if state.tasks[task].state == TaskState.HIDDEN and state.tasks[task].waits == 0:
            enqueue(state, row, task)


@inner
def input_complete(state: State, parameters: SimulationParameters, row: int) -> None:
    """Release a stage whose last predecessor has ended: early tasks start, the others may be requested."""
    if not state.rows[row].released:
        release(state, row)
    if state.rows[row].early > 0:
        first = state.rows[row].first_task
        for task in range(first, first + state.rows[row].tasks):
            if state.tasks[task].state == TaskState.EARLY:
                run_task(state, parameters, task)
        state.rows[row].early = 0


@inner
def task_done(state: State, parameters: SimulationParameters, task: int) -> bool:
    """Count a task as completed; return whether other stages have new runnable tasks."""
    row = state.tasks[task].row
    state.tasks[task].state = TaskState.DONE
    state.tasks[task].end_ms = state.clock[NOW]
    state.tasks[task].container = -1
    state.rows[row].held -= 1
    state.rows[row].done += 1
    state.rows[row].ended_ms += state.clock[NOW] - state.tasks[task].begin_ms
    ended = state.rows[row].done == state.rows[row].tasks
    more = False
    first = state.rows[row].first_child
    for at in range(first, first + state.rows[row].children):
        child = state.children[at].row
        if state.children[at].paired:
            twin = state.rows[child].first_task + task - state.rows[row].first_task
            state.tasks[twin].waits -= 1
            if state.tasks[twin].waits == 0 and state.rows[child].released:
                enqueue(state, child, twin)
                more = True
        elif ended:
            state.rows[child].blockers -= 1
            if state.rows[child].blockers == 0:
                input_complete(state, parameters, child)
                more = True
    if ended:
        state.apps[state.rows[row].app].stages_left -= 1
    return more
