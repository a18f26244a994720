"""What Graphene is compared with: breadth first, critical path, random, Tetris, Coffman-Graham, StripPart.

All but StripPart start whatever fits; none sees more than the stages that may start. In space-time
(`Objective.PLANNED`) the makespan is that of placing stages by the same priorities, each as early as it can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np

from treadle.dag import Dag
from treadle.planner.candidates import Objective, labels, levels, part_groups, part_problem
from treadle.planner.construct import FORWARD, SCP
from treadle.planner.plan import Plan, Ranking, Structure, Workspace, finish, path_lengths, structure
from treadle.planner.problem import I64, Problem, compile_problem


class Until:
    """Until a time of the monotonic clock, leaving out a step that would likely last beyond it.

    For command lines only: the plan depends on the machine. It says how many schedules it took; that number as the
    budget gives the same plan again.
    """

    def __init__(self, milliseconds: float) -> None:
        self._start = time.perf_counter()
        self._seconds = milliseconds / 1000

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""
        elapsed = time.perf_counter() - self._start
        return elapsed * (used + cost) <= self._seconds * max(used, 1) and elapsed < self._seconds


NAMES: Final = ("bfs", "cp", "random", "tetris", "cg", "strippart")


def baseline(
    name: str,
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    *,
    objective: Objective = Objective.EXECUTED,
    seed: int = 0,
    placements: bool = False,
) -> Plan:
    """Return the plan of one of `NAMES`; ``seed`` is for random alone.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    problem = compile_problem(dag, capacity, machines)
    found = structure(problem)
    work = Workspace(problem)
    ranking = _ranking(name, work, found, objective, seed, placements=placements)
    return finish(dag, work, name, ranking, found.bounds, 1)


def _ranking(
    name: str, work: Workspace, found: Structure, objective: Objective, seed: int, *, placements: bool
) -> Ranking:
    problem = work.problem
    if name == "tetris":
        length, rows = _build(work, work.follow_packing, placements=placements)
        low = work.schedule.low.copy()
        return Ranking(low, low, length, (), rows, executed=length)
    if name == "strippart":
        return _strip_part(problem, found, placements=placements)
    priority = _priority(name, problem, found, seed)
    key = np.repeat(-priority, np.diff(problem.group_at))
    together = np.zeros(len(priority), np.int64)
    build = (
        partial(work.follow, key)
        if objective is Objective.EXECUTED
        else partial(work.construct, together, (SCP, FORWARD, 0), priority, priority)
    )
    length, rows = _build(work, build, placements=placements)
    low = work.schedule.low.copy()
    # A random priority is no topological order of its own; the resulting starts are.
    return Ranking(key if name in ("bfs", "cp") else low, low, length, (), rows, work.follow(key))


def _priority(name: str, problem: Problem, found: Structure, seed: int) -> I64:
    """Return what a list algorithm goes by: the greatest first."""
    if name == "bfs":
        return -levels(problem)
    if name == "cp":
        return path_lengths(problem)
    if name == "cg":
        return labels(problem, found)
    return np.random.default_rng(seed).permutation(len(problem.tasks)).astype(np.int64)


def _build(work: Workspace, build: Callable[[], int], *, placements: bool) -> tuple[int, I64]:
    rows = work.recorded(build) if placements else np.zeros((0, 5), np.int64)
    return build(), rows


def strips(problem: Problem) -> list[I64]:
    """Return StripPart's levels: no edge is inside one (Augustine, Banerjee and Irani, Theor. Comp. Sc. 410, 2009).

    Were resources endless, some tasks would run in the middle of the schedule: they are one level; whatever ends before
    comes before it, the rest after it, divided likewise.
    """
    ends = np.zeros(len(problem.tasks), np.int64)
    found: list[I64] = []

    def divide(stages: I64) -> None:
        if len(stages) == 0:
            return
        inside = np.zeros(len(ends), np.bool_)
        inside[stages] = True
        for s in stages:  # in topological order
            before = problem.before[problem.before_at[s] : problem.before_at[s + 1]]
            ends[s] = problem.duration[s] + ends[before[inside[before]]].max(initial=0)
        end, length = ends[stages].copy(), problem.duration[stages]
        half = int(end.max()) / 2
        middle = (end > half) & (end - length <= half)
        if not middle.any():  # nothing takes any time: one stage after another
            found.extend(stages[at : at + 1] for at in range(len(stages)))
            return
        divide(stages[end <= half])
        found.append(stages[middle])
        divide(stages[end - length > half])

    divide(np.arange(len(ends)))
    return found


def _strip_part(problem: Problem, found: Structure, *, placements: bool) -> Ranking:
    """Pack each level by itself, the longest tasks first, one level after another."""
    low = np.zeros(int(problem.group_at[-1]), np.int64)
    rows = [np.zeros((0, 5), np.int64)]
    now = 0
    for stages in strips(problem):
        part = part_problem(problem, stages)
        work = Workspace(part)
        together = np.zeros(len(stages), np.int64)
        build = partial(work.construct, together, (SCP, FORWARD, 0), part.duration, part.duration)
        length, placed = _build(work, build, placements=placements)
        if len(placed):
            placed[:, 0] += now
            placed[:, 1] = stages[placed[:, 1]]
            rows.append(placed)
        low[part_groups(problem, stages)] = work.schedule.low + now
        now += length
    return Ranking(low, low, now, (), np.concatenate(rows))
