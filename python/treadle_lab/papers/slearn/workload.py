"""The workload of SLearn's GTrace11 (NSDI 2022, sections 4.3 and 5), from the extract of Google's trace of 2011."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from treadle.dag.dag import Dag
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Job, JobFeatures, JobRecord, Workload, arranged, scaled_to_window_load
from treadle.workload.traces.google import GoogleJob, google_job, google_jobs
from treadle.workload.traces.reading import Progress, WorkloadError, wrong

WINDOW_MS: Final = (600_000, 90_720_000)
"""From the first event of the trace to the end of the extract, 25.2 h."""
GAP_MS: Final = (70_754_000, 75_770_000)
"""Where a part of the trace is missing: hardly any job was submitted, and no end of a task was seen."""

Unseen = Literal["job_end", "left_out"]
"""What is made of tasks that were not seen to finish: they ran until their job ended, or they were not there."""


class SLearnTrace(NamedTuple):
    """Jobs to run, and what history there is of jobs before them."""

    history: tuple[JobRecord, ...]
    """In order of submission."""
    workload: Workload
    records: tuple[JobRecord, ...]
    """The workload's jobs with their features and their true durations, in the workload's order."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How jobs are drawn from the extract, and the cluster that they are for."""

    nodes: int = 150
    """Of the cluster, each with one slot."""
    load: float = 1.01
    """The mean of the windows."""
    tasks_max: int = 150
    """Jobs with more tasks are not drawn."""
    cut: float = 0.5
    """Where in the window history ends, as a share of it."""
    seen_share: float = 0.0
    """Of a job's tasks that must have been seen to finish for it to be drawn."""
    unseen: Unseen = "job_end"
    """What is made of the other tasks, in history too."""
    slot: Mapping[str, float] = field(default_factory=lambda: CONTAINER)
    """What a task asks for, and all that a node has."""

    def check(self, seed: int, jobs: int) -> None:
        """Refuse what cannot be drawn.

        Raises:
            WorkloadError: an argument is out of its bounds.
        """
        if seed < 0:
            raise WorkloadError(f"seed is {seed}; it must not be negative")
        if jobs < 2 or self.nodes < 1:
            raise WorkloadError(f"jobs is {jobs} and nodes {self.nodes}; they must be at least 2 and 1")
        if not (0.0 < self.cut < 1.0 and 0.0 <= self.seen_share <= 1.0):
            raise WorkloadError(f"cut is {self.cut} and seen_share {self.seen_share}; both are shares between 0 and 1")

    def scaled(self, workload: Workload) -> Workload:
        """Return a workload with the load that is wanted of the cluster."""
        capacity = {name: self.nodes * amount for name, amount in self.slot.items()}
        return scaled_to_window_load(workload, capacity, self.load)


def google_slearn(
    path: Path,
    seed: int,
    jobs: int = 1_250,
    draw: Draw = Draw(),
    *,
    tail_ms: int = 0,
    progress: Progress | None = None,
) -> SLearnTrace:
    """Build history and workload.

    All jobs submitted before the cut are history, with the tasks that were seen to finish: leaving any out would only
    weaken those who learn from it. From those after it ``jobs`` are drawn, each with the same chance; they
    keep their order and their gaps, which one factor then stretches to the wanted load: the mean over windows of
    1,000 s that slide by 100 s, as in table 5. A node runs one task at a time, and a job is one stage.

    How the extract's limits are treated: most wide jobs were killed by their users when a part of their tasks had
    finished, and long tasks go beyond the end of the extract. Tasks that were not seen to finish count as having run
    until their job ended, which the other table has for all 29 days. Of a job of which not even one task finished
    nobody knows how many it has: it cannot be drawn (``tail_ms`` shows what that does near the end). Arrivals behind
    the gap move forward by its length. Tasks keep their durations.

    Args:
        path: the folder of the extract, with both tables.
        seed: of the draw.
        jobs: how many to draw.
        draw: from which, and for what cluster.
        tail_ms: jobs submitted within this time of the end of the extract are dropped.
        progress: called with the part that is done.

    Raises:
        WorkloadError: a table is missing or wrong, an argument is out of its bounds, or there are too few jobs.
    """
    draw.check(seed, jobs)
    history, later = split_trace(path, draw, tail_ms, progress)
    if len(later) < jobs:
        raise wrong(path, "", f"{jobs} jobs are to be drawn, but only {len(later)} are left after the cut")
    chosen = np.sort(np.random.default_rng(seed).choice(len(later), jobs, replace=False))
    drawn = [later[at] for at in chosen]
    first_ms = without_gap(drawn[0].submit_ms)
    records = tuple(google_record(job, draw.unseen) for job in drawn)
    workload = arranged(
        _job(job, record, draw.slot, without_gap(job.submit_ms) - first_ms)
        for job, record in zip(drawn, records, strict=True)
    )
    return SLearnTrace(history, draw.scaled(workload), records)


def split_trace(
    path: Path, draw: Draw, tail_ms: int = 0, progress: Progress | None = None
) -> tuple[tuple[JobRecord, ...], list[GoogleJob]]:
    """Return the history before the cut, and the jobs after it that may be drawn, in order of submission.

    Raises:
        WorkloadError: a table is missing or wrong.
    """
    cut_ms = WINDOW_MS[0] + round(draw.cut * (WINDOW_MS[1] - WINDOW_MS[0]))
    found = sorted(google_jobs(path, progress), key=lambda job: job.submit_ms)
    if any(not job.job_name for job in found):
        raise wrong(path, "", "history needs the job names of jobs_29d.csv, which is not there")
    history = tuple(google_record(job, draw.unseen) for job in found if job.submit_ms < cut_ms)
    later = [job for job in found if cut_ms <= job.submit_ms <= WINDOW_MS[1] - tail_ms]
    return history, [job for job in later if _usable(job, draw.tasks_max, draw.seen_share)]


def _usable(job: GoogleJob, tasks_max: int, seen_share: float) -> bool:
    return job.tasks <= tasks_max and job.finished >= seen_share * job.tasks


def google_record(job: GoogleJob, unseen: Unseen = "left_out") -> JobRecord:
    """Return a row of the extract as a record: its features, its tasks that finished, and what is made of the others.

    Where a job's end is not known either, tasks that were not seen are left out.
    """
    features = JobFeatures(job.logical_name, job.job_name, job.user, job.submit_ms, job.cpu, job.memory, job.tasks)
    durations_ms = job.durations_ms
    if unseen == "job_end" and job.end_ms is not None and job.end_ms > job.submit_ms:
        until_end = np.full(job.tasks - job.finished, job.end_ms - job.submit_ms, np.int64)
        durations_ms = np.concatenate([durations_ms, until_end])
    return JobRecord(str(job.id), features, durations_ms, job.end_ms)


def _job(job: GoogleJob, record: JobRecord, slot: Mapping[str, float], arrival_ms: int) -> Job:
    """Return a job of one stage that has the record's tasks."""
    found = google_job(job, slot, arrival_ms)
    stage = replace(
        found.dag.stages[0],
        tasks=record.tasks,
        duration_ms=max(1, round(record.mean_ms)),
        durations_ms=record.durations_ms,
    )
    return replace(found, dag=Dag(found.dag.name, (stage,)))


def without_gap(time_ms: int) -> int:
    """Return a time as if the part that is missing had not been; in it, time stands still."""
    start, end = GAP_MS
    return time_ms - max(0, min(time_ms, end) - start)
