"""What application masters asked and reported: plans go out, and what is known of each DAG is kept for the engine.

Called on the listener's threads and on the thread that decides; no socket or file of its own.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from threading import Lock
from typing import Final, NamedTuple

from treadle.config.settings import Plans
from treadle.dag.dag import Dag, DagError, Stage, ordered
from treadle.planner.online import Group, Machines, machines_of, plan_online
from treadle.planner.plan import Plan
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
from treadle.plans.replanning import Replanning, better, remaining, sizes_of
from treadle.profiles.prediction import Prediction
from treadle.profiles.recurrence import RecurrenceKey, recurrence_key
from treadle.profiles.run import NUMBER_MAX
from treadle.profiles.sketch import DurationSketch

_log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 10_000
"""Attempts whose DAG is kept; the one that asked least recently is forgotten first."""

PLAN_TASKS_MAX: Final = 2_000_000
"""A DAG with more tasks than this is not planned."""

PLAN_STAGES_MAX: Final = 200_000
"""Candidate schedules times stages of a plan: a large DAG has fewer candidates, so that others are not kept waiting."""

BUSY_S: Final = 1.5
"""One plan is made at a time; who would wait longer is told `BUSY`."""

DURATION_MS: Final = 10_000
"""How long tasks are taken to run of vertices of which nothing is known: all alike."""

DURATION_MAX_MS: Final = 2**40
"""No task is believed to have taken longer."""

SEEN_MIN: Final = 3
"""So many ended tasks of a vertex say more than its earlier runs; all of them, if it has fewer."""

Amounts = tuple[tuple[str, float], ...]


class VertexView(NamedTuple):
    """What the engine should know of a vertex."""

    low: int
    """The largest of its three request priorities."""
    score: float
    """tpriScore: 1 first, 0 last; -1 if there is no plan."""
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
    scores: dict[int, float]
    version: int
    replanning: Replanning | None = None
    """None if it has no plan."""
    usual: Mapping[str, int] = field(default_factory=dict)
    """How many tasks vertices usually have, by name."""
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
            return None if record is None or record.done else _view(record)

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
        plan, usual = None, widths(profile)
        try:
            dag = _dag(request, known, usual)
            if self._plans.schedules and dag.tasks <= PLAN_TASKS_MAX and dag.stages:
                if not self._planning.acquire(timeout=BUSY_S):
                    return Status.BUSY, b""
                try:
                    plan = plan_online(dag, self._machines(request), self._schedules(dag))
                finally:
                    self._planning.release()
        except DagError as error:
            _log.info("%s is not planned: %s", attempt, error)
        scores = {} if plan is None else _scores(plan)
        replanning = None if plan is None else Replanning(plan.stage_order(), sizes_of(dag), self._clock_s())
        with self._lock:
            self._records.pop(attempt, None)
            self._versions += 1
            self._records[attempt] = _Record(key, request, known, scores, self._versions, replanning, usual)
            while len(self._records) > ATTEMPTS_MAX:
                del self._records[next(iter(self._records))]
        return (Status.NO_PLAN, b"") if plan is None else (Status.OK, plan_body(plan.stage_order()))

    def _schedules(self, dag: Dag) -> int:
        return max(1, min(self._plans.schedules, PLAN_STAGES_MAX // len(dag.stages)))

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
        run = due = None
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
            if report.planned and not record.done and record.replanning is not None:
                due = self._due(record, record.replanning)
        if run is not None:
            self._history.put(run)
        order = () if due is None else self._replan(record, *due)
        return Status.OK, plan_body(order) if order else b""

    def _due(self, record: _Record, replanning: Replanning) -> tuple[Replanning, Dag] | None:
        """Return what is left of a DAG if it should be planned anew now."""
        now_s = self._clock_s()
        if not replanning.may_look(now_s):
            return None
        dag = _dag(_request_now(record), _known_now(record), record.usual)
        sizes = sizes_of(dag)
        if dag.tasks > PLAN_TASKS_MAX or not replanning.is_off(sizes):
            return None
        replanning.look(sizes, now_s)
        left = remaining(dag, {vertex: seen.count for vertex, seen in record.durations.items()})
        return (replanning, left) if left.stages else None

    def _replan(self, record: _Record, replanning: Replanning, left: Dag) -> tuple[int, ...]:
        """Return another order for a DAG that runs; empty if it keeps the one it has."""
        if not self._planning.acquire(timeout=BUSY_S / 2):
            return ()
        try:
            found = better(replanning.order, left, self._machines(record.request), self._schedules(left))
        except DagError as error:
            _log.info("%s keeps its plan: %s", record.key.name, error)
            return ()
        finally:
            self._planning.release()
        if found is None:
            return ()
        with self._lock:
            replanning.order, plan = found
            record.scores |= _scores(plan)
            self._versions += 1
            record.version = self._versions
        return replanning.order


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


def _scores(plan: Plan) -> dict[int, float]:
    return {stage.id: plan.stage_score(stage.id) for stage in plan.dag.stages}


def _request_now(record: _Record) -> PlanRequest:
    """Return a DAG with the widths that were reported last."""
    vertices = record.request.vertices
    now = (vertex._replace(tasks=record.tasks.get(vertex.id, vertex.tasks)) for vertex in vertices)
    return record.request._replace(vertices=tuple(now))


def _known_now(record: _Record) -> dict[int, Prediction]:
    """Return how long tasks take by those that have ended, where these say more than earlier runs.

    Vertices of which nothing has ended are taken to be off as those that have are in the median: durations count
    relative to each other (see `treadle.planner.following`).
    """
    before_ms = {
        vertex.id: record.predictions[vertex.id].duration_ms if vertex.id in record.predictions else DURATION_MS
        for vertex in record.request.vertices
    }
    seen_ms = {
        vertex: max(round(seen.mean_ms), 1)
        for vertex, seen in record.durations.items()
        if seen.count >= min(SEEN_MIN, max(record.tasks.get(vertex, 1), 1))
    }
    off = median([took_ms / max(before_ms[vertex], 1) for vertex, took_ms in seen_ms.items()] or [1.0])
    now_ms = {vertex: seen_ms.get(vertex, round(took_ms * off)) for vertex, took_ms in before_ms.items()}
    return {vertex: Prediction(took_ms, -1, 1) for vertex, took_ms in now_ms.items()}


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


def _view(record: _Record) -> DagView:
    views = []
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
        score = record.scores.get(vertex.id, -1.0)
        views.append(VertexView(record.low[vertex.id], score, duration_ms, deviation_ms, left))
    return DagView(record.version, tuple(views))
