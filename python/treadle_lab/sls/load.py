"""Loads and modes of the load simulator, and the jars that it runs."""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rich.console import Console

from treadle.errors import UserError
from treadle_lab.minicluster.settings import CHECKOUT, gather


class BenchError(UserError):
    """The benchmark cannot run or a run gave no result; the text says why and what to do."""


_STOCK = "io.treadle.sls.MeasuredCapacityScheduler"
_TREADLE = "io.treadle.sls.SlsTreadleScheduler"
_FLOOR_ENGINE = "io.treadle.sls.FirstFitEngine"
_CAPACITY = "yarn.scheduler.capacity."
_ASYNC = _CAPACITY + "schedule-asynchronously."


class Kind(StrEnum):
    """A mode's role in the comparison."""

    STOCK = "stock"
    OBSERVER = "observer"
    TREADLE = "treadle"
    FLOOR = "floor"


@dataclass(frozen=True)
class Mode:
    """One way of scheduling: a scheduler class for SLS and its settings."""

    name: str
    kind: Kind
    scheduler_class: str
    capacity_settings: dict[str, str] = field(default_factory=dict)
    """Goes to capacity-scheduler.xml."""
    yarn_settings: dict[str, str] = field(default_factory=dict)
    """Goes to yarn-site.xml."""


def asynchronous(threads: int) -> Mode:
    """Return the stock scheduler with this many threads that place at any time."""
    return Mode(
        name=f"async-{threads}",
        kind=Kind.STOCK,
        scheduler_class=_STOCK,
        capacity_settings={_ASYNC + "enable": "true", _ASYNC + "maximum-threads": str(threads)},
    )


_AT_HEARTBEATS: Final = {
    _CAPACITY + "per-node-heartbeat.multiple-assignments-enabled": "true",
    _CAPACITY + "per-node-heartbeat.maximum-container-assignments": "100",
    _CAPACITY + "per-node-heartbeat.maximum-offswitch-assignments": "100",
}

MODES: Final[dict[str, Mode]] = {
    mode.name: mode
    for mode in (
        Mode(name="sync", kind=Kind.STOCK, scheduler_class=_STOCK, capacity_settings=_AT_HEARTBEATS),
        Mode(
            name="observe",
            kind=Kind.OBSERVER,
            scheduler_class=_TREADLE,
            capacity_settings=_AT_HEARTBEATS,
            yarn_settings={"yarn.scheduler.treadle.mode": "observe_only"},
        ),
        asynchronous(1),
        asynchronous(2),
        Mode("treadle", Kind.TREADLE, _TREADLE, yarn_settings={"yarn.scheduler.treadle.mode": "enforce"}),
        Mode(
            "floor",
            Kind.FLOOR,
            _TREADLE,
            yarn_settings={
                "yarn.scheduler.treadle.mode": "enforce",
                "yarn.scheduler.treadle.engine.class": _FLOOR_ENGINE,
            },
        ),
    )
}
"""All modes by name, in the order in which they run."""


def treadle_under(
    name: str,
    file: Path,
    settings: Mapping[str, str] = MappingProxyType({}),
    capacity: Mapping[str, str] | None = None,
    like: Mode = MODES["treadle"],
) -> Mode:
    """Return Treadle under a treadle.yaml.

    Args:
        name: of the mode
        file: the treadle.yaml
        settings: further ones of yarn-site.xml
        capacity: capacity-scheduler.xml; None: that of every mode
        like: the mode with all other settings
    """
    yarn = {**like.yarn_settings, "yarn.scheduler.treadle.config.file": str(file), **settings}
    own = like.capacity_settings if capacity is None else dict(capacity)
    return replace(like, name=name, capacity_settings=own, yarn_settings=yarn)


def chosen(names: Collection[str], modes: Mapping[str, Mode] = MODES, load: str = "") -> list[Mode]:
    """Return the modes of these names, all if there are none, in the order of ``modes``.

    Raises:
        BenchError: there is no mode of a name; ``load`` is said with it.
    """
    if unknown := sorted(set(names) - modes.keys()):
        raise BenchError(f"--mode {unknown[0]}: there is no such mode{load}; there are {', '.join(modes)}")
    return [mode for mode in modes.values() if not names or mode.name in names]


QUEUES: Final = {"etl": 50, "analysis": 30, "adhoc": 20}
"""Leaf queues under root and their capacity in percent; jobs fall to them in the same proportion."""

NODE_MB: Final = 10_240
NODE_VCORES: Final = 10
CONTAINER_MB: Final = 1_024
NODES_PER_RACK: Final = 40

LARGEST: Final = 1_000_000
"""Maximum of nodes, jobs, tasks of a job, and a task's milliseconds: far above a machine's capability."""

FIRST_ADDRESS: Final = ipaddress.IPv4Address("127.1.0.0")

AM_SHARE: Final = 0.15
"""The share of the cluster that a queue's application masters may take. In all queues together below 1, so that jobs
that run can always get tasks."""


@dataclass(frozen=True)
class Files:
    """The simulator's input files of a load: the jobs, the nodes by rack, and the resolvable names."""

    trace: Path
    nodes: Path
    hosts: Path


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
            if not 1 <= value <= LARGEST:
                raise BenchError(f"--{name.replace('_', '-')} is {value}: it must lie between 1 and {LARGEST:,}")
        if not 0 <= self.seed < 1 << 63:
            raise BenchError(f"--seed is {self.seed}: it must lie between 0 and 2^63 - 1")

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

    def as_json(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return asdict(self) | {"containers": self.containers, "ideal_span_s": self.ideal_span_ms / 1000}

    def racks(self) -> dict[str, list[str]]:
        """Return the nodes of each rack.

        A node's name is an address of its own. The RM turns names into addresses before it looks up a node's rack in
        the table that SLS writes, by name: with names it would find none, and no ask for a rack could be met.
        """
        racks = [f"rack{rack}" for rack in range(-(-self.nodes // NODES_PER_RACK))]
        return {
            rack: [str(FIRST_ADDRESS + index) for index in range(at, self.nodes, len(racks))]
            for at, rack in enumerate(racks)
        }

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace (org.apache.hadoop.yarn.sls.synthetic.SynthTraceJobProducer)."""
        return {
            "description": "written by treadle lab bench",
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

    def write(self, folder: Path) -> Files:
        """Write the simulator's input files into `folder`."""
        files = Files(folder / "workload.json", folder / "nodes.json", folder / "hosts")
        files.trace.write_text(json.dumps(self.trace(), indent=1))
        racks = [{"rack": rack, "nodes": [{"node": node} for node in nodes]} for rack, nodes in self.racks().items()]
        files.nodes.write_text("".join(json.dumps(rack) + "\n" for rack in racks))
        files.hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", socket.gethostname())))
        return files


_PARTS: Final = ("shim", "requirements", "plan-client", "sls")
"""Modules whose jars a simulation needs."""


def class_path() -> list[Path]:
    """Return jars and wildcard folders for the simulation, ours first; Hadoop's are those of the mini cluster.

    Raises:
        BenchError: something is missing; the text says how to get it.
    """
    return [*own_jars(), gather(Console(stderr=True).print) / "*"]


def own_jars() -> list[Path]:
    """Return the shim and the simulator module, built if their sources are newer."""
    module = CHECKOUT / "java-shim"
    if not (module / "sls" / "pom.xml").exists():
        raise BenchError("treadle lab bench needs a checkout of the project: java-shim/sls is not there")
    sources = [*module.glob("*/src/main/**/*.java"), *module.glob("**/pom.xml")]
    newest = max(path.stat().st_mtime for path in sources)
    jars = [_built(module / part, f"treadle-{part}") for part in _PARTS]
    if any(jar is None or jar.stat().st_mtime < newest for jar in jars):
        _build(module)
        jars = [_built(module / part, f"treadle-{part}") for part in _PARTS]
    found = [jar for jar in jars if jar is not None]
    if len(found) != len(jars):
        raise BenchError(f"Maven built no jar in some of {', '.join(f'{module}/{part}/target' for part in _PARTS)}")
    return found


def _built(module: Path, name: str) -> Path | None:
    jars = [jar for jar in module.glob(f"target/{name}-*.jar") if "original" not in jar.name]
    return max(jars, key=lambda jar: jar.stat().st_mtime, default=None)


def _build(module: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BenchError("no mvn found: install Maven (Debian: apt install maven)")
    goals = ("-pl", "sls", "-am", "package", "-Dmaven.test.skip=true")
    command = [maven, "-q", "-B", "-ntp", "-f", str(module / "pom.xml"), *goals]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"Maven could not build java-shim/sls:\n{(done.stdout + done.stderr)[-3000:]}")
