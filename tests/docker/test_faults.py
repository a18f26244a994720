"""Containers that die, a network that is cut, a ResourceManager that starts anew: jobs end and usage adds up."""

from __future__ import annotations

import time

from tests.docker.cluster import SLEEP, DockerCluster, Submitted
from tests.support.accounts import wait_adds_up

CUT_S = 30.0
NODE_EXPIRES_S = 120.0


def started(cluster: DockerCluster, tag: str, maps: int = 7, running: int = 3) -> Submitted:
    """Start a job of several waves of maps and wait until this many of them run."""
    sleeps = ("-Dmapreduce.map.memory.mb=1024", "-m", str(maps), "-r", "1", "-mt", "5000", "-rt", "500")
    job = cluster.map_reduce(tag, SLEEP, *sleeps, queue="batch")
    identity = str(job.application()["id"])
    cluster.wait_for(f"maps of {tag}", lambda: cluster.rm.application(identity)["runningContainers"] > running, 120)
    return job


def test_a_killed_sidecar_is_started_anew_and_no_job_is_lost(cluster: DockerCluster) -> None:
    job = started(cluster, "sidecar-killed")
    flips = cluster.rm.treadle()["LeaseFlips"]
    cluster.kill_inside("sidecar")
    cluster.wait_for("engine without the lease", lambda: cluster.rm.treadle()["LeaseFlips"] > flips, 60)
    wait_adds_up(cluster)
    job.wait()
    cluster.wait_for("engine with the lease", cluster.has_lease, 120)


def test_a_worker_is_killed_and_comes_back(cluster: DockerCluster) -> None:
    job = started(cluster, "worker-killed")
    cluster.container("worker-3").kill()
    cluster.wait_for("loss of the node", lambda: "worker-3" not in cluster.running_nodes(), NODE_EXPIRES_S)
    wait_adds_up(cluster)
    cluster.container("worker-3").start()
    cluster.wait_for("node that is back", lambda: "worker-3" in cluster.running_nodes(), 120)
    job.wait()


def test_a_network_is_cut_and_heals(cluster: DockerCluster) -> None:
    """The AM's node is cut off until another attempt has ended the job; the client learns of the end."""
    job = started(cluster, "network-cut")
    before = job.application()
    node = str(before["amHostHttpAddress"]).partition(":")[0]
    with cluster.cut_off(node):
        time.sleep(CUT_S)
        cluster.wait_for("loss of the node", lambda: node not in cluster.running_nodes(), NODE_EXPIRES_S)
        wait_adds_up(cluster)
        after = job.wait_for_application()
        cluster.wait_for("end of the attempt", lambda: cluster.rm.application(after["id"])["state"] == "FINISHED", 120)
        assert after["amContainerLogs"] != before["amContainerLogs"]
    cluster.wait_for("node that is back", lambda: node in cluster.running_nodes(), 120)
    job.wait()


def kill_rm_under_a_job(cluster: DockerCluster) -> None:
    """Kill the ResourceManager's container while a job runs, and start it again: the same job ends."""
    job = started(cluster, "rm-killed")
    before = str(job.application()["id"])
    cluster.container("rm").kill()
    cluster.container("rm").start()
    cluster.wait_ready()
    wait_adds_up(cluster)
    job.wait()
    assert str(job.application()["id"]) == before


def test_the_resource_manager_starts_anew_and_goes_on_with_its_job(cluster: DockerCluster) -> None:
    kill_rm_under_a_job(cluster)
