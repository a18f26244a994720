"""The workloads of the comparison, made and from traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.dag import Dag, Stage
from treadle.workload.clusters import read_tpch
from treadle.workload.formats import read_workload
from treadle.workload.generate import BoundedPareto, Lognormal, bag, poisson
from treadle.workload.job import Framework, Job, Workload, arranged, job_work, scaled_to_load
from treadle_lab.dags import Shape, generate
from treadle_lab.harness.data import FACEBOOK, GOOGLE, TPCH, DataSet, given_or_default

HOUR_MS: Final = 3_600_000
HALF_MS: Final = 12 * HOUR_MS + HOUR_MS * 3 // 5
"""Where the second half of Google's day begins, which `gains` draws from; the first half is for tuning."""
GAP_MS: Final = 70_754_400, 75_769_200
"""The trace lacks this time: what came later comes earlier by as much."""
FIRST_SEED: Final = 51
"""The first seed of `gains`; those before it are for tuning."""
BLOCK_MS: Final = 2 * HOUR_MS
MACHINE: Final = {"memory-mb": 65_536, "vcores": 32}
QUERY_MAX_MS: Final = 20_000_000
"""Of TPC-H's queries those with at most this much task time: the others take a day of such a cluster."""


@cache
def google_half() -> tuple[Job, ...]:
    """Return the jobs of the second half of Google's day, from time 0, without the gap and without priorities.

    YARN's fair ordering does not look at priorities, and an order is compared here, not who may pass whom.
    """
    begin, end = GAP_MS
    found = []
    for job in read_workload(_place(GOOGLE), "google").jobs:
        at = job.arrival_ms
        if at >= HALF_MS and not begin <= at < end:
            found.append(replace(job, arrival_ms=at - HALF_MS - (end - begin if at >= end else 0), priority=0))
    return tuple(found)


def google_window(seed: int, hours: float) -> list[Job]:
    """Return the jobs of some hours of the half day from time 0, exchanged by `exchanged`; the seed chooses which.

    Raises:
        ValueError: the seed is one for tuning.
    """
    jobs, chance = google_half(), _chance(seed)
    span = jobs[-1].arrival_ms + 1
    length = min(round(hours * HOUR_MS), span)
    begin = int(chance.integers(span - length + 1))
    inside = [
        replace(job, arrival_ms=job.arrival_ms - begin) for job in jobs if begin <= job.arrival_ms < begin + length
    ]
    return exchanged(inside, chance)


def exchanged(jobs: Sequence[Job], chance: np.random.Generator) -> list[Job]:
    """Return whole jobs exchanged among the arrival times of each two-hour block; the times themselves stay."""
    blocks: dict[int, list[Job]] = {}
    for job in jobs:
        blocks.setdefault(job.arrival_ms // BLOCK_MS, []).append(job)
    found = []
    for block in blocks.values():
        order = chance.permutation(len(block))
        found += [replace(block[at], arrival_ms=job.arrival_ms) for job, at in zip(block, order, strict=True)]
    return found


def machines_for(jobs: Iterable[Job], load: float) -> int:
    """Return how many machines jobs keep as busy as ``load`` says, in the binding resource, until the last arrival."""
    work = dict.fromkeys(MACHINE, 0.0)
    last = 0
    for job in jobs:
        last = max(last, job.arrival_ms)
        for name, amount in job_work(job).items():
            work[name] += amount
    return max(1, round(max(work[name] / (MACHINE[name] * max(last, 1) * load) for name in MACHINE)))


def facebook(seed: int, year: int, load: float, machines: int) -> Workload:
    """Return a day of Facebook's jobs: of 2009 one of two samples, of 2010 every tenth job of one, by the seed.

    Arrivals are pressed together so that the day brings the load to so many machines.

    Raises:
        ValueError: the seed is one for tuning.
    """
    chance = _chance(seed)
    part = seed % 2 if year == 2009 else 0
    jobs = _facebook_day(_place(FACEBOOK).parent / f"FB-{year}_samples_24_times_1hr_{part}.tsv.xz")
    if year == 2010:
        jobs = jobs[seed % 10 :: 10]
    workload = arranged(exchanged(jobs, chance))
    return scaled_to_load(workload, {name: machines * amount for name, amount in MACHINE.items()}, load)


@cache
def _facebook_day(file: Path) -> tuple[Job, ...]:
    return read_workload(file, "swim").jobs


@cache
def _tpch_queries() -> tuple[Job, ...]:
    jobs = read_tpch(_place(TPCH)).jobs
    return tuple(job for job in jobs if _task_ms(job) < QUERY_MAX_MS)


def queries(seed: int, jobs: int, load: float, capacity: dict[str, float], framework: Framework) -> Workload:
    """Return TPC-H queries that arrive at random; Spark and Tez get the same DAGs at the same times.

    Raises:
        ValueError: the seed is one for tuning.
    """
    chance, pool = _chance(seed), _tpch_queries()
    arrivals = np.cumsum(chance.exponential(1.0, jobs)) * 10_000
    chosen = [pool[int(at)] for at in chance.integers(len(pool), size=jobs)]
    made = [
        replace(job, id=f"{at}-{job.id}", arrival_ms=int(time), framework=framework)
        for at, (job, time) in enumerate(zip(chosen, arrivals, strict=True))
    ]
    return scaled_to_load(arranged(made), capacity, load)


def _task_ms(job: Job) -> int:
    return sum(int(stage.durations().sum()) for stage in job.dag.stages)


def _chance(seed: int) -> np.random.Generator:
    if seed < FIRST_SEED:
        raise ValueError(f"seed {seed} is one for tuning; gains draws from {FIRST_SEED} on")
    return np.random.default_rng(seed)


def _place(data: DataSet) -> Path:
    """Return where a data set of the checkout lies.

    Raises:
        UserError: it is missing.
    """
    return given_or_default(None, data, lambda _: None)


HOURS: Final = 2.0
"""Hours of a window of Google's day: ten draws of four hours would take more than two CPU hours more."""
MASTER: Final = {"memory-mb": 2048, "vcores": 1}
AM_PERCENT: Final = 10
"""The AM limit of YARN's default configuration; points of their own have others."""
SPARK_NODES: Final = 20
SPARK_CORES: Final = 16
QUERIES: Final = 100
QUARTER: Final = SPARK_NODES * SPARK_CORES // 4 // 4
"""Executors of four cores that a quarter of the cluster has."""
NETWORK: Final = 1000.0

Drawn = tuple[dict[str, Any], Workload]
"""A scenario without its workload, and the jobs."""


@dataclass(frozen=True, slots=True)
class Point:
    """A workload under one load and one set of circumstances: an x of all plots."""

    workload: str
    name: str
    draw: partial[Drawn]
    """Returns what a seed draws, called with the seed and hours; the hours are the length of a window of a trace."""
    by_hours: bool = False
    """Do the jobs depend on the hours?"""
    several_queues: bool = False
    only: tuple[str, ...] = ()
    """The policies that run here; empty: all."""

    @property
    def x(self) -> str:
        """Return the name of the point among all points."""
        return f"{self.workload}: {self.name}"


def _frameworks(*, masters: bool = True, **more: Any) -> dict[str, Any]:
    return ({"master": MASTER, "master_start_ms": 8000} if masters else {}) | more


def _one_queue(am_percent: int = AM_PERCENT) -> dict[str, Any]:
    return {"default": {"capacity": 100, "maximum_am_resource_percent": am_percent}}


def _scenario(
    tick_ms: int, frameworks: dict[str, Any], *nodes: dict[str, Any], queues: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a scenario with one queue, unless others are given; ``more`` is further of its cluster."""
    return {
        "cluster": {"nodes": list(nodes), **more},
        "queues": queues or _one_queue(),
        "frameworks": frameworks,
        "decision": {"tick_ms": tick_ms},
    }


def _google(
    load: float, seed: int, hours: float, *, reuse: bool = True, masters: bool = True, am_percent: int = AM_PERCENT
) -> Drawn:
    jobs = google_window(seed, hours)
    frameworks = _frameworks(masters=masters, tez_reuse=reuse)
    nodes = {"count": machines_for(jobs, load), "resources": MACHINE, "racks": 10}
    scenario = _scenario(1000, frameworks, nodes, queues=_one_queue(am_percent))
    return scenario | {"report": {"window_s": 600}}, arranged(jobs)


def _queries(
    load: float, framework: Framework, seed: int, hours: float, *, most: int | None = None, idle_s: int = 60
) -> Drawn:
    machine = {"memory-mb": 65_536, "vcores": SPARK_CORES}
    limit: dict[str, Any] = {} if most is None else {"spark_max_executors": most}
    frameworks = _frameworks(launch_ms=2000, spark_idle_ms=1000 * idle_s, **limit)
    scenario = _scenario(500, frameworks, {"count": SPARK_NODES, "resources": machine, "racks": 2})
    capacity = {name: float(SPARK_NODES * amount) for name, amount in machine.items()}
    return scenario, queries(seed, QUERIES, load, capacity, framework)


def _facebook(
    year: int, load: float, machines: int, seed: int, hours: float, *, am_percent: int = 50, slow_start: float = 0.8
) -> Drawn:
    """Jobs under a higher AM limit and a later start of reduces than the defaults, which would outweigh any order."""
    nodes = {"count": machines, "resources": MACHINE, "racks": 2}
    scenario = _scenario(1000, _frameworks(slow_start=slow_start), nodes, queues=_one_queue(am_percent))
    return scenario, facebook(seed, year, load, machines)


def _departments(seed: int, hours: float) -> Drawn:
    """Three stages of five ask for a quarter to half of a node's network, of which they use 60 to 80 %."""
    network = {"name": "network", "counted": False, "usage": [0.6, 0.8]}
    node = MACHINE | {"network": NETWORK}
    parts = {"research": 60, "production": 40}
    queues = {name: {"capacity": part, "maximum_am_resource_percent": AM_PERCENT} for name, part in parts.items()}
    resources = [{"name": "memory-mb"}, {"name": "vcores"}, network]
    nodes = {"count": 20, "resources": node, "racks": 2}
    scenario = _scenario(500, _frameworks(), nodes, queues=queues, resources=resources, contention=True)
    capacity = {name: 20.0 * amount for name, amount in node.items()}
    shape = partial(_department_dag, node)
    return scenario, poisson(seed, 80, shape=shape, capacity=capacity, load=1.0, queues=dict.fromkeys(parts, 1.0))


def _department_dag(node: Mapping[str, float], chance: np.random.Generator, name: str) -> Dag:
    tasks = round(float(np.exp(chance.uniform(np.log(30), np.log(600)))))
    shape = Shape(machines=20, depth=(2, 5), stages=(5, 12), tasks=(tasks, tasks), duration_ms=(5000, 30_000))
    stages = []
    for stage in generate(int(chance.integers(2**31)), replace(shape, long_share=0.0)).dag.stages:
        if chance.random() < 0.6:
            parts = {"vcores": (0.03, 0.10), "memory-mb": (0.03, 0.12), "network": (0.25, 0.50)}
        else:
            parts = {"vcores": (0.10, 0.30), "memory-mb": (0.05, 0.30), "network": (0.02, 0.10)}
        demand = {key: _part_of(node[key], float(chance.uniform(*part))) for key, part in parts.items()}
        stages.append(replace(stage, demand=demand))
    return Dag(name, tuple(stages))


def _dags(seed: int, hours: float, *, planned: bool) -> Drawn:
    """As many tasks as ten machines are busy with for long: a job's longest path is not what bounds it."""
    node = MACHINE | {"network": NETWORK}
    frameworks: dict[str, Any] = {"tez_order": "plan", "tez_reuse": False} if planned else {}
    resources = [{"name": "memory-mb"}, {"name": "vcores"}, {"name": "network"}]
    scenario = _scenario(500, _frameworks(**frameworks), {"count": 10, "resources": node}, resources=resources)
    capacity = {name: 10.0 * amount for name, amount in node.items()}
    return scenario, poisson(seed, 20, shape=partial(_wide_dag, node), capacity=capacity, load=0.7)


def _wide_dag(node: Mapping[str, float], chance: np.random.Generator, name: str) -> Dag:
    tasks = round(float(np.exp(chance.uniform(np.log(500), np.log(3000)))))
    shape = Shape(10, (4, 8), (10, 30), (tasks, tasks), long_share=0.1, duration_ms=(10_000, 50_000))
    names = {"cpu": "vcores", "memory": "memory-mb", "network": "network"}
    stages = []
    for stage in generate(int(chance.integers(2**31)), shape).dag.stages:
        demand = {names[key]: _part_of(node[names[key]], part) for key, part in stage.demand.items()}
        stages.append(replace(stage, demand=demand))
    return Dag(name, tuple(stages))


def _part_of(whole: float, part: float) -> float:
    return float(max(1, round(whole * part)))


def _unlike_nodes(seed: int, hours: float) -> Drawn:
    """Two nodes of twenty have a GPU, four an SSD; a third of the jobs needs one or the other."""
    node = {"memory-mb": 32_768, "vcores": 8}
    kinds: tuple[tuple[int, dict[str, str]], ...] = ((2, {"gpu": "yes"}), (4, {"ssd": "yes"}), (14, {}))
    nodes = (
        {"count": count, "resources": node, "racks": 2, "attributes": attributes, "name": f"kind{at}-"}
        for at, (count, attributes) in enumerate(kinds)
    )
    scenario = _scenario(500, _frameworks(), *nodes)
    shape = bag(BoundedPareto(1.1, 1, 400), Lognormal(30_000, 1.0))
    capacity = {name: 20.0 * amount for name, amount in node.items()}
    workload = poisson(seed, 1000, shape=shape, capacity=capacity, load=0.85)
    chance = np.random.default_rng([seed, 1])
    needs = chance.choice(["", "gpu=yes", "ssd=yes"], size=len(workload.jobs), p=[2 / 3, 1 / 9, 2 / 9])
    jobs = [
        replace(job, requires={0: str(need)} if need else {}) for job, need in zip(workload.jobs, needs, strict=True)
    ]
    return scenario, replace(workload, jobs=tuple(jobs))


def _tenants(kind: str, seed: int, hours: float) -> Drawn:
    """Return a leaf of GPUs and a leaf of processors under one parent; the first requests more than it can get."""
    node = {"memory-mb": 8192, "vcores": 8}
    research: dict[str, Any] = {"capacity": 30, "children": {"gpu": {"capacity": 50}, "nlp": {"capacity": 50}}}
    if kind == "maximum":
        research["maximum_capacity"] = 60
    scenario = {
        "cluster": {
            "resources": [{"name": "memory-mb"}, {"name": "vcores"}, {"name": "gpu"}],
            "nodes": [{"count": 3, "resources": node}, {"count": 2, "resources": node | {"gpu": 4}}],
        },
        "queues": {
            "prod": {"capacity": 50, "children": {"etl": {"capacity": 60}, "serving": {"capacity": 40}}},
            "research": research,
            "adhoc": {"capacity": 20, "maximum_capacity": 25},
        },
        "report": {"window_s": 20},
    }
    chance = np.random.default_rng(seed)
    single = kind == "single"
    rows = (
        ("prod.etl", 0, 800, 20, 0),
        ("prod.serving", 30, 300, 30, 0),
        ("adhoc", 60, 200, 15, 0),
        ("research.nlp", 60, 60, 25, 0),
        *((("research.gpu", 60 + at, 1, 300, 1) for at in range(16)) if single else ()),
        *(
            (("research.gpu", 60 + at, 1, 300, 4) for at in range(1 if kind == "satisfied" else 4))
            if not single
            else ()
        ),
    )
    jobs = [_tenant_job(chance, f"{turn}-{at}", turn, *row) for turn in range(3) for at, row in enumerate(rows)]
    return scenario, arranged(jobs)


def _tenant_job(
    chance: np.random.Generator, name: str, turn: int, queue: str, at_s: int, tasks: int, task_s: int, gpus: int
) -> Job:
    """Return a job of a turn of 800 s, with arrival and task durations drawn around the given values."""
    demand = {"memory-mb": 512.0, "vcores": 1.0} | ({"gpu": float(gpus)} if gpus else {})
    times = np.maximum(1000 * task_s * chance.lognormal(-0.03, 0.25, tasks), 1000).astype(np.int64)
    stage = Stage(0, tasks, int(times.mean()), demand, durations_ms=times)
    arrival_ms = 800_000 * turn + 1000 * at_s + round(float(chance.exponential(20_000)))
    return Job(name, arrival_ms, Dag(name, (stage,)), Framework.MAPREDUCE, queue.rpartition(".")[2], queue=queue)


_FACEBOOK_FACTORS: Final[dict[str, dict[str, Any]]] = {
    "AM limit 10 %": {"am_percent": 10},
    "slow start 5 %": {"slow_start": 0.05},
    "slow start 100 %": {"slow_start": 1.0},
}


def _points() -> list[Point]:
    google = [
        Point("Google 2011", f"load {load}", partial(_google, load), by_hours=True)
        for load in (0.8, 0.95, 1.1, 1.2, 1.4)
    ]
    without = {"no reuse": {"reuse": False}, "no AMs": {"masters": False}}
    google += [
        Point("Google 2011", f"load 0.95, {name}", partial(_google, 0.95, **what), by_hours=True)
        for name, what in without.items()
    ]
    limited = {f"load {load}, AM limit {limit} %": (load, limit) for load in (0.95, 1.2) for limit in (2, 50)}
    google += [
        Point("Google 2011", name, partial(_google, load, am_percent=limit), by_hours=True, only=("fair",))
        for name, (load, limit) in limited.items()
    ]
    spark = [
        Point(
            "Spark TPC-H",
            f"load {load}, {'unlimited' if most is None else 'a quarter'}, idle {idle_s} s",
            partial(_queries, load, Framework.SPARK, most=most, idle_s=idle_s),
        )
        for load in (0.7, 0.9)
        for most in (None, QUARTER)
        for idle_s in (10, 60)
    ]
    tez = [Point("Tez TPC-H", f"load {load}", partial(_queries, load, Framework.TEZ)) for load in (0.7, 0.9)]
    return [
        *google,
        *spark,
        *tez,
        Point("Facebook 2009", "load 0.8", partial(_facebook, 2009, 0.8, 20)),
        *(
            Point("Facebook 2009", f"load 0.8, {name}", partial(_facebook, 2009, 0.8, 20, **what), only=("fair",))
            for name, what in _FACEBOOK_FACTORS.items()
        ),
        Point("Facebook 2010", "load 0.8", partial(_facebook, 2010, 0.8, 60)),
        Point("Two departments", "network binds", partial(_departments), several_queues=True),
        Point("Generated DAGs", "Tez as it is", partial(_dags, planned=False)),
        Point("Generated DAGs", "plan order, no reuse", partial(_dags, planned=True)),
        Point("Unlike nodes", "a third constrained", partial(_unlike_nodes)),
        *(
            Point("GPU tenant", kind, partial(_tenants, kind), several_queues=True)
            for kind in ("maximum", "satisfied", "saturated", "single")
        ),
    ]


POINTS: Final = {point.x: point for point in _points()}
