"""Runs Hadoop's load simulator, and reads what it left."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

import psutil

from treadle_lab.minicluster.processes import terminable
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

DEPTH: Final = 64
"""Frames of a stack that are recorded; deeper ones lack their outermost frames."""
LEAST_SHARE: Final = 0.01
"""Methods with less of a thread's samples are left out of its table."""
_SAMPLE: Final = "jdk.ExecutionSample"


@dataclass(frozen=True)
class ThreadProfile:
    """The samples of one thread, or of all threads whose names differ in numbers only."""

    thread: str
    samples: int
    within: Mapping[str, float]
    """By method, the share of samples in which it, or something that it called, ran; the largest first."""
    alone: Mapping[str, float]
    """By method, the share of samples in which it ran itself."""
    stacks: Mapping[str, int]
    """Samples by stack, outermost method first, joined by semicolons: what tools that draw flame graphs read."""

    def as_json(self) -> dict[str, Any]:
        """Return the table, without stacks and without methods of less than `LEAST_SHARE`."""
        return {
            "thread": self.thread,
            "samples": self.samples,
            "within": {name: round(share, 4) for name, share in self.within.items() if share >= LEAST_SHARE},
            "alone": {name: round(share, 4) for name, share in self.alone.items() if share >= LEAST_SHARE},
        }

    def folded(self) -> str:
        """Return the stacks, one a line, with their numbers of samples."""
        return "".join(f"{stack} {count}\n" for stack, count in sorted(self.stacks.items()))


def recording_options(file: Path) -> tuple[str, ...]:
    """Return what makes a JVM record its threads' stacks and write them to a file when it ends."""
    return (
        f"-XX:FlightRecorderOptions=stackdepth={DEPTH}",
        f"-XX:StartFlightRecording=filename={file},settings=profile",
    )


def jfr_command(java: str) -> Path:
    """Return the `jfr` command beside ``java``; raise BenchError if there is none."""
    beside = [path.with_name("jfr") for path in (Path(java), Path(java).resolve())]
    command = next((path for path in beside if path.exists()), None)
    if command is None:
        raise BenchError(f"--profile: no jfr beside {java}; a JDK has one, a JRE does not")
    return command


def read_samples(java: str, recording: Path) -> list[dict[str, Any]]:
    """Return the samples of a recording.

    Raises:
        BenchError: there is no recording, or no command that reads it.
    """
    command = jfr_command(java)
    if not recording.exists():
        raise BenchError(f"--profile: the JVM has not written {recording}; its output is beside it")
    printed = subprocess.run(
        [command, "print", "--json", "--stack-depth", str(DEPTH), "--events", _SAMPLE, recording],
        capture_output=True,
        check=False,
    )
    if printed.returncode:
        raise BenchError(f"--profile: {command} cannot read {recording}: {printed.stderr.decode(errors='replace')}")
    events: list[dict[str, Any]] = json.loads(printed.stdout)["recording"]["events"]
    return [event["values"] for event in events]


def write_profiles(found: Sequence[ThreadProfile], window_ms: float, folder: Path, name: str) -> None:
    """Write a table of all threads, and of each the stacks to draw, to files whose names begin with ``name``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        table = {"window_ms": round(window_ms), "threads": [each.as_json() for each in found]}
        (folder / f"{name}.json").write_text(json.dumps(table, indent=1) + "\n")
        for each in found:
            thread = re.sub(r"[^\w-]+", "-", each.thread)
            (folder / f"{name}-{thread}.folded").write_text(each.folded())
    except OSError as error:
        raise BenchError(f"--profile {folder}: {error.strerror or error}; name a folder that can be written") from error


def profiles(samples: Iterable[Mapping[str, Any]], start_ms: float, end_ms: float) -> list[ThreadProfile]:
    """Return a profile of each thread, the busiest first.

    Args:
        samples: of `read_samples`
        start_ms: when the time that counts begins, milliseconds since 1970
        end_ms: when it ends
    """
    stacks: dict[str, Counter[str]] = {}
    for sample in samples:
        at_ms = 1000 * datetime.fromisoformat(_in_micros(sample["startTime"])).timestamp()
        if sample["stackTrace"] is None or not start_ms <= at_ms <= end_ms:
            continue
        thread = re.sub(r"\d+", "N", (sample["sampledThread"] or {}).get("javaName") or "not Java")
        frames = [_method(frame["method"]) for frame in sample["stackTrace"]["frames"]]
        stacks.setdefault(thread, Counter())[";".join(reversed(frames))] += 1
    found = [_profile(thread, counts) for thread, counts in stacks.items()]
    return sorted(found, key=lambda each: (-each.samples, each.thread))


def _profile(thread: str, stacks: Counter[str]) -> ThreadProfile:
    samples = stacks.total()
    within: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for stack, count in stacks.items():
        methods = stack.split(";")
        alone[methods[-1]] += count
        for method in set(methods):
            within[method] += count
    return ThreadProfile(thread, samples, _shares(within, samples), _shares(alone, samples), stacks)


def _shares(counts: Counter[str], samples: int) -> dict[str, float]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {name: count / samples for name, count in ordered}


def _method(method: Mapping[str, Any]) -> str:
    """Return a method by its class without the package."""
    return f"{method['type']['name'].rpartition('/')[2]}.{method['name']}"


def _in_micros(time: str) -> str:
    """Return a time that `datetime` reads: it knows no nanoseconds."""
    return re.sub(r"(\.\d{1,6})\d*", r"\1", time)


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
        (folder / name).write_text(to_xml(properties))
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
    prefix = "yarn.scheduler.capacity."
    settings = {
        prefix + "root.queues": ",".join(QUEUES),
        prefix + "maximum-applications": "100000",
        prefix + "maximum-am-resource-percent": str(AM_SHARE),
    }
    for queue, capacity in QUEUES.items():
        settings[f"{prefix}root.{queue}.capacity"] = str(capacity)
        settings[f"{prefix}root.{queue}.maximum-capacity"] = "100"
        settings[f"{prefix}root.{queue}.user-limit-factor"] = "100"
    settings.update(mode.capacity_settings)
    return settings


def to_xml(properties: Mapping[str, str]) -> str:
    """Return a Hadoop configuration file."""
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


PROFILE: Final = "profile.jfr"
"""The stacks of the JVM's threads, as its flight recorder writes them."""

POLL_S: Final = 0.25
END_S: Final = 15.0
"""How long a simulation may take to end after SIGTERM before it is killed."""

_COMPLAINTS: Final = {
    "rm.log": re.compile(r" (ERROR|FATAL) "),
    "out.txt": re.compile(r"^(Error|Exception|Caused by|[\w.]+(Exception|Error)\b)"),
}
"""What an error looks like in each file that a simulation writes."""


@dataclass(frozen=True)
class Setting:
    """What all runs of a benchmark have in common."""

    workload: Workload
    class_path: list[Path]
    java: str
    heap_mb: int
    sidecar_command: str
    stall_s: float
    """A run in which nothing happens for this long is given up."""
    jvm_options: tuple[str, ...] = ()
    profile: bool = False
    """Whether each run writes `PROFILE` into its folder."""


@dataclass(frozen=True)
class CpuSample:
    """CPU time of the processes that the simulation has started (the sidecar), seconds, at a time since 1970."""

    epoch_ms: float
    seconds: float


@dataclass
class Run:
    """What a run left: the measurements of the JVM, and the sidecar's CPU time as seen from outside."""

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
    write_configuration(folder, mode, setting.workload, measurements, log, setting.sidecar_command)
    command = _command(setting, folder, files)
    run = Run(mode)
    with terminable(), (folder / "out.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=folder,
        )
        try:
            _watch(process, run, setting, folder, progress)
        finally:
            _end(process)
    return run


def _command(setting: Setting, folder: Path, files: Files) -> list[str]:
    return [
        setting.java,
        f"-Xmx{setting.heap_mb}m",
        f"-Xms{setting.heap_mb}m",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        f"-Djdk.net.hosts.file={files.hosts}",
        f"-Dyarn.log.dir={folder}",
        f"-Dhadoop.tmp.dir={folder / 'tmp'}",
        *(recording_options(folder / PROFILE) if setting.profile else ()),
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
    """Return what changes as long as the workload goes forward. Heartbeats do not count: they go on for ever."""
    return (
        measurements.get("nodes"),
        measurements.get("attempts_ended"),
        measurements.get("commits", {}).get("total"),
        measurements.get("completions", {}).get("total"),
    )


def diagnose(run: Run, setting: Setting, folder: Path) -> str:
    """Return what is known about a failed run, in a few sentences."""
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
    found: list[str] = []
    for name, complaint in _COMPLAINTS.items():
        path = folder / name
        if path.exists():
            text = path.read_text(errors="replace").splitlines()[-5000:]
            found += [line.strip()[:300] for line in text if complaint.search(line)][-lines:]
    said = "Last errors: " + " | ".join(found) + ". " if found else ""
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

COUNTED_PER_MODE: Final = ("rejected", "placed_natively", "containers_missing", "attempts_not_finished")
"""Figures of which a mode shows the worst round instead of the median."""


@dataclass(frozen=True)
class Figures:
    """What one run showed. Times are wall-clock times unless they say CPU; nan where a mode has no such thing."""

    span_s: float
    """From the first container that ran (its commit) to the end of the last."""
    containers: float
    peak_containers_per_s: float
    """Most commits within one second."""
    mean_containers_per_s: float
    """Commits divided by the time from the first to the last."""
    commit_wall_us: float
    commit_cpu_us: float
    scheduler_cpu_us: float
    """Per container: the threads in SCHEDULER_THREADS, the handling of application masters' calls, and the sidecar."""
    shim_commit_cpu_us: float
    """CPU time of a commit with all that the shim does around tryCommit, by the shim's own metrics."""
    shim_frame_us: float
    """Per container: time that the shim spends on writing frames, by its own metrics."""
    shim_link_cpu_us: float
    """Per container: CPU time of the link thread, commits and frames included, by the shim's own metrics."""
    heartbeat_p50_us: float
    heartbeat_p99_us: float
    stale_nodes_mean: float
    """Nodes that had been silent for two seconds, on average over the span: above 0 the simulation itself is behind."""
    rm_cpu_s: float
    """The whole JVM during the span, the simulated nodes and applications included."""
    sidecar_cpu_s: float
    decide_p50_us: float
    decide_p99_us: float
    rejected: float
    placed_natively: float
    containers_missing: float
    """Containers of the workload that were never committed."""
    attempts_not_finished: float
    """Applications whose attempt did not count as finished: SLS reports an AM's end to its node and to the RM at
    about the same time, and if the node is heard first the RM takes the AM for failed, after all of its tasks
    have run."""


@dataclass(frozen=True)
class ModeResult:
    """All rounds of a mode: the median of each figure (the worst of COUNTED_PER_MODE), and why rounds failed."""

    mode: Mode
    figures: Figures | None
    rounds: tuple[Figures, ...]
    failures: tuple[str, ...]


def figures_of(run: Run, containers_wanted: int) -> Figures:
    """Return the figures of a complete run."""
    seen = run.measurements
    commits, completions = seen["commits"], seen["completions"]
    committed = max(1, commits["total"])
    start_ms, end_ms = commits["first_ms"], completions["last_ms"]
    origin_ms = seen["origin_epoch_ms"]
    cpu = seen["cpu_ns"]
    sidecar_s = run.sidecar_cpu_between(origin_ms + start_ms, origin_ms + end_ms)
    scheduler_ns = sum(cpu.get(group, 0) for group in SCHEDULER_THREADS) + seen["allocate_cpu"]["total_ns"]
    shim = _Shim(seen)
    return Figures(
        span_s=(end_ms - start_ms) / 1000,
        containers=commits["total"],
        peak_containers_per_s=peak_per_s(commits["counts"], commits["bucket_ms"]),
        mean_containers_per_s=_ratio(commits["total"], (commits["last_ms"] - start_ms) / 1000),
        commit_wall_us=_ratio(seen["commit_wall"]["total_ns"] / 1000, committed),
        commit_cpu_us=_ratio(seen["commit_cpu"]["total_ns"] / 1000, committed),
        scheduler_cpu_us=(scheduler_ns / 1000 + sidecar_s * 1e6) / committed,
        shim_commit_cpu_us=shim.since_first_container("CommitCpuNanos") / 1000 / committed,
        shim_frame_us=shim.since_first_container("FrameNanos") / 1000 / committed,
        shim_link_cpu_us=shim.since_first_container("LinkCpuNanos") / 1000 / committed,
        heartbeat_p50_us=seen["heartbeat_wall"]["p50_ns"] / 1000,
        heartbeat_p99_us=seen["heartbeat_wall"]["p99_ns"] / 1000,
        stale_nodes_mean=stale_nodes(seen, start_ms, end_ms),
        rm_cpu_s=cpu.get("process", 0) / 1e9,
        sidecar_cpu_s=sidecar_s,
        decide_p50_us=shim.decide_us(P50),
        decide_p99_us=shim.decide_us(P99),
        rejected=shim.value("Rejected", absent=0),
        placed_natively=shim.value("PlacedNatively", absent=0),
        containers_missing=max(0, containers_wanted - commits["total"]),
        attempts_not_finished=seen["attempts_not_finished"],
    )


class _Shim:
    """The shim's own metrics at the end of a run; none in a stock run."""

    def __init__(self, measurements: Mapping[str, Any]) -> None:
        self._end: Mapping[str, Any] = measurements.get("shim") or {}
        self._start: Mapping[str, Any] = measurements.get("shim_at_first_container") or {}

    def value(self, name: str, absent: float = math.nan) -> float:
        return float(self._end.get(name, absent))

    def decide_us(self, name: str) -> float:
        """Return a quantile of the decisions of the last window."""
        return decide_us(self._end, name)

    def since_first_container(self, name: str) -> float:
        return self.value(name) - float(self._start.get(name, 0))


def peak_per_s(counts: Sequence[int], bucket_ms: int) -> float:
    """Return the most events in any second that starts with a bucket."""
    width = max(1, 1000 // bucket_ms)
    return float(max((sum(counts[i : i + width]) for i in range(len(counts))), default=0))


def stale_nodes(measurements: Mapping[str, Any], start_ms: float, end_ms: float) -> float:
    """Return the mean number of silent nodes over the samples of the span."""
    columns = measurements["sample_columns"]
    elapsed, stale = columns.index("elapsed_ms"), columns.index("stale_nodes")
    inside = [sample[stale] for sample in measurements["samples"] if start_ms <= sample[elapsed] <= end_ms]
    return statistics.fmean(inside) if inside else 0.0


def heartbeats_share(
    measurements: Mapping[str, Any], nodes: int, heartbeat_ms: float, start_ms: float, end_ms: float
) -> float:
    """Return nodes' heartbeats that were handled over those that were due between two times of the run."""
    beats = measurements["heartbeats"]
    first, last = (int(each_ms // beats["bucket_ms"]) for each_ms in (start_ms, end_ms))
    due = nodes * (last - first) * beats["bucket_ms"] / heartbeat_ms
    return float(sum(beats["counts"][first:last]) / due) if due else math.nan


def combine(mode: Mode, rounds: Sequence[Figures], failures: Iterable[str]) -> ModeResult:
    """Return the result of a mode from its rounds."""
    if not rounds:
        return ModeResult(mode, None, (), tuple(failures))
    values = {
        field.name: (max if field.name in COUNTED_PER_MODE else _median)(
            [getattr(figures, field.name) for figures in rounds]
        )
        for field in fields(Figures)
    }
    return ModeResult(mode, Figures(**values), tuple(rounds), tuple(failures))


def comparison(results: Sequence[ModeResult]) -> dict[str, Any]:
    """Return the better stock mode, Treadle's span over its span and the floor's, and what observing costs `sync`.

    None where a mode is missing.
    """
    spans = {result.mode.name: result.figures.span_s for result in results if result.figures}
    stock = {r.mode.name: spans[r.mode.name] for r in results if r.mode.kind is Kind.STOCK and r.mode.name in spans}
    better = min(stock, key=lambda name: stock[name], default=None)
    best_async = min((name for name in stock if name.startswith("async")), key=lambda name: stock[name], default=None)
    treadle, floor = spans.get("treadle"), spans.get("floor")
    stock_span = stock[better] if better else None
    busy = {result.mode.name: result.figures.rm_cpu_s for result in results if result.figures}
    return {
        "better_stock_mode": better,
        "better_async_mode": best_async,
        "span_ratio": _quotient(treadle, stock_span),
        "floor_ratio": _quotient(treadle, floor),
        "floor_to_stock": _quotient(floor, stock_span),
        "observe_span_ratio": _quotient(spans.get("observe"), spans.get("sync")),
        "observe_cpu_ratio": _quotient(busy.get("observe"), busy.get("sync")),
    }


def as_json(results: Sequence[ModeResult]) -> dict[str, Any]:
    """Return all results for the file, with nan as null."""
    modes = {
        result.mode.name: {
            "kind": result.mode.kind.value,
            "median": _plain(result.figures) if result.figures else None,
            "rounds": [_plain(figures) for figures in result.rounds],
            "failures": list(result.failures),
        }
        for result in results
    }
    return {"comparison": comparison(results), "modes": modes}


def _plain(figures: Figures) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in asdict(figures).items()}


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _ratio(amount: float, of: float) -> float:
    return amount / of if of > 0 else 0.0


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
