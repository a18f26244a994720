"""What a run of the load simulator gave."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from treadle_lab.sls.load import Kind, Mode
from treadle_lab.sls.run import Run

P50: Final = "DecideP50Us"
P99: Final = "DecideP99Us"


def decide_us(shim: Mapping[str, Any], name: str) -> float:
    """Return a quantile of the last window of ten seconds before a reading; nan if nothing was decided in it."""
    return float(shim.get(name, 0)) or math.nan


SCHEDULER_THREADS: Final = ("scheduler_events", "async_scheduling", "async_commits", "treadle")
"""Groups of threads whose CPU time is the scheduler's own: the event thread (heartbeats, and with them what a
synchronous scheduler decides), the threads of asynchronous scheduling, and the shim's."""

COUNTED_PER_MODE: Final = ("rejected", "placed_natively", "containers_missing", "attempts_not_finished")
"""Figures of which a mode shows the worst round instead of the median."""


@dataclass(frozen=True)
class Figures:
    """What one run showed. Times are wall-clock times unless they say CPU; nan where a mode has no such thing."""

    span_s: float
    """From the first container that ran (its commit) to the end of the last."""
    containers: float
    peak_containers_per_s: float
    """Most commits within one second."""
    mean_containers_per_s: float
    """Commits divided by the time from the first to the last."""
    commit_wall_us: float
    commit_cpu_us: float
    scheduler_cpu_us: float
    """Per container: the threads in SCHEDULER_THREADS, the handling of application masters' calls, and the sidecar."""
    shim_commit_cpu_us: float
    """CPU time of a commit with all that the shim does around tryCommit, by the shim's own metrics."""
    shim_frame_us: float
    """Per container: time that the shim spends on writing frames, by its own metrics."""
    shim_link_cpu_us: float
    """Per container: CPU time of the link thread, commits and frames included, by the shim's own metrics."""
    heartbeat_p50_us: float
    heartbeat_p99_us: float
    stale_nodes_mean: float
    """Nodes that had been silent for two seconds, on average over the span: above 0 the simulation itself is behind."""
    rm_cpu_s: float
    """The whole JVM during the span, the simulated nodes and applications included."""
    sidecar_cpu_s: float
    decide_p50_us: float
    decide_p99_us: float
    rejected: float
    placed_natively: float
    containers_missing: float
    """Containers of the workload that were never committed."""
    attempts_not_finished: float
    """Applications whose attempt did not count as finished: SLS reports an AM's end to its node and to the RM at
    about the same time, and if the node is heard first the RM takes the AM for failed, after all of its tasks
    have run."""


@dataclass(frozen=True)
class ModeResult:
    """All rounds of a mode: the median of each figure (the worst of COUNTED_PER_MODE), and why rounds failed."""

    mode: Mode
    figures: Figures | None
    rounds: tuple[Figures, ...]
    failures: tuple[str, ...]


def figures_of(run: Run, containers_wanted: int) -> Figures:
    """Return the figures of a complete run."""
    seen = run.measurements
    commits, completions = seen["commits"], seen["completions"]
    committed = max(1, commits["total"])
    start_ms, end_ms = commits["first_ms"], completions["last_ms"]
    origin_ms = seen["origin_epoch_ms"]
    cpu = seen["cpu_ns"]
    sidecar_s = run.sidecar_cpu_between(origin_ms + start_ms, origin_ms + end_ms)
    scheduler_ns = sum(cpu.get(group, 0) for group in SCHEDULER_THREADS) + seen["allocate_cpu"]["total_ns"]
    shim = _Shim(seen)
    return Figures(
        span_s=(end_ms - start_ms) / 1000,
        containers=commits["total"],
        peak_containers_per_s=peak_per_s(commits["counts"], commits["bucket_ms"]),
        mean_containers_per_s=_ratio(commits["total"], (commits["last_ms"] - start_ms) / 1000),
        commit_wall_us=_ratio(seen["commit_wall"]["total_ns"] / 1000, committed),
        commit_cpu_us=_ratio(seen["commit_cpu"]["total_ns"] / 1000, committed),
        scheduler_cpu_us=(scheduler_ns / 1000 + sidecar_s * 1e6) / committed,
        shim_commit_cpu_us=shim.since_first_container("CommitCpuNanos") / 1000 / committed,
        shim_frame_us=shim.since_first_container("FrameNanos") / 1000 / committed,
        shim_link_cpu_us=shim.since_first_container("LinkCpuNanos") / 1000 / committed,
        heartbeat_p50_us=seen["heartbeat_wall"]["p50_ns"] / 1000,
        heartbeat_p99_us=seen["heartbeat_wall"]["p99_ns"] / 1000,
        stale_nodes_mean=stale_nodes(seen, start_ms, end_ms),
        rm_cpu_s=cpu.get("process", 0) / 1e9,
        sidecar_cpu_s=sidecar_s,
        decide_p50_us=shim.decide_us(P50),
        decide_p99_us=shim.decide_us(P99),
        rejected=shim.value("Rejected", absent=0),
        placed_natively=shim.value("PlacedNatively", absent=0),
        containers_missing=max(0, containers_wanted - commits["total"]),
        attempts_not_finished=seen["attempts_not_finished"],
    )


class _Shim:
    """The shim's own metrics at the end of a run; none in a stock run."""

    def __init__(self, measurements: Mapping[str, Any]) -> None:
        self._end: Mapping[str, Any] = measurements.get("shim") or {}
        self._start: Mapping[str, Any] = measurements.get("shim_at_first_container") or {}

    def value(self, name: str, absent: float = math.nan) -> float:
        return float(self._end.get(name, absent))

    def decide_us(self, name: str) -> float:
        """Return a quantile of the decisions of the last window."""
        return decide_us(self._end, name)

    def since_first_container(self, name: str) -> float:
        return self.value(name) - float(self._start.get(name, 0))


def peak_per_s(counts: Sequence[int], bucket_ms: int) -> float:
    """Return the most events in any second that starts with a bucket."""
    width = max(1, 1000 // bucket_ms)
    return float(max((sum(counts[i : i + width]) for i in range(len(counts))), default=0))


def stale_nodes(measurements: Mapping[str, Any], start_ms: float, end_ms: float) -> float:
    """Return the mean number of silent nodes over the samples of the span."""
    columns = measurements["sample_columns"]
    elapsed, stale = columns.index("elapsed_ms"), columns.index("stale_nodes")
    inside = [sample[stale] for sample in measurements["samples"] if start_ms <= sample[elapsed] <= end_ms]
    return statistics.fmean(inside) if inside else 0.0


def heartbeats_share(
    measurements: Mapping[str, Any], nodes: int, heartbeat_ms: float, start_ms: float, end_ms: float
) -> float:
    """Return nodes' heartbeats that were handled over those that were due between two times of the run."""
    beats = measurements["heartbeats"]
    first, last = (int(each_ms // beats["bucket_ms"]) for each_ms in (start_ms, end_ms))
    due = nodes * (last - first) * beats["bucket_ms"] / heartbeat_ms
    return float(sum(beats["counts"][first:last]) / due) if due else math.nan


def combine(mode: Mode, rounds: Sequence[Figures], failures: Iterable[str]) -> ModeResult:
    """Return the result of a mode from its rounds."""
    if not rounds:
        return ModeResult(mode, None, (), tuple(failures))
    values = {
        field.name: (max if field.name in COUNTED_PER_MODE else _median)(
            [getattr(figures, field.name) for figures in rounds]
        )
        for field in fields(Figures)
    }
    return ModeResult(mode, Figures(**values), tuple(rounds), tuple(failures))


def comparison(results: Sequence[ModeResult]) -> dict[str, Any]:
    """Return the better stock mode, Treadle's span over its span and the floor's, and what observing costs `sync`.

    None where a mode is missing.
    """
    spans = {result.mode.name: result.figures.span_s for result in results if result.figures}
    stock = {r.mode.name: spans[r.mode.name] for r in results if r.mode.kind is Kind.STOCK and r.mode.name in spans}
    better = min(stock, key=lambda name: stock[name], default=None)
    best_async = min((name for name in stock if name.startswith("async")), key=lambda name: stock[name], default=None)
    treadle, floor = spans.get("treadle"), spans.get("floor")
    stock_span = stock[better] if better else None
    busy = {result.mode.name: result.figures.rm_cpu_s for result in results if result.figures}
    return {
        "better_stock_mode": better,
        "better_async_mode": best_async,
        "span_ratio": _quotient(treadle, stock_span),
        "floor_ratio": _quotient(treadle, floor),
        "floor_to_stock": _quotient(floor, stock_span),
        "observe_span_ratio": _quotient(spans.get("observe"), spans.get("sync")),
        "observe_cpu_ratio": _quotient(busy.get("observe"), busy.get("sync")),
    }


def as_json(results: Sequence[ModeResult]) -> dict[str, Any]:
    """Return all results for the file, with nan as null."""
    modes = {
        result.mode.name: {
            "kind": result.mode.kind.value,
            "median": _plain(result.figures) if result.figures else None,
            "rounds": [_plain(figures) for figures in result.rounds],
            "failures": list(result.failures),
        }
        for result in results
    }
    return {"comparison": comparison(results), "modes": modes}


def _plain(figures: Figures) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in asdict(figures).items()}


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _ratio(amount: float, of: float) -> float:
    return amount / of if of > 0 else 0.0


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
