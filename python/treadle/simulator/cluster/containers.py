"""Containers from allocation to the report of their node, and tasks that slow each other down on a node.

A task goes on at the least of what the node has over what its tasks want, among the resources that it wants itself and
that are wanted beyond what there is: Graphene's simulator delays tasks "by a proportional amount" as well (OSDI 2016,
section 8.4). What tasks ask for may be a peak, of which they use a part all the time (`State.usage`). Only resources
that nobody counts can be wanted beyond what there is. What is left of each task is worked out anew when a task of its
node begins or ends, and a node has an event for the first of its tasks that will end by then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import (
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
    show_row_and_places,
    use,
)

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import SimulationParameters, State


ALLOCATED: Final = 1
LAUNCHED: Final = 2
COMPLETED: Final = 3

FAILED: Final = 1
"""The exit status of a process that failed."""


@inner
def next_beat(phase_ms: int, period_ms: int, time_ms: int) -> int:
    """Return the first heartbeat at or after an instant; without a period everything is reported at once."""
    if period_ms <= 0:
        return time_ms
    return time_ms + (phase_ms - time_ms) % period_ms


@inner
def log_step(state: State, container: int, event: int, exit_status: int) -> None:
    """Note a step in a container's life for the next frame."""
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
    """Make a container of a row on a node; return it."""
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
    log_step(state, at, ALLOCATED, 0)
    return at


@inner
def link(state: State, container: int) -> None:
    """Put a container at the head of its node's and its application's lists."""
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
    """Take a container out of both lists."""
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
    """Let the RM take a container off its accounting."""
    held = state.containers[container]
    log_step(state, container, COMPLETED, exit_status)
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
    """Let a container be over: its node reports that with its next heartbeat."""
    held = state.containers[container]
    time_ms = state.clock[NOW]
    report_ms = next_beat(state.nodes[held.node].phase_ms, parameters.node_heartbeat_ms, time_ms)
    held.task = -1
    held.slots = 0  # an executor that ends takes no task, though the RM does not know of its end yet
    if report_ms == time_ms:
        free_container(state, container, exit_status)
        return
    changed(state, held.node)
    held.state = ContainerState.ENDING
    held.exit_status = exit_status
    schedule(state, report_ms, EventKind.CONTAINER_REPORTED, container, held.stamp)


@inner
def reported(state: State, container: int, stamp: int) -> None:
    """A node reports that a container is over."""
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
    """Count a container off at its node and rack, as the RM does when it allocates."""
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
"""A task of which less is left has ended."""
ENDING_MS: Final = -1.0
"""What is left of a task whose end is scheduled."""


@inner
def is_contended(state: State) -> bool:
    """Say whether tasks slow each other down."""
    return len(state.node_wanted) > 0


@inner
def has_begun(state: State, container: int) -> bool:
    """Say whether a task runs in a container."""
    task = state.containers[container].task
    if task < 0 or state.tasks[task].state != TaskState.RUNNING:
        return False
    return bool(state.tasks[task].begin_ms <= state.clock[NOW])


@inner
def settle(state: State, node: int) -> None:
    """Take what a node's tasks have done since it was settled last off what is left of them."""
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
    """Return how much of a resource a task of a row uses: what it asks for is its peak."""
    asked = int(state.capability[row, r])
    return asked if len(state.usage) == 0 else math.ceil(asked * state.usage[row, r] - DONE_MS)


@inner
def want(state: State, node: int) -> None:
    """Add up what the tasks that run on a node want."""
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
    """Return how fast tasks of a row go on on a node, 1 where they have all that they want."""
    rate = 1.0
    for r in range(len(state.counted)):
        wanted, total = state.node_wanted[node, r], state.node_total[node, r]
        if state.capability[row, r] > 0 and wanted > total:
            rate = min(rate, (float(total) / float(wanted)) ** state.thrashing[r])
    return rate


@inner
def changed(state: State, node: int) -> None:
    """Work out anew how fast a node's tasks go on, as one began or ended, and when to look at them next."""
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
    """Let a task go on at a rate and return when it will end; schedule its end and return -1 if it has come."""
    if state.tasks[task].left_ms < 0.0:
        return -1
    if state.tasks[task].left_ms <= DONE_MS:
        state.tasks[task].left_ms = ENDING_MS
        schedule(state, state.clock[NOW], EventKind.TASK_ENDS, task, state.tasks[task].attempt)
        return -1
    state.tasks[task].rate = rate
    return state.clock[NOW] + math.ceil(state.tasks[task].left_ms / rate - DONE_MS)
