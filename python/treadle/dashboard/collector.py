"""Polls a cluster and creates the documents of the pages.

It is the only part of the dashboard that sends unsolicited requests to the ResourceManager. Beans are read every
`BEANS_EVERY_S`, and at most `POLL_PAUSE_MAX_S` after a slow poll, because the scheduling state must not be outdated for
long. Beans are posted before pages are read. REST pages are read every `PAGES_EVERY_S`, for at most a tenth of the
time, so that a slow ResourceManager gets fewer requests. Documents are written once per poll and served to every
reader; Prometheus metrics have a bounded number of labels set by users.
"""

from __future__ import annotations

import gzip
import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from treadle.dashboard.history import STALLED_NAME, Condition, Conditions, History, Trouble
from treadle.dashboard.reading import (
    COUNTERS,
    Agreement,
    BackgroundQuestion,
    Decisions,
    Held,
    HeldNode,
    Job,
    Nodes,
    Observed,
    Queue,
    Reader,
    agreements_of,
    held_of,
    plain,
)
from treadle.errors import UserError, printable, stalled_queue
from treadle.yarn import pages
from treadle.yarn.pages import active_of

PARTS: Final = ("overview", "queues", "nodes", "jobs", "decisions")
_GZIP_LEVEL: Final = 1


class Document(NamedTuple):
    """A JSON document."""

    version: int
    """Increases with each change of any document."""
    plain: bytes
    packed: bytes
    """The same, compressed with gzip."""


class Board:
    """The latest documents. Thread-safe: one thread posts, any number read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._documents: dict[str, Document] = {}
        self.version = 0
        """The number of the latest change; 0 before the first."""
        self._wake: Callable[[], None] = lambda: None
        self.metrics = b""
        self.polled_s = 0.0
        """End of the latest poll, seconds since 1970; 0: none yet."""

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call a function after each change, on the thread that posts."""
        self._wake = wake

    def post(self, at_s: float, parts: Mapping[str, Mapping[str, Any]], metrics: bytes = b"") -> None:
        """Replace documents by name.

        Args:
            at_s: end of the poll, seconds since 1970
            parts: the new ones of `PARTS`
            metrics: the poll in Prometheus format
        """
        assert set(parts) <= set(PARTS)
        version = self.version + 1
        written = {
            name: json.dumps(part, separators=(",", ":"), allow_nan=False).encode() for name, part in parts.items()
        }
        new = {
            name: Document(version, text, gzip.compress(text, _GZIP_LEVEL, mtime=0)) for name, text in written.items()
        }
        with self._lock:
            self._documents |= new
            self.version = version
            self.polled_s = at_s
            self.metrics = metrics
        self._wake()

    def read(self, part: str) -> Document | None:
        """Return a document; None before the first poll."""
        with self._lock:
            return self._documents.get(part)


MARKS: Final = (0.25, 0.5, 0.75)
"""Progress values at which the estimated total duration of a job is recorded."""
_PROGRESS_MAX_UNSERVED: Final = 0.05
"""MapReduce's application masters report up to this progress before any task has run."""


def expected_ms(job: Job) -> int | None:
    """Return a job's estimated total duration in ms, by linear extrapolation of the AM's progress.

    None if possibly no task has run.
    """
    if job.state != "RUNNING" or job.progress <= _PROGRESS_MAX_UNSERVED + 1e-6:
        return None
    return int(job.elapsed_ms / job.progress)


class Estimates:
    """Estimated durations of each job at the `MARKS`."""

    def __init__(self, kept: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Start with stored estimates of running jobs."""
        self._kept = {name: dict(of.get("expected_ms", {})) for name, of in (kept or {}).items()}

    def update(self, jobs: Iterable[Job]) -> dict[str, dict[str, Any]]:
        """Return the entries to store of jobs that have just passed a mark."""
        changed = {}
        for job in jobs:
            expected = expected_ms(job)
            marks = [str(mark) for mark in MARKS if job.progress >= mark]
            if expected is None or not marks:
                continue
            kept = self._kept.setdefault(job.id, {})
            # earlier marks of a job that was seen late are unknown
            if marks[-1] not in kept:
                kept[marks[-1]] = expected
                changed[job.id] = {"ended_ms": 0, "expected_ms": dict(kept)}
        return changed

    def end(self, job: Job) -> dict[str, Any]:
        """Remove a job that has ended; return its entries to store."""
        return {**plain(job), "expected_ms": self._kept.pop(job.id, {})}

    def evict(self, running: Iterable[str]) -> list[str]:
        """Remove and return the jobs that are not running."""
        left = sorted(set(self._kept) - set(running))
        for name in left:
            del self._kept[name]
        return left


ENDED_SHOWN_MAX: Final = 200
EVENTS_SHOWN_MAX: Final = 100


@dataclass(slots=True)
class View:
    """The latest state of all parts with their times, seconds since 1970; 0: never."""

    rm: str
    state: str = ""
    """``ACTIVE`` or ``STANDBY``; empty without an answer."""
    active: str = ""
    """Address of the active ResourceManager if this one is on standby; empty if unknown."""
    heard_s: float = 0.0
    decisions: Decisions | None = None
    decisions_s: float = 0.0
    counted_since_s: float = 0.0
    """Start of Treadle's counters; they restart with the ResourceManager."""
    rates: dict[str, float] = field(default_factory=dict)
    """Increase of counters per second."""
    nodes: Nodes = field(default_factory=Nodes)
    queues: list[Queue] = field(default_factory=list)
    queues_left_out: int = 0
    cluster_s: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    held: list[HeldNode] = field(default_factory=list)
    held_error: str = ""
    """Why the reserved nodes are unknown; empty if they are known."""
    observed: dict[str | None, Agreement] = field(default_factory=dict)
    """By queue, and overall under None; empty except in mode observe_only."""
    jobs_left_out: int = 0
    jobs_s: float = 0.0
    ended: list[dict[str, Any]] = field(default_factory=list)
    placements: dict[str, tuple[int, int]] = field(default_factory=dict)
    page_troubles: dict[str, Trouble] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    events: list[tuple[float, str]] = field(default_factory=list)
    series_left_out: int = 0


def documents(view: View) -> dict[str, dict[str, Any]]:
    """Return the documents by part."""
    return {
        "overview": overview(view),
        "queues": _queues(view),
        "nodes": _nodes(view),
        "jobs": _jobs(view),
        "decisions": _decisions(view),
    }


def overview(view: View) -> dict[str, Any]:
    """Return the document of problems and of the whole cluster."""
    decisions, totals = view.decisions, view.nodes.totals()
    return {
        "rm": view.rm,
        "state": view.state,
        "active": view.active,
        "heard_s": view.heard_s,
        "schedules": decisions is not None and not decisions.why_not and view.state == "ACTIVE",
        "mode": decisions.texts["Mode"] if decisions else "",
        "policy": decisions.texts["Policy"] if decisions else "",
        "conditions": [condition._asdict() for condition in view.conditions],
        "events": [{"at_s": at_s, "text": text} for at_s, text in view.events],
        "totals": totals,
        "totals_s": view.cluster_s,
        "jobs_running": sum(job.state == "RUNNING" for job in view.jobs),
        "jobs": len(view.jobs) + view.jobs_left_out,
        "series_left_out": view.series_left_out,
    }


def _queues(view: View) -> dict[str, Any]:
    return {
        "at_s": view.cluster_s,
        "left_out": view.queues_left_out,
        "queues": [{**plain(queue), "entitled": queue.entitled} for queue in view.queues],
    }


def _nodes(view: View) -> dict[str, Any]:
    held = {each.node: each.application for each in view.held}
    # the scheduler's name of a node is its host, with or without its port
    kept = [held.get(name) or held.get(name.rpartition(":")[0], "") for name in view.nodes.name]
    return {"at_s": view.cluster_s, **plain(view.nodes), "held_for": kept, "held_error": view.held_error}


def _jobs(view: View) -> dict[str, Any]:
    return {
        "at_s": view.jobs_s,
        "left_out": view.jobs_left_out,
        "counted_since_s": view.counted_since_s,
        "running": [_job(job, place, view) for job, place in zip(view.jobs, _places(view.jobs), strict=True)],
        "ended": view.ended[:ENDED_SHOWN_MAX],
    }


def _job(job: Job, place: int, view: View) -> dict[str, Any]:
    ours, others = view.placements.get(job.id, (None, None))
    return {
        **plain(job),
        "place": place,
        "expected_ms": expected_ms(job),
        "placed": ours,
        "placed_by_capacity_scheduler": others,
    }


def _places(jobs: list[Job]) -> list[int]:
    """Return each job's position in its queue by time of submission, from 1."""
    seen, places = Counter[str](), []
    for job in jobs:
        seen[job.queue] += 1
        places.append(seen[job.queue])
    return places


def _decisions(view: View) -> dict[str, Any]:
    decisions = view.decisions
    if decisions is None:
        return {"at_s": view.decisions_s, "there": False}
    return {
        "at_s": view.decisions_s,
        "there": True,
        "counted_since_s": view.counted_since_s,
        "why_not": decisions.why_not,
        "texts": decisions.texts,
        "numbers": {name: number for name, number in decisions.numbers.items() if name != "SinceMs"},
        "rejected": decisions.rejected,
        "rates": view.rates,
        "engines": decisions.engines,
    }


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
QUEUES_MAX: Final = 200


class _MetricsCollector:
    """One poll in the form that the library expects."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        yield from _state(self._view)
        if self._view.heard_s and self._view.state == "ACTIVE":  # old values of a lost node must not appear current
            yield from _treadle(self._view)
            yield from _cluster(self._view)


def exposition(view: View) -> bytes:
    """Return a poll in Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(view))
    return generate_latest(registry)


def _state(view: View) -> Iterator[Metric]:
    yield _gauge("treadle_rm_up", "1: the ResourceManager answers", float(bool(view.state)))
    yield _gauge("treadle_rm_active", "1: it is the active one", float(view.state == "ACTIVE"))
    yield _gauge("treadle_rm_last_answer_timestamp_seconds", "when it answered last, seconds since 1970", view.heard_s)
    wrong = GaugeMetricFamily(
        "treadle_condition_since_timestamp_seconds",
        "a condition that holds, and since when, seconds since 1970",
        labels=["name", "severity"],
    )
    for condition in view.conditions:
        wrong.add_metric([condition.name, condition.severity], condition.since_s)
    yield wrong


def _treadle(view: View) -> Iterator[Metric]:
    decisions = view.decisions
    yield _gauge("treadle_present", "1: the ResourceManager runs with Treadle", float(decisions is not None))
    if decisions is None:
        return
    numbers = decisions.numbers
    yield _gauge("treadle_schedules", "1: Treadle schedules the cluster", float(not decisions.why_not))
    yield _gauge("treadle_lease_held", "1: an engine holds the lease", numbers.get("LeaseHeld", 0))
    yield _gauge("treadle_stalled", "1: the engine places nothing though it could", numbers.get("Stalled", 0))
    decide = GaugeMetricFamily("treadle_decide_seconds", "round trip to the engine", labels=["quantile"])
    for quantile, name in (("0.5", "DecideP50Us"), ("0.99", "DecideP99Us")):
        decide.add_metric([quantile], numbers.get(name, 0) / 1e6)
    yield decide
    for name, key, text in (
        ("treadle_proposals", "Proposals", "placements that engines proposed"),
        ("treadle_placements", "Committed", "containers that Treadle placed"),
        ("treadle_capacity_scheduler_placements", "PlacedByCapacityScheduler", "containers that anyone else placed"),
        ("treadle_frames", "Frames", "frames sent to engines"),
        ("treadle_lease_flips", "LeaseFlips", "changes of the lease"),
        ("treadle_link_failures", "LinkFailures", "failures of the link"),
        ("treadle_sidecar_starts", "SidecarStarts", "starts of the sidecar"),
        ("treadle_caught_exceptions", "CaughtExceptions", "exceptions caught in overrides"),
    ):
        yield CounterMetricFamily(name, text, value=float(numbers.get(key, 0)))
    rejected = CounterMetricFamily(
        "treadle_rejections", "proposals that the ResourceManager rejected", labels=["reason"]
    )
    for reason, count in decisions.rejected.items():
        rejected.add_metric([reason], count)
    yield rejected
    placed = CounterMetricFamily("treadle_engine_placements", "of several engines what each placed", labels=["engine"])
    lives = GaugeMetricFamily("treadle_engine_up", "1: the engine is alive", labels=["engine"])
    for engine in decisions.engines:
        placed.add_metric([engine["engine"]], engine["committed"])
        lives.add_metric([engine["engine"]], float(engine["lives"]))
    yield placed
    yield lives
    yield from _observed(view.observed)


def _observed(agreements: Mapping[str | None, Agreement]) -> Iterator[Metric]:
    text = "mode observe_only: containers that the CapacityScheduler placed, by whether Treadle proposed them"
    every = CounterMetricFamily("treadle_observed_placements", text, labels=["proposed"])
    queues = CounterMetricFamily(
        "treadle_queue_observed_placements", f"{text}, of a queue", labels=["queue", "proposed"]
    )
    for queue, agreement in list(agreements.items())[: QUEUES_MAX + 1]:
        for column, count in agreement._asdict().items():
            if queue is None:
                every.add_metric([column], count)
            else:
                queues.add_metric([queue, column], count)
    yield every
    yield queues


def _cluster(view: View) -> Iterator[Metric]:
    yield _gauge(
        "treadle_pages_read_timestamp_seconds", "when nodes and queues were read, seconds since 1970", view.cluster_s
    )
    states = Counter(view.nodes.state)
    nodes = GaugeMetricFamily("treadle_nodes", "nodes", labels=["state"])
    for state, count in sorted(states.items())[:16]:
        nodes.add_metric([state], count)
    yield nodes
    yield _gauge("treadle_jobs", "applications that have not ended", len(view.jobs) + view.jobs_left_out)
    for name, text in (
        ("used", "share of the cluster that a queue uses"),
        ("entitled", "share that it is guaranteed, as far as it asks for it"),
        ("pending", "share that it asks for beyond its use"),
        ("guaranteed", "share that it is guaranteed"),
    ):
        family = GaugeMetricFamily(f"treadle_queue_{name}_ratio", text, labels=["queue"])
        for queue in view.queues[:QUEUES_MAX]:
            family.add_metric([queue.path], getattr(queue, name))
        yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


TEXT_MAX: Final = 200
RESTART_S: Final = 60.0
"""Counters that start this much later (s) belong to another start; both times are by the dashboard's clock."""

_COUNTED_SINCE: Final = "counted since"


class Changes:
    """Compares a poll with the state before, which an earlier process may have stored."""

    def __init__(self, seen: Mapping[str, str]) -> None:
        """Start with the stored state."""
        self.seen = dict(seen)
        self._counted_ms = -1

    def update(self, at_s: float, decisions: Decisions) -> list[str]:
        """Return a line for each change.

        Args:
            at_s: time of the poll, seconds since 1970
            decisions: content of Treadle's beans
        """
        return [*self._restarted(at_s, decisions), *self._renamed(decisions)]

    @property
    def counted_since_s(self) -> float:
        """Start of Treadle's counters, seconds since 1970; 0 if unknown."""
        return float(self.seen.get(_COUNTED_SINCE, 0.0))

    def _restarted(self, at_s: float, decisions: Decisions) -> list[str]:
        counted_ms = decisions.numbers.get("SinceMs", 0)
        if not counted_ms:
            return []
        since_s, known_s = at_s - counted_ms / 1000, self.counted_since_s
        again = bool(known_s) and (counted_ms < self._counted_ms or since_s > known_s + RESTART_S)
        self._counted_ms = counted_ms
        if known_s and not again:
            return []
        self.seen[_COUNTED_SINCE] = f"{since_s:.0f}"
        started = datetime.fromtimestamp(since_s, UTC).isoformat(timespec="seconds")
        return [f"the ResourceManager started, or became active again, at {started}: counters began at 0"] * again

    def _renamed(self, decisions: Decisions) -> list[str]:
        now = {"mode": decisions.texts["Mode"], "policy": decisions.texts["Policy"]}
        now |= {f"policy of engine {each['engine']}": str(each["policy"]) for each in decisions.engines}
        lines = []
        for name, text in now.items():
            before = self.seen.get(name, "")
            if text and before and text != before:
                lines.append(f"{name} changed from {printable(before[:TEXT_MAX])} to {printable(text[:TEXT_MAX])}")
            if text:
                self.seen[name] = text
        return lines


_log = logging.getLogger(__name__)

BEANS_EVERY_S: Final = 5.0
PAGES_EVERY_S: Final = 15.0
DUTY: Final = 0.1
"""Maximum fraction of the time spent on requests."""
POLL_PAUSE_MAX_S: Final = 10.0
BEAN_DOCUMENTS: Final = ("overview", "decisions")
"""Documents with the content of beans."""
PAGES_S: Final = 10.0
"""Time budget, in seconds, after which a poll reads no further page."""
PAGES_PAUSE_MAX_S: Final = 300.0
QUEUES_CHARTED_MAX: Final = 60
"""Maximum number of queues with a time series, in the order of the tree."""
ENDED_BACK_MS: Final = 24 * 3600 * 1000
"""How far back, in ms, the first poll requests ended jobs."""


class Collector:
    """Polls, stores the results, and posts documents."""

    def __init__(
        self,
        reader: Reader,
        history: History,
        board: Board,
        clock: Callable[[], float] = time.time,
        *,
        held: Held,
        observed: Observed,
    ) -> None:
        """Continue the work of an earlier process.

        Args:
            reader: reads from the ResourceManager
            history: the stored state
            board: where documents are posted
            clock: seconds since 1970
            held: asks an engine for its reserved nodes
            observed: asks a sidecar for the results of mode observe_only

        Raises:
            UserError: the history cannot be read.
        """
        self._reader, self._history, self._board, self._clock = reader, history, board, clock
        self._held = BackgroundQuestion[list[HeldNode]](lambda: held_of(held()), [])
        self._observed = BackgroundQuestion[dict[str | None, Agreement]](lambda: agreements_of(observed()), {})
        try:
            polled_s, kept = history.conditions()
            self._estimates = Estimates(history.jobs(ended=False))
            self._ended = set(history.jobs(ended=True))
            self._seen = history.seen()
            self._changes = Changes(self._seen)
        except sqlite3.Error as error:
            raise UserError(f"{history.path}: {error}; move the file away, then a new history begins") from error
        self._conditions = Conditions(kept, polled_s)
        self.view = View(rm=reader.rm)
        self._counted: tuple[float, Mapping[str, int]] | None = None
        self._pages_due_s = 0.0
        self._history_trouble = ""
        self._lines: list[str] = []
        """Lines about changes that are not stored yet."""

    def run(self, stop: Event) -> None:
        """Poll until ``stop`` is set; errors do not end it."""
        while not stop.is_set():
            began_s = time.monotonic()
            try:
                self.poll()
            except Exception as error:  # a failed poll must not be the last
                _log.exception("a look at the cluster failed")
                self._report_failure(error)
            took_s = time.monotonic() - began_s
            stop.wait(min(max(BEANS_EVERY_S, took_s / DUTY - took_s), POLL_PAUSE_MAX_S))

    def poll(self) -> None:
        """Poll once, store the answers, and post documents."""
        at_s, troubles = self._clock(), dict[str, Trouble]()
        values = self._poll_beans(at_s, troubles)
        is_active = self.view.state == "ACTIVE"
        pages_due = is_active and at_s >= self._pages_due_s
        self._keep(at_s, values, troubles | (self.view.page_troubles if is_active else {}))
        if pages_due:
            if self._board.version:  # pages may be slow: the beans are posted first
                self._post(BEAN_DOCUMENTS)
            began_s = time.monotonic()
            values = self._poll_pages(at_s)
            took_s = time.monotonic() - began_s
            self._pages_due_s = at_s + min(max(PAGES_EVERY_S, took_s / DUTY), PAGES_PAUSE_MAX_S) - BEANS_EVERY_S / 2
            self._keep(at_s, values, troubles | self.view.page_troubles)
        self._post(PARTS)

    def _post(self, parts: tuple[str, ...]) -> None:
        changed = documents(self.view)
        self._board.post(self._clock(), {part: changed[part] for part in parts}, exposition(self.view))

    def _report_failure(self, error: Exception) -> None:
        """Post the failure of a poll; earlier problems stay, since there is no newer information."""
        at_s, view = self._clock(), self.view
        text = f"the cluster was not read, pages show old figures: {type(error).__name__}: {printable(str(error))}"
        known = {each.name: Trouble(each.severity, each.text) for each in view.conditions}
        try:
            self._keep(at_s, {}, {"look": Trouble("fail", f"{text}; the dashboard's log has more")} | known)
            self._board.post(at_s, {"overview": overview(view)}, exposition(view))
        except Exception:  # pages then report that polling has stopped
            _log.exception("a look that failed cannot be reported")

    def _poll_beans(self, at_s: float, troubles: dict[str, Trouble]) -> dict[str, float]:
        view, reader = self.view, self._reader
        try:
            view.state, decisions = reader.beans()
        except UserError as error:
            view.state = ""
            troubles["lost"] = Trouble("fail", f"the ResourceManager does not answer: {printable(str(error))}")
            self._counted = None
            return {}
        view.heard_s = at_s
        if view.state == "STANDBY":
            if not view.active:
                view.active = active_of(reader.rm, reader.ca)
            where = f"; the active one is {view.active}" if view.active else ""
            text = f"the ResourceManager at {reader.rm} is on standby, where nothing is scheduled{where}; start the "
            troubles["standby"] = Trouble("fail", f"{text}dashboard with --rm of the active one")
            self._counted = None
            return {}
        view.active = ""
        if moving := pages.passing(view.state):
            text = f"the ResourceManager at {reader.rm} is {moving}: nothing is scheduled"
            troubles["passing"] = Trouble("fail", f"{text}; if it stays so, look at its log")
            self._counted = None
            return {}
        if decisions is None:
            view.decisions = None
            text = "the ResourceManager runs without Treadle; look at yarn.resourcemanager.scheduler.class in its "
            troubles["treadle"] = Trouble(
                "fail", f"{text}treadle-site.xml or yarn-site.xml (treadle install), and its log"
            )
            self._counted = None
            return {}
        view.decisions, view.decisions_s = decisions, at_s
        self._lines += self._changes.update(at_s, decisions)
        view.counted_since_s = self._changes.counted_since_s
        troubles |= _troubles_of(decisions)
        return self._rates(at_s, decisions)

    def _rates(self, at_s: float, decisions: Decisions) -> dict[str, float]:
        """Return time series values; for counters the increase per second since the last poll."""
        numbers = decisions.numbers
        counted: dict[str, int] = {name: numbers[name] for name in COUNTERS if name in numbers}
        counted |= {f"Rejected{reason}": count for reason, count in decisions.rejected.items()}
        counted |= {f"engine {each['engine']} committed": int(each["committed"]) for each in decisions.engines}
        values = {"schedules": float(numbers.get("Schedules", 0))}
        for name, metric in (("decide p50", "DecideP50Us"), ("decide p99", "DecideP99Us")):
            values[name] = numbers.get(metric, 0) / 1000
        before, self._counted = self._counted, (at_s, counted)
        if before is None or at_s <= before[0] or any(counted.get(name, 0) < old for name, old in before[1].items()):
            self.view.rates = {}
            return values  # the first poll, or counters were reset: another ResourceManager
        rates = {name: (count - before[1].get(name, 0)) / (at_s - before[0]) for name, count in counted.items()}
        self.view.rates = rates
        # a reason that never occurred needs no series
        reasons = {f"Rejected{reason}" for reason, count in decisions.rejected.items() if count == 0}
        return values | {f"rate {name}": rate for name, rate in rates.items() if name not in reasons}

    def _poll_pages(self, at_s: float) -> dict[str, float]:
        view, troubles, values = self.view, dict[str, Trouble](), dict[str, float]()
        until_s = time.monotonic() + PAGES_S

        def attempt(name: str, what: str, read: Callable[[], None]) -> None:
            try:
                if time.monotonic() > until_s:
                    raise UserError("the ResourceManager took too long with the pages before")
                read()
            except UserError as error:
                troubles[name] = Trouble(
                    "warn", f"{what} cannot be read, pages show old figures: {printable(str(error))}"
                )

        def cluster() -> None:
            view.nodes, view.queues, view.queues_left_out = self._reader.cluster()
            view.cluster_s = at_s
            values.update(_shares(view.nodes, view.queues))

        def jobs() -> None:
            view.jobs, view.jobs_left_out = self._reader.jobs()
            view.jobs_s = at_s
            values.update({"jobs running": sum(job.state == "RUNNING" for job in view.jobs), "jobs": len(view.jobs)})
            self._follow(view.jobs)

        def held() -> None:
            view.held, view.held_error = self._held.ask()
            observes = view.decisions is not None and view.decisions.texts["Mode"] == "observe_only"
            view.observed = self._observed.ask()[0] if observes else {}

        def placements() -> None:
            view.placements = self._reader.placements()

        attempt("nodes and queues", "nodes and queues", cluster)
        attempt("jobs", "jobs", jobs)
        held()
        if view.decisions is not None:
            attempt("placements", "who placed the containers", placements)
        view.page_troubles = troubles
        return values

    def _follow(self, jobs: list[Job]) -> None:
        """Store estimates of jobs, and jobs that ended since the last poll."""
        try:
            back_ms = int(self._clock() * 1000) - ENDED_BACK_MS
            since_ms = max(back_ms, max((int(job["ended_ms"]) for job in self.view.ended), default=0))
            ended = [job for job in self._reader.ended(since_ms) if job.id not in self._ended]
            changed: dict[str, dict[str, Any]] = self._estimates.update(jobs)
            changed |= {job.id: self._estimates.end(job) for job in ended}
            if changed:
                self._history.keep_jobs(changed)
            self._history.forget_jobs(self._estimates.evict(job.id for job in jobs))
            if changed or not self.view.ended:
                self.view.ended = list(self._history.jobs(ended=True).values())
                self._ended = {str(job["id"]) for job in self.view.ended}
        except sqlite3.Error as error:
            self._history_trouble = str(error)

    def _keep(self, at_s: float, values: dict[str, float], troubles: dict[str, Trouble]) -> None:
        """Store a poll in the history; after a failure the pages report it and show the rest."""
        view = self.view
        if self._history_trouble:
            text = f"{self._history.path} cannot be written, so nothing is remembered: {self._history_trouble}"
            troubles["history"] = Trouble("warn", text)
        self._history_trouble = ""
        view.conditions, began, over = self._conditions.update(at_s, troubles)
        for condition in self._conditions.unreported():
            _log.warning("%s, since %s", printable(condition.line()), _utc(condition.since_s))
        changed, self._lines = self._lines, []
        for line in (*over, *changed):
            _log.info("%s", printable(line))
        lines = [*changed, *began, *over]
        try:
            if values:
                view.series_left_out = self._history.record(at_s, values)
            self._history.keep_conditions(at_s, view.conditions, lines)
            if self._changes.seen != self._seen:
                self._history.keep_seen(self._changes.seen)
                self._seen = dict(self._changes.seen)
            view.events = self._history.events(EVENTS_SHOWN_MAX)
        except sqlite3.Error as error:
            self._history_trouble = str(error)


def _troubles_of(decisions: Decisions) -> dict[str, Trouble]:
    """Return the problems in Treadle's beans."""
    troubles = {}
    if decisions.why_not:
        mode = decisions.texts["Mode"].lower()
        severity = "fail" if mode == "enforce" or not mode else "warn"
        troubles["scheduling"] = Trouble(severity, f"Treadle does not schedule: {decisions.why_not}")
        if mode == "observe_only" and decisions.numbers.get("LeaseHeld") == 0:
            error = decisions.texts["LastError"] or "no error is reported"
            troubles["engine"] = Trouble("fail", f"no engine answers: {error}")
    for name, severity, text in (
        ("LastError", "warn", "last error"),
        ("Warnings", "warn", "the engine warns"),
        ("IgnoredSettings", "warn", "settings without effect"),
    ):
        text_now = decisions.texts[name]
        if name == "Warnings":
            stalled, text_now = _stalled(text_now)
            troubles |= stalled
        if text_now and text_now not in decisions.why_not:
            troubles[name] = Trouble(severity, f"{text}: {printable(text_now)}")
    if decisions.numbers.get("CaughtExceptions", 0):
        text = "exceptions were caught in overrides; the ResourceManager's log has them"
        troubles["exceptions"] = Trouble("warn", text)
    for each in decisions.engines:
        if not each["lives"]:
            by = f"; {each['served_by']} serves its applications" if each["served_by"] else ""
            state = "is dead" if each["has_answered"] else "has not answered yet"
            troubles[f"engine {each['engine']}"] = Trouble("fail", f"the engine {each['engine']} {state}{by}")
    return troubles


def _stalled(warnings: str) -> tuple[dict[str, Trouble], str]:
    """Return each stalled queue, and the engine's other warnings."""
    lines = warnings.split("; ")
    stalled = {
        f"{STALLED_NAME}{queue}": Trouble("warn", printable(line)) for line in lines if (queue := stalled_queue(line))
    }
    return stalled, "; ".join(line for line in lines if not stalled_queue(line))


def _shares(nodes: Nodes, queues: list[Queue]) -> dict[str, float]:
    totals = nodes.totals()
    values = {
        "nodes": float(totals["nodes"]),
        "containers": float(totals["containers"]),
        "memory used": totals["memory_used_mb"] / max(totals["memory_mb"], 1),
        "vcores used": totals["vcores_used"] / max(totals["vcores"], 1),
    }
    for queue in queues[:QUEUES_CHARTED_MAX]:
        values |= {f"queue {queue.path} used": queue.used, f"queue {queue.path} entitled": queue.entitled}
        values[f"queue {queue.path} pending"] = queue.pending
    return values


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
