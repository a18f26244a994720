"""Plans for jobs that run: from a DAG to the ranks that an engine gets (`treadle.events.PlanRanks`).

`plan_online` is a pure function of DAG, machines and budget. `PlanSource` remembers what it gave for equal DAGs, as
recurring jobs bring them again and again.

The rule is ours; the paper has none. What counts is how long stages take relative to each other: if all tasks take ten
times as long as planned, the plan is as good as before. A plan is **wrong** when a stage that shows how long its tasks
take is off by more than a factor from what the job's stages are off in the median, or when a stage has that many times
more or fewer tasks than planned. Then what is left of the job is planned anew with what was seen, the stages of which
nothing was seen scaled by that median. After a number of new plans the job has none, as if it had never been planned.
To learn a width that was not known at all is no fault of the plan: the plan made anew for it does not count.

Simulated jobs and those of a live cluster (`treadle.am.registries`) go by the same rule.
"""

from __future__ import annotations

import heapq
import logging
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, NamedTuple

from treadle.dag import Dag, DagError, Stage
from treadle.planner.graphene import plan
from treadle.planner.plan import Plan
from treadle.planner.problem import GROUPS_MAX, TIME_MAX

SEEN_MIN: Final = 3
"""Ended tasks that show how long those of a stage take; all of them, if it has fewer."""
NO_PLAN: Final = -1.0
"""The score of what no plan ranks, as `treadle.events.PlanRanks` has it."""


class Progress(NamedTuple):
    """How far a stage is."""

    tasks: int
    """How many it has; -1 as long as nobody knows."""
    started: int
    """Tasks that run or have ended."""
    ended: int
    ended_ms: int
    """How long the ended ones ran, together."""
    oldest_ms: int
    """How long ago the first began; 0 if none has."""


class PlannedJob:
    """One job's plan, its first one made at once."""

    def __init__(
        self, source: PlanSource, dag: Dag, wrong_factor: float, replans_max: int, guessed: Collection[int] = ()
    ) -> None:
        """Plan the job.

        Args:
            source: makes plans
            dag: what is believed of the job; its durations and widths may be wrong
            wrong_factor: how far off stages may be, above 1
            replans_max: how often a wrong plan is made anew
            guessed: ids of stages of which nobody knows yet how many tasks they will have
        """
        self.replans = 0
        """How often the plan was wrong."""
        self.duration_ms = {stage.id: float(stage.duration_ms) for stage in dag.stages}
        """How long a task of each stage is believed to take, by what was seen so far."""
        self._source = source
        self._dag = dag
        self._factor = wrong_factor
        self._replans_max = replans_max
        self._guessed = set(guessed)
        self._tasks = {stage.id: stage.tasks for stage in dag.stages}
        self._ended_before = dict.fromkeys(self._tasks, 0)
        self._scores: dict[int, list[float]] = {}
        self._order: tuple[int, ...] = ()
        self.plan: Plan | None = None
        self.follow(source.plan(dag), {})

    def update(self, progress: Mapping[int, Progress]) -> bool:
        """Take what is known of stages, by id; return whether the plan was made anew or dropped.

        Every stage of the DAG must be there, and none may go back.
        """
        if not self.is_wrong(progress):
            return False
        left = self.review(progress)
        if left is not None:
            self.follow(self._source.plan(left), progress)
        return True

    def is_wrong(self, progress: Mapping[int, Progress]) -> bool:
        """Say whether there is a plan and stages turn out so that it is wrong, by what is known of all of them."""
        return self.plan is not None and bool(self._wrong(progress, *self._off(progress)))

    def review(self, progress: Mapping[int, Progress]) -> Dag | None:
        """Believe what was seen of a job whose plan is wrong.

        Returns:
            what is left of the job, for a new plan to `follow`; None where the plan is dropped instead
        """
        seen, scale = self._off(progress)
        wrong = self._wrong(progress, seen, scale)
        for stage, each in progress.items():
            self.duration_ms[stage] *= seen.get(stage, self._overdue(stage, each, scale))
            if each.tasks >= 0:
                self._tasks[stage] = each.tasks
        learned = {stage for stage in self._guessed if progress[stage].tasks >= 0}
        self._guessed -= learned
        if not wrong <= learned:
            self.replans += 1
            if self.replans > self._replans_max:
                self.plan = None
                return None
        return self._left(progress)

    def follow(self, plan: Plan | None, progress: Mapping[int, Progress]) -> None:
        """Go by a plan of what was left at some progress of the job; by none if there is none."""
        self.plan = plan
        self._ended_before = dict.fromkeys(self._tasks, 0) | {stage: each.ended for stage, each in progress.items()}
        if plan is not None:
            self._scores = {stage: plan.scores(stage).tolist() for stage in plan.ranks}
            self._order = self._parents_first(plan.stage_order())

    def order(self) -> tuple[int, ...]:
        """Return all stages' ids in the order that the latest plan wants them: what had ended first, parents first."""
        return self._order

    def score(self, stage: int, progress: Progress) -> float:
        """Return tpriScore of the next task of a stage to start; `NO_PLAN` if the job has no plan."""
        if self.plan is None:
            return NO_PLAN
        scores = self._scores.get(stage)
        if not scores:
            return 0.0  # all of it ended before the plan was made
        at = progress.started - self._ended_before[stage]
        tasks = self._tasks[stage] - self._ended_before[stage]
        return scores[min(max(at * len(scores) // max(tasks, 1), 0), len(scores) - 1)]

    def scores(self, progress: Mapping[int, Progress], *, relative: bool = False) -> dict[int, float]:
        """Return the scores of all stages by id (`score`).

        Args:
            progress: of every stage of the DAG
            relative: divide by the score of the job's next task, which has 1 then however far the job is
        """
        scores = {stage: self.score(stage, each) for stage, each in progress.items()}
        if not relative or self.plan is None:
            return scores
        waiting = [scores[stage] for stage, each in progress.items() if each.started < self._tasks[stage]]
        lead = max(waiting, default=0.0)
        return {stage: min(score / lead, 1.0) if lead > 0.0 else 1.0 for stage, score in scores.items()}

    def _parents_first(self, planned: Collection[int]) -> tuple[int, ...]:
        """Return the order of a plan with those stages that are not in it, each as soon as its parents allow it."""
        place = {stage: at for at, stage in enumerate(planned)}
        waiting = {stage.id: len(stage.parents) for stage in self._dag.stages}
        children: dict[int, list[int]] = {stage.id: [] for stage in self._dag.stages}
        for stage in self._dag.stages:
            for parent in stage.parents:
                children[parent].append(stage.id)
        ready = [(place.get(stage, -1), stage) for stage, parents in waiting.items() if not parents]
        heapq.heapify(ready)
        ordered_stages = []
        while ready:
            _, stage_id = heapq.heappop(ready)
            ordered_stages.append(stage_id)
            for child in children[stage_id]:
                waiting[child] -= 1
                if not waiting[child]:
                    heapq.heappush(ready, (place.get(child, -1), child))
        return tuple(ordered_stages)

    def _off(self, progress: Mapping[int, Progress]) -> tuple[dict[int, float], float | None]:
        """Return how far off stages are that show it, and the median of that."""
        seen = {stage: ratio for stage, each in progress.items() if (ratio := self._ratio(stage, each)) is not None}
        return seen, median(seen.values()) if seen else None

    def _wrong(self, progress: Mapping[int, Progress], seen: Mapping[int, float], scale: float | None) -> set[int]:
        """Return the stages that make the plan wrong."""
        if all(each.ended >= self._tasks_now(stage, each) for stage, each in progress.items()):
            return set()
        return {stage for stage, each in progress.items() if self._is_off(stage, each, seen, scale)}

    def _tasks_now(self, stage: int, progress: Progress) -> int:
        return self._tasks[stage] if progress.tasks < 0 else progress.tasks

    def _ratio(self, stage: int, progress: Progress) -> float | None:
        """Return how many times as long as believed a stage's tasks take, or None as long as it does not show."""
        if progress.ended < max(min(SEEN_MIN, self._tasks_now(stage, progress)), 1):
            return None
        return max(progress.ended_ms / progress.ended, 1.0) / max(self.duration_ms[stage], 1.0)

    def _overdue(self, stage: int, progress: Progress, scale: float | None) -> float:
        """Return how many times as long as believed a stage takes of which nothing shows, at the least."""
        if scale is None:
            return 1.0
        return max(scale, progress.oldest_ms / max(self.duration_ms[stage], 1.0)) if progress.ended == 0 else scale

    def _is_off(self, stage: int, progress: Progress, seen: Mapping[int, float], scale: float | None) -> bool:
        ratio = seen.get(stage, self._overdue(stage, progress, scale))
        if scale is not None and not 1.0 / self._factor <= ratio / scale <= self._factor:
            return True
        if progress.tasks < 0 or progress.tasks == self._tasks[stage]:
            return False
        return not 1.0 / self._factor <= max(progress.tasks, 1) / max(self._tasks[stage], 1) <= self._factor

    def _left(self, progress: Mapping[int, Progress]) -> Dag:
        """Return what is left of the job as a DAG: the tasks that have not ended, with the durations now believed."""
        kept = [stage for stage in self._dag.stages if self._tasks[stage.id] > progress[stage.id].ended]
        left = {stage.id: self._tasks[stage.id] - progress[stage.id].ended for stage in kept}
        return Dag(self._dag.name, tuple(self._stage_left(stage, left) for stage in kept))

    def _stage_left(self, stage: Stage, left: Mapping[int, int]) -> Stage:
        return replace(
            stage,
            tasks=left[stage.id],
            duration_ms=max(1, round(min(self.duration_ms[stage.id], TIME_MAX))),
            durations_ms=None,
            parents=tuple(parent for parent in stage.parents if parent in left),
            one_to_one=frozenset(
                parent for parent in stage.one_to_one if parent in left and left[parent] == left[stage.id]
            ),
        )


_log = logging.getLogger(__name__)

COUNT_MAX: Final = 10_000
"""Maximum number of machines that a plan is made for."""

WORK_MAX: Final = 100_000_000
"""Candidate schedules times stages times groups of tasks of a plan, some seconds of one core at most: a large DAG has
fewer candidates, so that others are not kept waiting."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What a job is planned on: alike machines."""

    capacity: Mapping[str, float]
    """Of one machine, by resource. What it does not name is not planned: demands for it are left out."""
    count: int


class Group(NamedTuple):
    """Machines of a cluster that are alike."""

    capacity: Mapping[str, float]
    machines: int


def machines_of(groups: Sequence[Group], share: float = 1.0) -> Machines:
    """Return equal machines that represent a cluster, or for a ``share`` of it.

    Each is as large in every resource as the largest that there is, so that whatever fits somewhere fits; there are as
    many as the scarcest resource of the cluster allows.
    """
    names = sorted({name for group in groups for name, amount in group.capacity.items() if amount > 0})
    largest = {name: max(group.capacity.get(name, 0.0) for group in groups) for name in names}
    total = {name: sum(group.machines * group.capacity.get(name, 0.0) for group in groups) for name in names}
    count = min((total[name] / largest[name] for name in names), default=1.0)
    return Machines(largest, min(max(1, round(share * count)), COUNT_MAX))


def plan_online(dag: Dag, machines: Machines, schedules: int) -> Plan:
    """Return the plan of a DAG, the best of ``schedules`` candidates: the same on any computer.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    return plan(_planned_part(dag, machines), machines.capacity, machines.count, schedules)


def _planned_part(dag: Dag, machines: Machines) -> Dag:
    """Return the DAG with demands for what machines have alone."""
    if all(name in machines.capacity for stage in dag.stages for name in stage.demand):
        return dag
    return Dag(
        dag.name,
        tuple(
            replace(stage, demand={name: stage.demand[name] for name in stage.demand if name in machines.capacity})
            for stage in dag.stages
        ),
    )


def critical_path_order(dag: Dag) -> tuple[int, ...]:
    """Return the stages' ids by the longest path of durations to the end, the longest first; parents before children.

    This is the order of the critical-path baseline for application masters that give stages priorities.
    """
    longest: dict[int, int] = dict.fromkeys((stage.id for stage in dag.stages), 0)
    for stage in reversed(dag.stages):
        longest[stage.id] += stage.duration_ms
        for parent in stage.parents:
            longest[parent] = max(longest[parent], longest[stage.id])
    place = {stage.id: at for at, stage in enumerate(dag.stages)}
    return tuple(sorted(longest, key=lambda stage: (-longest[stage], place[stage])))


def shape_of(dag: Dag) -> Hashable:
    """Return what a plan depends on: equal for DAGs that have the same plan."""
    return tuple(
        (
            stage.id,
            stage.tasks,
            stage.duration_ms,
            tuple(sorted(stage.demand.items())),
            stage.parents,
            tuple(sorted(stage.one_to_one)),
        )
        for stage in dag.stages
    )


def schedules_max(dag: Dag) -> int:
    """Return of how many candidate schedules a plan of a DAG is chosen at most (`WORK_MAX`)."""
    groups = sum(min(stage.tasks, GROUPS_MAX) for stage in dag.stages)
    return max(1, WORK_MAX // max(len(dag.stages) * groups, 1))


class PlanSource:
    """Plans DAGs on the same machines with the same budget, and remembers the latest."""

    def __init__(self, machines: Machines, schedules: int, remembered: int = 0) -> None:
        """Begin with no plan.

        Args:
            machines: what all jobs are planned on
            schedules: candidates for each plan, at least one; fewer for DAGs with which that would exceed `WORK_MAX`
            remembered: how many plans are kept
        """
        self.machines = machines
        self.planned = 0
        """Plans made so far, those that were remembered not counted."""
        self._schedules = max(schedules, 1)
        self._remembered = remembered
        self._plans: OrderedDict[Hashable, Plan | None] = OrderedDict()

    def plan(self, dag: Dag) -> Plan | None:
        """Return the plan of a DAG; None if it cannot be planned, since a task fits on no machine."""
        shape = shape_of(dag)
        if shape in self._plans:
            self._plans.move_to_end(shape)
            return self._plans[shape]
        try:
            plan = plan_online(dag, self.machines, min(self._schedules, schedules_max(dag)))
        except DagError as error:
            _log.info("not planned: %s", error)
            plan = None
        self.planned += 1
        self._plans[shape] = plan
        while len(self._plans) > self._remembered:
            self._plans.popitem(last=False)
        return plan
