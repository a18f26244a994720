"""Results of a simulation: a few numbers for a table, and the columns behind them for plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I64, Records
from treadle.simulator.cluster.state import AppState
from treadle.simulator.engine_figures import EngineFigures
from treadle.simulator.loop import Run
from treadle.simulator.measure import Window
from treadle.simulator.records import job_records, path_of, window_shares


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of one run. Times in seconds; completion times run from a job's arrival to its end."""

    policy: str
    seed: int
    jobs: int
    unfinished: int
    failed: int
    completion_mean_s: float
    completion_p50_s: float
    completion_p90_s: float
    completion_p99_s: float
    makespan_s: float
    """From the first arrival to the last end, or to ``duration_limit_s`` if that cuts the run off."""
    utilisation: dict[str, float]
    """Of each resource, over that time."""
    jain: float
    """Mean over windows of Jain's index of the queues' use over their guarantee."""
    share_error: float
    """Mean over windows of the part of the cluster that is in other hands than under the ideal shares."""
    tasks: int
    tasks_failed: int
    tasks_killed: int
    tasks_lost: int
    containers: int
    decides: int
    proposals: int
    fates: dict[str, int]
    wall_s: float
    cpu_s: float
    completions_per_s: float
    """Tasks done over wall time, the engine's included: how fast the simulator is."""
    completions_per_cpu_s: float
    """The same over CPU time, of the one core that is used: what a machine without other work gives."""
    cpu: dict[str, float]
    """CPU time in seconds by what it went to."""
    completion_s: list[float]
    """Of each job that ended well, in order of arrival."""
    windows: list[dict[str, Any]]
    """What was seen over time, window by window."""
    warnings: list[str]
    """What the engine said of the policy on this cluster: what is followed otherwise than it is written."""
    engines: list[EngineFigures] = field(default_factory=list)
    """Of each of several engines."""
    ended: str = "done"
    """How the run ended: done; limit: ``duration_limit_s``; stalled: jobs waited for what they would never get."""
    total: dict[str, int] = field(default_factory=dict)
    """What all nodes have of each resource."""
    job_records: dict[str, list[Any]] = field(default_factory=dict)
    """Every job, those that failed or have not ended too, by column (`treadle.simulator.records`)."""
    leaf_shares: dict[str, list[float]] = field(default_factory=dict)
    """Each leaf's dominant share in each of ``windows``."""
    parts_s: float = 0.0
    """What parts from files took by the clock."""
    parts_slowest_s: float = 0.0
    parts_too_slow: int = 0
    """Decisions in which a live engine would have stopped them."""


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run without figures: a part of its policy failed, and what would have gone on is another policy."""

    policy: str
    seed: int
    failure: str


TIMING: Final = (
    "wall_s",
    "cpu_s",
    "completions_per_s",
    "completions_per_cpu_s",
    "cpu",
    "parts_s",
    "parts_slowest_s",
    "parts_too_slow",
)
"""What differs between two runs of the same simulation."""


def completion_s(run: Run) -> F64:
    """Return how long each job that ended well took from its arrival, in order of arrival."""
    apps = run.built.state.apps
    done = (apps["state"] == AppState.FINISHED) & (apps["failed"] == 0)
    times: F64 = (apps["finish_ms"] - apps["arrival_ms"])[done] / 1000.0
    return times


def summarise(run: Run, policy: str, seed: int) -> Summary:
    """Return the numbers of a run."""
    apps = run.built.state.apps
    done = completion_s(run)
    finished: I64 = apps["finish_ms"][apps["state"] == AppState.FINISHED]
    first = int(apps["arrival_ms"].min()) if len(apps) else 0
    last = int(finished.max()) if len(finished) and run.ended != "limit" else run.end_ms
    span_ms = max(last - first, 0)
    p50, p90, p99 = (float(np.percentile(done, part)) if len(done) else float("nan") for part in (50, 90, 99))
    windows = run.measurements.windows
    return Summary(
        policy=policy,
        seed=seed,
        jobs=len(apps),
        unfinished=run.unfinished,
        failed=int(apps["failed"].sum()),
        completion_mean_s=float(done.mean()) if len(done) else float("nan"),
        completion_p50_s=p50,
        completion_p90_s=p90,
        completion_p99_s=p99,
        makespan_s=span_ms / 1000.0,
        utilisation=_utilisation(run, max(span_ms, 1), last if run.ended == "stalled" else run.end_ms),
        jain=_mean([window.jain for window in windows]),
        share_error=_mean([window.share_error for window in windows]),
        tasks=run.counts["tasks_done"],
        tasks_failed=run.counts["tasks_failed"],
        tasks_killed=run.counts["tasks_killed"],
        tasks_lost=run.counts["tasks_lost"],
        containers=run.counts["containers"],
        decides=run.decides,
        proposals=run.proposals,
        fates=run.fates,
        wall_s=run.wall_s,
        cpu_s=run.cpu_s,
        completions_per_s=run.counts["tasks_done"] / max(run.wall_s, 1e-9),
        completions_per_cpu_s=run.counts["tasks_done"] / max(run.cpu_s, 1e-9),
        cpu=vars(run.profile).copy(),
        completion_s=done.tolist(),
        windows=[_window(run, window) for window in windows],
        warnings=list(run.warnings),
        engines=list(run.engines),
        ended=run.ended,
        total=dict(zip(run.built.resources, run.built.total.tolist(), strict=True)),
        job_records=columns(job_records(run)),
        leaf_shares=_leaf_shares(run),
        parts_s=run.parts.all_s,
        parts_slowest_s=run.parts.slowest_s,
        parts_too_slow=run.parts.too_slow,
    )


def columns(table: Records) -> dict[str, list[Any]]:
    """Return a table of records as JSON takes it, by column."""
    names = table.dtype.names or ()
    return {name: [list(each) if isinstance(each, tuple) else each for each in table[name].tolist()] for name in names}


def _leaf_shares(run: Run) -> dict[str, list[float]]:
    shares = window_shares(run)
    return {path_of(run, leaf): shares[:, leaf].tolist() for leaf in run.built.tree.leaves}


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


def _utilisation(run: Run, span_ms: int, until_ms: int) -> dict[str, float]:
    """Return the use over a time; what is held after its end, by jobs that wait for ever, is left out."""
    total = run.built.total
    used = sum(
        (
            window.used[0] * max(min(window.end_ms, until_ms) - window.begin_ms, 0)
            for window in run.measurements.windows
        ),
        total * 0.0,
    )
    return {
        name: float(used[at] / (span_ms * float(total[at]))) if total[at] else 0.0
        for at, name in enumerate(run.built.resources)
    }


def as_json(outcomes: Sequence[Summary | FailedRun]) -> dict[str, Any]:
    """Return the runs as JSON takes them: what is not a number is null.

    ``runs`` are the same bytes whenever the same simulation is run; how long it took is in ``timing``. Where a part of
    the policy failed ``failure`` says why, and there are no figures; it is null elsewhere. ``engines`` is there if
    there were several.
    """
    whole = [{"failure": None} | _plain(asdict(outcome)) for outcome in outcomes]
    for each in whole:
        if not each.get("engines"):
            each.pop("engines", None)
    names = ("policy", "seed", *TIMING)
    return {
        "runs": [{name: value for name, value in each.items() if name not in TIMING} for each in whole],
        "timing": [{name: each[name] for name in names} for each in whole if each["failure"] is None],
    }


def _window(run: Run, window: Window) -> dict[str, Any]:
    """Return a window; what was used on average is by resource."""
    return {
        "begin_ms": window.begin_ms,
        "end_ms": window.end_ms,
        "running": window.running,
        "pending": window.pending,
        "jain": window.jain,
        "share_error": window.share_error,
        "used": dict(zip(run.built.resources, window.used[0].tolist(), strict=True)),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
