"""The tables of a simulation for compiled code, one record per row, and its event queue."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.compiled.functions import tables
from treadle.compiled.simulator import inner, kernel


class EventKind(IntEnum):
    """Kinds of events."""

    JOB_ARRIVES = 0
    AM_STARTED = 1
    AM_HEARTBEAT = 2
    TASK_ENDS = 3
    EXECUTOR_READY = 4
    CONTAINER_REPORTED = 5
    NODE_FAILS = 6
    NODE_LOST = 7
    NODE_RETURNS = 8
    NODE_CHANGES = 9
    """With contention: a task on the node starts or ends."""


class RowKind(IntEnum):
    """Kinds of containers, by request key."""

    MASTER = 0
    TASKS = 1
    RETRIES = 2
    EXECUTORS = 3
    INSIDE = 4
    """A stage whose tasks run in executors: it has no requests."""


class AppState(IntEnum):
    """State of an application."""

    AHEAD = 0
    PENDING = 1
    """Submitted, not activated: the limit of its queue's application masters is reached."""
    STARTING = 2
    RUNNING = 3
    FINISHED = 4


class TaskState(IntEnum):
    """State of a task."""

    HIDDEN = 0
    """Its application master does not request it yet."""
    WAITING = 1
    EARLY = 2
    """In a container, waiting for stages before it (MapReduce's and Tez's slow start)."""
    RUNNING = 3
    DONE = 4


class ContainerState(IntEnum):
    """State of a container."""

    FREE = 0
    NEW = 1
    """Allocated; its application master does not know it yet."""
    HELD = 2
    ENDING = 3
    """Ended; its node has not reported it."""


class FrameworkCode(IntEnum):
    """`treadle.workload.job.Framework` as a number."""

    MAPREDUCE = 0
    TEZ = 1
    SPARK = 2


EVENT: Final = np.dtype(
    [("time_ms", "i8"), ("order", "i8"), ("kind", "i4"), ("subject", "i4"), ("stamp", "i4"), ("next", "i4")], align=True
)

NODE: Final = np.dtype(
    [
        ("rack", "i4"),
        ("state", "u1"),  # `treadle.events.NodeState`, as the RM sees it
        ("down", "u1"),
        ("phase_ms", "i8"),  # offset of its heartbeats
        ("first_container", "i4"),
        ("failures", "i4"),
        ("settled_ms", "i8"),  # with contention: time up to which its tasks' remaining time is computed
        ("look_ms", "i8"),  # with contention: time of the next update, if any
    ],
    align=True,
)

QUEUE: Final = np.dtype(
    [
        ("parent", "i4"),
        ("active", "i4"),  # applications
        ("first_pending", "i4"),
        ("last_pending", "i4"),
    ],
    align=True,
)

APPLICATION: Final = np.dtype(
    [
        ("arrival_ms", "i8"),
        ("started_ms", "i8"),  # its first task, or -1
        ("finish_ms", "i8"),
        ("beat_ms", "i8"),  # time of its next heartbeat, or -1
        ("phase_ms", "i8"),
        ("grow_ms", "i8"),  # Spark: when the executor target may grow again
        ("starved_ms", "i8"),  # since when runnable tasks have no container while others wait for them, or -1
        ("own_version", "i8"),  # its version of the last change other than usage
        ("queue", "i4"),
        ("next_pending", "i4"),
        ("first_row", "i4"),
        ("rows", "i4"),
        ("stages_left", "i4"),
        ("containers", "i4"),
        ("first_container", "i4"),
        ("new_head", "i4"),
        ("new_tail", "i4"),
        ("master", "i4"),  # its AM container, or -1
        ("containers_ever", "i4"),  # number of containers so far
        ("executors", "i4"),
        ("target", "i4"),  # Spark: executor target
        ("step", "i4"),  # Spark: next increment of the target
        ("busy", "i4"),  # Spark: tasks in executors
        ("framework", "u1"),
        ("state", "u1"),
        ("failed", "u1"),
        ("awaiting_am", "u1"),
    ],
    align=True,
)

ROW: Final = np.dtype(
    [
        ("app", "i4"),
        ("key", "i4"),
        ("priority", "i4"),
        ("serves", "i4"),  # the row of the stage whose tasks its containers run
        ("retries", "i4"),  # the row that requests failed tasks of this stage
        ("tasks", "i4"),
        ("first_task", "i4"),
        ("count", "i4"),  # requested and not allocated, as seen by the RM
        ("head", "i4"),  # waiting tasks, in order
        ("tail", "i4"),
        ("waiting", "i4"),
        ("held", "i4"),  # tasks in containers, those that wait for input included
        ("early", "i4"),  # those of them that wait for input
        ("done", "i4"),
        ("began_ms", "i8"),  # when its first task began, or -1
        ("ended_ms", "i8"),  # total duration of its ended tasks
        ("blockers", "i4"),  # unfinished predecessors, not one to one
        ("paired", "i4"),  # one-to-one stages before it
        ("first_parent", "i4"),
        ("parents", "i4"),
        ("first_child", "i4"),
        ("children", "i4"),
        ("first_place", "i4"),
        ("places", "i4"),
        ("bound", "i4"),  # its requirements, a row of `State.allowed`; -1: none
        ("kind", "u1"),
        ("released", "u1"),  # its tasks are in the waiting list
        ("places_open", "u1"),  # its localities have changed and were not read while it had requests
        ("places_version", "i8"),  # its version of the last change of localities
    ],
    align=True,
)

TASK: Final = np.dtype(
    [
        ("duration_ms", "i8"),
        ("begin_ms", "i8"),  # of its latest attempt
        ("end_ms", "i8"),  # when it was completed, or -1
        ("left_ms", "f8"),  # with contention: remaining time at full speed
        ("rate", "f8"),  # with contention: its speed
        ("row", "i4"),  # of its stage
        ("next", "i4"),
        ("before", "i4"),
        ("container", "i4"),
        ("node", "i4"),  # of its latest attempt, or -1
        ("list", "i4"),  # the row in whose list it waits
        ("waits", "i4"),  # number of tasks of one-to-one predecessors that it waits for
        ("first_place", "i4"),  # in `task_places`
        ("places", "i4"),
        ("attempt", "i2"),
        ("failures", "i2"),
        ("state", "u1"),
    ],
    align=True,
)

CONTAINER: Final = np.dtype(
    [
        ("number", "i8"),
        ("created_ms", "i8"),
        ("ready_ms", "i8"),  # when its task may start
        ("idle_ms", "i8"),  # executors: idle since
        ("app", "i4"),
        ("row", "i4"),
        ("node", "i4"),
        ("task", "i4"),
        ("busy", "i4"),  # executors: tasks in it
        ("slots", "i4"),  # executors: number of slots; 0 until it is ready
        ("stamp", "i4"),
        ("exit_status", "i4"),
        ("next", "i4"),  # on the free list, or in the list of those unknown to the AM
        ("node_next", "i4"),
        ("node_before", "i4"),
        ("app_next", "i4"),
        ("app_before", "i4"),
        ("state", "u1"),
    ],
    align=True,
)

CONTAINER_STEP: Final = np.dtype(
    [
        ("container", "i8"),
        ("time_ms", "i8"),
        ("created_ms", "i8"),
        ("app", "i4"),
        ("row", "i4"),
        ("node", "i4"),
        ("exit_status", "i4"),
        ("event", "u1"),
        ("am", "u1"),
    ],
    align=True,
)

CHILD: Final = np.dtype([("row", "i4"), ("paired", "u1")], align=True)

PLACE: Final = np.dtype(
    [
        ("row", "i4"),
        ("where", "i4"),  # a node, or nodes + a rack
        ("count", "i4"),  # outstanding, as seen by the RM
        ("waiting", "i4"),  # waiting tasks with input here
        ("first_task", "i4"),  # in `place_tasks`
        ("tasks", "i4"),
    ],
    align=True,
)

# Places in `State.clock`.
NOW: Final = 0
ORDER: Final = 1  # events so far
DRAINED: Final = 2  # every event before this instant is in the heap
HEAP_SIZE: Final = 3
EVENTS_FREE: Final = 4  # first free place in the pool of events
EVENTS: Final = 5  # pending ones
CONTAINERS_FREE: Final = 6
CONTAINERS: Final = 7  # that are not free
CONTAINERS_EVER: Final = 8
VERSION: Final = 9  # the newest version
READ: Final = 10  # the newest version at the last read
CONTAINER_STEPS: Final = 11  # unread container steps
TASKS_DONE: Final = 12
TASKS_FAILED: Final = 13
TASKS_KILLED: Final = 14
TASKS_LOST: Final = 15  # with their nodes
FINISHED: Final = 16  # applications
PENDING: Final = 17  # requested containers
HANDLED: Final = 18  # events handled
UNUSED: Final = 19  # containers released by application masters without a use for them
OUT_OF_ROOM: Final = 20  # a table was too small: an error in the bounds below
CLOCKS: Final = 21


@tables
class SimulationParameters(NamedTuple):
    """Parameters of a simulation; see docs/scenarios.md."""

    node_heartbeat_ms: int
    am_heartbeat_ms: int
    launch_ms: int
    master_start_ms: int
    seed: int
    attempts_max: int
    task_failure: float
    straggler: float
    straggler_min: float
    straggler_max: float
    relaxed_slowdown: float
    node_mtbf_ms: float
    node_repair_ms: float
    node_detection_ms: int
    slow_start: float
    ramp_up_limit: float
    preemption_limit: float
    tez_min_fraction: float
    tez_max_fraction: float
    tez_preemption: float
    tez_reuse: int
    spark_slots: int
    spark_dynamic: int
    spark_initial: int
    spark_max: int
    spark_idle_ms: int
    horizon_ms: int


@tables
class State(NamedTuple):
    """All tables. ``*_used`` and the like have the shape (rows, R)."""

    clock: I64
    events: Records
    slots: I32
    heap: I32
    nodes: Records
    node_total: I64
    node_free: I64
    allowed: U8  # (bound, node): whether rows with these requirements may use it
    preferred: U8  # (bound, node): whether it also satisfies the preferences
    node_wanted: I64  # with contention: usage at full speed of the tasks that run on it; else no rows
    thrashing: F64  # by resource: with contention, the exponent of usage over capacity
    usage: F64  # (row, R): fraction of its request that a task uses; no rows if tasks use all of it
    queues: Records
    queue_maximum: I64
    queue_used: I64
    queue_pending: I64
    queue_am_limit: I64
    queue_am_used: I64
    queue_integral: F64  # (queue, R): integral of the usage over time in ms
    queue_since: I64  # time up to which the integral is computed
    apps: Records
    app_used: I64
    rows: Records
    capability: I64
    parents: I32
    children: Records
    tasks: Records
    task_places: I32
    places: Records
    place_tasks: I32
    containers: Records
    counted: U8
    versions: I64  # by node, application, row and queue, in this order: increases with each change
    latest: I32  # ring buffer: the place in `versions` that got a version, by version modulo the length
    container_steps: Records


USAGE: Final = 1
ITSELF: Final = 2


@inner
def renew(state: State, subject: int) -> bool:
    """Assign the next version to a place of `State.versions`; return whether that was necessary.

    A place that changes again before a read keeps its version, so that `State.latest` has it once; a reader that lagged
    behind finds it at its first version since its own.
    """
    if state.versions[subject] > state.clock[READ]:
        return False
    version = state.clock[VERSION] + 1
    state.clock[VERSION] = version
    state.versions[subject] = version
    state.latest[version % len(state.latest)] = subject
    return True


@inner
def show_node(state: State, node: int) -> None:
    """Report the node in the next frames."""
    renew(state, node)


@inner
def show_app(state: State, app: int, what: int) -> None:
    """Report the application's usage in the next frames, or also the application itself."""
    subject = len(state.nodes) + app
    renew(state, subject)
    if what == ITSELF:
        state.apps[app].own_version = state.versions[subject]


@inner
def show_row(state: State, row: int) -> None:
    """Report the request key in the next frames. Call before a change of its count: it tells who has its localities."""
    if renew(state, len(state.nodes) + len(state.apps) + row) and state.rows[row].count > 0:
        state.rows[row].places_open = 0


@inner
def show_row_and_places(state: State, row: int) -> None:
    """Report the request key and its localities in the next frames."""
    show_row(state, row)
    state.rows[row].places_open = 1
    state.rows[row].places_version = state.versions[len(state.nodes) + len(state.apps) + row]


@inner
def show_queue(state: State, queue: int) -> None:
    """Report the queue's limits and usage in the next frames."""
    renew(state, len(state.nodes) + len(state.apps) + len(state.rows) + queue)


@inner
def set_count(state: State, row: int, count: int) -> None:
    """Set an application's requested containers of a row."""
    change = count - state.rows[row].count
    if change == 0:
        return
    show_row(state, row)
    state.rows[row].count = count
    state.clock[PENDING] += change
    queue = state.apps[state.rows[row].app].queue
    while queue >= 0:
        show_queue(state, queue)
        for r in range(len(state.counted)):
            state.queue_pending[queue, r] += change * state.capability[row, r]
        queue = state.queues[queue].parent


@inner
def integrate(state: State, queue: int) -> None:
    """Add the queue's usage since the last update to its integral over time."""
    elapsed = state.clock[NOW] - state.queue_since[queue]
    if elapsed > 0:
        for r in range(len(state.counted)):
            state.queue_integral[queue, r] += float(state.queue_used[queue, r]) * elapsed
        state.queue_since[queue] = state.clock[NOW]


@kernel
def integrate_all(state: State) -> None:
    """Update the integrals of all queues."""
    for queue in range(len(state.queues)):
        integrate(state, queue)


@inner
def use(state: State, row: int, node: int, sign: int) -> None:
    """Book a container of a row on a node (1), or remove it (-1)."""
    app = state.rows[row].app
    state.apps[app].containers += sign
    show_app(state, app, USAGE)
    show_node(state, node)
    for r in range(len(state.counted)):
        amount = sign * state.capability[row, r]
        state.node_free[node, r] -= amount
        state.app_used[app, r] += amount
    queue = state.apps[app].queue
    while queue >= 0:
        integrate(state, queue)
        show_queue(state, queue)
        for r in range(len(state.counted)):
            state.queue_used[queue, r] += sign * state.capability[row, r]
        queue = state.queues[queue].parent


@inner
def fits_queues(state: State, row: int) -> bool:
    """Return whether one more container of a row stays within the maximum of every queue up to the root."""
    queue = state.apps[state.rows[row].app].queue
    while queue >= 0:
        for r in range(len(state.counted)):
            after = state.queue_used[queue, r] + state.capability[row, r]
            if state.counted[r] and after > state.queue_maximum[queue, r]:
                return False
        queue = state.queues[queue].parent
    return True


@inner
def headroom(state: State, app: int, r: int) -> int:
    """Return the application's headroom of a resource: the minimum over its queue and all parents."""
    room = 1 << 60
    queue = state.apps[app].queue
    while queue >= 0:
        room = min(room, state.queue_maximum[queue, r] - state.queue_used[queue, r])
        queue = state.queues[queue].parent
    return max(room, 0)


SLOT_MS: Final = 8


@inner
def schedule(state: State, time_ms: int, kind: int, subject: int, stamp: int) -> None:
    """Schedule an event at a time, which must not be past; the handler detects outdated events by ``stamp``."""
    clock, events = state.clock, state.events
    at = clock[EVENTS_FREE]
    if at < 0:
        clock[OUT_OF_ROOM] = 1
        return
    clock[EVENTS_FREE] = events[at].next
    clock[EVENTS] += 1
    clock[ORDER] += 1
    events[at].time_ms = time_ms
    events[at].order = clock[ORDER]
    events[at].kind = kind
    events[at].subject = subject
    events[at].stamp = stamp
    if time_ms < clock[DRAINED]:
        push(state, at)
    else:
        slot = (time_ms // SLOT_MS) % len(state.slots)
        events[at].next = state.slots[slot]
        state.slots[slot] = at


@inner
def is_earlier(state: State, a: int, b: int) -> bool:
    """Return whether event ``a`` comes before event ``b``."""
    if state.events[a].time_ms != state.events[b].time_ms:
        return state.events[a].time_ms < state.events[b].time_ms
    return state.events[a].order < state.events[b].order


@inner
def push(state: State, event: int) -> None:
    """Put an event on the heap."""
    heap = state.heap
    at = state.clock[HEAP_SIZE]
    state.clock[HEAP_SIZE] += 1
    while at > 0:
        above = (at - 1) // 2
        if not is_earlier(state, event, heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = event


@inner
def pop(state: State) -> int:
    """Pop the first event off the heap and free its place in the pool; its columns stay until the next push."""
    clock, heap = state.clock, state.heap
    first = heap[0]
    clock[HEAP_SIZE] -= 1
    size = clock[HEAP_SIZE]
    if size > 0:
        last, at = heap[size], 0
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            if child + 1 < size and is_earlier(state, heap[child + 1], heap[child]):
                child += 1
            if not is_earlier(state, heap[child], last):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
    state.events[first].next = clock[EVENTS_FREE]
    clock[EVENTS_FREE] = first
    clock[EVENTS] -= 1
    return first


@inner
def drain_slot(state: State) -> None:
    """Move the events of the next time slot to the heap."""
    clock, events = state.clock, state.events
    slot = (clock[DRAINED] // SLOT_MS) % len(state.slots)
    end = clock[DRAINED] + SLOT_MS
    at, kept = state.slots[slot], -1
    while at >= 0:
        following = events[at].next
        if events[at].time_ms < end:
            push(state, at)
        else:
            events[at].next = kept
            kept = at
        at = following
    state.slots[slot] = kept
    clock[DRAINED] = end


@inner
def is_due(state: State, until_ms: int) -> bool:
    """Return whether there is an event at or before a time; the first one is then on top of the heap."""
    while state.clock[DRAINED] <= until_ms:
        drain_slot(state)
    return state.clock[HEAP_SIZE] > 0 and state.events[state.heap[0]].time_ms <= until_ms


@kernel
def next_time(state: State) -> int:
    """Return the time of the next event, or -1 if there is none."""
    if state.clock[EVENTS] == 0:
        return -1
    while state.clock[HEAP_SIZE] == 0:
        drain_slot(state)
    return state.events[state.heap[0]].time_ms


@kernel
def schedule_all(state: State, kind: int, times_ms: I64, subjects: I32) -> None:
    """Schedule many events of a kind, in order."""
    for i in range(len(times_ms)):
        schedule(state, times_ms[i], kind, subjects[i], 0)
