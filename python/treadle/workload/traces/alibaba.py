"""Batch jobs of Alibaba's cluster trace of 2018: batch_task.csv, in which the names of tasks say the DAG.

What the trace calls a task is a stage here, and its instances are the tasks. Its lines are ``task_name, instance_num,
job_name, task_type, status, start_time, end_time, plan_cpu, plan_mem``, without a header. ``R3_1_2`` is stage 3, which
waits for stages 1 and 2; a name of another form is a stage that waits for nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

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
    read_lines,
    wrong,
)

TASKS_FILE: Final = "batch_task.csv"
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
    file = path if path.is_file() else find_file(path, TASKS_FILE)
    if file is None:
        raise wrong(path, "", f"there is no {TASKS_FILE} (nor .xz or .gz) in the folder")
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
