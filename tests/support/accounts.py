"""What must add up in a ResourceManager, whatever happened before."""

from __future__ import annotations

from treadle.minicluster.cluster import MiniCluster


def wait_settled(cluster: MiniCluster) -> None:
    """Wait until nothing runs, nothing is leaked and an engine schedules.

    Raises:
        ClusterError: usage that no container explains stays, or no engine comes back.
    """
    cluster.wait_for("idle cluster", lambda: not leftovers(cluster), 90)
    cluster.wait_for("engine with the lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 120)


def leftovers(cluster: MiniCluster) -> list[str]:
    """What is still used or running, in words; empty when the cluster is idle."""
    metrics = cluster.rm.metrics()
    found = [
        f"{name} is {metrics[name]}"
        for name in ("allocatedMB", "allocatedVirtualCores", "containersAllocated", "reservedMB", "appsRunning")
        if metrics[name] != 0
    ]
    found += [
        f"node {node['id']} uses {node['usedMemoryMB']} MB in {node['numContainers']} containers"
        for node in cluster.rm.nodes()
        if node["state"] == "RUNNING" and (node["usedMemoryMB"] or node["numContainers"])
    ]
    return found


def usage_adds_up(cluster: MiniCluster) -> bool:
    """Is the memory that the cluster counts as allocated the sum of what its nodes count?"""
    nodes = [node for node in cluster.rm.nodes() if node["state"] == "RUNNING"]
    return bool(cluster.rm.metrics()["allocatedMB"] == sum(node["usedMemoryMB"] for node in nodes))
