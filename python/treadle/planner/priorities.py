"""Priorities of stages that known algorithms go by: breadth first, and Coffman and Graham's labels."""

from __future__ import annotations

import numpy as np

from treadle.planner.bounds import Structure
from treadle.planner.problem import I64, Problem


def levels(problem: Problem) -> I64:
    """Return how many stages are on the longest way to each: what breadth-first goes by."""
    found = np.zeros(len(problem.tasks), np.int64)
    for s in range(len(found)):
        before = problem.before[problem.before_at[s] : problem.before_at[s + 1]]
        found[s] = 1 + found[before].max(initial=-1)
    return found


def labels(problem: Problem, found: Structure) -> I64:
    """Return Coffman and Graham's labels (Acta Informatica 1, 1972), the highest to start first.

    From the end: of the stages whose successors all have labels, the one whose successors' labels, in descending
    order, come first lexicographically. Successors are those of the transitive reduction; a stage's tasks, being alike,
    have labels that follow one another, so one stands for them.
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
    children = []
    for s in range(len(problem.tasks)):
        direct = problem.after[problem.after_at[s] : problem.after_at[s + 1]]
        behind = np.logical_or.reduce(found.some[direct], axis=0)
        children.append([int(child) for child in direct if not behind[child]])
    return children
