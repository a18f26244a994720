"""Builds schedules in space-time: troublesome stages first (Graphene, figures 5 and 6).

A stage is placed into the earliest slots of all machines, many identical tasks at once (section 4.3). Time may be
reversed (`mirror`): to place a stage as late as possible before its children is to place it as early as possible after
them in the reversed problem. So there is only one placement.
"""

from __future__ import annotations

from typing import Final

from treadle.compiled.functions import inner, kernel
from treadle.planner.problem import FOREVER, I64, OVERFLOW, Order, Problem, Schedule, Space


@inner
def clear(problem: Problem, space: Space, schedule: Schedule) -> None:
    """Empty the space and the schedule."""
    schedule.used[0] = 0
    for m in range(problem.machines):
        space.size[m] = 1
        space.time[m, 0] = -FOREVER
        for r in range(len(problem.capacity)):
            space.free[m, 0, r] = problem.capacity[r]
    schedule.placed[:] = 0


@inner
def mirror(problem: Problem, space: Space, schedule: Schedule) -> None:
    """Reverse time: an interval from a to b becomes -b to -a."""
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
    for i in range(min(len(schedule.rows), schedule.used[0])):
        schedule.rows[i, 0] = -(schedule.rows[i, 0] + schedule.rows[i, 4] * problem.duration[schedule.rows[i, 1]])
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
    """Return when all barriers before a stage have passed, at least ``base``."""
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
    """Return the segment of a machine that contains a time."""
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
    """Insert a point in time at ``time``; return the segment that starts there, or OVERFLOW."""
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
    """Remove the point in time at which a segment starts if the previous segment has equal free amounts."""
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
    """Occupy the resources of ``copies`` tasks from ``start`` on; return OVERFLOW if the space is too small."""
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
    """Restore the heap below a position: earliest slot first, then lowest machine number."""
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
def note(schedule: Schedule, start: int, s: int, m: int, copies: int, length: int) -> None:
    """Record the start of tasks; extends the previous record if it continues that one."""
    count = schedule.used[0]
    if 0 < count <= len(schedule.rows):
        rows, at = schedule.rows, count - 1
        same = rows[at, 1] == s and rows[at, 2] == m and rows[at, 3] == copies
        if same and length > 0 and rows[at, 0] + rows[at, 4] * length == start:
            rows[at, 4] += 1
            return
    if count < len(schedule.rows):
        schedule.rows[count, 0] = start
        schedule.rows[count, 1] = s
        schedule.rows[count, 2] = m
        schedule.rows[count, 3] = copies
        schedule.rows[count, 4] = 1
    schedule.used[0] = count + 1


@inner
def place_tasks(problem: Problem, space: Space, schedule: Schedule, s: int, first: int, end: int, earliest: int) -> int:
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
        if len(schedule.rows):
            note(schedule, start, s, m, copies, problem.duration[s])
        put(problem, schedule, s, first, first + copies, start)
        first += copies
        if first == end:
            return 0
        offer(problem, space, m, s, start, end - first)
        sink(space, 0, problem.machines)


@inner
def put(problem: Problem, schedule: Schedule, s: int, first: int, end: int, start: int) -> None:
    """Store the start of tasks ``first`` to ``end - 1`` of a stage in the schedule, in order of time."""
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
def place(problem: Problem, space: Space, schedule: Schedule, s: int, base: int) -> int:
    """Place a stage after its predecessors, at ``base`` or later; return OVERFLOW if the space is too small."""
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
            if len(schedule.rows):
                note(schedule, start, s, 0, end - first, 0)
        elif place_tasks(problem, space, schedule, s, first, end, start) < 0:
            return OVERFLOW
        first = end
    return 0


# The subsets of a division, as values of `part`.
TROUBLESOME: Final = 0
SIBLINGS: Final = 1
PARENTS: Final = 2
CHILDREN: Final = 3

FORWARD: Final = 0
BACKWARD: Final = 1

# The orders without dead ends; T always comes first.
SCP: Final = 0
SPC: Final = 1
PSC: Final = 2
CSP: Final = 3


@inner
def span(schedule: Schedule, stages: int) -> int:
    """Return the time from the first start to the last end of the placed tasks."""
    first, last = FOREVER, -FOREVER
    for s in range(stages):
        if schedule.placed[s]:
            first = min(first, schedule.first[s])
            last = max(last, schedule.last[s])
    return max(last - first, 0)


@inner
def place_part(
    problem: Problem, space: Space, schedule: Schedule, order: Order, part: I64, wanted: int, priority: I64
) -> int:
    """Place a subset: always the ready stage with the highest priority, as early as possible.

    A stage is ready when its predecessors inside the subset are placed. Others are either placed already, or will be
    placed in the other direction before it.
    """
    base = earliest(problem, schedule)
    count = find_ready(problem, order, part, wanted)
    while count > 0:
        s = pick_ready(problem, order, count, priority)
        count -= 1
        if place(problem, space, schedule, s, base) < 0:
            return OVERFLOW
        for e in range(problem.after_at[s], problem.after_at[s + 1]):
            other = problem.after[e]
            if part[other] == wanted:
                order.waiting[other] -= 1
                if order.waiting[other] == 0:
                    order.ready[count] = other
                    count += 1
    return 0


@inner
def earliest(problem: Problem, schedule: Schedule) -> int:
    """Return the first start of the placed tasks, or 0."""
    first = FOREVER
    for s in range(len(problem.tasks)):
        if schedule.placed[s]:
            first = min(first, schedule.first[s])
    return 0 if first == FOREVER else first


@inner
def find_ready(problem: Problem, order: Order, part: I64, wanted: int) -> int:
    """Count the predecessors inside a subset for each of its stages; return how many stages are ready."""
    count = 0
    for s in range(len(problem.tasks)):
        if part[s] == wanted:
            order.waiting[s] = 0
            for e in range(problem.before_at[s], problem.before_at[s + 1]):
                if part[problem.before[e]] == wanted:
                    order.waiting[s] += 1
            if order.waiting[s] == 0:
                order.ready[count] = s
                count += 1
    return count


@inner
def pick_ready(problem: Problem, order: Order, count: int, priority: I64) -> int:
    """Remove the ready stage with the highest priority; ties go to the first in the DAG's time."""
    best = 0
    for i in range(1, count):
        a, b = order.ready[i], order.ready[best]
        if priority[a] > priority[b] or (priority[a] == priority[b] and (a < b) != (problem.backward == 1)):
            best = i
    s = order.ready[best]
    order.ready[best] = order.ready[count - 1]
    return s


@inner
def subset_at(order_code: int, step: int) -> int:
    """Return which subset is placed at a step after T."""
    if order_code == SCP:
        return (SIBLINGS, CHILDREN, PARENTS)[step]
    if order_code == SPC:
        return (SIBLINGS, PARENTS, CHILDREN)[step]
    if order_code == PSC:
        return (PARENTS, SIBLINGS, CHILDREN)[step]
    return (CHILDREN, SIBLINGS, PARENTS)[step]


@inner
def direction_of(subset: int, order_code: int, siblings: int) -> int:
    """Return the direction in which a subset may be placed; S right after T may have either."""
    if subset == PARENTS or (subset == SIBLINGS and order_code == CSP):
        return BACKWARD
    if subset == CHILDREN or order_code == PSC:
        return FORWARD
    return siblings


@kernel
def construct(
    problem: Problem,
    turned: Problem,
    space: Space,
    schedule: Schedule,
    order: Order,
    part: I64,
    order_code: int,
    troublesome: int,
    siblings: int,
    steps: int,
    forward_priority: I64,
    backward_priority: I64,
) -> int:
    """Place T, then ``steps`` of the other subsets; return the length of the schedule, or OVERFLOW.

    ``turned`` is the reversed problem; ``troublesome`` and ``siblings`` are the directions of T and, where S comes
    right after it, of S. The schedule starts at 0.
    """
    clear(problem, space, schedule)
    at = FORWARD
    for step in range(-1, steps):
        subset = TROUBLESOME
        direction = troublesome
        if step >= 0:
            subset = subset_at(order_code, step)
            direction = direction_of(subset, order_code, siblings)
        if direction != at:
            mirror(problem, space, schedule)
            at = direction
        if direction == FORWARD:
            done = place_part(problem, space, schedule, order, part, subset, forward_priority)
        else:
            done = place_part(turned, space, schedule, order, part, subset, backward_priority)
        if done < 0:
            return OVERFLOW
    if at == BACKWARD:
        mirror(problem, space, schedule)
    shift(problem, schedule)
    return span(schedule, len(problem.tasks))


@inner
def shift(problem: Problem, schedule: Schedule) -> None:
    """Shift the schedule to start at 0."""
    first = earliest(problem, schedule)
    for s in range(len(problem.tasks)):
        if schedule.placed[s]:
            schedule.first[s] -= first
            schedule.last[s] -= first
            for g in range(problem.group_at[s], problem.group_at[s + 1]):
                schedule.low[g] -= first
                schedule.high[g] -= first
    for i in range(min(len(schedule.rows), schedule.used[0])):
        schedule.rows[i, 0] -= first


@inner
def sort_by_end(schedule: Schedule, stages: I64) -> None:
    """Convert a list to one for the reversed problem: latest end first, then in reverse order."""
    count = len(stages)
    for i in range(count // 2):
        stages[i], stages[count - 1 - i] = stages[count - 1 - i], stages[i]
    for i in range(1, count):
        s = stages[i]
        j = i - 1
        while j >= 0 and schedule.last[stages[j]] < schedule.last[s]:
            stages[j + 1] = stages[j]
            j -= 1
        stages[j + 1] = s
