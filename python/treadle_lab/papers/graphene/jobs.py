"""The jobs of Graphene's evaluation: TPC-H-shaped DAGs and generated ones, with Poisson arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from treadle.dag.dag import Dag
from treadle.dag.generate import RESOURCES, Shape, demand_of, generate
from treadle.workload.generate import Shape as JobShape
from treadle.workload.generate import poisson
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.tpch import read_tpch

TPCH_CORES: Final = 50
"""Of the measurements those with at most this many cores."""
WIDTHS_DIVISOR: Final = 8
"""By which factor TPC-H's stages have fewer tasks here, on a cluster as much smaller."""
TASKS: Final = (100, 1200)
"""Of a generated DAG, the logarithm drawn evenly: inputs differ in size."""


OVERBOOKABLE: Final = ("network", "disk")
"""What the paper overbooks: a task that gets less of it takes longer, and does not fail."""
PRODUCTION: Final = (*RESOURCES, "disk")
"""What tasks of jobs as in production ask for: the paper's four resources."""
ONE_TO_ONE: Final = 0.8
"""In DAGs as in production, where most edges are one to one."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What generated jobs are like; demands of TPC-H-shaped jobs too, which were not measured."""

    machines: int = 8
    long_share: float = Shape().long_share
    fragmenting_share: float = Shape().fragmenting_share
    one_to_one_share: float = 0.0
    """Of the stages behind others, those of which each task waits for one task of one parent."""
    resources: tuple[str, ...] = RESOURCES
    usage: tuple[float, float] = (1.0, 1.0)
    """What part of its peak, which is what it asks for, a task uses of `OVERBOOKABLE`: by stage, evenly between the
    two. It counts where a scheme gives out more of them than there is."""

    def capacity(self) -> dict[str, float]:
        """Return what the cluster has."""
        return dict.fromkeys(self.resources, float(self.machines))


def tpch_shaped(folder: Path, mix: Mix) -> JobShape:
    """Return a shape that takes any query at any size; a stage's demands are drawn as those of generated DAGs.

    Raises:
        WorkloadError: the tables are missing or wrong.
    """
    queries = [job.dag for job in read_tpch(folder, None, dict.fromkeys(mix.resources, 0.0), None, TPCH_CORES).jobs]

    def draw(generator: np.random.Generator, name: str) -> Dag:
        dag = queries[int(generator.integers(len(queries)))]
        stages = [
            replace(
                stage,
                tasks=-(-stage.tasks // WIDTHS_DIVISOR),
                demand=demand_of(generator, bool(generator.random() < mix.fragmenting_share), mix.resources),
            )
            for stage in dag.stages
        ]
        return Dag(name, tuple(stages))

    return draw


def generated(mix: Mix) -> JobShape:
    """Return a shape of generated DAGs of very different sizes."""

    def draw(generator: np.random.Generator, name: str) -> Dag:
        tasks = round(float(np.exp(generator.uniform(*np.log(TASKS)))))
        shape = Shape(
            machines=mix.machines,
            depth=(4, 8),
            stages=(10, 30),
            tasks=(tasks, tasks),
            long_share=mix.long_share,
            fragmenting_share=mix.fragmenting_share,
            one_to_one_share=mix.one_to_one_share,
            resources=mix.resources,
        )
        return Dag(name, generate(int(generator.integers(2**31)), shape).dag.stages)

    return draw


def arrivals(
    shape: JobShape, mix: Mix, seed: int, jobs: int, load: float, queues: Sequence[str] = ("one",)
) -> Workload:
    """Return jobs that arrive so that their work is ``load`` of what the cluster has, evenly drawn queues."""
    return poisson(
        seed,
        jobs,
        shape=shape,
        capacity=mix.capacity(),
        load=load,
        queues=dict.fromkeys(queues, 1.0),
        framework=Framework.TEZ,
    )


def at_once(workload: Workload, part: float = 0.05) -> Workload:
    """Return the same jobs as a batch: all arrive within a ``part`` of the time."""
    return arranged(replace(job, arrival_ms=round(part * job.arrival_ms)) for job in workload.jobs)


def misjudged(workload: Workload, factor: float, seed: int) -> list[Dag | None]:
    """Return what is believed of the jobs: each stage's durations off by up to a factor, either way, evenly in log."""
    random = np.random.default_rng(seed)
    return [_misjudged(job, factor, random) for job in workload.jobs]


def _misjudged(job: Job, factor: float, random: np.random.Generator) -> Dag:
    off = np.exp(random.uniform(-np.log(factor), np.log(factor), len(job.dag.stages))).tolist()
    stages = zip(job.dag.stages, off, strict=True)
    return Dag(
        job.dag.name,
        tuple(
            replace(stage, duration_ms=max(1, round(stage.duration_ms * by)), durations_ms=None) for stage, by in stages
        ),
    )
