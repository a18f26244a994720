"""A sidecar that somebody else starts, as systemd would: the shim finds it, loses it, and finds the next one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from tests.support.accounts import wait_adds_up, wait_idle, wait_settled
from tests.support.clusters import LEASE_MS, for_shell_jobs
from tests.support.jobs import shell_job

from treadle.live.handshake import CODE_BYTES, NONCE_BYTES, OPENING, opening
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@contextmanager
def external_sidecar(connection: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`treadle sidecar run --external`, killed at the end."""
    command = [sys.executable, "-m", "treadle", "sidecar", "run", "--external", "--connection-file", str(connection)]
    with connection.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Squatter:
    """A process of another user's that has taken a killed sidecar's port: it answers as a sidecar would."""

    def __init__(self, port: int) -> None:
        self.heard: list[bytes] = []
        """What was said on each connection."""
        self._server = socket.create_server(("127.0.0.1", port))
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Squatter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._server.accept()
            except OSError:
                return
            with connected:
                connected.settimeout(30)
                said = connected.recv(1 << 16)
                connected.sendall(opening() + bytes(NONCE_BYTES + CODE_BYTES))
                while part := connected.recv(1 << 16):
                    said += part
                self.heard.append(said)


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
            **for_shell_jobs(tmp_path / "cluster"),
        },
    )
    cluster = MiniCluster(settings, tmp_path / "cluster")
    with external_sidecar(connection) as first, cluster:
        job = shell_job(cluster, "external")
        job.ends_placed_by_treadle()
        assert cluster.sidecar_pids() == []

        said = json.loads(connection.read_bytes())
        first.kill()
        first.wait()
        with Squatter(said["port"]) as squatter:
            cluster.wait_for("end of the lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 0)
            job = shell_job(cluster, "external-lost")
            wait_adds_up(cluster)
            assert job.wait() == "SUCCEEDED"
            assert cluster.rm.placements()[job.application_id] == {"treadle": 0, "native": job.containers()}
            wait_idle(cluster)
            cluster.wait_for("a call of the squatter", lambda: squatter.heard)
            assert "another process has its port" in cluster.rm.treadle()["LastError"]
        hello = OPENING.size + NONCE_BYTES
        assert {(one[: OPENING.size], len(one)) for one in squatter.heard} == {(opening(), hello)}
        assert said["secret"].encode() not in b"".join(squatter.heard)

        with external_sidecar(connection):
            cluster.wait_for("lease of the next sidecar", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 120)
            job = shell_job(cluster, "external-again")
            job.ends_placed_by_treadle()
            wait_settled(cluster)
