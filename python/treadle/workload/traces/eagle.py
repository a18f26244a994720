"""The trace format of the Sparrow, Hawk and Eagle simulators: a job a line, a task is a slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from treadle.dag.dag import Dag, Stage
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import Place, Progress, read_lines

COLUMNS = ("submit_s", "n_tasks", "mean_s", "durations_s")


@dataclass(frozen=True, slots=True, eq=False)
class EagleJob:
    """A line of a trace; the mean is the one that it says."""

    submit_ms: int
    mean_s: float
    durations_ms: npt.NDArray[np.int64]


def eagle_jobs(path: Path, progress: Progress | None = None) -> Iterator[EagleJob]:
    """Yield the jobs of a trace line by line.

    Raises:
        WorkloadError: a line that is none, with its number.
    """
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        fields = line.split(None, 3)
        if len(fields) < 3:
            raise place.wrong("", f"{len(fields)} columns where at least {' '.join(COLUMNS[:3])} are wanted")
        tasks = place.count("n_tasks", fields[1], least=1)
        mean_s = place.amount("mean_s", fields[2])
        durations = place.durations_ms("durations_s", fields[3] if len(fields) > 3 else "")
        if len(durations) != tasks:
            raise place.wrong("n_tasks", f"it is {tasks}, but {len(durations)} durations follow the mean")
        yield EagleJob(place.time_ms("submit_s", fields[0]), mean_s, durations)


def read_eagle(path: Path, progress: Progress | None = None, slot: Mapping[str, float] = CONTAINER) -> Workload:
    """Read lines of ``submit_s n_tasks mean_s d1 ... dn``.

    Durations keep the milliseconds they have (the simulators cut them to whole seconds). The given mean is not used:
    a job's own durations say it exactly.

    Args:
        path: the trace.
        progress: called with the part that is done.
        slot: what a task asks for.

    Raises:
        WorkloadError: a line that is none, with its number.
    """
    jobs: list[Job] = []
    for row in eagle_jobs(path, progress):
        durations = row.durations_ms
        stage = Stage(0, len(durations), round(float(np.mean(durations))), slot, durations_ms=durations)
        name = f"job{len(jobs)}"
        jobs.append(Job(name, row.submit_ms, Dag(name, (stage,)), Framework.TEZ))
    return arranged(jobs)
