"""Inputs of other simulators: Omega's empirical distributions, and the format of Sparrow, Hawk and Eagle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.dag.dag import Dag, Stage
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import Place, Progress, WorkloadError, read_lines, wrong

SCHEDULERS: Final = ("batch", "service")
TABLES: Final[Mapping[str, str]] = {
    "csizes": "tasks of a job",
    "interarrival": "seconds between jobs",
    "runtimes": "seconds that a task lasts",
}
START: Final = "init-cluster-state"
JOBS_MAX: Final = 1_000_000
SPAN_MS: Final = 3_600_000

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs when the simulation starts."""

    id: str
    scheduler: int
    """0 batch, 1 service."""
    tasks: int
    demand: Mapping[str, float] = field(repr=False)
    """Of one task."""
    ends_ms: int | None = None
    """None if the file does not say."""


def read_omega(path: Path, progress: Progress | None = None, seed: int = 0, span_ms: int = SPAN_MS) -> Workload:
    """Draw jobs from a folder of Omega's tables, as the simulator does when all its inputs are traces.

    Gaps, numbers of tasks (rounded up) and durations are drawn independently for each scheduler, from 1,001 quantiles
    with interpolation between neighbours; a task's shape is that of a job at the start. The jobs at the start arrive
    at time 0 with what they have left, at most ``span_ms``.

    Args:
        path: the folder, or one of its files.
        progress: called with the part that is done.
        seed: of all chance.
        span_ms: jobs arrive until then.

    Raises:
        WorkloadError: a table is missing or empty, a line is wrong, or more than a million jobs would arrive.
    """
    folder = path if path.is_dir() else path.parent
    if seed < 0 or span_ms < 1:
        raise WorkloadError("seed must not be negative, and span_ms at least 1")
    running = read_omega_start(_the_file(folder, START, "the jobs at the start"))
    tables = {table: _read_table(_the_file(folder, table, TABLES[table])) for table in TABLES}
    jobs = [_started(job, span_ms) for job in running]
    streams = np.random.SeedSequence(seed).spawn(len(SCHEDULERS))
    for scheduler, name in enumerate(SCHEDULERS):
        values = {table: found[scheduler] for table, found in tables.items()}
        # Without a job of its own kind at the start, a scheduler's tasks are shaped like the other's.
        shapes = [job.demand for job in running if job.scheduler == scheduler] or [job.demand for job in running]
        jobs.extend(_drawn(name, values, shapes, np.random.default_rng(streams[scheduler]), span_ms))
        if progress is not None:
            progress((scheduler + 1) / len(SCHEDULERS))
    return arranged(jobs)


def read_omega_start(path: Path) -> list[RunningJob]:
    """Read the jobs that run at the start.

    Raises:
        WorkloadError: a line is wrong, with its number and field, or there is no job.
    """
    rows: dict[str, RunningJob] = {}
    ends: dict[str, int] = {}
    for number, line in read_lines(path):
        place = Place(path, number)
        fields = line.split()
        if (fields[0], len(fields)) == ("12", 6):
            ends[fields[2]] = place.time_ms("time", fields[1])
        elif (fields[0], len(fields)) == ("11", 8):
            tasks = place.count("tasks", fields[5], least=1)
            asked = {
                "memory-mb": place.amount("ram", fields[7]) / tasks / 2**20,
                "vcores": place.amount("cpu", fields[6]) / tasks,
            }
            service = fields[3] == "1" and place.count("class", fields[4]) > 1
            rows[fields[2]] = RunningJob(fields[2], int(service), tasks, asked)
        else:
            raise place.wrong("", "a line has type 11 and 8 columns, or type 12 and 6 columns")
    if not rows:
        raise wrong(path, "", "no job runs at the start, so tasks have no shape")
    return [RunningJob(job.id, job.scheduler, job.tasks, job.demand, ends.get(job.id)) for job in rows.values()]


def _read_table(path: Path) -> list[Values]:
    """Return the 1,001 quantiles of each scheduler's values."""
    values: list[list[float]] = [[] for _ in SCHEDULERS]
    for number, line in read_lines(path):
        place = Place(path, number)
        fields = line.split()
        if len(fields) != 4 or fields[2] not in ("0", "1"):
            raise place.wrong("", "a line has cell, policy, scheduler (0 batch, 1 service) and a value")
        values[int(fields[2])].append(place.amount("value", fields[3]))
    for name, found in zip(SCHEDULERS, values, strict=True):
        if not found:
            raise wrong(path, "", f"there is no value for the {name} scheduler")
    return [np.quantile(found, np.linspace(0, 1, 1_001), method="lower") for found in values]


def _drawn(
    name: str,
    values: Mapping[str, Values],
    shapes: Sequence[Mapping[str, float]],
    generator: np.random.Generator,
    span_ms: int,
) -> list[Job]:
    jobs: list[Job] = []
    if not values["interarrival"].any():
        raise WorkloadError(f"all gaps between {name} jobs are 0: there would be no end of them")
    at_ms = 1000 * _draw(values["interarrival"], generator)
    while at_ms < span_ms:
        if len(jobs) == JOBS_MAX:
            raise WorkloadError(f"more than {JOBS_MAX} {name} jobs arrive within {span_ms} ms; make the span shorter")
        tasks = max(1, ceil(_draw(values["csizes"], generator)))
        duration_ms = max(1, round(1000 * _draw(values["runtimes"], generator)))
        demand = shapes[int(generator.integers(len(shapes)))]
        job = f"{name}{len(jobs)}"
        dag = Dag(job, (Stage(0, tasks, duration_ms, demand),))
        jobs.append(Job(job, round(at_ms), dag, Framework.TEZ, queue=name))
        at_ms += 1000 * _draw(values["interarrival"], generator)
    return jobs


def _started(job: RunningJob, span_ms: int) -> Job:
    left_ms = max(1, min(span_ms, span_ms if job.ends_ms is None else job.ends_ms))
    dag = Dag(f"start-{job.id}", (Stage(0, job.tasks, left_ms, job.demand),))
    return Job(dag.name, 0, dag, Framework.TEZ, queue=SCHEDULERS[job.scheduler])


def _draw(quantiles: Values, generator: np.random.Generator) -> float:
    return float(np.interp(generator.random() * (len(quantiles) - 1), np.arange(len(quantiles)), quantiles))


def _the_file(folder: Path, part: str, what: str) -> Path:
    found = sorted(path for path in folder.glob(f"*{part}*.log*") if path.is_file())
    if len(found) != 1:
        have = ", ".join(path.name for path in found) or "none"
        raise WorkloadError(f"{folder}: there should be one file *{part}*.log with {what}; there is {have}")
    return found[0]


COLUMNS = ("submit_s", "n_tasks", "mean_s", "durations_s")


@dataclass(frozen=True, slots=True, eq=False)
class EagleJob:
    """A line of a trace; the mean is the one that it says."""

    submit_ms: int
    mean_s: float
    durations_ms: npt.NDArray[np.int64]


def eagle_jobs(path: Path, progress: Progress | None = None) -> Iterator[EagleJob]:
    """Yield the jobs of a trace line by line.

    Raises:
        WorkloadError: a line that is none, with its number.
    """
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        fields = line.split(None, 3)
        if len(fields) < 3:
            raise place.wrong("", f"{len(fields)} columns where at least {' '.join(COLUMNS[:3])} are wanted")
        tasks = place.count("n_tasks", fields[1], least=1)
        mean_s = place.amount("mean_s", fields[2])
        durations = place.durations_ms("durations_s", fields[3] if len(fields) > 3 else "")
        if len(durations) != tasks:
            raise place.wrong("n_tasks", f"it is {tasks}, but {len(durations)} durations follow the mean")
        yield EagleJob(place.time_ms("submit_s", fields[0]), mean_s, durations)


def read_eagle(path: Path, progress: Progress | None = None, slot: Mapping[str, float] = CONTAINER) -> Workload:
    """Read lines of ``submit_s n_tasks mean_s d1 ... dn``.

    Durations keep the milliseconds they have (the simulators cut them to whole seconds). The given mean is not used:
    a job's own durations say it exactly.

    Args:
        path: the trace.
        progress: called with the part that is done.
        slot: what a task asks for.

    Raises:
        WorkloadError: a line that is none, with its number.
    """
    jobs: list[Job] = []
    for row in eagle_jobs(path, progress):
        durations = row.durations_ms
        stage = Stage(0, len(durations), round(float(np.mean(durations))), slot, durations_ms=durations)
        name = f"job{len(jobs)}"
        jobs.append(Job(name, row.submit_ms, Dag(name, (stage,)), Framework.TEZ))
    return arranged(jobs)
