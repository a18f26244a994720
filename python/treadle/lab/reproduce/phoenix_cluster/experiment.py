"""Asks that only some nodes can serve, on real ResourceManagers: four schedulers get the same jobs in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from treadle.admin.install import ready_made
from treadle.lab.harness import distributed_shell
from treadle.lab.harness.map_reduce_jobs import MapReduceJobs, SleepJob
from treadle.lab.harness.waiting import LONG_TIMEOUTS, START_TIMEOUT_S, wait_ended
from treadle.lab.minicluster import (
    ClusterError,
    ClusterSettings,
    MiniCluster,
    NodeAttribute,
    NodeLabel,
    Scheduler,
)
from treadle.lab.reproduce.phoenix_cluster.blind import write_command
from treadle.lab.reproduce.phoenix_cluster.jobs import KINDS, NODES, SLOTS, SPECIAL, Arrival

__all__ = ["SCHEMES", "Ended", "Round", "Scheme", "cluster_settings", "run_scheme", "schemes"]

TASK_MB: Final = 512
MASTER_MB: Final = 128
MASTERS: Final = 8
"""Application masters that a node has room for beside its tasks."""
RESOURCE: Final = "gpu"
ALLOCATOR: Final = {
    "yarn.scheduler.app-placement-allocator.class": "io.treadle.shim.constraints.TreadlePlacementAllocator"
}
HANDLER: Final = {"yarn.resourcemanager.placement-constraints.handler": "scheduler"}
POLICY: Final = """\
policy:
  share: {kind: capacity}
  order: {kind: srpt}
  fit: {kind: packing}
  estimate: {kind: observed}
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheduler; ``policy`` is a treadle.yaml, empty under the stock one."""

    name: str
    scheduler: Scheduler
    policy: str = ""


SCHEMES: Final = ("stock", "blind", "srpt", "phoenix")


def schemes() -> list[Scheme]:
    """Return the schemes; phoenix only if this version has that policy."""
    found = [
        Scheme("stock", Scheduler.CAPACITY),
        Scheme("blind", Scheduler.TREADLE, POLICY),
        Scheme("srpt", Scheduler.TREADLE, POLICY),
    ]
    file = ready_made().get("phoenix")
    return found if file is None else [*found, Scheme("phoenix", Scheduler.TREADLE, file.read_text("utf-8"))]


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a job."""

    name: str
    short: bool
    framework: str
    status: str
    completion_ms: int
    """From its submission to its end, by the ResourceManager's clock."""
    misplaced: int
    """Containers beside its master's on nodes that it does not allow."""


@dataclass(frozen=True, slots=True)
class Round:
    """The jobs of a seed under one scheduler."""

    seed: int
    kind: str
    scheme: str
    jobs: tuple[Ended, ...]
    proposals: int
    """Of the engine; 0 under the stock scheduler."""
    constraint_rejections: int


def cluster_settings(scheme: Scheme, kind: str, folder: Path) -> ClusterSettings:
    """Return the cluster of a scheme; its policy is a file beside ``folder``."""
    overrides = {**ALLOCATOR, **HANDLER, "yarn.nodemanager.admin-env": distributed_shell.node_environment(str(folder))}
    policy = None
    if scheme.scheduler is Scheduler.TREADLE:
        folder.parent.mkdir(parents=True, exist_ok=True)
        policy = folder.with_name(f"{folder.name}-treadle.yaml")
        policy.write_text(scheme.policy)
        overrides |= LONG_TIMEOUTS
    if scheme.name == "blind":
        command = write_command(folder.with_name(f"{folder.name}-blind"))
        overrides["yarn.scheduler.treadle.python.command"] = str(command)
    settings = ClusterSettings(
        nodes=NODES,
        memory_mb=SLOTS * TASK_MB + MASTERS * MASTER_MB,
        vcores=64,
        scheduler=scheme.scheduler,
        policy=policy,
        # names of their own in every round, so that the rounds differ in nothing else
        attributes=(NodeAttribute("zone", "special", SPECIAL),),
        overrides=overrides,
        start_timeout_s=START_TIMEOUT_S,
    )
    if kind == "resource":
        return replace(settings, resources={RESOURCE: SLOTS}, resource_nodes={RESOURCE: SPECIAL})
    if kind == "label":
        return replace(settings, labels=(NodeLabel("special", SPECIAL, exclusive=False),))
    return settings


def requirement(kind: str) -> str:
    """Return what short jobs require in a tag; a label is asked for in YARN's own way."""
    return {"attribute": "zone=special", "resource": f"{RESOURCE}>=1"}.get(kind, "")


def run_scheme(scheme: Scheme, jobs: list[Arrival], seed: int, kind: str, folder: Path, say: Say) -> Round:
    """Start a cluster in ``folder``, run the jobs on it, and stop it whatever happens.

    Raises:
        ClusterError: the cluster does not start, a job is not submitted or does not end, or the ResourceManager does
            not answer.
    """
    assert kind in KINDS
    cluster = MiniCluster(cluster_settings(scheme, kind, folder), folder, say)
    with cluster, MapReduceJobs(cluster) as client, cluster.answering():
        return _run(cluster, client, scheme, jobs, seed, kind, say)


def _run(
    cluster: MiniCluster, client: MapReduceJobs, scheme: Scheme, jobs: list[Arrival], seed: int, kind: str, say: Say
) -> Round:
    title = f"seed {seed}, {kind}, {scheme.name}"
    submitted: dict[str, Arrival] = {}
    shells: list[tuple[str, Arrival, distributed_shell.Sleeper]] = []
    started = time.monotonic()
    for arrival in jobs:
        time.sleep(max(0.0, started + arrival.at_ms / 1000 - time.monotonic()))
        if arrival.framework == "MapReduce":
            submitted[client.submit(_map_reduce(arrival, kind))] = arrival
        else:
            tag = f"{arrival.name}-seed-{seed}"
            shells.append((tag, arrival, _shell(cluster, arrival, kind, tag)))
        say(f"{title}: {len(submitted) + len(shells)} of {len(jobs)} jobs submitted")
    for tag, arrival, shell in shells:
        submitted[_application_of(cluster, tag, shell)] = arrival
    found = wait_ended(cluster, submitted, lambda ended: say(f"{title}: {ended} of {len(jobs)} jobs ended"))
    ended = tuple(_ended(cluster, submitted[id_], found[id_], kind) for id_ in submitted)
    bean = cluster.rm.treadle()
    return Round(seed, kind, scheme.name, ended, int(bean.get("Proposals", 0)), int(bean.get("RejectedConstraint", 0)))


def _map_reduce(arrival: Arrival, kind: str) -> SleepJob:
    """Return the job: it says what it requires in a tag, or asks for the label."""
    tags = [arrival.name]
    settings = {
        "mapreduce.map.memory.mb": str(TASK_MB),
        "yarn.app.mapreduce.am.resource.mb": str(MASTER_MB),
    }
    if requirement(kind):
        tags.append(f"treadle:require={requirement(kind)}")
    else:
        settings["mapreduce.map.node-label-expression"] = "special"
    settings["mapreduce.job.tags"] = ",".join(tags)
    return SleepJob(arrival.name, "ann", arrival.tasks, arrival.task_ms, settings=settings)


def shell_options(arrival: Arrival, kind: str) -> tuple[list[str], list[str]]:
    """Return further tags and arguments of the distributed shell: the client's own way, if it has one."""
    if not arrival.short:
        return [], []
    if kind == "attribute":
        return [], ["-placement_spec", f"short({arrival.tasks}),rm.yarn.io/zone=special"]
    if kind == "label":
        return [], ["-node_label_expression", "special"]
    return [f"treadle:require={requirement(kind)}"], []


def _shell(cluster: MiniCluster, arrival: Arrival, kind: str, tag: str) -> distributed_shell.Sleeper:
    tags, options = shell_options(arrival, kind)
    return distributed_shell.submit(
        cluster,
        "default",
        tag,
        {},
        arrival.tasks,
        f"sleep {arrival.task_ms / 1000:g}",
        memory_mb=TASK_MB,
        more=distributed_shell.More(tags=tuple(tags), arguments=tuple(options), master_mb=MASTER_MB),
    )


def _application_of(cluster: MiniCluster, tag: str, shell: distributed_shell.Sleeper) -> str:
    def known() -> str:
        if (found := cluster.rm.applications(applicationTags=tag)) or shell.client.poll() in (None, 0):
            return str(found[0]["id"]) if found else ""
        raise ClusterError(f"the job {tag} was not submitted; see {cluster.layout.logs}/client-{tag}.log")

    return str(cluster.wait_for(f"application of {tag}", known, distributed_shell.START_TIMEOUT_S))


def _ended(cluster: MiniCluster, arrival: Arrival, application: dict[str, Any], kind: str) -> Ended:
    return Ended(
        arrival.name,
        arrival.short,
        arrival.framework,
        str(application["finalStatus"]),
        int(application["finishedTime"]) - int(application["startedTime"]),
        misplaced(cluster.folder, application["id"]) if arrival.short else 0,
    )


def misplaced(folder: Path, application_id: str) -> int:
    """Count the containers of a short job that ran on other nodes, its masters' left out, by the nodes' logs."""
    found = 0
    for number in range(1, NODES + 1):
        if number not in SPECIAL:
            logs = folder / f"nm{number}" / "containers" / application_id
            found += sum(not one.name.endswith("_000001") for one in logs.glob("container_*"))
    return found
