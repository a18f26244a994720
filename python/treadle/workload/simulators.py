"""Inputs of Hadoop's tools: Rumen, SLS and SYNTH."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import log, log1p, sqrt
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator

from treadle.dag import Dag, Stage
from treadle.errors import counted
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.reading import MS_MAX, TASKS_MAX, checked, read_values, wrong

_MaybeMs = Annotated[int, Field(ge=-1, le=MS_MAX)]

_MEMORY: Final = {"map": "mapreduce.map.memory.mb", "reduce": "mapreduce.reduce.memory.mb"}
_VCORES: Final = {"map": "mapreduce.map.cpu.vcores", "reduce": "mapreduce.reduce.cpu.vcores"}


PRIORITIES: Final = {"VERY_HIGH": 5, "HIGH": 4, "NORMAL": 3, "LOW": 2, "VERY_LOW": 1}
"""Application priorities that MapReduce gives to YARN (org.apache.hadoop.mapreduce.TypeConverter); others are 0."""


class RumenLocation(BaseModel):
    """Location of a split: rack, then host."""

    layers: list[str] = []


class RumenAttempt(BaseModel):
    """An attempt at a task; -1 is an unknown time."""

    result: str | None = None
    start_ms: _MaybeMs = Field(-1, alias="startTime")
    finish_ms: _MaybeMs = Field(-1, alias="finishTime")

    @property
    def lasts_ms(self) -> int:
        """Its duration in ms, -1 if unknown."""
        return self.finish_ms - self.start_ms if 0 <= self.start_ms <= self.finish_ms else -1


class RumenTask(BaseModel):
    """A map or a reduce."""

    attempts: list[RumenAttempt] = []
    locations: list[RumenLocation] | None = Field(None, alias="preferredLocations")

    def duration_ms(self) -> int:
        """Return the duration (ms) of the last successful attempt, else the last known one; -1 if there is none."""
        timed = [attempt for attempt in self.attempts if attempt.lasts_ms >= 0]
        good = [attempt for attempt in timed if attempt.result in {"SUCCESS", "SUCCEEDED"}]
        return (good or timed)[-1].lasts_ms if timed else -1

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts with its split."""
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
        text = (self.properties or {}).get("mapreduce.job.tags") or ""
        return tuple(tag.strip() for tag in text.split(",") if tag.strip())

    def demand(self, kind: str) -> dict[str, float]:
        """Return the resources requested for a map or a reduce, if the trace has them; else SLS's default container."""
        properties = self.properties or {}
        memory = self.map_mb if kind == "map" else self.reduce_mb
        amounts = {
            "memory-mb": str(memory) if memory else properties.get(_MEMORY[kind]),
            "vcores": properties.get(_VCORES[kind]),
        }
        return {
            name: float(text) if text is not None and text.isdigit() and int(text) > 0 else CONTAINER[name]
            for name, text in amounts.items()
        }


def read_rumen(path: Path) -> Workload:
    """Read a Rumen job trace; the first submission becomes time 0 (docs/workloads.md has the mapping of fields).

    Tasks without an attempt of known duration are omitted, and jobs without other tasks; the notes have their numbers.

    Raises:
        WorkloadError: the file is not JSON, a job is wrong (with its line and field), or no job is left.
    """
    jobs_read: list[tuple[RumenJob, Job]] = []
    lost_tasks = lost_jobs = 0
    for line, value in read_values(path):
        where = f"line {line}"
        record = checked(RumenJob, value, path, where)
        job, lost = _rumen_job(record)
        lost_tasks += lost
        if job is None:
            lost_jobs += 1
        else:
            jobs_read.append((record, job))
    if not jobs_read:
        raise wrong(path, "", "there is no job in it with a task that has run")
    first_ms = min(record.submit_ms for record, _ in jobs_read)
    jobs = [replace(job, arrival_ms=record.submit_ms - first_ms) for record, job in jobs_read]
    notes = []
    if lost_tasks:
        notes.append(f"{counted(lost_tasks, 'task')} never ran as far as the trace says: left out")
    if lost_jobs:
        notes.append(f"{counted(lost_jobs, 'job')} without a task that ran: left out")
    return arranged(jobs, notes)


def _rumen_job(record: RumenJob) -> tuple[Job | None, int]:
    """Return the job without its arrival, None if no task is left, and the number of lost tasks."""
    kinds: list[tuple[str, npt.NDArray[np.int64], dict[str, float]]] = []
    hosts = {}
    lost = 0
    for kind, tasks in (("map", record.maps), ("reduce", record.reduces)):
        ran = [(duration_ms, task.hosts()) for task in tasks if (duration_ms := task.duration_ms()) >= 0]
        lost += len(tasks) - len(ran)
        if not ran:
            continue
        if any(where for _, where in ran):
            hosts[len(kinds)] = tuple(where for _, where in ran)
        durations = np.maximum(1, np.array([duration_ms for duration_ms, _ in ran], np.int64))
        kinds.append((kind, durations, record.demand(kind)))
    if not kinds:
        return None, lost
    dag = Dag(record.id, _measured(kinds, "mapreduce"))
    names = (record.name or "", record.user or "", record.queue or "")
    priority = PRIORITIES.get((record.priority or "").upper(), 0)
    return Job(record.id, 0, dag, Framework.MAPREDUCE, *names, record.tags(), hosts, priority), lost


COPIES_MAX: Final = 1_000_000

Ms = Annotated[int, Field(ge=0, le=MS_MAX)]
Copies = Annotated[int, Field(le=COPIES_MAX)]

JobType = Literal["mapreduce", "dag", "stream"]
_FRAMEWORKS: Final[dict[JobType, Framework]] = {
    "mapreduce": Framework.MAPREDUCE,
    "dag": Framework.TEZ,
    "stream": Framework.TEZ,
}
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
    """A container of a job, or several equal ones. Numbers may be written as strings, as in SLS."""

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
        """Its duration in ms, 0 if the fields lack it; SLS's order of fields."""
        if self.duration_ms is not None:
            return self.duration_ms
        return 0 if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms

    def demand(self) -> dict[str, float]:
        """Return its requests: each ``container.RESOURCE``, else the simulator's default container.

        Raises:
            ValueError: an amount is not a number, or is negative.
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

    type: JobType = Field("mapreduce", validation_alias=AliasChoices("yarn.sls.am.type", "am.type"))
    start_ms: Ms = Field(0, alias="job.start.ms")
    queue: str = Field("", alias="job.queue.name")
    id: str = Field("", alias="job.id")
    user: str = Field("default", alias="job.user")
    count: Copies = Field(1, alias="job.count")
    tasks: list[SlsTask] = Field(alias="job.tasks", min_length=1)


@dataclass
class _Group:
    """Tasks with the same resources and priority."""

    demand: dict[str, float]
    durations_ms: list[int] = field(default_factory=list)
    hosts: list[tuple[str, ...]] = field(default_factory=list)


def read_sls(path: Path) -> Workload:
    """Read a stream of SLS jobs (docs/workloads.md has the mapping of fields).

    Raises:
        WorkloadError: the file is not JSON, a job is wrong (with its line and field), or there is no job.
    """
    jobs: list[Job] = []
    delayed = tasks = 0
    ids: dict[str, int] = {}
    for line, value in read_values(path):
        if isinstance(value, dict) and "job.tasks" not in value and {"num.nodes", "num.racks"} & value.keys():
            continue  # SLS takes the cluster's size from such an object
        where = f"line {line}"
        job = checked(SlsJob, value, path, where)
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
        # Maps before reduces, which wait for them; all others in the order of the file.
        key = (task.type == "reduce", task.type, task.priority, tuple(sorted(demand.items())))
        group = groups.setdefault(key, _Group(demand))
        copies = max(1, task.count)
        group.durations_ms.extend([task.lasts_ms] * copies)
        host = task.host.rpartition("/")[2]
        group.hosts.extend([(host,) if host else ()] * copies)
    made = sorted(groups.items(), key=lambda item: item[0][0])
    kinds = [(kind, np.array(group.durations_ms, np.int64), group.demand) for (_, kind, *_), group in made]
    hosts = {number: tuple(group.hosts) for number, (_, group) in enumerate(made) if any(group.hosts)}
    return _measured(kinds, job.type), hosts


def _measured(
    kinds: Iterable[tuple[str, npt.NDArray[np.int64], dict[str, float]]], job_type: JobType
) -> tuple[Stage, ...]:
    """Return a stage for each kind of tasks, their durations and resources; reduces wait for the maps before them."""
    stages: list[Stage] = []
    for number, (kind, durations, demand) in enumerate(kinds):
        waits = kind == "reduce" and job_type == "mapreduce"
        parents = tuple(stage.id for stage in stages if stage.name == "map") if waits else ()
        stages.append(Stage.measured(number, durations, demand, parents, kind))
    return tuple(stages)


def _unused(name: str, ids: dict[str, int]) -> str:
    """Return an unused name: name, name_2, name_3, ..."""
    while True:
        ids[name] = count = ids.get(name, 0) + 1
        if count == 1:
            return name
        name = f"{name}_{count}"


JOBS_MAX: Final = 100_000

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Sample(BaseModel):
    """A number that is constant, drawn around a mean, or one of a list (SynthTraceJobProducer.Sample)."""

    model_config = ConfigDict(extra="forbid")

    val: Finite | None = None
    std: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    dist: Literal["LOGNORM", "NORM"] | None = None
    discrete: list[Finite] | None = None
    weights: list[Weight] | None = None

    @model_validator(mode="after")
    def _is_one_of_the_three(self) -> Sample:
        if self.val is None:
            if not self.discrete:
                raise ValueError("give val, val with std, or discrete")
            if self.weights is not None and (len(self.weights) != len(self.discrete) or not sum(self.weights) > 0):
                raise ValueError("weights must be as many as discrete, and one of them above 0")
        elif self.discrete is not None or self.weights is not None or (self.std is None and self.dist is not None):
            raise ValueError("val goes alone or with std and dist; discrete goes with weights")
        return self

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers; as in SLS, a deviation of 0 means a sixth of the mean."""
        if self.val is None:
            chances = None if self.weights is None else np.array(self.weights) / sum(self.weights)
            return np.asarray(generator.choice(np.array(self.discrete, np.float64), count, p=chances))
        if self.std is None or self.val <= 0:
            return np.full(count, self.val)
        deviation = self.std or self.val / 6
        if self.dist == "NORM":
            return generator.normal(self.val, deviation, count)
        variance = log1p(deviation**2 / self.val**2)
        return generator.lognormal(log(self.val) - variance / 2, sqrt(variance), count)

    def whole(self, generator: np.random.Generator, least: int, most: int) -> int:
        """Return one whole number between bounds."""
        return int(np.clip(np.rint(self.draw(generator, 1)[0]), least, most))


class SynthTask(BaseModel):
    """A kind of container of a job class."""

    type: str = "map"
    count: Sample
    time: Sample
    max_memory: Sample
    max_vcores: Sample
    priority: int = 0


class JobClass(BaseModel):
    """Jobs that are drawn from the same distributions."""

    class_name: str
    user_name: str = ""
    class_weight: Weight = 0.0
    type: JobType = "mapreduce"
    tasks: list[SynthTask]

    @model_validator(mode="before")
    @classmethod
    def _from_the_older_form(cls, value: Any) -> Any:
        """Convert the fields of the older form (mtasks_avg, rtime_stddev, ...) as SLS does."""
        if not isinstance(value, dict) or value.get("tasks") is not None or "mtasks_avg" not in value:
            return value

        def sample(field: str) -> dict[str, Any]:
            return {"val": value.get(f"{field}_avg", 0), "std": value.get(f"{field}_stddev", 0)}

        kinds = (("map", "m", 20), ("reduce", "r", 10))
        tasks = [
            {
                "type": kind,
                "count": sample(f"{letter}tasks"),
                "time": sample(f"{letter}time"),
                "max_memory": sample(f"{kind}_max_memory"),
                "max_vcores": sample(f"{kind}_max_vcores"),
                "priority": priority,
            }
            for kind, letter, priority in kinds
        ]
        return {**value, "type": "mapreduce", "tasks": tasks}


class TimeSample(BaseModel):
    """From ``time`` seconds to the next entry's time jobs arrive with this weight."""

    time: Annotated[int, Field(ge=0, le=MS_MAX // 1000)]
    weight: Weight


def _one_above_zero(weight: str) -> AfterValidator:
    def checked_items(items: list[Any]) -> list[Any]:
        if not any(getattr(item, weight) for item in items):
            raise ValueError(f"{weight}: one must be above 0")
        return items

    return AfterValidator(checked_items)


class SynthWorkload(BaseModel):
    """Job classes of one queue."""

    workload_name: str = ""
    workload_weight: Weight
    queue_name: str = ""
    job_classes: Annotated[list[JobClass], Field(min_length=1), _one_above_zero("class_weight")]
    time_distribution: Annotated[list[TimeSample], Field(min_length=1), _one_above_zero("weight")]


class SynthTrace(BaseModel):
    """The whole file."""

    num_jobs: Annotated[int, Field(ge=1, le=JOBS_MAX)]
    rand_seed: int = 0
    workloads: Annotated[list[SynthWorkload], Field(min_length=1), _one_above_zero("workload_weight")]


def read_synth(path: Path, seed: int | None = None) -> Workload:
    """Draw the jobs described by a SYNTH file.

    They have the distributions of SLS, but not the same numbers, which depend on Java's generator.

    Args:
        path: the file.
        seed: instead of the file's ``rand_seed``.

    Raises:
        WorkloadError: the file is not JSON or invalid, with the field.
    """
    values = list(read_values(path))
    if len(values) != 1:
        raise wrong(path, "", f"it should have one JSON object, not {len(values)}")
    trace = checked(SynthTrace, values[0][1], path, "")
    # A negative seed is valid for Java, but not for numpy.
    generator = np.random.default_rng(abs(trace.rand_seed if seed is None else seed))
    made = []
    tasks = 0
    for number in range(trace.num_jobs):
        work = trace.workloads[_weighted(generator, [work.workload_weight for work in trace.workloads])]
        kind = work.job_classes[_weighted(generator, [kind.class_weight for kind in work.job_classes])]
        arrival_ms = 1000 * _arrival_s(generator, work.time_distribution)
        job = _job(generator, kind, work.queue_name, f"{kind.class_name}_{number:06d}", arrival_ms)
        made.append(job)
        tasks += job.dag.tasks if job else 0
        if tasks > TASKS_MAX:
            raise wrong(path, f"class {kind.class_name}", f"count: the jobs drawn have more than {TASKS_MAX} tasks")
    notes = []
    if empty := sum(job is None for job in made):
        notes.append(f"{counted(empty, 'job')} drawn without tasks: left out")
    return arranged((job for job in made if job is not None), notes)


def _job(generator: np.random.Generator, kind: JobClass, queue: str, name: str, arrival_ms: int) -> Job | None:
    """Draw one job, None if it has no task."""
    kinds = []
    # Reduces wait for the maps, so they come last, whatever their order in the file.
    for task in sorted(kind.tasks, key=lambda task: task.type == "reduce"):
        count = task.count.whole(generator, 0, TASKS_MAX)
        demand = {
            "memory-mb": float(task.max_memory.whole(generator, 1024, 2**40)),  # SLS uses at least 1,024 MB
            "vcores": float(task.max_vcores.whole(generator, 1, 2**20)),
        }
        if not count:
            continue
        durations = np.clip(np.rint(task.time.draw(generator, count)), 1, MS_MAX).astype(np.int64)
        kinds.append((task.type, durations, demand))
    if not kinds:
        return None
    dag = Dag(name, _measured(kinds, kind.type))
    return Job(name, arrival_ms, dag, _FRAMEWORKS[kind.type], kind.class_name, kind.user_name, queue)


def _arrival_s(generator: np.random.Generator, times: list[TimeSample]) -> int:
    index = _weighted(generator, [at.weight for at in times])
    start = times[index].time
    end = times[min(index + 1, len(times) - 1)].time
    return start + (int(generator.integers(end - start)) if end > start else 0)


def _weighted(generator: np.random.Generator, weights: list[float]) -> int:
    """Return an index drawn in proportion to its weight (SynthUtils.getWeighted)."""
    bounds = np.cumsum(weights)
    return int(np.searchsorted(bounds, generator.random() * bounds[-1], side="right"))
