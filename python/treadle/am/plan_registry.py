"""What application masters asked and reported: plans go out, and what is known of each DAG is kept for the engine.

Called on the listener's threads; no socket or file of its own. Nothing here is for the thread that decides.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final

from treadle.am.keeping import Bounds, Keeping
from treadle.am.keys import Attempt
from treadle.am.protocol import (
    Header,
    Kind,
    PlanRequest,
    Report,
    Status,
    TooLargeError,
    plan_body,
    read_plan_request,
    read_report,
)
from treadle.am.record import BUCKET_BYTES, DagView, Record, dag_of
from treadle.am.sources import PlanSources
from treadle.am.task_times import History, predictions, widths
from treadle.am.turns import Turns
from treadle.config.settings import Plans
from treadle.dag.dag import Dag, DagError
from treadle.errors import printable
from treadle.history.run import RecurrenceKey, recurrence_key
from treadle.planner.online import Group, Machines, PlannedJob, machines_of

_log = logging.getLogger(__name__)

BYTES: Final = Bounds(8 << 20, 32 << 20, 128 << 20)
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
        self._records: Keeping[Attempt, Record] = Keeping(BYTES)
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
            if record.size_bytes + len(report.ended) * BUCKET_BYTES > BYTES.each:
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
