"""What happens: the loop over events, and what each kind does.

Nodes that fail and come back, and the containers on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.simulator import inner, kernel
from treadle.events import NodeState
from treadle.simulator.cluster import tasks as chance
from treadle.simulator.cluster.applications import (
    arrive,
    container_is_through,
    executor_ready,
    fill_executor,
    fill_executors,
    finish,
    has_master,
    heartbeat,
    started,
    wake,
)
from treadle.simulator.cluster.containers import FAILED, changed, free_container, reported
from treadle.simulator.cluster.event_queue import is_due, pop, schedule
from treadle.simulator.cluster.state import (
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
    set_count,
    show_app,
    show_node,
)
from treadle.simulator.cluster.tasks import exponential, fails, stop_task, task_done
from treadle.yarn.codes import ABORTED, SUCCESS

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import SimulationParameters, State


@inner
def schedule_failure(state: State, parameters: SimulationParameters, node: int) -> None:
    """Let a node fail some time from now, unless that is beyond the end of the simulation."""
    if parameters.node_mtbf_ms <= 0.0:
        return
    up_ms = exponential(parameters.node_mtbf_ms, parameters.seed, chance.NODE_UP, node, state.nodes[node].failures)
    at_ms = float(state.clock[NOW]) + up_ms
    if at_ms < float(parameters.horizon_ms):
        # at least a millisecond later, so that time goes on however often nodes fail
        schedule(state, max(int(at_ms), state.clock[NOW] + 1), EventKind.NODE_FAILS, node, 0)


@inner
def fail_node(state: State, parameters: SimulationParameters, node: int) -> None:
    """A node stops: what runs on it is lost at once, which the RM notices later; it places nothing there meanwhile."""
    state.nodes[node].down = 1
    state.nodes[node].state = NodeState.UNUSABLE
    show_node(state, node)
    container = state.nodes[node].first_container
    while container >= 0:
        stop_tasks_in(state, container, False)
        container = state.containers[container].node_next
    turn = state.nodes[node].failures
    state.nodes[node].failures += 1
    down_ms = int(exponential(parameters.node_repair_ms, parameters.seed, chance.NODE_DOWN, node, turn))
    schedule(state, state.clock[NOW] + down_ms, EventKind.NODE_RETURNS, node, 0)
    schedule(state, state.clock[NOW] + parameters.node_detection_ms, EventKind.NODE_LOST, node, turn)


@inner
def stop_tasks_in(state: State, container: int, again: bool) -> None:
    """Make the ends of the tasks in a container void; with ``again`` let them wait for another one."""
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
    """Void a task's end, or let it wait for another container."""
    if not again:
        state.tasks[task].attempt += 1
        return
    stage = state.tasks[task].row
    early = state.tasks[task].state == TaskState.EARLY
    stop_task(state, task, stage if early else state.rows[stage].retries)
    state.clock[TASKS_LOST] += 1


@inner
def lose_containers(state: State, parameters: SimulationParameters, node: int) -> None:
    """The RM takes all containers of a node for lost, and reports that to their application masters."""
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
    """Take a container out of the list of those that its application master has not heard of."""
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
    """The RM gives a node up that has been silent for too long."""
    if state.nodes[node].down and state.nodes[node].failures == turn + 1:
        lose_containers(state, parameters, node)
        state.nodes[node].state = NodeState.GONE
        show_node(state, node)


@inner
def return_node(state: State, parameters: SimulationParameters, node: int) -> None:
    """A node comes back, empty."""
    lose_containers(state, parameters, node)
    state.nodes[node].down = 0
    state.nodes[node].state = NodeState.USABLE
    show_node(state, node)
    schedule_failure(state, parameters, node)


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
