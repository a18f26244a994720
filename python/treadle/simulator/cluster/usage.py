"""The RM's accounting: what is used, what is asked for, and when each row of a table changed.

A row that changes gets a version, the next number of one counter. A reader of the tables remembers the newest version
that there was, and reads next time what is newer (`treadle.simulator.feed`), so that there may be any number of
readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner, kernel
from treadle.simulator.cluster.state import NOW, PENDING, READ, VERSION

if TYPE_CHECKING:
    from treadle.simulator.cluster.state import State

USAGE: Final = 1
ITSELF: Final = 2


@inner
def renew(state: State, subject: int) -> bool:
    """Give what is at a place of `State.versions` the next version; return whether it was due.

    What changes again before anybody has read keeps its version, so that `State.latest` has it once; a reader that
    has not read meanwhile finds it at its first version since.
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
    """Let the next frames have the node."""
    renew(state, node)


@inner
def show_app(state: State, app: int, what: int) -> None:
    """Let the next frames have the application's usage, or the application itself too."""
    subject = len(state.nodes) + app
    renew(state, subject)
    if what == ITSELF:
        state.apps[app].own_version = state.versions[subject]


@inner
def show_row(state: State, row: int) -> None:
    """Let the next frames have the request key; before its count changes: who read it with asks has its places too."""
    if renew(state, len(state.nodes) + len(state.apps) + row) and state.rows[row].count > 0:
        state.rows[row].places_open = 0


@inner
def show_row_and_places(state: State, row: int) -> None:
    """Let the next frames have the request key, and what it asks for at nodes and racks."""
    show_row(state, row)
    state.rows[row].places_open = 1
    state.rows[row].places_version = state.versions[len(state.nodes) + len(state.apps) + row]


@inner
def show_queue(state: State, queue: int) -> None:
    """Let the next frames have the queue's limits and usage."""
    renew(state, len(state.nodes) + len(state.apps) + len(state.rows) + queue)


@inner
def set_count(state: State, row: int, count: int) -> None:
    """Let the application ask for this many containers of a row from now on."""
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
