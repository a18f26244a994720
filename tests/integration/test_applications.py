"""Applications are killed and their masters fail while Treadle schedules."""

from __future__ import annotations

import psutil
import pytest
from tests.support.accounts import wait_adds_up, wait_idle
from tests.support.clusters import FaultyCluster
from tests.support.jobs import Job, shell_job, sleep_job

pytestmark = pytest.mark.cluster

APPLICATION_CLI = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"


def test_a_killed_application_leaves_no_container(cluster: FaultyCluster) -> None:
    job = shell_job(cluster, "app-killed", containers=12, container_ms=60_000)
    job.wait_containers(4)

    killer = cluster.submit(
        cluster.java(APPLICATION_CLI, "application", "-kill", job.application_id), cluster.layout.logs / "kill.log"
    )

    assert killer.wait(timeout=120) == 0
    assert job.wait() == "KILLED"
    wait_idle(cluster)


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
def test_a_master_that_dies_is_started_again_by_treadle(cluster: FaultyCluster) -> None:
    job = sleep_job(cluster, "master-dies", maps=6, map_ms=2000)
    job.wait_containers(3)

    cluster.wait_for("application master's process", lambda: masters(job)).pop().kill()
    wait_adds_up(cluster)

    assert job.wait() == "SUCCEEDED"
    attempts = cluster.rm.get(f"/ws/v1/cluster/apps/{job.application_id}/appattempts")
    assert len(attempts["appAttempts"]["appAttempt"]) == 2
    assert cluster.rm.placements()[job.application_id]["native"] == 0


def masters(job: Job) -> list[psutil.Process]:
    """The JVMs of a job's application master."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "MRAppMaster" in line and job.application_id in line and line.split()[0].endswith("java"):
            found.append(process)
    return found
