"""Cluster traces: the compact extract of Google's of 2011, and batch jobs of Alibaba's of 2018."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.dag.dag import Dag, DagError, Stage, ordered
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import (
    MS_MAX,
    TASKS_MAX,
    Place,
    Progress,
    WorkloadError,
    find_file,
    needed_file,
    read_lines,
    read_table,
    wrong,
)

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


BATCH_TASKS_FILE: Final = "batch_task.csv"
COLUMNS: Final = (
    "task_name",
    "instance_num",
    "job_name",
    "task_type",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
)
ENDED: Final = "Terminated"
CORE: Final = 100.0
"""Of ``plan_cpu``."""
MACHINE_MB: Final = 96 * 4096
"""Ours: ``plan_mem`` is a percentage of a machine whose memory nobody knows; it has 96 cores."""

_NAMED: Final = re.compile(r"[A-Za-z]+(\d+)((?:_[A-Za-z0-9]+)*)$")


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A line of the trace."""

    line: int
    name: str
    instances: int
    job: str
    ended: bool
    """Did it end well, at times that are known?"""
    start_ms: int
    end_ms: int
    cores: float | None
    memory_mb: float | None


def batch_tasks(path: Path, progress: Progress | None = None) -> Iterator[BatchTask]:
    """Yield the lines of a trace.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    for number, line in read_lines(path, progress):
        place, fields = Place(path, number), line.split(",")
        place.columns(fields, len(COLUMNS))
        times = [
            place.amount(name, text) if text else 0.0 for name, text in zip(COLUMNS[5:7], fields[5:7], strict=True)
        ]
        asked = [place.amount(name, text) if text else None for name, text in zip(COLUMNS[7:], fields[7:], strict=True)]
        if max(times) * 1000 > MS_MAX:
            raise place.wrong(COLUMNS[5], f"{max(times):g} s is out of all reason; times are in seconds")
        yield BatchTask(
            number,
            fields[0],
            place.count(COLUMNS[1], fields[1], least=0) if fields[1] else 0,
            fields[2],
            fields[4] == ENDED and 0 < times[0] <= times[1],
            round(1000 * times[0]),
            round(1000 * times[1]),
            None if asked[0] is None else asked[0] / CORE,
            None if asked[1] is None else asked[1] / 100 * MACHINE_MB,
        )


def read_alibaba(path: Path, progress: Progress | None = None) -> Workload:
    """Read the jobs of which every stage has ended.

    A stage's tasks all last as long as the stage did; a job arrives when its first stage started.

    Args:
        path: batch_task.csv, or a folder with it.
        progress: called with the part that is done.

    Raises:
        WorkloadError: a line is wrong, or there are too many tasks.
    """
    file = path if path.is_file() else find_file(path, BATCH_TASKS_FILE)
    if file is None:
        raise wrong(path, "", f"there is no {BATCH_TASKS_FILE} (nor .xz or .gz) in the folder")
    stages: dict[str, list[BatchTask]] = {}
    total = 0
    for task in batch_tasks(file, progress):
        stages.setdefault(task.job, []).append(task)
        total += task.instances
        if total > TASKS_MAX:
            raise wrong(file, f"line {task.line}", f"over {TASKS_MAX:,} instances; cut the file, it is read whole")
    jobs, unfinished, broken = [], 0, 0
    for name, tasks in stages.items():
        if not all(task.ended and task.instances for task in tasks):
            unfinished += 1
            continue
        try:
            dag = _dag(name, tasks)
        except DagError:
            broken += 1
            continue
        jobs.append(Job(name, min(task.start_ms for task in tasks), dag, Framework.TEZ, name))
    if stages and not jobs:
        raise _nothing(file, stages)
    notes = ["The tasks of a stage all last as long as the stage did: instances are in a table of their own"]
    if unfinished:
        notes.append(f"{unfinished} of {len(stages)} jobs have a stage that did not end well, or without instances")
    if broken:
        notes.append(f"{broken} of {len(stages)} jobs have stages of one number, or that wait for each other")
    return arranged(jobs, notes)


def _nothing(file: Path, stages: dict[str, list[BatchTask]]) -> WorkloadError:
    """Return why a trace with lines has no job that can run, by the first line at fault."""
    task = next((task for tasks in stages.values() for task in tasks if not (task.ended and task.instances)), None)
    if task is None:
        return wrong(file, "", "all jobs have stages of one number, or that wait for each other; look at the names")
    if task.end_ms < task.start_ms:
        why = f"its start_time, {task.start_ms / 1000:g}, is after its end_time, {task.end_ms / 1000:g}"
    elif not task.instances:
        why = "it has no instances"
    else:
        why = f"its status is not {ENDED}, or it has no start_time"
    return wrong(file, f"line {task.line}", f"{why}; there is no job of which every stage has ended")


def _dag(job: str, tasks: list[BatchTask]) -> Dag:
    """Return the DAG of a job; a stage that it waits for and has not is taken as done."""
    named = [_NAMED.fullmatch(task.name) for task in tasks]
    numbers = [int(match[1]) for match in named if match]
    free = max(numbers, default=0)
    stages = []
    for task, match in zip(tasks, named, strict=True):
        parents: list[int] = []
        if match:
            number = int(match[1])
            parents = [int(part) for part in match[2].split("_") if part.isdigit()]
        else:
            number = free = free + 1
        demand = {
            "memory-mb": max(1, ceil(CONTAINER["memory-mb"] if task.memory_mb is None else task.memory_mb)),
            "vcores": max(1, ceil(CONTAINER["vcores"] if task.cores is None else task.cores)),
        }
        waits = tuple(dict.fromkeys(parent for parent in parents if parent in numbers and parent != number))
        duration_ms = max(1, task.end_ms - task.start_ms)
        stages.append(Stage(number, task.instances, duration_ms, demand, waits, name=task.name))
    return ordered(job, tuple(stages))
