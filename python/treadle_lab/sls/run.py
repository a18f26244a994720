"""Hadoop's load simulator: loads and modes, the jars that it runs, its runs and their results."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import psutil
from rich.console import Console

from treadle.errors import UserError
from treadle_lab.minicluster.processes import detached, terminable
from treadle_lab.minicluster.settings import CHECKOUT, gather, java_home, treadle_command
from treadle_lab.minicluster.site import CS, queue_entries, write_site


class BenchError(UserError):
    """The benchmark cannot run or a run gave no result; the text says why and what to do."""


_STOCK = "io.treadle.sls.MeasuredCapacityScheduler"
_TREADLE = "io.treadle.sls.SlsTreadleScheduler"
_MODE = "yarn.scheduler.treadle.mode"
_FLOOR = {_MODE: "enforce", "yarn.scheduler.treadle.engine.class": "io.treadle.sls.FirstFitEngine"}
_ASYNC = CS + "schedule-asynchronously."


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
    settings = {_ASYNC + "enable": "true", _ASYNC + "maximum-threads": str(threads)}
    return Mode(f"async-{threads}", Kind.STOCK, _STOCK, settings)


_AT_HEARTBEATS: Final = {
    CS + "per-node-heartbeat.multiple-assignments-enabled": "true",
    CS + "per-node-heartbeat.maximum-container-assignments": "100",
    CS + "per-node-heartbeat.maximum-offswitch-assignments": "100",
}

MODES: Final[dict[str, Mode]] = {
    mode.name: mode
    for mode in (
        Mode("sync", Kind.STOCK, _STOCK, _AT_HEARTBEATS),
        Mode("observe", Kind.OBSERVER, _TREADLE, _AT_HEARTBEATS, {_MODE: "observe_only"}),
        asynchronous(1),
        asynchronous(2),
        Mode("treadle", Kind.TREADLE, _TREADLE, yarn_settings={_MODE: "enforce"}),
        Mode("floor", Kind.FLOOR, _TREADLE, yarn_settings=_FLOOR),
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


POOL_THREADS: Final = 16
"""SLS's threads, which play all nodes and application masters."""

HEARTBEAT_MS: Final = 1_000

_LOG4J = """\
log4j.rootLogger=WARN,file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={file}
log4j.appender.file.MaxFileSize=64MB
log4j.appender.file.MaxBackupIndex=1
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %p %c{{2}} [%t]: %m%n
log4j.logger.io.treadle=INFO
# warns at the end of each application that it has ended already
log4j.logger.org.apache.hadoop.yarn.sls.appmaster=ERROR
"""


def write_configuration(
    folder: Path, mode: Mode, workload: Workload, measurements: Path, log: Path, sidecar_command: str
) -> None:
    """Write the files that a simulation in `mode` reads from its class path into `folder`."""
    site = yarn_site(mode, workload, measurements, sidecar_command, log.with_name("sidecar.log"))
    files = {
        "core-site.xml": {"fs.defaultFS": "file:///", "hadoop.security.authentication": "simple"},
        "yarn-site.xml": site,
        "sls-runner.xml": {**sls_runner(), **site},
        "capacity-scheduler.xml": capacity_scheduler(mode),
    }
    for name, properties in files.items():
        write_site(folder / name, properties)
    (folder / "log4j.properties").write_text(_LOG4J.format(file=log))


def yarn_site(
    mode: Mode, workload: Workload, measurements: Path, sidecar_command: str, sidecar_log: Path
) -> dict[str, str]:
    """Return the ResourceManager's settings: the same for all modes but for the scheduler."""
    manager = "yarn.resourcemanager."
    settings = {
        manager + "hostname": "127.0.0.1",
        manager + "scheduler.class": mode.scheduler_class,
        manager + "scheduler.monitor.enable": "false",
        manager + "nodemanagers.heartbeat-interval-ms": str(HEARTBEAT_MS),
        manager + "am.max-attempts": "1",
        manager + "work-preserving-recovery.enabled": "false",
        "yarn.scheduler.minimum-allocation-mb": str(CONTAINER_MB),
        "yarn.scheduler.maximum-allocation-mb": str(NODE_MB),
        "yarn.scheduler.maximum-allocation-vcores": str(NODE_VCORES),
        # the default is one folder for each user of the machine, which two RMs that start together overwrite
        "yarn.node-attribute.fs-store.root-dir": (measurements.parent.absolute() / "attributes").as_uri(),
        "treadle.bench.output": str(measurements),
        "treadle.bench.jobs": str(workload.jobs),
    }
    for service in ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address"):
        settings[manager + service] = "127.0.0.1:0"
    settings.update(mode.yarn_settings)
    if mode.kind in (Kind.TREADLE, Kind.OBSERVER):
        settings["yarn.scheduler.treadle.sidecar"] = "managed"
        settings["yarn.scheduler.treadle.python.command"] = sidecar_command
        settings["yarn.scheduler.treadle.sidecar.log-file"] = str(sidecar_log)
    return settings


def sls_runner() -> dict[str, str]:
    """Return the simulator's settings."""
    return {
        "yarn.sls.runner.pool.size": str(POOL_THREADS),
        "yarn.sls.nm.memory.mb": str(NODE_MB),
        "yarn.sls.nm.vcores": str(NODE_VCORES),
        "yarn.sls.nm.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "yarn.sls.am.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "yarn.sls.am.type.mapreduce": "org.apache.hadoop.yarn.sls.appmaster.MRAMSimulator",
        "yarn.sls.am.container.memory": str(CONTAINER_MB),
        "yarn.sls.am.container.vcores": "1",
        "yarn.sls.container.memory.mb": str(CONTAINER_MB),
        "yarn.sls.container.vcores": "1",
        "yarn.sls.metrics.switch": "false",
        "yarn.sls.dns.caching.enabled": "true",
    }


def capacity_scheduler(mode: Mode) -> dict[str, str]:
    """Three queues that may each grow to the whole cluster, one user."""
    shared = {f"{CS}maximum-applications": "100000", f"{CS}maximum-am-resource-percent": str(AM_SHARE)}
    return {**shared, **queue_entries(QUEUES, 100), **mode.capacity_settings}


POLL_S: Final = 0.25
END_S: Final = 15.0
"""How long a simulation may take to end after SIGTERM before it is killed, in seconds."""

_COMPLAINTS: Final = {
    "rm.log": re.compile(r" (ERROR|FATAL) "),
    "out.txt": re.compile(r"^(Error|Exception|Caused by|[\w.]+(Exception|Error)\b)"),
}
"""Patterns of errors in each file that a simulation writes."""


@dataclass(frozen=True)
class Setting:
    """Common settings of all runs of a benchmark."""

    workload: Workload
    class_path: list[Path]
    heap_mb: int
    stall_s: float
    """A run in which nothing happens for this long is given up."""
    jvm_options: tuple[str, ...] = ()
    sidecar: Path | None = None
    """The program that the shim starts; None: the treadle command next to this Python."""


@dataclass(frozen=True)
class CpuSample:
    """CPU time of the processes that the simulation has started (the sidecar), seconds, at a time since 1970."""

    epoch_ms: float
    seconds: float


@dataclass
class Run:
    """Results of a run: the measurements of the JVM, and the sidecar's CPU time as measured from outside."""

    mode: Mode
    measurements: dict[str, Any] = field(default_factory=dict)
    sidecar_cpu: list[CpuSample] = field(default_factory=list)
    failure: str | None = None
    """Why there is no result, None if there is one."""

    def sidecar_cpu_between(self, start_epoch_ms: float, end_epoch_ms: float) -> float:
        """Return the CPU seconds of the sidecar between two times, by the samples next to them."""
        if not self.sidecar_cpu:
            return 0.0
        before = [sample.seconds for sample in self.sidecar_cpu if sample.epoch_ms <= start_epoch_ms]
        until = [sample.seconds for sample in self.sidecar_cpu if sample.epoch_ms <= end_epoch_ms]
        first = before[-1] if before else self.sidecar_cpu[0].seconds
        last = until[-1] if until else first
        return max(0.0, last - first)


def simulate(mode: Mode, setting: Setting, folder: Path, progress: Callable[[dict[str, Any]], None]) -> Run:
    """Run the workload under `mode` with all files in `folder`, a new one; never raise for a run that fails.

    `progress` is called with the measurements so far, several times a second. Ctrl-C, SIGTERM and SIGHUP end the
    simulation with this process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measurements = folder / "measurements.json"
    log = folder / "rm.log"
    files = setting.workload.write(folder)
    write_configuration(folder, mode, setting.workload, measurements, log, str(setting.sidecar or treadle_command()))
    command = _command(setting, folder, files)
    run = Run(mode)
    with terminable():
        process = detached(command, folder, folder / "out.txt")
        try:
            _watch(process, run, setting, folder, progress)
        finally:
            _end(process)
    return run


def _command(setting: Setting, folder: Path, files: Files) -> list[str]:
    return [
        str(java_home() / "bin" / "java"),
        f"-Xmx{setting.heap_mb}m",
        f"-Xms{setting.heap_mb}m",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        f"-Djdk.net.hosts.file={files.hosts}",
        f"-Dyarn.log.dir={folder}",
        f"-Dhadoop.tmp.dir={folder / 'tmp'}",
        *setting.jvm_options,
        "-cp",
        os.pathsep.join([str(folder), *map(str, setting.class_path)]),
        "org.apache.hadoop.yarn.sls.SLSRunner",
        "-tracetype",
        "SYNTH",
        "-tracelocation",
        files.trace.as_uri(),
        "-nodes",
        str(files.nodes),
        "-output",
        str(folder / "sls"),
    ]


def _watch(
    process: subprocess.Popen[bytes],
    run: Run,
    setting: Setting,
    folder: Path,
    progress: Callable[[dict[str, Any]], None],
) -> None:
    """Follow the simulation until it is done, has ended, or nothing has happened for too long."""
    last_progress: tuple[Any, ...] = ()
    last_change = time.monotonic()
    while True:
        run.measurements = _read(folder / "measurements.json") or run.measurements
        _sample_children(process, run)
        progress(run.measurements)
        if run.measurements.get("state") == "finished":
            return
        if process.poll() is not None:
            run.measurements = _read(folder / "measurements.json") or run.measurements
            run.failure = (
                f"the simulator ended by itself with code {process.returncode}. {diagnose(run, setting, folder)}"
            )
            return
        seen = _signs_of_life(run.measurements)
        if seen != last_progress:
            last_progress, last_change = seen, time.monotonic()
        elif time.monotonic() - last_change > setting.stall_s:
            process.send_signal(signal.SIGQUIT)  # the JVM prints its threads to out.txt
            time.sleep(1.0)
            run.failure = f"nothing has happened for {setting.stall_s:.0f} s. {diagnose(run, setting, folder)}"
            return
        time.sleep(POLL_S)


def _signs_of_life(measurements: dict[str, Any]) -> tuple[Any, ...]:
    """Return values that change while the workload progresses. Heartbeats do not count: they never stop."""
    return (
        measurements.get("nodes"),
        measurements.get("attempts_ended"),
        measurements.get("commits", {}).get("total"),
        measurements.get("completions", {}).get("total"),
    )


def diagnose(run: Run, setting: Setting, folder: Path) -> str:
    """Return the known state of a failed run, in a few sentences."""
    seen = run.measurements
    if not seen:
        return f"It never got as far as a scheduler. {_complaints(folder)}"
    parts = [f"{seen.get('nodes', 0)} of {setting.workload.nodes} nodes registered"]
    if seen.get("nodes", 0) < setting.workload.nodes:
        parts.append("nodes whose names do not resolve cannot register")
    shim = seen.get("shim") or {}
    if seen.get("state") == "waiting" and run.mode.kind is not Kind.STOCK and shim.get("LeaseHeld") != 1:
        parts.append("the engine never held the lease")
    if shim:
        parts.append(f"lease held: {shim.get('LeaseHeld')}, rejected: {shim.get('Rejected')}")
        parts.extend(str(shim[key]) for key in ("LastError", "Refusal") if shim.get(key))
    if seen.get("samples"):
        last = dict(zip(seen["sample_columns"], seen["samples"][-1], strict=True))
        parts.append(
            "{running:.0f} containers running, {pending:.0f} asked for, {apps_running:.0f} applications running, "
            "{apps_pending:.0f} waiting, {reserved:.0f} reservations, {stale_nodes:.0f} nodes silent for two "
            "heartbeats".format(**last)
        )
    parts.append(f"{seen.get('attempts_ended', 0)} of {setting.workload.jobs} jobs ended")
    if seen.get("failure"):
        parts.append(f"the measurement failed: {seen['failure']}")
    if seen.get("deadlock"):
        parts.append("threads are deadlocked: see measurements.json")
    return "; ".join(parts) + f". {_complaints(folder)}"


def _complaints(folder: Path, lines: int = 3) -> str:
    """Return the last errors of the log and of the output, and where to read on."""
    texts: list[str] = []
    for name, complaint in _COMPLAINTS.items():
        path = folder / name
        if path.exists():
            text = path.read_text(errors="replace").splitlines()[-5000:]
            texts += [line.strip()[:300] for line in text if complaint.search(line)][-lines:]
    said = "Last errors: " + " | ".join(texts) + ". " if texts else ""
    return f"{said}Logs: {folder}"


def _read(path: Path) -> dict[str, Any] | None:
    """Return the measurements, None while there are none."""
    try:
        value: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return value


def _sample_children(process: subprocess.Popen[bytes], run: Run) -> None:
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    seconds = 0.0
    for child in children:
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
    if children:
        run.sidecar_cpu.append(CpuSample(time.time() * 1000, seconds))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the simulation and whatever it has started."""
    for name, timeout_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
        try:
            os.killpg(process.pid, name)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        raise BenchError(f"process {process.pid} does not end, not even by SIGKILL")


P50: Final = "DecideP50Us"
P99: Final = "DecideP99Us"


def decide_us(shim: Mapping[str, Any], name: str) -> float:
    """Return a quantile of the last window of ten seconds before a reading; nan if nothing was decided in it."""
    return float(shim.get(name, 0)) or math.nan


SCHEDULER_THREADS: Final = ("scheduler_events", "async_scheduling", "async_commits", "treadle")
"""Groups of threads whose CPU time is the scheduler's own: the event thread (heartbeats, and with them what a
synchronous scheduler decides), the threads of asynchronous scheduling, and the shim's."""


def heartbeats_share(
    measurements: Mapping[str, Any], nodes: int, heartbeat_ms: float, start_ms: float, end_ms: float
) -> float:
    """Return nodes' heartbeats that were handled over those that were due between two times of the run."""
    beats = measurements["heartbeats"]
    first, last = (int(each_ms // beats["bucket_ms"]) for each_ms in (start_ms, end_ms))
    due = nodes * (last - first) * beats["bucket_ms"] / heartbeat_ms
    return float(sum(beats["counts"][first:last]) / due) if due else math.nan
