"""The workload of SLearn's GTrace11 (NSDI 2022, sections 4.3 and 5), from the extract of Google's trace of 2011."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from treadle.workload.errors import WorkloadError, wrong
from treadle.workload.google import GoogleJob, google_job, google_jobs
from treadle.workload.history import JobFeatures, JobRecord
from treadle.workload.job import Workload, arranged
from treadle.workload.load import scaled_to_window_load
from treadle.workload.shapes import CONTAINER
from treadle.workload.source import Progress

WINDOW_MS: Final = (600_000, 90_720_000)
"""From the first event of the trace to the end of the extract, 25.2 h."""
GAP_MS: Final = (70_754_000, 75_770_000)
"""Where a part of the trace is missing: hardly any job was submitted, and no end of a task was seen."""


class SLearnTrace(NamedTuple):
    """Jobs to run, and what history there is of jobs before them."""

    history: tuple[JobRecord, ...]
    """In order of submission."""
    workload: Workload
    records: tuple[JobRecord, ...]
    """The workload's jobs with their features and their true durations, in the workload's order."""


def google_slearn(
    path: Path,
    seed: int,
    jobs: int = 1_250,
    *,
    nodes: int = 150,
    load: float = 1.01,
    tasks_max: int = 150,
    cut: float = 0.5,
    seen_share: float = 0.9,
    tail_ms: int = 0,
    slot: Mapping[str, float] = CONTAINER,
    progress: Progress | None = None,
) -> SLearnTrace:
    """Build history and workload.

    All jobs submitted before the cut are history, with the tasks that were seen to finish: leaving any out would only
    weaken those who learn from it. From those after it ``jobs`` are drawn, each with the same chance; they
    keep their order and their gaps, which one factor then stretches to the wanted load: the mean over windows of
    1,000 s that slide by 100 s, as in table 5. A node runs one task at a time, and a job is one stage.

    How the extract's limits are treated: a job of which less than ``seen_share`` of the tasks were seen to finish is
    never drawn, and of the others only the tasks seen count (long tasks are missing, and more so near the
    end and before the gap: ``tail_ms`` shows what that does). Arrivals behind the gap move forward by its length.
    Tasks keep their durations.

    Args:
        path: the folder of the extract, with both tables.
        seed: of the draw.
        jobs: how many to draw.
        nodes: of the cluster, each with one slot.
        load: mean load of the windows.
        tasks_max: jobs with more tasks are not drawn.
        cut: where in the window history ends, as a share of it.
        seen_share: of a job's tasks that must have been seen to finish.
        tail_ms: jobs submitted within this time of the end of the extract are dropped.
        slot: what a task asks for, and all that a node has.
        progress: told how far it is.

    Raises:
        WorkloadError: a table is missing or wrong, an argument is out of its bounds, or there are too few jobs.
    """
    _check(seed, jobs, nodes, cut, seen_share)
    cut_ms = WINDOW_MS[0] + round(cut * (WINDOW_MS[1] - WINDOW_MS[0]))
    found = sorted(google_jobs(path, progress), key=lambda job: job.submit_ms)
    if any(not job.job_name for job in found):
        raise wrong(path, "", "history needs the job names of jobs_29d.csv, which is not there")
    history = tuple(google_record(job) for job in found if job.submit_ms < cut_ms)
    later = [job for job in found if cut_ms <= job.submit_ms <= WINDOW_MS[1] - tail_ms]
    later = [job for job in later if _usable(job, tasks_max, seen_share)]
    if len(later) < jobs:
        raise wrong(path, "", f"{jobs} jobs are to be drawn, but only {len(later)} are left after the cut")
    chosen = np.sort(np.random.default_rng(seed).choice(len(later), jobs, replace=False))
    drawn = [later[at] for at in chosen]
    first_ms = _without_gap(drawn[0].submit_ms)
    workload = arranged(google_job(job, slot, _without_gap(job.submit_ms) - first_ms) for job in drawn)
    capacity = {name: nodes * amount for name, amount in slot.items()}
    return SLearnTrace(history, scaled_to_window_load(workload, capacity, load), tuple(map(google_record, drawn)))


def _usable(job: GoogleJob, tasks_max: int, seen_share: float) -> bool:
    return job.tasks <= tasks_max and job.finished >= seen_share * job.tasks


def google_record(job: GoogleJob) -> JobRecord:
    """Return a row of the extract as a record: its features, and the tasks that were seen to finish."""
    features = JobFeatures(job.logical_name, job.job_name, job.user, job.submit_ms, job.cpu, job.memory, job.tasks)
    return JobRecord(str(job.id), features, job.durations_ms, job.end_ms)


def _without_gap(time_ms: int) -> int:
    start, end = GAP_MS
    return time_ms - max(0, min(time_ms, end) - start)


def _check(seed: int, jobs: int, nodes: int, cut: float, seen_share: float) -> None:
    if seed < 0:
        raise WorkloadError(f"seed is {seed}; it must not be negative")
    if jobs < 2 or nodes < 1:
        raise WorkloadError(f"jobs is {jobs} and nodes {nodes}; they must be at least 2 and 1")
    if not (0.0 < cut < 1.0 and 0.0 < seen_share <= 1.0):
        raise WorkloadError(f"cut is {cut} and seen_share {seen_share}; both are shares between 0 and 1")
