"""Two ResourceManagers, one of them active: a failover by an administrator while a job runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.accounts import wait_adds_up, wait_settled
from tests.support.clusters import LEASE_MS
from tests.support.engines import served_by
from tests.support.files import written
from tests.support.jobs import sleep_job
from tests.support.pairs import PairOfResourceManagers

SEVERAL = """
engines:
  mapreduce: {select: {types: [MAPREDUCE]}, policy: {order: {kind: srpt}}, fallback: rest}
  rest: {fallback: mapreduce}
"""

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
        assert cluster.rm.treadle()["CaughtExceptions"] == 0

        cluster.fail_over()
        cluster.wait_ready()
        job = sleep_job(cluster, "failed-back", maps=3)
        job.ends_placed_by_treadle()
        assert len(cluster.sidecar_pids()) == 1
        wait_settled(cluster)


def test_the_other_rm_takes_over_with_all_engines_of_a_roster(tmp_path: Path) -> None:
    policy = written(tmp_path / "treadle.yaml", SEVERAL)
    own = {"mapreduce": "mapreduce", "rest": "rest"}
    # so long that a busy machine costs no engine its lease
    with PairOfResourceManagers(tmp_path / "cluster", lease_ms=30_000, policy=policy) as cluster:
        cluster.wait_for("both engines", lambda: served_by(cluster) == own, 300)
        job = sleep_job(cluster, "failover", maps=24, map_ms=3000, settings={"mapreduce.map.memory.mb": "1024"})
        job.wait_containers(3)
        before = cluster.sidecar_pids()

        cluster.fail_over()

        cluster.wait_for("end of the other RM's sidecars", lambda: not set(before) & set(cluster.sidecar_pids()), 120)
        cluster.wait_ready()
        cluster.wait_for("both engines", lambda: served_by(cluster) == own, 300)
        assert len(cluster.sidecar_pids()) == 2
        assert job.wait() == "SUCCEEDED"
        late = sleep_job(cluster, "after", maps=2)
        late.ends_placed_by_treadle()
        assert cluster.rm.treadle()["CaughtExceptions"] == 0
        wait_settled(cluster)
        wait_adds_up(cluster)
