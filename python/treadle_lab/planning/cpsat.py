"""OR-Tools' CP-SAT as an outside reference: one cumulative constraint a resource, over all machines together."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from treadle.dag.dag import Dag
from treadle.errors import UserError
from treadle.planner.bounds import LowerBounds, structure
from treadle.planner.finish import Ranking, finish
from treadle.planner.plan import Plan
from treadle.planner.problem import I64, Problem, compile_problem
from treadle.planner.workspace import Workspace

INTERVALS_MAX: Final = 5000


def solve(
    dag: Dag,
    capacity: Mapping[str, float],
    machines: int,
    milliseconds: int,
    workers: int = 1,
    *,
    placements: bool = False,
) -> Plan:
    """Return the best plan that CP-SAT finds in a time; the makespan is of the schedule in one pool.

    Where there is more than one machine, that schedule may need a task to be split between machines; then the makespan
    is that of following it, as `executed_makespan`. The lower bound is the better of CP-SAT's and ours.

    Raises:
        UserError: OR-Tools is not installed, the DAG has too many tasks, or no schedule was found in the time.
        DagError: a task fits on no machine, or numbers are too large.
    """
    try:
        from ortools.sat.python import cp_model  # only here: it is an extra
    except ImportError:
        raise UserError("--algorithm cpsat: needs OR-Tools; pip install --group cpsat") from None
    problem = compile_problem(dag, capacity, machines)
    groups = int(problem.group_at[-1])
    if problem.tasks.sum() != groups:
        raise UserError(
            f"DAG {dag.name}: a stage has more tasks than CP-SAT is given one by one; use another algorithm"
        )
    if groups > INTERVALS_MAX:
        raise UserError(f"DAG {dag.name}: {groups} tasks are too many for CP-SAT; the most is {INTERVALS_MAX}")
    model = cp_model.CpModel()
    starts, end = _model(model, problem)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = milliseconds / 1000
    solver.parameters.num_workers = workers
    status = _solved(solver, model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise UserError(f"DAG {dag.name}: CP-SAT found no schedule in {milliseconds} ms; give it more")
    low = np.array([solver.value(start) for start in starts], np.int64)
    for s in range(len(problem.tasks)):  # alike tasks may have been given any order
        low[problem.group_at[s] : problem.group_at[s + 1]].sort()
    proved = int(np.ceil(solver.best_objective_bound - 1e-6))
    return _finished(dag, problem, low, int(solver.value(end)), proved, placements=placements)


def _solved(solver: Any, model: Any) -> Any:
    """Return the status of solving a model, on another thread: Ctrl-C reaches this one as ever.

    OR-Tools would put a handler of its own in place of Python's, and the system's default afterwards.
    """
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(solver.solve, model)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise


def _model(model: Any, problem: Problem) -> tuple[list[Any], Any]:
    """Add an interval for each task, edges and resources; return the starts and the makespan."""
    horizon = int((problem.tasks * problem.duration).sum())
    end = model.new_int_var(0, horizon, "end")
    starts: list[list[Any]] = []
    intervals: list[list[Any]] = []
    ends: list[Any] = []
    for s, (count, length) in enumerate(zip(problem.tasks.tolist(), problem.duration.tolist(), strict=True)):
        mine = [model.new_int_var(0, horizon, f"s{s}_{i}") for i in range(count)]
        ended = model.new_int_var(0, horizon, f"e{s}")
        intervals.append([model.new_fixed_size_interval_var(var, length, f"i{s}_{i}") for i, var in enumerate(mine)])
        for start in mine:
            model.add(ended >= start + length)
        for e in range(problem.before_at[s], problem.before_at[s + 1]):
            before = problem.before[e]
            if problem.before_single[e]:
                for start, other in zip(mine, starts[before], strict=True):
                    model.add(start >= other + int(problem.duration[before]))
            else:
                for start in mine or [ended]:
                    model.add(start >= ends[before])
        model.add(end >= ended)
        starts.append(mine)
        ends.append(ended)
    for r in range(len(problem.capacity)):
        using = [s for s in range(len(problem.tasks)) if problem.demand[s, r] > 0]
        boxes = [interval for s in using for interval in intervals[s]]
        demands = [int(problem.demand[s, r]) for s in using for _ in intervals[s]]
        model.add_cumulative(boxes, demands, int(problem.capacity[r]) * problem.machines)
    return [start for mine in starts for start in mine], end


def _finished(dag: Dag, problem: Problem, low: I64, length: int, proved: int, *, placements: bool) -> Plan:
    work = Workspace(problem)
    rows = np.zeros((0, 5), np.int64)
    if problem.machines > 1:
        length = work.follow(low)
        if placements:
            rows = work.recorded(lambda: work.follow(low))
    elif placements:
        stages = np.repeat(np.arange(len(problem.tasks)), problem.tasks)
        ones = np.ones(len(low), np.int64)
        rows = np.column_stack((low, stages, 0 * ones, ones, ones))
    bounds = structure(problem).bounds
    bounds = LowerBounds(bounds.critical_path, bounds.work, max(bounds.best, proved))
    return finish(dag, work, "cpsat", Ranking(low, low, length, (), rows), bounds, 1)
