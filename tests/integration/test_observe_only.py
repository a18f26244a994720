"""Mode observe_only: nothing is placed by Treadle, and the sidecar shows the comparison with the stock scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.accounts import wait_adds_up, wait_idle
from tests.support.cli import printed_json
from tests.support.clusters import for_shell_jobs
from tests.support.files import written
from tests.support.jobs import shell_job

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = pytest.mark.cluster


def test_the_comparison_is_shown_and_outlives_the_sidecar_and_nothing_is_placed(tmp_path: Path) -> None:
    policy = written(tmp_path / "treadle.yaml", "seed: 1\n")
    overrides = for_shell_jobs(tmp_path / "cluster")
    settings = ClusterSettings(nodes=2, memory_mb=4096, mode="observe_only", policy=policy, overrides=overrides)
    with MiniCluster(settings, tmp_path / "cluster") as cluster:
        cluster.wait_for("first answer", lambda: cluster.rm.treadle()["Frames"] > 0, 120)
        job = shell_job(cluster, "observed")
        wait_adds_up(cluster)
        assert job.wait() == "SUCCEEDED"
        assert cluster.rm.placements()[job.application_id] == {"treadle": 0, "native": job.containers()}
        assert cluster.rm.treadle()["Committed"] == 0
        cluster.wait_for("observed proposals", lambda: cluster.rm.treadle()["Observed"] > 0)

        wait_idle(cluster)
        cluster.wait_for("all are compared", lambda: compared(seen(cluster)["total"]) == job.containers())
        found = seen(cluster)
        command = [sys.executable, "-m", "treadle", "observe", "--rm", cluster.rm.url]
        table = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        os.kill(cluster.sidecar_pid(), signal.SIGTERM)
        after = cluster.wait_for("another sidecar", lambda: interrupted(cluster), 120)

    total = found["total"]
    assert found["stock_placements"] == job.containers()
    assert total["earlier"] + total["later"] == total["same_node"] + total["other_node"]
    assert total["waiting"] == 0, "nothing is asked for any more"
    assert found["warnings"] == []
    assert table.returncode == 0, table.stderr
    assert "root.default" in table.stdout
    assert after["interrupted_ms"] > 0
    same = (
        "since_ms",
        "stock_placements",
        "forgotten",
        "would_reject",
        "total",
        "by_queue",
        "by_framework",
        "warnings",
    )
    assert {name: after[name] for name in same} == {name: found[name] for name in same}


def seen(cluster: MiniCluster) -> dict[str, Any]:
    code, document = printed_json("observe", "--rm", cluster.rm.url)
    assert code == 0
    return document


def compared(total: dict[str, int]) -> int:
    return total["same_node"] + total["other_node"] + total["capacity_scheduler_only"]


def interrupted(cluster: MiniCluster) -> dict[str, Any]:
    """Return what is seen once a sidecar answers that has followed another one; nothing before."""
    code, document = printed_json("observe", "--rm", cluster.rm.url)
    return document if code == 0 and document["interruptions"] else {}
