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
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.dag import Dag, Stage
from treadle.planner.construct import CHILDREN, CSP, PARENTS, PSC, SCP, SIBLINGS, SPC, TROUBLESOME
from treadle.planner.plan import Plan, Structure, Workspace, path_lengths, plan_by, structure
from treadle.planner.problem import F64, I64, U8, Brood, Problem, compile_problem, problem_of, reversed_problem


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
    place = {stage: at for at, stage in enumerate(stages.tolist())}
    edges: list[tuple[int, int, bool]] = []
    for stage, at in place.items():
        here = slice(problem.before_at[stage], problem.before_at[stage + 1])
        parents = zip(problem.before[here].tolist(), problem.before_single[here].tolist(), strict=True)
        edges += [(place[parent], at, single == 1) for parent, single in parents if parent in place]
    demand = np.ascontiguousarray(problem.demand[stages])
    figures = (problem.tasks[stages], problem.duration[stages], demand, problem.capacity)
    return problem_of(*figures, problem.machines, edges)


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


def divisions(problem: Problem, structure: Structure, scores: Sequence[F64]) -> Iterator[I64]:
    """Yield each division of the stages into T, S, P, C (`treadle.planner.construct`), no T twice, T never empty.

    All of {LongScore >= l or FragScore <= f}, closed, for l and f on the grid, with each of the ``scores`` for the
    FragScore. Thresholds that pick the same stages count once, and so do sets seen before.
    """
    seen: set[bytes] = set()
    by_length = _picks(long_scores(problem), at_least=True)
    for fragments in scores:
        for fragmenting in _picks(fragments, at_least=False):
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


NONE: Final = np.zeros(0, np.int64)


class Recipe(NamedTuple):
    """How to build a schedule: by following ``key``, without one by a division and priorities."""

    part: I64 = NONE
    code: Code = (0, 0, 0)
    forward: I64 = NONE
    backward: I64 = NONE
    key: I64 | None = None
    troublesome: bool = False
    """Whether ``part`` is a division with troublesome stages, rather than a list of all."""

    def build(self, work: Workspace) -> int:
        """Build the schedule; return its makespan."""
        if self.key is not None:
            return work.follow(self.key)
        return work.construct(self.part, self.code, self.forward, self.backward)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A schedule with its makespan."""

    worth: int
    """The figure by which candidates are compared: the makespan when the ranks are followed."""
    planned: int
    """The makespan of the schedule that ``recipe`` builds."""
    key: I64
    """Planned starts by group: the ranks."""
    order: I64
    """The stages by start."""
    recipe: Recipe


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


def followed(work: Workspace, length: int, recipe: Recipe, key: I64) -> Candidate:
    """Return the candidate that following ranks has just made: it is the planned schedule."""
    return Candidate(length, length, key, order_of(work.schedule.first), recipe._replace(key=key))


def _turned_key(work: Workspace) -> I64:
    """Return the ranks of the reversed problem from the schedule just built: the latest end first."""
    lengths = np.repeat(work.problem.duration, np.diff(work.problem.group_at))
    return -(work.schedule.high + lengths)


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
A_CHILD: Final = 3
"""Number of schedules built for a child: its list's, and those of the ends backward and forward."""
PLACEMENTS_A_STEP: Final = 6000
"""Approximate number of placed stages per step of the search: some milliseconds."""


MISJUDGED: Final = (0.8, 0.9, 1.1, 1.2)
"""Factors of wrong durations, by stage, for the choice among plans of similar makespan."""
NEARLY: Final = 1.005


class Search:
    """Searches one problem without cuts."""

    first_seeds: Sequence[int] = (2,)
    """The places among `seeds` of those that are built first: critical path, as an upper bound."""

    def __init__(self, problem: Problem, found: Structure, seed: int = 0) -> None:
        self.problem = problem
        self.structure = found
        self.best = Best()
        self.used = 0
        self.work = Workspace(problem)
        """Arrays to build the chosen candidate in again."""
        self._seed = seed
        self._draws = 0
        self._tails = path_lengths(problem)
        self._heads = path_lengths(reversed_problem(problem))
        self._steps = self.steps()
        self.next_cost = next(self._steps, 0)
        """Number of schedules of the next step; 0 without a next step."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to try, or a lower bound is reached."""
        return self.next_cost == 0 or self.best.worth <= self.structure.bounds.best

    def step(self) -> None:
        """Make the next step."""
        self.used += self.next_cost
        self.next_cost = next(self._steps, 0)

    def chosen(self) -> Candidate:
        """Return the best candidate; among similarly good ones, the one that suffers least from wrong durations."""
        best = self.best.first
        assert best is not None, "the first step builds a candidate"
        limit = max(best.worth, min(int(best.worth * NEARLY), self._critical_path_worth))
        near = [best] + [other for other in self.best.elite[:8] if other is not best and other.worth <= limit]
        if len(near) == 1:
            return best
        return min(near, key=self._with_misjudged_durations)

    def _with_misjudged_durations(self, candidate: Candidate) -> float:
        total = float(candidate.worth) * len(MISJUDGED)
        random = np.random.default_rng(self._seed)
        for _ in MISJUDGED:
            factor = random.choice(MISJUDGED, len(self.problem.duration))
            total += self.work.follow(candidate.key, np.rint(self.problem.duration * factor).astype(np.int64))
        return total

    def cost(self, recipe: Recipe, *, improve: bool = True) -> int:
        """Return how many schedules `build` builds."""
        return (2 if recipe.key is None else 1) + (2 if improve else 0)

    def build(self, recipe: Recipe, *, improve: bool = True) -> Candidate:
        """Build a candidate; with ``improve`` also improve it forward and backward."""
        work = self.work
        planned = recipe.build(work)
        if recipe.key is None:
            key = work.schedule.low.copy()
            executed = work.follow(key)
            candidate = Candidate(executed, planned, key, order_of(work.schedule.first), recipe)
        else:
            candidate = followed(work, planned, recipe, recipe.key)
        if not improve:
            return candidate
        work.follow_backward(_turned_key(work))
        key = _turned_key(work)
        length = work.follow(key)
        return followed(work, length, recipe, key) if length < candidate.worth else candidate

    # -- steps: a number is yielded, then that many schedules are built ---------------------------------------------

    def steps(self) -> Iterator[int]:
        """Yield the number of schedules of the next step, then make that step."""
        yield from self.seed_steps()
        yield from self.division_steps()
        if len(self.problem.tasks) > 1:
            yield from self.population_steps()

    def seed_steps(self) -> Iterator[int]:
        """Build some seeds as an upper bound, then all with improvements, and a packing."""
        seeds = self.seeds()
        first = [seeds[at] for at in self.first_seeds]
        yield sum(self.cost(recipe, improve=False) for recipe in first)
        for recipe in first:
            self.best.add(self.build(recipe, improve=False))
        self._critical_path_worth = self.best.worth
        for recipe in seeds:
            yield self.cost(recipe)
            self.best.add(self.build(recipe))
        yield 1 + self.cost(seeds[-1])
        self.work.follow_packing()
        self.best.add(self.build(Recipe(key=self.work.schedule.low.copy())))

    def seeds(self) -> list[Recipe]:
        """Return all stages at once from either end, and the orders of other algorithms."""
        at_once = np.zeros(len(self._tails), np.int64)
        spans = path_lengths(self.problem, self.structure.spans)
        orders = (-self._tails, -spans, levels(self.problem), -labels(self.problem, self.structure))
        return [
            *(Recipe(at_once, (SCP, direction, 0), self._tails, self._heads) for direction in (0, 1)),
            *(Recipe(key=self.by_group(order)) for order in orders),
        ]

    def division_steps(self) -> Iterator[int]:
        """Troublesome stages first, for all sets of them."""
        size = max(len(self.problem.tasks), 1)
        waiting: list[Recipe] = []
        scores = packing_scores(self.problem), frag_scores(self.problem, self.structure.spans)
        for part in divisions(self.problem, self.structure, scores):
            for code in codes(part):
                waiting.append(Recipe(part, code, self._tails, self._heads, troublesome=True))
                cost = sum(map(self.cost, waiting))
                if cost * size >= PLACEMENTS_A_STEP:
                    yield cost
                    self._build_all(waiting)
                    waiting = []
        if waiting:
            yield sum(map(self.cost, waiting))
            self._build_all(waiting)

    def _build_all(self, recipes: Sequence[Recipe]) -> None:
        for recipe in recipes:
            self.best.add(self.build(recipe))

    def population_steps(self) -> Iterator[int]:
        """Replace the worst of a population of lists by their children; endless."""
        at_once = max(1, PLACEMENTS_A_STEP // (A_CHILD * len(self.problem.tasks)))
        generation, size = 0, LISTS_FIRST
        known, most = list(self.best.elite), CHILDREN_FIRST
        while True:
            kept = known[: size // 2]
            lists = [candidate.order for candidate in kept]
            fitness = [candidate.worth for candidate in kept]
            while len(lists) < size:
                recipe = self._random_recipe()
                yield self.cost(recipe)
                candidate = self.build(recipe)
                self.best.add(candidate)
                lists.append(candidate.order)
                fitness.append(candidate.worth)
            yield from self._generations(np.array(lists), np.array(fitness, np.int64), at_once, generation, most)
            generation += 1_000_000
            size = min(max(LISTS_SECOND, 2 * size), LISTS_MAX)
            known, most = self.best.elite[:4], 2**62

    def _generations(self, lists: I64, fitness: I64, at_once: int, generation: int, most: int) -> Iterator[int]:
        """Continue until there is no improvement, or ``most`` children have been made."""
        best, made, stale = int(fitness.min()), 0, 0
        size, stages = lists.shape
        count = size // 2
        while stale <= STALE_GENERATIONS_MAX * size and made < most:
            children, worths = np.zeros((count, stages), np.int64), np.zeros(count, np.int64)
            for first in range(0, count, at_once):
                end = min(first + at_once, count)
                yield (end - first) * A_CHILD
                seed = np.array([(self._seed * 0x2545F491 + generation * 0x9E3779B1 + 1) % 2**63], np.uint64)
                self.breed(Brood(lists, fitness, children, worths, first, end, seed, MUTATION_PER_MILLE))
            generation += 1
            made, stale = made + count, stale + count
            if worths.min() < best:
                best, stale = int(worths.min()), 0
                if best < self.best.worth:
                    self.best.add(self.candidate(children[worths.argmin()]))
            lists, fitness = survivors(np.concatenate((lists, children)), np.concatenate((fitness, worths)), size)

    def _random_recipe(self) -> Recipe:
        stages = len(self._tails)
        random = np.random.default_rng((self._seed, self._draws))
        self._draws += 1
        factor = 1.0 + NOISE * (2.0 * random.random(stages) - 1.0)
        return self.by_priority((self._tails * factor * 16).astype(np.int64))

    def by_priority(self, priority: I64) -> Recipe:
        """Return how to build a schedule by stages' priorities alone, the greatest first."""
        return Recipe(key=self.by_group(-priority))

    def breed(self, brood: Brood) -> None:
        """Make children, and compare them by the makespan when their lists are followed."""
        self.work.breed(brood)

    def candidate(self, order: I64) -> Candidate:
        """Return the candidate of a list."""
        place = np.zeros(len(order), np.int64)
        place[order] = np.arange(len(order))
        key = self.by_group(place)
        return followed(self.work, self.work.follow(key), Recipe(), key)

    def by_group(self, values: I64) -> I64:
        """Return stages' values by group."""
        return np.repeat(values, np.diff(self.problem.group_at))


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


SCHEDULES_DEFAULT = 2000


def plan(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    budget: Budget = SCHEDULES_DEFAULT,
    search: Callable[[Problem, Structure], Search] = Search,
) -> Plan:
    """Return the best plan within the budget for a DAG on ``machines`` identical machines.

    At least one schedule is built, however small the budget; the search ends early when a lower bound is reached.

    Args:
        dag: the DAG.
        capacity: of one machine, by resource.
        machines: their number.
        budget: bounds the search.
        search: makes the search for a part between cuts.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    problem = compile_problem(dag, capacity, machines)
    whole = structure(problem)
    pieces = parts(whole.full) if len(dag.stages) else []
    searches = []
    for stages in pieces:
        part = part_problem(problem, stages) if len(pieces) > 1 else problem
        searches.append(search(part, structure(part) if len(pieces) > 1 else whole))
    _run(searches, budget)
    return plan_by(dag, problem, _joined(problem, pieces, searches))


def _run(searches: Sequence[Search], budget: Budget) -> None:
    """Search all parts in turns proportional to their size."""
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


def _joined(problem: Problem, pieces: Sequence[I64], searches: Sequence[Search]) -> I64:
    """Return the ranks of all parts by group, one part after another."""
    key = np.zeros(int(problem.group_at[-1]), np.int64)
    first_key = 0
    for stages, search in zip(pieces, searches, strict=True):
        groups = part_groups(problem, stages)
        if len(groups):
            chosen = search.chosen()
            key[groups] = chosen.key - chosen.key.min() + first_key
            first_key = int(key[groups].max()) + 1
    return key


def warm_up() -> None:
    """Call every kernel once."""
    dag = Dag("warm-up", (Stage(0, 1, 1, {"cpu": 1.0}), Stage(1, 2, 1, {"cpu": 1.0}, (0,))))
    problem = compile_problem(dag, {"cpu": 1.0}, 1)
    structure(problem)
    work = Workspace(problem)
    order, together = np.arange(2), np.zeros(2, np.int64)
    work.construct(together, (0, 0, 0), order, order)
    work.follow(np.zeros(3, np.int64))
    work.follow_backward(np.zeros(3, np.int64))
    work.follow_packing()
    lists, worths = np.array([order]), np.zeros(1, np.int64)
    work.breed(Brood(lists, worths, lists.copy(), worths.copy(), 0, 1, np.ones(1, np.uint64), 0))
