"""What Graphene is compared with: breadth first, critical path, random, Tetris, Coffman-Graham, StripPart.

All but StripPart start whatever fits; none sees more than the stages that may start. In space-time
(`Objective.PLANNED`) the makespan is that of placing stages by the same priorities, each as early as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np

from treadle.dag.dag import Dag
from treadle.planner.candidates import Objective, part_groups, part_problem
from treadle.planner.construct import FORWARD, SCP
from treadle.planner.plan import Plan, Ranking, Structure, finish, path_lengths, structure
from treadle.planner.problem import I64, Problem, compile_problem
from treadle.planner.workspace import Workspace


def levels(problem: Problem) -> I64:
    """Return how many stages are on the longest way to each: what breadth-first goes by."""
    # As `Dag.levels`, but of problems: a part of a DAG, or one that runs backward. Building networkx's graph of one and
    # sorting it takes 3.5 times as long as an own order (34 stages), and a plan would need it anew for every part.
    found = np.zeros(len(problem.tasks), np.int64)
    for s in range(len(found)):
        before = problem.before[problem.before_at[s] : problem.before_at[s + 1]]
        found[s] = 1 + found[before].max(initial=-1)
    return found


def labels(problem: Problem, found: Structure) -> I64:
    """Return Coffman and Graham's labels (Acta Informatica 1, 1972), the highest to start first.

    From the end: of the stages whose successors all have labels, the one whose successors' labels, in descending
    order, come first lexicographically. Successors are those of the transitive reduction; a stage's tasks, being alike,
    have labels that follow one another, so one represents them.
    """
    children = _reduced(problem, found)
    label = np.zeros(len(problem.tasks), np.int64)
    waiting = [len(successors) for successors in children]
    parents: list[list[int]] = [[] for _ in children]
    for s, successors in enumerate(children):
        for child in successors:
            parents[child].append(s)
    ready: list[tuple[list[int], int]] = [([], s) for s in range(len(children)) if waiting[s] == 0]
    for value in range(1, len(children) + 1):
        chosen = min(ready)
        ready.remove(chosen)
        s = chosen[1]
        label[s] = value
        for parent in parents[s]:
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append((sorted((int(label[c]) for c in children[parent]), reverse=True), parent))
    return label


def _reduced(problem: Problem, found: Structure) -> list[list[int]]:
    """Return each stage's children, without those that are behind another child as well."""
    # As `Dag.reduced`; networkx takes 2.6 times as long (34 stages), for it cannot use the closure that is there.
    children = []
    for s in range(len(problem.tasks)):
        direct = problem.after[problem.after_at[s] : problem.after_at[s + 1]]
        behind = np.logical_or.reduce(found.some[direct], axis=0)
        children.append([int(child) for child in direct if not behind[child]])
    return children


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
