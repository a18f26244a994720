"""Graphene's workloads and the schemes that are compared on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.config.parts import PARTS
from treadle.config.settings import Choice, Plans, Settings, default_settings, with_parts
from treadle.dag import Dag
from treadle.policy.catalogue import register_parts
from treadle.workload.clusters import read_tpch
from treadle.workload.generate import Shape as JobShape
from treadle.workload.generate import poisson
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle_lab.dags import RESOURCES, Shape, demand_of, generate

TPCH_CORES: Final = 50
"""Maximum number of cores of the measurements used."""
WIDTHS_DIVISOR: Final = 8
"""By which factor TPC-H's stages have fewer tasks here, on a cluster as much smaller."""
TASKS: Final = (100, 1200)
"""Bounds of the number of tasks of a generated DAG, log-uniform: inputs differ in size."""


OVERBOOKABLE: Final = ("network", "disk")
"""The resources overbooked in the paper: with less of them a task takes longer, and does not fail."""
PRODUCTION: Final = (*RESOURCES, "disk")
"""Resources of the tasks of production jobs: the paper's four."""
ONE_TO_ONE: Final = 0.8
"""In DAGs as in production, where most edges are one to one."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Properties of generated jobs; also demands of TPC-H-shaped jobs, which were not measured."""

    machines: int = 8
    long_share: float = Shape().long_share
    fragmenting_share: float = Shape().fragmenting_share
    one_to_one_share: float = 0.0
    """Fraction of the stages with parents whose tasks each wait for one task of one parent."""
    resources: tuple[str, ...] = RESOURCES
    usage: tuple[float, float] = (1.0, 1.0)
    """Fraction of its peak (its request) of `OVERBOOKABLE` that a task uses: by stage, uniform between the two. It
    matters where a scheme overbooks."""

    def capacity(self) -> dict[str, float]:
        """Return the cluster's capacity."""
        return dict.fromkeys(self.resources, float(self.machines))


def tpch_shaped(folder: Path, mix: Mix) -> JobShape:
    """Return a shape that takes any query at any size; a stage's demands are drawn as those of generated DAGs.

    Raises:
        WorkloadError: the tables are missing or wrong.
    """
    queries = [job.dag for job in read_tpch(folder).jobs if f"max_cores:{TPCH_CORES}" in job.tags]

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


QUEUE: Final = "one"


def arrivals(shape: JobShape, mix: Mix, seed: int, jobs: int, load: float) -> Workload:
    """Return jobs that arrive so that their work is ``load`` times the cluster's capacity."""
    return poisson(
        seed, jobs, shape=shape, capacity=mix.capacity(), load=load, queues={QUEUE: 1.0}, framework=Framework.TEZ
    )


def at_once(workload: Workload, part: float = 0.05) -> Workload:
    """Return the same jobs as a batch: all arrive within a ``part`` of the time."""
    return arranged(replace(job, arrival_ms=round(part * job.arrival_ms)) for job in workload.jobs)


def misjudged(workload: Workload, factor: float, seed: int) -> list[Dag | None]:
    """Return assumed DAGs of the jobs: each stage's durations off by up to a factor, either way, log-uniform."""
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


def shorter_percent(ours: float, theirs: float) -> float:
    """Return by how much a time is shorter than another, in percent of that."""
    return 100.0 * (1.0 - ours / theirs)


def higher_percent(ours_ms: int, theirs_ms: int) -> float:
    """Return by how many percent throughput is higher when the same work takes another time."""
    return 100.0 * (theirs_ms / ours_ms - 1.0)


SCHEDULES: Final = 50
"""Candidate schedules of a plan."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Settings instead of a scheme's own; None leaves one unchanged."""

    srpt_weight: float | None = None
    """Weight of the remaining work in perfScore."""
    candidates: int | None = None
    """Number of competing rows; 0: all."""
    overbook: float | None = None
    """Overbooking factor of `treadle_lab.papers.graphene.jobs.OVERBOOKABLE`."""


AS_IT_IS: Final = Variation()


@dataclass(frozen=True, slots=True)
class Scheme:
    """A policy, and which of a job's vertices have the better priorities (`Frameworks.tez_order`)."""

    name: str
    title: str
    parts: Mapping[str, Choice]
    order: str = "natural"
    plans: Mapping[str, Any] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    """Resources that the ResourceManager does not count: tasks that want more than there is slow each other down."""

    def settings(self, seed: int) -> Settings:
        """Return the engine's settings."""
        register_parts()
        settings = with_parts(default_settings(), self.parts)
        return replace(settings, plans=Plans(**self.plans), seed=seed)

    def varied(self, variation: Variation, resources: Sequence[str] = RESOURCES) -> Scheme:
        """Return the scheme with other settings; those of perfScore have no effect without it.

        Args:
            variation: the settings
            resources: what machines have
        """
        given: dict[str, Any] = {"srpt_weight": variation.srpt_weight, "candidates": variation.candidates}
        if variation.overbook is not None:
            given["overbook"] = {each: variation.overbook for each in OVERBOOKABLE if each in resources}
        changed = {name: value for name, value in given.items() if value is not None}
        fit = self.parts["fit"]
        kind, own = (fit, {}) if isinstance(fit, str) else fit
        register_parts()
        if not changed or "overbook" not in PARTS.kinds("fit")[kind].parameters.model_fields:
            return self
        uncounted = OVERBOOKABLE if "overbook" in changed else self.uncounted
        return replace(self, uncounted=uncounted, parts={**self.parts, "fit": (kind, {**own, **changed})})


STOCK: Final = {"share": "capacity", "order": "fifo", "fit": "first_fit"}
PACKED: Final = {"share": "capacity", "order": "srpt", "fit": "tetris", "estimate": "hints"}
ORDERED: Final = {"schedules": SCHEDULES, "scores": False}
PLANNED: Final = {"schedules": SCHEDULES}

BFS: Final = Scheme("bfs", "Tez (breadth first) + capacity, all counted", STOCK)
BFS_CORES: Final = Scheme("bfs-cores", "Tez + capacity, cores and memory counted", STOCK, uncounted=OVERBOOKABLE)
BFS_MEMORY: Final = Scheme("bfs-memory", "Tez + capacity, memory counted", STOCK, uncounted=("cpu", *OVERBOOKABLE))
BASELINES: Final = ("bfs", "bfs-cores", "bfs-memory")
"""What others are compared with. YARN's DominantResourceCalculator counts cores and memory unless resource types are
set up, its DefaultResourceCalculator, which the capacity scheduler has by default, memory alone."""
CP: Final = Scheme("cp", "Tez + critical path + capacity", STOCK, "critical_path")
TETRIS: Final = Scheme("tetris", "Tez + Tetris", PACKED)
TETRIS_ALL: Final = Scheme(
    "tetris-all", "Tez + Tetris over all runnable tasks", PACKED | {"fit": ("tetris", {"all_priorities": True})}
)
"""`TETRIS` sees a job's first priority alone, in Tez's order; this one all that could run, as the paper's does."""
ORDER_CAPACITY: Final = Scheme("graphene-capacity", "Tez + Graphene's order + capacity", STOCK, "plan", ORDERED)
ORDER_TETRIS: Final = Scheme("graphene-tetris", "Tez + Graphene's order + Tetris", PACKED, "plan", ORDERED)
GRAPHENE: Final = Scheme("graphene", "Graphene", PACKED, "plan", PLANNED)
SCHEMES: Final = (BFS, BFS_CORES, BFS_MEMORY, CP, TETRIS, TETRIS_ALL, ORDER_CAPACITY, ORDER_TETRIS, GRAPHENE)
