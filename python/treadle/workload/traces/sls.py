"""SLS JSON, the own input of Hadoop's load simulator: a stream of jobs, each with its containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from treadle.dag.dag import Dag, Stage
from treadle.words import counted
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import MS_MAX, TASKS_MAX, Progress, checked, read_values, wrong

COPIES_MAX: Final = 1_000_000

Ms = Annotated[int, Field(ge=0, le=MS_MAX)]
Copies = Annotated[int, Field(le=COPIES_MAX)]

_FRAMEWORKS: Final = {"mapreduce": Framework.MAPREDUCE, "dag": Framework.TEZ, "stream": Framework.TEZ}
_NO_RESOURCES: Final = {
    "container.host",
    "container.start.ms",
    "container.end.ms",
    "container.duration.ms",
    "container.priority",
    "container.type",
    "container.execution.type",
    "container.allocation.id",
    "container.request.delay",
}


class SlsTask(BaseModel):
    """A container of a job, or several alike. Numbers may be written as strings, as SLS allows."""

    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    host: str = Field("", alias="container.host")
    start_ms: int | None = Field(None, alias="container.start.ms")
    end_ms: int | None = Field(None, alias="container.end.ms")
    duration_ms: Ms | None = Field(None, validation_alias=AliasChoices("container.duration.ms", "duration.ms", "c.dur"))
    priority: int = Field(20, alias="container.priority")
    type: str = Field("map", alias="container.type")
    count: Copies = Field(1, validation_alias=AliasChoices("count", "c.nr"))
    request_delay_ms: int = Field(0, alias="container.request.delay")

    @model_validator(mode="after")
    def _has_a_duration(self) -> SlsTask:
        if not 0 < self.lasts_ms <= MS_MAX:
            raise ValueError(
                "a task needs a duration above 0: container.duration.ms, or container.start.ms before container.end.ms"
            )
        return self

    @property
    def lasts_ms(self) -> int:
        """How long it runs, 0 if the fields do not say it; SLS's order of fields."""
        if self.duration_ms is not None:
            return self.duration_ms
        return 0 if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms

    def demand(self) -> dict[str, float]:
        """Return what it asks for: each ``container.RESOURCE``, else the simulator's default container.

        Raises:
            ValueError: an amount is no number, or is negative.
        """
        asked = dict(CONTAINER)
        for key, value in (self.model_extra or {}).items():
            name = "memory-mb" if key == "c.mem" else key.removeprefix("container.")
            if key == "c.mem" or (key.startswith("container.") and key not in _NO_RESOURCES):
                asked[name] = float(value)
                if not 0.0 <= asked[name] < float("inf"):
                    raise ValueError
        return asked


class SlsJob(BaseModel):
    """A job of the stream."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    type: str = Field("mapreduce", validation_alias=AliasChoices("yarn.sls.am.type", "am.type"))
    start_ms: Ms = Field(0, alias="job.start.ms")
    queue: str = Field("", alias="job.queue.name")
    id: str = Field("", alias="job.id")
    user: str = Field("default", alias="job.user")
    count: Copies = Field(1, alias="job.count")
    tasks: list[SlsTask] = Field(alias="job.tasks", min_length=1)


@dataclass
class _Group:
    """Tasks that ask for the same at the same priority."""

    demand: dict[str, float]
    durations_ms: list[int] = field(default_factory=list)
    hosts: list[tuple[str, ...]] = field(default_factory=list)


def read_sls(path: Path, progress: Progress | None = None) -> Workload:
    """Read a stream of SLS jobs (docs/workloads.md has how each field maps).

    Raises:
        WorkloadError: the file is no JSON, a job is wrong (with its line and field), or there is no job.
    """
    jobs: list[Job] = []
    delayed = tasks = 0
    ids: dict[str, int] = {}
    for line, value in read_values(path, progress):
        if isinstance(value, dict) and "job.tasks" not in value and {"num.nodes", "num.racks"} & value.keys():
            continue  # SLS takes the cluster's size from such an object
        where = f"line {line}"
        job = checked(SlsJob, value, path, where)
        if job.type not in _FRAMEWORKS:
            known = ", ".join(_FRAMEWORKS)
            raise wrong(path, where, f"yarn.sls.am.type: {job.type!r} is none of {known}")
        delayed += sum(task.request_delay_ms > 0 for task in job.tasks)
        tasks += max(1, job.count) * sum(max(1, task.count) for task in job.tasks)
        if tasks > TASKS_MAX:
            raise wrong(path, where, f"job.count, count: all jobs together have more than {TASKS_MAX} tasks")
        stages, hosts = _stages(job, path, where)
        for _ in range(max(1, job.count)):
            name = _unused(job.id or f"job{len(jobs)}", ids)
            dag = Dag(name, stages)
            jobs.append(
                Job(name, job.start_ms, dag, _FRAMEWORKS[job.type], name, job.user, job.queue, hosts=dict(hosts))
            )
    if not jobs:
        raise wrong(path, "", "there is no job in it")
    which = counted(delayed, "task")
    note = f"container.request.delay of {which} is not kept: all are asked for with the rest of their job"
    return arranged(jobs, (note,) if delayed else ())


def _stages(job: SlsJob, path: Path, where: str) -> tuple[tuple[Stage, ...], dict[int, tuple[tuple[str, ...], ...]]]:
    groups: dict[Any, _Group] = {}
    for number, task in enumerate(job.tasks):
        try:
            demand = task.demand()
        except (TypeError, ValueError):
            text = "what a container asks for must be a number, 0 or more"
            raise wrong(path, where, f"job.tasks[{number}]: container.*: {text}") from None
        # Maps before reduces, which wait for them; all else in the order of the file.
        key = (task.type == "reduce", task.type, task.priority, tuple(sorted(demand.items())))
        group = groups.setdefault(key, _Group(demand))
        copies = max(1, task.count)
        group.durations_ms.extend([task.lasts_ms] * copies)
        host = task.host.rpartition("/")[2]
        group.hosts.extend([(host,) if host else ()] * copies)
    stages: list[Stage] = []
    hosts = {}
    maps: list[int] = []
    for (reduces, kind, *_), group in sorted(groups.items(), key=lambda item: item[0][0]):
        durations = np.array(group.durations_ms, np.int64)
        parents = tuple(maps) if reduces and job.type == "mapreduce" else ()
        number = len(stages)
        if kind == "map":
            maps.append(number)
        mean_ms = round(float(durations.mean()))
        stages.append(Stage(number, len(durations), mean_ms, group.demand, parents, durations_ms=durations, name=kind))
        if any(group.hosts):
            hosts[number] = tuple(group.hosts)
    return tuple(stages), hosts


def _unused(name: str, ids: dict[str, int]) -> str:
    """Return a name not given before: name, name_2, name_3, ..."""
    while True:
        ids[name] = count = ids.get(name, 0) + 1
        if count == 1:
            return name
        name = f"{name}_{count}"
