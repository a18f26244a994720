"""The workload of section 5.2 (SoCC 2013): 100 jobs with the sizes of Facebook's trace of 2010, for six leaves.

Table 1, the sizes, is lost, and the paper does not say how long tasks run or when jobs come: what is made up for that
is said beside each constant. docs/results/hdrf.md lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.errors import UserError
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.swim import DEFAULT_MODEL, swim_jobs

GROUPS: Final = {"n1": ("n1.1", "n1.2"), "n2": ("n2.1", "n2.2", "n2.3"), "n3": ("n3.1",)}
"""Figure 10."""
LEAVES: Final = tuple(leaf for leaves in GROUPS.values() for leaf in leaves)
LARGE_LEAVES: Final = ("n1.1", "n1.2", "n3.1")
"""To which the large jobs are submitted, in turn."""
GPU_LEAF: Final = "n1.2"
"""Its tasks want a GPU and no CPU, those of the others a CPU and no GPU."""

JOBS: Final = 100
LARGE_JOBS: Final = 10
LARGE: Final = 500
"""Large jobs have more tasks."""
TASKS_MAX: Final = 2_000
"""Ours: no larger jobs are drawn, or one job would be most of the work."""
MEAN_S: Final = 20.0
VARIATION: Final = 0.5
"""Ours: tasks last so long, with this coefficient of variation, log-normally."""
ARRIVE_S: Final = 600.0
"""Ours: jobs come evenly at random over so long."""
LARGE_DEMAND_MB: Final = 1536
DEMAND_MB: Final = 1024
MEMORY_DOMINANT: Final = 2 / 3
"""Ours: the part of small jobs whose tasks have 1.5 GB; the paper says "a majority" (section 5.3), of large jobs
nothing."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Tasks of the sample's jobs, by the rules of `treadle.workload.traces.swim`: it has only bytes."""

    small: tuple[int, ...]
    large: tuple[int, ...]


@lru_cache(maxsize=2)
def _sizes(sample: Path) -> _Sizes:
    tasks = [sum(stage.tasks for stage in DEFAULT_MODEL.stages(job, {})) for job in swim_jobs(sample)]
    small = tuple(count for count in tasks if count <= LARGE)
    large = tuple(count for count in tasks if LARGE < count <= TASKS_MAX)
    if len(small) < JOBS - LARGE_JOBS or len(large) < LARGE_JOBS:
        raise UserError(
            f"--sample: {sample} has {len(small)} jobs of up to {LARGE} tasks and {len(large)} of up to {TASKS_MAX}; "
            f"{JOBS - LARGE_JOBS} and {LARGE_JOBS} are drawn: name SWIM's sample of Facebook's cluster of 2010"
        )
    return _Sizes(small, large)


def job_sizes(sample: Path) -> tuple[int, ...]:
    """Return the tasks of the sample's jobs of up to `TASKS_MAX` tasks.

    Raises:
        UserError: the sample has too few jobs.
        WorkloadError: a line of it is wrong.
    """
    sizes = _sizes(sample)
    return sizes.small + sizes.large


def queues_of(capacity: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Return figure 10's queues.

    Args:
        capacity: of the groups, in percent; None: their weights are equal
    """
    return {
        group: ({} if capacity is None else {"capacity": capacity[group]})
        | {"children": {queue_of(leaf): {} for leaf in leaves}}
        for group, leaves in GROUPS.items()
    }


def queue_of(leaf: str) -> str:
    """Return the queue of a leaf of the paper."""
    return leaf.replace(".", "-")


def schedule(sample: Path, seed: int) -> Workload:
    """Return the jobs of a seed: bags of tasks, each task in a container of its own.

    Raises:
        UserError: the sample has too few jobs.
        WorkloadError: a line of it is wrong.
    """
    sizes, chance = _sizes(sample), np.random.default_rng((seed, 52))
    places = _dealt(_drawn(chance, sizes.small, JOBS - LARGE_JOBS), LEAVES)
    places += _dealt(_drawn(chance, sizes.large, LARGE_JOBS), LARGE_LEAVES)
    arrivals_ms = np.sort(chance.uniform(0, 1000 * ARRIVE_S, JOBS)).astype(np.int64)
    jobs = []
    for number, place in enumerate(chance.permutation(JOBS)):
        tasks, leaf = places[place]
        memory_mb = DEMAND_MB
        if tasks <= LARGE and chance.random() < MEMORY_DOMINANT:
            memory_mb = LARGE_DEMAND_MB
        demand = {"memory-mb": memory_mb, "gpu" if leaf == GPU_LEAF else "vcores": 1}
        arrival_ms = int(arrivals_ms[number] - arrivals_ms[0])
        jobs.append(bag_of_tasks(chance, f"job{number}", arrival_ms, leaf, tasks, demand))
    return arranged(jobs)


def _drawn(chance: np.random.Generator, sizes: tuple[int, ...], count: int) -> list[int]:
    return [int(size) for size in chance.choice(sizes, count, replace=False)]


def _dealt(sizes: list[int], leaves: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return each size with a leaf, the leaves in turn."""
    return [(size, leaves[at % len(leaves)]) for at, size in enumerate(sizes)]


def bag_of_tasks(
    chance: np.random.Generator, name: str, arrival_ms: int, leaf: str, tasks: int, demand: Mapping[str, float]
) -> Job:
    """Return a job of a leaf whose tasks all want the same and wait for nothing; how long they take is drawn."""
    times_ms = _durations_ms(chance, tasks)
    stage = Stage(0, tasks, int(times_ms.mean()), demand, durations_ms=times_ms)
    return Job(name, arrival_ms, Dag(name, (stage,)), Framework.MAPREDUCE, queue=queue_of(leaf))


def with_demands(workload: Workload, demand_of: Callable[[Mapping[str, float]], Mapping[str, float]]) -> Workload:
    """Return jobs whose tasks ask for what ``demand_of`` makes of what they want, and take as long."""

    def asking(job: Job) -> Job:
        stages = tuple(replace(stage, demand=demand_of(stage.demand)) for stage in job.dag.stages)
        return replace(job, dag=replace(job.dag, stages=stages))

    return arranged(map(asking, workload.jobs))


def _durations_ms(chance: np.random.Generator, tasks: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw how long the tasks of a job take."""
    spread = np.log(1.0 + VARIATION**2)
    drawn_s = MEAN_S * chance.lognormal(-spread / 2, np.sqrt(spread), tasks)
    return np.maximum(1, np.rint(1000 * drawn_s)).astype(np.int64)
