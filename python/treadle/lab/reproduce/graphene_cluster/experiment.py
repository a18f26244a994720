"""Graphene on real ResourceManagers: unmodified Tez, DAGs with troublesome tasks, with and without plans.

Each draw of DAGs runs under every scheme, one after the other on one cluster; in between its ResourceManager is
reconfigured to another scheduler. Tasks sleep and ask for three resource types (Graphene, OSDI 2016, section 8.2, has a
testbed of 200 machines).
"""

from __future__ import annotations

import getpass
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from treadle.admin.jars import tez_jar
from treadle.dag.dag import Dag
from treadle.history.run import recurrence_key
from treadle.history.store import open_store
from treadle.lab.harness.sleeping_dags import MEMORY, VCORES, SleepingDags, master_log
from treadle.lab.harness.waiting import LONG_TIMEOUTS, START_TIMEOUT_S, wait_ended
from treadle.lab.minicluster import ClusterSettings, MiniCluster
from treadle.lab.minicluster.layout import LOOPBACK, free_ports
from treadle.lab.minicluster.site import CS, Entries, write_configuration, write_site
from treadle.lab.reproduce.graphene_cluster.jobs import NETWORK, NODE, UNIT_MB, DagSettings, runs_before

__all__ = ["SCHEMES", "WAIT_MS", "Ended", "Round", "Scheme", "name_of", "run_rounds"]

QUEUE: Final = "default"
GAP_S: Final = 2.0
"""Between the submissions of two DAGs: so their order is the same under every scheme."""
WAIT_MS: Final = 5_000
"""How long a DAG waits for its plan, at most."""
FOLLOWS: Final = "follows its plan"
"""What the plug-in logs of a DAG that does (`DagAgent`)."""

POLICY: Final = """\
policy:
  share: {{kind: deficit}}
  order: {{kind: srpt}}
  fit: {{kind: tetris}}
  estimate: {{kind: hints}}
plans: {{schedules: 400, claims_part: 0}}
listener: {{address: {address}, port: {port}}}
profiles: {{store: {store}}}
"""
"""The parts are those of conf/policies/graphene.yaml."""
SETTLED_S: Final = 120.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scheme:
    """Who orders the tasks of a DAG, and who places containers.

    Where Treadle does not score, its mode is ``observe_only``: stock code alone places, and the listener answers all
    the same.
    """

    name: str
    title: str
    plugin: bool = False
    scoring: bool = False
    silent: bool = False
    """Whom the plug-in asks takes the call and never answers: the worst that a sidecar can do."""

    @property
    def plans(self) -> bool:
        """Is there somebody who answers with plans?"""
        return self.plugin and not self.silent

    @property
    def mode(self) -> str:
        """Treadle's mode."""
        return "enforce" if self.scoring else "observe_only"


SCHEMES: Final = (
    Scheme("stock", "Tez's order, stock capacity"),
    Scheme("plan", "plan, stock capacity", plugin=True),
    Scheme("scoring", "Tez's order, scoring", scoring=True),
    Scheme("both", "plan and scoring", plugin=True, scoring=True),
    Scheme("silent", "plug-in without an answer, stock capacity", plugin=True, silent=True),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a DAG."""

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
    """Containers that Treadle placed (``treadle``), and that the stock scheduler did (``native``)."""


def queues() -> Entries:
    """Return capacity-scheduler.xml: one queue, of which one user may have all."""
    return {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}root.queues": QUEUE,
        f"{CS}root.{QUEUE}.capacity": "100",
        f"{CS}root.{QUEUE}.user-limit-factor": "10",
        f"{CS}maximum-am-resource-percent": "0.9",
    }


def name_of(scheme: Scheme, seed: int, dag: Dag) -> str:
    """Return a DAG's name under a scheme: what one scheme's run shows must not be known to the next one's."""
    return f"{scheme.name} draw {seed} {dag.name}"


def remember(draws: Mapping[int, Sequence[Dag]], store: Path) -> None:
    """Make a store of profiles that knows earlier runs of the DAGs under every scheme's name, and nothing else."""
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    now_ms = int(time.time() * 1000)
    with open_store(str(store)) as opened:
        for scheme in SCHEMES:
            for seed, dags in draws.items():
                for dag in dags:
                    key = recurrence_key(getpass.getuser(), QUEUE, "TEZ", name_of(scheme, seed, dag))
                    for run in runs_before(dag, key):
                        opened.put(run, now_ms)


def cluster_settings(
    draws: Mapping[int, Sequence[Dag]], settings: DagSettings, folder: Path, port: int
) -> ClusterSettings:
    """Return the cluster; its queues, policy and store are files beside ``folder``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    queue_file = folder.with_name(f"{folder.name}-queues.xml")
    write_site(queue_file, queues())
    store = folder.with_name(f"{folder.name}-profiles.db").resolve()
    remember(draws, store)
    file = folder.with_name(f"{folder.name}-treadle.yaml")
    file.write_text(POLICY.format(address=LOOPBACK, port=port, store=store))
    masters = math.ceil(settings.jobs / settings.nodes)  # nodes have room for them besides that for tasks
    return ClusterSettings(
        nodes=settings.nodes,
        memory_mb=NODE[MEMORY] + masters * UNIT_MB,
        vcores=NODE[VCORES] + masters,
        resources={NETWORK: NODE[NETWORK]},
        queues=queue_file,
        policy=file,
        overrides={"yarn.scheduler.minimum-allocation-mb": str(UNIT_MB), **LONG_TIMEOUTS},
        start_timeout_s=START_TIMEOUT_S,
    )


def tez_settings(scheme: Scheme, port: int) -> dict[str, str]:
    """Return what a scheme adds to tez-site.xml; containers are used again, as Tez does by default.

    Args:
        scheme: which.
        port: of whom its plug-in asks.
    """
    found = {"tez.am.resource.memory.mb": str(UNIT_MB), "tez.am.resource.cpu.vcores": "1"}
    if scheme.plugin:
        found |= {
            "tez.am.dag.scheduler.class": "io.treadle.tez.TreadleDagScheduler",
            "tez.aux.uris": f"file://{tez_jar()}",
            "treadle.plan.addresses": f"{LOOPBACK}:{port}",
            "treadle.plan.wait-ms": str(WAIT_MS),
        }
    return found


def run_rounds(
    draws: Mapping[int, Sequence[Dag]],
    settings: DagSettings,
    folder: Path,
    say: Say,
    schemes: Sequence[Scheme] = SCHEMES,
) -> Iterator[Round]:
    """Start a cluster in ``folder``, run each draw under every scheme, and stop the cluster whatever happens.

    Raises:
        ClusterError: the cluster does not start, a DAG is not submitted or does not end, or the ResourceManager does
            not answer.
    """
    port, silent = free_ports(2)
    cluster = MiniCluster(cluster_settings(draws, settings, folder, port), folder, say)
    with _never_answering(silent), cluster, SleepingDags(cluster) as client, cluster.answering():
        for turn, (seed, dags) in enumerate(draws.items()):
            first = turn % len(schemes)  # the machine's load changes with time: each comes first in turn
            for scheme in (*schemes[first:], *schemes[:first]):
                _set_mode(cluster, client, scheme.mode)
                named = [replace(dag, name=name_of(scheme, seed, dag)) for dag in dags]
                asked = tez_settings(scheme, silent if scheme.silent else port)
                yield _run(cluster, client, scheme, named, seed, asked, say)


@contextmanager
def _never_answering(port: int) -> Iterator[None]:
    """Listen at a port and take calls without a word."""
    with socket.create_server((LOOPBACK, port), backlog=64):
        yield


def _set_mode(cluster: MiniCluster, client: SleepingDags, mode: str) -> None:
    """Set who places from now on in the ResourceManager, and wait until it is so and nothing runs."""
    if cluster.rm.treadle()["Mode"] != mode:
        write_configuration(cluster.layout, replace(cluster.settings, mode=mode), cluster.lib)
        client.refresh_queues()

    def settled() -> bool:
        bean = cluster.rm.treadle()
        held = bean["LeaseHeld"] == 1 or mode != "enforce"
        return bean["Mode"] == mode and held and cluster.rm.metrics()["containersAllocated"] == 0

    cluster.wait_for(f"idle cluster in mode {mode}", settled, SETTLED_S)


def _submit_all(client: SleepingDags, dags: Sequence[Dag], tez: dict[str, str]) -> list[str]:
    """Submit DAGs, one every `GAP_S`; returns the ids of their applications when all application masters run."""

    def submit(late: tuple[int, Dag]) -> str:
        number, dag = late
        time.sleep(number * GAP_S)
        return client.submit(dag, tez)

    with ThreadPoolExecutor(len(dags)) as pool:
        return list(pool.map(submit, enumerate(dags)))


def _run(
    cluster: MiniCluster,
    client: SleepingDags,
    scheme: Scheme,
    dags: Sequence[Dag],
    seed: int,
    tez: dict[str, str],
    say: Say,
) -> Round:
    title = f"seed {seed}, {scheme.title}"
    say(f"{title}: DAGs are submitted")
    submitted = dict(zip(_submit_all(client, dags, tez), dags, strict=True))
    found = wait_ended(cluster, submitted, lambda ended: say(f"{title}: {ended} of {len(dags)} DAGs ended"))
    containers = cluster.containers()
    ended = tuple(_ended(cluster, dag, found[id_], len(containers.get(id_, ()))) for id_, dag in submitted.items())
    begun_ms = min(int(each["startedTime"]) for each in found.values())
    makespan_ms = max(int(each["finishedTime"]) for each in found.values()) - begun_ms
    counts = cluster.rm.placements()
    placed = {who: sum(counts.get(id_, {}).get(who, 0) for id_ in submitted) for who in ("treadle", "native")}
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
