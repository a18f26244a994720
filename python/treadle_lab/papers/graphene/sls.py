"""The five schemes of section 8.2 on the testbed: a real ResourceManager with simulated nodes.

Generated DAGs (`treadle_lab.papers.graphene.jobs`) arrive as in the simulator; their application masters ask by
priority as Tez's do, and those of Graphene's schemes ask the plan listener first. Durations and gaps are compressed by
`TIMES`, and with them heartbeats, which are real ones' second. Asks are rounded up to hundredths of a node.
"""

from __future__ import annotations

import math
import string
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from treadle.admin.install import ready_made
from treadle.dag.dag import Dag
from treadle.history.run import recurrence_key
from treadle.history.store import open_store
from treadle.planner.online import critical_path_order
from treadle_lab.harness.sleeping_dags import MEMORY, VCORES
from treadle_lab.minicluster.layout import LOOPBACK, free_ports
from treadle_lab.papers.graphene.earlier_runs import NETWORK, runs_before
from treadle_lab.papers.graphene.jobs import Mix, arrivals, generated
from treadle_lab.sls.cluster import QUEUE, Cluster, Scheduling
from treadle_lab.sls.play import Played
from treadle_lab.sls.player import Player, in_turn
from treadle_lab.sls.script import Script, ScriptedJob, stages_of

__all__ = ["SCHEMES", "Draw", "Size", "TestbedScheme", "run_draw", "run_scheme", "script_of"]

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
