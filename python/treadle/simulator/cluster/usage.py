"""The RM's books: what is used, what is asked for, and which rows the next frame must tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner, kernel
from treadle.simulator.cluster.state import DIRTY_APPS, DIRTY_NODES, DIRTY_ROWS, NOW, PENDING

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import State

USAGE: Final = 1
ITSELF: Final = 2


@inner
def tell_node(state: State, node: int) -> None:
    """Let the next frame have the node."""
    if not state.nodes[node].dirty:
        state.nodes[node].dirty = 1
        state.dirty_nodes[state.clock[DIRTY_NODES]] = node
        state.clock[DIRTY_NODES] += 1


@inner
def tell_app(state: State, app: int, what: int) -> None:
    """Let the next frame have the application's usage, or the application itself too."""
    if not state.apps[app].dirty:
        state.dirty_apps[state.clock[DIRTY_APPS]] = app
        state.clock[DIRTY_APPS] += 1
    state.apps[app].dirty |= what


@inner
def tell_row(state: State, row: int) -> None:
    """Let the next frame have the request key."""
    if not state.rows[row].dirty:
        state.rows[row].dirty = 1
        state.dirty_rows[state.clock[DIRTY_ROWS]] = row
        state.clock[DIRTY_ROWS] += 1


@inner
def set_count(state: State, row: int, count: int) -> None:
    """Let the application ask for so many containers of a row from now on."""
    change = count - state.rows[row].count
    if change == 0:
        return
    state.rows[row].count = count
    tell_row(state, row)
    state.clock[PENDING] += change
    queue = state.apps[state.rows[row].app].queue
    while queue >= 0:
        state.queues[queue].dirty = 1
        for r in range(len(state.counted)):
            state.queue_pending[queue, r] += change * state.capability[row, r]
        queue = state.queues[queue].parent


@inner
def integrate(state: State, queue: int) -> None:
    """Add what the queue used since it was last looked at to its integral over time."""
    elapsed = state.clock[NOW] - state.queue_since[queue]
    if elapsed > 0:
        for r in range(len(state.counted)):
            state.queue_integral[queue, r] += float(state.queue_used[queue, r]) * elapsed
        state.queue_since[queue] = state.clock[NOW]


@kernel
def integrate_all(state: State) -> None:
    """Bring the integrals of all queues up to now."""
    for queue in range(len(state.queues)):
        integrate(state, queue)


@inner
def use(state: State, row: int, node: int, sign: int) -> None:
    """Book a container of a row on a node (1), or take it off (-1)."""
    app = state.rows[row].app
    state.apps[app].containers += sign
    tell_app(state, app, USAGE)
    tell_node(state, node)
    for r in range(len(state.counted)):
        amount = sign * state.capability[row, r]
        state.node_free[node, r] -= amount
        state.app_used[app, r] += amount
    queue = state.apps[app].queue
    while queue >= 0:
        integrate(state, queue)
        state.queues[queue].dirty = 1
        state.queues[queue].containers += sign
        for r in range(len(state.counted)):
            state.queue_used[queue, r] += sign * state.capability[row, r]
        queue = state.queues[queue].parent


@inner
def fits_queues(state: State, row: int) -> bool:
    """Say whether one more container of a row stays within the maximum of every queue up to the root."""
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
    """Return what the application may still get of a resource: what every queue up to the root leaves it."""
    room = 1 << 60
    queue = state.apps[app].queue
    while queue >= 0:
        room = min(room, state.queue_maximum[queue, r] - state.queue_used[queue, r])
        queue = state.queues[queue].parent
    return max(room, 0)
