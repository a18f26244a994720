"""A server that answers as a ResourceManager with nodes, queues and applications does."""

from __future__ import annotations

import json
from typing import Any

from tests.support.pages import FakeManager

TREADLE: dict[str, Any] = {
    "Schedules": 1,
    "LeaseHeld": 1,
    "Proposals": 10,
    "Committed": 8,
    "Rejected": 2,
    "RejectedNodeFull": 2,
    "RejectedUserLimit": 0,
    "PlacedByCapacityScheduler": 1,
    "DecideP50Us": 1500,
    "DecideP99Us": 9000,
    "CaughtExceptions": 0,
    "Mode": "enforce",
    "Policy": "order=fifo",
    "LastError": "",
}


def node(name: str, used_mb: int = 2048, state: str = "RUNNING") -> dict[str, Any]:
    return {
        "id": name,
        "state": state,
        "rack": "/rack",
        "numContainers": 2,
        "usedMemoryMB": used_mb,
        "availMemoryMB": 8192 - used_mb,
        "usedVirtualCores": 2,
        "availableVirtualCores": 6,
    }


def leaf(path: str, capacity: float = 50.0, used: float = 25.0, pending_mb: int = 0) -> dict[str, Any]:
    return {
        "queuePath": path,
        "queueName": path.rpartition(".")[2],
        "state": "RUNNING",
        "absoluteCapacity": capacity,
        "absoluteUsedCapacity": used,
        "absoluteMaxCapacity": 100.0,
        "numActiveApplications": 1,
        "numPendingApplications": 2,
        "numContainers": 3,
        "resources": {
            "resourceUsagesByPartition": [
                {"partitionName": "gpu", "pending": {"memory": 99999, "vCores": 9}},
                {"partitionName": "", "pending": {"memory": pending_mb, "vCores": 0}},
            ]
        },
    }


def job(number: int, name: str = "a job", state: str = "RUNNING", **more: Any) -> dict[str, Any]:
    return {
        "id": f"application_1_{number:04}",
        "name": name,
        "user": "ann",
        "queue": "root.a",
        "state": state,
        "finalStatus": "UNDEFINED",
        "progress": 50.0,
        "startedTime": 1000 + number,
        "elapsedTime": 60_000,
        "finishedTime": 0,
        "applicationType": "MAPREDUCE",
        "runningContainers": 2,
        "allocatedMB": 2048,
        "allocatedVCores": 2,
        **more,
    }


class FakeCluster(FakeManager):
    """A FakeManager that also has REST pages; all of them may be changed while it runs."""

    def __init__(self) -> None:
        super().__init__({"RMInfo": {"State": "active"}, "Treadle": dict(TREADLE)}, {})
        self.nodes = [node("n1:1"), node("n2:1")]
        self.queues = [leaf("root.a", pending_mb=4096), leaf("root.b")]
        self.jobs = [job(1)]
        self.ended: list[dict[str, Any]] = []
        self.broken: set[str] = set()
        """Pages that answer with an error."""
        self.asked: list[str] = []
        """The paths of REST pages that were asked for."""
        self.place({"application_1_0001": {"treadle": 5, "native": 1}})

    def place(self, counts: dict[str, dict[str, int]]) -> None:
        self.beans["Treadle+"] = {"Placements": json.dumps(counts)}

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        name = path.removeprefix("/ws/v1/cluster/")
        if name == path:
            return (500, {}) if path in self.broken else super().answer(path, query)
        self.asked.append(name)
        if name in self.broken:
            return 500, {}
        if name == "nodes":
            return 200, {"nodes": {"node": self.nodes}}
        if name == "scheduler":
            root = {"queueName": "root", "queuePath": "root", "usedCapacity": 50.0, "queues": {"queue": self.queues}}
            return 200, {"scheduler": {"schedulerInfo": root}}
        if name == "apps":
            ended = query["states"][0].startswith("FINISHED")
            return 200, {"apps": {"app": self.ended if ended else self.jobs}}
        known = [{"name": "memory-mb", "value": 1024}, {"name": "vcores", "value": 1}]
        informations = {"resourceInformation": [*known, {"name": "yarn.io/gpu", "value": 2}]}
        amount = {"memory": 1024, "vCores": 1, "resourceInformations": informations}
        asked = {"priority": 20, "resourceName": "*", "capability": amount, "numContainers": 7}
        return 200, {"app": {**job(1), "resourceRequests": [asked, {**asked, "resourceName": "n1"}]}}
