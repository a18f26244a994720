"""Figures 15 and 16: a specialised scheduler for MapReduce jobs, which gives them idle resources.

The jobs are a day from Google's trace with MapReduce jobs from SWIM's, in two cells: one like the paper's cluster C and
one like its small, lightly used cluster D. All schedulers share the cell's state (`treadle_lab.models.cell`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I32
from treadle.errors import UserError
from treadle.policy.mapreduce import WorkerPolicy, finish_s
from treadle.workload.clusters import swim_jobs, swim_stages
from treadle_lab.models.cell import (
    DAY_S,
    SAMPLE_S,
    Activities,
    Cell,
    CellWorkload,
    JobKind,
    merged,
    simulate_specialist,
    warm_up,
)
from treadle_lab.models.kernels import Progress, on_all_cores
from treadle_lab.papers.omega.points import MACHINES, GoogleDay

FIGURES: Final = ("15", "16")
USUAL_WORKERS: Final = np.array([5, 11, 200, 1000])
"""The most frequent numbers of requested workers (section 6)."""
MAPREDUCE_PERCENT: Final = 20
"""Percentage of MapReduce jobs."""
WORKER_CPU: Final = 1_000
WORKER_MEMORY_MB: Final = 2_048
GAIN_MIN: Final = 1.01
"""A job gains if its speed-up exceeds this."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A cell and its load.

    Attributes:
        name: the name of the paper's cluster that it is like.
        title: the title in plots and tables.
        machines: number of machines.
        start_percent: percentage of its CPU that is used at the start.
    """

    name: str
    title: str
    machines: int
    start_percent: int


SETTINGS: Final = (
    Setting("C", "like cluster C: 12,500 machines, 60 % used at the start", MACHINES, 60),
    Setting("D", "like cluster D: 1,250 machines, 30 % used at the start", MACHINES // 10, 30),
)


@dataclass(frozen=True, slots=True, eq=False)
class MapReduceJobs:
    """SWIM's jobs as Omega's section 6 sees them; a value for each.

    Attributes:
        submit_s: arrival within the day.
        activities: maps and reduces.
        requested: number of requested workers.
    """

    submit_s: F64
    activities: Activities
    requested: I32

    def drawn(self, count: int, seed: int) -> CellWorkload:
        """Return this many of the jobs, drawn without replacement.

        Raises:
            UserError: there are not that many.
        """
        if count > len(self.submit_s):
            raise UserError(f"SWIM's sample has {len(self.submit_s)} jobs where {count} are wanted")
        random = np.random.default_rng(np.random.SeedSequence([seed, 5]))
        rows = np.sort(random.choice(len(self.submit_s), count, replace=False))
        rows = rows[np.argsort(self.submit_s[rows], kind="stable")]
        all_of = self.activities
        own = Activities(all_of.maps[rows], all_of.map_s[rows], all_of.reduces[rows], all_of.reduce_s[rows])
        requested = self.requested[rows]
        return CellWorkload(
            self.submit_s[rows],
            np.full(count, JobKind.MAPREDUCE, np.uint8),
            requested,
            durations_s(own, requested),
            np.full(count, WORKER_CPU, np.int64),
            np.full(count, WORKER_MEMORY_MB, np.int64),
            own,
        )


def read_mapreduce(sample: Path) -> MapReduceJobs:
    """Read SWIM's sample; maps and reduces are derived by `swim_stages`, requested workers by `requested_workers`.

    Raises:
        WorkloadError: a line of it is wrong.
    """
    rows = list(swim_jobs(sample))
    stages = [swim_stages(row) for row in rows]
    maps = np.array([found[0].tasks for found in stages], np.int32)
    reduces = np.array([found[1].tasks if len(found) > 1 else 0 for found in stages], np.int32)
    activities = Activities(
        maps,
        np.array([found[0].duration_ms for found in stages]) / 1000,
        reduces,
        np.array([found[1].duration_ms if len(found) > 1 else 0 for found in stages]) / 1000,
    )
    submit_s = np.array([row.submit_ms for row in rows]) / 1000
    return MapReduceJobs((submit_s - submit_s.min()) % DAY_S, activities, requested_workers(maps, reduces))


def requested_workers(maps: I32, reduces: I32) -> I32:
    """Return the requested workers: the largest usual number that a job keeps busy; below 5 all that it keeps busy.

    The paper says which numbers are usual, but not for which jobs; the rule is ours.
    """
    useful = np.maximum(maps, reduces)
    largest = USUAL_WORKERS[np.maximum(0, np.searchsorted(USUAL_WORKERS, useful, side="right") - 1)]
    return np.asarray(np.minimum(useful, largest), np.int32)


def durations_s(activities: Activities, workers: I32) -> F64:
    """Return the predicted duration of each job with its number of workers."""
    rows = zip(
        workers.tolist(),
        activities.maps.tolist(),
        activities.map_s.tolist(),
        activities.reduces.tolist(),
        activities.reduce_s.tolist(),
        strict=True,
    )
    return np.array([finish_s(*row) for row in rows])


@dataclass(frozen=True, slots=True, eq=False)
class SpecialistRun:
    """A day of a cell under a policy.

    Attributes:
        setting: the cell.
        policy: which idle resources MapReduce jobs get.
        seed: seed of the jobs and of the choice of machines.
        speedups: by job, its predicted duration with the requested workers over that with the given workers.
        can_gain: by job, whether it has more activities than requested workers.
        used: fraction of the cell's CPU in use, every `SAMPLE_S`.
        conflict_fraction: conflicts of the specialised scheduler per successful transaction.
        unscheduled: fraction of MapReduce jobs with a worker that had no room.
    """

    setting: Setting
    policy: WorkerPolicy
    seed: int
    speedups: F64
    can_gain: np.ndarray
    used: F64
    conflict_fraction: float
    unscheduled: float


def run_specialist(
    google: GoogleDay, mapreduce: MapReduceJobs, seeds: Sequence[int], progress: Progress | None = None
) -> list[SpecialistRun]:
    """Run a day of each setting under each policy with each seed."""
    warm_up()
    wanted = [(setting, policy, seed) for setting in SETTINGS for seed in seeds for policy in WorkerPolicy]
    return on_all_cores(lambda one: _run(google, mapreduce, *one), wanted, progress)


def _run(
    google: GoogleDay, mapreduce: MapReduceJobs, setting: Setting, policy: WorkerPolicy, seed: int
) -> SpecialistRun:
    cell = Cell(setting.machines)
    others = replace(google, start_percent=setting.start_percent)
    day = others.jobs(seed, setting.machines / MACHINES)
    count = len(day) * MAPREDUCE_PERCENT // (100 - MAPREDUCE_PERCENT)
    jobs = merged([day, mapreduce.drawn(count, seed)])
    running = others.running(seed, cell)
    outcome, details = simulate_specialist(cell, jobs, policy, running=running, seed=seed)
    own = (jobs.kind == JobKind.MAPREDUCE) & details.tried
    assert jobs.activities is not None
    activities = Activities(*(getattr(jobs.activities, name)[own] for name in Activities.__slots__))
    asked_s, given_s = jobs.duration_s[own], durations_s(activities, details.workers[own])
    can_gain = np.maximum(activities.maps, activities.reduces) > jobs.tasks[own]
    scheduler = outcome.schedulers[-1]
    return SpecialistRun(
        setting,
        policy,
        seed,
        asked_s / given_s,
        can_gain,
        details.used,
        scheduler.conflict_fraction,
        outcome.unscheduled[JobKind.MAPREDUCE],
    )


def runs_under(runs: Sequence[SpecialistRun], setting: Setting, policy: WorkerPolicy) -> list[SpecialistRun]:
    """Return the runs of a setting and a policy."""
    return [run for run in runs if run.setting == setting and run.policy == policy]


def summary(runs: Sequence[SpecialistRun]) -> list[dict[str, Any]]:
    """Return a row for each setting and policy, over all seeds."""
    rows = []
    for setting in SETTINGS:
        for policy in WorkerPolicy:
            own = runs_under(runs, setting, policy)
            if not own:
                continue
            speedups = np.concatenate([run.speedups for run in own])
            can = np.concatenate([run.can_gain for run in own])
            used = np.array([run.used for run in own])
            rows.append(
                {
                    "cluster": setting.name,
                    "machines": setting.machines,
                    "start_percent": setting.start_percent,
                    "policy": policy.name.lower(),
                    "jobs": len(speedups),
                    "can_gain": float(can.mean()),
                    "gain": float((speedups > GAIN_MIN).mean()),
                    "gain_of_those_that_can": float((speedups[can] > GAIN_MIN).mean()) if can.any() else 0.0,
                    "speedup_p50_of_those_that_can": _percentile(speedups[can], 50),
                    "speedup_p80_of_those_that_can": _percentile(speedups[can], 80),
                    "speedup_p80": _percentile(speedups, 80),
                    "used_mean": float(used.mean()),
                    "used_sd": float(np.mean(np.std(used - _trend(used), axis=1))),
                    "used_max": float(used.max()),
                    "conflict_fraction": float(np.mean([run.conflict_fraction for run in own])),
                    "unscheduled": float(np.mean([run.unscheduled for run in own])),
                }
            )
    return rows


def _percentile(values: F64, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 1.0


def _trend(used: F64) -> F64:
    """Return the line through each series, so that a cell that empties over the day does not count as variable."""
    at = np.arange(used.shape[1]) * SAMPLE_S
    slopes, heights = np.polyfit(at, used.T, 1)
    return np.asarray(slopes[:, None] * at + heights[:, None], np.float64)
