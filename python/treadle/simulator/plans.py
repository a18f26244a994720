"""Plans in a simulation: jobs are planned when they are submitted, and followed as their tasks begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64
from treadle.config.settings import Plans, Settings
from treadle.dag.dag import Dag
from treadle.events import Event, filled
from treadle.planner.online import (
    NO_PLAN,
    Group,
    Machines,
    PlannedJob,
    PlanSource,
    Progress,
    critical_path_order,
    machines_of,
)
from treadle.simulator.build import StageOrder
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import AppState, RowKind, State
from treadle.simulator.scenario import Scenario
from treadle.workload.job import Framework, Workload

NOTHING: Final = Progress(0, 0, 0, 0, 0)
SUBMITTED: Final = {int(AppState.PENDING), int(AppState.STARTING), int(AppState.RUNNING)}


def plans_of(
    scenario: Scenario,
    workload: Workload,
    settings: Settings,
    believed: Sequence[Dag | None] | None,
    source: PlanSource | None = None,
) -> FollowedPlans | None:
    """Return what plans a simulation's jobs, by plans of a ``source`` if there is one; None if nothing asks for it."""
    plans = settings.plans
    if plans.schedules == 0 and scenario.frameworks.tez_order == "natural" and believed is None:
        return None
    known = tuple(job.dag for job in workload.jobs) if believed is None else tuple(believed)
    dags = tuple(dag if job.framework is Framework.TEZ else None for job, dag in zip(workload.jobs, known, strict=True))
    if source is None:
        source = PlanSource(planned_machines(scenario, settings), plans.schedules, plans.remembered)
    return FollowedPlans(source, dags, plans, scenario)


def planned_machines(scenario: Scenario, settings: Settings) -> Machines:
    """Return the machines that jobs are planned on.

    Of a resource that the policy overbooks they have as much as may be given out; others that nobody checks are left
    out.
    """
    times = {resource.name: 1.0 for resource in scenario.cluster.resources if resource.counted}
    overbook: Mapping[str, float] = getattr(settings.policy.fit.parameters, "overbook", {})
    times = {**overbook, **times}
    groups = [
        Group({name: times[name] * amount for name, amount in nodes.resources.items() if name in times}, nodes.count)
        for nodes in scenario.cluster.nodes
    ]
    return machines_of(groups, settings.plans.cluster_share)


@dataclass(slots=True)
class _Followed:
    """A job that runs by a plan."""

    job: PlannedJob
    stages: tuple[int, ...]
    """Ids of the stages that have tasks."""
    rows: I64
    """Their rows."""
    retries: list[int]
    """For each the row that asks for its failed tasks; the stage's own row if there is none."""
    seen: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By stage, how many tasks it had, had started and had ended when it was looked at last."""
    sent: dict[int, float] = field(default_factory=dict)
    """The score sent last, by row."""
    silent: bool = False
    """There is no plan any more, and that was sent."""

    def progress(self, state: State) -> dict[int, Progress]:
        """Return how far all stages are; nobody knows how many tasks one has before its application asks for them."""
        rows = state.rows[self.rows]
        now = int(state.clock[tables.NOW])
        found = dict.fromkeys(self.job.duration_ms, NOTHING)
        tasks = np.where(rows["released"] > 0, rows["tasks"], -1)
        oldest = np.where(rows["began_ms"] >= 0, now - rows["began_ms"], 0)
        columns = (tasks, rows["held"] + rows["done"], rows["done"], rows["ended_ms"], oldest)
        for stage, each in zip(self.stages, zip(*(column.tolist() for column in columns), strict=True), strict=True):
            found[stage] = Progress(*each)
        return found


class FollowedPlans:
    """The plans of all jobs."""

    def __init__(self, source: PlanSource, dags: Sequence[Dag | None], settings: Plans, scenario: Scenario) -> None:
        """Follow no plan yet; ``dags`` are what is believed of the jobs, None of those that are not planned."""
        self.source = source
        self._dags = dags
        self._settings = settings
        self._order = scenario.frameworks.tez_order
        self._followed: dict[int, _Followed] = {}
        self._known_ms: I64 | None = None

    @property
    def replans(self) -> int:
        """How often a plan turned out wrong."""
        return sum(each.job.replans for each in self._followed.values())

    def orders(self) -> Sequence[StageOrder | None] | None:
        """Return which stages of each job have the better priorities; None for Tez's own order."""
        if self._order == "natural":
            return None
        return [None if dag is None else self._order_of(dag) for dag in self._dags]

    def _order_of(self, dag: Dag) -> StageOrder | None:
        if self._order == "critical_path":
            return critical_path_order(dag)
        found = self.source.plan(dag)
        return None if found is None else found.stage_order()

    def believe(self, state: State, means: I64, deviations: I64) -> tuple[I64, I64]:
        """Return how long tasks are believed to take, by row, given how long they do; kept as beliefs change."""
        means, deviations = means.copy(), deviations.copy()
        for app, dag in enumerate(self._dags):
            rows = _stage_rows(state, app)
            if dag is None:
                means[rows] = deviations[rows] = -1
                continue
            stages = [stage for stage in dag.stages if stage.tasks]
            means[rows] = [stage.duration_ms for stage in stages]
        self._known_ms = means
        return means, deviations

    def forget(self) -> None:
        """Forget which scores were sent: the engine gets everything anew."""
        for followed in self._followed.values():
            followed.sent.clear()
            followed.seen.clear()

    def events(self, state: State, apps: I32, rows: I32) -> list[Event]:
        """Return the scores that changed; looks at the applications and rows that the next frame has."""
        if self._settings.schedules == 0 or not self._settings.scores:
            return []
        sent: list[tuple[int, int, float]] = []
        for app in np.union1d(apps, state.rows["app"][rows]).tolist():
            if self._dags[app] is not None and int(state.apps["state"][app]) in SUBMITTED:
                sent += self._scores(state, app)
        if not sent:
            return []
        application, key, score = zip(*sent, strict=True)
        return [filled(events.PlanRanks, len(score), application=application, key=key, score=score)]

    def _scores(self, state: State, app: int) -> list[tuple[int, int, float]]:
        """Return the keys of a job whose score differs from the one sent last: application, key, score."""
        followed = self._followed.get(app)
        if followed is None:
            followed = self._followed[app] = self._begin(state, app)
        if followed.silent:
            return []
        job = followed.job
        progress = followed.progress(state)
        seen: dict[int, tuple[int, ...]] = {stage: each[:3] for stage, each in progress.items()}
        if seen == followed.seen:
            return []
        followed.seen = seen
        if job.update(progress) and self._known_ms is not None:
            self._known_ms[followed.rows] = [round(job.duration_ms[stage]) for stage in followed.stages]
        followed.silent = job.plan is None
        found = []
        scores = job.scores(progress, relative=self._settings.relative_scores)
        for stage, row, retries in zip(followed.stages, followed.rows.tolist(), followed.retries, strict=True):
            sent = [(row, scores[stage])]
            if retries != row:  # failed tasks, wanted at once
                sent.append((retries, 1.0 if job.plan is not None else NO_PLAN))
            for each, score in sent:
                if followed.sent.get(each) != score:
                    followed.sent[each] = score
                    found.append((app, int(state.rows["key"][each]), score))
        return found

    def _begin(self, state: State, app: int) -> _Followed:
        """Plan a job."""
        dag = self._dags[app]
        assert dag is not None
        job = PlannedJob(self.source, dag, self._settings.wrong_factor, self._settings.replans_max)
        rows = _stage_rows(state, app)
        stages = tuple(stage.id for stage in dag.stages if stage.tasks)
        return _Followed(job, stages, rows, state.rows["retries"][rows].tolist())


def _stage_rows(state: State, app: int) -> I64:
    """Return the rows of a job's stages that have tasks, in the DAG's order."""
    first, count = int(state.apps["first_row"][app]), int(state.apps["rows"][app])
    kinds = state.rows["kind"][first : first + count]
    return first + np.flatnonzero(np.isin(kinds, (RowKind.TASKS, RowKind.INSIDE)))
