"""Tasks: which wait, which run where, and what the end of one means for its stage and for the stages behind it.

So the same task of a workload fails, and is slow, in the same attempt under every policy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner
from treadle.simulator.cluster.containers import changed, is_contended, place_of
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import NOW, EventKind, RowKind, TaskState

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import SimulationParameters, State


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
    """Return a number in [0, 1) for the ``draw``-th time of something about a subject."""
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
    """Put a task at the end of those that wait for a container of a row."""
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
    """Take a task from those that wait for a container of a row."""
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
    """Count a task in or out at each node and rack where its input is."""
    first = state.tasks[task].first_place
    for at in range(first, first + state.tasks[task].places):
        state.places[state.task_places[at]].waiting += change


@inner
def waiting_task_at(state: State, row: int, where: int) -> int:
    """Return the first task of a row that waits and has its input at a node or rack, or -1."""
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
    """Return the task that a container on a node is for: one with its input there, or in the rack, or the first."""
    if state.rows[row].places > 0:
        task = waiting_task_at(state, row, node)
        if task < 0:
            task = waiting_task_at(state, row, len(state.nodes) + state.nodes[node].rack)
        if task >= 0:
            return task
    return state.rows[row].head


@inner
def run_task(state: State, parameters: SimulationParameters, task: int) -> None:
    """Let a task begin in its container as soon as that is ready, and its end come."""
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
    """Say whether this attempt at a task will fail by itself."""
    return (
        parameters.task_failure > 0.0 and uniform(parameters.seed, TASK_FAILS, task, attempt) < parameters.task_failure
    )


@inner
def start_task(state: State, parameters: SimulationParameters, row: int, task: int, container: int) -> None:
    """Put a task that waits for a container of a row into one; it runs at once unless its input is missing."""
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
    """Take a task out of its container and let it wait for a container of a row; its work is lost."""
    stage = state.tasks[task].row
    state.rows[stage].held -= 1
    if state.tasks[task].state == TaskState.EARLY:
        state.rows[stage].early -= 1
    state.tasks[task].attempt += 1
    state.tasks[task].container = -1
    enqueue(state, row, task)


@inner
def release(state: State, row: int) -> None:
    """Let a stage's tasks wait for containers, but for those that wait for a task of a one-to-one stage."""
    state.rows[row].released = 1
    first = state.rows[row].first_task
    for task in range(first, first + state.rows[row].tasks):
        if state.tasks[task].state == TaskState.HIDDEN and state.tasks[task].waits == 0:
            enqueue(state, row, task)


@inner
def input_complete(state: State, parameters: SimulationParameters, row: int) -> None:
    """Let a stage go whose last stage before it has ended: those that came early begin, the others may be asked for."""
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
    """Count a task as done; return whether tasks of other stages may run now that could not before."""
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
