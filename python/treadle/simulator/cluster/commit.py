"""What the RM does with proposals: check each against the state as it is now, and allocate or say why not.

Transactions of one of several engines: what an application gets in one answer is judged and committed together.

A transaction that must be whole is judged as if what comes before in it were there, and nothing of it is committed
unless all of it can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner, kernel
from treadle.events import Fate, NodeState
from treadle.simulator.cluster.applications import may_go, wake
from treadle.simulator.cluster.containers import LAUNCHED, allocate, log_step, take_places
from treadle.simulator.cluster.event_queue import schedule
from treadle.simulator.cluster.state import (
    ITSELF,
    NOW,
    PENDING,
    AppState,
    ContainerState,
    EventKind,
    RowKind,
    fits_queues,
    show_app,
    show_row,
)

if TYPE_CHECKING:
    from treadle.compiled.array_types import I32, I64, U8
    from treadle.simulator.cluster.state import SimulationParameters, State


@inner
def why_not(state: State, app: int, key: int, node: int) -> int:
    """Return the fate of a proposal, `Fate.COMMITTED` if nothing is against it."""
    if app < 0 or key < 0 or node < 0:
        return Fate.NEGATIVE
    if app >= len(state.apps) or node >= len(state.nodes) or state.apps[app].state == AppState.AHEAD:
        return Fate.OUT_OF_RANGE
    if state.apps[app].state == AppState.FINISHED:
        return Fate.UNKNOWN_APPLICATION
    if state.apps[app].state == AppState.PENDING:
        return Fate.INACTIVE_APPLICATION
    if key >= state.apps[app].rows:
        return Fate.UNKNOWN_REQUEST
    return why_not_here(state, state.apps[app].first_row + key, node)


@inner
def why_not_here(state: State, row: int, node: int) -> int:
    """Return the fate of a proposal for a row on a node, of an application that is active."""
    if state.rows[row].count <= 0:
        return Fate.NO_PENDING_ASK
    if state.nodes[node].state == NodeState.GONE:
        return Fate.UNKNOWN_NODE
    if state.nodes[node].state != NodeState.USABLE:
        return Fate.NODE_STALE
    if not may_go(state, row, node):
        return Fate.CONSTRAINT
    for r in range(len(state.counted)):
        if state.counted[r] and state.capability[row, r] > state.node_free[node, r]:
            return Fate.NODE_FULL
    if not fits_queues(state, row):
        return Fate.QUEUE_MAXIMUM
    return Fate.COMMITTED


@inner
def commit_one(state: State, parameters: SimulationParameters, row: int, node: int) -> int:
    """Allocate a container; return its number."""
    app = state.rows[row].app
    # Like `set_count`, but for the queues: they are reported with their other changes.
    show_row(state, row)
    state.rows[row].count -= 1
    state.clock[PENDING] -= 1
    queue = state.apps[app].queue
    while queue >= 0:
        for r in range(len(state.counted)):
            state.queue_pending[queue, r] -= state.capability[row, r]
        queue = state.queues[queue].parent
    take_places(state, row, node)
    container = allocate(state, row, node)
    if state.rows[row].kind == RowKind.MASTER:
        state.containers[container].state = ContainerState.HELD
        state.apps[app].master = container
        state.apps[app].awaiting_am = 0
        show_app(state, app, ITSELF)
        log_step(state, container, LAUNCHED, 0)
        schedule(state, state.clock[NOW] + parameters.master_start_ms, EventKind.AM_STARTED, app, 0)
        return state.containers[container].number
    if state.rows[row].kind == RowKind.EXECUTORS:
        state.apps[app].executors += 1
    if state.apps[app].new_tail >= 0:
        state.containers[state.apps[app].new_tail].next = container
    else:
        state.apps[app].new_head = container
    state.apps[app].new_tail = container
    if state.apps[app].state == AppState.RUNNING:
        wake(state, parameters, app, state.clock[NOW])
    return state.containers[container].number


@kernel
def commit(
    state: State, parameters: SimulationParameters, application: I32, key: I32, node: I32, fates: U8, numbers: I64
) -> int:
    """Commit what may be committed of an answer, in order, and fill in the fates; return how many were committed."""
    committed = 0
    for i in range(len(application)):
        fate = why_not(state, application[i], key[i], node[i])
        fates[i] = fate
        numbers[i] = 0
        if fate == Fate.COMMITTED:
            row = state.apps[application[i]].first_row + key[i]
            numbers[i] = commit_one(state, parameters, row, node[i])
            committed += 1
    return committed


OVER_CLAIM: Final = 254
"""In place of a fate: the row exceeds what its engine may use of the cluster."""

TO_JUDGE: Final = 255
"""In place of a fate: nothing is against the row yet."""


@inner
def judge(state: State, app: int, key: int, node: int, changed: int, room: I64) -> int:
    """Return the fate of a row; ``room`` is what its engine may still use."""
    fate = why_not(state, app, key, node)
    if fate == Fate.NODE_FULL and changed:
        return Fate.CHANGED
    if fate != Fate.COMMITTED:
        return fate
    row = state.apps[app].first_row + key
    for r in range(len(state.counted)):
        if state.counted[r] and state.capability[row, r] > room[r]:
            return OVER_CLAIM
    return Fate.COMMITTED


@inner
def pretend(state: State, row: int, node: int, room: I64, sign: int) -> None:
    """Take what a container of a row needs (1), or give it back (-1), without telling anybody."""
    state.rows[row].count -= sign
    queue = state.apps[state.rows[row].app].queue
    for r in range(len(state.counted)):
        amount = sign * state.capability[row, r]
        state.node_free[node, r] -= amount
        room[r] -= amount
    while queue >= 0:
        for r in range(len(state.counted)):
            state.queue_used[queue, r] += sign * state.capability[row, r]
        queue = state.queues[queue].parent


@inner
def judge_all(state: State, rows: tuple[I32, I32, I32], changed: U8, first: int, end: int, room: I64, fates: U8) -> int:
    """Judge the rows of a transaction, each after those before it; return how many cannot be committed.

    Of a transaction of which one cannot be nothing may be.
    """
    application, key, node = rows
    refused = 0
    for i in range(first, end):
        if fates[i] == TO_JUDGE:
            fates[i] = judge(state, application[i], key[i], node[i], changed[i], room)
        if fates[i] == Fate.COMMITTED:
            pretend(state, state.apps[application[i]].first_row + key[i], node[i], room, 1)
        else:
            refused += 1
    for i in range(first, end):
        if fates[i] == Fate.COMMITTED:
            pretend(state, state.apps[application[i]].first_row + key[i], node[i], room, -1)
            if refused > 0:
                fates[i] = Fate.TRANSACTION
    return refused


@kernel
def commit_transactions(
    state: State,
    parameters: SimulationParameters,
    rows: tuple[I32, I32, I32],
    changed: U8,
    first: I32,
    whole: U8,
    room: I64,
    fates: U8,
    numbers: I64,
) -> int:
    """Commit what may be committed of transactions, in order, and fill in the fates; return how many containers.

    Args:
        state: the tables
        parameters: of the simulation
        rows: application, request key and node of each proposal
        changed: 1 where others have committed on the node since the answer's base
        first: the first row of each transaction, and behind the last one how many rows there are
        whole: of each transaction, 1 if all of it is committed or nothing
        room: what the engine may still use of each resource; less afterwards
        fates: of each row; what is not `TO_JUDGE` stays
        numbers: of the containers, 0 where there is none
    """
    application, key, node = rows
    committed = 0
    for transaction in range(len(whole)):
        begin, end = first[transaction], first[transaction + 1]
        if whole[transaction] and judge_all(state, rows, changed, begin, end, room, fates) > 0:
            continue
        for i in range(begin, end):
            if not whole[transaction]:
                if fates[i] == TO_JUDGE:
                    fates[i] = judge(state, application[i], key[i], node[i], changed[i], room)
                if fates[i] != Fate.COMMITTED:
                    continue
            row = state.apps[application[i]].first_row + key[i]
            numbers[i] = commit_one(state, parameters, row, node[i])
            committed += 1
            for r in range(len(state.counted)):
                room[r] -= state.capability[row, r]
    return committed
