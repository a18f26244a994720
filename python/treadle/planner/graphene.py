"""Graphene's search for a plan, with extensions.

The steps depend only on the problem and the seed, so the same number of schedules gives the same plan on any machine,
however the steps are distributed over calls. A DAG is divided at its cuts; its plan is the concatenation of the parts'
plans.

Graphene's own search is followed by a population of stage orders that improves by Hartmann's two-point crossover on
lists (Naval Research Logistics 45, 1998), every child improved forward and backward (Valls, Ballestin and Quintanilla,
EJOR 165, 2005); the best of old and new survive, without duplicate schedules. After a while without improvement a
larger population starts from scratch; the best plan so far is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.dag import Dag, Stage
from treadle.planner.construct import CHILDREN, CSP, PARENTS, PSC, SCP, SIBLINGS, SPC, TROUBLESOME
from treadle.planner.follow import FOLLOWED, IN_SPACE
from treadle.planner.plan import LowerBounds, Plan, Ranking, Structure, Workspace, finish, path_lengths, structure
from treadle.planner.problem import F64, I64, U8, Brood, Problem, compile_problem, reversed_problem


def parts(full: U8) -> list[I64]:
    """Return the stages of each part, parts in order of time, stages in the DAG's order.

    ``full[a, b]``: all tasks of a end before any of b starts.
    """
    stages = len(full)
    order = np.argsort(full.sum(axis=0), kind="stable")
    # behind[k]: stages that all of order[k:] wait for in full
    behind = np.logical_and.accumulate(full[:, order[::-1]], axis=1)[:, ::-1].sum(axis=0)
    edges = [0, *(k for k in range(1, stages) if behind[k] == k), stages]
    return [np.sort(order[a:b]).astype(np.int64) for a, b in pairwise(edges)]


def part_problem(problem: Problem, stages: I64) -> Problem:
    """Return the problem restricted to some stages, without edges to others."""
    place = np.full(len(problem.tasks), -1, np.int64)
    place[stages] = np.arange(len(stages))
    before_at, before, before_single = _edges(problem.before_at, problem.before, problem.before_single, stages, place)
    after_at, after, after_single = _edges(problem.after_at, problem.after, problem.after_single, stages, place)
    groups = np.diff(problem.group_at)[stages]
    return problem._replace(
        tasks=problem.tasks[stages],
        duration=problem.duration[stages],
        demand=np.ascontiguousarray(problem.demand[stages]),
        before_at=before_at,
        before=before,
        before_single=before_single,
        after_at=after_at,
        after=after,
        after_single=after_single,
        group_at=np.concatenate(([0], np.cumsum(groups))).astype(np.int64),
    )


def _edges(at: I64, others: I64, single: U8, stages: I64, place: I64) -> tuple[I64, I64, U8]:
    kept = [np.flatnonzero(place[others[at[s] : at[s + 1]]] >= 0) + at[s] for s in stages]
    counts = np.array([len(edges) for edges in kept], np.int64)
    edges = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), place[others[edges]], single[edges]


def part_groups(problem: Problem, stages: I64) -> I64:
    """Return the groups of some of the stages."""
    ranges = [np.arange(problem.group_at[s], problem.group_at[s + 1]) for s in stages]
    return np.concatenate(ranges).astype(np.int64) if ranges else np.zeros(0, np.int64)


STEP: Final = 0.1
"""The grid's step; the paper's value is missing from our copy."""

Code = tuple[int, int, int]
"""Order of the other subsets, direction of T, direction of S if it comes right after T."""


def long_scores(problem: Problem) -> F64:
    """Return duration over the longest duration."""
    longest = problem.duration.max(initial=0)
    scores: F64 = problem.duration / max(int(longest), 1)
    return scores


def frag_scores(problem: Problem, spans: I64) -> F64:
    """Return the paper's FragScore: a stage's work over the time that packing it takes, both on the whole cluster."""
    shares = (problem.demand / np.maximum(problem.capacity, 1)).max(axis=1, initial=0.0)
    work = problem.tasks * problem.duration / problem.machines * shares
    scores: F64 = np.divide(work, spans, out=np.ones(len(spans)), where=spans > 0)
    return scores


def packing_scores(problem: Problem) -> F64:
    """Return how full a machine gets with tasks of a stage alone, in their bottleneck resource.

    The paper's score is low for every small stage, since it cannot fill a cluster; this one is low only for tasks that
    leave resources unused in any number.
    """
    shares = (problem.demand / np.maximum(problem.capacity, 1)).max(axis=1, initial=0.0)
    k = np.where(shares > 0, np.floor(1 / np.maximum(shares, 1e-9) + 1e-6), 1)
    scores: F64 = np.where(shares > 0, np.minimum(k * shares, 1.0), 1.0)
    return scores


def divisions(problem: Problem, structure: Structure, *, paper_only: bool) -> Iterator[I64]:
    """Yield each division of the stages into T, S, P, C (`treadle.planner.construct`), no T twice, T never empty.

    All of {LongScore >= l or FragScore <= f}, closed, for l and f on the grid; unless ``paper_only`` also with the
    packing score for the FragScore. Thresholds that pick the same stages count once, and so do sets seen before.
    """
    seen: set[bytes] = set()
    by_length = _picks(long_scores(problem), at_least=True)
    by_fragments = [_picks(frag_scores(problem, structure.spans), at_least=False)]
    if not paper_only:
        by_fragments.insert(0, _picks(packing_scores(problem), at_least=False))
    for fragments in by_fragments:
        for fragmenting in fragments:
            for long in by_length:
                troublesome = _closure(long | fragmenting, structure)
                if troublesome.any() and troublesome.tobytes() not in seen:
                    seen.add(troublesome.tobytes())
                    yield _divide(troublesome, structure)


def codes(part: I64) -> list[Code]:
    """Return the orders and directions that differ for a division: fewer if subsets are empty."""
    there = [bool((part == subset).any()) for subset in range(4)]
    codes: list[Code] = []
    for direction in (0, 1):
        if not there[SIBLINGS]:
            codes.append((SCP, direction, 0))
            if there[PARENTS] and there[CHILDREN]:
                codes.append((SPC, direction, 0))
            continue
        after_t = (SCP, SPC) if there[PARENTS] and there[CHILDREN] else (SCP,)
        codes.extend((order, direction, siblings) for order in after_t for siblings in (0, 1))
        codes.extend((order, direction, 0) for order, first in ((PSC, PARENTS), (CSP, CHILDREN)) if there[first])
    return codes


def _picks(scores: F64, *, at_least: bool) -> list[npt.NDArray[np.bool_]]:
    """Return the distinct sets that the grid's thresholds select, the empty one first."""
    picks = {b"": np.zeros(len(scores), np.bool_)}
    for threshold in np.arange(1, round(1 / STEP) + 1) * STEP:
        picked = scores >= threshold - 1e-9 if at_least else scores <= threshold + 1e-9
        if picked.any():
            picks.setdefault(picked.tobytes(), picked)
    return list(picks.values())


def _closure(picked: npt.NDArray[np.bool_], structure: Structure) -> npt.NDArray[np.bool_]:
    """Return the selected stages and all on a path between two of them."""
    below = structure.some[picked].any(axis=0)
    above = structure.some[:, picked].any(axis=1)
    closed: npt.NDArray[np.bool_] = picked | (below & above)
    return closed


def _divide(troublesome: npt.NDArray[np.bool_], structure: Structure) -> I64:
    part = np.full(len(troublesome), SIBLINGS, np.int64)
    part[structure.some[:, troublesome].any(axis=1)] = PARENTS
    part[structure.some[troublesome].any(axis=0)] = CHILDREN
    part[troublesome] = TROUBLESOME
    return part


Budget = int | Callable[[int, int], bool]
"""Maximum number of candidate schedules, or a function that returns whether more may be built (how many), given how
many have been. With a number the plan is the same on any machine."""


ELITE: Final = 40


class Objective(Enum):
    """The figure by which candidates are compared."""

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
    """Whether ``part`` is a division with troublesome stages, rather than a list of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A schedule with its makespan."""

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
    """The best candidate, and some more of the best."""

    first: Candidate | None = None
    elite: list[Candidate] = field(default_factory=list)

    @property
    def worth(self) -> int:
        """The makespan of the best candidate."""
        return 2**62 if self.first is None else self.first.worth

    def add(self, candidate: Candidate) -> None:
        """Add a candidate; of equally good ones the first stays."""
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
    """Build a candidate; with ``improve`` also improve it forward and backward."""
    if objective is Objective.EXECUTED:
        return _build_executed(work, recipe, improve=improve)
    planned = _build_first(work, recipe)
    mark = _mark(recipe)
    order = order_of(work.schedule.first)
    again = partial(_build_first, recipe=recipe)
    candidate = Candidate(planned, planned, work.schedule.low.copy(), order, again, mark)
    if not improve:
        return candidate
    improved = order.copy()
    length = work.justify(improved, 1)
    if length >= planned:
        return candidate
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
        candidate = Candidate(executed, planned, key, order_of(work.schedule.first), again, mark)
    else:
        candidate = followed(work, planned, recipe.key, mark)
    if not improve:
        return candidate
    work.follow_backward(_turned_key(work))
    key = _turned_key(work)
    length = work.follow(key)
    return followed(work, length, key, mark) if length < candidate.worth else candidate


def _turned_key(work: Workspace) -> I64:
    """Return the ranks of the reversed problem from the schedule just built: the latest end first."""
    lengths = np.repeat(work.problem.duration, np.diff(work.problem.group_at))
    return -(work.schedule.high + lengths)


def _mark(recipe: Recipe) -> npt.NDArray[np.bool_] | None:
    return recipe.part == 0 if recipe.troublesome and recipe.part is not None else None


def levels(problem: Problem) -> I64:
    """Return the length in stages of the longest path to each stage, for breadth-first order."""
    # As networkx's topological generations, which take 3.5 times as long with the graph (34 stages), for every part.
    levels = np.zeros(len(problem.tasks), np.int64)
    for s in range(len(levels)):
        before = problem.before[problem.before_at[s] : problem.before_at[s + 1]]
        levels[s] = 1 + levels[before].max(initial=-1)
    return levels


def labels(problem: Problem, structure: Structure) -> I64:
    """Return Coffman and Graham's labels (Acta Informatica 1, 1972), the highest to start first.

    From the end: among the stages whose successors all have labels, the one whose successors' labels, in descending
    order, come first lexicographically. Successors are those of the transitive reduction; a stage's tasks are identical
    and have consecutive labels, so one represents them.
    """
    children = _reduced(problem, structure)
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


def _reduced(problem: Problem, structure: Structure) -> list[list[int]]:
    """Return each stage's children, without those that are behind another child as well."""
    # networkx takes 2.6 times as long (34 stages), since it cannot use the existing closure.
    children = []
    for s in range(len(problem.tasks)):
        direct = problem.after[problem.after_at[s] : problem.after_at[s + 1]]
        behind = np.logical_or.reduce(structure.some[direct], axis=0)
        children.append([int(child) for child in direct if not behind[child]])
    return children


LISTS_FIRST: Final = 20
CHILDREN_FIRST: Final = 250
"""Number of children after which the small first population, for small budgets, is replaced."""
LISTS_SECOND: Final = 60
LISTS_MAX: Final = 480
STALE_GENERATIONS_MAX: Final = 8
"""A population restarts after this multiple of its size in children without improvement."""
MUTATION_PER_MILLE: Final = 20
NOISE: Final = 0.3
"""Maximum relative deviation of random lists from the critical path's priorities."""
PLACEMENTS_A_STEP: Final = 6000
"""Approximate number of placed stages per step of the search: some milliseconds."""


class Population:
    """Lists with their makespans, and the children that replace them."""

    def __init__(self, work: Workspace, objective: Objective, priority: I64, seed: int, best: Best) -> None:
        self._work = work
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
        """Yield the number of schedules of the next step, then make that step; endless."""
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
                candidate = build(self._work, self._objective, recipe, improve=True)
                self._best.add(candidate)
                lists.append(candidate.order)
                fitness.append(candidate.worth)
            yield from self._generations(np.array(lists), np.array(fitness, np.int64), at_once, generation, most)
            generation += 1_000_000
            self._size = min(max(LISTS_SECOND, 2 * self._size), LISTS_MAX)
            known, most = self._best.elite[:4], 2**62

    def _generations(self, lists: I64, fitness: I64, at_once: int, generation: int, most: int) -> Iterator[int]:
        """Continue until there is no improvement, or ``most`` children have been made."""
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
        groups = np.diff(self._work.problem.group_at)
        return Recipe(key=np.repeat(-noisy, groups))

    def _breed(
        self, lists: I64, fitness: I64, children: I64, worths: I64, first: int, end: int, generation: int
    ) -> None:
        """Make children ``first`` to ``end - 1``."""
        seed = np.array([(self._seed * 0x2545F491 + generation * 0x9E3779B1 + 1) % 2**63], np.uint64)
        mode = IN_SPACE if self._objective is Objective.PLANNED else FOLLOWED
        made = (children, worths, first, end)
        self._work.breed(Brood(lists, fitness, *made, seed, MUTATION_PER_MILLE, self._passes, mode))

    def _note(self, order: I64, worth: int) -> None:
        """Report a child to the collector of the best."""
        if worth >= self._best.worth:
            return
        work = self._work
        if self._objective is Objective.PLANNED:
            order = order.copy()
            self._best.add(placed_by_list(work, work.justify(order, 0), order))
            return
        place = np.zeros(self._stages, np.int64)
        place[order] = np.arange(self._stages)
        key = np.repeat(place, np.diff(work.problem.group_at))
        self._best.add(followed(work, work.follow(key), key))


def survivors(lists: I64, fitness: I64, size: int) -> tuple[I64, I64]:
    """Return the best ``size`` distinct lists, filled up with equal ones if there are fewer."""
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


MISJUDGED: Final = (0.8, 0.9, 1.1, 1.2)
"""Factors of wrong durations, by stage, for the choice among plans of similar makespan."""
NEARLY: Final = 1.005
TURNS: Final = 8
"""Number of schedules of the population for one of the grid, if planned makespans count."""


@dataclass(frozen=True, slots=True)
class Options:
    """Extensions of the paper's search."""

    paper: bool = False
    """Whether to use the paper's algorithm literally: longest ready task first, candidates compared by the planned
    makespan, without the extensions below."""
    seed: int = 0


class Search:
    """Searches one problem without cuts."""

    def __init__(self, problem: Problem, found: Structure, objective: Objective, options: Options) -> None:
        self.problem = problem
        self.structure = found
        self.objective = Objective.PLANNED if options.paper else objective
        self.options = options
        self.best = Best()
        self.used = 0
        self.work = Workspace(problem)
        """Arrays to build the chosen candidate in again."""
        self._tails = path_lengths(problem)
        self._heads = path_lengths(reversed_problem(problem))
        self._steps = self._paper_steps() if options.paper else self._all_steps()
        self.next_cost = next(self._steps, 0)
        """Number of schedules of the next step; 0 without a next step."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to try, or a lower bound is reached."""
        return self.next_cost == 0 or (not self.options.paper and self.best.worth <= self.structure.bounds.best)

    def step(self) -> None:
        """Make the next step."""
        self.used += self.next_cost
        self.next_cost = next(self._steps, 0)

    def chosen(self) -> Candidate:
        """Return the best candidate; among similarly good ones, the one that suffers least from wrong durations."""
        best = self.best.first
        assert best is not None, "the first step builds a candidate"
        if self.objective is Objective.PLANNED:
            return best
        limit = max(best.worth, min(int(best.worth * NEARLY), self._critical_path_worth))
        near = [best] + [other for other in self.best.elite[:8] if other is not best and other.worth <= limit]
        if len(near) == 1:
            return best
        return min(near, key=self._with_misjudged_durations)

    def _with_misjudged_durations(self, candidate: Candidate) -> float:
        total = float(candidate.worth) * len(MISJUDGED)
        random = np.random.default_rng(self.options.seed)
        for _ in MISJUDGED:
            factor = random.choice(MISJUDGED, len(self.problem.duration))
            total += self.work.follow(candidate.key, np.rint(self.problem.duration * factor).astype(np.int64))
        return total

    # -- steps: a number is yielded, then that many schedules are built ---------------------------------------------

    def _all_steps(self) -> Iterator[int]:
        yield from self._seed_steps()
        grid = self._division_steps()
        if len(self.problem.tasks) < 2:
            yield from grid
            return
        population = Population(self.work, self.objective, self._tails, self.options.seed, self.best)
        orders = population.steps()
        if self.objective is Objective.EXECUTED:
            yield from grid  # here troublesome stages first are better at once
        # The generator first yields the cost of a step, and makes it when asked for the next one.
        orders_cost, grid_cost = next(orders), next(grid, 0)
        orders_used = grid_used = 0
        while True:
            if grid_cost > 0 and TURNS * (grid_used + grid_cost) <= orders_used:
                yield grid_cost
                grid_used, grid_cost = grid_used + grid_cost, next(grid, 0)
            else:
                yield orders_cost
                orders_used, orders_cost = orders_used + orders_cost, next(orders)

    def _division_steps(self) -> Iterator[int]:
        """Troublesome stages first, for all sets of them."""
        size = max(len(self.problem.tasks), 1)
        waiting: list[Recipe] = []
        for part in divisions(self.problem, self.structure, paper_only=False):
            for code in codes(part):
                waiting.append(Recipe(part, code, self._tails, self._heads, troublesome=True))
                cost = self._cost(waiting)
                if cost * size >= PLACEMENTS_A_STEP:
                    yield cost
                    self._build(waiting)
                    waiting = []
        if waiting:
            yield self._cost(waiting)
            self._build(waiting)

    def _seed_steps(self) -> Iterator[int]:
        """Critical path first, as an upper bound; then the orders of other algorithms."""
        critical = Recipe(key=self._by_group(-self._tails))
        all_at_once = np.zeros(len(self._tails), np.int64)
        recipes = [Recipe(all_at_once, (SCP, direction, 0), self._tails, self._heads) for direction in (0, 1)]
        first = [critical] if self.objective is Objective.EXECUTED else [critical, recipes[0]]
        yield sum(schedules_of(self.objective, recipe, improve=False) for recipe in first)
        for recipe in first:
            self.best.add(build(self.work, self.objective, recipe, improve=False))
        self._critical_path_worth = self.best.worth
        recipes.append(critical)
        spans = path_lengths(self.problem, self.structure.spans)
        recipes.append(Recipe(key=self._by_group(-spans)))
        recipes.append(Recipe(key=self._by_group(levels(self.problem))))
        recipes.append(Recipe(key=self._by_group(-labels(self.problem, self.structure))))
        for recipe in recipes:
            yield self._cost([recipe])
            self._build([recipe])
        yield 1 + self._cost([critical])
        self.work.follow_packing()
        self._build([Recipe(key=self.work.schedule.low.copy())])

    def _paper_steps(self) -> Iterator[int]:
        """Place T and S in their individually best directions, then the rest, in each of the four orders."""
        longest = self.problem.duration
        work = self.work
        for part in divisions(self.problem, self.structure, paper_only=True):
            yield 8
            first = min((0, 1), key=lambda way: work.construct(part, (SCP, way, 0), longest, longest, 0))
            second = min((0, 1), key=lambda way: work.construct(part, (SCP, first, way), longest, longest, 1))
            for order in (SCP, SPC, CSP, PSC):
                recipe = Recipe(part, (order, first, second), longest, longest, troublesome=True)
                self.best.add(build(work, self.objective, recipe, improve=False))

    def _by_group(self, values: I64) -> I64:
        return np.repeat(values, np.diff(self.problem.group_at))

    def _cost(self, recipes: Sequence[Recipe]) -> int:
        return sum(schedules_of(self.objective, recipe, improve=True) for recipe in recipes)

    def _build(self, recipes: Sequence[Recipe]) -> None:
        """Build candidates and report them."""
        for recipe in recipes:
            self.best.add(build(self.work, self.objective, recipe, improve=True))


SCHEDULES_DEFAULT = 2000


def plan(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    budget: Budget = SCHEDULES_DEFAULT,
    *,
    objective: Objective = Objective.EXECUTED,
    options: Options | None = None,
    placements: bool = False,
) -> Plan:
    """Return the best plan within the budget for a DAG on ``machines`` identical machines.

    At least one schedule is built, however small the budget; the search ends early when a lower bound is reached.

    Args:
        dag: the DAG.
        capacity: of one machine, by resource.
        machines: their number.
        budget: bounds the search.
        objective: compare candidates by the makespan of the planned schedule, or by that of following its ranks.
        options: extensions of the paper; all of them by default.
        placements: also return the planned schedule.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    options = options or Options()
    problem = compile_problem(dag, capacity, machines)
    whole = structure(problem)
    pieces = parts(whole.full) if len(dag.stages) else []
    searches = []
    for stages in pieces:
        part = part_problem(problem, stages) if len(pieces) > 1 else problem
        searches.append(Search(part, structure(part) if len(pieces) > 1 else whole, objective, options))
    used = _run(searches, budget)
    bound = max(whole.bounds.best, sum(search.structure.bounds.best for search in searches))
    bounds = LowerBounds(whole.bounds.critical_path, whole.bounds.work, bound)
    name = "graphene-paper" if options.paper else "graphene"
    ranking = _joined(problem, pieces, searches, placements=placements)
    return finish(dag, Workspace(problem), name, ranking, bounds, used)


def _run(searches: Sequence[Search], budget: Budget) -> int:
    """Search all parts in turns proportional to their size; return the number of schedules built."""
    used = 0
    for search in searches:
        used += search.next_cost
        search.step()
    waiting = [search for search in searches if not search.done]
    while waiting:
        search = min(waiting, key=lambda waits: waits.used / len(waits.problem.tasks) ** 2)
        cost = search.next_cost
        if not (budget(used, cost) if callable(budget) else used + cost <= budget):
            break
        used += cost
        search.step()
        if search.done:
            waiting.remove(search)
    return used


def _joined(problem: Problem, pieces: Sequence[I64], searches: Sequence[Search], *, placements: bool) -> Ranking:
    """Return the ranks and the planned schedule of all parts, one part after another."""
    key = np.zeros(int(problem.group_at[-1]), np.int64)
    troublesome: list[int] = []
    rows = [np.zeros((0, 5), np.int64)]
    first_key = now = 0
    for stages, search in zip(pieces, searches, strict=True):
        chosen = search.chosen()
        if placements:
            found = search.work.recorded(partial(chosen.rebuild, search.work))
            found[:, 0] += now
            found[:, 1] = stages[found[:, 1]]
            rows.append(found)
        groups = part_groups(problem, stages)
        if len(groups):
            key[groups] = chosen.key - chosen.key.min() + first_key
            first_key = int(key[groups].max()) + 1
        now += chosen.planned
        if chosen.troublesome is not None:
            troublesome.extend(stages[chosen.troublesome].tolist())
    return Ranking(key, now, tuple(troublesome), np.concatenate(rows))


def warm_up() -> None:
    """Call every kernel once."""
    dag = Dag("warm-up", (Stage(0, 1, 1, {"cpu": 1.0}), Stage(1, 2, 1, {"cpu": 1.0}, (0,))))
    problem = compile_problem(dag, {"cpu": 1.0}, 1)
    structure(problem)
    work = Workspace(problem)
    order, together = np.arange(2), np.zeros(2, np.int64)
    work.construct(together, (0, 0, 0), order, order)
    work.justify(order.copy(), 1)
    work.follow(np.zeros(3, np.int64))
    work.follow_backward(np.zeros(3, np.int64))
    work.follow_packing()
    lists, worths = np.array([order]), np.zeros(1, np.int64)
    for mode in (IN_SPACE, FOLLOWED):
        work.breed(Brood(lists, worths, lists.copy(), worths.copy(), 0, 1, np.ones(1, np.uint64), 0, 1, mode))
