"""What the ResourceManager reports as used, by its web service: containers, and who counts how much of them.

Containers are what the scheduler lists as live. Of them must be the sum what is counted as used on every node, in every
queue, by every user of a queue, by every application and in the cluster's metrics, in memory, virtual cores and
whatever else the cluster counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from treadle_lab.minicluster.cluster import ResourceManagerClient

Amounts = Counter[str]
"""So much of each resource; what is 0 is left out."""


class Cluster(Protocol):
    """A cluster that can be asked and waited for: a mini cluster, or one of containers."""

    @property
    def rm(self) -> ResourceManagerClient:
        """The ResourceManager's pages."""

    def wait_for(self, what: str, condition: Callable[[], Any], timeout_s: float = 60.0, poll_s: float = 0.1) -> Any:
        """Wait until `condition` gives something true; a `ClusterError` says `what` did not come."""


METRICS = {"allocatedMB": "memory-mb", "allocatedVirtualCores": "vcores"}


def amounts(info: dict[str, Any] | None) -> Amounts:
    """Read a `ResourceInfo` of the web service."""
    entries = ((info or {}).get("resourceInformations") or {}).get("resourceInformation", [])
    return +Counter({str(entry["name"]): int(entry["value"]) for entry in entries})


def in_all_partitions(resources: dict[str, Any] | None, kind: str) -> Amounts:
    """Read what a `ResourcesInfo` says of `used`, `reserved`, `pending` or `amUsed`, summed over partitions."""
    return total(amounts(part.get(kind)) for part in (resources or {}).get("resourceUsagesByPartition", []))


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum."""
    found = Amounts()
    for part in parts:
        found.update(part)
    return found


def words(used: Amounts) -> str:
    """Tell amounts, in a fixed order."""
    return ", ".join(f"{name} {used[name]}" for name in sorted(used)) or "nothing"


def leaves(info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return every leaf below a queue of the web service's scheduler page."""
    for queue in ((info.get("queues") or {}).get("queue")) or []:
        children = list(leaves(queue))
        yield from children or [queue]


def inner(info: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return every queue with children below a queue, and its children."""
    for queue in ((info.get("queues") or {}).get("queue")) or []:
        children = ((queue.get("queues") or {}).get("queue")) or []
        if children:
            yield queue, children
            yield from inner(queue)


def path_of(queue: dict[str, Any]) -> str:
    """Return what a queue is called in words: its path, or its name where Hadoop 3.3 tells no more."""
    return str(queue.get("queuePath") or queue["queueName"])


def users(queue: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the users that a leaf knows."""
    return ((queue.get("users") or {}).get("user")) or []


@dataclass(frozen=True)
class Container:
    """A live container, and whose it is."""

    application: str
    queue: str
    user: str
    node: str
    amounts: Amounts


class ReportedUsage:
    """One look at a cluster. It takes several requests, so that in a busy cluster it may see half of a change."""

    def __init__(self, cluster: Cluster) -> None:
        rm = cluster.rm
        self.applications = rm.applications(states="NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING")
        # on a node that is being decommissioned containers go on, and count
        self.nodes = [node for node in rm.nodes() if node["state"] in ("RUNNING", "DECOMMISSIONING")]
        self.scheduler: dict[str, Any] = rm.get("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
        self.metrics = rm.metrics()
        self.containers = [found for app in self.applications for found in _containers(cluster, app)]

    def mistakes(self) -> list[str]:
        """Return what does not add up, in words."""
        found = [
            _difference(f"node {node['id']}", amounts(node["usedResource"]), self._of(node=node["id"]))
            for node in self.nodes
        ]
        found += [
            f"node {node['id']} has {node['availMemoryMB']} MB and {node['availableVirtualCores']} vcores left"
            for node in self.nodes
            if node["availMemoryMB"] < 0 or node["availableVirtualCores"] < 0
        ]
        for app in self.applications:
            used = in_all_partitions(app.get("resourceInfo"), "used")
            found.append(_difference(f"application {app['id']}", used, self._of(application=app["id"])))
        for leaf in leaves(self.scheduler):
            name = leaf["queueName"]
            reserved = in_all_partitions(leaf["resources"], "reserved")
            used = in_all_partitions(leaf["resources"], "used") - reserved
            found.append(_difference(path_of(leaf), used, self._of(queue=name)))
            for user in users(leaf):
                used = in_all_partitions(user["resources"], "used") - in_all_partitions(user["resources"], "reserved")
                found.append(
                    _difference(f"{user['username']} in {name}", used, self._of(queue=name, user=user["username"]))
                )
        for parent, children in inner(self.scheduler):
            below = total(in_all_partitions(child["resources"], "used") for child in children)
            found.append(_difference(path_of(parent), in_all_partitions(parent["resources"], "used"), below))
        found += self._metrics()
        return [mistake for mistake in found if mistake]

    def _metrics(self) -> list[str]:
        # they count what is in no partition
        plain = {node["id"] for node in self.nodes if not any(node.get("nodeLabels") or [])}
        used = total(container.amounts for container in self.containers if container.node in plain)
        return [
            f"the cluster's {metric} is {self.metrics[metric]}, its containers have {used[name]}"
            for metric, name in METRICS.items()
            if self.metrics[metric] != used[name]
        ]

    def _of(self, **wanted: str) -> Amounts:
        return total(
            container.amounts
            for container in self.containers
            if all(getattr(container, name) == value for name, value in wanted.items())
        )

    def leftovers(self) -> list[str]:
        """Return what is used, reserved, pending or running, in words: nothing in an idle cluster."""
        found = [f"application {app['id']} is {app['state']}" for app in self.applications]
        found += [
            f"the cluster's {name} is {self.metrics[name]}"
            for name in (
                *METRICS,
                "containersAllocated",
                "containersPending",
                "containersReserved",
                "pendingMB",
                "reservedMB",
            )
            if self.metrics[name]
        ]
        found += [
            f"node {node['id']} has {node['numContainers']} containers with {words(amounts(node['usedResource']))}"
            for node in self.nodes
            if node["numContainers"] or amounts(node["usedResource"])
        ]
        for leaf in leaves(self.scheduler):
            found += _left(path_of(leaf), leaf)
            for user in users(leaf):
                found += _left(f"{user['username']} in {leaf['queueName']}", user)
        for parent, _ in inner(self.scheduler):
            found += _left(path_of(parent), parent)
        return found


def _left(whose: str, entry: dict[str, Any]) -> list[str]:
    found = [(kind, in_all_partitions(entry["resources"], kind)) for kind in ("used", "reserved", "pending", "amUsed")]
    found.append(("resourcesUsed", amounts(entry["resourcesUsed"])))
    counts = [f"{whose}: {name} is {entry[name]}" for name in ("numContainers", "pendingContainers") if entry.get(name)]
    return counts + [f"{whose}: {kind} is {words(left)}" for kind, left in found if left]


def _difference(whose: str, booked: Amounts, summed: Amounts) -> str:
    return "" if booked == summed else f"{whose}: {words(booked)} booked, its containers have {words(summed)}"


def _several(found: Any) -> list[dict[str, Any]]:
    """Return a list of the web service's, which writes one of a single entry as that entry."""
    return found if isinstance(found, list) else [found] if found else []


def _containers(cluster: Cluster, app: dict[str, Any]) -> Iterator[Container]:
    """The live containers of an application, which are those of its last attempt."""
    path = f"/ws/v1/cluster/apps/{app['id']}/appattempts"
    attempts = (cluster.rm.get(path).get("appAttempts") or {}).get("appAttempt") or []
    if not attempts:
        return
    last = max(attempts, key=lambda attempt: int(attempt["id"]))["appAttemptId"]
    for entry in _several(cluster.rm.get(f"{path}/{last}/containers").get("container")):
        pairs = _several(entry["allocatedResources"]["entry"])
        held = Counter({str(pair["key"]): int(pair["value"]) for pair in pairs})
        yield Container(app["id"], app["queue"].rpartition(".")[2], app["user"], entry["assignedNodeId"], +held)
