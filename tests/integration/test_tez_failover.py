"""A failover in the middle of a Tez DAG with the plug-in: the engine of the other ResourceManager gets all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.test_tez_plugin import SLEEP, TezCluster, write_policy
from tests.support.clusters import LEASE_MS
from tests.support.pairs import PairOfResourceManagers

from treadle.history.store import open_store
from treadle_lab.minicluster.site import free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_dag_goes_on_by_its_plan_and_none_of_its_tasks_is_forgotten(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    policy = write_policy(tmp_path, port)
    with PairOfResourceManagers(tmp_path / "cluster", lease_ms=LEASE_MS, policy=policy) as cluster:
        tez = TezCluster(cluster, tmp_path, port)
        # some at a time: there is not room for all
        large = {"tez.task.resource.memory.mb": "2048"}
        job = tez.start("fails-over", SLEEP, "-m", "8", "-r", "1", "-mt", "8000", "-rt", "100", settings=large)
        cluster.wait_for("its plan", lambda: "follows its plan" in tez.master_log(job), 120)
        cluster.wait_for("maps that have ended", lambda: float(str(job.application()["progress"])) >= 10.0, 120)
        assert job.state() == "UNDEFINED"
        first = cluster.sidecar_pid()

        cluster.fail_over()

        cluster.wait_for("the sidecar of the other RM", lambda: cluster.sidecar_pids() not in ([first], []), 60)
        cluster.wait_ready()
        assert job.wait() == "SUCCEEDED"
        assert "natural order" not in tez.master_log(job)
        # the next job's frames bring what was reported into the store
        assert tez.start("after", SLEEP, "-m", "1", "-r", "1", "-mt", "100", "-rt", "100").wait() == "SUCCEEDED"
    run = job.application_id.replace("application", "dag") + "_1"
    with open_store(str(tmp_path / "profiles.db"), read_only=True) as store:
        stages = [stage for profile in store.profiles() for stage in profile.stages]
    widths = {stage.name: recent.width for stage in stages for recent in stage.recent if recent.run == run}
    assert widths == {"map": 8, "ireduce1": 1, "reduce": 1}
    counted = {stage.name: stage.durations.count for stage in stages if stage.name in widths}
    # those that had ended before the failover too; the job that came next may have added one each
    assert all(counted[name] >= width for name, width in widths.items())
    assert counted["map"] <= 9
