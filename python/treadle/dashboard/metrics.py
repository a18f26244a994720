"""What Prometheus reads: the latest look as metrics. Labels are names that users gave; their number is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from treadle.dashboard.views import View

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
