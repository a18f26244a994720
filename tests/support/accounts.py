"""What must add up in a ResourceManager, whatever happened before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.usage import Cluster, ReportedUsage

from treadle_lab.minicluster.settings import ClusterError


def wait_settled(cluster: Cluster) -> None:
    """Wait until nothing runs, nothing is leaked and an engine schedules.

    A MapReduce AM sleeps for five seconds between its last word to the RM and its end. Tests need not sleep with it:
    the AM of an application that has finished counts as gone. `wait_idle` is for the end of a cluster.

    Raises:
        ClusterError: usage that no container explains stays, or no engine comes back.
    """
    cluster.wait_for("idle cluster", lambda: not leftovers(cluster, finishing(cluster)), 90)
    cluster.wait_for("engine with the lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 120)


def wait_idle(cluster: Cluster) -> None:
    """Wait until nothing runs, and until nobody has anything used, reserved or pending in the accounting.

    Raises:
        ClusterError: something stays, which the message names.
    """
    _wait_for_none(
        cluster, "cluster that uses nothing", lambda: leftovers(cluster) + ReportedUsage(cluster).leftovers(), 90
    )


def wait_adds_up(cluster: Cluster) -> None:
    """Wait until usage is the sum of the containers, for every node, queue, user and application.

    A look at a busy cluster may see half of a change, or the container of a master that has said its last word; a
    mistake in the accounting stays.

    Raises:
        ClusterError: a mistake stays, which the message names.
    """
    _wait_for_none(cluster, "usage that adds up", lambda: ReportedUsage(cluster).mistakes(), 60)


def _wait_for_none(cluster: Cluster, what: str, look: Callable[[], list[str]], timeout_s: float) -> None:
    found: list[str] = []

    def none() -> bool:
        found[:] = look()
        return not found

    try:
        cluster.wait_for(what, none, timeout_s)
    except ClusterError as error:
        raise ClusterError(f"{error}: {'; '.join(found)}") from error


def finishing(cluster: Cluster) -> list[dict[str, Any]]:
    """Applications that have finished but for their AM's container."""
    return [app for app in cluster.rm.applications(states="FINISHED") if app["runningContainers"] == 1]


def leftovers(cluster: Cluster, ending: Sequence[dict[str, Any]] = ()) -> list[str]:
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
