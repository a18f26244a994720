"""Runs Hadoop's load simulator, and reads its results."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from treadle_lab.minicluster.processes import detached, terminable
from treadle_lab.minicluster.settings import java_home, treadle_command
from treadle_lab.minicluster.site import CS, queue_entries, write_site
from treadle_lab.sls.load import (
    AM_SHARE,
    CONTAINER_MB,
    NODE_MB,
    NODE_VCORES,
    QUEUES,
    BenchError,
    Files,
    Kind,
    Mode,
    Workload,
)

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
