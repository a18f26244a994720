"""Graphene on real ResourceManagers: unmodified Tez, DAGs with troublesome tasks, with and without plans.

Each draw of DAGs runs under every scheme, on a cluster of its own, one scheme after the other. Tasks sleep and ask for
three resource types (Graphene, OSDI 2016, section 8.2, has a testbed of 200 machines).
"""

from __future__ import annotations

import getpass
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from treadle.dag.dag import Dag
from treadle.minicluster import ClusterSettings, MiniCluster, Scheduler
from treadle.minicluster.ports import LOOPBACK, free_ports
from treadle.minicluster.site import CS, Entries, write_site
from treadle.profiles.recurrence import recurrence_key
from treadle.profiles.store import open_store
from treadle.reproduce.graphene_cluster_jobs import NETWORK, NODE, UNIT_MB, DagSettings, runs_before
from treadle.reproduce.patience import PATIENCE, START_TIMEOUT_S
from treadle.reproduce.sleeping_dags import MEMORY, VCORES, SleepingDags, master_log
from treadle.shim_jar import tez_jar

__all__ = ["SCHEMES", "WAIT_MS", "Ended", "Round", "Scheme", "run_scheme"]

POLL_S: Final = 0.5
QUEUE: Final = "default"
WAIT_MS: Final = 5_000
"""How long a DAG waits for its plan, at most."""
LISTENING_S: Final = 300.0
ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "KILLED"})
FOLLOWS: Final = "follows its plan"
"""What the plug-in logs of a DAG that does (`DagAgent`)."""

SCORING: Final = """\
policy:
  share: {kind: deficit}
  order: {kind: srpt}
  fit: {kind: tetris}
  estimate: {kind: told}
"""
"""Of conf/policies/graphene.yaml."""
LISTENING: Final = """\
plans: {{schedules: 400}}
listener: {{address: {address}, port: {port}}}
"""
STORE: Final = "profiles: {{store: {store}}}\n"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scheme:
    """Who orders the tasks of a DAG, and who places containers.

    Where plans come without scoring, Treadle runs beside the stock scheduler in mode ``observe_only``: the listener
    answers, and the ResourceManager places by stock code alone.
    """

    name: str
    title: str
    plugin: bool = False
    scoring: bool = False
    silent: bool = False
    """Whom the plug-in asks takes the call and never answers: the worst that a sidecar can do."""

    @property
    def scheduler(self) -> Scheduler:
        """The class that the ResourceManager loads."""
        return Scheduler.TREADLE if self.scoring or self.plans else Scheduler.CAPACITY

    @property
    def plans(self) -> bool:
        """Is there somebody who answers with plans?"""
        return self.plugin and not self.silent


SCHEMES: Final = (
    Scheme("stock", "Tez's order, stock capacity"),
    Scheme("plan", "plan, stock capacity", plugin=True),
    Scheme("scoring", "Tez's order, scoring", scoring=True),
    Scheme("both", "plan and scoring", plugin=True, scoring=True),
    Scheme("silent", "plug-in without an answer, stock capacity", plugin=True, silent=True),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a DAG."""

    name: str
    tasks: int
    work_ms: int
    """The time that its tasks take together."""
    status: str
    completion_ms: int
    """From its submission to its end, by the ResourceManager's clock."""
    containers: int
    """That its tasks ran in; the fewer, the more were used again."""
    planned: bool
    """Does its application master's log say that it followed its plan?"""


@dataclass(frozen=True, slots=True)
class Round:
    """A draw of DAGs under one scheme."""

    seed: int
    scheme: str
    jobs: tuple[Ended, ...]
    makespan_ms: int
    """From the first submission to the last end."""
    placed: dict[str, int]
    """Containers that Treadle placed, and that the stock scheduler did; empty where Treadle is not."""


def queues() -> Entries:
    """Return capacity-scheduler.xml: one queue, of which one user may have all."""
    return {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}root.queues": QUEUE,
        f"{CS}root.{QUEUE}.capacity": "100",
        f"{CS}root.{QUEUE}.user-limit-factor": "10",
        f"{CS}maximum-am-resource-percent": "0.9",
    }


def policy(scheme: Scheme, store: Path, port: int) -> str:
    """Return the treadle.yaml of a scheme that has one."""
    listening = LISTENING.format(address=LOOPBACK, port=port) if scheme.plans else ""
    return (SCORING if scheme.scoring else "") + listening + STORE.format(store=store)


def remember(dags: Sequence[Dag], store: Path) -> None:
    """Make a store of profiles that knows earlier runs of DAGs, and nothing else."""
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    now_ms = int(time.time() * 1000)
    with open_store(str(store)) as opened:
        for dag in dags:
            for run in runs_before(dag, recurrence_key(getpass.getuser(), QUEUE, "TEZ", dag.name)):
                opened.put(run, now_ms)


def cluster_settings(
    scheme: Scheme, dags: Sequence[Dag], settings: DagSettings, folder: Path, port: int
) -> ClusterSettings:
    """Return the cluster of a scheme; its queues, policy and store are files beside ``folder``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    queue_file = folder.with_name(f"{folder.name}-queues.xml")
    write_site(queue_file, queues())
    overrides = {"yarn.scheduler.minimum-allocation-mb": str(UNIT_MB)}
    file = None
    if scheme.scheduler is Scheduler.TREADLE:
        file = folder.with_name(f"{folder.name}-treadle.yaml")
        store = folder.with_name(f"{folder.name}-profiles.db").resolve()
        remember(dags, store)
        file.write_text(policy(scheme, store, port))
        overrides |= PATIENCE
    masters = math.ceil(settings.jobs / settings.nodes)  # nodes have room for them besides that for tasks
    return ClusterSettings(
        nodes=settings.nodes,
        memory_mb=NODE[MEMORY] + masters * UNIT_MB,
        vcores=NODE[VCORES] + masters,
        resources={NETWORK: NODE[NETWORK]},
        scheduler=scheme.scheduler,
        mode="enforce" if scheme.scoring else "observe_only",
        queues=queue_file,
        policy=file,
        overrides=overrides,
        start_timeout_s=START_TIMEOUT_S,
    )


def tez_settings(scheme: Scheme, port: int) -> dict[str, str]:
    """Return what a scheme adds to tez-site.xml; containers are used again, as Tez does unless told otherwise."""
    found = {"tez.am.resource.memory.mb": str(UNIT_MB), "tez.am.resource.cpu.vcores": "1"}
    if scheme.plugin:
        found |= {
            "tez.am.dag.scheduler.class": "io.treadle.tez.TreadleDagScheduler",
            "tez.aux.uris": f"file://{tez_jar()}",
            "treadle.plan.addresses": f"{LOOPBACK}:{port}",
            "treadle.plan.wait-ms": str(WAIT_MS),
        }
    return found


def run_scheme(scheme: Scheme, dags: Sequence[Dag], seed: int, settings: DagSettings, folder: Path, say: Say) -> Round:
    """Start a cluster in ``folder``, run the DAGs on it, and stop it whatever happens.

    Raises:
        ClusterError: the cluster does not start, a DAG is not submitted, or the ResourceManager does not answer.
    """
    (port,) = free_ports(1)
    cluster = MiniCluster(cluster_settings(scheme, dags, settings, folder, port), folder, say)
    with (
        _never_answering(port if scheme.silent else None),
        cluster,
        SleepingDags(cluster) as client,
        cluster.answering(),
    ):
        if scheme.plans:
            _wait_listening(cluster, port)
        return _run(cluster, client, scheme, dags, seed, tez_settings(scheme, port), say)


@contextmanager
def _never_answering(port: int | None) -> Iterator[None]:
    """Listen at a port and take calls without a word; None: do nothing."""
    if port is None:
        yield
        return
    with socket.create_server((LOOPBACK, port), backlog=64):
        yield


def _wait_listening(cluster: MiniCluster, port: int) -> None:
    """Wait until the sidecar decides and serves plans."""

    def listening() -> bool:
        with socket.socket() as probe:
            return cluster.rm.treadle().get("Frames", 0) > 0 and probe.connect_ex((LOOPBACK, port)) == 0

    cluster.wait_for("listener for plans", listening, LISTENING_S)


def _run(
    cluster: MiniCluster,
    client: SleepingDags,
    scheme: Scheme,
    dags: Sequence[Dag],
    seed: int,
    tez: dict[str, str],
    say: Say,
) -> Round:
    who = f"seed {seed}, {scheme.title}"
    submitted = {client.submit(dag, tez): dag for dag in dags}
    found: dict[str, dict[str, Any]] = {}
    while len(found) < len(submitted):
        for application in cluster.rm.applications():
            if application["id"] in submitted and application["finalStatus"] in ENDED:
                found[application["id"]] = application
        say(f"{who}: {len(found)} of {len(dags)} DAGs ended")
        time.sleep(POLL_S)
    containers = cluster.containers()
    ended = tuple(_ended(cluster, dag, found[id_], len(containers.get(id_, ()))) for id_, dag in submitted.items())
    begun_ms = min(int(each["startedTime"]) for each in found.values())
    makespan_ms = max(int(each["finishedTime"]) for each in found.values()) - begun_ms
    placed = cluster.rm.placed() if scheme.scheduler is Scheduler.TREADLE else {}
    return Round(seed, scheme.name, ended, makespan_ms, placed)


def _ended(cluster: MiniCluster, dag: Dag, application: dict[str, Any], containers: int) -> Ended:
    return Ended(
        dag.name,
        dag.tasks,
        sum(stage.tasks * stage.duration_ms for stage in dag.stages),
        str(application["finalStatus"]),
        int(application["finishedTime"]) - int(application["startedTime"]),
        containers - 1,  # the application master's is none of tasks
        FOLLOWS in master_log(cluster, application["id"]),
    )
