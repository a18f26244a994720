"""Requests and reports of application masters: plans as answers, and the state of each DAG for the engine.

Called on the listener's threads, never on the engine's; no socket or file of its own. Plans of equal DAGs are cached by
user, so that users do not evict each other's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from threading import Lock
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from treadle.am.protocol import (
    TASKS_MAX,
    VERTICES_MAX,
    Attempt,
    Header,
    Kind,
    MessageError,
    Outcome,
    PlanRequest,
    Reader,
    Report,
    Status,
    TooLargeError,
    plan_body,
    read_plan_request,
    read_report,
    read_whole,
)
from treadle.am.quotas import Bounds, FairScheduler, QuotaCache
from treadle.config.settings import Plans
from treadle.dag import Dag, DagError, Stage, ordered
from treadle.errors import printable
from treadle.history.profile import (
    NUMBER_MAX,
    STAGES_MAX,
    DurationSketch,
    JobProfile,
    JobRun,
    Measured,
    Prediction,
    RecurrenceKey,
    SparkStage,
    StageRun,
    predicted,
    recurrence_key,
    stage_runs,
    with_run,
)
from treadle.planner.online import (
    NO_PLAN,
    SEEN_MIN,
    Machines,
    PlannedJob,
    PlanSource,
    Progress,
    machines_of,
    shape_of,
)
from treadle.planner.plan import Plan
from treadle.planner.problem import GROUPS_MAX
from treadle.yarn.codes import application_id

PROFILES_BYTES: Final = Bounds(8 << 20, 16 << 20, 64 << 20, things=1_000)
"""Bounds of a recurring DAG's profile, of a user's profiles, and of all without a store. Beyond, the largest user loses
the least recently used first."""

_PROFILE_STAGE_BYTES: Final = 6_000
"""Size of a stage with its list of recent runs."""
_EDGE_BYTES: Final = 100

FindProfile = Callable[[RecurrenceKey], JobProfile | None]


class History:
    """Profiles of DAGs by user, queue and name. Thread-safe."""

    def __init__(self, find: FindProfile = lambda _: None, remember: Callable[[JobRun], None] = lambda _: None) -> None:
        """Use a store, or only memory.

        Args:
            find: returns a profile from the store; None if there is none
            remember: receives each successful DAG, for the store
        """
        self._find = find
        self._remember = remember
        self._profiles: QuotaCache[RecurrenceKey, JobProfile] = QuotaCache(PROFILES_BYTES)
        self._lock = Lock()

    def find(self, key: RecurrenceKey) -> JobProfile | None:
        """Return a DAG's profile; None if there is none."""
        with self._lock:
            profile = self._profiles.get(key)
        return profile or self._find(key)

    def put(self, run: JobRun) -> None:
        """Add a successful DAG to its profile, the store's if memory has none."""
        known = self.find(run.key)
        with self._lock:
            before = self._profiles.pop(run.key) or known
            after = with_run(before, run) or before
            if after is not None:
                self._profiles.put(run.key, run.key.user, after, _size_bytes(after))
        self._remember(run)


def _size_bytes(profile: JobProfile) -> int:
    edges = sum(len(stage.parents) + len(stage.one_to_one) + len(stage.demand) for stage in profile.stages)
    buckets = sum(stage.durations.buckets for stage in profile.stages)
    names = sum(4 * len(stage.name) for stage in profile.stages)
    return len(profile.stages) * _PROFILE_STAGE_BYTES + edges * _EDGE_BYTES + buckets * BUCKET_BYTES + names


def predictions(profile: JobProfile | None, request: PlanRequest) -> dict[int, Prediction]:
    """Return predicted task durations by vertex ID, for vertices with a prediction."""
    if profile is None:
        return {}
    stages = {stage.name: stage for stage in profile.stages if stage.measured is Measured.TASKS}
    values = {
        vertex.id: predicted(stages[vertex.name], vertex.demand) for vertex in request.vertices if vertex.name in stages
    }
    return {vertex: prediction for vertex, prediction in values.items() if prediction is not None}


def widths(profile: JobProfile | None) -> dict[str, int]:
    """Return the usual number of tasks by vertex name."""
    return {} if profile is None else {stage.name: stage.width for stage in profile.stages}


DURATION_MS: Final = 10_000
"""Default task duration in ms for vertices without any estimate."""

BUCKET_BYTES: Final = 110
"""Memory of a bucket of a sketch; the next constants are sizes of the items that they name."""
VERTEX_BYTES: Final = 1_500
EDGE_BYTES: Final = 150
GROUP_BYTES: Final = 60


@dataclass(eq=False)
class Record:
    """One DAG of one attempt. Not thread-safe."""

    key: RecurrenceKey
    request: PlanRequest
    predictions: dict[int, Prediction]
    job: PlannedJob | None
    """None if it is not planned."""
    planned_s: float
    """When its plan was made, by the plans' clock."""
    size_bytes: int = 0
    """Approximate size in memory, increased by `take_stages`."""
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
        # A plan has a score for each group of tasks of a stage, and is stored twice: in its original form and as lists.
        groups = sum(min(max(vertex.tasks, 1), GROUPS_MAX) for vertex in vertices) if self.job else 0
        self.size_bytes = len(vertices) * VERTEX_BYTES + names + edges * EDGE_BYTES + groups * GROUP_BYTES

    def take(self, report: Report) -> None:
        """Process a report."""
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
        """Return the progress of vertices; running tasks count as not started, since they are not reported."""
        progress = {}
        for vertex in self.request.vertices:
            tasks, seen = self.tasks.get(vertex.id, vertex.tasks), self.durations.get(vertex.id)
            count = 0 if seen is None else seen.count
            ended = count if tasks < 0 else min(count, tasks)
            progress[vertex.id] = Progress(tasks, ended, ended, 0 if seen is None else round(seen.mean_ms * ended), 0)
        return progress

    def claims(self, plans: Plans) -> Claims:
        """Return a row for the engine for each known priority of the DAG, in ascending order.

        A vertex's lowest number is for failed tasks, which a plan wants at once.
        """
        found: dict[int, tuple[int, int, int, int, float]] = {}
        scores: dict[int, float] = {}
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
            low, score = self.low[vertex.id], scores.get(vertex.id, NO_PLAN)
            for priority, own in ((low, score), (low - 1, score), (low - 2, score if score < 0 else 1.0)):
                found[priority] = (priority, left, duration_ms, deviation_ms, own)
        return np.array([found[priority] for priority in sorted(found)], CLAIM)

    def run(self, attempt: Attempt) -> JobRun:
        """Return the successful DAG as a run for the history store."""
        names = {vertex.id: vertex.name for vertex in self.request.vertices}
        stages = []
        for vertex in self.request.vertices:
            parents = [(names[parent], single) for parent, single in vertex.parents.items() if parent in names]
            width = max(self.tasks.get(vertex.id, vertex.tasks), 0)
            durations = self.durations.get(vertex.id, DurationSketch())
            all_parents = tuple(name for name, _ in parents)
            one_to_one = tuple(name for name, single in parents if single)
            stages.append(StageRun(vertex.name, width, durations, vertex.demand, all_parents, one_to_one=one_to_one))
        # Tez's own ID, so that an import of Tez's history counts the run once.
        name = f"dag_{attempt.cluster_timestamp}_{attempt.application:04d}_{self.request.dag}"
        return JobRun(self.key, name, self.first_ms, self.last_ms, tuple(stages))


def dag_of(request: PlanRequest, known: Mapping[int, Prediction], usual: Mapping[str, int]) -> Dag:
    """Return a DAG for the planner: a vertex of unknown width has its usual one, or one task.

    Raises:
        DagError: it is inconsistent.
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
        ("tasks", "<i4"),  # remaining; -1: unknown
        ("duration_ms", "<i8"),  # of a task; -1: unknown
        ("deviation_ms", "<i8"),  # -1: unknown
        ("score", "<f8"),  # of the next task to start; -1: no plan
    ]
)

CLAIMS_MAX: Final = 3 * VERTICES_MAX
"""A vertex of Tez has three priorities."""

DURATION_MAX_MS: Final = 2**40
"""Upper bound of a reported task duration."""


def read_claims(content: bytes) -> Claims:
    """Return the rows in untrusted bytes.

    Raises:
        ValueError: they are invalid.
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


PARENTS_MAX: Final = 1_000
BUCKETS_MAX: Final = 2_000

_HEAD: Final = Struct(">BB")
_COUNTS: Final = Struct(">qiiii")
_SUMS: Final = Struct(">qqqqQ")
_BUCKET: Final = Struct(">Hi")


class StageReport(NamedTuple):
    """The complete state of each stage that has changed since the last report."""

    from_the_start: bool
    """Whether earlier reports are invalid."""
    ended: bool
    """Whether the application has ended; this is its last report."""
    stages: dict[int, bytes]
    """By number, as input of `read_stage`."""


def read_stage_report(body: bytes) -> StageReport:
    """Return the stage report in a body.

    Raises:
        MessageError: it is invalid, or has an impossible stage.
    """
    return read_whole(body, _report)


def read_stage(content: bytes) -> SparkStage:
    """Return a stage of a report.

    Raises:
        MessageError: it is invalid.
    """
    return read_whole(content, _stage)


def _report(reader: Reader) -> StageReport:
    from_the_start, ended = reader.take(_HEAD)
    stages = {}
    for _ in range(reader.count(STAGES_MAX)):
        start = reader.at
        stage = _stage(reader)
        stages[stage.number] = reader.body[start : reader.at]
    return StageReport(bool(from_the_start), bool(ended), stages)


def _stage(reader: Reader) -> SparkStage:
    number, first_id, name, tasks = reader.number(), reader.number(), reader.text(), reader.number()
    if not 0 <= number < STAGES_MAX or not 0 <= tasks <= TASKS_MAX:
        raise MessageError(f"stage {number} of {tasks} tasks")
    parents = tuple(reader.number() for _ in range(reader.count(PARENTS_MAX)))
    input_bytes, *attempts = reader.take(_COUNTS)
    if min(input_bytes, *attempts) < 0:
        raise MessageError("a count below 0")
    failed, _killed, repeated, speculative = attempts
    durations = _durations(reader)
    return SparkStage(number, first_id, name, tasks, parents, durations, input_bytes, failed + repeated, speculative)


def _durations(reader: Reader) -> DurationSketch:
    buckets = reader.count(BUCKETS_MAX)
    if not buckets:
        return DurationSketch()
    low, high, total, above, below = reader.take(_SUMS)
    counts = (reader.take(_BUCKET) for _ in range(buckets))
    document = {
        "buckets": {str(bucket): count for bucket, count in counts},
        "min": low,
        "max": high,
        "sum": total,
        "squares": above << 64 | below,
    }
    return DurationSketch.from_json(document)


STAGES_BYTES: Final = Bounds(256 << 10, 8 << 20, 64 << 20)
"""Bounds of an application's reports, of a user's, of all. Beyond, the largest user loses reports first."""

_STAGE_BYTES: Final = 200
"""Overhead of a stage in addition to its bytes."""


@dataclass(eq=False)
class _Reported:
    attempt: int
    ended: bool = False
    stages: dict[int, bytes] = field(default_factory=dict)
    """In their original form, which is the smallest."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.stages.values())) + _STAGE_BYTES * len(self.stages)


class StageRegistry:
    """Takes stage reports and passes them to the application's recorder. Thread-safe."""

    def __init__(self, bounds: Bounds = STAGES_BYTES) -> None:
        self._attempts: dict[Attempt, str] = {}
        """Running attempts with their users."""
        self._reported: QuotaCache[str, _Reported] = QuotaCache(bounds)
        self._lock = Lock()

    def register_attempt(self, attempt: Attempt, user: str) -> None:
        """Add a running attempt of a user's Spark application."""
        with self._lock:
            self._attempts[attempt] = user

    def forget_attempt(self, attempt: Attempt) -> None:
        """Record that an attempt has ended; its reports stay until they are taken."""
        with self._lock:
            self._attempts.pop(attempt, None)

    def serve(self, attempt: Attempt, body: bytes) -> Status:
        """Process an authenticated report; `REFUSED` if the application has reported too much.

        Raises:
            MessageError: it is damaged.
        """
        report = read_stage_report(body)
        name = application_of(attempt)
        with self._lock:
            user = self._attempts.get(attempt)
            if user is None:
                return Status.BUSY  # frames have not reported it yet
            before = self._reported.get(name)
            if not report.from_the_start and (before is None or before.attempt != attempt.attempt):
                return Status.UNKNOWN
            kept = _Reported(attempt.attempt) if report.from_the_start or before is None else before
            kept.stages |= report.stages
            kept.ended = kept.ended or report.ended
            return Status.OK if self._reported.put(name, user, kept, kept.size_bytes) else Status.REFUSED

    def take_stages(self, application: str) -> list[bytes]:
        """Remove and return an application's stages, by YARN's ID, as received; empty before its last report."""
        with self._lock:
            reported = self._reported.pop(application)
        return [] if reported is None or not reported.ended else list(reported.stages.values())


def application_of(attempt: Attempt) -> str:
    """Return YARN's ID of an attempt's application."""
    return application_id(attempt.cluster_timestamp, attempt.application)


def runs_of(stages: list[bytes]) -> tuple[StageRun, ...]:
    """Return received stages as those of a run.

    Raises:
        MessageError: one is damaged.
    """
    return stage_runs(read_stage(content) for content in stages)


PLANS_BYTES: Final = Bounds(8 << 20, 16 << 20, 64 << 20)
"""Bounds of a plan, of a user's plans, of all cached ones."""

MACHINE_STAGES_MAX: Final = 50_000
"""Maximum of machines x stages of a plan, which bounds the tables: a DAG of 1,000 stages gets 50 machines."""

_GROUP_BYTES: Final = 100
_PLAN_STAGE_BYTES: Final = 500


class PlanSources:
    """Plans users' DAGs, all on the same machines, and caches the plans by user. Thread-safe."""

    def __init__(self, schedules: int, remembered: int) -> None:
        """Start with an empty cache; it holds at most ``remembered`` plans."""
        self._schedules = schedules
        self._bounds = PLANS_BYTES._replace(things=remembered)
        self._kept: QuotaCache[Hashable, tuple[Plan | None]] = QuotaCache(self._bounds)
        self._machines = Machines({}, 1)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def plan(self, user: str, machines: Machines, dag: Dag) -> Plan | None:
        """Return the plan of a user's DAG; None if it cannot be planned, since a task fits on no machine."""
        at = (user, shape_of(dag))
        with self._lock:
            if machines != self._machines:
                self._machines, self._kept = machines, QuotaCache(self._bounds)
            kept = self._kept.get(at)
        if kept is not None:
            return kept[0]
        count = min(machines.count, max(MACHINE_STAGES_MAX // max(len(dag.stages), 1), 1))
        plan = PlanSource(Machines(machines.capacity, count), self._schedules).plan(dag)
        groups = sum(min(stage.tasks, GROUPS_MAX) for stage in dag.stages)
        edges = sum(len(stage.parents) + len(stage.demand) for stage in dag.stages)
        with self._lock:
            self._kept.put(at, user, (plan,), groups * _GROUP_BYTES + (len(dag.stages) + edges) * _PLAN_STAGE_BYTES)
        return plan


_log = logging.getLogger(__name__)

RECORDS_BYTES: Final = Bounds(8 << 20, 32 << 20, 128 << 20)
"""Bounds of an attempt's DAG, of a user's, of all. Beyond, the user with the largest total loses DAGs first."""

PLAN_TASKS_MAX: Final = 200_000
"""Maximum number of tasks of a planned DAG."""

REPLAN_EVERY_S: Final = 5.0
"""Minimum interval between plans of a DAG, in seconds."""

BUSY_S: Final = 1.5
"""Plans are made one at a time; a request that would wait longer (s) is answered `BUSY`."""

Amounts = tuple[tuple[str, float], ...]
Changed = Callable[[str, Attempt], None]
"""Called with user and attempt after a change of the attempt's DAG; on any thread."""


class PlanRegistry:
    """Answers requests, and passes on their information. Thread-safe."""

    def __init__(
        self,
        plans: Plans,
        history: History,
        clock_s: Callable[[], float] = time.monotonic,
        changed: Changed = lambda _user, _attempt: None,
    ) -> None:
        self._plans = plans
        self._history = history
        self._clock_s = clock_s
        self._changed = changed
        self._applications: dict[Attempt, RecurrenceKey] = {}
        self._records: QuotaCache[Attempt, Record] = QuotaCache(RECORDS_BYTES)
        self._groups: Sequence[Machines] = ()
        self._lock = Lock()
        self._scheduler = FairScheduler(clock_s)
        self._sources = PlanSources(plans.schedules, plans.plans_cached_max)

    def register_attempt(self, attempt: Attempt, key: RecurrenceKey) -> None:
        """Add an attempt with user and queue; the name in the key is replaced by that of each DAG."""
        with self._lock:
            self._applications[attempt] = key

    def forget_attempt(self, attempt: Attempt) -> None:
        """Remove an attempt that has ended."""
        with self._lock:
            self._applications.pop(attempt, None)
            self._records.pop(attempt)

    def set_machines(self, groups: Sequence[tuple[Amounts, int]]) -> None:
        """Set the number of usable nodes of each kind."""
        self._groups = [Machines(dict(has), count) for has, count in sorted(groups)]

    def serve(self, header: Header, body: bytes) -> tuple[Status, bytes]:
        """Answer an authenticated request.

        Raises:
            MessageError: its body is damaged.
        """
        if header.kind is Kind.REPORT:
            return self._report(header.attempt, read_report(body))
        try:
            return self._plan(header.attempt, read_plan_request(body))
        except TooLargeError as error:
            _log.info("%s is not planned: %s", header.attempt, error)
            return Status.NO_PLAN, b""

    def claims(self, attempt: Attempt) -> Claims:
        """Return the engine's data of an attempt's DAG; empty if it runs none."""
        with self._lock:
            record = self._records.get(attempt)
            return np.zeros(0, CLAIM) if record is None or record.done else record.claims(self._plans)

    def _plan(self, attempt: Attempt, request: PlanRequest) -> tuple[Status, bytes]:
        with self._lock:
            application = self._applications.get(attempt)
        if application is None:
            return Status.BUSY, b""
        key = recurrence_key(application.user, application.queue, application.type, request.name)
        profile = self._history.find(key)
        known = predictions(profile, request)
        try:
            dag = dag_of(request, known, widths(profile))
        except DagError as error:
            _log.info("%s is not planned: %s", attempt, printable(str(error)))
            dag = None
        job = None
        if dag is not None and self._plans.schedules and len(dag.stages) > 0 and dag.tasks <= PLAN_TASKS_MAX:
            with self._scheduler.turn(key.user, BUSY_S) as mine:
                if not mine:
                    return Status.BUSY, b""
                job = self._job(key.user, request, dag, widths(profile))
        with self._lock:
            if attempt not in self._applications:
                return Status.BUSY, b""
            record = Record(key, request, known, job, self._clock_s())
            kept = self._records.put(attempt, key.user, record, record.size_bytes)
        if not kept:
            _log.info("%s is not planned: what is known of it would take %d bytes", attempt, record.size_bytes)
            return Status.NO_PLAN, b""
        self._changed(key.user, attempt)
        return (Status.NO_PLAN, b"") if job is None else (Status.OK, plan_body(job.order()))

    def _job(self, user: str, request: PlanRequest, dag: Dag, usual: Mapping[str, int]) -> PlannedJob | None:
        """Plan a DAG; None if a task fits on no machine. The caller has the turn."""
        guessed = {vertex.id for vertex in request.vertices if vertex.tasks < 0 and vertex.name not in usual}
        source = partial(self._sources.plan, user, self._machines(request))
        job = PlannedJob(source, dag, self._plans.replan_factor, self._plans.replans_max, guessed)
        return None if job.plan is None else job

    def _machines(self, request: PlanRequest) -> Machines:
        """Return the machines to plan on: the known cluster, else one machine for each concurrent task."""
        if self._groups:
            return machines_of(self._groups, self._plans.cluster_fraction)
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
            if record.size_bytes + len(report.ended) * BUCKET_BYTES > RECORDS_BYTES.each:
                return Status.BUSY, b""
            record.take(report)
            if report.state == 1 and not record.done and record.first_ms >= 0:
                run = record.run(attempt)
            record.done = record.done or report.state != 0
            due = report.planned and not record.done and self._is_due(record)
            self._records.put(attempt, record.key.user, record, record.size_bytes)
        if run is not None:
            self._history.put(run)
        self._changed(record.key.user, attempt)
        order = self._replan(attempt, record) if due else ()
        return Status.OK, plan_body(order) if order else b""

    def _is_due(self, record: Record) -> bool:
        """Return whether to replan a DAG now."""
        if record.job is None or self._clock_s() - record.planned_s < REPLAN_EVERY_S:
            return False
        return record.job.is_wrong(record.progress())

    def _replan(self, attempt: Attempt, record: Record) -> tuple[int, ...]:
        """Return a new order for a DAG with a wrong plan; empty without one."""
        job = record.job
        if job is None:
            return ()
        with self._scheduler.turn(record.key.user, BUSY_S / 2) as mine:
            if not mine:
                return ()  # the next report comes soon
            with self._lock:
                progress = record.progress()
                record.planned_s = self._clock_s()
                left = job.review(progress) if job.is_wrong(progress) else None
            machines = self._machines(record.request)
            plan = None
            if left is not None and left.tasks <= PLAN_TASKS_MAX:
                plan = self._sources.plan(record.key.user, machines, left)
        with self._lock:
            if left is not None:
                job.follow(plan, progress)
        self._changed(record.key.user, attempt)
        return () if plan is None else job.order()
