"""What application masters asked and reported: plans go out, and what is known of each DAG is kept for the engine.

Called on the listener's threads and on the thread that decides; no socket or file of its own.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple

from treadle.config.settings import Plans
from treadle.dag.dag import Dag, DagError, Stage, ordered
from treadle.planner.following import NO_PLAN, SEEN_MIN, PlannedJob, Progress
from treadle.planner.online import Group, Machines, PlanSource, machines_of
from treadle.plans.history import History, predictions, run_of, widths
from treadle.plans.keys import Attempt
from treadle.plans.protocol import (
    TASKS_MAX,
    Header,
    Kind,
    Outcome,
    PlanRequest,
    Report,
    Status,
    plan_body,
    read_plan_request,
    read_report,
)
from treadle.profiles.prediction import Prediction
from treadle.profiles.recurrence import RecurrenceKey, recurrence_key
from treadle.profiles.run import NUMBER_MAX
from treadle.profiles.sketch import DurationSketch

_log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 10_000
"""Attempts whose DAG is kept; the one that asked least recently is forgotten first."""

PLAN_TASKS_MAX: Final = 2_000_000
"""A DAG with more tasks than this is not planned."""

PLAN_VERTICES_MAX: Final = 1_000
"""Nor is one with more vertices: what is computed of it before the first candidate grows with their square."""

REPLAN_EVERY_S: Final = 5.0
"""A DAG is planned anew at most so often."""

BUSY_S: Final = 1.5
"""One plan is made at a time; who would wait longer is told `BUSY`."""

DURATION_MS: Final = 10_000
"""How long tasks are taken to run of vertices of which nothing is known: all alike."""

DURATION_MAX_MS: Final = 2**40
"""No task is believed to have taken longer."""

Amounts = tuple[tuple[str, float], ...]


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


@dataclass(eq=False)
class _Record:
    key: RecurrenceKey
    request: PlanRequest
    predictions: dict[int, Prediction]
    version: int
    job: PlannedJob | None
    """None if it was not planned."""
    planned_s: float
    """When its plan was made, by the desk's clock."""
    low: dict[int, int] = field(default_factory=dict)
    tasks: dict[int, int] = field(default_factory=dict)
    durations: dict[int, DurationSketch] = field(default_factory=dict)
    first_ms: int = -1
    last_ms: int = -1
    done: bool = False


class PlanDesk:
    """Serves requests, and tells what it learns by them. For several threads."""

    def __init__(self, plans: Plans, history: History, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._plans = plans
        self._history = history
        self._clock_s = clock_s
        self._applications: dict[Attempt, RecurrenceKey] = {}
        self._records: dict[Attempt, _Record] = {}
        self._nodes: Mapping[int, Amounts] = {}
        self._versions = 0
        self._lock = Lock()
        self._planning = Lock()
        self._source = PlanSource(Machines({}, 1), 0)
        """Used by whoever has `_planning`."""

    def meet(self, attempt: Attempt, key: RecurrenceKey) -> None:
        """Take who runs an attempt, and in which queue; the name in the key is replaced by that of each DAG."""
        with self._lock:
            self._applications[attempt] = key

    def part(self, attempt: Attempt) -> None:
        """Forget an attempt, which has ended."""
        with self._lock:
            self._applications.pop(attempt, None)
            self._records.pop(attempt, None)

    def machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Take what each usable node has of each resource that counts; not changed afterwards."""
        self._nodes = nodes

    def serve(self, header: Header, body: bytes) -> tuple[Status, bytes]:
        """Answer an authenticated request.

        Raises:
            MessageError: its body is damaged.
        """
        if header.kind is Kind.PLAN:
            return self._plan(header.attempt, read_plan_request(body))
        return self._report(header.attempt, read_report(body))

    def view(self, attempt: Attempt) -> DagView | None:
        """Return what is known of the DAG that an attempt runs; None if it runs none."""
        with self._lock:
            record = self._records.get(attempt)
            return None if record is None or record.done else _view(record, self._plans)

    def version(self, attempt: Attempt) -> int:
        """Return `DagView.version`; 0 if the attempt runs no DAG."""
        record = self._records.get(attempt)
        return 0 if record is None or record.done else record.version

    def _plan(self, attempt: Attempt, request: PlanRequest) -> tuple[Status, bytes]:
        with self._lock:
            application = self._applications.get(attempt)
        if application is None:
            return Status.BUSY, b""
        key = recurrence_key(application.user, application.queue, application.type, request.name)
        profile = self._history.find(key)
        known = predictions(profile, request)
        try:
            dag = _dag(request, known, widths(profile))
        except DagError as error:
            _log.info("%s is not planned: %s", attempt, error)
            dag = None
        job = None
        if dag is not None and self._plans.schedules and self._may_plan(dag):
            if not self._planning.acquire(timeout=BUSY_S):
                return Status.BUSY, b""
            try:
                job = self._job(request, dag, widths(profile))
            finally:
                self._planning.release()
        with self._lock:
            self._records.pop(attempt, None)
            self._versions += 1
            self._records[attempt] = _Record(key, request, known, self._versions, job, self._clock_s())
            while len(self._records) > ATTEMPTS_MAX:
                del self._records[next(iter(self._records))]
        return (Status.NO_PLAN, b"") if job is None else (Status.OK, plan_body(job.order()))

    def _may_plan(self, dag: Dag) -> bool:
        return 0 < len(dag.stages) <= PLAN_VERTICES_MAX and dag.tasks <= PLAN_TASKS_MAX

    def _job(self, request: PlanRequest, dag: Dag, usual: Mapping[str, int]) -> PlannedJob | None:
        """Plan a DAG; None if a task fits on no machine. Whoever calls this has `_planning`."""
        guessed = {vertex.id for vertex in request.vertices if vertex.tasks < 0 and vertex.name not in usual}
        source = self._source_for(request)
        job = PlannedJob(source, dag, self._plans.wrong_factor, self._plans.replans_max, guessed)
        return None if job.plan is None else job

    def _source_for(self, request: PlanRequest) -> PlanSource:
        """Return who plans for the machines that there are now. Whoever calls this has `_planning`."""
        machines = self._machines(request)
        if machines != self._source.machines:
            self._source = PlanSource(machines, self._plans.schedules, self._plans.remembered)
        return self._source

    def _machines(self, request: PlanRequest) -> Machines:
        """Return what to plan on: the cluster as far as it is known, else one machine for each task at a time."""
        groups = [Group(dict(has), count) for has, count in sorted(Counter(self._nodes.values()).items())]
        if groups:
            return machines_of(groups, self._plans.cluster_share)
        largest: dict[str, float] = {}
        for vertex in request.vertices:
            for name, amount in vertex.demand.items():
                largest[name] = max(largest.get(name, 0.0), float(amount))
        return Machines(largest, 1)

    def _report(self, attempt: Attempt, report: Report) -> tuple[Status, bytes]:
        run = None
        with self._lock:
            record = self._records.get(attempt)
            if record is None or record.request.dag != report.dag:
                return Status.UNKNOWN, b""
            _take(record, report)
            self._versions += 1
            record.version = self._versions
            if report.state == 1 and not record.done and record.first_ms >= 0:
                ids = (vertex.id for vertex in record.request.vertices)
                durations = {vertex: record.durations.get(vertex, DurationSketch()) for vertex in ids}
                times_ms = (record.first_ms, record.last_ms)
                run = run_of(record.key, attempt, record.request, record.tasks, durations, times_ms)
            record.done = record.done or report.state != 0
            due = report.planned and not record.done and self._is_due(record)
        if run is not None:
            self._history.put(run)
        order = self._replan(record) if due else ()
        return Status.OK, plan_body(order) if order else b""

    def _is_due(self, record: _Record) -> bool:
        """Should a DAG be planned anew now?"""
        if record.job is None or self._clock_s() - record.planned_s < REPLAN_EVERY_S:
            return False
        return record.job.is_wrong(_progress(record))

    def _replan(self, record: _Record) -> tuple[int, ...]:
        """Return another order for a DAG whose plan is wrong; empty if it has none."""
        job = record.job
        if job is None or not self._planning.acquire(timeout=BUSY_S / 2):
            return ()  # the next report comes soon
        try:
            with self._lock:
                progress = _progress(record)
                record.planned_s = self._clock_s()
                left = job.review(progress) if job.is_wrong(progress) else None
            plan = None if left is None or left.tasks > PLAN_TASKS_MAX else self._source_for(record.request).plan(left)
        finally:
            self._planning.release()
        with self._lock:
            if left is not None:
                job.follow(plan, progress)
            self._versions += 1
            record.version = self._versions
        return () if plan is None else job.order()


def _dag(request: PlanRequest, known: Mapping[int, Prediction], usual: Mapping[str, int]) -> Dag:
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


def _progress(record: _Record) -> dict[int, Progress]:
    """Return how far vertices are; a task that runs counts as one that has not started, as nobody reports it."""
    found = {}
    for vertex in record.request.vertices:
        tasks, seen = record.tasks.get(vertex.id, vertex.tasks), record.durations.get(vertex.id)
        count = 0 if seen is None else seen.count
        ended = count if tasks < 0 else min(count, tasks)
        found[vertex.id] = Progress(tasks, ended, ended, 0 if seen is None else round(seen.mean_ms * ended), 0)
    return found


def _take(record: _Record, report: Report) -> None:
    ids = {vertex.id for vertex in record.request.vertices}
    for now in report.vertices:
        if now.id in ids and now.low >= 3:
            record.low[now.id], record.tasks[now.id] = now.low, now.tasks
    for ended in report.ended:
        timed = 0 <= ended.took_ms <= min(ended.ended_ms, DURATION_MAX_MS) and ended.ended_ms <= NUMBER_MAX
        if ended.vertex in ids and ended.outcome is Outcome.SUCCEEDED and timed:
            record.durations.setdefault(ended.vertex, DurationSketch()).add(ended.took_ms)
            start_ms = ended.ended_ms - ended.took_ms
            record.first_ms = start_ms if record.first_ms < 0 else min(record.first_ms, start_ms)
            record.last_ms = max(record.last_ms, ended.ended_ms)


def _view(record: _Record, plans: Plans) -> DagView:
    views, scores = [], {}
    if record.job is not None and plans.scores:
        scores = record.job.scores(_progress(record), relative=plans.relative_scores)
    for vertex in record.request.vertices:
        if vertex.id not in record.low:
            continue
        tasks, seen = record.tasks[vertex.id], record.durations.get(vertex.id)
        ended = 0 if seen is None else seen.count
        left = max(tasks - ended, 0) if 0 <= tasks <= TASKS_MAX else -1
        duration_ms = deviation_ms = -1
        if seen is not None and ended >= min(SEEN_MIN, max(tasks, 1)):
            duration_ms = round(seen.mean_ms)
            deviation_ms = round(seen.deviation_ms) if ended > 1 else -1
        elif vertex.id in record.predictions:
            duration_ms, deviation_ms = record.predictions[vertex.id][:2]
        score = scores.get(vertex.id, NO_PLAN)
        views.append(VertexView(record.low[vertex.id], score, duration_ms, deviation_ms, left))
    return DagView(record.version, tuple(views))
