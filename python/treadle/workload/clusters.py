"""Measured workloads: Google's of 2011, Alibaba's of 2018, Facebook's (SWIM), and TPC-H's query DAGs on Spark.

SWIM's samples have neither task counts nor durations; `swim_stages` derives them, by rules of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.dag import Dag, DagError, Stage, ordered
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.reading import (
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
"""Start of the trace's window, in ms; jobs submitted earlier were already running."""

MACHINE: Final[Mapping[str, float]] = {"memory-mb": 65_536.0, "vcores": 32.0}
"""Our assumption for the largest machine; the trace gives requests as fractions of it, but not its size."""


@dataclass(frozen=True, slots=True, eq=False)
class GoogleJob:
    """A row of the tasks table, joined with the jobs table if present."""

    id: int
    submit_ms: int
    """From the trace's time 0, in ms; its window starts at 600 s."""
    user: str
    logical_name: str
    scheduling_class: int
    priority: int
    cpu: float
    """Requested by a task, as a fraction of the largest machine; the same for ``memory``."""
    memory: float
    tasks: int
    """Their number; tasks missing in ``durations_ms`` did not finish within the window."""
    durations_ms: npt.NDArray[np.int64] = field(repr=False)
    """Durations of finished tasks from the last start to the end, shape (finished,)."""
    job_name: str = ""
    """Empty without the jobs table."""
    end_ms: int | None = None
    """When the job ended; None without the jobs table, or if it had not by the end of the 29 days."""


def google_jobs(path: Path, progress: Progress | None = None) -> Iterator[GoogleJob]:
    """Yield the jobs of the extract in the order of the tasks table, which is almost that of submission.

    Args:
        path: the tasks table, or its folder; the jobs table is taken from the same folder if it exists.
        progress: called with the fraction of the tasks table that is read.

    Raises:
        WorkloadError: there is no tasks table, or a row of either is wrong.
    """
    table = needed_file(path, TASKS_FILE, "name the folder of the Google 2011 extract") if path.is_dir() else path
    names_file = find_file(table.parent, JOBS_FILE)
    names = None if names_file is None else _JobsTable(names_file)
    for place, fields in read_table(table, TASKS_HEADER, progress):
        yield _task_row(place, fields, names)


def read_google(path: Path, progress: Progress | None = None) -> Workload:
    """Read the extract: each job is one stage of its finished tasks.

    Tasks unfinished in the window are omitted, since their durations are unknown; the notes have their number. Requests
    are fractions of `MACHINE`, rounded up to whole units.

    Args:
        path: the tasks table, or its folder.
        progress: called with the fraction that is read.

    Raises:
        WorkloadError: there is no tasks table, or a row is wrong.
    """
    jobs = []
    tasks_wanted = 0
    for row in google_jobs(path, progress):
        tasks_wanted += row.tasks
        task_demand = {"memory-mb": row.memory, "vcores": row.cpu}
        demand = {name: float(max(1, ceil(share * MACHINE[name]))) for name, share in task_demand.items()}
        jobs.append(replace(google_job(row, demand, row.submit_ms), priority=row.priority))
    workload = arranged(jobs)
    missing = tasks_wanted - workload.tasks
    if not missing:
        return workload
    note = f"{missing} of {tasks_wanted} tasks did not finish within the trace's window and are left out"
    return arranged(jobs, (note,))


def google_job(row: GoogleJob, demand: Mapping[str, float], arrival_ms: int) -> Job:
    """Return a row as a job of one stage: its finished tasks."""
    stage = Stage.measured(0, row.durations_ms, demand)
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
        # A missing request counts as 0.
        place.amount("cpu", fields[6] or "0"),
        place.amount("mem", fields[7] or "0"),
        tasks,
        durations,
        job_name,
        end_ms,
    )


class _JobsTable:
    """The jobs table, read on demand; it is sorted by job number, the tasks table almost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = read_table(path, JOBS_HEADER)
        self._latest = -1
        self._read: dict[int, tuple[str, int | None]] = {}

    def look_up(self, number: int) -> tuple[str, int | None]:
        """Return a job's name and when it ended (ms)."""
        while self._latest < number:
            place, fields = next(self._rows, (None, []))
            if place is None:
                break
            self._latest = place.count("job", fields[0], least=self._latest + 1)
            end_ms = place.time_ms("end_s", fields[3]) if fields[3] else None
            self._read[self._latest] = fields[7], end_ms
        row = self._read.get(number)
        if row is None:
            raise wrong(self._path, "", f"there is no job {number}, which the tasks table has; fetch both again")
        return row


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
"""One core in units of ``plan_cpu``."""
MACHINE_MB: Final = 96 * 4096
"""Our assumption: ``plan_mem`` is a percentage of an unknown machine memory; machines have 96 cores."""

_NAMED: Final = re.compile(r"[A-Za-z]+(\d+)((?:_[A-Za-z0-9]+)*)$")


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A line of the trace."""

    line: int
    name: str
    instances: int
    job: str
    ended: bool
    """Whether it succeeded, at known times."""
    start_ms: int
    end_ms: int
    cores: float | None
    memory_mb: float | None


def _batch_tasks(path: Path, progress: Progress | None = None) -> Iterator[BatchTask]:
    """Yield the lines of a trace."""
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
    """Read the jobs whose stages have all ended.

    A stage's tasks all last as long as the stage did; a job arrives when its first stage started.

    Args:
        path: batch_task.csv, or its folder.
        progress: called with the fraction that is read.

    Raises:
        WorkloadError: a line is wrong, or there are too many tasks.
    """
    file = path if path.is_file() else needed_file(path, BATCH_TASKS_FILE, "it has the stages")
    stages: dict[str, list[BatchTask]] = {}
    total = 0
    for task in _batch_tasks(file, progress):
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
    """Return why a nonempty trace has no job that can run, by the first wrong line."""
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
    """Return the DAG of a job; missing predecessors count as completed."""
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


SWIM_COLUMNS: Final = ("job id", "submit time (s)", "gap (s)", "map input", "shuffle", "reduce output")
MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SwimJob:
    """A line of a sample."""

    id: str
    submit_ms: int
    input_bytes: int
    shuffle_bytes: int
    output_bytes: int
    input_path: str = ""


BLOCK_MB: Final = 128.0
REDUCE_MB: Final = 1024.0
MB_PER_S: Final = 20.0
START_MS: Final = 1_000
SIDE_TASKS_MAX: Final = 10_000
"""Maximum number of maps and of reduces in a job; beyond it tasks grow instead."""


def swim_stages(job: SwimJob) -> tuple[Stage, ...]:
    """Return a job's maps and reduces by its bytes; every number is our assumption.

    A map for each block of input; a reduce for each `REDUCE_MB` of shuffled data, none without any. A task lasts
    `START_MS` plus the time for its bytes at `MB_PER_S`: for a map its part of the input and of the shuffle (or of the
    output, without reduces), for a reduce its part of the shuffle and of the output.
    """
    read, moved, written = (size / MB for size in (job.input_bytes, job.shuffle_bytes, job.output_bytes))
    maps = min(SIDE_TASKS_MAX, max(1, ceil(read / BLOCK_MB)))
    reduces = min(SIDE_TASKS_MAX, ceil(moved / REDUCE_MB))
    map_ms = _task_ms((read + (moved if reduces else written)) / maps)
    stages = [Stage(0, maps, map_ms, CONTAINER, name="map")]
    if reduces:
        stages.append(Stage(1, reduces, _task_ms((moved + written) / reduces), CONTAINER, (0,), name="reduce"))
    return tuple(stages)


def _task_ms(megabytes: float) -> int:
    return START_MS + round(1000 * megabytes / MB_PER_S)


def swim_jobs(path: Path, progress: Progress | None = None) -> Iterator[SwimJob]:
    """Yield the jobs of a sample in order.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        fields = line.split("\t")
        if len(fields) not in (6, 7):
            wanted = ", ".join(SWIM_COLUMNS)
            raise place.wrong("", f"{len(fields)} columns where 6 are wanted, separated by tabs: {wanted}")
        read, moved, written = (
            place.count(name, text) for name, text in zip(SWIM_COLUMNS[3:], fields[3:6], strict=True)
        )
        submit_ms = place.time_ms(SWIM_COLUMNS[1], fields[1])
        yield SwimJob(fields[0], submit_ms, read, moved, written, "".join(fields[6:]))


def read_swim(path: Path, progress: Progress | None = None) -> Workload:
    """Read a sample as MapReduce jobs at their own size, with tasks and durations by `swim_stages`.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    jobs = []
    for job in swim_jobs(path, progress):
        tags = (f"input:{job.input_path}",) if job.input_path else ()
        dag = Dag(job.id, swim_stages(job))
        jobs.append(Job(job.id, job.submit_ms, dag, Framework.MAPREDUCE, job.id, tags=tags))
    return arranged(jobs)


PROFILES_FILE: Final = "profiles.csv"
EDGES_HEADER: Final = "query,stage,child"
PROFILES_HEADER: Final = "query,size_gb,max_cores,stage,tasks,mean_runtime_ms"

Profile = tuple[int, int, int]
"""A query, the size of its data in GB, its maximum number of cores."""


def read_tpch(path: Path, progress: Progress | None = None) -> Workload:
    """Read the profiles as one job each, all arriving at time 0, by query, size and cores.

    All tasks of a stage last its measured mean. The tables lack requests: each task has the default container's.

    Args:
        path: the table of profiles or its folder; the table of edges must be next to it.
        progress: called with the fraction that is read.

    Raises:
        WorkloadError: a table is missing, a row is wrong, the stages do not match the edges, or there is no profile.
    """
    folder = path if path.is_dir() else path.parent
    profiles_file = needed_file(folder, PROFILES_FILE, "it has the stages") if path.is_dir() else path
    edges_file = needed_file(folder, "edges.csv", "it has which stage needs which")
    parents = _read_edges(edges_file)
    stages: dict[Profile, dict[int, Stage]] = {}
    for place, (query, size, cores, number, tasks, mean) in read_table(profiles_file, PROFILES_HEADER, progress):
        profile = (place.count("query", query), place.count("size_gb", size), place.count("max_cores", cores))
        stage = place.count("stage", number)
        found = stages.setdefault(profile, {})
        if stage in found:
            raise place.wrong("stage", f"query {query} has a second stage {number} at {size} GB and {cores} cores")
        duration_ms = max(1, round(place.amount("mean_runtime_ms", mean)))
        before = tuple(sorted(parents.get(profile[0], {}).get(stage, ())))
        width = place.count("tasks", tasks, least=1)
        found[stage] = Stage(stage, width, duration_ms, CONTAINER, before, name=f"stage{stage}")
    if not stages:
        raise wrong(profiles_file, "", "there is no profile in it")
    return arranged(_tpch_job(profile, stages[profile], profiles_file) for profile in sorted(stages))


def _tpch_job(profile: Profile, stages: Mapping[int, Stage], path: Path) -> Job:
    query, size, cores = profile
    name = f"q{query}-{size}gb-{cores}cores"
    try:
        dag = ordered(name, tuple(stages[number] for number in sorted(stages)))
    except DagError as error:
        raise WorkloadError(f"{path}: {error}; the tables do not belong together") from None
    tags = (f"size_gb:{size}", f"max_cores:{cores}")
    return Job(name, 0, dag, Framework.SPARK, f"q{query}", tags=tags)


def _read_edges(path: Path) -> dict[int, dict[int, set[int]]]:
    """Return the predecessors of each stage by query."""
    parents: dict[int, dict[int, set[int]]] = {}
    for place, (query, stage, child) in read_table(path, EDGES_HEADER):
        before = parents.setdefault(place.count("query", query), {})
        before.setdefault(place.count("child", child), set()).add(place.count("stage", stage))
    return parents
