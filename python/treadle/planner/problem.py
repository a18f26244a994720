"""A DAG and its machines as kernels take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from treadle.compiled.functions import tables
from treadle.dag import Dag, DagError, check_fits

I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]
U64: TypeAlias = npt.NDArray[np.uint64]
U8: TypeAlias = npt.NDArray[np.uint8]

GROUPS_MAX: Final = 64
"""Maximum number of groups in which a stage's tasks are ranked; with no more tasks, one by one."""

UNITS: Final = 10**9
"""A machine's amount of a resource where amounts are not whole numbers."""
TOLERANCE: Final = 10**3
"""Added to a machine's amount then: sums of rounded demands may exceed it by a millionth."""
TIME_MAX: Final = 2**56
"""Upper bound of the total duration of all tasks."""


@tables
class Problem(NamedTuple):
    """Arrays over stages (in topological order), resources and edges; `reversed_problem` reverses time."""

    tasks: I64
    duration: I64
    demand: I64  # (stages, resources)
    capacity: I64  # of one machine
    machines: int
    before_at: I64  # stage s waits for before[before_at[s] : before_at[s + 1]]
    before: I64
    before_single: U8  # 1: one-to-one, 0: a barrier
    after_at: I64
    after: I64
    after_single: U8
    group_at: I64  # stage s has the groups group_at[s] .. group_at[s + 1] - 1
    backward: int  # 1 in a reversed problem: its first task is the DAG's last


def compile_problem(dag: Dag, capacity: Mapping[str, float], machines: int) -> Problem:
    """Return a DAG on ``machines`` identical machines as arrays.

    Raises:
        DagError: a task fits on no machine, or times or amounts are too large to compute with.
    """
    check_fits(dag, capacity, machines)
    place = {stage.id: at for at, stage in enumerate(dag.stages)}
    resources = sorted(capacity)
    wanted = np.array([[stage.demand.get(name, 0.0) for name in resources] for stage in dag.stages], np.float64)
    wanted = wanted.reshape(len(dag.stages), len(resources))
    demand, limits = _whole(dag, wanted, np.array([capacity[name] for name in resources], np.float64))
    tasks = np.array([stage.tasks for stage in dag.stages], np.int64)
    duration = np.array([stage.duration_ms if stage.tasks else 0 for stage in dag.stages], np.int64)
    if sum(int(n) * int(d) for n, d in zip(tasks, duration, strict=True)) >= TIME_MAX:
        raise DagError(f"DAG {dag.name}: the tasks' durations add up to {TIME_MAX} or more; give a smaller unit")
    edges = [
        (place[parent], at, parent in stage.one_to_one)
        for at, stage in enumerate(dag.stages)
        for parent in stage.parents
    ]
    return problem_of(tasks, duration, demand, limits, machines, edges)


def problem_of(
    tasks: I64, duration: I64, demand: I64, capacity: I64, machines: int, edges: Sequence[tuple[int, int, bool]]
) -> Problem:
    """Return stages in topological order as a problem; ``edges`` are (parent, child, one-to-one)."""
    before = _edges(len(tasks), [(child, parent, single) for parent, child, single in edges])
    groups = np.concatenate(([0], np.cumsum(np.minimum(tasks, GROUPS_MAX)))).astype(np.int64)
    return Problem(tasks, duration, demand, capacity, machines, *before, *_edges(len(tasks), edges), groups, 0)


def reversed_problem(problem: Problem) -> Problem:
    """Return the problem in which time runs backward: children become parents."""
    return problem._replace(
        before_at=problem.after_at,
        before=problem.after,
        before_single=problem.after_single,
        after_at=problem.before_at,
        after=problem.before,
        after_single=problem.before_single,
        backward=1 - problem.backward,
    )


def _whole(dag: Dag, wanted: npt.NDArray[np.float64], capacity: npt.NDArray[np.float64]) -> tuple[I64, I64]:
    """Return demands and capacities as whole numbers: as given if all are, else in billionths of a machine."""
    if wanted.max(initial=0.0) > 2**40:
        raise DagError(f"DAG {dag.name}: a demand is above {2**40}; give a larger unit")
    if capacity.min(where=capacity > 0, initial=1.0) < 2.0**-40:
        raise DagError(f"DAG {dag.name}: a capacity is below {2.0**-40:.3g} and above 0; give a smaller unit")
    capacity = np.minimum(capacity, 2.0**50)
    if np.array_equal(wanted, np.floor(wanted)):
        return wanted.astype(np.int64), np.floor(capacity).astype(np.int64)
    scale = np.divide(UNITS, capacity, out=np.zeros_like(capacity), where=capacity > 0)
    limits = np.where(capacity > 0, UNITS + TOLERANCE, 0)
    return np.rint(wanted * scale).astype(np.int64), limits.astype(np.int64)


def _edges(stages: int, pairs: Sequence[tuple[int, int, bool]]) -> tuple[I64, I64, U8]:
    """Return, for pairs (stage, other, single), where each stage's others start, the others, and which are single."""
    pairs = sorted(pairs)
    counts = np.bincount(np.array([pair[0] for pair in pairs], np.int64), minlength=stages)
    at = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return at, np.array([pair[1] for pair in pairs], np.int64), np.array([pair[2] for pair in pairs], np.uint8)


FOREVER: Final = 2**60
OVERFLOW: Final = -1
"""Result of a kernel whose arrays were too small: enlarge them and call it again."""


@tables
class Schedule(NamedTuple):
    """Starts and ends of stages. Only ``placed`` stages are valid. Starts beyond ``rows`` are only counted."""

    first: I64  # start of a stage's first task
    last: I64  # end of its last task
    low: I64  # start of a group's first task
    high: I64  # start of a group's last task
    placed: U8
    rows: I64  # (rows, 5): start, stage, machine, tasks at once, times one after another
    used: I64


@tables
class Space(NamedTuple):
    """Resources over time, for each machine: from ``time[m, i]`` to the next, ``free[m, i]`` is free."""

    time: I64  # (machines, points)
    free: I64  # (machines, points, resources)
    size: I64  # points in use, by machine
    slot: I64  # the start that a machine offers to the stage being placed
    copies: I64  # how many of its tasks could start there
    heap: I64  # machines, the earliest slot first


@tables
class Order(NamedTuple):
    """Scratch of list scheduling: number of pending predecessors by stage, and the ready stages."""

    waiting: I64
    ready: I64


@tables
class Cluster(NamedTuple):
    """The running batches while a plan is followed."""

    free: I64  # (machines, resources)
    started: I64  # tasks, by stage
    ended: I64
    waiting: I64  # barriers not yet passed, by stage
    fresh: U8  # 1: any machine may have room for the stage, 0: only those where a batch ended
    ready: I64
    touched: I64  # machines where a batch ended at this time
    is_touched: U8
    end: I64  # heap of running batches: the end,
    run: I64  # (runs, 3): stage, machine, tasks
    counters: I64


@tables
class Brood(NamedTuple):
    """Children of a population of lists."""

    lists: I64  # (lists, stages): the parents
    fitness: I64  # their makespans
    children: I64  # (children, stages)
    child_fitness: I64
    first: int  # children first .. end - 1 are made
    end: int
    seed: U64
    per_mille: int  # of stages that move at random


def new_schedule(problem: Problem) -> Schedule:
    """Return an empty schedule."""
    stages, groups = len(problem.tasks), int(problem.group_at[-1])
    first, last = (np.zeros(stages, np.int64) for _ in range(2))
    low, high = (np.zeros(groups, np.int64) for _ in range(2))
    return Schedule(
        first, last, low, high, np.zeros(stages, np.uint8), np.zeros((0, 5), np.int64), np.zeros(1, np.int64)
    )


def new_space(problem: Problem, points: int) -> Space:
    """Return space-time with room for ``points`` points in time on each machine."""
    machines = problem.machines
    return Space(
        np.zeros((machines, points), np.int64),
        np.zeros((machines, points, len(problem.capacity)), np.int64),
        *(np.zeros(machines, np.int64) for _ in range(4)),
    )


def new_order(problem: Problem) -> Order:
    """Return scratch for list scheduling."""
    return Order(*(np.zeros(len(problem.tasks), np.int64) for _ in range(2)))


def new_cluster(problem: Problem, runs: int) -> Cluster:
    """Return an idle cluster that can run ``runs`` batches at once."""
    stages, machines = len(problem.tasks), problem.machines
    return Cluster(
        free=np.zeros((machines, len(problem.capacity)), np.int64),
        started=np.zeros(stages, np.int64),
        ended=np.zeros(stages, np.int64),
        waiting=np.zeros(stages, np.int64),
        fresh=np.zeros(stages, np.uint8),
        ready=np.zeros(stages, np.int64),
        touched=np.zeros(machines, np.int64),
        is_touched=np.zeros(machines, np.uint8),
        end=np.zeros(runs, np.int64),
        run=np.zeros((runs, 3), np.int64),
        counters=np.zeros(4, np.int64),
    )
