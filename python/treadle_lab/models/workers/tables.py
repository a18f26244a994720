"""The tables of a run, made of its system, its trace and its workers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I64
from treadle.simulator.event_queue import event_columns
from treadle_lab.models.workers.eligible import Eligible
from treadle_lab.models.workers.least_waiting import VIEW_S
from treadle_lab.models.workers.phoenix import HEARTBEAT_S, NEED_LEVELS
from treadle_lab.models.workers.probing import PROBE_RATIO
from treadle_lab.models.workers.state import Mode, Placement, Real, Total, Workers
from treadle_lab.models.workers.systems import System
from treadle_lab.models.workers.trace import Trace

GATE: Final = 1.0
RELAXED_SLOWDOWN: Final = 1.25


def new_workers(
    system: System, trace: Trace, eligible: Eligible, seed: int, relaxed_slowdown: float = RELAXED_SLOWDOWN
) -> Workers:
    """Return the tables of a run at its start."""
    jobs, workers = len(trace), eligible.workers.shape[1]
    first_long = int((100 - trace.long_percent) * workers / 100) if system.partitioned else 0
    is_long = trace.is_long
    placements = np.where(is_long, system.long, system.short)
    ratio = np.where((eligible.full > 0) & system.constrained, system.constrained_ratio, PROBE_RATIO)
    probes = np.where(placements == Placement.PROBES, np.maximum(ratio * trace.tasks, system.probes_min), trace.tasks)
    sent = int(probes.sum())
    totals = np.zeros(len(Total), np.int64)
    totals[Total.RANDOM] = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> np.uint64(1)) | 1
    totals[Total.UNFINISHED] = len(trace.duration_s)
    maps = min(int(is_long.sum()), workers) + 2 if system.avoids else 1
    totals[Total.FREE_MAPS] = maps
    batches = 2 * jobs + 1
    events = workers + batches + 1
    return Workers(
        mode=_mode(system, first_long),
        totals=totals,
        reals=_reals(system, trace, relaxed_slowdown),
        **_of_jobs(system, trace, eligible),
        **_of_groups(eligible if system.constrained else None, eligible.workers.shape[1], first_long),
        **_of_workers(workers),
        long_maps=np.zeros((maps, (workers + 7) // 8), np.uint8),
        map_uses=np.zeros(maps, np.int32),
        free_maps=np.arange(maps, dtype=np.int32),
        probe_job=np.zeros(sent, np.int32),
        probe_next=np.arange(1, sent + 1, dtype=np.int32),
        probe_before=np.zeros(sent, np.int32),
        passed_s=np.zeros(sent),
        batch_job=np.zeros(batches, np.int32),
        batch_start=np.zeros(batches, np.int64),
        batch_count=np.zeros(batches, np.int32),
        targets=np.zeros(sent, np.int32),
        **event_columns(events),
        open_jobs=np.zeros(jobs, np.int32),
        best_s=np.zeros(workers),
        best=np.zeros(workers, np.int32),
        by_need=np.arange(workers, dtype=np.int32),
        needed=np.zeros(NEED_LEVELS + 1, np.int64),
    )


def _mode(system: System, first_long: int) -> I64:
    """Return what holds for the whole run, by `Mode`."""
    mode = np.zeros(len(Mode), np.int64)
    mode[[Mode.LONG, Mode.SHORT, Mode.ORDER]] = system.long, system.short, system.order
    mode[[Mode.STEAL, Mode.AVOID, Mode.PROBES_MIN]] = system.steals, system.avoids, system.probes_min
    mode[Mode.FIRST_LONG] = first_long
    mode[Mode.CONSTRAINED_RATIO] = system.constrained_ratio
    mode[[Mode.BY_CRV, Mode.GATE]] = system.by_crv, system.gated
    mode[[Mode.SCARCITY, Mode.NEGOTIATION]] = system.spares, system.negotiates
    return mode


def _reals(system: System, trace: Trace, relaxed_slowdown: float) -> F64:
    """Return the numbers of the run, by `Real`, at its start."""
    reals = np.zeros(len(Real))
    if system.long == Placement.LEAST_WAITING_SEEN:
        reals[Real.BEAT] = VIEW_S
    elif system.is_phoenix:
        reals[Real.BEAT] = HEARTBEAT_S
    reals[Real.RELAXED_SLOWDOWN] = relaxed_slowdown
    reals[Real.GATE] = GATE
    reals[Real.SPARING] = system.sparing if system.spares else 0.0
    short = np.repeat(~trace.is_long, trace.tasks)
    reals[Real.SHORT_MEAN] = float(trace.duration_s[short].mean()) if short.any() else 1.0
    return reals


def _of_jobs(system: System, trace: Trace, eligible: Eligible) -> dict[str, Any]:
    """Return the columns of jobs and tasks."""
    jobs = len(trace)
    nothing = np.zeros(jobs, np.int32)
    full = eligible.full if system.constrained else nothing
    # Every n-th job of a trace is a view with gaps, which the compiler would take for another kind of table.
    columns = {
        "arrival_s": trace.arrival_s,
        "tasks": trace.tasks,
        "first_task": trace.first_task,
        "estimate_s": trace.mean_s,
        "duration_s": trace.duration_s,
    }
    return {
        **{name: np.ascontiguousarray(column) for name, column in columns.items()},
        "is_long": trace.is_long.astype(np.uint8),
        "group": full,
        "hard_group": eligible.hard if system.constrained else nothing,
        "sent_to": full.copy(),
        "started": np.zeros(jobs, np.int32),
        "ended_s": np.zeros(jobs),
        "relaxed": nothing.copy(),
        "reordered": nothing.copy(),
        "start_s": np.zeros(len(trace.duration_s)),
    }


def _of_groups(eligible: Eligible | None, workers: int, first_long: int) -> dict[str, Any]:
    """Return the columns of groups; without constraints there is only that of all workers."""
    rows = np.ones((1, workers), np.bool_) if eligible is None else eligible.workers
    groups, members = np.nonzero(rows)
    counts = np.bincount(groups, minlength=len(rows))
    return {
        "member_start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "members": members.astype(np.int32),
        "short_only": rows[:, :first_long].sum(axis=1).astype(np.int64),
        "may_run": rows.astype(np.uint8),
        "crv": np.zeros(len(rows)),
        "waiting": np.zeros(len(rows), np.int32),
        "asked_s": np.zeros(len(rows)),
    }


def _of_workers(workers: int) -> dict[str, Any]:
    """Return the columns of workers."""
    links = {name: np.full(workers, -1, np.int32) for name in ("head", "tail", "met")}
    counts = {name: np.zeros(workers, np.int32) for name in ("queued", "queued_long")}
    flags = {name: np.zeros(workers, np.uint8) for name in ("is_busy", "runs_long")}
    never = {name: np.full(workers, -1.0) for name in ("long_since_s", "met_s")}
    names = ("long_estimate_s", "work_s", "running_s", "seen_s", "need", "rate", "sum_s", "square_s", "wait_s")
    return {**links, **counts, **flags, **never, **{name: np.zeros(workers) for name in names}}
