"""Treadle's own format of workloads, a job a line as a JSON object (docs/workloads.md); what `treadle dags` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TextIO

import numpy as np
from pydantic import Field

from treadle.dag.dag import Dag, DagError, Stage, ordered
from treadle.dag.reading import Amounts, DagLine, Line, Text, TwiceError, Whole, checked, each_once
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import MS_MAX, TASKS_MAX, Progress, WorkloadError, read_lines, wrong

HEADER: Final = "treadle_workload"
VERSION: Final = 1

Label = Annotated[str, Text("give a text, or none")]
Ms = Annotated[int, Whole(0, MS_MAX)]


class StageLine(Line):
    """A stage of a job: tasks that ask for the same and wait for the same stages."""

    id: Annotated[int, Whole()]
    demand: Amounts
    tasks: Annotated[int | None, Whole(0, TASKS_MAX)] = None
    """How many; those of ``durations_ms`` where that is given."""
    duration_ms: Annotated[int | None, Whole(0, MS_MAX)] = None
    """Of one task; with ``durations_ms`` their mean."""
    durations_ms: tuple[Ms, ...] | None = None
    """Of each task."""
    parents: tuple[Annotated[int, Whole()], ...] = ()
    one_to_one: tuple[Annotated[int, Whole()], ...] = ()
    name: Label = ""
    hosts: tuple[tuple[Label, ...], ...] | None = None
    """For each task the nodes that have its input."""

    def stage(self) -> Stage:
        """Return the stage.

        Raises:
            DagError: fields contradict each other; the text names them.
        """
        each = None if self.durations_ms is None else np.array(self.durations_ms, np.int64)
        tasks = self.tasks if each is None else len(each)
        if tasks is None:
            raise DagError(f"stage {self.id}: tasks: missing; give how many there are, or durations_ms")
        if self.tasks not in (None, tasks):
            raise DagError(f"stage {self.id}: tasks: is {self.tasks}, but there are {tasks} durations_ms; drop one")
        if self.hosts is not None and len(self.hosts) != tasks:
            raise DagError(f"stage {self.id}: hosts: has {len(self.hosts)} lists; give one for each of {tasks} tasks")
        mean_ms = self.duration_ms
        if mean_ms is None and each is not None:
            mean_ms = round(float(each.mean())) if len(each) else 0
        if mean_ms is None:
            raise DagError(f"stage {self.id}: duration_ms: missing; give a task's duration, or durations_ms")
        parents, paired = tuple(dict.fromkeys(self.parents)), frozenset(self.one_to_one)
        return Stage(self.id, tasks, mean_ms, self.demand, parents, paired, each, self.name)


class JobLine(Line):
    """A job, as a line."""

    id: Annotated[str, Text("give the job an id of its own")]
    arrival_ms: Ms
    stages: tuple[StageLine, ...]
    framework: Literal["mapreduce", "tez", "spark"] = "tez"
    name: Label = ""
    user: Label = ""
    queue: Label = ""
    tags: tuple[Label, ...] = ()
    priority: Annotated[int, Whole(0, 2**31 - 1)] = 0

    def job(self) -> Job:
        """Return the job.

        Raises:
            DagError: its stages contradict each other.
        """
        stages = tuple(stage.stage() for stage in self.stages)
        dag = ordered(self.id, stages) if stages else Dag(self.id, ())
        hosts = {stage.id: stage.hosts for stage in self.stages if stage.hosts is not None}
        framework, names = Framework(self.framework), (self.name, self.user, self.queue)
        return Job(self.id, self.arrival_ms, dag, framework, *names, self.tags, hosts, self.priority)


class HeaderLine(Line):
    """The first line, which need not be there."""

    version: Annotated[int, Whole(VERSION, VERSION), Field(alias=HEADER)]
    notes: tuple[Label, ...] = ()


def read_own(path: Path, progress: Progress | None = None) -> Workload:
    """Read jobs, one a line, in any order.

    Raises:
        WorkloadError: a line is wrong (with its number and field), or there is no job.
    """
    jobs: list[Job] = []
    notes: tuple[str, ...] = ()
    tasks = 0
    line_of: dict[str, int] = {}
    for number, text in read_lines(path, progress):
        where = f"line {number}"
        try:
            value = _object(text)
            if HEADER in value:
                notes = checked(HeaderLine, "", value).notes
                continue
            jobs.append(checked(JobLine, "", value).job())
        except DagError as error:
            raise wrong(path, where, str(error).removeprefix(": ")) from None
        first = line_of.setdefault(jobs[-1].id, number)
        if first != number:
            raise wrong(
                path, where, f"two jobs have the id {jobs[-1].id}, this one and that of line {first}; rename one"
            )
        tasks += jobs[-1].dag.tasks
        if tasks > TASKS_MAX:
            raise wrong(path, where, f"all jobs together have more than {TASKS_MAX} tasks")
    if not jobs:
        raise wrong(path, "", "there is no job in it; write one JSON object a line")
    try:
        return arranged(jobs, notes)
    except WorkloadError as error:
        raise wrong(path, "", str(error)) from None


def read_dags(path: Path, progress: Progress | None = None) -> Workload:
    """Read the DAGs that `treadle dags` writes, as a job each that arrives at time 0.

    Their machines are not kept: a scenario has its own.

    Raises:
        WorkloadError: a line is wrong.
    """
    names: dict[str, int] = {}
    jobs = []
    for number, text in read_lines(path, progress):
        try:
            line = checked(DagLine, "", _object(text))
            dag = ordered(line.name, tuple(stage.stage() for stage in line.stages))
        except DagError as error:
            raise wrong(path, f"line {number}", str(error).removeprefix(": ")) from None
        names[dag.name] = count = names.get(dag.name, 0) + 1
        jobs.append(Job(dag.name if count == 1 else f"{dag.name}_{count}", 0, dag, name=dag.name))
    return arranged(jobs, ("machines and capacity of the DAGs are not kept; all jobs arrive at time 0",))


def write_own(workload: Workload, stream: TextIO) -> None:
    """Write a workload so that `read_own` returns the same."""
    stream.write(json.dumps({HEADER: VERSION, "notes": list(workload.notes)}) + "\n")
    for job in workload.jobs:
        stream.write(json.dumps(dict(_job_fields(job))) + "\n")


def _job_fields(job: Job) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a job's line; those that say no more than their defaults are left out."""
    yield "id", job.id
    yield "arrival_ms", job.arrival_ms
    yield "framework", job.framework.value
    for field in ("name", "user", "queue", "priority"):
        if value := getattr(job, field):
            yield field, value
    if job.tags:
        yield "tags", list(job.tags)
    yield "stages", [dict(_stage_fields(stage, job)) for stage in job.dag.stages]


def _stage_fields(stage: Stage, job: Job) -> Iterator[tuple[str, Any]]:
    yield "id", stage.id
    yield "demand", dict(stage.demand)
    if stage.durations_ms is None:
        yield "tasks", stage.tasks
    yield "duration_ms", stage.duration_ms
    if stage.durations_ms is not None:
        yield "durations_ms", stage.durations_ms.tolist()
    if stage.parents:
        yield "parents", list(stage.parents)
    if stage.one_to_one:
        yield "one_to_one", sorted(stage.one_to_one)
    if stage.name:
        yield "name", stage.name
    if stage.id in job.hosts:
        yield "hosts", [list(names) for names in job.hosts[stage.id]]


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object of a line.

    Raises:
        DagError: it is none.
    """
    try:
        value = json.loads(text, object_pairs_hook=each_once)
    except TwiceError as error:
        raise DagError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise DagError(f"this is no JSON ({error}); write one JSON object a line") from None
    if not isinstance(value, dict):
        raise DagError("this is no JSON object; write one a line")
    return value
