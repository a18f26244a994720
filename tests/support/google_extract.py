"""Small made-up extracts of Google's trace of 2011."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treadle.workload.clusters import JOBS_FILE, JOBS_HEADER, TASKS_FILE, TASKS_HEADER
from treadle_lab.papers.slearn.trace import WINDOW_MS

JOB_S = 500
"""How long each job takes."""


@dataclass(frozen=True)
class ExtractJob:
    """What an extract says of a job."""

    submit_s: int
    user: int
    logical_name: int
    name: int
    tasks: int
    durations_s: list[float]
    """Of the tasks that were seen to finish."""


def write_jobs(folder: Path, jobs: Iterable[ExtractJob]) -> Path:
    """Write both tables of an extract; its jobs are numbered from 0. Return the folder."""
    tasks_rows, jobs_rows = [TASKS_HEADER], [JOBS_HEADER]
    for number, job in enumerate(jobs):
        seen = len(job.durations_s)
        durations = " ".join(f"{value:.1f}" for value in job.durations_s)
        tasks_rows.append(
            f"{number},{job.submit_s}.0,{job.user},{job.logical_name},1,0,0.05,0.01,0,0,"
            f"{job.tasks},{seen},0,{int(seen == job.tasks)},{durations}"
        )
        jobs_rows.append(
            f"{number},{job.submit_s}.0,{job.submit_s}.0,{job.submit_s + JOB_S}.0,finish,"
            f"{job.user},1,{job.name},{job.logical_name}"
        )
    (folder / TASKS_FILE).write_text("\n".join(tasks_rows))
    (folder / JOBS_FILE).write_text("\n".join(jobs_rows))
    return folder


def write_extract(folder: Path) -> Path:
    """Write an extract of jobs of 1 to 60 tasks, whose durations have a long tail. Return the folder."""
    generator = np.random.default_rng(7)
    jobs = []
    for submit_s in range(WINDOW_MS[0] // 1000, WINDOW_MS[1] // 1000, 400):
        tasks = int(generator.choice([1, 2, 5, 20, 60], p=[0.2, 0.2, 0.3, 0.2, 0.1]))
        mean_s = 10 ** generator.uniform(0.5, 3.5)
        durations_s = [mean_s * value for value in generator.uniform(0.9, 1.1, tasks)]
        user, logical_name, name = (int(generator.integers(count)) for count in (3, 5, 8))
        jobs.append(ExtractJob(submit_s, user, logical_name, name, tasks, durations_s))
    return write_jobs(folder, jobs)
