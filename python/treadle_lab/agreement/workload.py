"""The workload that a mini cluster and the simulator both run, and how each gets it.

Four jobs of sleeping tasks in three queues. Job a1 has the cluster to itself; then b1, c1 and a2 come, so that queues
give and take, and a2 waits behind a1 in its queue. All want more than there is until they have been given their last
container. The resources `cpu` and `gpu` are those of the H-DRF tests: two extra types, of which AMs hold none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.simulator.scenario import Scenario
from treadle.workload.job import Framework, Job, Workload
from treadle_lab.minicluster.site import CS, Entries

NODES: Final = 2
CPU: Final = 8
"""Of each node, and as many GPU."""
PLENTY_MB: Final = 1 << 20
PLENTY_VCORES: Final = 4096
NODE_HEARTBEAT_MS: Final = 250
MASTER_HEARTBEAT_MS: Final = 1000
"""The distributed shell's."""
MASTER: Final = MappingProxyType({"memory-mb": 256, "vcores": 1})
SHORTEST_S: Final = 4
LONGEST_S: Final = 8
STRIDE: Final = 37
"""Tasks sleep between these, by hundredths of a second: so they do not end in step with heartbeats."""
SECOND_PHASE_S: Final = 18
"""Time from the registration of a1's AM to the submission of the others."""

QUEUES: Final[Mapping[str, tuple[float, Mapping[str, float]]]] = MappingProxyType(
    {"n1": (75.0, {"a": 100.0}), "n2": (25.0, {"b": 50.0, "c": 50.0})}
)
"""Each queue below root with its capacity and those of its leaves, in percent of the parent."""

POLICIES: Final = MappingProxyType(
    {
        "capacity": "policy:\n  share: {kind: capacity}\n",
        "hdrf": "policy:\n  share: {kind: hdrf, weights: equal}\n",
    }
)
"""By name, as treadle.yaml. The guarantees are 3 to 1, and H-DRF shares evenly: so the two lead to other shares."""


@dataclass(frozen=True)
class SleepingJob:
    """A job of `tasks` tasks, each of which needs so much of cpu and gpu."""

    name: str
    leaf: str
    tasks: int
    demand: Mapping[str, int]
    late: bool
    """Comes in the second phase."""


JOBS: Final = (
    SleepingJob("a1", "a", 150, {"cpu": 1}, late=False),
    SleepingJob("b1", "b", 36, {"cpu": 1}, late=True),
    SleepingJob("c1", "c", 64, {"gpu": 1}, late=True),
    SleepingJob("a2", "a", 12, {"cpu": 1}, late=True),
)
LEAVES: Final = ("a", "b", "c")


def duration_s(container: int) -> float:
    """Return how long a task sleeps by its container's number in the application; the AM's is 1, the first task's 2."""
    return SHORTEST_S + STRIDE * container % (100 * (LONGEST_S - SHORTEST_S) + 1) / 100


def command() -> str:
    """Return the shell command of a task: to sleep for `duration_s`."""
    span = 100 * (LONGEST_S - SHORTEST_S) + 1
    return f"sleep $(({100 * SHORTEST_S} + {STRIDE} * 10#${{CONTAINER_ID##*_}} % {span}))e-2"


def queue_entries() -> Entries:
    """Return capacity-scheduler.xml: each queue may use whatever the others leave, one user all of it."""
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "1",
        f"{CS}root.queues": ",".join(QUEUES),
    }
    for name, (capacity, leaves) in QUEUES.items():
        entries[f"{CS}root.{name}.queues"] = ",".join(leaves)
        each = {name: capacity, **{f"{name}.{leaf}": part for leaf, part in leaves.items()}}
        for path, percent in each.items():
            entries[f"{CS}root.{path}.capacity"] = f"{percent:g}"
            entries[f"{CS}root.{path}.maximum-capacity"] = "100"
        for leaf in leaves:
            entries[f"{CS}root.{name}.{leaf}.user-limit-factor"] = "100"
    return entries


def scenario(master_start_ms: int, launch_ms: int, tick_ms: int) -> Scenario:
    """Return the same cluster as a scenario of the simulator; its jobs are placeholders for `workload`'s."""
    node = {"memory-mb": PLENTY_MB, "vcores": PLENTY_VCORES, "cpu": CPU, "gpu": CPU}
    queues: dict[str, Any] = {
        name: {"capacity": capacity, "children": {leaf: _leaf(part) for leaf, part in leaves.items()}}
        for name, (capacity, leaves) in QUEUES.items()
    }
    return Scenario.model_validate(
        {
            "cluster": {
                "resources": [{"name": name} for name in node],
                "nodes": [{"count": NODES, "resources": node}],
                "heartbeat_ms": NODE_HEARTBEAT_MS,
            },
            "queues": queues,
            "workload": {"jobs": [{"stages": []}]},
            "frameworks": {
                "master": dict(MASTER),
                "master_start_ms": master_start_ms,
                "heartbeat_ms": MASTER_HEARTBEAT_MS,
                "launch_ms": launch_ms,
                "tez_reuse": False,
            },
            "decision": {"tick_ms": tick_ms},
        }
    )


def _leaf(capacity: float) -> dict[str, float]:
    return {"capacity": capacity, "maximum_am_resource_percent": 100.0}


def workload(arrivals_ms: Mapping[str, int]) -> Workload:
    """Return the jobs for the simulator, each with when it comes; a task runs in a container of its own."""
    jobs = []
    for job in sorted(JOBS, key=lambda job: arrivals_ms[job.name]):
        lasts_ms = np.array([round(1000 * duration_s(container)) for container in range(2, job.tasks + 2)])
        demand = {"memory-mb": 128.0, "vcores": 1.0, **job.demand}
        stage = Stage(0, job.tasks, int(lasts_ms.mean()), demand, durations_ms=lasts_ms)
        dag = Dag(job.name, (stage,))
        jobs.append(Job(job.name, arrivals_ms[job.name], dag, Framework.TEZ, job.name, queue=job.leaf))
    return Workload(("memory-mb", "vcores", "cpu", "gpu"), tuple(jobs))
