"""The traces of the comparison: Google's, and what is made of what is known of Facebook's and Yahoo's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.workload.traces.swim import SwimModel, swim_jobs
from treadle_lab.models.workers.state import Trace, read_trace, trace_of

CUTOFFS: Final = {"google": (1129.532, 83.0), "yahoo": (90.5811, 98.0), "facebook": (76.5951, 98.0)}
"""Mean duration in s above which a job is long, and the long partition in percent, by how a trace's name begins."""

GOOGLE: Final = "google"
FACEBOOK: Final = "facebook"
YAHOO: Final = "yahoo"

SWIM: Final = SwimModel(block_mb=1024.0, reduce_mb=1024.0, mb_per_s=20.0, tasks_max=1_000)
"""Bytes to tasks: large blocks, so that a day has no more tasks than a run can bear."""

YAHOO_JOBS: Final = 10_000
YAHOO_SEED: Final = 1
YAHOO_GAP_S: Final = 8.9
YAHOO_TASKS: Final = {0.5: 15.0, 0.9: 57.0, 0.99: 725.0}
YAHOO_MEAN_S: Final = {0.1: 2.8, 0.5: 15.6, 0.9: 81.5, 0.99: 2545.0}
YAHOO_VARIATION: Final = 0.32
"""Of durations inside a job: standard deviation over mean."""
YAHOO_TASKS_MAX: Final = 2_000
YAHOO_MEAN_MAX_S: Final = 10_000.0
"""Bounds of ours: what is known ends at the 99th percentile, and beyond it one job would be most of the work."""

SAID: Final = {
    FACEBOOK: "facebook: made. Arrivals and bytes are those of SWIM's sample of Facebook's cluster of 2010; tasks and "
    f"durations are derived by rules of this project: a map for each {SWIM.block_mb:g} MB, a reduce for each "
    f"{SWIM.reduce_mb:g} MB that is shuffled, {SWIM.mb_per_s:g} MB/s, at most {SWIM.tasks_max:,} of either in a job; "
    "maps and reduces are one bag of tasks",
    YAHOO: f"yahoo: made. {YAHOO_JOBS:,} jobs drawn from published percentiles (tasks P50, P90, P99: 15, 57, 725; mean "
    "durations P10, P50, P90, P99: 2.8, 15.6, 81.5, 2,545 s; variation inside a job 0.32; mean gap 8.9 s); nothing of "
    "it was recorded on a cluster",
}
"""What a reader must know of a trace that is made."""


def any_trace(path: Path) -> Trace:
    """Read a trace, with the cutoff and the partition that its name has; Google's if it has none."""
    return _with_cutoff(read_trace(path))


def trace_named(name: str, google: Path | None, sample: Path | None) -> Trace | None:
    """Return a trace: `google`, `facebook`, `yahoo`, or the path of one.

    Args:
        name: which
        google: the folder of the extract of Google's trace, if it is there
        sample: SWIM's sample, if it is there

    Returns:
        None if what it is made of is not there.

    Raises:
        UserError: a file is wrong, with its line.
    """
    if name == YAHOO:
        return yahoo()
    if name == FACEBOOK:
        return None if sample is None else facebook(sample)
    if name == GOOGLE:
        return None if google is None else any_trace(google)
    return any_trace(Path(name))


def _with_cutoff(trace: Trace) -> Trace:
    cutoff_s, percent = next(
        (found for name, found in CUTOFFS.items() if trace.name.startswith(name)), CUTOFFS["google"]
    )
    return replace(trace, cutoff_s=cutoff_s, long_percent=percent)


def facebook(sample: Path) -> Trace:
    """Return jobs of one of SWIM's samples as bags of tasks.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    arrival_s, durations = [], []
    for job in swim_jobs(sample):
        stages = SWIM.stages(job, {})
        arrival_s.append(job.submit_ms / 1000)
        durations.append(np.repeat([stage.duration_ms / 1000 for stage in stages], [stage.tasks for stage in stages]))
    return _with_cutoff(trace_of(FACEBOOK, arrival_s, durations))


def yahoo(jobs: int = YAHOO_JOBS, seed: int = YAHOO_SEED) -> Trace:
    """Return jobs drawn from what is published of Yahoo's trace; equal seeds give equal jobs."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 3]))
    arrival_s = np.cumsum(random.exponential(YAHOO_GAP_S, jobs)) - YAHOO_GAP_S
    tasks = np.clip(np.rint(between(YAHOO_TASKS, random.random(jobs))), 1, YAHOO_TASKS_MAX).astype(np.int64)
    mean_s = np.clip(between(YAHOO_MEAN_S, random.random(jobs)), 1.0, YAHOO_MEAN_MAX_S)
    sigma = float(np.sqrt(np.log1p(YAHOO_VARIATION**2)))
    factors = random.lognormal(-(sigma**2) / 2, sigma, int(tasks.sum()))
    # a task that is cut to 0 s would be none
    durations = np.split(np.maximum(1.0, np.repeat(mean_s, tasks) * factors), np.cumsum(tasks)[:-1])
    return _with_cutoff(trace_of(YAHOO, (arrival_s - arrival_s[0]).tolist(), durations))


def between(known: Mapping[float, float], shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return quantiles of a distribution of which some are known.

    Logarithms are interpolated over the normal distribution's quantiles, so that two known ones make it log-normal;
    beyond the last it goes on as it came.
    """
    normal = NormalDist()
    at = np.array([normal.inv_cdf(share) for share in known])
    logs = np.log(np.array(list(known.values())))
    z = np.array([normal.inv_cdf(min(max(share, 1e-12), 1 - 1e-12)) for share in shares])
    found = np.interp(z, at, logs)
    first, last = (logs[1] - logs[0]) / (at[1] - at[0]), (logs[-1] - logs[-2]) / (at[-1] - at[-2])
    found = np.where(z < at[0], logs[0] + first * (z - at[0]), found)
    found = np.where(z > at[-1], logs[-1] + last * (z - at[-1]), found)
    return np.asarray(np.exp(found))
