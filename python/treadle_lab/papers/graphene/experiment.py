"""Graphene's workloads, schemes and simulations; rows over draws and seeds, tables, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
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
from treadle_lab.harness.runs import KeyedRun, RunSettings, run_all, run_to_the_end
from treadle_lab.planning import baseline, executed_makespan
from treadle_lab.plots import Panel, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row

TPCH_CORES: Final = 50
"""Maximum number of cores of the measurements used."""
WIDTHS_DIVISOR: Final = 8
"""Divisor of the tasks of TPC-H's stages, for a cluster that is smaller by the same factor."""
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


def at_once(workload: Workload) -> Workload:
    """Return the same jobs as a batch: all arrive within 5 % of the time."""
    return arranged(replace(job, arrival_ms=round(0.05 * job.arrival_ms)) for job in workload.jobs)


def shorter_percent(ours: float, theirs: float) -> float:
    """Return by how many percent a time is shorter than another."""
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
    """Resources that the ResourceManager does not count; tasks that exceed a node's amount slow each other down."""

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
"""The schemes to compare with. YARN's DominantResourceCalculator counts cores and memory unless resource types are
configured; its DefaultResourceCalculator, the CapacityScheduler's default, counts only memory."""
CP: Final = Scheme("cp", "Tez + critical path + capacity", STOCK, "critical_path")
TETRIS: Final = Scheme("tetris", "Tez + Tetris", PACKED)
TETRIS_ALL: Final = Scheme(
    "tetris-all", "Tez + Tetris over all runnable tasks", PACKED | {"fit": ("tetris", {"all_priorities": True})}
)
"""`TETRIS` considers only a job's first priority, in Tez's order; this scheme all runnable tasks, like the paper's."""
ORDER_CAPACITY: Final = Scheme("graphene-capacity", "Tez + Graphene's order + capacity", STOCK, "plan", ORDERED)
ORDER_TETRIS: Final = Scheme("graphene-tetris", "Tez + Graphene's order + Tetris", PACKED, "plan", ORDERED)
GRAPHENE: Final = Scheme("graphene", "Graphene", PACKED, "plan", PLANNED)
SCHEMES: Final = (BFS, BFS_CORES, BFS_MEMORY, CP, TETRIS, TETRIS_ALL, ORDER_CAPACITY, ORDER_TETRIS, GRAPHENE)


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """Bounds of a batch's makespan, from the first arrival to the last end. The first three are lower bounds.

    The last two are reached by a schedule of all jobs as one DAG that begins when the last job has arrived, with exact
    durations, decisions at every instant, no resources reserved for later and no delay before tasks.
    """

    work_ms: int
    """Work of the bottleneck resource over the cluster's capacity; also for schemes that overbook."""
    path_ms: int
    """The latest end of a job if each took only the time of its longest path."""
    planner_ms: int
    """The planner's bound on all jobs as one DAG, at least the other two; without overbooking."""
    one_plan_ms: int
    """The makespan with a plan."""
    one_breadth_first_ms: int
    """The makespan breadth first."""


def bounds_of(workload: Workload, machines: int) -> BatchBounds:
    """Return the bounds of a batch's makespan on a cluster of identical machines.

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
    """Return a DAG of all jobs' DAGs, without edges between them."""
    stages = []
    lengths = (1 + max((stage.id for stage in job.dag.stages), default=0) for job in workload.jobs)
    for job, first in zip(workload.jobs, accumulate(lengths, initial=0), strict=False):
        for stage in job.dag.stages:
            parents = tuple(first + parent for parent in stage.parents)
            singles = frozenset(first + parent for parent in stage.one_to_one)
            stages.append(replace(stage, id=first + stage.id, parents=parents, one_to_one=singles))
    return Dag("batch", tuple(stages))


TICK_MS: Final = 100
"""Interval of the engine's cycles."""
REMEMBERED: Final = 10_000
"""Number of plans that a plan source remembers."""
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


def scenario_of(machines: int, scheme: Scheme) -> ScenarioModel:
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
            "decision": {"tick_ms": TICK_MS, "idle_ms": 2**40},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
            "report": {"window_s": 1e6},
        }
    )


def run_scheme(
    workload: Workload, scheme: Scheme, machines: int, seed: int, *, plans: PlanSources | None = None
) -> Result:
    """Run jobs under a scheme.

    Args:
        workload: the jobs
        scheme: the scheme
        machines: number of machines
        seed: the engine's seed
        plans: plans of other schemes; this scheme's are added
    """
    scenario, settings = scenario_of(machines, scheme), scheme.settings(seed)
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
    """The parameters by which jobs are drawn."""

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
        """Return the jobs; a process draws them once.

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
    """A simulation."""

    draw: Draw
    scheme: Scheme

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.draw}, {self.scheme.title}"

    def run(self) -> dict[str, Any]:
        """Return the result in stored form."""
        draw = self.draw
        result = run_scheme(draw.workload(), self.scheme, draw.machines, draw.seed, plans=_PLANS)
        return asdict(result) | {"completion_ms": result.completion_ms.tolist()}


_PLANS: Final[PlanSources] = {}
"""The plan sources of this process."""


@dataclass(frozen=True, slots=True)
class BoundsRun(KeyedRun):
    """The computation of a batch's bounds."""

    draw: Draw

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"bounds of {self.draw}"

    def run(self) -> dict[str, Any]:
        """Return the bounds in stored form."""
        return asdict(bounds_of(self.draw.workload(), self.draw.machines))


def result_of(document: Mapping[str, Any]) -> Result:
    """Return a result from its stored form."""
    return Result(
        completion_ms=np.asarray(document["completion_ms"], np.float64),
        makespan_ms=int(document["makespan_ms"]),
        wall_s=float(document["wall_s"]),
    )


# The paper's figures for comparison: those that are legible in the text that we have.

MEDIAN_SHORTER_PERCENT: Final = 25.0
"""Abstract: median job completion time, against breadth first + capacity."""
THROUGHPUT_HIGHER_PERCENT: Final = 30.0
"""Abstract: cluster throughput."""
HALF_SHORTER_PERCENT: Final = 30.0
"""Technical report: half of the jobs are faster by at least this."""


class Part(StrEnum):
    """A part of the evaluation; each can be run by itself."""

    ONLINE = "online"
    """Poisson arrivals under all schemes."""
    BATCH = "batch"
    """The same jobs at once: throughput."""


TPCH_MACHINES: Final = 8
GENERATED_MACHINES: Final = 4
COMPARED: Final = (BFS, BFS_CORES, BFS_MEMORY, TETRIS, GRAPHENE)
"""Schemes whose throughput is compared."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the experiment."""

    jobs: int = 40
    load: float = 0.6
    parts: frozenset[Part] = frozenset(Part)
    """The parts to run."""
    schemes: frozenset[str] = frozenset(scheme.name for scheme in SCHEMES)
    """The schemes to run; `bfs` always runs."""


@dataclass(slots=True)
class Outcome:
    """The results of one seed."""

    seed: int
    online: dict[str, dict[str, Result]] = field(default_factory=dict)
    """By workload and scheme."""
    batch: dict[str, dict[str, Result]] = field(default_factory=dict)
    batch_bounds: dict[str, BatchBounds] = field(default_factory=dict)
    """By workload."""
    wall_s: float = 0.0


def runs_of(tpch: Path | None, sizes: Sizes, seed: int) -> Iterator[SchemeRun | BoundsRun]:
    """Yield the runs of a seed."""
    folders: tuple[Path | None, ...] = (None,) if tpch is None else (tpch, None)
    for folder in folders:
        machines = GENERATED_MACHINES if folder is None else TPCH_MACHINES
        draw = Draw(machines, seed, sizes.jobs, sizes.load, tpch=folder)
        if Part.ONLINE in sizes.parts:
            yield from _scheme_runs(sizes, draw, SCHEMES)
        if Part.BATCH in sizes.parts:
            batch = replace(draw, batch=True)
            yield BoundsRun(batch)
            yield from _scheme_runs(sizes, batch, COMPARED)


def _scheme_runs(sizes: Sizes, draw: Draw, schemes: Sequence[Scheme]) -> Iterator[SchemeRun]:
    for scheme in schemes:
        if scheme == BFS or scheme.name in sizes.schemes:
            yield SchemeRun(draw, scheme)


def run_seeds(
    tpch: Path | None,
    sizes: Sizes,
    seeds: Sequence[int],
    settings: RunSettings,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Return the results of each seed.

    Args:
        tpch: the folder of TPC-H's measured DAGs; None leaves that workload out
        sizes: the sizes of the experiment
        seeds: the seeds
        settings: see `run_all`
        progress: see `run_all`

    Raises:
        UserError: see `run_all`.
        WorkloadError: the data is missing or wrong.
    """
    if tpch is not None:
        tpch_shaped(tpch)  # an error in it is reported before anything runs
    outcomes = {seed: Outcome(seed) for seed in seeds}
    runs = [run for seed in seeds for run in runs_of(tpch, sizes, seed)]
    for run, document in zip(runs, run_all(runs, settings, progress), strict=True):
        outcome, draw = outcomes[run.draw.seed], run.draw
        if isinstance(run, BoundsRun):
            bounds = {each.name: document[each.name] for each in fields(BatchBounds)}
            outcome.batch_bounds[draw.shape] = BatchBounds(**bounds)
            continue
        part = outcome.batch if draw.batch else outcome.online
        part.setdefault(draw.shape, {})[run.scheme.name] = result_of(document)
        outcome.wall_s += document["wall_s"]
    return [outcomes[seed] for seed in seeds]


Runs = Mapping[int, Mapping[str, Mapping[str, Result]]]
"""Results by seed, workload and scheme."""
Measure = Callable[[Result, Result], float]
"""Combines a scheme's result with the baseline's."""


ONLINE: Mapping[str, tuple[Measure, float | None]] = {
    "median shorter than": (lambda ours, base: shorter_percent(ours.median_s, base.median_s), MEDIAN_SHORTER_PERCENT),
    "median gap to": (lambda ours, base: float(np.median(gaps_percent(ours, base))), HALF_SHORTER_PERCENT),
    "mean shorter than": (lambda ours, base: shorter_percent(ours.mean_s, base.mean_s), None),
}
"""Measures of jobs that arrive, in percent of a baseline, with the paper's figure of Graphene over breadth first."""
THROUGHPUT = "throughput over"
BATCH: Mapping[str, tuple[Measure, float | None]] = {
    THROUGHPUT: (lambda ours, base: higher_percent(ours.makespan_ms, base.makespan_ms), THROUGHPUT_HIGHER_PERCENT)
}

LAYOUTS = {
    "graphene-online": Layout("Completion times against each baseline", ("workload", "")),
    "graphene-batch": Layout("Throughput of batches against each baseline, and what is possible", ("workload", "")),
}
"""Bounds on throughput by work or path hold for any scheduler, the planner's for those without overbooking. One plan
for all jobs needs all of them in advance."""


def results_of(outcomes: Sequence[Outcome]) -> Results:
    """Return the results of outcomes, one for each seed."""
    online, batch = ({each.seed: getattr(each, part) for each in outcomes} for part in ("online", "batch"))
    rows = {
        "graphene-online": [*_absolute(online, "median (s)", lambda found: found.median_s), *_compared(online, ONLINE)],
        "graphene-batch": [
            *_absolute(batch, "batch (s)", lambda found: found.makespan_ms / 1000.0),
            *_compared(batch, BATCH),
            *_bounds_rows(outcomes),
        ],
    }
    facts = {"seeds": [each.seed for each in outcomes], "wall_s": sum(each.wall_s for each in outcomes)}
    return Results(LAYOUTS, rows, facts)


def _each(runs: Runs) -> Iterator[tuple[int, str, str, Mapping[str, Result]]]:
    """Yield seed, workload, scheme, and the results of all schemes there."""
    for seed, workloads in runs.items():
        for workload, results in workloads.items():
            yield from ((seed, workload, scheme, results) for scheme in results)


def _absolute(runs: Runs, title: str, figure: Callable[[Result], float]) -> Iterator[Row]:
    return (Row(title, scheme, at, seed, figure(results[scheme]), "s") for seed, at, scheme, results in _each(runs))


def _compared(runs: Runs, measures: Mapping[str, tuple[Measure, float | None]]) -> Iterator[Row]:
    """Yield the measures of each scheme against each other baseline that was run."""
    for title, (measure, papers) in measures.items():
        for base in BASELINES:
            for seed, workload, scheme, results in _each(runs):
                if base in results and scheme != base:
                    known = papers if (scheme, base) == ("graphene", "bfs") else None
                    value = measure(results[scheme], results[base])
                    yield Row(f"{title} {base} (%)", scheme, workload, seed, value, "%", known)


def _bounds_rows(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Yield by how much throughput could be higher than each baseline's, by each bound."""
    for outcome in outcomes:
        for workload, each in outcome.batch_bounds.items():
            bounds_ms = {
                "work or path bound": max(each.work_ms, each.path_ms),
                "planner's bound": each.planner_ms,
                "one plan": each.one_plan_ms,
                "one DAG, breadth first": each.one_breadth_first_ms,
            }
            results = outcome.batch[workload]
            for base in (base for base in BASELINES if base in results):
                for name, least_ms in bounds_ms.items():
                    value = higher_percent(least_ms, results[base].makespan_ms)
                    yield Row(f"{THROUGHPUT} {base} (%)", name, workload, outcome.seed, value, "%")


def plot_graphene(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Draw the distribution of jobs' gaps over breadth first, a plot for each workload; return the files."""
    return [
        panels([_gaps(outcomes, workload)], folder / f"graphene-gaps-{workload}.png") for workload in outcomes[0].online
    ]


def _gaps(outcomes: Sequence[Outcome], workload: str) -> Panel:
    runs = [outcome.online[workload] for outcome in outcomes]
    gaps = {
        scheme: share_up_to(np.concatenate([gaps_percent(run[scheme], run["bfs"]) for run in runs]))
        for scheme in runs[0]
        if scheme != "bfs"
    }
    what = f"{workload}: completion time shorter than with breadth first + capacity (%)"
    return Panel(gaps, what, "share of jobs", x_range=(-100, 100))
