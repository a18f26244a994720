"""Candidate schedules, compared, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from treadle.planner.problem import I64
from treadle.planner.troublesome import Code
from treadle.planner.workspace import Workspace


class Budget(Protocol):
    """Says whether a search may make another step."""

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""


@dataclass(frozen=True, slots=True)
class Schedules:
    """Number of candidate schedules: the same plan on any machine."""

    most: int

    def allows(self, used: int, cost: int) -> bool:
        """May ``cost`` more schedules be built after ``used``?"""
        return used + cost <= self.most


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


ELITE: Final = 40


class Objective(Enum):
    """By what candidates are compared."""

    PLANNED = "planned"
    """The makespan in space-time."""
    EXECUTED = "executed"
    """The makespan when the ranks are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How to build a candidate: by a division and priorities, or by following ``key``."""

    part: I64 | None = None
    code: Code = (0, 0, 0)
    forward: I64 | None = None
    backward: I64 | None = None
    key: I64 | None = None
    troublesome: bool = False
    """Is ``part`` a division with troublesome stages, rather than a list of all?"""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A schedule that was built, and its worth."""

    worth: int
    planned: int
    key: I64
    """Planned starts by group: the ranks."""
    order: I64
    """The stages by start."""
    rebuild: Callable[[Workspace], int]
    """Builds the planned schedule again."""
    troublesome: npt.NDArray[np.bool_] | None = None


@dataclass(slots=True)
class Best:
    """The best candidate, and some of the best."""

    first: Candidate | None = None
    elite: list[Candidate] = field(default_factory=list)

    @property
    def worth(self) -> int:
        """Of the best candidate."""
        return 2**62 if self.first is None else self.first.worth

    def add(self, candidate: Candidate) -> None:
        """Take note of a candidate; of two that are worth the same, the first stays."""
        if candidate.worth < self.worth:
            self.first = candidate
        if len(self.elite) < ELITE or candidate.worth < self.elite[-1].worth:
            if any(other.worth == candidate.worth and np.array_equal(other.key, candidate.key) for other in self.elite):
                return
            self.elite.append(candidate)
            self.elite.sort(key=lambda other: other.worth)
            del self.elite[ELITE:]


def order_of(starts: I64) -> I64:
    """Return stages by start, in the DAG's order where starts are equal."""
    return np.lexsort((np.arange(len(starts)), starts)).astype(np.int64)


def schedules_of(objective: Objective, recipe: Recipe, *, improve: bool) -> int:
    """Return how many schedules `build` builds."""
    if objective is Objective.EXECUTED:
        return (1 if recipe.key is not None else 2) + (2 if improve else 0)
    return 1 + (3 if improve else 0)


def build(work: Workspace, objective: Objective, recipe: Recipe, *, improve: bool) -> Candidate:
    """Build a candidate and, if asked to, improve it forward and backward."""
    if objective is Objective.EXECUTED:
        return _build_executed(work, recipe, improve=improve)
    planned = _build_first(work, recipe)
    mark = _mark(recipe)
    order = order_of(work.schedule.first)
    again = partial(_build_first, recipe=recipe)
    found = Candidate(planned, planned, work.schedule.low.copy(), order, again, mark)
    if not improve:
        return found
    improved = order.copy()
    length = work.justify(improved, 1)
    if length >= planned:
        return found
    return placed_by_list(work, length, improved, mark)


def placed_by_list(work: Workspace, length: int, order: I64, mark: npt.NDArray[np.bool_] | None = None) -> Candidate:
    """Return the candidate that placing a list has just made."""
    key, starts = work.schedule.low.copy(), order_of(work.schedule.first)
    return Candidate(length, length, key, starts, lambda again: again.justify(order.copy(), 0), mark)


def followed(work: Workspace, length: int, key: I64, mark: npt.NDArray[np.bool_] | None = None) -> Candidate:
    """Return the candidate that following ranks has just made: it is the planned schedule."""
    return Candidate(length, length, key, order_of(work.schedule.first), lambda again: again.follow(key), mark)


def _build_first(work: Workspace, recipe: Recipe) -> int:
    if recipe.key is not None:
        return work.follow(recipe.key)
    assert recipe.part is not None
    assert recipe.forward is not None
    assert recipe.backward is not None
    return work.construct(recipe.part, recipe.code, recipe.forward, recipe.backward)


def _build_executed(work: Workspace, recipe: Recipe, *, improve: bool) -> Candidate:
    planned = _build_first(work, recipe)
    mark = _mark(recipe)
    if recipe.key is None:
        key = work.schedule.low.copy()
        executed = work.follow(key)
        again = partial(_build_first, recipe=recipe)
        found = Candidate(executed, planned, key, order_of(work.schedule.first), again, mark)
    else:
        found = followed(work, planned, recipe.key, mark)
    if not improve:
        return found
    work.follow_backward(_turned_key(work))
    key = _turned_key(work)
    length = work.follow(key)
    return followed(work, length, key, mark) if length < found.worth else found


def _turned_key(work: Workspace) -> I64:
    """Return the ranks of the problem turned round, from the schedule just built: the latest end first."""
    lengths = np.repeat(work.problem.duration, np.diff(work.problem.group_at))
    return -(work.schedule.high + lengths)


def _mark(recipe: Recipe) -> npt.NDArray[np.bool_] | None:
    return recipe.part == 0 if recipe.troublesome and recipe.part is not None else None
