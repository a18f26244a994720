"""The documents that pages show, from what was seen.

What the pages show now: documents that are written once a look and served to every reader.

How long jobs take: the estimate from their progress while they ran, against the outcome.

What Prometheus reads: the latest look as metrics. Labels are names that users gave; their number is bounded.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from threading import Lock
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from treadle.dashboard.history import Condition, Trouble
from treadle.dashboard.reading import Decisions, HeldNode, Job, Nodes, Queue, plain

PARTS: Final = ("overview", "queues", "nodes", "jobs", "decisions")
_GZIP_LEVEL: Final = 1


class Document(NamedTuple):
    """A document in JSON."""

    version: int
    """Rises with each change of any document."""
    plain: bytes
    packed: bytes
    """The same by gzip."""


class Board:
    """The latest documents. Thread-safe: one thread posts, any number read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._documents: dict[str, Document] = {}
        self._version = 0
        self._wake: Callable[[], None] = lambda: None
        self.metrics = b""
        self.looked_s = 0.0
        """When a look ended last, seconds since 1970; 0: none has."""

    def on_change(self, wake: Callable[[], None]) -> None:
        """Have something called, on the thread that posts, after each change."""
        self._wake = wake

    @property
    def version(self) -> int:
        """The number of the latest change; 0 before the first."""
        return self._version

    def post(self, at_s: float, parts: Mapping[str, Mapping[str, Any]], metrics: bytes = b"") -> None:
        """Put documents in the place of those of the same names.

        Args:
            at_s: when the look ended, seconds since 1970
            parts: of `PARTS` those that are new
            metrics: the look as Prometheus reads it
        """
        assert set(parts) <= set(PARTS)
        version = self._version + 1
        written = {
            name: json.dumps(part, separators=(",", ":"), allow_nan=False).encode() for name, part in parts.items()
        }
        new = {
            name: Document(version, text, gzip.compress(text, _GZIP_LEVEL, mtime=0)) for name, text in written.items()
        }
        with self._lock:
            self._documents |= new
            self._version = version
            self.looked_s = at_s
            self.metrics = metrics
        self._wake()

    def read(self, part: str) -> Document | None:
        """Return a document; None before the first look."""
        with self._lock:
            return self._documents.get(part)


MARKS: Final = (0.25, 0.5, 0.75)
"""Progress at which it is kept how long the job would take in all."""
_PROGRESS_MIN: Final = 0.02


def expected_ms(job: Job) -> int | None:
    """Return how long a job takes in all if it goes on as it did, by the progress that its master claims.

    None: it has not come far enough to tell.
    """
    if job.state != "RUNNING" or job.progress < _PROGRESS_MIN:
        return None
    return int(job.elapsed_ms / job.progress)


class Estimates:
    """What was expected of each job at some marks of its progress."""

    def __init__(self, kept: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Begin with what was kept of jobs that ran."""
        self._kept = {name: dict(of.get("expected_ms", {})) for name, of in (kept or {}).items()}

    def see(self, jobs: Iterable[Job]) -> dict[str, dict[str, Any]]:
        """Return the entries to keep of jobs that have just passed a mark."""
        changed = {}
        for job in jobs:
            expected = expected_ms(job)
            marks = [str(mark) for mark in MARKS if job.progress >= mark]
            if expected is None or not marks:
                continue
            kept = self._kept.setdefault(job.id, {})
            # one who looks late knows nothing of the marks before
            if marks[-1] not in kept:
                kept[marks[-1]] = expected
                changed[job.id] = {"ended_ms": 0, "expected_ms": dict(kept)}
        return changed

    def end(self, job: Job) -> dict[str, Any]:
        """Return the entries to keep of a job that has ended, and forget it."""
        return {**plain(job), "expected_ms": self._kept.pop(job.id, {})}

    def gone(self, running: Iterable[str]) -> list[str]:
        """Forget the jobs that are not among those that run, and return them."""
        left = sorted(set(self._kept) - set(running))
        for name in left:
            del self._kept[name]
        return left


ENDED_SHOWN_MAX: Final = 200
EVENTS_SHOWN_MAX: Final = 100


@dataclass(slots=True)
class View:
    """What was seen last, each part with when; times are seconds since 1970, 0: never."""

    rm: str
    state: str = ""
    """``ACTIVE`` or ``STANDBY``; empty: there was no answer."""
    active: str = ""
    """Of one on standby the address of the active one, if it is known."""
    heard_s: float = 0.0
    decisions: Decisions | None = None
    decisions_s: float = 0.0
    counted_since_s: float = 0.0
    """When Treadle's counters began at 0; they begin again with each start of the ResourceManager."""
    rates: dict[str, float] = field(default_factory=dict)
    """How much counters rise a second."""
    nodes: Nodes = field(default_factory=Nodes)
    queues: list[Queue] = field(default_factory=list)
    queues_left_out: int = 0
    cluster_s: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    held: list[HeldNode] = field(default_factory=list)
    held_error: str = ""
    """Why it is not known which nodes are reserved; empty if it is."""
    jobs_left_out: int = 0
    jobs_s: float = 0.0
    ended: list[dict[str, Any]] = field(default_factory=list)
    placements: dict[str, tuple[int, int]] = field(default_factory=dict)
    page_troubles: dict[str, Trouble] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    events: list[tuple[float, str]] = field(default_factory=list)
    series_left_out: int = 0


def documents(view: View) -> dict[str, dict[str, Any]]:
    """Return the documents, by part."""
    return {
        "overview": overview(view),
        "queues": _queues(view),
        "nodes": _nodes(view),
        "jobs": _jobs(view),
        "decisions": _decisions(view),
    }


def overview(view: View) -> dict[str, Any]:
    """Return the document of what is wrong, and of the cluster as a whole."""
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
        "queues": [{**plain(queue), "owed": queue.owed} for queue in view.queues],
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
        "placed_natively": others,
    }


def _places(jobs: list[Job]) -> list[int]:
    """Return for each job how many of its queue came before it, and one."""
    seen: dict[str, int] = {}
    places = []
    for job in jobs:
        seen[job.queue] = seen.get(job.queue, 0) + 1
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


class _Look:
    """One look, as the library asks for it."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        yield from _state(self._view)
        if self._view.heard_s and self._view.state == "ACTIVE":  # old values of a lost node must not look new
            yield from _treadle(self._view)
            yield from _cluster(self._view)


def exposition(view: View) -> bytes:
    """Return a look in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Look(view))
    return generate_latest(registry)


def _state(view: View) -> Iterator[Metric]:
    yield _gauge("treadle_rm_up", "1: the ResourceManager answers", float(bool(view.state)))
    yield _gauge("treadle_rm_active", "1: it is the active one", float(view.state == "ACTIVE"))
    yield _gauge("treadle_rm_heard_seconds", "when it answered last, seconds since 1970", view.heard_s)
    wrong = GaugeMetricFamily(
        "treadle_condition_since_seconds",
        "what is wrong, and since when, seconds since 1970",
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
        ("treadle_native_placements", "PlacedNatively", "containers that anyone else placed"),
        ("treadle_frames", "Frames", "frames sent to engines"),
        ("treadle_lease_flips", "LeaseFlips", "changes of the lease"),
        ("treadle_link_failures", "LinkFailures", "failures of the link"),
        ("treadle_sidecar_starts", "SidecarStarts", "starts of the sidecar"),
        ("treadle_escapes", "Escapes", "exceptions caught in overrides"),
    ):
        yield CounterMetricFamily(name, text, value=float(numbers.get(key, 0)))
    rejected = CounterMetricFamily("treadle_rejections", "proposals turned down", labels=["reason"])
    for reason, count in decisions.rejected.items():
        rejected.add_metric([reason], count)
    yield rejected
    placed = CounterMetricFamily("treadle_engine_placements", "of several engines what each placed", labels=["engine"])
    lives = GaugeMetricFamily("treadle_engine_lives", "1: the engine is alive", labels=["engine"])
    for engine in decisions.engines:
        placed.add_metric([engine["engine"]], engine["committed"])
        lives.add_metric([engine["engine"]], float(engine["lives"]))
    yield placed
    yield lives


def _cluster(view: View) -> Iterator[Metric]:
    yield _gauge("treadle_pages_read_seconds", "when nodes and queues were read, seconds since 1970", view.cluster_s)
    states: dict[str, int] = {}
    for state in view.nodes.state:
        states[state] = states.get(state, 0) + 1
    nodes = GaugeMetricFamily("treadle_nodes", "nodes", labels=["state"])
    for state, count in sorted(states.items())[:16]:
        nodes.add_metric([state], count)
    yield nodes
    yield _gauge("treadle_jobs", "applications that have not ended", len(view.jobs) + view.jobs_left_out)
    for name, text, value in (
        ("used", "share of the cluster that a queue uses", attrgetter("used")),
        ("owed", "share that it is guaranteed, as far as it asks for it", attrgetter("owed")),
        ("pending", "share that it asks for beyond what it uses", attrgetter("pending")),
        ("guaranteed", "share that it is guaranteed", attrgetter("guaranteed")),
    ):
        family = GaugeMetricFamily(f"treadle_queue_{name}_ratio", text, labels=["queue"])
        for queue in view.queues[:QUEUES_MAX]:
            family.add_metric([queue.path], value(queue))
        yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
