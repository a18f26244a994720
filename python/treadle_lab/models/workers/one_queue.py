"""One queue for all workers: a central scheduler gives each worker that is free the job with least remaining work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.queues import remaining_s
from treadle_lab.models.workers.state import Total

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers


@inner
def idle_worker(run: Workers, job: int, place: int) -> int:
    """Return the place in `by_need`, from one on, of an idle worker that may run a job; -1 if there is none."""
    group = run.sent_to[job]
    while place < len(run.by_need):
        worker = run.by_need[place]
        if run.is_busy[worker] == 0 and run.may_run[group, worker] != 0:
            return place
        place += 1
    return -1


@inner
def wait_for_workers(run: Workers, job: int) -> None:
    """Let a job wait of which tasks have not started."""
    run.open_jobs[run.totals[Total.OPEN]] = job
    run.totals[Total.OPEN] += 1


@inner
def job_for(run: Workers, worker: int) -> int:
    """Return the waiting job with least remaining work that a worker may run; -1 if there is none."""
    chosen, least_s, at = -1, np.inf, 0
    while at < run.totals[Total.OPEN]:
        job = run.open_jobs[at]
        if run.started[job] == run.tasks[job]:
            run.totals[Total.OPEN] -= 1
            run.open_jobs[at] = run.open_jobs[run.totals[Total.OPEN]]
            continue
        left_s = remaining_s(run, job)
        if run.may_run[run.sent_to[job], worker] != 0 and (left_s < least_s or (left_s == least_s and job < chosen)):
            chosen, least_s = job, left_s
        at += 1
    return chosen
