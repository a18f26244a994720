"""SWIM's samples of Facebook's clusters: when MapReduce jobs came and how many bytes they moved.

The samples have neither task counts nor durations; `SwimModel` derives them, by rules of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Capacity, Framework, Job, Workload, arranged, scaled_to_load
from treadle.workload.traces.reading import Place, Progress, WorkloadError, read_lines, wrong

COLUMNS: Final = ("job id", "submit time (s)", "gap (s)", "map input", "shuffle", "reduce output")
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


@dataclass(frozen=True, slots=True)
class SwimModel:
    """How bytes become tasks and time; every number is ours and can be set.

    A map for each block of input; a reduce for each ``reduce_mb`` of what is shuffled, none where nothing is. A task
    lasts ``start_ms`` and the time its bytes take at ``mb_per_s``: a map its part of the input and of the shuffle (or
    of the output, if there is no reduce), a reduce its part of the shuffle and of the output.
    """

    block_mb: float = 128.0
    reduce_mb: float = 1024.0
    mb_per_s: float = 20.0
    start_ms: int = 1_000
    tasks_max: int = 10_000
    """Of either kind in a job; beyond it tasks grow instead of becoming more."""

    def __post_init__(self) -> None:
        for name in ("block_mb", "reduce_mb", "mb_per_s"):
            value = getattr(self, name)
            if not 0.0 < value < float("inf"):
                raise WorkloadError(f"{name} is {value}; it must be a number above 0")
        if self.start_ms < 1 or self.tasks_max < 1:
            raise WorkloadError("start_ms and tasks_max must be at least 1")

    def stages(self, job: SwimJob, demand: Mapping[str, float], scale: float = 1.0) -> tuple[Stage, ...]:
        """Return the job's maps and reduces, with all its bytes multiplied by ``scale``."""
        read, moved, written = (scale * size / MB for size in (job.input_bytes, job.shuffle_bytes, job.output_bytes))
        maps = min(self.tasks_max, max(1, ceil(read / self.block_mb)))
        reduces = min(self.tasks_max, ceil(moved / self.reduce_mb))
        map_ms = self._task_ms((read + (moved if reduces else written)) / maps)
        stages = [Stage(0, maps, map_ms, demand, name="map")]
        if reduces:
            stages.append(Stage(1, reduces, self._task_ms((moved + written) / reduces), demand, (0,), name="reduce"))
        return tuple(stages)

    def _task_ms(self, megabytes: float) -> int:
        return self.start_ms + round(1000 * megabytes / self.mb_per_s)


DEFAULT_MODEL: Final = SwimModel()


def swim_jobs(path: Path, progress: Progress | None = None) -> Iterator[SwimJob]:
    """Yield the jobs of a sample in order.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        fields = line.split("\t")
        if len(fields) not in (6, 7):
            wanted = ", ".join(COLUMNS)
            raise place.wrong("", f"{len(fields)} columns where 6 are wanted, separated by tabs: {wanted}")
        read, moved, written = (place.count(name, text) for name, text in zip(COLUMNS[3:], fields[3:6], strict=True))
        submit_ms = place.time_ms(COLUMNS[1], fields[1])
        yield SwimJob(fields[0], submit_ms, read, moved, written, "".join(fields[6:]))


def read_swim(
    path: Path,
    progress: Progress | None = None,
    model: SwimModel = DEFAULT_MODEL,
    demand: Mapping[str, float] = CONTAINER,
) -> Workload:
    """Read a sample as MapReduce jobs at their own size, tasks and durations by ``model``.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    return arranged(_job(job, job.id, job.submit_ms, model.stages(job, demand)) for job in swim_jobs(path, progress))


def swim_small(
    path: Path,
    seed: int,
    jobs: int,
    nodes: int,
    capacity: Capacity,
    *,
    load: float = 1.0,
    of_nodes: int = 600,
    model: SwimModel = DEFAULT_MODEL,
    demand: Mapping[str, float] = CONTAINER,
    users: int = 2,
) -> Workload:
    """Draw jobs of a sample by seed and shrink them to a small cluster, to be run as real MapReduce jobs.

    The jobs are a uniform draw without replacement, in their order of submission and with their gaps; their bytes
    shrink as ``nodes / of_nodes`` does (SWIM's own way of scaling), and all gaps by one factor, so that the cluster's
    mean load is the one asked for. Each job belongs to one of ``users`` by chance.

    Args:
        path: the sample.
        seed: of all chance.
        jobs: how many, at most as many as there are.
        nodes: of the small cluster.
        capacity: of the small cluster.
        load: mean load of its most loaded resource until the last arrival.
        of_nodes: of the cluster that the sample was taken from: 600 for FB-2009, 3,000 for FB-2010.
        model: how bytes become tasks and time.
        demand: of a task.
        users: how many, named user0, user1, ...

    Raises:
        WorkloadError: a line is wrong, or an argument is out of its bounds.
    """
    if not 1 <= nodes <= of_nodes:
        raise WorkloadError(f"nodes is {nodes}; it must be between 1 and of_nodes, {of_nodes}")
    if users < 1 or seed < 0:
        raise WorkloadError("users must be at least 1 and seed not negative")
    found = list(swim_jobs(path))
    if not 2 <= jobs <= len(found):
        raise wrong(path, "", f"{jobs} jobs are to be drawn: give 2 up to {len(found)}, which the sample has")
    generator = np.random.default_rng(seed)
    chosen = [found[at] for at in np.sort(generator.choice(len(found), jobs, replace=False))]
    first_ms = min(job.submit_ms for job in chosen)
    made = []
    for number, job in enumerate(chosen):
        stages = model.stages(job, demand, nodes / of_nodes)
        user = f"user{int(generator.integers(users))}"
        made.append(_job(job, f"{job.id}-{number}", job.submit_ms - first_ms, stages, user))
    return scaled_to_load(arranged(made), capacity, load)


def _job(job: SwimJob, name: str, arrival_ms: int, stages: tuple[Stage, ...], user: str = "") -> Job:
    tags = (f"input:{job.input_path}",) if job.input_path else ()
    return Job(name, arrival_ms, Dag(name, stages), Framework.MAPREDUCE, job.id, user, tags=tags)
