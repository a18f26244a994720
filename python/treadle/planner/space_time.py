"""Placing stages into space-time (Graphene, section 4.3): the earliest slots of all machines, many alike tasks at once.

Time may be turned round (`mirror`): to place a stage as late as possible before its children is to place it as early as
possible after them in the reversed problem. So there is only one placement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.planner.problem import FOREVER, OVERFLOW

if TYPE_CHECKING:
    from treadle.planner.problem import Problem, Record, Schedule, Space


@inner
def clear(problem: Problem, space: Space, schedule: Schedule, record: Record) -> None:
    """Empty the space and forget what was placed."""
    record.used[0] = 0
    for m in range(problem.machines):
        space.size[m] = 1
        space.time[m, 0] = -FOREVER
        for r in range(len(problem.capacity)):
            space.free[m, 0, r] = problem.capacity[r]
    schedule.placed[:] = 0


@inner
def mirror(problem: Problem, space: Space, schedule: Schedule, record: Record) -> None:
    """Turn time round: what lay from a to b lies from -b to -a."""
    for m in range(problem.machines):
        size = space.size[m]
        for i in range(size // 2):
            j = size - 1 - i
            for r in range(len(problem.capacity)):
                space.free[m, i, r], space.free[m, j, r] = space.free[m, j, r], space.free[m, i, r]
        i, j = 1, size - 1
        while i <= j:
            space.time[m, i], space.time[m, j] = -space.time[m, j], -space.time[m, i]
            i += 1
            j -= 1
    for i in range(min(len(record.rows), record.used[0])):
        record.rows[i, 0] = -(record.rows[i, 0] + record.rows[i, 4] * problem.duration[record.rows[i, 1]])
    for s in range(len(problem.tasks)):
        if schedule.placed[s]:
            schedule.first[s], schedule.last[s] = -schedule.last[s], -schedule.first[s]
            length = problem.duration[s]
            for g in range(problem.group_at[s], problem.group_at[s + 1]):
                schedule.low[g], schedule.high[g] = -(schedule.high[g] + length), -(schedule.low[g] + length)


@inner
def group_of(problem: Problem, s: int, task: int) -> int:
    """Return the group of the stage's ``task``-th task, counted in the problem's direction of time."""
    if problem.backward:
        task = problem.tasks[s] - 1 - task
    groups = problem.group_at[s + 1] - problem.group_at[s]
    return problem.group_at[s] + task * groups // problem.tasks[s]


@inner
def group_end(problem: Problem, s: int, task: int) -> int:
    """Return the first task behind the group of the stage's ``task``-th task."""
    count = problem.tasks[s]
    groups = problem.group_at[s + 1] - problem.group_at[s]
    if problem.backward:
        return count - -(-((count - 1 - task) * groups // count) * count // groups)
    return -(-(task * groups // count + 1) * count // groups)


@inner
def after_others(problem: Problem, schedule: Schedule, s: int, base: int) -> int:
    """Return when all barriers before a stage have been passed, at least ``base``."""
    earliest = base
    for e in range(problem.before_at[s], problem.before_at[s + 1]):
        other = problem.before[e]
        if schedule.placed[other] and not problem.before_single[e] and schedule.last[other] > earliest:
            earliest = schedule.last[other]
    return earliest


@inner
def after_partners(problem: Problem, schedule: Schedule, s: int, group: int, earliest: int) -> int:
    """Return when the one-to-one partners of a group's tasks have ended as well."""
    for e in range(problem.before_at[s], problem.before_at[s + 1]):
        other = problem.before[e]
        if schedule.placed[other] and problem.before_single[e]:
            g = problem.group_at[other] + group - problem.group_at[s]
            end = schedule.high[g] + problem.duration[other]
            if end > earliest:
                earliest = end
    return earliest


@inner
def segment_at(space: Space, m: int, time: int) -> int:
    """Return the segment of a machine in which a time lies."""
    low, high = 0, space.size[m] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if space.time[m, middle] <= time:
            low = middle
        else:
            high = middle - 1
    return low


@inner
def offer(problem: Problem, space: Space, m: int, s: int, earliest: int, wanted: int) -> None:
    """Set a machine's slot: the earliest start at which a task of the stage fits, and how many, up to ``wanted``."""
    start, length = earliest, problem.duration[s]
    at = segment_at(space, m, start)
    copies = wanted
    size = space.size[m]
    while True:
        for r in range(len(problem.capacity)):
            need = problem.demand[s, r]
            if space.free[m, at, r] < copies * need:
                copies = space.free[m, at, r] // need
        at += 1
        if copies == 0:
            start = space.time[m, at]
            copies = wanted
        elif at == size or space.time[m, at] >= start + length:
            break
    space.slot[m] = start
    space.copies[m] = copies


@inner
def cut_at(problem: Problem, space: Space, m: int, time: int) -> int:
    """Make a point in time at ``time``; return the segment that starts there, or OVERFLOW."""
    at = segment_at(space, m, time)
    if space.time[m, at] == time:
        return at
    size = space.size[m]
    if size == space.time.shape[1]:
        return OVERFLOW
    resources = len(problem.capacity)
    for i in range(size, at + 1, -1):
        space.time[m, i] = space.time[m, i - 1]
        for r in range(resources):
            space.free[m, i, r] = space.free[m, i - 1, r]
    space.time[m, at + 1] = time
    for r in range(resources):
        space.free[m, at + 1, r] = space.free[m, at, r]
    space.size[m] = size + 1
    return at + 1


@inner
def join_at(problem: Problem, space: Space, m: int, at: int) -> None:
    """Remove the point in time at which a segment starts if as much is free before it."""
    resources = len(problem.capacity)
    for r in range(resources):
        if space.free[m, at, r] != space.free[m, at - 1, r]:
            return
    for i in range(at, space.size[m] - 1):
        space.time[m, i] = space.time[m, i + 1]
        for r in range(resources):
            space.free[m, i, r] = space.free[m, i + 1, r]
    space.size[m] -= 1


@inner
def take(problem: Problem, space: Space, m: int, s: int, start: int, copies: int) -> int:
    """Take the room of ``copies`` tasks from ``start`` on; return OVERFLOW if the space is too small."""
    first = cut_at(problem, space, m, start)
    if first < 0:
        return OVERFLOW
    end = cut_at(problem, space, m, start + problem.duration[s])
    if end < 0:
        return OVERFLOW
    for at in range(first, end):
        for r in range(len(problem.capacity)):
            space.free[m, at, r] -= copies * problem.demand[s, r]
    join_at(problem, space, m, end)
    join_at(problem, space, m, first)
    return 0


@inner
def sink(space: Space, at: int, count: int) -> None:
    """Let the machine at a place of the heap sink to where it belongs: earliest slot first, then lowest number."""
    heap, slot = space.heap, space.slot
    moved = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        right = child + 1
        if right < count:
            a, b = heap[right], heap[child]
            if slot[a] < slot[b] or (slot[a] == slot[b] and a < b):
                child = right
        other = heap[child]
        if slot[other] > slot[moved] or (slot[other] == slot[moved] and other > moved):
            break
        heap[at] = other
        at = child
    heap[at] = moved


@inner
def note(record: Record, start: int, s: int, m: int, copies: int, length: int) -> None:
    """Record that tasks start; a run that goes on where one ended becomes part of it."""
    count = record.used[0]
    if 0 < count <= len(record.rows):
        rows, at = record.rows, count - 1
        same = rows[at, 1] == s and rows[at, 2] == m and rows[at, 3] == copies
        if same and length > 0 and rows[at, 0] + rows[at, 4] * length == start:
            rows[at, 4] += 1
            return
    if count < len(record.rows):
        record.rows[count, 0] = start
        record.rows[count, 1] = s
        record.rows[count, 2] = m
        record.rows[count, 3] = copies
        record.rows[count, 4] = 1
    record.used[0] = count + 1


@inner
def place_tasks(
    problem: Problem, space: Space, schedule: Schedule, s: int, first: int, end: int, earliest: int, record: Record
) -> int:
    """Place a stage's tasks ``first`` to ``end - 1`` into the earliest slots from ``earliest`` on."""
    for m in range(problem.machines):
        offer(problem, space, m, s, earliest, end - first)
        space.heap[m] = m
    for at in range(problem.machines // 2 - 1, -1, -1):
        sink(space, at, problem.machines)
    while True:
        m = space.heap[0]
        start, copies = space.slot[m], min(space.copies[m], end - first)
        if take(problem, space, m, s, start, copies) < 0:
            return OVERFLOW
        if len(record.rows):
            note(record, start, s, m, copies, problem.duration[s])
        put(problem, schedule, s, first, first + copies, start)
        first += copies
        if first == end:
            return 0
        offer(problem, space, m, s, start, end - first)
        sink(space, 0, problem.machines)


@inner
def put(problem: Problem, schedule: Schedule, s: int, first: int, end: int, start: int) -> None:
    """Note in the schedule that tasks ``first`` to ``end - 1`` of a stage start; they are put in order of time."""
    if first == 0:
        schedule.first[s] = start
    schedule.last[s] = start + problem.duration[s]
    g, final = group_of(problem, s, first), group_of(problem, s, end - 1)
    step = 1 if final >= g else -1
    if first > 0 and group_of(problem, s, first - 1) == g:
        schedule.high[g] = start
        if g == final:
            return
        g += step
    while True:
        schedule.low[g] = start
        schedule.high[g] = start
        if g == final:
            return
        g += step


@inner
def place(problem: Problem, space: Space, schedule: Schedule, s: int, base: int, record: Record) -> int:
    """Place a stage behind all that it waits for, at ``base`` or later; return OVERFLOW if the space is too small."""
    earliest = after_others(problem, schedule, s, base)
    single = False
    for e in range(problem.before_at[s], problem.before_at[s + 1]):
        if problem.before_single[e] and schedule.placed[problem.before[e]]:
            single = True
    schedule.placed[s] = 1
    schedule.first[s] = schedule.last[s] = earliest
    count = problem.tasks[s]
    first = 0
    while first < count:
        end, start = count, earliest
        if single:
            group = group_of(problem, s, first)
            end = group_end(problem, s, first)
            start = after_partners(problem, schedule, s, group, earliest)
        if problem.duration[s] == 0:
            put(problem, schedule, s, first, end, start)
            if len(record.rows):
                note(record, start, s, 0, end - first, 0)
        elif place_tasks(problem, space, schedule, s, first, end, start, record) < 0:
            return OVERFLOW
        first = end
    return 0
