"""Measured workloads: Google's of 2011, Alibaba's of 2018, Facebook's (SWIM), and TPC-H's query DAGs on Spark.

SWIM's samples have neither task counts nor durations; `swim_stages` derives them, by rules of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, model_validator

from treadle.dag import Dag, DagError, Stage, ordered
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.reading import (
    TASKS_MAX,
    Amount,
    Count,
    Durations,
    Milliseconds,
    Positive,
    Row,
    WorkloadError,
    find_file,
    needed_file,
    read_rows,
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


_ZERO: Final = BeforeValidator(lambda text: text or "0")
_EMPTY: Final = BeforeValidator(lambda text: text or None)
"""What an empty value stands for."""
_Request = Annotated[Amount, _ZERO]


class GoogleJob(Row):
    """A row of the tasks table, joined with the jobs table if present."""

    id: Count = Field(alias="job")
    submit_ms: Milliseconds = Field(alias="submit_s")
    """From the trace's time 0, in ms; its window starts at 600 s."""
    user: str
    logical_name: str
    scheduling_class: Count = Field(alias="sched_class")
    priority: Count
    cpu: _Request
    """Requested by a task, as a fraction of the largest machine; the same for ``memory``."""
    memory: _Request = Field(alias="mem")
    tasks: Positive = Field(alias="n_tasks")
    """Their number; tasks missing in ``durations_ms`` did not finish within the window."""
    finished: Positive = Field(alias="n_finished")
    durations_ms: Durations = Field(alias="durations_s", repr=False)
    """Durations of finished tasks from the last start to the end, shape (finished,)."""
    job_name: str = ""
    """Empty without the jobs table."""
    end_ms: int | None = None
    """When the job ended; None without the jobs table, or if it had not by the end of the 29 days."""

    @model_validator(mode="after")
    def _agrees(self) -> GoogleJob:
        if len(self.durations_ms) != self.finished:
            raise ValueError(f"n_finished: it is {self.finished}, but there are {len(self.durations_ms)} durations_s")
        if self.finished > self.tasks:
            raise ValueError(f"n_tasks: it is {self.tasks}, but {self.finished} tasks have finished")
        return self


class GoogleEnd(Row):
    """A row of the jobs table."""

    job: Count
    submit_ms: Milliseconds = Field(alias="submit_s")
    end_ms: Annotated[Milliseconds | None, _EMPTY] = Field(alias="end_s")
    job_name: str


def google_jobs(path: Path) -> Iterator[GoogleJob]:
    """Yield the jobs of the extract in the order of the tasks table, which is almost that of submission.

    Args:
        path: the tasks table, or its folder; the jobs table is taken from the same folder if it exists.

    Raises:
        WorkloadError: there is no tasks table, or a row of either is wrong.
    """
    table = needed_file(path, TASKS_FILE, "name the folder of the Google 2011 extract") if path.is_dir() else path
    names_file = find_file(table.parent, JOBS_FILE)
    ends = {} if names_file is None else {row.job: row for _, row in read_rows(names_file, GoogleEnd, JOBS_HEADER)}
    for _, job in read_rows(table, GoogleJob, TASKS_HEADER):
        if names_file is None:
            yield job
        elif end := ends.get(job.id):
            yield job.model_copy(update={"job_name": end.job_name, "end_ms": end.end_ms})
        else:
            raise wrong(names_file, "", f"there is no job {job.id}, which the tasks table has; fetch both again")


def read_google(path: Path) -> Workload:
    """Read the extract: each job is one stage of its finished tasks.

    Tasks unfinished in the window are omitted, since their durations are unknown; the notes have their number. Requests
    are fractions of `MACHINE`, rounded up to whole units.

    Args:
        path: the tasks table, or its folder.

    Raises:
        WorkloadError: there is no tasks table, or a row is wrong.
    """
    jobs = []
    tasks_wanted = 0
    for row in google_jobs(path):
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


BATCH_TASKS_FILE: Final = "batch_task.csv"
COLUMNS: Final = "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem"
ENDED: Final = "Terminated"
CORE: Final = 100.0
"""One core in units of ``plan_cpu``."""
MACHINE_MB: Final = 96 * 4096
"""Our assumption: ``plan_mem`` is a percentage of an unknown machine memory; machines have 96 cores."""

_NAMED: Final = re.compile(r"[A-Za-z]+(\d+)((?:_[A-Za-z0-9]+)*)$")


class BatchTask(Row):
    """A line of the trace."""

    task_name: str
    instances: Annotated[Count, _ZERO] = Field(alias="instance_num")
    job_name: str
    status: str
    start_ms: Annotated[Milliseconds, _ZERO] = Field(alias="start_time")
    end_ms: Annotated[Milliseconds, _ZERO] = Field(alias="end_time")
    plan_cpu: Annotated[Amount | None, _EMPTY]
    plan_mem: Annotated[Amount | None, _EMPTY]

    @property
    def ended(self) -> bool:
        """Whether it succeeded, at known times."""
        return self.status == ENDED and 0 < self.start_ms <= self.end_ms


def read_alibaba(path: Path) -> Workload:
    """Read the jobs whose stages have all ended.

    A stage's tasks all last as long as the stage did; a job arrives when its first stage started.

    Args:
        path: batch_task.csv, or its folder.

    Raises:
        WorkloadError: a line is wrong, or there are too many tasks.
    """
    file = path if path.is_file() else needed_file(path, BATCH_TASKS_FILE, "it has the stages")
    stages: dict[str, list[BatchTask]] = {}
    total = 0
    useless: tuple[str, BatchTask] | None = None
    for where, task in read_rows(file, BatchTask, COLUMNS, headed=False):
        stages.setdefault(task.job_name, []).append(task)
        total += task.instances
        if total > TASKS_MAX:
            raise wrong(file, where, f"over {TASKS_MAX:,} instances; cut the file, it is read whole")
        if useless is None and not (task.ended and task.instances):
            useless = where, task
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
        raise _nothing(file, useless)
    notes = ["The tasks of a stage all last as long as the stage did: instances are in a table of their own"]
    if unfinished:
        notes.append(f"{unfinished} of {len(stages)} jobs have a stage that did not end well, or without instances")
    if broken:
        notes.append(f"{broken} of {len(stages)} jobs have stages of one number, or that wait for each other")
    return arranged(jobs, notes)


def _nothing(file: Path, useless: tuple[str, BatchTask] | None) -> WorkloadError:
    """Return why a nonempty trace has no job that can run, by the first wrong line."""
    if useless is None:
        return wrong(file, "", "all jobs have stages of one number, or that wait for each other; look at the names")
    where, task = useless
    if task.end_ms < task.start_ms:
        why = f"its start_time, {task.start_ms / 1000:g}, is after its end_time, {task.end_ms / 1000:g}"
    elif not task.instances:
        why = "it has no instances"
    else:
        why = f"its status is not {ENDED}, or it has no start_time"
    return wrong(file, where, f"{why}; there is no job of which every stage has ended")


def _dag(job: str, tasks: list[BatchTask]) -> Dag:
    """Return the DAG of a job; missing predecessors count as completed."""
    named = [_NAMED.fullmatch(task.task_name) for task in tasks]
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
        memory_mb = CONTAINER["memory-mb"] if task.plan_mem is None else task.plan_mem / 100 * MACHINE_MB
        cores = CONTAINER["vcores"] if task.plan_cpu is None else task.plan_cpu / CORE
        demand = {"memory-mb": max(1, ceil(memory_mb)), "vcores": max(1, ceil(cores))}
        waits = tuple(dict.fromkeys(parent for parent in parents if parent in numbers and parent != number))
        duration_ms = max(1, task.end_ms - task.start_ms)
        stages.append(Stage(number, task.instances, duration_ms, demand, waits, name=task.task_name))
    return ordered(job, tuple(stages))


SWIM_COLUMNS: Final = "job id\tsubmit time (s)\tgap (s)\tmap input\tshuffle\treduce output\t[input path]"
MB: Final = 1 << 20


class SwimJob(Row):
    """A line of a sample."""

    id: str = Field(alias="job id")
    submit_ms: Milliseconds = Field(alias="submit time (s)")
    input_bytes: Count = Field(alias="map input")
    shuffle_bytes: Count = Field(alias="shuffle")
    output_bytes: Count = Field(alias="reduce output")
    input_path: str = Field("", alias="input path")


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


def swim_jobs(path: Path) -> Iterator[SwimJob]:
    """Yield the jobs of a sample in order.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    for _, job in read_rows(path, SwimJob, SWIM_COLUMNS, headed=False):
        yield job


def read_swim(path: Path) -> Workload:
    """Read a sample as MapReduce jobs at their own size, with tasks and durations by `swim_stages`.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    jobs = []
    for job in swim_jobs(path):
        tags = (f"input:{job.input_path}",) if job.input_path else ()
        dag = Dag(job.id, swim_stages(job))
        jobs.append(Job(job.id, job.submit_ms, dag, Framework.MAPREDUCE, job.id, tags=tags))
    return arranged(jobs)


PROFILES_FILE: Final = "profiles.csv"
EDGES_HEADER: Final = "query,stage,child"
PROFILES_HEADER: Final = "query,size_gb,max_cores,stage,tasks,mean_runtime_ms"

Profile = tuple[int, int, int]
"""A query, the size of its data in GB, its maximum number of cores."""


class ProfileStage(Row):
    """A row of the table of profiles."""

    query: Count
    size_gb: Count
    max_cores: Count
    stage: Count
    tasks: Positive
    mean_runtime_ms: Amount


class Edge(Row):
    """A row of the table of edges."""

    query: Count
    stage: Count
    child: Count


def read_tpch(path: Path) -> Workload:
    """Read the profiles as one job each, all arriving at time 0, by query, size and cores.

    All tasks of a stage last its measured mean. The tables lack requests: each task has the default container's.

    Args:
        path: the table of profiles or its folder; the table of edges must be next to it.

    Raises:
        WorkloadError: a table is missing, a row is wrong, the stages do not match the edges, or there is no profile.
    """
    if not path.exists():
        raise WorkloadError(f"{path}: there is no such file or folder")
    folder = path if path.is_dir() else path.parent
    profiles_file = needed_file(folder, PROFILES_FILE, "it has the stages") if path.is_dir() else path
    edges_file = needed_file(folder, "edges.csv", "it has which stage needs which")
    parents: dict[tuple[int, int], set[int]] = {}
    for _, edge in read_rows(edges_file, Edge, EDGES_HEADER):
        parents.setdefault((edge.query, edge.child), set()).add(edge.stage)
    stages: dict[Profile, dict[int, Stage]] = {}
    for where, row in read_rows(profiles_file, ProfileStage, PROFILES_HEADER):
        found = stages.setdefault((row.query, row.size_gb, row.max_cores), {})
        if row.stage in found:
            again = f"query {row.query} has a second stage {row.stage} at {row.size_gb} GB and {row.max_cores} cores"
            raise wrong(profiles_file, where, f"stage: {again}")
        duration_ms = max(1, round(row.mean_runtime_ms))
        before = tuple(sorted(parents.get((row.query, row.stage), ())))
        found[row.stage] = Stage(row.stage, row.tasks, duration_ms, CONTAINER, before, name=f"stage{row.stage}")
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
