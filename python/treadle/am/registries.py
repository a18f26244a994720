"""What application masters asked and reported: plans go out, and what is known of each DAG is kept for the engine.

Called on the listener's threads; no socket or file of its own. Nothing here is for the thread that decides.

What drivers of Spark applications report of their stages, until the application is remembered.

Plans that are remembered for equal DAGs, by user: nobody's DAGs push out another's.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple

from treadle.am.protocol import (
    TASKS_MAX,
    Attempt,
    Header,
    Kind,
    MessageError,
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
from treadle.am.quotas import Bounds, Keeping, Turns
from treadle.am.record import BUCKET_BYTES, DagView, History, Record, dag_of, predictions, widths
from treadle.config.settings import Plans
from treadle.dag.dag import Dag, DagError
from treadle.errors import printable
from treadle.history.profile import (
    STAGES_MAX,
    DurationSketch,
    RecurrenceKey,
    SparkStage,
    StageRun,
    recurrence_key,
    stage_runs,
)
from treadle.planner.online import Group, Machines, PlannedJob, PlanSource, machines_of, shape_of
from treadle.planner.plan import Plan
from treadle.planner.problem import GROUPS_MAX

PARENTS_MAX: Final = 1_000
BUCKETS_MAX: Final = 2_000

_HEAD: Final = Struct(">BB")
_COUNTS: Final = Struct(">qiiii")
_SUMS: Final = Struct(">qqqqQ")
_BUCKET: Final = Struct(">Hi")


class StageReport(NamedTuple):
    """The whole of what is known of each stage that has changed since the last report."""

    from_the_start: bool
    """Earlier reports are void."""
    ended: bool
    """The application has ended; nothing follows."""
    stages: dict[int, bytes]
    """By number, each as `read_stage` takes it."""


def read_stage_report(body: bytes) -> StageReport:
    """Return what the body of a report says.

    Raises:
        MessageError: it is none, or of a stage that cannot be.
    """
    return read_whole(body, _report)


def read_stage(content: bytes) -> SparkStage:
    """Return a stage of a report.

    Raises:
        MessageError: it is none.
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
"""Of an application's reports, of a user's, of all. Beyond, those of the user that has most are dropped first."""

_STAGE_BYTES: Final = 200
"""What a stage takes beside its bytes."""


@dataclass(eq=False)
class _Reported:
    attempt: int
    ended: bool = False
    stages: dict[int, bytes] = field(default_factory=dict)
    """As they came: this is how little space they take."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.stages.values())) + _STAGE_BYTES * len(self.stages)


class StageRegistry:
    """Takes reports of stages, gives them to the recorder of the application. For several threads."""

    def __init__(self, bounds: Bounds = STAGES_BYTES) -> None:
        self._attempts: dict[Attempt, str] = {}
        """Attempts that run, and their users."""
        self._reported: Keeping[str, _Reported] = Keeping(bounds)
        self._lock = Lock()

    def meet(self, attempt: Attempt, user: str) -> None:
        """Take that an attempt of a user's Spark application runs."""
        with self._lock:
            self._attempts[attempt] = user

    def part(self, attempt: Attempt) -> None:
        """Take that an attempt has ended; what it reported is kept until somebody asks for it."""
        with self._lock:
            self._attempts.pop(attempt, None)

    def serve(self, attempt: Attempt, body: bytes) -> Status:
        """Take an authenticated report; `REFUSED` if the application has reported too much.

        Raises:
            MessageError: it is damaged.
        """
        report = read_stage_report(body)
        name = application_of(attempt)
        with self._lock:
            user = self._attempts.get(attempt)
            if user is None:
                return Status.BUSY  # no frame has reported it yet
            before = self._reported.get(name)
            if not report.from_the_start and (before is None or before.attempt != attempt.attempt):
                return Status.UNKNOWN
            kept = _Reported(attempt.attempt) if report.from_the_start or before is None else before
            kept.stages |= report.stages
            kept.ended = kept.ended or report.ended
            return Status.OK if self._reported.put(name, user, kept, kept.size_bytes) else Status.REFUSED

    def take(self, application: str) -> list[bytes]:
        """Return an application's stages as they came, by YARN's id, and forget them; none without its last report."""
        with self._lock:
            reported = self._reported.pop(application)
        return [] if reported is None or not reported.ended else list(reported.stages.values())


def application_of(attempt: Attempt) -> str:
    """Return YARN's id of an attempt's application."""
    return f"application_{attempt.cluster_timestamp}_{attempt.application:04d}"


def runs_of(stages: list[bytes]) -> tuple[StageRun, ...]:
    """Return stages, as they came, as those of a run.

    Raises:
        MessageError: one is damaged.
    """
    return stage_runs(read_stage(content) for content in stages)


PLANS_BYTES: Final = Bounds(8 << 20, 16 << 20, 64 << 20)
"""Of a plan, of a user's plans, of all that are remembered."""

MACHINE_STAGES_MAX: Final = 50_000
"""Machines times stages of a plan: the planner's tables grow with both. A DAG of 1,000 stages is planned on 50."""

_GROUP_BYTES: Final = 100
_PLAN_STAGE_BYTES: Final = 500


class UserSource(PlanSource):
    """Plans a user's DAGs."""

    def __init__(self, sources: PlanSources, user: str, machines: Machines, schedules: int) -> None:
        super().__init__(machines, schedules)
        self._sources = sources
        self._user = user
        self._count = machines.count

    def plan(self, dag: Dag) -> Plan | None:
        """Return the plan of a DAG; None if it cannot be planned, since a task fits on no machine."""
        at = (self._user, shape_of(dag))
        known, found = self._sources.find(at)
        if not known:
            count = min(self._count, max(MACHINE_STAGES_MAX // max(len(dag.stages), 1), 1))
            self.machines = Machines(self.machines.capacity, count)
            found = super().plan(dag)
            self._sources.keep(at, self._user, found, dag)
        return found


class PlanSources:
    """Makes a source for each user; all plan on the same machines. For several threads."""

    def __init__(self, schedules: int, remembered: int) -> None:
        """Begin with no plan; at most ``remembered`` are kept."""
        self._schedules = schedules
        self._remembered = remembered
        self._kept: Keeping[Hashable, tuple[Plan | None]] = Keeping(PLANS_BYTES._replace(things=remembered))
        self._machines = Machines({}, 1)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, user: str, machines: Machines) -> UserSource:
        """Return who plans for a user on the machines that there are now."""
        with self._lock:
            if machines != self._machines:
                self._machines = machines
                self._kept = Keeping(PLANS_BYTES._replace(things=self._remembered))
        return UserSource(self, user, machines, self._schedules)

    def find(self, at: Hashable) -> tuple[bool, Plan | None]:
        """Return whether a plan is remembered, and which: None for a DAG that cannot be planned."""
        with self._lock:
            found = self._kept.get(at)
        return (False, None) if found is None else (True, found[0])

    def keep(self, at: Hashable, user: str, plan: Plan | None, dag: Dag) -> None:
        """Remember a plan."""
        groups = sum(min(stage.tasks, GROUPS_MAX) for stage in dag.stages)
        edges = sum(len(stage.parents) + len(stage.demand) for stage in dag.stages)
        with self._lock:
            self._kept.put(at, user, (plan,), groups * _GROUP_BYTES + (len(dag.stages) + edges) * _PLAN_STAGE_BYTES)


_log = logging.getLogger(__name__)

RECORDS_BYTES: Final = Bounds(8 << 20, 32 << 20, 128 << 20)
"""Bounds of an attempt's DAG, of a user's, of all. Beyond, DAGs of the user that has most are dropped first."""

PLAN_TASKS_MAX: Final = 200_000
"""A DAG with more tasks than this is not planned."""

REPLAN_EVERY_S: Final = 5.0
"""A DAG is planned anew at most so often."""

BUSY_S: Final = 1.5
"""One plan is made at a time; a request that would wait longer is answered `BUSY`."""

Amounts = tuple[tuple[str, float], ...]
Changed = Callable[[str, Attempt], None]
"""Called with user and attempt when something new is known of the attempt's DAG; on any thread."""


class PlanRegistry:
    """Serves requests, and hands on what it learns by them. For several threads."""

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
        self._records: Keeping[Attempt, Record] = Keeping(RECORDS_BYTES)
        self._groups: Sequence[Group] = ()
        self._versions = 0
        self._lock = Lock()
        self._turns = Turns(clock_s)
        self._sources = PlanSources(plans.schedules, plans.remembered)

    def meet(self, attempt: Attempt, key: RecurrenceKey) -> None:
        """Take who runs an attempt, and in which queue; the name in the key is replaced by that of each DAG."""
        with self._lock:
            self._applications[attempt] = key

    def part(self, attempt: Attempt) -> None:
        """Forget an attempt, which has ended."""
        with self._lock:
            self._applications.pop(attempt, None)
            self._records.pop(attempt)

    def machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Take what each usable node has of each resource that counts."""
        self.machine_groups([(has, count) for has, count in Counter(nodes.values()).items()])

    def machine_groups(self, groups: Sequence[tuple[Amounts, int]]) -> None:
        """Take how many usable nodes there are of each kind."""
        self._groups = [Group(dict(has), count) for has, count in sorted(groups)]

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

    def view(self, attempt: Attempt) -> DagView | None:
        """Return what is known of the DAG that an attempt runs; None if it runs none."""
        with self._lock:
            record = self._records.get(attempt)
            return None if record is None or record.done else record.view(self._plans)

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
            with self._turns.turn(key.user, BUSY_S) as mine:
                if not mine:
                    return Status.BUSY, b""
                job = self._job(key.user, request, dag, widths(profile))
        with self._lock:
            if attempt not in self._applications:
                return Status.BUSY, b""
            self._versions += 1
            record = Record(key, request, known, self._versions, job, self._clock_s())
            kept = self._records.put(attempt, key.user, record, record.size_bytes)
        if not kept:
            _log.info("%s is not planned: what is known of it would take %d bytes", attempt, record.size_bytes)
            return Status.NO_PLAN, b""
        self._changed(key.user, attempt)
        return (Status.NO_PLAN, b"") if job is None else (Status.OK, plan_body(job.order()))

    def _job(self, user: str, request: PlanRequest, dag: Dag, usual: Mapping[str, int]) -> PlannedJob | None:
        """Plan a DAG; None if a task fits on no machine. The caller has the turn."""
        guessed = {vertex.id for vertex in request.vertices if vertex.tasks < 0 and vertex.name not in usual}
        source = self._sources.of(user, self._machines(request))
        job = PlannedJob(source, dag, self._plans.wrong_factor, self._plans.replans_max, guessed)
        return None if job.plan is None else job

    def _machines(self, request: PlanRequest) -> Machines:
        """Return what to plan on: the cluster as far as it is known, else one machine for each task at a time."""
        if self._groups:
            return machines_of(self._groups, self._plans.cluster_share)
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
            self._versions += 1
            record.version = self._versions
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
        """Should a DAG be planned anew now?"""
        if record.job is None or self._clock_s() - record.planned_s < REPLAN_EVERY_S:
            return False
        return record.job.is_wrong(record.progress())

    def _replan(self, attempt: Attempt, record: Record) -> tuple[int, ...]:
        """Return another order for a DAG whose plan is wrong; empty if it has none."""
        job = record.job
        if job is None:
            return ()
        with self._turns.turn(record.key.user, BUSY_S / 2) as mine:
            if not mine:
                return ()  # the next report comes soon
            with self._lock:
                progress = record.progress()
                record.planned_s = self._clock_s()
                left = job.review(progress) if job.is_wrong(progress) else None
            source = self._sources.of(record.key.user, self._machines(record.request))
            plan = None if left is None or left.tasks > PLAN_TASKS_MAX else source.plan(left)
        with self._lock:
            if left is not None:
                job.follow(plan, progress)
            self._versions += 1
            record.version = self._versions
        self._changed(record.key.user, attempt)
        return () if plan is None else job.order()
