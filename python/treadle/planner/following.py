"""A job that runs by a plan: which score each stage's next task has, and what is done when the plan turns out wrong.

The rule is ours; the paper has none. What counts is how long stages take relative to each other: if all tasks take ten
times as long as planned, the plan is as good as before. A plan is **wrong** when a stage that shows how long its tasks
take is off by more than a factor from what the job's stages are off in the median, or when a stage has so many times
more or fewer tasks than planned. Then what is left of the job is planned anew with what was seen, the stages of which
nothing was seen scaled by that median. After a number of new plans the job has none, as if it had never been planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from treadle.dag.dag import Dag, Stage
from treadle.planner.online import PlanSource
from treadle.planner.plan import Plan

SEEN_MIN: Final = 3
"""So many ended tasks show how long those of a stage take; all of them, if it has fewer."""
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

    def __init__(self, source: PlanSource, dag: Dag, wrong_factor: float, replans_max: int) -> None:
        """Plan the job.

        Args:
            source: makes plans
            dag: what is believed of the job; its durations and widths may be wrong
            wrong_factor: how far off stages may be, above 1
            replans_max: how often a wrong plan is made anew
        """
        self.replans = 0
        """New plans made so far."""
        self.duration_ms = {stage.id: float(stage.duration_ms) for stage in dag.stages}
        """How long a task of each stage is believed to take, by what was seen so far."""
        self._source = source
        self._dag = dag
        self._factor = wrong_factor
        self._replans_max = replans_max
        self._tasks = {stage.id: stage.tasks for stage in dag.stages}
        self._ended_before = dict.fromkeys(self._tasks, 0)
        self._scores: dict[int, list[float]] = {}
        self.plan: Plan | None = None
        self._follow(source.plan(dag))

    def update(self, progress: Mapping[int, Progress]) -> bool:
        """Take what is known of stages, by id; return whether the plan was made anew or dropped.

        Every stage of the DAG must be there, and none may go back.
        """
        if self.plan is None:
            return False
        seen = {stage: ratio for stage, each in progress.items() if (ratio := self._ratio(stage, each)) is not None}
        scale = median(seen.values()) if seen else None
        if not any(self._is_wrong(stage, each, seen, scale) for stage, each in progress.items()):
            return False
        for stage, each in progress.items():
            self.duration_ms[stage] *= seen.get(stage, self._overdue(stage, each, scale))
            if each.tasks >= 0:
                self._tasks[stage] = each.tasks
        self.replans += 1
        self._follow(self._source.plan(self._left(progress)) if self.replans <= self._replans_max else None)
        self._ended_before = {stage: each.ended for stage, each in progress.items()}
        return True

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
        found = {stage: self.score(stage, each) for stage, each in progress.items()}
        if not relative or self.plan is None:
            return found
        waiting = [found[stage] for stage, each in progress.items() if each.started < self._tasks[stage]]
        lead = max(waiting, default=0.0)
        return {stage: min(score / lead, 1.0) if lead > 0.0 else 1.0 for stage, score in found.items()}

    def _follow(self, plan: Plan | None) -> None:
        self.plan = plan
        self._scores = {} if plan is None else {stage: plan.scores(stage).tolist() for stage in plan.ranks}

    def _ratio(self, stage: int, progress: Progress) -> float | None:
        """Return how many times as long as believed a stage's tasks take, or None as long as it does not show."""
        if progress.ended < max(min(SEEN_MIN, self._tasks[stage] if progress.tasks < 0 else progress.tasks), 1):
            return None
        return max(progress.ended_ms / progress.ended, 1.0) / max(self.duration_ms[stage], 1.0)

    def _overdue(self, stage: int, progress: Progress, scale: float | None) -> float:
        """Return how many times as long as believed a stage takes of which nothing shows, at the least."""
        if scale is None:
            return 1.0
        return max(scale, progress.oldest_ms / max(self.duration_ms[stage], 1.0)) if progress.ended == 0 else scale

    def _is_wrong(self, stage: int, progress: Progress, seen: Mapping[int, float], scale: float | None) -> bool:
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
            duration_ms=max(1, round(self.duration_ms[stage.id])),
            durations_ms=None,
            parents=tuple(parent for parent in stage.parents if parent in left),
            one_to_one=frozenset(
                parent for parent in stage.one_to_one if parent in left and left[parent] == left[stage.id]
            ),
        )
