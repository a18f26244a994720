"""Graphene's workloads, the schemes that are compared on them, their simulations, and what a batch could take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle.config.settings import Choice, Plans, Settings, default_settings, with_parts
from treadle.dag import Dag
from treadle.planner.graphene import plan
from treadle.planner.online import PlanSource
from treadle.planner.plan import structure
from treadle.planner.problem import compile_problem
from treadle.policy.catalogue import register_parts
from treadle.simulator.feed import FollowedPlans, planned_machines
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import Simulation
from treadle.workload.clusters import read_tpch
from treadle.workload.generate import Shape as JobShape
from treadle.workload.generate import poisson
from treadle.workload.job import Framework, Workload, arranged
from treadle_lab.dags import RESOURCES, Shape, demand_of, generate
from treadle_lab.harness.runs import KeyedRun, run_to_the_end
from treadle_lab.planning import baseline, executed_makespan

TPCH_CORES: Final = 50
"""Maximum number of cores of the measurements used."""
WIDTHS_DIVISOR: Final = 8
"""By which factor TPC-H's stages have fewer tasks here, on a cluster as much smaller."""
TASKS: Final = (100, 1200)
"""Bounds of the number of tasks of a generated DAG, log-uniform: inputs differ in size."""


@lru_cache(maxsize=4)
def tpch_shaped(folder: Path) -> JobShape:
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
                demand=demand_of(generator, bool(generator.random() < Shape().fragmenting_share)),
            )
            for stage in dag.stages
        ]
        return Dag(name, tuple(stages))

    return draw


def generated(machines: int) -> JobShape:
    """Return a shape of DAGs of very different sizes, generated for a number of machines."""

    def draw(generator: np.random.Generator, name: str) -> Dag:
        tasks = round(float(np.exp(generator.uniform(*np.log(TASKS)))))
        shape = Shape(machines, depth=(4, 8), stages=(10, 30), tasks=(tasks, tasks))
        return Dag(name, generate(int(generator.integers(2**31)), shape).dag.stages)

    return draw


QUEUE: Final = "one"


def arrivals(shape: JobShape, machines: int, seed: int, jobs: int, load: float) -> Workload:
    """Return jobs that arrive so that their work is ``load`` times the cluster's capacity."""
    capacity = dict.fromkeys(RESOURCES, float(machines))
    return poisson(seed, jobs, shape=shape, capacity=capacity, load=load, queues={QUEUE: 1.0}, framework=Framework.TEZ)


def at_once(workload: Workload, part: float = 0.05) -> Workload:
    """Return the same jobs as a batch: all arrive within a ``part`` of the time."""
    return arranged(replace(job, arrival_ms=round(part * job.arrival_ms)) for job in workload.jobs)


def shorter_percent(ours: float, theirs: float) -> float:
    """Return by how much a time is shorter than another, in percent of that."""
    return 100.0 * (1.0 - ours / theirs)


def higher_percent(ours_ms: int, theirs_ms: int) -> float:
    """Return by how many percent throughput is higher when the same work takes another time."""
    return 100.0 * (theirs_ms / ours_ms - 1.0)


SCHEDULES: Final = 50
"""Candidate schedules of a plan."""


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


STOCK: Final = {"share": "capacity", "order": "fifo", "fit": "first_fit"}
PACKED: Final = {"share": "capacity", "order": "srpt", "fit": "tetris", "estimate": "hints"}
ORDERED: Final = {"schedules": SCHEDULES, "scores": False}
PLANNED: Final = {"schedules": SCHEDULES}

BFS: Final = Scheme("bfs", "Tez (breadth first) + capacity, all counted", STOCK)
BFS_CORES: Final = Scheme("bfs-cores", "Tez + capacity, cores and memory counted", STOCK, uncounted=("network",))
BFS_MEMORY: Final = Scheme("bfs-memory", "Tez + capacity, memory counted", STOCK, uncounted=("cpu", "network"))
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


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """From the first arrival to the last end, in milliseconds. No batch takes less than the first three.

    The last two can be reached: all jobs as one DAG, begun when the last has come, by one who knows everything, decides
    at every instant, leaves no room free for later and starts tasks without delay.
    """

    work_ms: int
    """Work of the bottleneck resource over the cluster's capacity; also for schemes that overbook."""
    path_ms: int
    """The latest that a job would end which has the cluster to itself, task by task along its longest path."""
    planner_ms: int
    """The planner's bound on all jobs as one DAG, not less than the others; without overbooking."""
    one_plan_ms: int
    """By a plan."""
    one_breadth_first_ms: int
    """By breadth first."""


def bounds_of(workload: Workload, machines: int) -> BatchBounds:
    """Return lower bounds of a batch's time on a cluster of identical machines.

    Raises:
        DagError: a task fits on no machine.
    """
    capacity = dict.fromkeys(RESOURCES, 1.0)
    first_ms = workload.jobs[0].arrival_ms
    apart = [structure(compile_problem(job.dag, capacity, machines)).bounds for job in workload.jobs]
    after_ms = [job.arrival_ms - first_ms for job in workload.jobs]
    whole = _one_dag(workload)
    together = structure(compile_problem(whole, capacity, machines)).bounds
    path_ms = max(after + each.critical_path for after, each in zip(after_ms, apart, strict=True))
    waves_ms = max(after + each.best for after, each in zip(after_ms, apart, strict=True))
    planned = executed_makespan(plan(whole, capacity, machines, SCHEDULES), capacity, machines)
    natural = baseline("bfs", whole, capacity, machines)
    return BatchBounds(
        work_ms=together.work,
        path_ms=path_ms,
        planner_ms=max(together.best, waves_ms, path_ms),
        one_plan_ms=workload.span_ms + planned,
        one_breadth_first_ms=workload.span_ms + natural.executed_makespan,
    )


def _one_dag(workload: Workload) -> Dag:
    """Return the jobs' DAGs side by side, as if all came at once."""
    stages = []
    lengths = (1 + max((stage.id for stage in job.dag.stages), default=0) for job in workload.jobs)
    for job, first in zip(workload.jobs, accumulate(lengths, initial=0), strict=False):
        for stage in job.dag.stages:
            parents = tuple(first + parent for parent in stage.parents)
            singles = frozenset(first + parent for parent in stage.one_to_one)
            stages.append(replace(stage, id=first + stage.id, parents=parents, one_to_one=singles))
    return Dag("batch", tuple(stages))


TICK_MS: Final = 100
REMEMBERED: Final = 10_000
"""Plans kept between schemes."""
PlanSources = dict[int, PlanSource]
"""Plan sources so far, by machines: all schemes that plan do so with `SCHEDULES`, and count all resources."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The results of some jobs under a scheme."""

    completion_ms: F64
    """Completion time of each job, from its arrival to its end."""
    makespan_ms: int
    """From the first arrival to the last end."""
    wall_s: float

    @property
    def median_s(self) -> float:
        """Return the median completion time."""
        return float(np.median(self.completion_ms)) / 1000.0

    @property
    def mean_s(self) -> float:
        """Return the mean completion time."""
        return float(self.completion_ms.mean()) / 1000.0


def gaps_percent(ours: Result, theirs: Result) -> F64:
    """Return the paper's improvement of each job: the gap in completion time over the completion time compared with."""
    return np.asarray(100.0 * (1.0 - ours.completion_ms / theirs.completion_ms))


def scenario_of(machines: int, scheme: Scheme, tick_ms: int = TICK_MS) -> ScenarioModel:
    """Return a cluster of identical nodes without reporting delays; Tez starts no task early.

    Early tasks would occupy resources for nothing, as a shuffle takes no time in the simulator. A container runs one
    task, as in the paper's scheduling by task.
    """
    resources = [{"name": name, "scale": 1000, "counted": name not in scheme.uncounted} for name in RESOURCES]
    return ScenarioModel.model_validate(
        {
            "cluster": {
                "resources": resources,
                "nodes": [{"count": machines, "resources": dict.fromkeys(RESOURCES, 1.0)}],
                "heartbeat_ms": 0,
                "contention": bool(scheme.uncounted),
            },
            "queues": {QUEUE: {}},
            "frameworks": {
                "heartbeat_ms": 0,
                "tez_order": scheme.order,
                "tez_min_fraction": 1.0,
                "tez_max_fraction": 1.0,
                "tez_reuse": False,
            },
            "decision": {"tick_ms": tick_ms, "idle_ms": 2**40},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
            "report": {"window_s": 1e6},
        }
    )


def run_scheme(
    workload: Workload,
    scheme: Scheme,
    machines: int,
    seed: int,
    *,
    plans: PlanSources | None = None,
    tick_ms: int = TICK_MS,
) -> Result:
    """Run jobs under a scheme.

    Args:
        workload: the jobs
        scheme: what orders and places them
        machines: how many there are
        seed: of the engine
        plans: made by other schemes; what this one makes is added
        tick_ms: how often the engine decides
    """
    scenario, settings = scenario_of(machines, scheme, tick_ms), scheme.settings(seed)
    followed = None
    if settings.plans.schedules:
        source = PlanSource(planned_machines(scenario, settings), settings.plans.schedules, REMEMBERED)
        if plans is not None:
            source = plans.setdefault(machines, source)
        followed = FollowedPlans(source, workload, [job.dag for job in workload.jobs], settings.plans, scenario)
    simulation = Simulation(scenario, workload, settings, seed, check=False, plans=followed)
    run, times = run_to_the_end(simulation, scheme.title)
    apps = run.built.state.apps
    span = int(apps["finish_ms"].max() - apps["arrival_ms"].min())
    return Result(times, span, run.wall_s)


@dataclass(frozen=True, slots=True)
class Draw:
    """Jobs that are drawn."""

    machines: int
    seed: int
    jobs: int
    load: float
    batch: bool = False
    """All at once: throughput."""
    tpch: Path | None = None
    """The folder of TPC-H's measured DAGs, whose edges the jobs have; None: they are generated."""

    @property
    def shape(self) -> str:
        """The name of the workload in results."""
        return "generated" if self.tpch is None else "tpch"

    def __str__(self) -> str:
        """Return its name in errors."""
        comes = "at once" if self.batch else f"load {self.load:g}"
        return f"{self.jobs} jobs ({self.shape}) on {self.machines} machines, {comes}, seed {self.seed}"

    def workload(self) -> Workload:
        """Return the jobs, which a process draws once.

        Raises:
            WorkloadError: TPC-H's data is missing or wrong.
        """
        jobs = _drawn(replace(self, batch=False))
        return at_once(jobs) if self.batch else jobs


@lru_cache(maxsize=64)
def _drawn(draw: Draw) -> Workload:
    shape = generated(draw.machines) if draw.tpch is None else tpch_shaped(draw.tpch)
    return arrivals(shape, draw.machines, draw.seed, draw.jobs, draw.load)


@dataclass(frozen=True, slots=True)
class SchemeRun(KeyedRun):
    """A simulation; it travels to other processes."""

    draw: Draw
    scheme: Scheme
    tick_ms: int = TICK_MS

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.draw}, {self.scheme.title}, {self.tick_ms} ms"

    def run(self) -> dict[str, Any]:
        """Return the result in stored form."""
        draw = self.draw
        result = run_scheme(draw.workload(), self.scheme, draw.machines, draw.seed, plans=_PLANS, tick_ms=self.tick_ms)
        return asdict(result) | {"completion_ms": result.completion_ms.tolist()}


_PLANS: Final[PlanSources] = {}
"""Made by this process."""


@dataclass(frozen=True, slots=True)
class BoundsRun(KeyedRun):
    """The bounds of a batch, which it takes a while to find."""

    draw: Draw

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"bounds of {self.draw}"

    def run(self) -> dict[str, Any]:
        """Return the bounds as they are kept."""
        return asdict(bounds_of(self.draw.workload(), self.draw.machines))


def run_one(task: SchemeRun | BoundsRun) -> dict[str, Any]:
    """Run a task."""
    return task.run()


def result_of(document: Mapping[str, Any]) -> Result:
    """Return a result from its stored form."""
    return Result(
        completion_ms=np.asarray(document["completion_ms"], np.float64),
        makespan_ms=int(document["makespan_ms"]),
        wall_s=float(document["wall_s"]),
    )
