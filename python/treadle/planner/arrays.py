"""The arrays that kernels write: a schedule, space-time, and what the follower of a plan keeps."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from treadle.planner.problem import GROUPS_MAX, I64, U8, Problem

FOREVER: Final = 2**60
OVERFLOW: Final = -1
"""What a kernel returns whose arrays were too small: enlarge them and call it again."""


class Schedule(NamedTuple):
    """When stages run. Only what is ``placed`` counts."""

    first: I64  # start of a stage's first task
    last: I64  # end of its last task
    low: I64  # start of a group's first task
    high: I64  # start of a group's last task
    placed: U8


class Space(NamedTuple):
    """Resources over time, for each machine: from ``time[m, i]`` to the next, ``free[m, i]`` is free."""

    time: I64  # (machines, points)
    free: I64  # (machines, points, resources)
    size: I64  # points in use, by machine
    slot: I64  # the start that a machine offers to the stage being placed
    copies: I64  # how many of its tasks could start there
    heap: I64  # machines, the earliest slot first


class Order(NamedTuple):
    """Scratch of list scheduling: how many others each stage waits for, and what is ready."""

    waiting: I64
    ready: I64


class Cluster(NamedTuple):
    """What runs while a plan is followed."""

    free: I64  # (machines, resources)
    started: I64  # tasks, by stage
    ended: I64
    waiting: I64  # barriers not yet passed, by stage
    fresh: U8  # 1: all machines may have room for the stage, 0: only those where something ended
    ready: I64
    touched: I64  # machines where something ended at this instant
    is_touched: U8
    end: I64  # heap of what runs: its end,
    run: I64  # (runs, 3): stage, machine, tasks
    counters: I64


class Record(NamedTuple):
    """What started when and where; rows beyond the array are only counted."""

    rows: I64  # (rows, 5): start, stage, machine, tasks at once, times one after another
    used: I64


def new_schedule(problem: Problem) -> Schedule:
    """Return an empty schedule."""
    stages, groups = len(problem.tasks), int(problem.group_at[-1])
    first, last = (np.zeros(stages, np.int64) for _ in range(2))
    low, high = (np.zeros(groups, np.int64) for _ in range(2))
    return Schedule(first, last, low, high, np.zeros(stages, np.uint8))


def new_space(problem: Problem, points: int) -> Space:
    """Return space-time with room for ``points`` points in time on each machine."""
    machines = problem.machines
    return Space(
        np.zeros((machines, points), np.int64),
        np.zeros((machines, points, len(problem.capacity)), np.int64),
        *(np.zeros(machines, np.int64) for _ in range(4)),
    )


def first_points(problem: Problem) -> int:
    """Return for how many points in time a space is made at first."""
    return int(min(2 * problem.tasks.sum() + 4, 4 * len(problem.tasks) + 2 * GROUPS_MAX))


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


def first_runs(problem: Problem) -> int:
    """Return for how many batches at once a cluster is made at first."""
    return int(min(problem.tasks.sum() + len(problem.tasks) + 1, 4096))


def new_record(rows: int) -> Record:
    """Return an empty record."""
    return Record(np.zeros((rows, 5), np.int64), np.zeros(1, np.int64))
