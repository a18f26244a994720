"""The trace format of the Sparrow, Hawk and Eagle simulators: a job a line, a task is a slot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import Place, Progress, read_lines

COLUMNS = ("submit_s", "n_tasks", "mean_s", "durations_s")


def read_eagle(path: Path, progress: Progress | None = None, slot: Mapping[str, float] = CONTAINER) -> Workload:
    """Read lines of ``submit_s n_tasks mean_s d1 ... dn``.

    Durations keep the milliseconds they have (the simulators cut them to whole seconds). The given mean is not used:
    a job's own durations say it exactly.

    Args:
        path: the trace.
        progress: told how far it is.
        slot: what a task asks for.

    Raises:
        WorkloadError: a line that is none, with its number.
    """
    jobs: list[Job] = []
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        fields = line.split(None, 3)
        if len(fields) < 3:
            raise place.wrong("", f"{len(fields)} columns where at least {' '.join(COLUMNS[:3])} are wanted")
        tasks = place.count("n_tasks", fields[1], least=1)
        place.amount("mean_s", fields[2])
        durations = place.durations_ms("durations_s", fields[3] if len(fields) > 3 else "")
        if len(durations) != tasks:
            raise place.wrong("n_tasks", f"it is {tasks}, but {len(durations)} durations follow the mean")
        arrival_ms = place.time_ms("submit_s", fields[0])
        stage = Stage(0, tasks, round(float(np.mean(durations))), slot, durations_ms=durations)
        name = f"job{len(jobs)}"
        jobs.append(Job(name, arrival_ms, Dag(name, (stage,)), Framework.TEZ))
    return arranged(jobs)
