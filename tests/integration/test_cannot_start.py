"""A sidecar that cannot start: the stock scheduler works, and one clear line says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.accounts import wait_adds_up, wait_idle
from tests.support.clusters import for_shell_jobs
from tests.support.files import written
from tests.support.jobs import shell_job

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = pytest.mark.cluster


def test_no_python_and_then_a_bad_configuration(tmp_path: Path) -> None:
    policy = written(tmp_path / "treadle.yaml", "policy:\n  fit: {kind: packng}\n")
    command = tmp_path / "treadle"
    # `waits_for_lease` must be off: no engine will ever hold one
    settings = ClusterSettings(
        nodes=1,
        memory_mb=4096,
        mode="observe_only",
        overrides={
            "yarn.scheduler.treadle.mode": "enforce",
            "yarn.scheduler.treadle.python.command": str(command),
            "yarn.scheduler.treadle.config.file": str(policy),
            **for_shell_jobs(tmp_path / "cluster"),
        },
    )
    with MiniCluster(settings, tmp_path / "cluster") as cluster:
        error = cluster.wait_for("error that names the command", lambda: cluster.rm.treadle()["LastError"])
        assert str(command) in error
        assert "\n" not in error
        job = shell_job(cluster, "no-python", containers=2)
        wait_adds_up(cluster)
        assert job.wait() == "SUCCEEDED"
        placed = cluster.rm.placements()[job.application_id]
        assert placed == {"treadle": 0, "native": job.containers()}
        wait_idle(cluster)

        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m treadle "$@"\n')
        command.chmod(0o755)
        cluster.admin("-refreshQueues")
        error = cluster.wait_for("error that names the value", lambda: bad_value(cluster), 90)
        assert f"{policy}:2" in error
        assert "packing" in error
        assert cluster.rm.treadle()["LeaseHeld"] == 0


def bad_value(cluster: MiniCluster) -> str:
    """Return the last error if it is about the wrong kind in the treadle.yaml, else nothing."""
    error = str(cluster.rm.treadle()["LastError"])
    return error if "packng" in error else ""
