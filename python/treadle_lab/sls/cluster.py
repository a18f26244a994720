"""The testbed's cluster: nodes, their heartbeats, queues; and a scheduler as `treadle_lab.sls.run` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from treadle_lab.sls.load import FIRST_ADDRESS, MODES, Files, Kind, Mode, Workload, treadle_under
from treadle_lab.sls.script import Script

__all__ = ["QUEUE", "Cluster", "Scheduling", "ScriptedLoad"]

QUEUE: Final = "default"
SCRIPT: Final = "script.json"
_CAPACITY: Final = "yarn.scheduler.capacity."
_SLS: Final = "yarn.sls."
LEASE_MS: Final = 20_000
"""Two cores play all nodes and masters beside the engine: it must not lose its lease for that."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that are all alike."""

    nodes: int
    memory_mb: int
    vcores: int
    heartbeat_ms: int = 250
    """Of nodes and of application masters: real ones' second, compressed as durations are."""
    least_mb: int = 256
    """What memory is rounded up to."""
    masters_share: float = 0.5
    """Of the cluster: what application masters may take."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """What a node has besides memory and virtual cores, by resource type."""
    tree: Mapping[str, str] = field(default_factory=dict)
    """What capacity-scheduler.xml has of queues; none: one queue, of which each user may have all."""

    def host(self, number: int) -> str:
        """Return the host of a node, of which the first is 0."""
        return str(FIRST_ADDRESS + number)

    @property
    def settings(self) -> dict[str, str]:
        """Return what yarn-site.xml and sls-runner.xml have of it."""
        return {
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(self.heartbeat_ms),
            "yarn.scheduler.minimum-allocation-mb": str(self.least_mb),
            "yarn.scheduler.maximum-allocation-mb": str(self.memory_mb),
            "yarn.scheduler.maximum-allocation-vcores": str(self.vcores),
            "yarn.resourcemanager.max-completed-applications": "10000",
            _SLS + "nm.memory.mb": str(self.memory_mb),
            _SLS + "nm.vcores": str(self.vcores),
            _SLS + "nm.heartbeat.interval.ms": str(self.heartbeat_ms),
            _SLS + "am.heartbeat.interval.ms": str(self.heartbeat_ms),
            _SLS + "am.type.mapreduce": "io.treadle.sls.ScriptedMaster",
            "treadle.testbed.script": SCRIPT,  # in the folder in which the simulator runs
            **({"yarn.resource-types": ",".join(self.resources)} if self.resources else {}),
            **{f"{_SLS}nm.{name}": str(amount) for name, amount in self.resources.items()},
        }

    def queues(self, ordering: str) -> dict[str, str]:
        """Return capacity-scheduler.xml; ``ordering`` is that of the one queue, where there is no tree."""
        queue = f"{_CAPACITY}root.{QUEUE}."
        common = {
            _CAPACITY + "maximum-am-resource-percent": str(self.masters_share),
            _CAPACITY + "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        }
        if self.tree:
            return common | dict(self.tree)
        return common | {
            _CAPACITY + "root.queues": QUEUE,
            queue + "capacity": "100",
            queue + "maximum-capacity": "100",
            queue + "user-limit-factor": "100",
            queue + "ordering-policy": ordering,
        }


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Who schedules: the stock scheduler, or Treadle under a treadle.yaml."""

    name: str
    policy: str | None = None
    """The text of treadle.yaml; None: the stock scheduler."""
    ordering: str = "fifo"
    """Of the stock scheduler's queue: fifo or fair."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further ones of yarn-site.xml."""
    sidecar: Path | None = None
    """What the shim starts in place of `treadle`."""
    observed: bool = False
    """Treadle places nothing and answers application masters all the same; the stock scheduler places."""

    def mode(self, cluster: Cluster, file: Path) -> Mode:
        """Return it as SLS runs it; its treadle.yaml is ``file``, which is written."""
        settings = {**cluster.settings, **self.settings}
        if self.policy is None:
            stock = MODES["sync"]
            capacity = {**stock.capacity_settings, **cluster.queues(self.ordering)}
            return Mode(self.name, Kind.STOCK, stock.scheduler_class, capacity, settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.policy, encoding="utf-8")
        settings = {"yarn.scheduler.treadle.lease-ms": str(LEASE_MS), **settings}
        queues = cluster.queues(self.ordering)
        if not self.observed:
            return treadle_under(self.name, file.resolve(), settings, queues)
        beside = MODES["observe"]
        capacity = {**beside.capacity_settings, **queues}
        return treadle_under(self.name, file.resolve(), settings, capacity, beside)


@dataclass(frozen=True)
class ScriptedLoad(Workload):
    """A script as a load of SLS: the trace has as many jobs, and each takes the next one of the script."""

    script: Script = field(kw_only=True)

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace; what its one class of jobs says of tasks and its queue are not used."""
        trace = super().trace()
        of_queue = trace["workloads"][0] | {"queue_name": self.script.jobs[0].queue, "workload_weight": 1}
        return trace | {"workloads": [of_queue]}

    def write(self, folder: Path) -> Files:
        """Write what the simulator reads into ``folder``."""
        self.script.write(folder / SCRIPT)
        return super().write(folder)


def load_of(cluster: Cluster, script: Script, seed: int) -> ScriptedLoad:
    """Return the load that plays a script on a cluster."""
    return ScriptedLoad(cluster.nodes, len(script.jobs), 1, 1, seed, script=script)
