"""The children of a population of lists: crossover, mutation, decoding, improvement.

Each child has random numbers of its own, from the search's seed and its index: so it is the same in any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.functions import inner, kernel
from treadle.planner.construct import justify, sort_by_end
from treadle.planner.follow import follow
from treadle.planner.problem import OVERFLOW

if TYPE_CHECKING:
    from treadle.planner.problem import F64, I64, U64, Cluster, Order, Problem, Record, Schedule, Space

IN_SPACE: Final = 0
"""Lists are placed into space-time, what counts is the planned makespan."""
FOLLOWED: Final = 1
"""Lists are followed by rank, what counts is the executed makespan."""

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_S30: Final = np.uint64(30)
_S27: Final = np.uint64(27)
_S31: Final = np.uint64(31)
_S33: Final = np.uint64(33)


@inner
def draw(state: U64) -> np.uint64:
    """Return 64 random bits (splitmix64)."""
    state[0] += _STEP
    z = state[0]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@inner
def below(state: U64, bound: int) -> int:
    """Return a random whole number from 0 to ``bound - 1``; ``bound`` is below 2**31."""
    return int(np.int64(draw(state) >> _S33) % bound)


@inner
def choose(state: U64, fitness: I64, count: int) -> int:
    """Return the better of two random parents."""
    a, b = below(state, count), below(state, count)
    return a if fitness[a] < fitness[b] or (fitness[a] == fitness[b] and a < b) else b


@inner
def cross(state: U64, mother: I64, father: I64, child: I64, taken: I64, mark: int) -> None:
    """Fill a child: a stretch of the mother's list stays where it is, the father orders what is before and behind.

    Precedence holds: two stages come in the order of one of the parents that has them both in the same part.
    """
    count = len(child)
    a, b = below(state, count + 1), below(state, count + 1)
    a, b = min(a, b), max(a, b)
    for i in range(a):
        child[i] = mother[i]
        taken[mother[i]] = mark
    at = a
    for i in range(count):
        if at == b:
            break
        if taken[father[i]] != mark:
            child[at] = father[i]
            taken[father[i]] = mark
            at += 1
    for i in range(count):
        if taken[mother[i]] != mark:
            child[at] = mother[i]
            at += 1


@inner
def waits_for(problem: Problem, s: int, other: int) -> bool:
    """Is there an edge from ``other`` to ``s``?"""
    found = False
    for e in range(problem.before_at[s], problem.before_at[s + 1]):
        found = found or problem.before[e] == other
    return found


@inner
def mutate(problem: Problem, state: U64, child: I64, per_mille: int) -> None:
    """Move some stages forward or backward in the list, as far as precedence and chance let them."""
    count = len(child)
    for i in range(count):
        if below(state, 1000) >= per_mille:
            continue
        s = child[i]
        far = 1 + below(state, max(1, count // 4))
        at = i
        if below(state, 2) == 0:
            while far > 0 and at > 0 and not waits_for(problem, s, child[at - 1]):
                child[at] = child[at - 1]
                at -= 1
                far -= 1
        else:
            while far > 0 and at < count - 1 and not waits_for(problem, child[at + 1], s):
                child[at] = child[at + 1]
                at += 1
                far -= 1
        child[at] = s


@inner
def copy(source: I64, target: I64) -> None:
    """Copy a list."""
    for i in range(len(source)):
        target[i] = source[i]


@inner
def rank_by_list(problem: Problem, stages: I64, key: I64) -> None:
    """Rank all groups of a stage by its place in a list."""
    for i in range(len(stages)):
        s = stages[i]
        for g in range(problem.group_at[s], problem.group_at[s + 1]):
            key[g] = i


@inner
def follow_list(
    problem: Problem,
    turned: Problem,
    cluster: Cluster,
    schedule: Schedule,
    stages: I64,
    kept: I64,
    passes: int,
    key: I64,
    rates: F64,
    record: Record,
) -> int:
    """Follow a list, then ``passes`` times the ends of the result, backward and forward; return the best makespan.

    The list becomes the best one; ``kept`` is scratch of its length.
    """
    rank_by_list(problem, stages, key)
    best = follow(problem, cluster, schedule, key, rates, record)
    copy(stages, kept)
    for _ in range(passes):
        if best < 0:
            return OVERFLOW
        sort_by_end(schedule, stages)
        rank_by_list(problem, stages, key)
        if follow(turned, cluster, schedule, key, rates, record) < 0:
            return OVERFLOW
        sort_by_end(schedule, stages)
        rank_by_list(problem, stages, key)
        length = follow(problem, cluster, schedule, key, rates, record)
        if length < 0:
            return OVERFLOW
        if length < best:
            best = length
            copy(stages, kept)
    copy(kept, stages)
    return best


@kernel
def breed(
    problem: Problem,
    turned: Problem,
    space: Space,
    schedule: Schedule,
    cluster: Cluster,
    order: Order,
    lists: I64,
    fitness: I64,
    alive: int,
    children: I64,
    child_fitness: I64,
    first: int,
    end: int,
    seed: U64,
    per_mille: int,
    passes: int,
    mode: int,
    key: I64,
    rates: F64,
    record: Record,
) -> int:
    """Make children ``first`` to ``end - 1`` of the ``alive`` lists; return OVERFLOW if arrays were too small."""
    start = seed[0]
    order.waiting[:] = 0
    for at in range(first, end):
        seed[0] = start + np.uint64(at) * _MIX_1
        draw(seed)
        mother, father = choose(seed, fitness, alive), choose(seed, fitness, alive)
        cross(seed, lists[mother], lists[father], children[at], order.waiting, at + 1)
        mutate(problem, seed, children[at], per_mille)
        if mode == IN_SPACE:
            length = justify(problem, turned, space, schedule, children[at], passes, record)
            if length >= 0:
                sort_by_start(schedule, children[at])
        else:
            length = follow_list(
                problem, turned, cluster, schedule, children[at], order.ready, passes, key, rates, record
            )
        if length < 0:
            seed[0] = start
            return OVERFLOW
        child_fitness[at] = length
    seed[0] = start
    return 0


@inner
def sort_by_start(schedule: Schedule, stages: I64) -> None:
    """Sort a list by starts, then by stages: equal schedules have equal lists."""
    for i in range(1, len(stages)):
        s = stages[i]
        j = i - 1
        while j >= 0 and (
            schedule.first[stages[j]] > schedule.first[s]
            or (schedule.first[stages[j]] == schedule.first[s] and stages[j] > s)
        ):
            stages[j + 1] = stages[j]
            j -= 1
        stages[j + 1] = s
