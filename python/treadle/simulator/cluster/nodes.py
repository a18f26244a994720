"""Nodes that fail and come back, and the containers on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.simulator import inner
from treadle.events import NodeState
from treadle.simulator.cluster import tasks as chance
from treadle.simulator.cluster.application_masters import wake
from treadle.simulator.cluster.applications import has_master
from treadle.simulator.cluster.containers import free_container
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import (
    NOW,
    TASKS_LOST,
    AppState,
    ContainerState,
    EventKind,
    RowKind,
    TaskState,
)
from treadle.simulator.cluster.tasks import exponential, stop_task
from treadle.simulator.cluster.usage import ITSELF, set_count, show_app, show_node
from treadle.yarn.codes import ABORTED

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
