"""A DAG that an application master asked a plan for, what it reported since, and what of it the engine should know.

How long tasks of recurring DAGs took: those that were reported, and those that the store of profiles remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from treadle.am.protocol import TASKS_MAX, VERTICES_MAX, Attempt, Outcome, PlanRequest, Report
from treadle.am.quotas import Bounds, Keeping
from treadle.config.settings import Plans
from treadle.dag.dag import Dag, Stage, ordered
from treadle.history.profile import (
    NUMBER_MAX,
    DurationSketch,
    JobProfile,
    JobRun,
    Measured,
    Prediction,
    RecurrenceKey,
    StageRun,
    predicted,
    with_run,
)
from treadle.planner.online import NO_PLAN, SEEN_MIN, PlannedJob, Progress
from treadle.planner.problem import GROUPS_MAX

PROFILES_BYTES: Final = Bounds(8 << 20, 16 << 20, 64 << 20, things=1_000)
"""Of a recurring DAG, of a user's, and of all that are remembered without a store. Beyond, those of the user
who has most make room, the one used least recently first."""

_STAGE_BYTES: Final = 6_000
"""A stage with what is kept of its latest runs one by one."""
_BUCKET_BYTES: Final = 110
_EDGE_BYTES: Final = 100

FindProfile = Callable[[RecurrenceKey], JobProfile | None]


class History:
    """Profiles of DAGs by user, queue and name. For several threads."""

    def __init__(self, find: FindProfile = lambda _: None, remember: Callable[[JobRun], None] = lambda _: None) -> None:
        """Begin with what is in a store.

        Args:
            find: a profile of the store; None if there is none
            remember: is given each DAG that has succeeded, for the store
        """
        self._find = find
        self._remember = remember
        self._profiles: Keeping[RecurrenceKey, JobProfile] = Keeping(PROFILES_BYTES)
        self._lock = Lock()

    def find(self, key: RecurrenceKey) -> JobProfile | None:
        """Return what is remembered of a DAG; None if it is nothing."""
        with self._lock:
            profile = self._profiles.get(key)
        return profile or self._find(key)

    def put(self, run: JobRun) -> None:
        """Take a DAG that has succeeded."""
        with self._lock:
            before = self._profiles.pop(run.key)
            after = with_run(before, run) or before
            if after is not None:
                self._profiles.put(run.key, run.key.user, after, _size_bytes(after))
        self._remember(run)


def _size_bytes(profile: JobProfile) -> int:
    edges = sum(len(stage.parents) + len(stage.one_to_one) + len(stage.demand) for stage in profile.stages)
    buckets = sum(stage.durations.buckets for stage in profile.stages)
    names = sum(4 * len(stage.name) for stage in profile.stages)
    return len(profile.stages) * _STAGE_BYTES + edges * _EDGE_BYTES + buckets * _BUCKET_BYTES + names


def predictions(profile: JobProfile | None, request: PlanRequest) -> dict[int, Prediction]:
    """Return how long tasks of each vertex will take, by its id; those alone of which something is known."""
    if profile is None:
        return {}
    stages = {stage.name: stage for stage in profile.stages if stage.measured is Measured.TASKS}
    said = {
        vertex.id: predicted(stages[vertex.name], vertex.demand) for vertex in request.vertices if vertex.name in stages
    }
    return {vertex: prediction for vertex, prediction in said.items() if prediction is not None}


def widths(profile: JobProfile | None) -> dict[str, int]:
    """Return how many tasks each vertex usually has, by its name."""
    return {} if profile is None else {stage.name: stage.width for stage in profile.stages}


def run_of(
    key: RecurrenceKey,
    attempt: Attempt,
    request: PlanRequest,
    widths: Mapping[int, int],
    durations: Mapping[int, DurationSketch],
    times_ms: tuple[int, int],
) -> JobRun:
    """Return a DAG that has succeeded, as the store of profiles takes it; ``times_ms`` are its start and end."""
    names = {vertex.id: vertex.name for vertex in request.vertices}
    stages = tuple(
        StageRun(
            vertex.name,
            max(widths.get(vertex.id, vertex.tasks), 0),
            durations[vertex.id],
            vertex.demand,
            tuple(names[parent] for parent in vertex.parents if parent in names),
            one_to_one=tuple(names[parent] for parent, single in vertex.parents.items() if single and parent in names),
        )
        for vertex in request.vertices
    )
    # As Tez names it, so that an import of Tez's own history counts it once.
    name = f"dag_{attempt.cluster_timestamp}_{attempt.application:04d}_{request.dag}"
    return JobRun(key, name, *times_ms, stages)


DURATION_MS: Final = 10_000
"""How long tasks are taken to run of vertices of which nothing is known: all alike."""

BUCKET_BYTES: Final = 110
"""What a bucket of a sketch takes in memory; so do the next ones, each of what it is named after."""
VERTEX_BYTES: Final = 1_500
EDGE_BYTES: Final = 150
GROUP_BYTES: Final = 60


@dataclass(eq=False)
class Record:
    """One DAG of one attempt. Not for several threads at a time."""

    key: RecurrenceKey
    request: PlanRequest
    predictions: dict[int, Prediction]
    version: int
    job: PlannedJob | None
    """None if it was not planned."""
    planned_s: float
    """When its plan was made, by the clock of the plans."""
    size_bytes: int = 0
    """About what it takes in memory; `take` adds to it."""
    low: dict[int, int] = field(default_factory=dict)
    tasks: dict[int, int] = field(default_factory=dict)
    durations: dict[int, DurationSketch] = field(default_factory=dict)
    first_ms: int = -1
    last_ms: int = -1
    done: bool = False

    def __post_init__(self) -> None:
        vertices = self.request.vertices
        names = sum(4 * len(vertex.name) for vertex in vertices)
        edges = sum(len(vertex.parents) + len(vertex.demand) for vertex in vertices)
        # A plan has a score for each group of tasks of a stage, and is remembered twice: as it was and as lists.
        groups = sum(min(max(vertex.tasks, 1), GROUPS_MAX) for vertex in vertices) if self.job else 0
        self.size_bytes = len(vertices) * VERTEX_BYTES + names + edges * EDGE_BYTES + groups * GROUP_BYTES

    def take(self, report: Report) -> None:
        """Take what was reported."""
        ids = {vertex.id for vertex in self.request.vertices}
        for now in report.vertices:
            if now.id in ids and now.low >= 3:
                self.low[now.id], self.tasks[now.id] = now.low, now.tasks
        for ended in report.ended:
            timed = 0 <= ended.took_ms <= min(ended.ended_ms, DURATION_MAX_MS) and ended.ended_ms <= NUMBER_MAX
            if ended.vertex in ids and ended.outcome is Outcome.SUCCEEDED and timed:
                sketch = self.durations.setdefault(ended.vertex, DurationSketch())
                before = sketch.buckets
                sketch.add(ended.took_ms)
                self.size_bytes += (sketch.buckets - before) * BUCKET_BYTES
                start_ms = ended.ended_ms - ended.took_ms
                self.first_ms = start_ms if self.first_ms < 0 else min(self.first_ms, start_ms)
                self.last_ms = max(self.last_ms, ended.ended_ms)

    def progress(self) -> dict[int, Progress]:
        """Return how far vertices are; a task that runs counts as one that has not started, as nobody reports it."""
        found = {}
        for vertex in self.request.vertices:
            tasks, seen = self.tasks.get(vertex.id, vertex.tasks), self.durations.get(vertex.id)
            count = 0 if seen is None else seen.count
            ended = count if tasks < 0 else min(count, tasks)
            found[vertex.id] = Progress(tasks, ended, ended, 0 if seen is None else round(seen.mean_ms * ended), 0)
        return found

    def view(self, plans: Plans) -> DagView:
        """Return what the engine should know of it."""
        views, scores = [], {}
        if self.job is not None and plans.scores:
            scores = self.job.scores(self.progress(), relative=plans.relative_scores)
        for vertex in self.request.vertices:
            if vertex.id not in self.low:
                continue
            tasks, seen = self.tasks[vertex.id], self.durations.get(vertex.id)
            ended = 0 if seen is None else seen.count
            left = max(tasks - ended, 0) if 0 <= tasks <= TASKS_MAX else -1
            duration_ms = deviation_ms = -1
            if seen is not None and ended >= min(SEEN_MIN, max(tasks, 1)):
                duration_ms = round(seen.mean_ms)
                deviation_ms = round(seen.deviation_ms) if ended > 1 else -1
            elif vertex.id in self.predictions:
                duration_ms, deviation_ms = (min(each, DURATION_MAX_MS) for each in self.predictions[vertex.id][:2])
            score = scores.get(vertex.id, NO_PLAN)
            views.append(VertexView(self.low[vertex.id], score, duration_ms, deviation_ms, left))
        return DagView(self.version, tuple(views))

    def run(self, attempt: Attempt) -> JobRun:
        """Return the DAG, which has succeeded, as a run."""
        ids = (vertex.id for vertex in self.request.vertices)
        durations = {vertex: self.durations.get(vertex, DurationSketch()) for vertex in ids}
        return run_of(self.key, attempt, self.request, self.tasks, durations, (self.first_ms, self.last_ms))


def dag_of(request: PlanRequest, known: Mapping[int, Prediction], usual: Mapping[str, int]) -> Dag:
    """Return a DAG as the planner takes it: a vertex whose width is not known has its usual one, or one task.

    Raises:
        DagError: it contradicts itself.
    """
    tasks = {
        vertex.id: max(vertex.tasks if vertex.tasks >= 0 else usual.get(vertex.name, 1), 1)
        for vertex in request.vertices
    }
    return ordered(
        request.name,
        tuple(
            Stage(
                vertex.id,
                tasks[vertex.id],
                known[vertex.id].duration_ms if vertex.id in known else DURATION_MS,
                {name: float(amount) for name, amount in vertex.demand.items()},
                tuple(vertex.parents),
                frozenset(
                    parent
                    for parent, single in vertex.parents.items()
                    if single and tasks.get(parent) == tasks[vertex.id]
                ),
                name=vertex.name,
            )
            for vertex in request.vertices
        ),
    )


Claims = npt.NDArray[np.void]

CLAIM: Final = np.dtype(
    [
        ("priority", "<i4"),
        ("tasks", "<i4"),  # not ended yet; -1: not known
        ("duration_ms", "<i8"),  # of a task; -1: not known
        ("deviation_ms", "<i8"),  # -1: not known
        ("score", "<f8"),  # of the next task to start; -1: there is no plan
    ]
)

CLAIMS_MAX: Final = 3 * VERTICES_MAX
"""A vertex of Tez has three priorities."""

DURATION_MAX_MS: Final = 2**40
"""No task is believed to have taken longer."""


class VertexView(NamedTuple):
    """What the engine should know of a vertex."""

    low: int
    """The largest of its three request priorities."""
    score: float
    """Of the next task to start (`PlannedJob.scores`); -1 if there is no plan."""
    duration_ms: int
    """-1 if not known; so are the next two."""
    deviation_ms: int
    tasks_left: int


class DagView(NamedTuple):
    """What the engine should know of the DAG that an attempt runs."""

    version: int
    """Another one whenever anything has changed."""
    vertices: tuple[VertexView, ...]
    """Those whose priorities are known."""


def claims_of(view: DagView | None) -> Claims:
    """Return a row for each priority of a DAG, in ascending order; none without a DAG.

    A vertex's lowest number is for tasks that have failed: a plan wants them at once.
    """
    found: dict[int, tuple[int, int, int, int, float]] = {}
    for vertex in view.vertices if view else ():
        rest = (vertex.tasks_left, vertex.duration_ms, vertex.deviation_ms)
        again = vertex.score if vertex.score < 0 else 1.0
        for above, score in enumerate((vertex.score, vertex.score, again)):
            found[vertex.low - above] = (vertex.low - above, *rest, score)
    return np.array([found[priority] for priority in sorted(found)], CLAIM)


def read_claims(content: bytes) -> Claims:
    """Return the rows in some bytes, which nobody has checked.

    Raises:
        ValueError: they are none.
    """
    rows: Any = np.frombuffer(content, CLAIM)
    if len(rows) > CLAIMS_MAX:
        raise ValueError(f"{len(rows)} claims; at most {CLAIMS_MAX} are taken")
    if not bool((np.diff(rows["priority"].astype(np.int64)) > 0).all()):
        raise ValueError("claims whose priorities do not ascend")
    for name, most in (("tasks", TASKS_MAX), ("duration_ms", DURATION_MAX_MS), ("deviation_ms", DURATION_MAX_MS)):
        if not bool(((rows[name] >= -1) & (rows[name] <= most)).all()):
            raise ValueError(f"claims of an impossible {name}")
    if not bool(((rows["score"] == -1.0) | ((rows["score"] >= 0.0) & (rows["score"] <= 1.0))).all()):
        raise ValueError("claims of an impossible score")
    return cast(Claims, rows)
