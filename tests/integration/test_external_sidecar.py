"""A sidecar that somebody else starts, as systemd would: the shim finds it, loses it, and finds the next one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.accounts import wait_adds_up, wait_idle, wait_settled
from tests.support.clusters import LEASE_MS
from tests.support.jobs import sleep_job

from treadle.minicluster.cluster import MiniCluster
from treadle.minicluster.settings import ClusterSettings

pytestmark = pytest.mark.cluster


@contextmanager
def external_sidecar(connection: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`treadle sidecar --external`, killed at the end."""
    command = [sys.executable, "-m", "treadle", "sidecar", "--external", "--connection-file", str(connection)]
    with connection.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
def test_jobs_run_by_an_external_sidecar_and_by_the_one_that_replaces_it(tmp_path: Path) -> None:
    connection = tmp_path / "connection.json"
    settings = ClusterSettings(
        nodes=1,
        memory_mb=4096,
        overrides={
            "yarn.scheduler.treadle.sidecar": "external",
            "yarn.scheduler.treadle.sidecar.connection-file": str(connection),
            "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
        },
    )
    cluster = MiniCluster(settings, tmp_path / "cluster")
    with external_sidecar(connection) as first, cluster:
        job = sleep_job(cluster, "external", maps=3)
        assert job.wait() == "SUCCEEDED"
        assert cluster.rm.placements()[job.application_id] == {"treadle": job.containers(), "native": 0}
        assert cluster.sidecar_pids() == []

        first.kill()
        first.wait()
        cluster.wait_for("end of the lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 0)
        job = sleep_job(cluster, "external-lost", maps=3)
        wait_adds_up(cluster)
        assert job.wait() == "SUCCEEDED"
        assert cluster.rm.placements()[job.application_id] == {"treadle": 0, "native": job.containers()}
        wait_idle(cluster)

        with external_sidecar(connection):
            cluster.wait_for("lease of the next sidecar", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 120)
            job = sleep_job(cluster, "external-again", maps=3)
            assert job.wait() == "SUCCEEDED"
            assert cluster.rm.placements()[job.application_id] == {"treadle": job.containers(), "native": 0}
            wait_settled(cluster)
