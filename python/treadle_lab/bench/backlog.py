"""A load that only schedulers bound: asks that never run out, slots that are always free; and containers a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from treadle.errors import percent
from treadle_lab.bench.cluster import COMMON_ROWS, Figures, Sheet, common_figures
from treadle_lab.minicluster.site import CS, queue_entries
from treadle_lab.sls.run import CONTAINER_MB, HEARTBEAT_MS, MODES, BenchError, Mode, Run, Workload, asynchronous

SLOTS: Final = 100_000
"""Containers that fit on the cluster at a time, unless the user says how many fit on a node."""
LEAST_FREE: Final = 0.1
"""The share of slots that must be free throughout: where fewer are, slots bound the run and not the scheduler."""
BACKLOG_SIZES: Final = {"jobs": 400, "tasks": 100, "task_ms": 1}
"""By default: 40,000 containers a second are asked for, by many masters. Where few get most containers, each has many
that it has not fetched yet, and the ResourceManager goes over all of these whenever one of its containers ends: that
would be most of what a run measures. A scheduler that serves applications strictly in order suffers most from it."""
MOST_ASKED: Final = 100_000_000
_BACKLOG: Final = "treadle.bench.backlog."

BACKLOG_MODES: Final[dict[str, Mode]] = {**MODES, "async-4": asynchronous(4)}


@dataclass(frozen=True)
class BacklogLoad(Workload):
    """Application masters (`jobs`) that request `tasks` containers each, every second until the end."""

    queues: int = 3
    preferred_nodes: int = 0
    """Nodes that each master draws and would like its containers on best, then their racks, then anywhere."""
    slots_per_node: int = 0
    """Containers that fit on a node; 0: as many that `SLOTS` fit on the cluster, at least 20."""
    heartbeat_ms: int = HEARTBEAT_MS
    """From one heartbeat of a node to the next; masters call once a second all the same."""
    warm_s: float = 40.0
    """From the first container to the window that is measured. On two cores the JVM compiles the ResourceManager for
    some 30 s. Its compilers take a quarter of the machine meanwhile; one that runs for days does not have that."""
    window_s: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, value, least, most in (
            ("--queues", self.queues, 1, 10_000),
            ("--preferred-nodes", self.preferred_nodes, 0, min(self.nodes, 1_000)),
            ("--slots-per-node", self.slots_per_node, 0, 10_000),
            ("--heartbeat-ms", self.heartbeat_ms, 100, 60_000),
        ):
            if not least <= value <= most:
                raise BenchError(f"{option} is {value}: it must lie between {least:,} and {most:,}")
        for option, seconds in (("--warm-s", self.warm_s), ("--window-s", self.window_s)):
            if not 1 <= seconds <= 3600:
                raise BenchError(f"{option} is {seconds:g}: it must lie between 1 and 3,600")
        if self.jobs * self.tasks > MOST_ASKED:
            raise BenchError(
                f"--jobs {self.jobs} times --tasks {self.tasks}: at most {MOST_ASKED:,} containers can be asked for"
            )
        if self.queues > self.jobs:
            raise BenchError(f"--queues is {self.queues}: there must be as many jobs (--jobs {self.jobs}), one in each")

    @property
    def slots_of_node(self) -> int:
        """Return how many containers fit on a node."""
        return self.slots_per_node or max(20, -(-SLOTS // self.nodes))

    @property
    def slots(self) -> int:
        """Return how many containers fit on the cluster."""
        return self.nodes * self.slots_of_node

    @property
    def yarn_settings(self) -> dict[str, str]:
        """Return the settings of the simulator and its masters."""
        node_mb = str(self.slots_of_node * CONTAINER_MB)
        return {
            "yarn.sls.am.type.mapreduce": "io.treadle.sls.BacklogMaster",
            "yarn.sls.nm.memory.mb": node_mb,
            "yarn.sls.nm.vcores": str(self.slots_of_node),
            "yarn.sls.nm.heartbeat.interval.ms": str(self.heartbeat_ms),
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(self.heartbeat_ms),
            "yarn.scheduler.maximum-allocation-mb": node_mb,
            "yarn.scheduler.maximum-allocation-vcores": str(self.slots_of_node),
            "treadle.bench.warm-ms": str(round(1000 * self.warm_s)),
            "treadle.bench.window-ms": str(round(1000 * self.window_s)),
            _BACKLOG + "queues": str(self.queues),
            _BACKLOG + "asks": str(self.tasks),
            _BACKLOG + "task-ms": str(self.task_ms),
            _BACKLOG + "preferred-nodes": str(self.preferred_nodes),
            _BACKLOG + "container-mb": str(CONTAINER_MB),
            _BACKLOG + "seed": str(self.seed),
        }

    @property
    def capacity_settings(self) -> dict[str, str]:
        """Return identical queues, each of which may grow to the whole cluster."""
        # shares of 10,000 parts, which must add up to 100 %
        parts = [10_000 // self.queues + (number < 10_000 % self.queues) for number in range(self.queues)]
        shares = {f"q{number}": f"{each / 100:.2f}" for number, each in enumerate(parts)}
        return {f"{CS}maximum-am-resource-percent": "0.9", **queue_entries(shares, 10_000)}

    def mode(self, mode: Mode) -> Mode:
        """Return a mode with what this load needs set."""
        return replace(
            mode,
            yarn_settings=self.yarn_settings | mode.yarn_settings,
            capacity_settings=self.capacity_settings | mode.capacity_settings,
        )

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace: a job is a master, whose tasks the simulator only counts."""
        share = self._share_of("q0", 1)
        share["job_classes"][0]["tasks"][0]["count"] = {"val": 1}
        return super().trace() | {"workloads": [share]}

    def as_json(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return asdict(self) | {"slots": self.slots}


def rate_of(run: Run, load: BacklogLoad) -> Figures:
    """Return the figures of a run's window; CPU times per container.

    Raises:
        BenchError: something else than the scheduler bounded it: slots or asks ran out.
    """
    seen, window = run.measurements, run.measurements["window"]
    if window is None or "end_ms" not in window:
        raise BenchError(f"{seen['attempts_ended']} application masters ended, which never should; see --folder")
    start_ms, end_ms, commits = (window[name] for name in ("start_ms", "end_ms", "commits"))
    return common_figures(run, load.nodes, load.heartbeat_ms, start_ms, end_ms, max(1, commits)) | {
        "containers_per_s": 1000 * commits / (end_ms - start_ms),
        "least_free": _least_free(seen, load),
    }


def _least_free(seen: Mapping[str, Any], load: BacklogLoad) -> float:
    """Return the smallest share of free slots in the window; raise BenchError if slots or asks ran out."""
    columns, window = seen["sample_columns"], seen["window"]
    at, running, pending = (columns.index(name) for name in ("elapsed_ms", "running", "pending"))
    inside = [each for each in seen["samples"] if window["start_ms"] <= each[at] <= window["end_ms"]]
    if not inside:
        raise BenchError("nothing was sampled while it was measured: a longer --window-s is needed")
    free = 1 - float(max(each[running] for each in inside)) / load.slots
    if free < LEAST_FREE:
        raise BenchError(
            f"only {percent(free)} of {load.slots:,} slots were free: they bound the run and not the scheduler; "
            f"try more --slots-per-node than {load.slots_of_node}"
        )
    if min(each[pending] for each in inside) <= 0:
        raise BenchError(
            f"the asks ran out: they bound the run and not the scheduler; try more --tasks than {load.tasks:,}"
        )
    return free


RATE: Final = Sheet(
    (("containers_per_s", "containers/s", ",.0f"), *COMMON_ROWS, ("least_free", "slots free, least", ".0%")),
    "containers_per_s",
    True,
    {
        "rate_ratio": ("treadle", None, "containers_per_s"),
        "floor_ratio": ("treadle", "floor", "containers_per_s"),
        "floor_to_stock": ("floor", None, "containers_per_s"),
        "heartbeat_p99_ratio": ("treadle", None, "heartbeat_p99_us"),
        "scheduler_cpu_ratio": ("treadle", None, "scheduler_cpu_us"),
        "observe_rate_ratio": ("observe", "sync", "containers_per_s"),
        "observe_cpu_ratio": ("observe", "sync", "jvm_cpu_us"),
    },
    {
        "containers_per_s": "containers/s",
        "heartbeat_p99_us": "heartbeat p99",
        "scheduler_cpu_us": "scheduler CPU",
        "jvm_cpu_us": "CPU of RM and simulation",
    },
)
