"""DAGs on simulated nodes of a real ResourceManager: schemes, draws, runs and their report."""

from __future__ import annotations

import math
import string
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import yaml

from treadle.dag import Dag
from treadle.history.profile import DurationSketch, JobRun, RecurrenceKey, StageRun, recurrence_key
from treadle.history.store import open_store
from treadle.planner.online import critical_path_order
from treadle.shipped import ready_made
from treadle.simulate.comparison import Interval, interval_of
from treadle_lab.minicluster.site import LOOPBACK, free_ports
from treadle_lab.papers.graphene.jobs import Mix, arrivals, generated, shorter_percent
from treadle_lab.sls.play import (
    MEMORY,
    QUEUE,
    VCORES,
    Cluster,
    Played,
    Player,
    Scheduling,
    Script,
    ScriptedJob,
    faults,
    in_turn,
    stages_of,
    vertex_name,
)

NETWORK: Final = "network"
"""A resource type by resource-types.xml; nothing stands behind it."""
EARLIER_RUNS: Final = 2
"""How many runs of a recurring job are needed before plans go by them."""


def runs_before(dag: Dag, key: RecurrenceKey) -> list[JobRun]:
    """Return earlier runs of a DAG as the store of profiles holds them: what tasks took, and who waits for whom."""
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
"""How long a plug-in waits for a plan."""
TIMES: Final = 0.1
"""Durations in the testbed over those of the DAGs."""
HEARTBEAT_MS: Final = 100
UNITS: Final = 100
"""Of each resource on a node."""
UNIT: Final = {MEMORY: 256, VCORES: 100, NETWORK: 1}
MASTER_MB: Final = 8
MASTERS: Final = 30
"""Application masters that a node has room for beside its tasks; they are no room for another task."""
TEZ: Final = "TEZ"
USER: Final = "ann"


@dataclass(frozen=True, slots=True)
class TestbedScheme:
    """Who orders the tasks of a DAG, and who places containers."""

    name: str
    title: str
    critical_path: bool = False
    """Its application masters order stages so; else as Tez does, or by a plan."""
    plans: bool = False
    scoring: bool = False
    """Treadle places by what tasks ask for; else the stock scheduler, first in, first out."""


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
    """How much is played."""

    jobs: int = 48
    nodes: int = 16
    load: float = 0.8
    """Work that arrives over what the cluster can do."""

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
"""All of whose application masters have room at the same time on 17 nodes, and two letters name 676."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of DAGs under the schemes that were asked for."""

    seed: int
    tasks: int
    runs: dict[str, Played]


def named(number: int) -> str:
    """Return a job's name: trailing numbers would make all jobs runs of a recurring one."""
    letters = string.ascii_lowercase
    return f"dag {letters[number // 26]}{letters[number % 26]}"


def dags_of(seed: int, size: Size) -> list[tuple[int, Dag]]:
    """Return when each DAG of a draw comes in the testbed, and the DAG as it is played."""
    mix = Mix(size.nodes)
    jobs = arrivals(generated(mix), mix, seed, size.jobs, size.load).jobs
    return [(round(TIMES * job.arrival_ms), _played(named(at), job.dag)) for at, job in enumerate(jobs)]


def _played(name: str, dag: Dag) -> Dag:
    asked = {MEMORY: "memory", VCORES: "cpu", NETWORK: "network"}
    return Dag(
        name,
        tuple(
            replace(
                stage,
                duration_ms=max(1, round(TIMES * stage.duration_ms)),
                demand={
                    name: float(UNIT[name] * math.ceil(round(UNITS * stage.demand[of], 6)))
                    for name, of in asked.items()
                },
            )
            for stage in dag.stages
        ),
    )


def script_of(dags: Sequence[tuple[int, Dag]], scheme: TestbedScheme) -> Script:
    """Return the jobs of a draw as their application masters ask under a scheme."""
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
    """Return who schedules: the policy graphene as it ships, the stock scheduler, or that with plans alone.

    Args:
        scheme: which
        store: of profiles, which know earlier runs of all jobs
        port: for the plan listener
    """
    if not scheme.plans and not scheme.scoring:
        return Scheduling(scheme.name)
    settings = yaml.safe_load(ready_made()["graphene"].read_text("utf-8"))
    settings["profiles"] = {"store": str(store)}
    asked = {}
    if scheme.plans:
        settings["listener"] = {"address": LOOPBACK, "port": port}
        asked = {"treadle.plan.addresses": f"{LOOPBACK}:{port}", "treadle.plan.wait-ms": str(WAIT_MS)}
    else:
        settings["policy"]["fit"]["all_priorities"] = True
    return Scheduling(scheme.name, yaml.safe_dump(settings), settings=asked, observed=not scheme.scoring)


def remember(dags: Sequence[tuple[int, Dag]], store: Path) -> None:
    """Make a store of profiles that knows earlier runs of the DAGs, and nothing else."""
    store.parent.mkdir(parents=True, exist_ok=True)
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    now_ms = int(time.time() * 1000)
    with open_store(str(store)) as opened:
        for _, dag in dags:
            for run in runs_before(dag, recurrence_key(USER, QUEUE, TEZ, dag.name)):
                opened.put(run, now_ms)


def run_scheme(scheme: TestbedScheme, seed: int, size: Size, player: Player) -> Played:
    """Play a draw under a scheme, unless that is kept.

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
    """Play a draw under schemes, beginning with another one in each turn.

    Raises:
        BenchError: a run gave no result.
    """
    schemes = [scheme for scheme in SCHEMES if scheme.name in names]
    runs = {scheme.name: run_scheme(scheme, seed, size, player) for scheme in in_turn(schemes, turn)}
    tasks = sum(dag.tasks for _, dag in dags_of(seed, size))
    return Draw(seed, tasks, {scheme.name: runs[scheme.name] for scheme in schemes})


GOAL: Final = 25.0
"""Percent by which the median is to be shorter with Graphene than in Tez's order with stock capacity."""


TETRIS: Final = "tetris"


def _schemes_played(draws: Sequence[Draw]) -> list[TestbedScheme]:
    return [scheme for scheme in SCHEMES if scheme.name in draws[0].runs]


def _times_s(draw: Draw, scheme: str) -> list[float]:
    return [job.completion_ms / 1000 for job in draw.runs[scheme].jobs]


def median_shorter(draws: Sequence[Draw], scheme: str, base: str = STOCK) -> Interval:
    """Return by how many percent a draw's median completion time is shorter, one value a draw."""
    return interval_of(
        [shorter_percent(median(_times_s(each, scheme)), median(_times_s(each, base))) for each in draws]
    )


def mean_shorter(draws: Sequence[Draw], scheme: str, base: str = STOCK) -> Interval:
    """Return the same of the mean."""
    return interval_of([shorter_percent(mean(_times_s(each, scheme)), mean(_times_s(each, base))) for each in draws])


def gap_median(draws: Sequence[Draw], scheme: str, base: str = STOCK) -> float:
    """Return the median over all jobs of the paper's gap: by how many percent of that a job ends sooner."""
    return median(
        shorter_percent(ours, theirs)
        for each in draws
        for ours, theirs in zip(_times_s(each, scheme), _times_s(each, base), strict=True)
    )


def _span_s(draws: Sequence[Draw], scheme: str) -> Interval:
    return interval_of([each.runs[scheme].span_ms / 1000 for each in draws])


def _planned(draws: Sequence[Draw], scheme: str) -> tuple[int, int]:
    jobs = [job for each in draws for job in each.runs[scheme].jobs]
    return sum(job.planned for job in jobs), len(jobs)


def shortfalls(draws: Sequence[Draw]) -> list[str]:
    """Say what is not as it should be (`faults`), which jobs had no plan or should have none, and a missed goal."""
    found = []
    for scheme in _schemes_played(draws):
        for draw in draws:
            run, where = draw.runs[scheme.name], f"seed {draw.seed}, {scheme.name}"
            found += faults({where: run})
            if without := sum(job.planned != scheme.plans for job in run.jobs):
                found.append(f"{where}: {without} jobs {'had no plan' if scheme.plans else 'had a plan'}")
    if OURS in draws[0].runs and (reached := median_shorter(draws, OURS)).mean < GOAL:
        found.append(f"the median is {reached} % shorter with Graphene than with stock; the goal is {GOAL:.0f} %")
    return found


def _beside_tetris(draws: Sequence[Draw], scheme: str) -> dict[str, Any]:
    if TETRIS not in draws[0].runs:
        return {}
    return {
        "median_shorter_than_tetris": median_shorter(draws, scheme, TETRIS).as_json(),
        "mean_shorter_than_tetris": mean_shorter(draws, scheme, TETRIS).as_json(),
    }


def document(draws: Sequence[Draw], size: Size) -> dict[str, Any]:
    """Return everything for ``--json``; times in milliseconds of the testbed."""
    return {
        "seeds": [draw.seed for draw in draws],
        "size": asdict(size),
        "times": TIMES,
        "heartbeat_ms": HEARTBEAT_MS,
        "goal_percent": GOAL,
        "schemes": {
            scheme.name: {
                "title": scheme.title,
                "median_s": interval_of([median(_times_s(each, scheme.name)) for each in draws]).as_json(),
                "mean_s": interval_of([mean(_times_s(each, scheme.name)) for each in draws]).as_json(),
                "median_shorter": median_shorter(draws, scheme.name).as_json(),
                "mean_shorter": mean_shorter(draws, scheme.name).as_json(),
                **_beside_tetris(draws, scheme.name),
                "gap_median": gap_median(draws, scheme.name),
                "span_s": _span_s(draws, scheme.name).as_json(),
                "by_draw": [
                    shorter_percent(median(_times_s(each, scheme.name)), median(_times_s(each, STOCK)))
                    for each in draws
                ],
                "planned": _planned(draws, scheme.name)[0],
            }
            for scheme in _schemes_played(draws)
        },
        "shortfalls": shortfalls(draws),
        "draws": [
            {
                "seed": draw.seed,
                "tasks": draw.tasks,
                "runs": {scheme: run.as_json() for scheme, run in draw.runs.items()},
            }
            for draw in draws
        ],
    }
