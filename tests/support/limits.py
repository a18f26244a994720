"""A cluster in which every limit binds below the whole, and a look at whether one is exceeded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.usage import leaves, users

from treadle_lab.minicluster.settings import NodeLabel
from treadle_lab.minicluster.site import CS, write_site

GPU = "gpu"
"""The partition of the third node."""

LICENCE = "licence"
LICENCES = 3
"""Of each node; memory is plentiful beside them."""

USER_LIMIT_FACTOR = 0.5
STEP_MB = 128
"""The RM rounds limits up to this, its least allocation."""

QUEUES = {
    f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
    f"{CS}maximum-am-resource-percent": "1",
    f"{CS}root.queues": "default,narrow,users,wide",
    f"{CS}root.accessible-node-labels": "*",
    f"{CS}root.accessible-node-labels.{GPU}.capacity": "100",
    f"{CS}root.default.capacity": "30",
    f"{CS}root.default.maximum-capacity": "60",
    f"{CS}root.default.user-limit-factor": "10",
    f"{CS}root.default.accessible-node-labels": GPU,
    f"{CS}root.default.accessible-node-labels.{GPU}.capacity": "100",
    # its maximum binds, and its limit on masters lets one application in
    f"{CS}root.narrow.capacity": "20",
    f"{CS}root.narrow.maximum-capacity": "25",
    f"{CS}root.narrow.user-limit-factor": "10",
    f"{CS}root.narrow.maximum-am-resource-percent": "0.01",
    # a user may have half of what the queue is owed
    f"{CS}root.users.capacity": "40",
    f"{CS}root.users.maximum-capacity": "100",
    f"{CS}root.users.user-limit-factor": str(USER_LIMIT_FACTOR),
    f"{CS}root.wide.capacity": "10",
    f"{CS}root.wide.maximum-capacity": "100",
    f"{CS}root.wide.user-limit-factor": "100",
}


def limited_cluster(folder: Path) -> FaultyCluster:
    """Return a cluster, not yet started, with the queues above; its third node is the partition `gpu`."""
    folder.mkdir(parents=True, exist_ok=True)
    queues = folder / "queues.xml"
    write_site(queues, QUEUES)
    return faulty_cluster(
        folder,
        nodes=3,
        vcores=32,
        resources={LICENCE: LICENCES},
        labels=(NodeLabel(GPU, (3,)),),
        queues=queues,
    )


def broken_limits(cluster: FaultyCluster, container_mb: int) -> list[str]:
    """Return the limits that are exceeded now, in words: of nodes, of queues and of the users of queue `users`.

    Args:
        cluster: one as above.
        container_mb: what the stock scheduler lets a user have beyond the limit, one container, MB.
    """
    broken = [
        f"{node['id']} has {value} of {name} left"
        for node in cluster.rm.nodes()
        if node["state"] == "RUNNING"
        for name, value in _values(node["availableResource"])
        if value < 0
    ]
    scheduler = cluster.rm.get("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    for leaf in leaves(scheduler):
        capacities = _of_no_partition(leaf["capacities"]["queueCapacitiesByPartition"])
        most = dict(_values(capacities["effectiveMaxResource"]))
        used = _values(_of_no_partition(leaf["resources"]["resourceUsagesByPartition"])["used"])
        broken += [
            f"{leaf['queuePath']} uses {value} of {most[name]} {name}" for name, value in used if value > most[name]
        ]
        if leaf["queueName"] == "users":
            owed_mb = dict(_values(capacities["effectiveMinResource"]))["memory-mb"]
            most_mb = USER_LIMIT_FACTOR * owed_mb + STEP_MB + container_mb
            broken += [
                f"{user['username']} uses {user['resourcesUsed']['memory']} of {most_mb:g} MB"
                for user in users(leaf)
                if user["resourcesUsed"]["memory"] > most_mb
            ]
    return broken


def without_licences(cluster: FaultyCluster) -> list[str]:
    """Return the nodes in no partition that have memory left and no licence."""
    free = {
        node["id"]: dict(_values(node["availableResource"]))
        for node in cluster.rm.nodes()
        if node["state"] == "RUNNING" and GPU not in (node.get("nodeLabels") or [])
    }
    return [name for name, left in free.items() if left[LICENCE] == 0 and left["memory-mb"] >= STEP_MB]


def _values(info: dict[str, Any]) -> Iterator[tuple[str, int]]:
    return ((entry["name"], entry["value"]) for entry in info["resourceInformations"]["resourceInformation"])


def _of_no_partition(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return next(part for part in parts if not part.get("partitionName"))
