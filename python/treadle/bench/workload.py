"""The load: the same jobs for every scheduler, as a SYNTH trace of Hadoop's load simulator."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from treadle.bench.errors import BenchError

QUEUES: Final = {"etl": 50, "analysis": 30, "adhoc": 20}
"""Leaf queues under root and their capacity in percent; jobs fall to them in the same proportion."""

NODE_MB: Final = 10_240
NODE_VCORES: Final = 10
CONTAINER_MB: Final = 1_024
NODES_PER_RACK: Final = 40

AM_SHARE: Final = 0.15
"""The share of the cluster that a queue's application masters may take. In all queues together below 1, so that jobs
that run can always get tasks."""


@dataclass(frozen=True)
class Workload:
    """Jobs submitted at once to a simulated cluster.

    A job is an application master and `tasks` containers of 1 GB and one core that run for `task_ms` milliseconds each.
    A node has room for ten.
    """

    nodes: int
    jobs: int
    tasks: int
    task_ms: int
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("nodes", "jobs", "tasks", "task_ms"):
            value = getattr(self, name)
            if value < 1:
                raise BenchError(f"--{name.replace('_', '-')} is {value}: at least 1 is needed")
        if self.seed < 0:
            raise BenchError(f"--seed is {self.seed}: it must not be negative")

    @property
    def containers(self) -> int:
        """Return the containers that the workload needs in all, application masters included."""
        return self.jobs * (self.tasks + 1)

    @property
    def slots(self) -> int:
        """Containers that can run at a time."""
        return self.nodes * (NODE_MB // CONTAINER_MB)

    @property
    def ideal_span_ms(self) -> int:
        """The span with a scheduler that takes no time at all: full waves of tasks."""
        waves = -(-self.jobs * self.tasks // self.slots)
        return waves * self.task_ms

    def node_names(self) -> list[str]:
        """Return the host names that SLS gives to its nodes."""
        return [f"node{index}" for index in range(self.nodes)]

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace (org.apache.hadoop.yarn.sls.synthetic.SynthTraceJobProducer)."""
        return {
            "description": "written by treadle bench",
            "num_nodes": self.nodes,
            "nodes_per_rack": min(NODES_PER_RACK, self.nodes),
            "num_jobs": self.jobs,
            "rand_seed": self.seed,
            "workloads": [self._share_of(queue, weight) for queue, weight in QUEUES.items()],
        }

    def _share_of(self, queue: str, weight: int) -> dict[str, Any]:
        return {
            "workload_name": queue,
            "workload_weight": weight,
            "queue_name": queue,
            "job_classes": [
                {
                    "class_name": f"{queue}_job",
                    "user_name": "bench",
                    "class_weight": 1.0,
                    "type": "mapreduce",
                    "deadline_factor": {"val": 10},
                    "duration": {"val": max(1, self.task_ms // 1000)},
                    "reservation": {"val": 0},
                    "tasks": [
                        {
                            "type": "map",
                            "priority": 20,
                            "count": {"val": self.tasks},
                            "time": {"val": self.task_ms},
                            "max_memory": {"val": CONTAINER_MB},
                            "max_vcores": {"val": 1},
                        }
                    ],
                }
            ],
            "time_distribution": [{"time": 1, "weight": 100}],
        }

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the trace and a hosts file that makes all node names resolve; return both paths."""
        trace = folder / "workload.json"
        trace.write_text(json.dumps(self.trace(), indent=1))
        hosts = folder / "hosts"
        names = ["localhost", socket.gethostname(), *self.node_names()]
        hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in names))
        return trace, hosts
