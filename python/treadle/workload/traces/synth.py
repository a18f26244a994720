"""SYNTH, the generator input of Hadoop's load simulator: classes of jobs with means and deviations."""

from __future__ import annotations

from math import log, log1p, sqrt
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from treadle.dag.dag import Dag, Stage
from treadle.words import counted
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import MS_MAX, TASKS_MAX, Progress, checked, read_values, wrong

JOBS_MAX: Final = 100_000

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

_FRAMEWORKS: Final = {"mapreduce": Framework.MAPREDUCE, "dag": Framework.TEZ, "stream": Framework.TEZ}


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
    """Jobs that are drawn alike."""

    class_name: str
    user_name: str = ""
    class_weight: Weight = 0.0
    type: str = "mapreduce"
    tasks: list[SynthTask]

    @model_validator(mode="before")
    @classmethod
    def _from_the_older_form(cls, value: Any) -> Any:
        """Put the fields of the older form (mtasks_avg, rtime_stddev, ...) as SLS itself does."""
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


class SynthWorkload(BaseModel):
    """Job classes of one queue."""

    workload_name: str = ""
    workload_weight: Weight
    queue_name: str = ""
    job_classes: list[JobClass] = Field(min_length=1)
    time_distribution: list[TimeSample] = Field(min_length=1)


class SynthTrace(BaseModel):
    """The whole file."""

    num_jobs: Annotated[int, Field(ge=1, le=JOBS_MAX)]
    rand_seed: int = 0
    workloads: list[SynthWorkload] = Field(min_length=1)


def read_synth(path: Path, progress: Progress | None = None, seed: int | None = None) -> Workload:
    """Draw the jobs that a SYNTH file describes.

    They have the distributions of SLS, but not the same numbers, which depend on Java's generator.

    Args:
        path: the file.
        progress: called with the part that is done.
        seed: instead of the file's ``rand_seed``.

    Raises:
        WorkloadError: the file is no JSON or does not fit, with the field.
    """
    values = list(read_values(path))
    if len(values) != 1:
        raise wrong(path, "", f"it should have one JSON object, not {len(values)}")
    trace = checked(SynthTrace, values[0][1], path, "")
    where = _first_problem(trace)
    if where:
        raise wrong(path, where[0], where[1])
    # A negative seed is one for Java; numpy wants none.
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
        if progress is not None and number % 100 == 99:
            progress((number + 1) / trace.num_jobs)
    notes = []
    if empty := sum(job is None for job in made):
        notes.append(f"{counted(empty, 'job')} drawn without tasks: left out")
    return arranged((job for job in made if job is not None), notes)


def _first_problem(trace: SynthTrace) -> tuple[str, str] | None:
    """Return a place and what is wrong there, where single fields are right but not together."""
    if not sum(work.workload_weight for work in trace.workloads) > 0:
        return "workloads", "workload_weight: one must be above 0"
    for index, work in enumerate(trace.workloads):
        if not sum(kind.class_weight for kind in work.job_classes) > 0:
            return f"workloads[{index}].job_classes", "class_weight: one must be above 0"
        if not sum(at.weight for at in work.time_distribution) > 0:
            return f"workloads[{index}].time_distribution", "weight: one must be above 0"
        for kind in work.job_classes:
            if kind.type not in _FRAMEWORKS:
                known = ", ".join(_FRAMEWORKS)
                return f"workloads[{index}].job_classes", f"type: {kind.type!r} is none of {known}"
    return None


def _job(generator: np.random.Generator, kind: JobClass, queue: str, name: str, arrival_ms: int) -> Job | None:
    """Draw one job, None if it has no task."""
    stages: list[Stage] = []
    maps: list[int] = []
    # Reduces wait for the maps, so they come last, whatever their order in the file.
    for task in sorted(kind.tasks, key=lambda task: task.type == "reduce"):
        count = task.count.whole(generator, 0, TASKS_MAX)
        demand = {
            "memory-mb": float(task.max_memory.whole(generator, 1024, 2**40)),  # SLS gives no less than 1,024 MB
            "vcores": float(task.max_vcores.whole(generator, 1, 2**20)),
        }
        if not count:
            continue
        durations = np.clip(np.rint(task.time.draw(generator, count)), 1, MS_MAX).astype(np.int64)
        parents = tuple(maps) if task.type == "reduce" and kind.type == "mapreduce" else ()
        number = len(stages)
        if task.type == "map":
            maps.append(number)
        mean_ms = round(float(durations.mean()))
        stages.append(Stage(number, count, mean_ms, demand, parents, durations_ms=durations, name=task.type))
    if not stages:
        return None
    dag = Dag(name, tuple(stages))
    return Job(name, arrival_ms, dag, _FRAMEWORKS[kind.type], kind.class_name, kind.user_name, queue)


def _arrival_s(generator: np.random.Generator, times: list[TimeSample]) -> int:
    index = _weighted(generator, [at.weight for at in times])
    start = times[index].time
    end = times[min(index + 1, len(times) - 1)].time
    return start + (int(generator.integers(end - start)) if end > start else 0)


def _weighted(generator: np.random.Generator, weights: list[float]) -> int:
    """Return an index with a chance in proportion to its weight (SynthUtils.getWeighted)."""
    bounds = np.cumsum(weights)
    return int(np.searchsorted(bounds, generator.random() * bounds[-1], side="right"))
