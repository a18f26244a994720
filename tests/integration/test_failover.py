"""Two ResourceManagers, one of them active: a failover by an administrator while a job runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.accounts import wait_adds_up, wait_settled
from tests.support.clusters import LEASE_MS
from tests.support.jobs import sleep_job
from tests.support.pairs import PairOfResourceManagers

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
def test_the_other_rm_takes_over_with_an_engine_of_its_own_and_gives_back(tmp_path: Path) -> None:
    with PairOfResourceManagers(tmp_path / "cluster", lease_ms=LEASE_MS) as cluster:
        job = sleep_job(cluster, "failover", maps=24, map_ms=3000, settings={"mapreduce.map.memory.mb": "1024"})
        job.wait_containers(3)
        first = cluster.sidecar_pid()

        cluster.fail_over()

        cluster.wait_for("one sidecar, of the other RM", lambda: cluster.sidecar_pids() not in ([first], []), 60)
        cluster.wait_ready()
        assert first not in cluster.sidecar_pids()
        wait_adds_up(cluster)
        before = cluster.rm.treadle()["Committed"]
        assert job.wait() == "SUCCEEDED"
        assert cluster.rm.treadle()["Committed"] > before
        assert cluster.rm.treadle()["Escapes"] == 0

        cluster.fail_over()
        cluster.wait_ready()
        job = sleep_job(cluster, "failed-back", maps=3)
        assert job.wait() == "SUCCEEDED"
        assert cluster.rm.placements()[job.application_id]["native"] == 0
        assert len(cluster.sidecar_pids()) == 1
        wait_settled(cluster)
