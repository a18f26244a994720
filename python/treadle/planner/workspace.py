"""One problem with the arrays that kernels need, enlarged as they must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from treadle.planner import problem as arrays
from treadle.planner.construct import construct, justify_list
from treadle.planner.follow import IN_SPACE, breed, follow_plan
from treadle.planner.problem import F64, I64, U64, Problem, reversed_problem

_NO_RATES: Final = np.zeros(0, np.float64)


class Workspace:
    """Builds and follows schedules of one problem; each call overwrites the result of the one before.

    Not for two threads at once: every worker has its own.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.turned = reversed_problem(problem)
        self.schedule = arrays.new_schedule(problem)
        self.order = arrays.new_order(problem)
        self.space = arrays.new_space(problem, arrays.first_points(problem))
        self.cluster = arrays.new_cluster(problem, arrays.first_runs(problem))
        self.record = arrays.new_record(0)
        self.key = np.zeros(int(problem.group_at[-1]), np.int64)
        self.rates = np.divide(1.0, problem.capacity, out=np.zeros(len(problem.capacity)), where=problem.capacity > 0)

    def construct(
        self, part: I64, code: tuple[int, int, int], forward_priority: I64, backward_priority: I64, steps: int = 3
    ) -> int:
        """Build a schedule with T first; ``code`` is order, direction of T, direction of S. Returns its makespan."""
        order, troublesome, siblings = code
        return self._in_space(
            lambda: construct(
                self.problem,
                self.turned,
                self.space,
                self.schedule,
                self.order,
                part,
                order,
                troublesome,
                siblings,
                steps,
                forward_priority,
                backward_priority,
                self.record,
            )
        )

    def justify(self, stages: I64, passes: int) -> int:
        """Place stages in the order of a list and improve that ``passes`` times; the list becomes the result's."""
        given = stages.copy()

        def attempt() -> int:
            stages[:] = given
            return justify_list(self.problem, self.turned, self.space, self.schedule, stages, passes, self.record)

        return self._in_space(attempt)

    def breed(
        self,
        lists: I64,
        fitness: I64,
        children: I64,
        worths: I64,
        first: int,
        end: int,
        seed: U64,
        per_mille: int,
        passes: int,
        mode: int,
    ) -> None:
        """Fill the children ``first`` to ``end - 1`` of a population and what they are worth (`kernel.breed`)."""
        while True:
            done = breed(
                self.problem,
                self.turned,
                self.space,
                self.schedule,
                self.cluster,
                self.order,
                lists,
                fitness,
                len(lists),
                children,
                worths,
                first,
                end,
                seed,
                per_mille,
                passes,
                mode,
                self.key,
                _NO_RATES,
                self.record,
            )
            if done == 0:
                return
            if mode == IN_SPACE:
                self._enlarge_space()
            else:
                self._enlarge_cluster()

    def follow(self, key: I64, duration: I64 | None = None) -> int:
        """Follow ranks by group, perhaps with other durations than planned. Returns the makespan."""
        problem = self.problem if duration is None else self.problem._replace(duration=duration)
        return self._follow(problem, key, _NO_RATES)

    def follow_backward(self, key: I64) -> int:
        """Follow ranks by group with time turned round: children first."""
        return self._follow(self.turned, key, _NO_RATES)

    def follow_packing(self) -> int:
        """Let machines take the ready tasks that pack best. Returns the makespan."""
        return self._follow(self.problem, self.schedule.low, self.rates)

    def _follow(self, problem: Problem, key: I64, rates: F64) -> int:
        given = key.copy() if key is self.schedule.low else key
        while True:
            length = follow_plan(problem, self.cluster, self.schedule, given, rates, self.record)
            if length >= 0:
                return int(length)
            self._enlarge_cluster()

    def _in_space(self, attempt: Callable[[], int]) -> int:
        while True:
            length = attempt()
            if length >= 0:
                return int(length)
            self._enlarge_space()

    def _enlarge_space(self) -> None:
        self.space = arrays.new_space(self.problem, 4 * self.space.time.shape[1])

    def _enlarge_cluster(self) -> None:
        self.cluster = arrays.new_cluster(self.problem, 4 * len(self.cluster.end))

    def recorded(self, again: Callable[[], int]) -> I64:
        """Return the rows (start, stage, machine, tasks at once, times) of what ``again`` builds."""
        rows = 1024
        while True:
            self.record = arrays.new_record(rows)
            again()
            count = int(self.record.used[0])
            if count <= rows:
                found = self.record.rows[:count]
                self.record = arrays.new_record(0)
                return found
            rows = count
