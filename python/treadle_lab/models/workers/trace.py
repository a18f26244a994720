"""The jobs of a trace, as Sparrow's, Hawk's and Eagle's simulators take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64
from treadle.workload.traces.eagle import eagle_jobs
from treadle.workload.traces.google import google_jobs
from treadle.workload.traces.reading import Progress, WorkloadError

GAP_S: Final = 0.01
"""Between jobs that are submitted at the same instant."""
GOOGLE_GAP_S: Final = 0.02
"""At least between two jobs of the extract of Google's trace."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in order of arrival.

    Attributes:
        name: of the trace.
        arrival_s: from 0, each later than the one before.
        tasks: of each job.
        duration_s: whole seconds, of the first job's tasks, then the second's, ...
        mean_s: of a job's tasks, cut to whole seconds; what schedulers believe each task to last.
        line: of each job in the trace, from 0: jobs that are submitted later may stand before it there.
        cutoff_s: a job with a higher mean is long.
        long_percent: of the workers, which long jobs may use.
    """

    name: str
    arrival_s: F64
    tasks: I32
    duration_s: F64
    mean_s: F64
    line: I64
    cutoff_s: float = 1129.532
    long_percent: float = 83.0

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self.arrival_s)

    @property
    def first_task(self) -> I64:
        """Where each job's durations begin, and the end of the last: shape (jobs + 1,)."""
        return np.concatenate([[0], np.cumsum(self.tasks, dtype=np.int64)]).astype(np.int64)

    @property
    def is_long(self) -> Flags:
        """Whether each job is long."""
        return self.mean_s > self.cutoff_s

    def faster(self, times: float) -> Trace:
        """Return the jobs with arrival times divided by a number."""
        return replace(self, arrival_s=apart(self.arrival_s / times))

    def offered_load(self, slots: int) -> float:
        """Return the work that arrives, over what this many slots can do from the first arrival to the last."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        return float(self.duration_s.sum()) / (slots * span_s) if span_s > 0 else float("inf")

    def every(self, step: int) -> Trace:
        """Return every so manieth job."""
        first = self.first_task
        jobs = range(0, len(self), step)
        return replace(
            self,
            arrival_s=self.arrival_s[::step].copy(),
            tasks=self.tasks[::step].copy(),
            duration_s=np.concatenate([self.duration_s[first[job] : first[job + 1]] for job in jobs]),
            mean_s=self.mean_s[::step].copy(),
            line=self.line[::step].copy(),
        )


def apart(arrival_s: F64, least_s: float = 0.0) -> F64:
    """Return arrivals that rise: jobs of the same instant, or closer than this many seconds, are pushed apart."""
    result = np.array(arrival_s, np.float64)
    last = -np.inf
    for at, value in enumerate(result):
        last = value if value > last and value >= last + least_s else last + (least_s or GAP_S)
        result[at] = last
    return result


def trace_of(
    name: str, arrival_s: Sequence[float], durations: Sequence[npt.ArrayLike], means: Sequence[float] | None = None
) -> Trace:
    """Return a trace of jobs in any order, whose durations are in seconds.

    Args:
        name: of the trace.
        arrival_s: of each job.
        durations: of each job's tasks.
        means: that the trace says; default: those of the durations.
    """
    order = np.argsort(np.asarray(arrival_s), kind="stable")
    lists = [np.asarray(durations[at], np.float64) for at in order]
    mean = [float(one.mean()) for one in lists] if means is None else [means[at] for at in order]
    return Trace(
        name,
        apart(np.asarray(arrival_s, np.float64)[order]),
        np.array([len(one) for one in lists], np.int32),
        np.floor(np.concatenate(lists)),
        np.floor(np.array(mean)),
        order.astype(np.int64),
    )


def read_trace(path: Path, progress: Progress | None = None) -> Trace:
    """Read a file of Eagle's format, or the folder of Google's extract (or its tasks table).

    Raises:
        WorkloadError: what is wrong, with file and line.
    """
    if path.is_dir() or "tasks_25h" in path.name:
        jobs = list(google_jobs(path, progress))
        if not jobs:
            raise WorkloadError(f"{path}: the tasks table has no job")
        start_ms = min(job.submit_ms for job in jobs)
        arrival_s = [(job.submit_ms - start_ms) / 1000 for job in jobs]
        trace = trace_of("google", arrival_s, [job.durations_ms / 1000 for job in jobs])
        return replace(trace, arrival_s=apart(np.sort(np.array(arrival_s)), GOOGLE_GAP_S))
    rows = list(eagle_jobs(path, progress))
    if not rows:
        raise WorkloadError(f"{path}: there is no job; a line is: submit_s n_tasks mean_s d1 ... dn")
    return trace_of(
        path.name.partition(".")[0],
        [row.submit_ms / 1000 for row in rows],
        [row.durations_ms / 1000 for row in rows],
        [row.mean_s for row in rows],
    )
