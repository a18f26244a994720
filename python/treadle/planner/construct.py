"""Building schedules in space-time: troublesome stages first (Graphene, figures 5 and 6), and by a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner, kernel
from treadle.planner.problem import FOREVER, OVERFLOW
from treadle.planner.space_time import clear, mirror, place

if TYPE_CHECKING:
    from treadle.planner.problem import I64, Order, Problem, Record, Schedule, Space

# The subsets of a division, as `part` has them.
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
    """Return the time from the first start to the last end of what is placed."""
    first, last = FOREVER, -FOREVER
    for s in range(stages):
        if schedule.placed[s]:
            first = min(first, schedule.first[s])
            last = max(last, schedule.last[s])
    return max(last - first, 0)


@inner
def place_part(
    problem: Problem,
    space: Space,
    schedule: Schedule,
    order: Order,
    part: I64,
    wanted: int,
    priority: I64,
    record: Record,
) -> int:
    """Place a subset: of its ready stages always the one with the greatest priority, as early as it can be.

    A stage is ready when all that it waits for inside the subset is placed. What it waits for outside of it is either
    placed or will be placed the other way, before it.
    """
    base = earliest(problem, schedule)
    count = find_ready(problem, order, part, wanted)
    while count > 0:
        s = pick_ready(problem, order, count, priority)
        count -= 1
        if place(problem, space, schedule, s, base, record) < 0:
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
    """Return the first start of what is placed, or 0."""
    first = FOREVER
    for s in range(len(problem.tasks)):
        if schedule.placed[s]:
            first = min(first, schedule.first[s])
    return 0 if first == FOREVER else first


@inner
def find_ready(problem: Problem, order: Order, part: I64, wanted: int) -> int:
    """Count for each stage of a subset what it waits for inside it; return how many are ready."""
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
    """Remove the ready stage with the greatest priority, of equals the one that comes first in the DAG's time."""
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
    """Return the one direction in which a subset may be placed; S right after T may go either way."""
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
    record: Record,
) -> int:
    """Place T, then ``steps`` of the other subsets; return how long what is placed takes, or OVERFLOW.

    ``turned`` is the reversed problem; ``troublesome`` and ``siblings`` are the directions of T and, where S comes
    right after it, of S. The schedule starts at 0.
    """
    clear(problem, space, schedule, record)
    at = FORWARD
    for step in range(-1, steps):
        subset = TROUBLESOME
        direction = troublesome
        if step >= 0:
            subset = subset_at(order_code, step)
            direction = direction_of(subset, order_code, siblings)
        if direction != at:
            mirror(problem, space, schedule, record)
            at = direction
        if direction == FORWARD:
            done = place_part(problem, space, schedule, order, part, subset, forward_priority, record)
        else:
            done = place_part(turned, space, schedule, order, part, subset, backward_priority, record)
        if done < 0:
            return OVERFLOW
    if at == BACKWARD:
        mirror(problem, space, schedule, record)
    shift(problem, schedule, record)
    return span(schedule, len(problem.tasks))


@inner
def shift(problem: Problem, schedule: Schedule, record: Record) -> None:
    """Let the schedule start at 0."""
    first = earliest(problem, schedule)
    for s in range(len(problem.tasks)):
        if schedule.placed[s]:
            schedule.first[s] -= first
            schedule.last[s] -= first
            for g in range(problem.group_at[s], problem.group_at[s + 1]):
                schedule.low[g] -= first
                schedule.high[g] -= first
    for i in range(min(len(record.rows), record.used[0])):
        record.rows[i, 0] -= first


@inner
def decode(problem: Problem, space: Space, schedule: Schedule, stages: I64, record: Record) -> int:
    """Place all stages in the order of a list, each as early as it can be; return the makespan, or OVERFLOW."""
    clear(problem, space, schedule, record)
    for s in stages:
        if place(problem, space, schedule, s, 0, record) < 0:
            return OVERFLOW
    return span(schedule, len(problem.tasks))


@inner
def sort_by_end(schedule: Schedule, stages: I64) -> None:
    """Turn a list into that of the reversed problem: latest end first, else in reverse."""
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


@inner
def justify(
    problem: Problem, turned: Problem, space: Space, schedule: Schedule, stages: I64, passes: int, record: Record
) -> int:
    """Decode a list forward, then ``passes`` times backward and forward again by ends (Valls et al., EJOR 165, 2005).

    The list ends as the order of starts of the result; returns the makespan, which no pass makes longer where stages
    are single tasks, or OVERFLOW.
    """
    length = decode(problem, space, schedule, stages, record)
    for _ in range(passes):
        if length < 0:
            return OVERFLOW
        sort_by_end(schedule, stages)
        if decode(turned, space, schedule, stages, record) < 0:
            return OVERFLOW
        sort_by_end(schedule, stages)
        length = decode(problem, space, schedule, stages, record)
    return length


@kernel
def justify_list(
    problem: Problem,
    turned: Problem,
    space: Space,
    schedule: Schedule,
    stages: I64,
    passes: int,
    record: Record,
) -> int:
    """Decode a list and improve it, as `justify`."""
    return justify(problem, turned, space, schedule, stages, passes, record)
