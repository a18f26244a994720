"""Applications in the RM from submission to removal, with activation limited by application masters.

Application masters: what each framework requests, and when.

MapReduce follows RMContainerAllocator, Tez ShuffleVertexManager and its task schedulers. Both request tasks whose input
is not complete yet, which then wait in their containers, and both kill such tasks if the tasks that they wait for find
no room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner
from treadle.simulator.cluster.containers import (
    choose_task,
    end_container,
    free_container,
    release,
    start_task,
    stop_task,
)
from treadle.simulator.cluster.containers import next_beat as beat_after
from treadle.simulator.cluster.tables import (
    FINISHED,
    ITSELF,
    NOW,
    TASKS_KILLED,
    UNUSED,
    AppState,
    ContainerState,
    EventKind,
    FrameworkCode,
    RowKind,
    TaskState,
    headroom,
    schedule,
    set_count,
    show_app,
    show_queue,
    show_row,
    show_row_and_places,
)
from treadle.yarn.codes import ABORTED, KILLED_BY_APPMASTER, SUCCESS

if TYPE_CHECKING:
    from treadle.simulator.cluster.tables import SimulationParameters, State


POLL_MS: Final = 1000
"""Poll interval of an application master that waits for an unreported change, in ms."""

MAPREDUCE_PREEMPTION_TIMEOUT_MS: Final = 300_000
"""mapreduce.job.reducer.unconditional-preempt.delay.sec"""

TEZ_PREEMPTION_TIMEOUT_MS: Final = 60_000
"""tez.am.preemption.max.wait-time-ms"""


@inner
def wake(state: State, parameters: SimulationParameters, app: int, time_ms: int) -> None:
    """Schedule an application master's first heartbeat at or after a time."""
    due = beat_after(state.apps[app].phase_ms, parameters.am_heartbeat_ms, time_ms)
    if state.apps[app].beat_ms < 0 or due < state.apps[app].beat_ms:
        state.apps[app].beat_ms = due
        schedule(state, due, EventKind.AM_HEARTBEAT, app, 0)


@inner
def receive(state: State, parameters: SimulationParameters, app: int) -> None:
    """Take the containers allocated since the last heartbeat: assign a task to each, or release it."""
    containers = state.containers
    at = state.apps[app].new_head
    state.apps[app].new_head = state.apps[app].new_tail = -1
    while at >= 0:
        following = containers[at].next
        row = containers[at].row
        containers[at].state = ContainerState.HELD
        containers[at].ready_ms = state.clock[NOW] + parameters.launch_ms
        if state.rows[row].kind == RowKind.EXECUTORS:
            schedule(state, containers[at].ready_ms, EventKind.EXECUTOR_READY, at, containers[at].stamp)
        else:
            task = choose_task(state, row, containers[at].node)
            if task >= 0:
                start_task(state, parameters, row, task, at)
            else:
                state.clock[UNUSED] += 1
                free_container(state, at, ABORTED)
        at = following


@inner
def may_go(state: State, row: int, node: int) -> bool:
    """Return whether a node satisfies a row's requirements."""
    return state.rows[row].bound < 0 or state.allowed[state.rows[row].bound, node] == 1


@inner
def reuse(state: State, parameters: SimulationParameters, container: int) -> bool:
    """Run another task in a Tez container; False if the application requests none that fits."""
    app, own = state.containers[container].app, state.containers[container].row
    best = -1
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        kind = state.rows[row].kind
        if (kind != RowKind.TASKS and kind != RowKind.RETRIES) or state.rows[row].count == 0:
            continue
        fits = state.rows[row].waiting > 0 and may_go(state, row, state.containers[container].node)
        for r in range(len(state.counted)):
            fits = fits and state.capability[row, r] <= state.capability[own, r]
        if fits and (best < 0 or state.rows[row].priority < state.rows[best].priority):
            best = row
    if best < 0:
        return False
    set_count(state, best, state.rows[best].count - 1)
    start_task(state, parameters, best, choose_task(state, best, state.containers[container].node), container)
    return True


@inner
def show_places(state: State, row: int) -> None:
    """Update requests for nodes and racks to the number of waiting tasks with input there."""
    first, moved = state.rows[row].first_place, False
    for at in range(first, first + state.rows[row].places):
        if state.places[at].count != state.places[at].waiting:
            state.places[at].count = state.places[at].waiting
            moved = True
    if moved:
        show_row_and_places(state, row)
    elif state.rows[row].places_open and state.rows[row].count == 0:
        # Until its localities have been read it sends an empty request with every heartbeat.
        show_row(state, row)


@inner
def done_fraction(state: State, row: int) -> float:
    """Return the smallest completed fraction among the stages before this one."""
    least = 1.0
    first = state.rows[row].first_parent
    for at in range(first, first + state.rows[row].parents):
        parent = state.parents[at]
        least = min(least, state.rows[parent].done / max(state.rows[parent].tasks, 1))
    return least


@inner
def early_tez(state: State, parameters: SimulationParameters, row: int) -> int:
    """Return how many tasks of a vertex may have been requested by now (ShuffleVertexManager)."""
    part = done_fraction(state, row)
    if part < parameters.tez_min_fraction:
        return 0
    if part >= parameters.tez_max_fraction:
        return state.rows[row].tasks
    span = parameters.tez_max_fraction - parameters.tez_min_fraction
    return int(state.rows[row].tasks * (part - parameters.tez_min_fraction) / span)


@inner
def early_mapreduce(state: State, parameters: SimulationParameters, app: int, row: int) -> int:
    """Return how many reduces may hold or request containers by now (RMContainerAllocator.scheduleReduces)."""
    part = done_fraction(state, row)
    if part < parameters.slow_start:
        return 0
    maps, scheduled, map_memory = 0, 0, 0
    first = state.apps[app].first_row
    for other in range(first, first + state.apps[app].rows):
        kind = state.rows[other].kind
        if (kind == RowKind.TASKS or kind == RowKind.RETRIES) and state.rows[state.rows[other].serves].blockers == 0:
            scheduled += state.rows[other].waiting
            maps += state.rows[other].held + state.rows[other].waiting
            map_memory = max(map_memory, state.capability[other, 0])
    reduce_memory = state.capability[row, 0]
    if scheduled == 0:
        return state.rows[row].tasks
    if reduce_memory <= 0:
        # No memory to share: more reduces would repeatedly take other resources that the maps wait for.
        return state.rows[row].held
    limit = headroom(state, app, 0) + (maps - scheduled) * map_memory + state.rows[row].held * reduce_memory
    for_reduces = limit * min(part, parameters.ramp_up_limit)
    unused = limit - for_reduces - maps * map_memory
    return int((for_reduces + max(unused, 0.0)) / reduce_memory)


@inner
def ask_for_tasks(state: State, parameters: SimulationParameters, app: int) -> bool:
    """Set the requests of the stages; return whether to check again soon."""
    poll = False
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        kind = state.rows[row].kind
        if kind == RowKind.RETRIES:
            set_count(state, row, state.rows[row].waiting)
        if kind != RowKind.TASKS:
            continue
        count = state.rows[row].waiting
        if state.rows[row].blockers > 0:
            may = 0
            if state.rows[row].paired == 0:
                mapreduce = state.apps[app].framework == FrameworkCode.MAPREDUCE
                may = early_mapreduce(state, parameters, app, row) if mapreduce else early_tez(state, parameters, row)
                if may > 0 and not state.rows[row].released:
                    release(state, row)
                count = max(min(state.rows[row].waiting, may - state.rows[row].held), 0)
                poll = poll or (mapreduce and done_fraction(state, row) >= parameters.slow_start)
            else:
                count = 0
        set_count(state, row, count)
        if state.rows[row].places > 0:
            show_places(state, row)
    return poll


@inner
def make_room(state: State, parameters: SimulationParameters, app: int) -> bool:
    """Kill early tasks if tasks that they wait for find no room; return whether to check again soon."""
    early, wanted, running, hungry = 0, 0, 0, -1
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        kind = state.rows[row].kind
        if kind != RowKind.TASKS and kind != RowKind.RETRIES:
            continue
        early += state.rows[row].early
        if state.rows[state.rows[row].serves].blockers == 0:
            running += state.rows[row].held
            wanted += state.rows[row].count
            if state.rows[row].count > 0 and hungry < 0:
                hungry = row
    if early == 0 or hungry < 0 or running > 0:
        state.apps[app].starved_ms = -1
        return early > 0 and hungry >= 0
    now = state.clock[NOW]
    if state.apps[app].starved_ms < 0:
        state.apps[app].starved_ms = now
    mapreduce = state.apps[app].framework == FrameworkCode.MAPREDUCE
    timeout_ms = MAPREDUCE_PREEMPTION_TIMEOUT_MS if mapreduce else TEZ_PREEMPTION_TIMEOUT_MS
    starved = now - state.apps[app].starved_ms >= timeout_ms
    for r in range(len(state.counted)):
        starved = starved or (state.counted[r] and headroom(state, app, r) < state.capability[hungry, r])
    if starved:
        kills = (
            min(wanted, int(early * parameters.preemption_limit))
            if mapreduce
            else int(wanted * parameters.tez_preemption)
        )
        kill_early(state, parameters, app, max(kills, 1))
    return True


@inner
def kill_early(state: State, parameters: SimulationParameters, app: int, kills: int) -> None:
    """Kill this many tasks that wait for input, the last stages first; their outstanding requests are withdrawn."""
    first = state.apps[app].first_row
    for row in range(first + state.apps[app].rows - 1, first - 1, -1):
        if state.rows[row].kind != RowKind.TASKS or state.rows[row].blockers == 0:
            continue
        set_count(state, row, 0)
        for task in range(state.rows[row].first_task + state.rows[row].tasks - 1, state.rows[row].first_task - 1, -1):
            if kills > 0 and state.tasks[task].state == TaskState.EARLY:
                container = state.tasks[task].container
                stop_task(state, task, row)
                end_container(state, parameters, container, KILLED_BY_APPMASTER)
                state.clock[TASKS_KILLED] += 1
                kills -= 1


@inner
def container_is_through(state: State, parameters: SimulationParameters, container: int, exit_status: int) -> None:
    """Let a container whose task has ended run another one, or end."""
    state.containers[container].task = -1
    app = state.containers[container].app
    tez = state.apps[app].framework == FrameworkCode.TEZ
    running = state.apps[app].state == AppState.RUNNING and exit_status == SUCCESS
    if not (tez and parameters.tez_reuse and running and reuse(state, parameters, container)):
        end_container(state, parameters, container, exit_status)


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
def fill_executor(state: State, parameters: SimulationParameters, container: int) -> None:
    """Give an executor as many tasks as it has slots."""
    held = state.containers[container]
    while held.busy < held.slots:
        row = waiting_stage(state, held.app)
        if row < 0:
            break
        held.busy += 1
        state.apps[held.app].busy += 1
        start_task(state, parameters, row, state.rows[row].head, container)
    if held.busy == 0:
        held.idle_ms = state.clock[NOW]


@inner
def fill_executors(state: State, parameters: SimulationParameters, app: int) -> None:
    """Give tasks to every executor with free slots."""
    container = state.apps[app].first_container
    while container >= 0:
        if state.containers[container].busy < state.containers[container].slots:
            fill_executor(state, parameters, container)
        container = state.containers[container].app_next


@inner
def executor_ready(state: State, parameters: SimulationParameters, container: int, stamp: int) -> None:
    """An executor has registered with its driver."""
    held = state.containers[container]
    if held.stamp == stamp and held.state == ContainerState.HELD and not state.nodes[held.node].down:
        held.slots = parameters.spark_slots
        fill_executor(state, parameters, container)


@inner
def tasks_left(state: State, app: int) -> int:
    """Return the number of runnable waiting tasks."""
    left = 0
    first = state.apps[app].first_row
    for row in range(first, first + state.apps[app].rows):
        if state.rows[row].kind == RowKind.INSIDE:
            left += state.rows[row].waiting
    return left


@inner
def ask_for_executors(state: State, parameters: SimulationParameters, app: int, row: int) -> int:
    """Set the number of requested executors (ExecutorAllocationManager); return the time of the next check, or -1."""
    now = state.clock[NOW]
    waiting = tasks_left(state, app)
    again = -1
    if parameters.spark_dynamic:
        slots = parameters.spark_slots
        needed = min((waiting + state.apps[app].busy + slots - 1) // slots, parameters.spark_max)
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
        idle = release_idle(state, parameters, app)
        if idle >= 0 and (again < 0 or idle < again):
            again = idle
    set_count(state, row, max(state.apps[app].target - state.apps[app].executors, 0))
    return again


@inner
def release_idle(state: State, parameters: SimulationParameters, app: int) -> int:
    """Release executors that were idle for too long; return when the next one expires, or -1."""
    now, soonest = state.clock[NOW], -1
    container = state.apps[app].first_container
    while container >= 0:
        following = state.containers[container].app_next
        held = state.containers[container]
        if held.state == ContainerState.HELD and held.slots > 0 and held.busy == 0:
            due = held.idle_ms + parameters.spark_idle_ms
            if due <= now:
                state.apps[app].executors -= 1
                end_container(state, parameters, container, SUCCESS)
            elif soonest < 0 or due < soonest:
                soonest = due
        container = following
    return soonest


@inner
def has_master(state: State, app: int) -> bool:
    """Return whether the application's AM runs in a container; it does unless the scenario disables that."""
    return state.apps[app].rows > 0 and state.rows[state.apps[app].first_row].kind == RowKind.MASTER


@inner
def may_activate(state: State, app: int) -> bool:
    """Return whether the queue's limit of application masters admits one more; the first one is always admitted."""
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
    """Let an application request its AM container."""
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
    """Submit an application."""
    show_app(state, app, ITSELF)
    queue = state.apps[app].queue
    if state.queues[queue].first_pending < 0 and may_activate(state, app):
        activate(state, parameters, app)
    else:
        put_off(state, app)


@inner
def put_off(state: State, app: int) -> None:
    """Queue an application until the limit of application masters admits it."""
    queue = state.apps[app].queue
    state.apps[app].state = AppState.PENDING
    if state.queues[queue].first_pending < 0:
        state.queues[queue].first_pending = app
    else:
        state.apps[state.queues[queue].last_pending].next_pending = app
    state.queues[queue].last_pending = app


@inner
def finish(state: State, parameters: SimulationParameters, app: int, failed: bool) -> None:
    """Unregister or fail an application: release its containers, and activate others."""
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
    """Register an application master."""
    if state.apps[app].state == AppState.STARTING:
        registered(state, parameters, app)
        wake(state, parameters, app, state.clock[NOW])


@inner
def registered(state: State, parameters: SimulationParameters, app: int) -> None:
    """Start an application: the tasks of root stages may be requested."""
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
    """Process an application master's heartbeat."""
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
