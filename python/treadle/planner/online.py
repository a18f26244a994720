"""Plans for running jobs: from a DAG to the ranks for an engine (`treadle.events.PlanRanks`).

`plan_online` is a pure function of DAG, machines and budget. `PlanSource` caches plans of equal DAGs, such as those of
recurring jobs.

The rule for replanning is ours; the paper has none. Only relative durations of stages matter: if all tasks take ten
times as long as planned, the plan is as good as before. A plan is **wrong** when a stage with measured durations
deviates by more than a factor from the median deviation of the job's stages, or when a stage has that many times more
or fewer tasks than planned. Then the rest of the job is replanned with the measurements, and unmeasured stages are
scaled by that median. After a number of replans the job continues without a plan. A replan for a width that was unknown
does not count.

Simulated jobs and those of a live cluster (`treadle.am.registries`) use the same rule.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, NamedTuple

from treadle.dag import Dag, DagError, Stage, graph_of
from treadle.planner.graphene import plan
from treadle.planner.plan import Plan
from treadle.planner.problem import GROUPS_MAX, TIME_MAX

SEEN_MIN: Final = 3
"""Number of ended tasks that measure a stage's duration; all of them, if it has fewer."""
NO_PLAN: Final = -1.0
"""The score without a plan, as in `treadle.events.PlanRanks`."""


class Progress(NamedTuple):
    """Progress of a stage."""

    tasks: int
    """Number of tasks; -1 if unknown."""
    started: int
    """Running or ended tasks."""
    ended: int
    ended_ms: int
    """Total duration of the ended ones, in ms."""
    oldest_ms: int
    """Age of the first started task in ms; 0 without one."""


class PlannedJob:
    """One job's plan; the first one is made at once."""

    def __init__(
        self,
        plan_of: Callable[[Dag], Plan | None],
        dag: Dag,
        replan_factor: float,
        replans_max: int,
        guessed: Collection[int] = (),
    ) -> None:
        """Plan the job.

        Args:
            plan_of: plans a DAG; None if it cannot be planned
            dag: the assumed DAG of the job; its durations and widths may be wrong
            replan_factor: tolerated deviation of stages, above 1
            replans_max: maximum number of replans
            guessed: IDs of stages whose number of tasks is still unknown
        """
        self.replans = 0
        """Number of times that the plan was wrong."""
        self.duration_ms = {stage.id: float(stage.duration_ms) for stage in dag.stages}
        """The assumed task duration of each stage in ms, updated by measurements."""
        self._plan_of = plan_of
        self._dag = dag
        self._factor = replan_factor
        self._replans_max = replans_max
        self._guessed = set(guessed)
        self._tasks = {stage.id: stage.tasks for stage in dag.stages}
        self._ended_before = dict.fromkeys(self._tasks, 0)
        self._scores: dict[int, list[float]] = {}
        self._order: tuple[int, ...] = ()
        self.plan: Plan | None = None
        self.follow(plan_of(dag), {})

    def update(self, progress: Mapping[int, Progress]) -> bool:
        """Process the progress of stages, by ID; return whether the plan was replaced or dropped.

        Every stage of the DAG is required, and progress never decreases.
        """
        if not self.is_wrong(progress):
            return False
        left = self.review(progress)
        if left is not None:
            self.follow(self._plan_of(left), progress)
        return True

    def is_wrong(self, progress: Mapping[int, Progress]) -> bool:
        """Return whether there is a plan that is wrong, given the progress of all stages."""
        return self.plan is not None and bool(self._wrong(progress, *self._off(progress)))

    def review(self, progress: Mapping[int, Progress]) -> Dag | None:
        """Update the assumptions about a job whose plan is wrong.

        Returns:
            the rest of the job, for a new plan to `follow`; None if the plan is dropped instead
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
        """Use a plan of the rest at some progress of the job; None for no plan."""
        self.plan = plan
        self._ended_before = dict.fromkeys(self._tasks, 0) | {stage: each.ended for stage, each in progress.items()}
        if plan is not None:
            self._scores = {stage: plan.scores(stage).tolist() for stage in plan.ranks}
            self._order = self._parents_first(plan.stage_order())

    def order(self) -> tuple[int, ...]:
        """Return all stages' IDs in the order of the latest plan: stages that had ended first, parents first."""
        return self._order

    def score(self, stage: int, progress: Progress) -> float:
        """Return tpriScore of the next task of a stage to start; `NO_PLAN` if the job has no plan."""
        if self.plan is None:
            return NO_PLAN
        scores = self._scores.get(stage)
        if not scores:
            return 0.0  # the whole stage ended before the plan was made
        at = progress.started - self._ended_before[stage]
        tasks = self._tasks[stage] - self._ended_before[stage]
        return scores[min(max(at * len(scores) // max(tasks, 1), 0), len(scores) - 1)]

    def scores(self, progress: Mapping[int, Progress], *, relative: bool = False) -> dict[int, float]:
        """Return the scores of all stages by ID (`score`).

        Args:
            progress: of every stage of the DAG
            relative: divide by the score of the job's next task, which then always is 1
        """
        scores = {stage: self.score(stage, each) for stage, each in progress.items()}
        if not relative or self.plan is None:
            return scores
        waiting = [scores[stage] for stage, each in progress.items() if each.started < self._tasks[stage]]
        lead = max(waiting, default=0.0)
        return {stage: min(score / lead, 1.0) if lead > 0.0 else 1.0 for stage, score in scores.items()}

    def _parents_first(self, planned: Collection[int]) -> tuple[int, ...]:
        """Return the order of a plan extended by missing stages, each as soon as its parents allow."""
        import networkx  # only here, as in `treadle.dag`

        place = {stage: at for at, stage in enumerate(planned)}
        graph = graph_of(self._dag.stages)
        return tuple(networkx.lexicographical_topological_sort(graph, lambda stage: (place.get(stage, -1), stage)))

    def _off(self, progress: Mapping[int, Progress]) -> tuple[dict[int, float], float | None]:
        """Return the deviation factors of measured stages, and their median."""
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
        """Return actual over assumed duration of a stage's tasks, or None before it is measured."""
        if progress.ended < max(min(SEEN_MIN, self._tasks_now(stage, progress)), 1):
            return None
        return max(progress.ended_ms / progress.ended, 1.0) / max(self.duration_ms[stage], 1.0)

    def _overdue(self, stage: int, progress: Progress, scale: float | None) -> float:
        """Return a lower bound on actual over planned duration of a stage without finished tasks."""
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
        """Return the rest of the job as a DAG: the unfinished tasks, with the current assumed durations."""
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
"""Maximum number of machines of a plan."""

WORK_MAX: Final = 100_000_000
"""Maximum of candidate schedules x stages x groups of tasks of a plan, at most some seconds of one core: a large DAG
gets fewer candidates, so that it does not delay others."""


@dataclass(frozen=True, slots=True)
class Machines:
    """Identical machines: a group of a cluster's, or those that a job is planned on."""

    capacity: Mapping[str, float]
    """Capacity of one machine by resource. Demands for other resources are ignored."""
    count: int


def machines_of(groups: Sequence[Machines], share: float = 1.0) -> Machines:
    """Return identical machines that represent a cluster, or a ``share`` of it.

    Each has the maximum of every resource over the real ones, so that every task that fits somewhere fits; their number
    is limited by the scarcest resource of the cluster.
    """
    names = sorted({name for group in groups for name, amount in group.capacity.items() if amount > 0})
    largest = {name: max(group.capacity.get(name, 0.0) for group in groups) for name in names}
    total = {name: sum(group.count * group.capacity.get(name, 0.0) for group in groups) for name in names}
    count = min((total[name] / largest[name] for name in names), default=1.0)
    return Machines(largest, min(max(1, round(share * count)), COUNT_MAX))


def plan_online(dag: Dag, machines: Machines, schedules: int) -> Plan:
    """Return the plan of a DAG, the best of ``schedules`` candidates: the same on any computer.

    Raises:
        DagError: a task fits on no machine, or numbers are too large.
    """
    return plan(_planned_part(dag, machines), machines.capacity, machines.count, schedules)


def _planned_part(dag: Dag, machines: Machines) -> Dag:
    """Return the DAG with demands for the machines' resources only."""
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
    """Return a key that is equal for DAGs with the same plan."""
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
    """Return the maximum number of candidate schedules for a DAG (`WORK_MAX`)."""
    groups = sum(min(stage.tasks, GROUPS_MAX) for stage in dag.stages)
    return max(1, WORK_MAX // max(len(dag.stages) * groups, 1))


class PlanSource:
    """Plans DAGs on the same machines with the same budget, and caches the latest."""

    def __init__(self, machines: Machines, schedules: int, remembered: int = 0) -> None:
        """Start with an empty cache.

        Args:
            machines: the machines for all jobs
            schedules: candidates for each plan, at least one; fewer for DAGs that would exceed `WORK_MAX`
            remembered: size of the cache
        """
        self.machines = machines
        self.planned = 0
        """Number of plans made so far, cached results not counted."""
        self._schedules = max(schedules, 1)
        self._remembered = remembered
        self._plans: OrderedDict[Hashable, Plan | None] = OrderedDict()

    def plan(self, dag: Dag) -> Plan | None:
        """Return the plan of a DAG; None if a task fits on no machine."""
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
