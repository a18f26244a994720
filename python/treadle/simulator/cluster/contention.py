"""Tasks of a node slow each other down where they want more of a resource than it has (`cluster.contention`).

A task goes on at the least of what the node has over what its tasks want, among the resources that it wants itself and
that are wanted beyond what there is: Graphene's simulator delays tasks "by a proportional amount" as well (OSDI 2016,
section 8.4). Only resources that nobody counts can be wanted so. What is left of each task is worked out anew when a
task of its node begins or ends, and a node has an event for the first of its tasks that will end by then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import NOW, EventKind, TaskState

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import State

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
def want(state: State, node: int) -> None:
    """Add up what the tasks that run on a node want."""
    for r in range(len(state.counted)):
        state.node_wanted[node, r] = 0
    container = state.nodes[node].first_container
    while container >= 0:
        if has_begun(state, container):
            for r in range(len(state.counted)):
                state.node_wanted[node, r] += state.capability[state.containers[container].row, r]
        container = state.containers[container].node_next


@inner
def rate_of(state: State, row: int, node: int) -> float:
    """Return how fast tasks of a row go on on a node, 1 where they have all that they want."""
    rate = 1.0
    for r in range(len(state.counted)):
        wanted, total = state.node_wanted[node, r], state.node_total[node, r]
        if state.capability[row, r] > 0 and wanted > total:
            rate = min(rate, float(total) / float(wanted))
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
