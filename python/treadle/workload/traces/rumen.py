"""Rumen traces: what Hadoop's Rumen took from the history of finished MapReduce jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, Field

from treadle.dag.dag import Dag, Stage
from treadle.words import counted
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import MS_MAX, Progress, checked, read_values, wrong

Ms = Annotated[int, Field(ge=-1, le=MS_MAX)]

_MEMORY: Final = {"map": "mapreduce.map.memory.mb", "reduce": "mapreduce.reduce.memory.mb"}
_VCORES: Final = {"map": "mapreduce.map.cpu.vcores", "reduce": "mapreduce.reduce.cpu.vcores"}


PRIORITIES: Final = {"VERY_HIGH": 5, "HIGH": 4, "NORMAL": 3, "LOW": 2, "VERY_LOW": 1}
"""Of applications, as MapReduce gives them to YARN (org.apache.hadoop.mapreduce.TypeConverter); others are 0."""


class RumenLocation(BaseModel):
    """Where a split lies: rack, then host."""

    layers: list[str] = []


class RumenAttempt(BaseModel):
    """An attempt at a task; -1 is an unknown time."""

    result: str | None = None
    start_ms: Ms = Field(-1, alias="startTime")
    finish_ms: Ms = Field(-1, alias="finishTime")

    @property
    def lasts_ms(self) -> int:
        """How long it ran, -1 if that is not known."""
        return self.finish_ms - self.start_ms if 0 <= self.start_ms <= self.finish_ms else -1


class RumenTask(BaseModel):
    """A map or a reduce."""

    attempts: list[RumenAttempt] = []
    locations: list[RumenLocation] | None = Field(None, alias="preferredLocations")

    def duration_ms(self) -> int:
        """Return how long the last attempt that succeeded ran, else the last whose times are known; -1 if none is."""
        timed = [attempt for attempt in self.attempts if attempt.lasts_ms >= 0]
        good = [attempt for attempt in timed if attempt.result in {"SUCCESS", "SUCCEEDED"}]
        return (good or timed)[-1].lasts_ms if timed else -1

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that have its split."""
        return tuple(place.layers[-1] for place in self.locations or () if place.layers)


class RumenJob(BaseModel):
    """A job (org.apache.hadoop.tools.rumen.LoggedJob)."""

    id: str = Field(alias="jobID", min_length=1)
    submit_ms: Annotated[int, Field(ge=0, le=MS_MAX)] = Field(alias="submitTime")
    name: str | None = Field(None, alias="jobName")
    user: str | None = None
    queue: str | None = None
    maps: list[RumenTask] = Field([], alias="mapTasks")
    reduces: list[RumenTask] = Field([], alias="reduceTasks")
    map_mb: int | None = Field(None, alias="jobMapMB")
    reduce_mb: int | None = Field(None, alias="jobReduceMB")
    priority: str | None = None
    properties: dict[str, str | None] | None = Field(None, alias="jobProperties")

    def tags(self) -> tuple[str, ...]:
        """Return the tags that its configuration gave its application."""
        said = (self.properties or {}).get("mapreduce.job.tags") or ""
        return tuple(tag.strip() for tag in said.split(",") if tag.strip())

    def demand(self, kind: str) -> dict[str, float]:
        """Return what a map or a reduce asked for, where the trace says it; else SLS's default container."""
        said = self.properties or {}
        memory = self.map_mb if kind == "map" else self.reduce_mb
        asked = {"memory-mb": str(memory) if memory else said.get(_MEMORY[kind]), "vcores": said.get(_VCORES[kind])}
        return {
            name: float(text) if text is not None and text.isdigit() and int(text) > 0 else CONTAINER[name]
            for name, text in asked.items()
        }


def read_rumen(path: Path, progress: Progress | None = None) -> Workload:
    """Read a Rumen job trace; the first submission becomes time 0 (docs/workloads.md has how each field maps).

    Tasks no attempt of which has a known duration are left out, and jobs of no other tasks; the notes say how many.

    Raises:
        WorkloadError: the file is no JSON, a job is wrong (with its line and field), or no job is left.
    """
    found: list[tuple[RumenJob, Job]] = []
    lost_tasks = lost_jobs = 0
    for line, value in read_values(path, progress):
        where = f"line {line}"
        record = checked(RumenJob, value, path, where)
        job, lost = _job(record)
        lost_tasks += lost
        if job is None:
            lost_jobs += 1
        else:
            found.append((record, job))
    if not found:
        raise wrong(path, "", "there is no job in it with a task that has run")
    first_ms = min(record.submit_ms for record, _ in found)
    jobs = [replace(job, arrival_ms=record.submit_ms - first_ms) for record, job in found]
    notes = []
    if lost_tasks:
        notes.append(f"{counted(lost_tasks, 'task')} never ran as far as the trace says: left out")
    if lost_jobs:
        notes.append(f"{counted(lost_jobs, 'job')} without a task that ran: left out")
    return arranged(jobs, notes)


def _job(record: RumenJob) -> tuple[Job | None, int]:
    """Return the job without its place in time, None if no task is left, and how many tasks were lost."""
    stages: list[Stage] = []
    hosts = {}
    lost = 0
    kinds: Sequence[tuple[str, list[RumenTask]]] = (("map", record.maps), ("reduce", record.reduces))
    for kind, tasks in kinds:
        ran = [(duration_ms, task.hosts()) for task in tasks if (duration_ms := task.duration_ms()) >= 0]
        lost += len(tasks) - len(ran)
        if not ran:
            continue
        durations = np.maximum(1, np.array([duration_ms for duration_ms, _ in ran], np.int64))
        number = len(stages)
        stages.append(
            Stage(
                number,
                len(ran),
                round(float(durations.mean())),
                record.demand(kind),
                tuple(range(number)),
                durations_ms=durations,
                name=kind,
            )
        )
        if any(where for _, where in ran):
            hosts[number] = tuple(where for _, where in ran)
    if not stages:
        return None, lost
    dag = Dag(record.id, tuple(stages))
    names = (record.name or "", record.user or "", record.queue or "")
    priority = PRIORITIES.get((record.priority or "").upper(), 0)
    return Job(record.id, 0, dag, Framework.MAPREDUCE, *names, record.tags(), hosts, priority), lost
