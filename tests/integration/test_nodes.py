"""Nodes are lost, come back, and change their resources while Treadle schedules."""

from __future__ import annotations

import pytest
from tests.support.accounts import wait_adds_up
from tests.support.clusters import FaultyCluster
from tests.support.jobs import shell_job, sleep_job

pytestmark = pytest.mark.cluster


def test_a_job_survives_the_loss_of_a_node_which_is_used_again_when_it_is_back(cluster: FaultyCluster) -> None:
    lost = cluster.layout.node_id(2)

    def state() -> str:
        return str(next(node["state"] for node in cluster.rm.nodes() if node["id"] == lost))

    job = sleep_job(cluster, "node-lost", maps=6, map_ms=1500)
    job.wait_containers(3)
    cluster.finish("nm2")
    cluster.wait_for("node to be LOST", lambda: state() == "LOST", 60)
    wait_adds_up(cluster)
    cluster.start_node(2)
    cluster.wait_for("node to be RUNNING", lambda: state() == "RUNNING", 60)
    wait_adds_up(cluster)

    assert job.wait() == "SUCCEEDED"
    again = shell_job(cluster, "node-back", containers=8, container_ms=5000)
    used = cluster.wait_for(
        "container on the node that is back",
        lambda: [node for node in cluster.rm.nodes() if node["id"] == lost and node["numContainers"] > 0],
    )
    assert used
    assert again.wait() == "SUCCEEDED"


def test_a_node_that_shrinks_gets_no_more_than_it_has_now(cluster: FaultyCluster) -> None:
    node = cluster.layout.node_id(1)

    def memory_mb() -> int:
        found = next(entry for entry in cluster.rm.nodes() if entry["id"] == node)
        return int(found["usedMemoryMB"]) + int(found["availMemoryMB"])

    before_mb = memory_mb()
    cluster.admin("-updateNodeResource", node, "1024", "4")
    cluster.wait_for("smaller node", lambda: memory_mb() == 1024)
    job = shell_job(cluster, "node-shrunk", containers=12)
    wait_adds_up(cluster)
    seen: list[int] = []

    def ended() -> bool:
        seen.extend(int(entry["usedMemoryMB"]) for entry in cluster.rm.nodes() if entry["id"] == node)
        return job.state() != "UNDEFINED"

    cluster.wait_for("end of the job", ended, 120)
    cluster.admin("-updateNodeResource", node, str(before_mb), "8")
    cluster.wait_for("node as before", lambda: memory_mb() == before_mb)

    assert job.wait() == "SUCCEEDED"
    assert max(seen) <= 1024
