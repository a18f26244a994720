"""A Spark-like application: executors that run several tasks at a time, of whatever stage comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner
from treadle.simulator.cluster.containers import SUCCESS, end_container
from treadle.simulator.cluster.state import NOW, ContainerState, RowKind
from treadle.simulator.cluster.tasks import start_task
from treadle.simulator.cluster.usage import set_count

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import Knobs, State

GROW_MS: Final = 1000
"""spark.dynamicAllocation.schedulerBacklogTimeout"""


@inner
def waiting_stage(state: State, app: int) -> int:
    """Return the first stage with a task that could run, or -1."""
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        if state.rows[row].kind == RowKind.INSIDE and state.rows[row].waiting > 0:
            return row
    return -1


@inner
def fill_executor(state: State, knobs: Knobs, container: int) -> None:
    """Give an executor as many tasks as it has slots."""
    held = state.containers[container]
    while held.busy < held.slots:
        row = waiting_stage(state, held.app)
        if row < 0:
            break
        held.busy += 1
        state.apps[held.app].busy += 1
        start_task(state, knobs, row, state.rows[row].head, container)
    if held.busy == 0:
        held.idle_ms = state.clock[NOW]


@inner
def fill_executors(state: State, knobs: Knobs, app: int) -> None:
    """Give tasks to every executor that has room."""
    container = state.apps[app].first_container
    while container >= 0:
        if state.containers[container].busy < state.containers[container].slots:
            fill_executor(state, knobs, container)
        container = state.containers[container].app_next


@inner
def executor_ready(state: State, knobs: Knobs, container: int, stamp: int) -> None:
    """An executor has registered with its driver."""
    held = state.containers[container]
    if held.stamp == stamp and held.state == ContainerState.HELD and not state.nodes[held.node].down:
        held.slots = knobs.spark_slots
        fill_executor(state, knobs, container)


@inner
def tasks_left(state: State, app: int) -> int:
    """Return how many tasks wait that could run."""
    left = 0
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        if state.rows[row].kind == RowKind.INSIDE:
            left += state.rows[row].waiting
    return left


@inner
def ask_for_executors(state: State, knobs: Knobs, app: int, row: int) -> int:
    """Set how many executors are asked for (ExecutorAllocationManager); return when to look again, or -1."""
    now = state.clock[NOW]
    waiting = tasks_left(state, app)
    again = -1
    if knobs.spark_dynamic:
        slots = knobs.spark_slots
        needed = min((waiting + state.apps[app].busy + slots - 1) // slots, knobs.spark_max)
        if waiting == 0 or needed <= state.apps[app].target:
            state.apps[app].target = max(needed, 0)
            state.apps[app].step = 1
            state.apps[app].grow_ms = now + GROW_MS
        elif now >= state.apps[app].grow_ms:
            state.apps[app].target = min(state.apps[app].target + state.apps[app].step, needed)
            state.apps[app].step *= 2
            state.apps[app].grow_ms = now + GROW_MS
        if needed > state.apps[app].target:
            again = state.apps[app].grow_ms
        idle = release_idle(state, knobs, app)
        if idle >= 0 and (again < 0 or idle < again):
            again = idle
    set_count(state, row, max(state.apps[app].target - state.apps[app].executors, 0))
    return again


@inner
def release_idle(state: State, knobs: Knobs, app: int) -> int:
    """Release executors that were idle for too long; return when the next one will have been, or -1."""
    now, soonest = state.clock[NOW], -1
    container = state.apps[app].first_container
    while container >= 0:
        following = state.containers[container].app_next
        held = state.containers[container]
        if held.state == ContainerState.HELD and held.slots > 0 and held.busy == 0:
            due = held.idle_ms + knobs.spark_idle_ms
            if due <= now:
                state.apps[app].executors -= 1
                end_container(state, knobs, container, SUCCESS)
            elif soonest < 0 or due < soonest:
                soonest = due
        container = following
    return soonest
