"""A population of stage orders that improves by crossover and mutation: what Graphene's own search is followed by.

Hartmann's two-point crossover on lists (Naval Research Logistics 45, 1998), every child improved forward and backward
(Valls, Ballestin and Quintanilla, EJOR 165, 2005), the best of old and new stay, equal schedules once. Where nothing
gets better for a while, a larger population starts afresh; the best found so far is kept outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Final

import numpy as np

from treadle.planner.breed import FOLLOWED, IN_SPACE
from treadle.planner.candidates import Best, Objective, Recipe, build, followed, placed_by_list
from treadle.planner.problem import I64
from treadle.planner.workspace import Workspace

LISTS_FIRST: Final = 20
CHILDREN_FIRST: Final = 250
"""Children after which the small first population is replaced: it serves small budgets."""
LISTS_SECOND: Final = 60
LISTS_MAX: Final = 480
STALE_GENERATIONS_MAX: Final = 8
"""A population starts afresh after this multiple of its size in children without a better one."""
MUTATION_PER_MILLE: Final = 20
NOISE: Final = 0.3
"""Random lists follow the critical path's priorities, each up to this share off."""
PLACEMENTS_A_STEP: Final = 6000
"""Stages that a step of the search places, about: some milliseconds."""


class Population:
    """Lists, their worth, and the children that replace them."""

    def __init__(
        self, works: list[Workspace], pool: Executor | None, objective: Objective, priority: I64, seed: int, best: Best
    ) -> None:
        self._works = works
        self._pool = pool
        self._objective = objective
        self._priority = priority
        self._seed = seed
        self._best = best
        self._stages = len(priority)
        self._passes = 1
        self._size = LISTS_FIRST
        self._draws = 0

    @property
    def _a_child(self) -> int:
        return 2 * self._passes + 1

    def steps(self) -> Iterator[int]:
        """Yield the number of schedules that the next step builds, then make that step; endless."""
        at_once = max(1, PLACEMENTS_A_STEP // (self._a_child * max(self._stages, 1)))
        generation = 0
        known, most = list(self._best.elite), CHILDREN_FIRST
        while True:
            kept = known[: self._size // 2]
            lists = [candidate.order for candidate in kept]
            fitness = [candidate.worth for candidate in kept]
            while len(lists) < self._size:
                recipe = self._random_recipe()
                yield 4 if self._objective is Objective.PLANNED else 3
                candidate = build(self._works[0], self._objective, recipe, improve=True)
                self._best.add(candidate)
                lists.append(candidate.order)
                fitness.append(candidate.worth)
            yield from self._generations(np.array(lists), np.array(fitness, np.int64), at_once, generation, most)
            generation += 1_000_000
            self._size = min(max(LISTS_SECOND, 2 * self._size), LISTS_MAX)
            known, most = self._best.elite[:4], 2**62

    def _generations(self, lists: I64, fitness: I64, at_once: int, generation: int, most: int) -> Iterator[int]:
        """Go on until nothing gets better, or ``most`` children have been made."""
        best, made, stale = int(fitness.min()), 0, 0
        count = self._size // 2
        while stale <= STALE_GENERATIONS_MAX * self._size and made < most:
            children, worths = np.zeros((count, self._stages), np.int64), np.zeros(count, np.int64)
            for first in range(0, count, at_once):
                end = min(first + at_once, count)
                yield (end - first) * self._a_child
                self._breed(lists, fitness, children, worths, first, end, generation)
            generation += 1
            made, stale = made + count, stale + count
            if worths.min() < best:
                best, stale = int(worths.min()), 0
                self._note(children[worths.argmin()], best)
            lists, fitness = survivors(np.concatenate((lists, children)), np.concatenate((fitness, worths)), self._size)

    def _random_recipe(self) -> Recipe:
        random = np.random.default_rng((self._seed, self._draws))
        self._draws += 1
        factor = 1.0 + NOISE * (2.0 * random.random(self._stages) - 1.0)
        noisy = (self._priority * factor * 16).astype(np.int64)
        if self._objective is Objective.PLANNED:
            return Recipe(part=np.zeros(self._stages, np.int64), forward=noisy, backward=noisy)
        groups = np.diff(self._works[0].problem.group_at)
        return Recipe(key=np.repeat(-noisy, groups))

    def _breed(
        self, lists: I64, fitness: I64, children: I64, worths: I64, first: int, end: int, generation: int
    ) -> None:
        """Let the workers make children ``first`` to ``end - 1``, a stretch each."""
        share = -(-(end - first) // len(self._works))
        jobs = [
            (work, start, min(start + share, end))
            for work, start in zip(self._works, range(first, end, share), strict=False)
        ]
        if self._pool is None or len(jobs) == 1:
            for work, start, stop in jobs:
                self._breed_some(work, lists, fitness, children, worths, start, stop, generation)
            return
        futures = [
            self._pool.submit(self._breed_some, work, lists, fitness, children, worths, start, stop, generation)
            for work, start, stop in jobs
        ]
        for future in futures:
            future.result()

    def _breed_some(
        self,
        work: Workspace,
        lists: I64,
        fitness: I64,
        children: I64,
        worths: I64,
        first: int,
        end: int,
        generation: int,
    ) -> None:
        seed = np.array([(self._seed * 0x2545F491 + generation * 0x9E3779B1 + 1) % 2**63], np.uint64)
        mode = IN_SPACE if self._objective is Objective.PLANNED else FOLLOWED
        work.breed(lists, fitness, children, worths, first, end, seed, MUTATION_PER_MILLE, self._passes, mode)

    def _note(self, order: I64, worth: int) -> None:
        """Report a child to the keeper of the best."""
        if worth >= self._best.worth:
            return
        work = self._works[0]
        if self._objective is Objective.PLANNED:
            order = order.copy()
            self._best.add(placed_by_list(work, work.justify(order, 0), order))
            return
        place = np.zeros(self._stages, np.int64)
        place[order] = np.arange(self._stages)
        key = np.repeat(place, np.diff(work.problem.group_at))
        self._best.add(followed(work, work.follow(key), key))


def survivors(lists: I64, fitness: I64, size: int) -> tuple[I64, I64]:
    """Return the best ``size`` different lists, filled up with equal ones if there are no more."""
    kept: list[int] = []
    twice: list[int] = []
    seen: set[bytes] = set()
    for at in np.argsort(fitness, kind="stable"):
        content = lists[at].tobytes()
        (twice if content in seen else kept).append(int(at))
        seen.add(content)
        if len(kept) == size:
            break
    kept += twice[: size - len(kept)]
    return lists[kept], fitness[kept]
