"""The event kernel: a pool of events, a wheel of slots for those far ahead, a heap for those that are near.

A slot is the list of the events of a stretch of time; slots repeat after a turn of the wheel, so that one may hold
events of later turns, which stay. Events of stretches that were begun are in the heap, which gives them in order of
their time and, at the same instant, in the order in which they were scheduled. All of it is exact to the millisecond
and costs a few comparisons an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.simulator import inner, kernel
from treadle.simulator.cluster.state import DRAINED, EVENTS, EVENTS_FREE, HEAP_SIZE, ORDER, OUT_OF_ROOM

if TYPE_CHECKING:
    from treadle.compiled.array_types import I32, I64
    from treadle.simulator.cluster.state import State

SLOT_MS: Final = 8


@inner
def schedule(state: State, time_ms: int, kind: int, subject: int, stamp: int) -> None:
    """Let something happen at an instant, which must not be over; by ``stamp`` the receiver recognises stale ones."""
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
    """Say whether event ``a`` comes before event ``b``."""
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
    """Take the first event off the heap and give its place in the pool back; its columns stay until the next push."""
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
    """Put the events of the next stretch of time on the heap."""
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
    """Say whether there is an event at or before an instant; the first one is then on top of the heap."""
    while state.clock[DRAINED] <= until_ms:
        drain_slot(state)
    return state.clock[HEAP_SIZE] > 0 and state.events[state.heap[0]].time_ms <= until_ms


@kernel
def next_time(state: State) -> int:
    """Return when the next event is, or -1 if none is to come."""
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
