"""`yarn rmadmin -refreshQueues`: queues come and go, the mode changes, bad values are refused."""

from __future__ import annotations

import pytest
from tests.support.accounts import wait_adds_up
from tests.support.clusters import FaultyCluster
from tests.support.jobs import shell_job
from tests.support.sites import MODE, change

from treadle_lab.minicluster.settings import ClusterError

pytestmark = pytest.mark.cluster

PREFIX = "yarn.scheduler.capacity.root"


def state_of(cluster: FaultyCluster, name: str) -> str:
    """The state of a queue below root, empty if there is none."""
    info = cluster.rm.get("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    return next((str(queue["state"]) for queue in info["queues"]["queue"] if queue["queueName"] == name), "")


def test_a_bad_mode_is_refused_with_its_key_and_changes_nothing(cluster: FaultyCluster) -> None:
    site = cluster.folder / "rm" / "yarn-site.xml"
    site = site if site.is_file() else cluster.layout.conf / "yarn-site.xml"
    before = site.read_text()
    try:
        change(site, {MODE: "enforced"})
        with pytest.raises(ClusterError, match=r"yarn\.scheduler\.treadle\.mode.*enforced") as refused:
            cluster.admin("-refreshQueues")
        assert "observe_only" in str(refused.value)
        assert cluster.rm.treadle()["Mode"] == "enforce"
        assert cluster.rm.treadle()["LeaseHeld"] == 1
    finally:
        site.write_text(before)
        cluster.admin("-refreshQueues")


def test_the_mode_changes_while_a_job_runs(cluster: FaultyCluster) -> None:
    site = cluster.layout.conf / "yarn-site.xml"
    before = site.read_text()
    job = shell_job(cluster, "mode-changes", containers=24, container_ms=5000)
    job.wait_containers(2)
    try:
        change(site, {MODE: "off"})
        cluster.admin("-refreshQueues")
        cluster.wait_for("mode off", lambda: cluster.rm.treadle()["Mode"] == "off")
        cluster.wait_for("a native placement", lambda: cluster.rm.placements()[job.application_id]["native"] > 0, 120)
        wait_adds_up(cluster)
    finally:
        site.write_text(before)
        cluster.admin("-refreshQueues")
    cluster.wait_for("mode enforce", lambda: cluster.rm.treadle()["Mode"] == "enforce")
    wait_adds_up(cluster)

    assert job.wait() == "SUCCEEDED"
    assert cluster.rm.placements()[job.application_id]["treadle"] > 0


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
def test_a_queue_is_added_used_stopped_and_removed(cluster: FaultyCluster) -> None:
    queues = cluster.layout.conf / "capacity-scheduler.xml"
    before = queues.read_text()
    try:
        added: dict[str, str | None] = {
            f"{PREFIX}.queues": "default,batch,late",
            f"{PREFIX}.batch.capacity": "30",
            f"{PREFIX}.late.capacity": "20",
            f"{PREFIX}.late.maximum-capacity": "100",
            f"{PREFIX}.late.user-limit-factor": "5",
        }
        change(queues, added)
        cluster.admin("-refreshQueues")
        job = shell_job(cluster, "late-queue", queue="late")
        job.ends_placed_by_treadle()

        change(queues, {f"{PREFIX}.late.state": "STOPPED"})
        cluster.admin("-refreshQueues")
        # a queue that drains cannot be removed
        cluster.wait_for("queue to be STOPPED", lambda: state_of(cluster, "late") == "STOPPED")
    finally:
        queues.write_text(before)
        cluster.admin("-refreshQueues")

    assert state_of(cluster, "late") == ""
    remaining = shell_job(cluster, "after-the-queue", containers=2, queue="batch")
    remaining.ends_placed_by_treadle()
