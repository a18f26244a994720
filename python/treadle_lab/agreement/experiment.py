"""The same jobs on a mini cluster and in the simulator, under the same policy, with the same engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from treadle.config.reader import read_settings
from treadle.policy.catalogue import register_parts
from treadle_lab.agreement.trace import (
    AuditedApplication,
    Trace,
    launch_ms,
    read_audit_log,
    real_trace,
    simulated_trace,
)
from treadle_lab.agreement.workload import (
    CPU,
    JOBS,
    MASTER_HEARTBEAT_MS,
    NODE_HEARTBEAT_MS,
    NODES,
    PLENTY_MB,
    PLENTY_VCORES,
    POLICIES,
    SECOND_PHASE_S,
    SleepingJob,
    command,
    queue_entries,
)
from treadle_lab.harness import distributed_shell as sleepers
from treadle_lab.harness.distributed_shell import Sleeper
from treadle_lab.harness.waiting import LONG_TIMEOUTS, START_TIMEOUT_S
from treadle_lab.minicluster import ClusterError, ClusterSettings, MiniCluster
from treadle_lab.minicluster.site import write_site

__all__ = ["Both", "run_both"]

TICK_MS: Final = 10
"""The shim's default."""
JOB_TIMEOUT_S: Final = 600.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Both:
    """A policy's run on the cluster and in the simulator.

    `master_start_s` and `launch_ms` were measured on the cluster; the second is the simulator's setting.
    `placed` counts the cluster's containers by who placed them.
    """

    policy: str
    real: Trace
    simulated: Trace
    master_start_s: float
    launch_ms: int
    placed: dict[str, int]


def run_both(policy: str, folder: Path, say: Say) -> Both:
    """Run the jobs under one of `POLICIES` on a cluster in `folder`, then in the simulator.

    Raises:
        ClusterError: the cluster or a job does not start, fails or does not end, or the RM does not answer.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_name(f"{folder.name}-{policy}.yaml")
    file.write_text(POLICIES[policy])
    register_parts()
    settings = read_settings(file)
    with MiniCluster(_cluster_settings(folder, file), folder, say) as cluster, cluster.answering():
        applications, placed = _run_jobs(cluster, policy, say)
    real = real_trace(applications)
    overheads = [overhead for application in applications.values() for overhead in application.overheads_s]
    # On average half of each period passes until a heartbeat.
    measured = launch_ms(overheads, (NODE_HEARTBEAT_MS + MASTER_HEARTBEAT_MS) / 2)
    say(f"{policy}: the same in the simulator, tasks begin after {measured} ms")
    begins = {name: job.begin_s for name, job in real.jobs.items()}
    simulated = simulated_trace(begins, settings, measured, TICK_MS)
    start_s = median(application.master_start_s for application in applications.values())
    return Both(policy, real, simulated, start_s, measured, placed)


def _cluster_settings(folder: Path, policy: Path) -> ClusterSettings:
    queues = folder.with_name(f"{folder.name}-queues.xml")
    write_site(queues, queue_entries())
    return ClusterSettings(
        nodes=NODES,
        memory_mb=PLENTY_MB,
        vcores=PLENTY_VCORES,
        resources={"cpu": CPU, "gpu": CPU},
        queues=queues,
        policy=policy,
        heartbeat_ms=NODE_HEARTBEAT_MS,
        overrides={
            "yarn.nodemanager.admin-env": sleepers.node_environment(str(folder.resolve())),
            "yarn.nodemanager.container-monitor.enabled": "false",
        }
        | LONG_TIMEOUTS,
        start_timeout_s=START_TIMEOUT_S,
    )


def _run_jobs(cluster: MiniCluster, policy: str, say: Say) -> tuple[dict[str, AuditedApplication], dict[str, int]]:
    """Submit all jobs and wait for their ends; return the applications and who placed containers."""
    running: dict[str, Sleeper] = {}
    for late in (False, True):
        coming = {job.name: _submit(cluster, job) for job in JOBS if job.late is late}
        for sleeper in coming.values():
            sleeper.wait_running(cluster)
        running |= coming
        say(f"{policy}: {', '.join(coming)} run")
        if not late:
            time.sleep(SECOND_PHASE_S)
    for name, sleeper in running.items():
        _wait_end(cluster, name, sleeper)
    audited = read_audit_log(cluster.layout.audit_log)
    placed = {"treadle": 0, "native": 0} | cluster.rm.placed()
    return {name: audited[sleeper.application_id] for name, sleeper in running.items()}, placed


def _submit(cluster: MiniCluster, job: SleepingJob) -> Sleeper:
    return sleepers.submit(cluster, job.leaf, job.name, job.demand, job.tasks, command())


def _wait_end(cluster: MiniCluster, name: str, sleeper: Sleeper) -> None:
    """Wait until a job has ended well."""

    def over() -> bool:
        return int(cluster.rm.application(sleeper.application_id)["finishedTime"]) > 0

    cluster.wait_for(f"end of {name}", over, JOB_TIMEOUT_S, poll_s=0.5)
    application = cluster.rm.application(sleeper.application_id)
    if application["finalStatus"] != "SUCCEEDED":
        raise ClusterError(f"{name} ended as {application['finalStatus']}: {application['diagnostics'].strip()}")
