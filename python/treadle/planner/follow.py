"""Lists of stages: the schedule of a cluster that follows one, and the children in a population of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.functions import inner, kernel
from treadle.planner.construct import group_end, group_of, note, put, sort_by_end
from treadle.planner.problem import F64, I64, OVERFLOW, U64, Brood, Cluster, Order, Problem, Schedule

# Places in `Cluster.counters`.
READY: Final = 0
RUNS: Final = 1
TOUCHED: Final = 2
SORTED: Final = 3  # number of ready stages sorted by rank; those behind have just become ready


@inner
def push(cluster: Cluster, end: int, s: int, m: int, count: int) -> int:
    """Add a running batch; return OVERFLOW if there is no room."""
    at = cluster.counters[RUNS]
    if at == len(cluster.end):
        return OVERFLOW
    cluster.counters[RUNS] += 1
    while at > 0 and cluster.end[(at - 1) // 2] > end:
        move(cluster, (at - 1) // 2, at)
        at = (at - 1) // 2
    cluster.end[at] = end
    cluster.run[at, 0], cluster.run[at, 1], cluster.run[at, 2] = s, m, count
    return 0


@inner
def move(cluster: Cluster, source: int, target: int) -> None:
    """Copy a batch within the heap."""
    cluster.end[target] = cluster.end[source]
    for i in range(3):
        cluster.run[target, i] = cluster.run[source, i]


@inner
def pop(cluster: Cluster) -> None:
    """Remove the batch that ends first."""
    count = cluster.counters[RUNS] - 1
    cluster.counters[RUNS] = count
    if count == 0:
        return
    end, at = cluster.end[count], 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and cluster.end[child + 1] < cluster.end[child]:
            child += 1
        if cluster.end[child] >= end:
            break
        move(cluster, child, at)
        at = child
    move(cluster, count, at)


@inner
def reset(problem: Problem, cluster: Cluster, schedule: Schedule) -> None:
    """Stop all batches, and mark the root stages as ready."""
    cluster.counters[:] = 0
    schedule.placed[:] = 0
    for m in range(problem.machines):
        cluster.is_touched[m] = 0
        for r in range(len(problem.capacity)):
            cluster.free[m, r] = problem.capacity[r]
    for s in range(len(problem.tasks)):
        cluster.started[s] = cluster.ended[s] = cluster.waiting[s] = 0
        for e in range(problem.before_at[s], problem.before_at[s + 1]):
            if not problem.before_single[e]:
                cluster.waiting[s] += 1


@inner
def make_ready(cluster: Cluster, schedule: Schedule, s: int, now: int) -> None:
    """Add a stage to the ready ones."""
    cluster.ready[cluster.counters[READY]] = s
    cluster.counters[READY] += 1
    cluster.fresh[s] = 1
    schedule.placed[s] = 1
    schedule.first[s] = schedule.last[s] = now


@inner
def available(problem: Problem, cluster: Cluster, s: int) -> int:
    """Return how many tasks of a ready stage may have started by now, one-to-one parents considered."""
    count = problem.tasks[s]
    for e in range(problem.before_at[s], problem.before_at[s + 1]):
        if problem.before_single[e]:
            count = min(count, cluster.ended[problem.before[e]])
    return count


@inner
def stage_ended(problem: Problem, cluster: Cluster, schedule: Schedule, s: int, now: int) -> None:
    """Open the barriers behind a completed stage; stages without tasks complete at once, too."""
    for e in range(problem.after_at[s], problem.after_at[s + 1]):
        if not problem.after_single[e]:
            other = problem.after[e]
            cluster.waiting[other] -= 1
            if cluster.waiting[other] == 0:
                make_ready(cluster, schedule, other, now)


@inner
def advance(problem: Problem, cluster: Cluster, schedule: Schedule) -> int:
    """Advance to the next end of a batch, and end all batches then; return that time."""
    now = cluster.end[0]
    for i in range(cluster.counters[TOUCHED]):
        cluster.is_touched[cluster.touched[i]] = 0
    cluster.counters[TOUCHED] = 0
    while cluster.counters[RUNS] > 0 and cluster.end[0] == now:
        s, m, count = cluster.run[0, 0], cluster.run[0, 1], cluster.run[0, 2]
        pop(cluster)
        if problem.duration[s] > 0:
            for r in range(len(problem.capacity)):
                cluster.free[m, r] += count * problem.demand[s, r]
            if not cluster.is_touched[m]:
                cluster.is_touched[m] = 1
                cluster.touched[cluster.counters[TOUCHED]] = m
                cluster.counters[TOUCHED] += 1
        cluster.ended[s] += count
        if cluster.ended[s] == problem.tasks[s]:
            stage_ended(problem, cluster, schedule, s, now)
    return now


@inner
def copies_that_fit(problem: Problem, cluster: Cluster, m: int, s: int, wanted: int) -> int:
    """Return how many tasks of a stage fit on a machine now, up to ``wanted``."""
    copies = wanted
    for r in range(len(problem.capacity)):
        need = problem.demand[s, r]
        if cluster.free[m, r] < copies * need:
            copies = cluster.free[m, r] // need
    return copies


@inner
def start(problem: Problem, cluster: Cluster, schedule: Schedule, s: int, m: int, count: int, now: int) -> int:
    """Start tasks of a stage on a machine; return OVERFLOW if too many batches run."""
    length = problem.duration[s]
    if length > 0:
        for r in range(len(problem.capacity)):
            cluster.free[m, r] -= count * problem.demand[s, r]
    first = cluster.started[s]
    cluster.started[s] = first + count
    put(problem, schedule, s, first, first + count, now)
    if len(schedule.rows):
        note(schedule, now, s, m, count, length)
    return push(cluster, now + length, s, m, count)


@inner
def comes_before(problem: Problem, cluster: Cluster, key: I64, a: int, b: int) -> bool:
    """Return whether the next task of stage ``a`` has the lower rank. Both have a task left."""
    rank_a = key[group_of(problem, a, cluster.started[a])]
    rank_b = key[group_of(problem, b, cluster.started[b])]
    return rank_a < rank_b or (rank_a == rank_b and a < b)


@inner
def sort_ready(problem: Problem, cluster: Cluster, key: I64) -> None:
    """Sort the stages that have just become ready by rank."""
    ready = cluster.ready
    for i in range(cluster.counters[SORTED], cluster.counters[READY]):
        s = ready[i]
        j = i - 1
        while j >= 0 and comes_before(problem, cluster, key, s, ready[j]):
            ready[j + 1] = ready[j]
            j -= 1
        ready[j + 1] = s
    cluster.counters[SORTED] = cluster.counters[READY]


@inner
def move_on(problem: Problem, cluster: Cluster, key: I64, at: int) -> None:
    """Move a ready stage whose next task has a new rank to its position, or remove it without remaining tasks."""
    ready, s = cluster.ready, cluster.ready[at]
    if cluster.started[s] == problem.tasks[s]:
        remove_ready(cluster, at)
        return
    while at + 1 < cluster.counters[READY] and not comes_before(problem, cluster, key, s, ready[at + 1]):
        ready[at] = ready[at + 1]
        at += 1
    ready[at] = s


@inner
def remove_ready(cluster: Cluster, at: int) -> None:
    """Remove a ready stage; the others keep their order."""
    for i in range(at, cluster.counters[READY] - 1):
        cluster.ready[i] = cluster.ready[i + 1]
    cluster.counters[READY] -= 1
    if at < cluster.counters[SORTED]:
        cluster.counters[SORTED] -= 1


@inner
def start_stage(problem: Problem, cluster: Cluster, schedule: Schedule, s: int, wanted: int, now: int) -> int:
    """Start up to ``wanted`` tasks of a stage wherever they fit; return their number, or OVERFLOW."""
    left = wanted
    machines = problem.machines if cluster.fresh[s] else cluster.counters[TOUCHED]
    if problem.duration[s] == 0:
        return wanted if start(problem, cluster, schedule, s, 0, wanted, now) == 0 else OVERFLOW
    for i in range(machines):
        m = i if cluster.fresh[s] else cluster.touched[i]
        count = copies_that_fit(problem, cluster, m, s, left)
        if count > 0:
            if start(problem, cluster, schedule, s, m, count, now) < 0:
                return OVERFLOW
            left -= count
            if left == 0:
                break
    return wanted - left


@inner
def start_by_rank(problem: Problem, cluster: Cluster, schedule: Schedule, key: I64, now: int) -> int:
    """Start whatever fits, the lowest rank first; return OVERFLOW if too many batches run."""
    sort_ready(problem, cluster, key)
    at = 0  # the ones before it cannot start now
    while at < cluster.counters[READY]:
        s = cluster.ready[at]
        first, most = cluster.started[s], available(problem, cluster, s)
        if first == most:
            cluster.fresh[s] = 1  # the next ones have not been tried
            at += 1
            continue
        wanted = min(most, group_end(problem, s, first)) - first
        count = start_stage(problem, cluster, schedule, s, wanted, now)
        if count < 0:
            return OVERFLOW
        if count == wanted:
            move_on(problem, cluster, key, at)
        else:
            cluster.fresh[s] = 0
            at += 1
    return 0


@inner
def best_packed(problem: Problem, cluster: Cluster, rates: F64, m: int) -> int:
    """Return the place in ``ready`` of the stage whose task fits a machine and packs best, or -1.

    The score is Tetris's: the product of demand and free amounts, both as shares of a machine.
    """
    best, best_score = -1, -1.0
    for i in range(cluster.counters[READY]):
        s = cluster.ready[i]
        if cluster.started[s] == available(problem, cluster, s):
            continue
        if problem.duration[s] > 0 and copies_that_fit(problem, cluster, m, s, 1) == 0:
            continue
        score = 0.0
        for r in range(len(problem.capacity)):
            score += problem.demand[s, r] * rates[r] * cluster.free[m, r] * rates[r]
        if score > best_score or (score == best_score and s < cluster.ready[best]):
            best, best_score = i, score
    return best


@inner
def start_by_packing(problem: Problem, cluster: Cluster, schedule: Schedule, rates: F64, now: int) -> int:
    """Let each machine take the tasks that pack best, one by one; return OVERFLOW if too many batches run."""
    for m in range(problem.machines):
        while True:
            at = best_packed(problem, cluster, rates, m)
            if at < 0:
                break
            s = cluster.ready[at]
            if start(problem, cluster, schedule, s, m, 1, now) < 0:
                return OVERFLOW
            if cluster.started[s] == problem.tasks[s]:
                remove_ready(cluster, at)
    return 0


@inner
def finish_empty(problem: Problem, cluster: Cluster, schedule: Schedule, now: int) -> None:
    """Complete ready stages without tasks."""
    i = 0
    while i < cluster.counters[READY]:
        s = cluster.ready[i]
        if problem.tasks[s] > 0:
            i += 1
            continue
        remove_ready(cluster, i)
        stage_ended(problem, cluster, schedule, s, now)


@inner
def follow(problem: Problem, cluster: Cluster, schedule: Schedule, key: I64, rates: F64) -> int:
    """Run the DAG, by the ranks of its groups in ``key`` or, if ``rates`` are given, by packing; return the makespan.

    OVERFLOW if the cluster's heap is too small.
    """
    reset(problem, cluster, schedule)
    schedule.used[0] = 0
    now = 0
    for s in range(len(problem.tasks)):
        if cluster.waiting[s] == 0:
            make_ready(cluster, schedule, s, 0)
    while True:
        finish_empty(problem, cluster, schedule, now)
        if len(rates):
            done = start_by_packing(problem, cluster, schedule, rates, now)
        else:
            done = start_by_rank(problem, cluster, schedule, key, now)
        if done < 0:
            return OVERFLOW
        if cluster.counters[RUNS] == 0:
            return now
        now = advance(problem, cluster, schedule)


@kernel
def follow_plan(problem: Problem, cluster: Cluster, schedule: Schedule, key: I64, rates: F64) -> int:
    """Run the DAG; see `follow`."""
    return follow(problem, cluster, schedule, key, rates)


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
    """Fill a child: a section of the mother's list stays in place, the father orders the stages before and after it.

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
    """Return whether there is an edge from ``other`` to ``s``."""
    waits = False
    for e in range(problem.before_at[s], problem.before_at[s + 1]):
        waits = waits or problem.before[e] == other
    return waits


@inner
def mutate(problem: Problem, state: U64, child: I64, per_mille: int) -> None:
    """Move some stages forward or backward in the list, as far as precedence and random numbers allow."""
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
    key: I64,
    rates: F64,
) -> int:
    """Follow a list, then the ends of the result, backward and forward; return the better makespan.

    The list becomes the better one; ``kept`` is scratch of its length.
    """
    rank_by_list(problem, stages, key)
    best = follow(problem, cluster, schedule, key, rates)
    copy(stages, kept)
    if best < 0:
        return OVERFLOW
    sort_by_end(schedule, stages)
    rank_by_list(problem, stages, key)
    if follow(turned, cluster, schedule, key, rates) < 0:
        return OVERFLOW
    sort_by_end(schedule, stages)
    rank_by_list(problem, stages, key)
    length = follow(problem, cluster, schedule, key, rates)
    if length < 0:
        return OVERFLOW
    if length < best:
        return length
    copy(kept, stages)
    return best


@inner
def make_child(problem: Problem, order: Order, brood: Brood, start: np.uint64, at: int) -> None:
    """Fill a child from two parents; ``start`` is the state of the random numbers before the first child."""
    seed, fitness, alive = brood.seed, brood.fitness, len(brood.lists)
    seed[0] = start + np.uint64(at) * _MIX_1
    draw(seed)
    mother, father = choose(seed, fitness, alive), choose(seed, fitness, alive)
    cross(seed, brood.lists[mother], brood.lists[father], brood.children[at], order.waiting, at + 1)
    mutate(problem, seed, brood.children[at], brood.per_mille)


@kernel
def breed(
    problem: Problem,
    turned: Problem,
    schedule: Schedule,
    cluster: Cluster,
    order: Order,
    brood: Brood,
    key: I64,
    rates: F64,
) -> int:
    """Make children; return OVERFLOW if arrays were too small."""
    start = brood.seed[0]
    order.waiting[:] = 0
    for at in range(brood.first, brood.end):
        make_child(problem, order, brood, start, at)
        length = follow_list(problem, turned, cluster, schedule, brood.children[at], order.ready, key, rates)
        if length < 0:
            brood.seed[0] = start
            return OVERFLOW
        brood.child_fitness[at] = length
    brood.seed[0] = start
    return 0
