"""What must add up in a ResourceManager, whatever happened before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.minicluster.cluster import MiniCluster


def wait_settled(cluster: MiniCluster) -> None:
    """Wait until nothing runs, nothing is leaked and an engine schedules.

    A MapReduce AM sleeps for five seconds between its last word to the RM and its end. Tests need not sleep with it:
    the AM of an application that has finished counts as gone. `wait_idle` is for the end of a cluster.

    Raises:
        ClusterError: usage that no container explains stays, or no engine comes back.
    """
    cluster.wait_for("idle cluster", lambda: not leftovers(cluster, finishing(cluster)), 90)
    cluster.wait_for("engine with the lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 120)


def wait_idle(cluster: MiniCluster) -> None:
    """Wait until no container is left and no resource is used.

    Raises:
        ClusterError: something stays.
    """
    cluster.wait_for("cluster that uses nothing", lambda: not leftovers(cluster), 90)


def finishing(cluster: MiniCluster) -> list[dict[str, Any]]:
    """Applications that have finished but for their AM's container."""
    return [app for app in cluster.rm.applications(states="FINISHED") if app["runningContainers"] == 1]


def leftovers(cluster: MiniCluster, ending: Sequence[dict[str, Any]] = ()) -> list[str]:
    """What is still used or running beside the applications `ending`, in words; empty when there is nothing."""
    metrics = cluster.rm.metrics()
    explained = {
        "allocatedMB": sum(app["allocatedMB"] for app in ending),
        "allocatedVirtualCores": sum(app["allocatedVCores"] for app in ending),
        "containersAllocated": len(ending),
        "reservedMB": 0,
    }
    found = [f"{name} is {metrics[name]}, not {usage}" for name, usage in explained.items() if metrics[name] != usage]
    if metrics["appsRunning"] > len(ending):
        found.append(f"{metrics['appsRunning']} applications are running")
    nodes = [node for node in cluster.rm.nodes() if node["state"] == "RUNNING"]
    of_nodes = {
        "usedMemoryMB": sum(int(node["usedMemoryMB"]) for node in nodes),
        "numContainers": sum(int(node["numContainers"]) for node in nodes),
    }
    expected = {"usedMemoryMB": explained["allocatedMB"], "numContainers": explained["containersAllocated"]}
    found += [f"{name} is {of_nodes[name]}, not {usage}" for name, usage in expected.items() if of_nodes[name] != usage]
    return found


def usage_adds_up(cluster: MiniCluster) -> bool:
    """Is the memory that the cluster counts as allocated the sum of what its nodes count?"""
    nodes = [node for node in cluster.rm.nodes() if node["state"] == "RUNNING"]
    return bool(cluster.rm.metrics()["allocatedMB"] == sum(node["usedMemoryMB"] for node in nodes))
