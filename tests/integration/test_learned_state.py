"""The state of fair-finish on a real cluster outlives a sidecar that is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.accounts import wait_settled
from tests.support.clusters import faulty_cluster
from tests.support.files import written
from tests.support.jobs import shell_job

from treadle.live.learned_file import FILE
from treadle.policy.fair_finish import Kept
from treadle.shipped import policies_folder

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def saved(folder: Path) -> Kept | None:
    """Return the state that a sidecar has saved last, if one has."""
    for file in folder.rglob(FILE):
        return Kept.model_validate_json(file.read_bytes())
    return None


def measured_ms(kept: Kept | None) -> float:
    """Return the task time that a state knows of the only application."""
    return float(kept.rows()["tested_ms"].sum()) if kept is not None else 0.0


def test_the_next_sidecar_knows_the_task_time_that_the_one_before_it_has_measured(tmp_path: Path) -> None:
    text = (policies_folder() / "fair-finish.yaml").read_text()
    with faulty_cluster(tmp_path, policy=written(tmp_path / "treadle.yaml", text)) as cluster:
        # more containers than there is room for: the policy measures when it decides, and it decides while some wait
        job = shell_job(cluster, "measured", containers=14, container_ms=90_000)
        cluster.wait_for("task time", lambda: measured_ms(saved(tmp_path)) > 200_000.0, 180)
        first = cluster.sidecar_pid()

        os.kill(first, signal.SIGKILL)
        before = saved(tmp_path)
        cluster.wait_for("another sidecar", lambda: cluster.sidecar_pids() not in ([], [first]), 60)
        cluster.wait_for("a state of the next sidecar", lambda: saved(tmp_path) != before, 60)

        # without the earlier state, the first that it saves has the few seconds since its start
        assert measured_ms(saved(tmp_path)) >= measured_ms(before)
        assert job.wait() == "SUCCEEDED"
        wait_settled(cluster)
