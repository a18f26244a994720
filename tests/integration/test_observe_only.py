"""Mode observe_only: nothing is placed by Treadle, and the comparison with the stock scheduler is there to look at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.accounts import wait_adds_up, wait_idle
from tests.support.clusters import for_shell_jobs
from tests.support.jobs import shell_job

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = pytest.mark.cluster


def test_the_comparison_is_shown_and_nothing_is_placed(tmp_path: Path) -> None:
    settings = ClusterSettings(
        nodes=2, memory_mb=4096, mode="observe_only", overrides=for_shell_jobs(tmp_path / "cluster")
    )
    with MiniCluster(settings, tmp_path / "cluster") as cluster:
        cluster.wait_for("first answer", lambda: cluster.rm.treadle()["Frames"] > 0, 120)
        job = shell_job(cluster, "observed")
        wait_adds_up(cluster)
        assert job.wait() == "SUCCEEDED"
        assert cluster.rm.placements()[job.application_id] == {"treadle": 0, "native": job.containers()}
        assert cluster.rm.treadle()["Committed"] == 0
        cluster.wait_for("observed proposals", lambda: cluster.rm.treadle()["Observed"] > 0)

        wait_idle(cluster)
        command = [sys.executable, "-m", "treadle", "observe", "--rm", cluster.rm.url]
        shown = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=60)
        table = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    observed = json.loads(shown.stdout)
    total = observed["total"]
    assert observed["stock_placements"] == total["same_node"] + total["other_node"] + total["stock_only"] > 0
    assert total["earlier"] + total["later"] == total["same_node"] + total["other_node"]
    assert total["waiting"] == 0, "nothing is asked for any more"
    assert "root.default" in shown.stdout
    assert "root.default" in table.stdout
