"""Transactions of one of several engines: what an application gets in one answer is judged and committed together.

A transaction that must be whole is judged as if what comes before in it were there, and nothing of it is committed
unless all of it can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner, kernel
from treadle.events import Fate
from treadle.simulator.cluster.commit import commit_one, why_not

if TYPE_CHECKING:
    from treadle.compiled.array_types import I32, I64, U8
    from treadle.simulator.cluster.state import SimulationParameters, State

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
