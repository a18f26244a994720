"""The compact extract of Google's cluster trace of 2011: jobs with the durations of their finished tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.dag.dag import Dag, Stage
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import Place, Progress, find_file, needed_file, read_table, wrong

TASKS_FILE: Final = "tasks_25h.csv"
JOBS_FILE: Final = "jobs_29d.csv"
TASKS_HEADER: Final = (
    "job,submit_s,user,logical_name,sched_class,priority,cpu,mem,disk,diff_machine,n_tasks,n_finished,n_restarts,"
    "complete,durations_s"
)
JOBS_HEADER: Final = "job,submit_s,schedule_s,end_s,end_type,user,sched_class,job_name,logical_name"

WINDOW_MS: Final = 600_000
"""When the trace's window begins; jobs with an earlier time of submission ran then."""

MACHINE: Final[Mapping[str, float]] = {"memory-mb": 65_536.0, "vcores": 32.0}
"""What we take the largest machine to have; the trace gives requests as shares of it and never says how big it is."""


@dataclass(frozen=True, slots=True, eq=False)
class GoogleJob:
    """A row of the tasks table, joined with the jobs table where that is there."""

    id: int
    submit_ms: int
    """From the trace's time 0; its window starts at 600 s."""
    user: str
    logical_name: str
    scheduling_class: int
    priority: int
    cpu: float
    """Requested by a task, as a share of the largest machine; as ``memory``."""
    memory: float
    tasks: int
    """How many there were; those not in ``durations_ms`` did not finish within the window, or never."""
    durations_ms: npt.NDArray[np.int64] = field(repr=False)
    """Of the tasks that finished, from the last start to the end, shape (finished,)."""
    job_name: str = ""
    """Empty if the jobs table is not there."""
    end_ms: int | None = None
    """When the job ended; None if the jobs table is not there, or if it had not by the end of the 29 days."""

    @property
    def finished(self) -> int:
        """How many tasks were seen to finish."""
        return len(self.durations_ms)


def google_jobs(path: Path, progress: Progress | None = None) -> Iterator[GoogleJob]:
    """Yield the jobs of the extract in the order of the tasks table, which is nearly that of submission.

    Args:
        path: the tasks table, or the folder with it; the jobs table is taken from the same folder if it is there.
        progress: called with the part of the tasks table that is done.

    Raises:
        WorkloadError: there is no tasks table, or a row of either is wrong.
    """
    table = needed_file(path, TASKS_FILE, "name the folder of the Google 2011 extract") if path.is_dir() else path
    names_file = find_file(table.parent, JOBS_FILE)
    names = None if names_file is None else _JobsTable(names_file)
    for place, fields in read_table(table, TASKS_HEADER, progress):
        yield _task_row(place, fields, names)


def google_left_s(path: Path) -> npt.NDArray[np.float64]:
    """Return how much longer each job ran that ran when the trace's window began; infinite: beyond its 29 days.

    Args:
        path: the jobs table, or the folder with it.

    Raises:
        WorkloadError: there is no jobs table, or a row is wrong.
    """
    table = needed_file(path, JOBS_FILE, "name the folder of the Google 2011 extract") if path.is_dir() else path
    found = []
    for place, fields in read_table(table, JOBS_HEADER):
        if place.time_ms("submit_s", fields[1]) > WINDOW_MS:
            break
        end_ms = place.time_ms("end_s", fields[3]) if fields[3] else None
        if end_ms is None or end_ms > WINDOW_MS:
            found.append(np.inf if end_ms is None else (end_ms - WINDOW_MS) / 1000)
    return np.array(found)


def read_google(path: Path, progress: Progress | None = None, machine: Mapping[str, float] = MACHINE) -> Workload:
    """Read the extract: each job is one stage of the tasks that were seen to finish.

    Tasks that did not finish in the window are left out, as nobody knows their durations; the notes say how many.

    Args:
        path: the tasks table, or the folder with it.
        progress: called with the part that is done.
        machine: what the largest machine has; requests are shares of it and are rounded up to whole units.

    Raises:
        WorkloadError: there is no tasks table, or a row is wrong.
    """
    jobs = []
    wanted = 0
    for row in google_jobs(path, progress):
        wanted += row.tasks
        asked = {"memory-mb": row.memory, "vcores": row.cpu}
        demand = {name: float(max(1, ceil(share * machine[name]))) for name, share in asked.items()}
        jobs.append(replace(google_job(row, demand, row.submit_ms), priority=row.priority))
    workload = arranged(jobs)
    missing = wanted - workload.tasks
    if not missing:
        return workload
    note = f"{missing} of {wanted} tasks did not finish within the trace's window and are left out"
    return arranged(jobs, (note,))


def google_job(row: GoogleJob, demand: Mapping[str, float], arrival_ms: int) -> Job:
    """Return a row as a job of one stage: its finished tasks."""
    mean_ms = round(float(row.durations_ms.mean()))
    stage = Stage(0, row.finished, mean_ms, demand, durations_ms=row.durations_ms)
    tags = (f"class:{row.scheduling_class}", f"priority:{row.priority}", f"application:{row.logical_name}")
    name = row.job_name or row.logical_name
    return Job(str(row.id), arrival_ms, Dag(str(row.id), (stage,)), Framework.TEZ, name, row.user, tags=tags)


def _task_row(place: Place, fields: list[str], names: _JobsTable | None) -> GoogleJob:
    number = place.count("job", fields[0])
    tasks = place.count("n_tasks", fields[10], least=1)
    durations = place.durations_ms("durations_s", fields[14])
    if len(durations) != place.count("n_finished", fields[11], least=1):
        raise place.wrong("n_finished", f"it is {fields[11]}, but there are {len(durations)} durations_s")
    if len(durations) > tasks:
        raise place.wrong("n_tasks", f"it is {tasks}, but {len(durations)} tasks have finished")
    job_name, end_ms = ("", None) if names is None else names.look_up(number)
    return GoogleJob(
        number,
        place.time_ms("submit_s", fields[1]),
        fields[2],
        fields[3],
        place.count("sched_class", fields[4]),
        place.count("priority", fields[5]),
        # A request that the trace does not have counts as none.
        place.amount("cpu", fields[6] or "0"),
        place.amount("mem", fields[7] or "0"),
        tasks,
        durations,
        job_name,
        end_ms,
    )


class _JobsTable:
    """The jobs table, read only as far as somebody asks; it is in order of job numbers, the tasks table nearly so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = read_table(path, JOBS_HEADER)
        self._latest = -1
        self._read: dict[int, tuple[str, int | None]] = {}

    def look_up(self, number: int) -> tuple[str, int | None]:
        """Return a job's name and when it ended."""
        while self._latest < number:
            place, fields = next(self._rows, (None, []))
            if place is None:
                break
            self._latest = place.count("job", fields[0], least=self._latest + 1)
            end_ms = place.time_ms("end_s", fields[3]) if fields[3] else None
            self._read[self._latest] = fields[7], end_ms
        found = self._read.get(number)
        if found is None:
            raise wrong(self._path, "", f"there is no job {number}, which the tasks table has; fetch both again")
        return found
