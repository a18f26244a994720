"""`plan`: the best plan that a budget finds, by Graphene's search and what goes beyond it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import numpy as np

from treadle.dag.dag import Dag
from treadle.planner.bounds import LowerBounds, structure
from treadle.planner.budget import Budget, Schedules
from treadle.planner.candidates import Objective
from treadle.planner.cuts import part_groups, part_problem, parts
from treadle.planner.finish import Ranking, finish
from treadle.planner.plan import Plan
from treadle.planner.problem import I64, Problem, compile_problem
from treadle.planner.search import Options, Search
from treadle.planner.workspace import Workspace

SCHEDULES_DEFAULT = 2000


def plan(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    budget: Budget | int = SCHEDULES_DEFAULT,
    *,
    objective: Objective = Objective.EXECUTED,
    options: Options | None = None,
    workers: int = 1,
    placements: bool = False,
) -> Plan:
    """Return the best plan for a DAG on ``machines`` alike machines that the budget finds.

    At least one schedule is built, however small the budget; the search ends early when a lower bound is reached.

    Args:
        dag: what to plan.
        capacity: what one machine has, by resource.
        machines: how many there are.
        budget: how many candidate schedules may be built, or a `Budget`.
        objective: compare candidates by the makespan of the planned schedule, or by that of following its ranks.
        options: what to do beyond the paper; all of it by default.
        workers: threads; the plan does not depend on their number.
        placements: also return the planned schedule.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    options = options or Options()
    budget = Schedules(budget) if isinstance(budget, int) else budget
    problem = compile_problem(dag, capacity, machines)
    whole = structure(problem)
    pieces = parts(whole.full) if len(dag.stages) else []
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers)) if workers > 1 else None
        searches = []
        for stages in pieces:
            part = part_problem(problem, stages) if len(pieces) > 1 else problem
            found = structure(part) if len(pieces) > 1 else whole
            searches.append(Search(part, found, objective, options, pool, workers))
        used = _run(searches, budget)
    bound = max(whole.bounds.best, sum(search.structure.bounds.best for search in searches))
    bounds = LowerBounds(whole.bounds.critical_path, whole.bounds.work, bound)
    name = "graphene-paper" if options.paper else "graphene"
    ranking = _joined(problem, pieces, searches, placements=placements)
    return finish(dag, Workspace(problem), name, ranking, bounds, used)


def _run(searches: Sequence[Search], budget: Budget) -> int:
    """Search all parts, turn by turn as large as they are; return how many schedules were built."""
    used = 0
    for search in searches:
        used += search.next_cost
        search.step()
    waiting = [search for search in searches if not search.done]
    while waiting:
        search = min(waiting, key=lambda waits: waits.used / len(waits.problem.tasks) ** 2)
        if not budget.allows(used, search.next_cost):
            break
        used += search.next_cost
        search.step()
        if search.done:
            waiting.remove(search)
    return used


def _joined(problem: Problem, pieces: Sequence[I64], searches: Sequence[Search], *, placements: bool) -> Ranking:
    """Return the ranks and the planned schedule of all parts, one part after another."""
    key, low = (np.zeros(int(problem.group_at[-1]), np.int64) for _ in range(2))
    troublesome: list[int] = []
    rows = [np.zeros((0, 5), np.int64)]
    first_key = now = 0
    for stages, search in zip(pieces, searches, strict=True):
        chosen, work = search.chosen(), search.workspace()
        if placements:
            found = work.recorded(partial(chosen.rebuild, work))
            found[:, 0] += now
            found[:, 1] = stages[found[:, 1]]
            rows.append(found)
        else:
            chosen.rebuild(work)
        groups = part_groups(problem, stages)
        if len(groups):
            key[groups] = chosen.key - chosen.key.min() + first_key
            first_key = int(key[groups].max()) + 1
            low[groups] = work.schedule.low + now
        now += chosen.planned
        if chosen.troublesome is not None:
            troublesome.extend(stages[chosen.troublesome].tolist())
    return Ranking(key, low, now, tuple(troublesome), np.concatenate(rows))
