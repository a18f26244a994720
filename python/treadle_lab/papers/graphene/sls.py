"""DAGs on simulated nodes of a real ResourceManager: schemes, draws, runs and their report."""

from __future__ import annotations

import math
import string
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Final

import yaml

from treadle.dag import Dag
from treadle.history.profile import DurationSketch, JobRun, RecurrenceKey, StageRun, recurrence_key
from treadle.history.store import open_store
from treadle.planner.online import critical_path_order
from treadle.shipped import ready_made
from treadle_lab.minicluster.site import LOOPBACK, free_ports
from treadle_lab.papers.graphene.experiment import arrivals, generated, shorter_percent
from treadle_lab.rows import Layout, Results, Row
from treadle_lab.sls.play import (
    MEMORY,
    QUEUE,
    VCORES,
    Cluster,
    Draw,
    Played,
    Player,
    Scheduling,
    Script,
    ScriptedJob,
    facts_of,
    in_turn,
    pace_table,
    stages_of,
    vertex_name,
)

NETWORK: Final = "network"
"""A resource type of resource-types.xml that no real device provides."""
EARLIER_RUNS: Final = 2
"""Number of runs of a recurring job before plans use its history."""


def runs_before(dag: Dag, key: RecurrenceKey) -> list[JobRun]:
    """Return earlier runs of a DAG as the job history stores them: durations and demands of tasks, edges of stages."""
    names = {stage.id: vertex_name(stage) for stage in dag.stages}
    stages = tuple(
        StageRun(
            names[stage.id],
            stage.tasks,
            DurationSketch([stage.duration_ms] * stage.tasks),
            {name: round(amount) for name, amount in stage.demand.items()},
            tuple(names[parent] for parent in stage.parents),
        )
        for stage in dag.stages
    )
    span_ms = sum(stage.duration_ms for stage in dag.stages)
    ends_ms = [(number + 1) * span_ms for number in range(EARLIER_RUNS)]
    return [
        JobRun(key, f"dag_{number}_0001_1", end_ms - span_ms, end_ms, stages) for number, end_ms in enumerate(ends_ms)
    ]


WAIT_MS: Final = 5_000
"""How long an application master's plug-in waits for a plan."""
TIMES: Final = 0.1
"""Factor of the DAGs' durations in the testbed."""
HEARTBEAT_MS: Final = 100
UNITS: Final = 100
"""Amount of each resource on a node."""
UNIT: Final = {MEMORY: 256, VCORES: 100, NETWORK: 1}
MASTER_MB: Final = 8
MASTERS: Final = 30
"""Additional application masters per node, next to its tasks; their resources fit no further task."""
TEZ: Final = "TEZ"
USER: Final = "ann"


@dataclass(frozen=True, slots=True)
class TestbedScheme:
    """The ordering of a DAG's tasks, and the scheduler that places containers."""

    name: str
    title: str
    critical_path: bool = False
    """Application masters order stages by critical path; otherwise like Tez, or by a plan."""
    plans: bool = False
    """Application masters order tasks by plans of Treadle's plan listener."""
    scoring: bool = False
    """Treadle places containers by Tetris scores; otherwise the stock scheduler does, first in, first out."""


STOCK: Final = "bfs"
OURS: Final = "graphene"
SCHEMES: Final = (
    TestbedScheme(STOCK, "Tez's order, stock capacity"),
    TestbedScheme("cp", "critical path, stock capacity", critical_path=True),
    TestbedScheme("tetris", "Tez's order, Tetris over all runnable tasks", scoring=True),
    TestbedScheme("graphene-capacity", "Graphene's order, stock capacity", plans=True),
    TestbedScheme(OURS, "Graphene", plans=True, scoring=True),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the experiment."""

    jobs: int = 48
    nodes: int = 16
    load: float = 0.8
    """Offered load, as a fraction of the cluster's capacity."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster(
            self.nodes,
            UNITS * UNIT[MEMORY] + MASTERS * MASTER_MB,
            UNITS * UNIT[VCORES] + MASTERS,
            heartbeat_ms=HEARTBEAT_MS,
            least_mb=MASTER_MB,
            resources={NETWORK: UNITS * UNIT[NETWORK]},
        )


QUICK: Final = Size(jobs=4, nodes=4)
"""Too few for medians; shows that it works."""
JOBS_MAX: Final = 500
"""Their application masters fit on 17 nodes at the same time, and `named` has 676 names."""


def named(number: int) -> str:
    """Return a job's name; in letters, since jobs whose names differ in trailing numbers are one recurring job."""
    letters = string.ascii_lowercase
    return f"dag {letters[number // 26]}{letters[number % 26]}"


def dags_of(seed: int, size: Size) -> list[tuple[int, Dag]]:
    """Return the DAGs of a draw as the testbed runs them, each with its arrival in ms."""
    jobs = arrivals(generated(size.nodes), size.nodes, seed, size.jobs, size.load).jobs
    return [(round(TIMES * job.arrival_ms), _scaled(named(at), job.dag)) for at, job in enumerate(jobs)]


def _scaled(name: str, dag: Dag) -> Dag:
    resource_names = {MEMORY: "memory", VCORES: "cpu", NETWORK: "network"}
    return Dag(
        name,
        tuple(
            replace(
                stage,
                duration_ms=max(1, round(TIMES * stage.duration_ms)),
                demand={
                    name: float(UNIT[name] * math.ceil(round(UNITS * stage.demand[of], 6)))
                    for name, of in resource_names.items()
                },
            )
            for stage in dag.stages
        ),
    )


def script_of(dags: Sequence[tuple[int, Dag]], scheme: TestbedScheme) -> Script:
    """Return the jobs of a draw with the requests of their application masters under a scheme."""
    return Script(
        tuple(
            ScriptedJob(
                dag.name,
                at_ms,
                stages_of(dag, critical_path_order(dag) if scheme.critical_path else None),
                type=TEZ,
                user=USER,
                master_mb=MASTER_MB,
            )
            for at_ms, dag in dags
        )
    )


def scheduling(scheme: TestbedScheme, store: Path, port: int) -> Scheduling:
    """Return the scheduler: the ready-made policy graphene, or the stock scheduler with or without plans.

    Args:
        scheme: the scheme
        store: job history with earlier runs of all jobs
        port: port of the plan listener
    """
    if not scheme.plans and not scheme.scoring:
        return Scheduling(scheme.name)
    settings = yaml.safe_load(ready_made()["graphene"].read_text("utf-8"))
    settings["history"] = {"store": str(store)}
    asked = {}
    if scheme.plans:
        settings["listener"] = {"address": LOOPBACK, "port": port}
        asked = {"treadle.plan.addresses": f"{LOOPBACK}:{port}", "treadle.plan.wait-ms": str(WAIT_MS)}
    else:
        settings["policy"]["fit"]["all_priorities"] = True
    return Scheduling(scheme.name, yaml.safe_dump(settings), settings=asked, observed=not scheme.scoring)


def remember(dags: Sequence[tuple[int, Dag]], store: Path) -> None:
    """Create a job history that contains only earlier runs of the DAGs."""
    store.parent.mkdir(parents=True, exist_ok=True)
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    now_ms = int(time.time() * 1000)
    with open_store(str(store)) as opened:
        for _, dag in dags:
            for run in runs_before(dag, recurrence_key(USER, QUEUE, TEZ, dag.name)):
                opened.put(run, now_ms)


def run_scheme(scheme: TestbedScheme, seed: int, size: Size, player: Player) -> Played:
    """Play a draw under a scheme, or return its stored result.

    Raises:
        BenchError: the run gave no result.
    """
    dags = dags_of(seed, size)
    script = script_of(dags, scheme)

    def run() -> Played:
        store = player.folder / f"{seed}-profiles.db"
        remember(dags, store.resolve())
        return player.play(scheduling(scheme, store.resolve(), free_ports(1)[0]), script, size.cluster, seed)

    return player.kept.get_or_play(run, asdict(scheme), asdict(size), seed)


def run_draw(seed: int, size: Size, names: Collection[str], turn: int, player: Player) -> Draw:
    """Play a draw under schemes; each turn begins with another scheme.

    Raises:
        BenchError: a run gave no result.
    """
    schemes = [scheme for scheme in SCHEMES if scheme.name in names]
    runs = {scheme.name: run_scheme(scheme, seed, size, player) for scheme in in_turn(schemes, turn)}
    return Draw(seed, {scheme.name: runs[scheme.name] for scheme in schemes})


GOAL: Final = 25.0
"""Expected minimum percentage by which the median is shorter with Graphene than in Tez's order with stock capacity."""
BASES: Final = {STOCK: "stock", "tetris": "Tetris"}
LAYOUTS: Final = {"graphene-testbed": Layout("Completion times of DAGs on the testbed, in its seconds")}


def results_of(draws: Sequence[Draw], size: Size) -> Results:
    """Return the results; times are seconds of the testbed."""
    played = [scheme for scheme in SCHEMES if scheme.name in draws[0].runs]
    rows = [row for each in draws for scheme in played for row in _rows(each, scheme)]
    for scheme in played:
        pairs = [(_times_s(each, scheme.name), _times_s(each, STOCK)) for each in draws]
        gaps = [shorter_percent(*jobs) for ours, theirs in pairs for jobs in zip(ours, theirs, strict=True)]
        planned = sum(job.planned for each in draws for job in each.runs[scheme.name].jobs)
        rows.append(Row("median gap of jobs (%)", scheme.title, "", 0, median(gaps), "%"))
        rows.append(Row("jobs by a plan", scheme.title, "", 0, planned, "1"))
    facts = {"size": asdict(size), "times": TIMES, "heartbeat_ms": HEARTBEAT_MS, "goal_percent": GOAL}
    results = Results(LAYOUTS, {"graphene-testbed": rows}, facts_of(draws) | facts, {"testbed-pace": pace_table(draws)})
    results.facts["shortfalls"] += _wrong_plans(draws, played)
    reached = results.figure("graphene-testbed", "median shorter than stock (%)", played[-1].title)
    if played[-1].name == OURS and reached.mean < GOAL:
        results.facts["shortfalls"].append(
            f"the median is {reached} % shorter with Graphene than with stock; expected: {GOAL:.0f} %"
        )
    return results


def _rows(draw: Draw, scheme: TestbedScheme) -> Iterator[Row]:
    times_s = _times_s(draw, scheme.name)
    for name, of in (("median", median), ("mean", mean)):
        yield Row(f"{name} (s)", scheme.title, "", draw.seed, of(times_s), "s")
        for base, title in BASES.items():
            if base in draw.runs and base != scheme.name:
                shorter = shorter_percent(of(times_s), of(_times_s(draw, base)))
                yield Row(f"{name} shorter than {title} (%)", scheme.title, "", draw.seed, shorter, "%")
    yield Row("all jobs (s)", scheme.title, "", draw.seed, draw.runs[scheme.name].span_ms / 1000, "s")


def _times_s(draw: Draw, scheme: str) -> list[float]:
    return [job.completion_ms / 1000 for job in draw.runs[scheme].jobs]


def _wrong_plans(draws: Sequence[Draw], schemes: Sequence[TestbedScheme]) -> Iterator[str]:
    """Yield a text for each run in which jobs lack a plan, or have one that the scheme excludes."""
    for scheme, draw in product(schemes, draws):
        if without := sum(job.planned != scheme.plans for job in draw.runs[scheme.name].jobs):
            what = "had no plan" if scheme.plans else "had a plan"
            yield f"seed {draw.seed}, {scheme.name}: {without} jobs {what}"
