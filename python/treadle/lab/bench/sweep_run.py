"""A sweep on a mini cluster's own YARN under Treadle, an executor killed in the middle, then the same on one core."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any, Final

import psutil

from treadle.errors import UserError
from treadle.lab.demo.jobs import java_of_spark, spark_environment, spark_options
from treadle.lab.minicluster.cluster import MiniCluster
from treadle.lab.minicluster.settings import ClusterSettings

SCENARIO: Final = """\
cluster: {nodes: [{count: 2, resources: {memory-mb: 8192, vcores: 8}}]}
queues: {research: {capacity: 60}, production: {capacity: 40}}
workload:
  generator:
    jobs: 20
    load: 0.8
    tasks: {kind: pareto, tail: 1.1, low: 1, high: 200}
    duration_s: {kind: lognormal, mean: 20, variation: 1.5}
    queues: {research: 2, production: 1}
stragglers: {probability: 0.03}
report: {window_s: 20}
"""
"""A run takes about a sixth of a second."""
POLICIES: Final = ("fifo", "srpt")
NODE_MB: Final = 2048
LONGEST_S: Final = 4 * 3600.0
LOOK_S: Final = 0.5
MIDDLE: Final = 0.4
"""Which part of the runs has ended when an executor is killed."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Side:
    """One way to run the sweep."""

    wall_s: float
    """Of the whole command."""
    runs_s: float
    """From the first result to the last: without what starts and compiles."""
    cpu_s: float
    """Of the processes that ran the simulations, in that time."""

    @property
    def cores(self) -> float:
        """How many cores the simulations used on average."""
        return self.cpu_s / self.runs_s


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """What was found."""

    runs: int
    executors: int
    executors_seen: int
    """The one in place of the dead one too."""
    kept_at_kill: int
    """How many runs had ended when an executor was killed."""
    failed: int
    containers_committed: int
    """By Treadle."""
    same_bytes: bool
    yarn: Side
    one_core: Side

    @property
    def speed_up(self) -> float:
        """How much longer one core takes, from the first result to the last."""
        return self.one_core.runs_s / self.yarn.runs_s

    @property
    def nothing_lost(self) -> bool:
        """Whether every run has the result that one core gives."""
        return self.same_bytes and not self.failed

    def as_json(self) -> dict[str, Any]:
        """Return everything for `--json`."""
        machine = {"machine_cores": os.cpu_count()}
        return asdict(self) | machine | {"speed_up": self.speed_up, "cores_used": self.yarn.cores}


def run_sweep(runs: int, executors: int, folder: Path, say: Say) -> SweepFigures:
    """Run it.

    Args:
        runs: how many, half of them under each policy
        executors: of one core each; one is killed
        folder: empty; for the cluster, logs and results
        say: called with the step that begins

    Raises:
        UserError: the folder is in use, or a sweep ended with an error.
    """
    _prepare(folder, runs)
    settings = ClusterSettings(nodes=executors, memory_mb=NODE_MB)
    say("starting a mini cluster")
    with MiniCluster(settings, folder / "cluster") as cluster:
        cluster.wait_for("engine with the lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 300)
        log = cluster.layout.logs / "sweep.log"
        work = _Work(cluster.submit(_on_yarn(cluster, folder, executors), log), log, folder / "yarn", runs)
        middle = max(1, round(MIDDLE * runs))
        work.wait(lambda: work.kept() >= middle and len(_executors(cluster)) == executors, cluster, say)
        kept_at_kill = work.kept()
        victim = _executors(cluster)[0]
        say(f"killing an executor after {kept_at_kill} of {runs} runs")
        victim.kill()
        yarn = work.finish(cluster, say)
        committed = int(cluster.rm.treadle()["Committed"])
    say("the same on one core")
    log = folder / "one-core.log"
    with log.open("wb") as out:
        process = Popen(_command(folder, "one-core", "--jobs=1"), stdin=DEVNULL, stdout=out, stderr=STDOUT)
    alone = _Work(process, log, folder / "one-core", runs)
    try:
        one_core = alone.finish(None, say)
    finally:
        process.kill()
        process.wait()
    same = (folder / "yarn.json").read_bytes() == (folder / "one-core.json").read_bytes()
    failed = len(list((folder / "yarn" / "failed").rglob("*.json")))
    return SweepFigures(runs, executors, len(work.executors), kept_at_kill, failed, committed, same, yarn, one_core)


def _prepare(folder: Path, runs: int) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--folder: {folder} is not empty; name another one, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    seeds = runs // len(POLICIES)
    text = f"scenarios: [scenario.yaml]\npolicies: [{', '.join(POLICIES)}]\nseeds: {seeds}\n"
    (folder / "sweep.yaml").write_text(text, encoding="utf-8")


def _command(folder: Path, name: str, *options: str) -> list[str]:
    files = [str(folder / "sweep.yaml"), f"--cache={folder / name}", f"--json={folder / name}.json"]
    return [sys.executable, "-P", "-m", "treadle", "sweep", *files, *options]


def _on_yarn(cluster: MiniCluster, folder: Path, executors: int) -> list[str]:
    options = spark_options(
        cluster,
        {
            "spark.executor.instances": str(executors),
            "spark.yarn.am.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.yarn.am.extraJavaOptions": java_of_spark(cluster),
        },
    )
    return [*spark_environment(), *_command(folder, "yarn", "--on=spark", "--master=yarn", *options)]


def _executors(cluster: MiniCluster) -> list[psutil.Process]:
    """Return the processes of Spark's executors in a cluster's containers."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or [""]
        text = " ".join(line)
        if line[0].endswith("java") and "CoarseGrainedExecutorBackend" in text and str(cluster.folder) in text:
            found.append(process)
    return found


class _Work:
    """A sweep that runs, and the processor time of those that simulate for it."""

    def __init__(self, process: Popen[bytes], log: Path, cache: Path, runs: int) -> None:
        self._process, self._log, self._cache, self._runs = process, log, cache, runs
        self._begun_s = time.monotonic()
        self._cpu_s: dict[tuple[int, float], tuple[float, float]] = {}
        """By process: its processor time when results began to come, and now."""
        self._shown = -1
        self.executors: set[tuple[int, float]] = set()

    def kept(self) -> int:
        """Return how many runs have ended well."""
        return sum(1 for _ in (self._cache / "runs").rglob("*.json"))

    def wait(self, until: Callable[[], bool], cluster: MiniCluster | None, say: Say) -> None:
        """Wait until something holds.

        Raises:
            UserError: the sweep ends before, or it takes too long.
        """
        while not until():
            if self._process.poll() is not None:
                raise UserError(f"the sweep ended with exit code {self._process.returncode}: {_tail(self._log)}")
            if time.monotonic() - self._begun_s > LONGEST_S:
                raise UserError(f"the sweep does not end: {_tail(self._log)}")
            self._look(cluster)
            done = self.kept()
            if done > self._shown:
                self._shown = done
                say(f"{done} of {self._runs} runs")
            time.sleep(LOOK_S)

    def finish(self, cluster: MiniCluster | None, say: Say) -> Side:
        """Wait for the end of the sweep; errors as of `wait`."""
        self.wait(lambda: self.kept() >= self._runs, cluster, say)
        self._look(cluster)
        code = self._process.wait(timeout=LONGEST_S)
        wall_s = time.monotonic() - self._begun_s
        if code != 0:
            raise UserError(f"the sweep ended with exit code {code}: {_tail(self._log)}")
        times = sorted(file.stat().st_mtime for file in (self._cache / "runs").rglob("*.json"))
        cpu_s = sum(latest - first for first, latest in self._cpu_s.values())
        return Side(wall_s, max(times[-1] - times[0], 1e-9), cpu_s)

    def _look(self, cluster: MiniCluster | None) -> None:
        """Add up processor time; what ran before the first result came does not count."""
        began = self.kept() > 0
        for process in self._simulating(cluster):
            try:
                times, key = process.cpu_times(), (process.pid, process.create_time())
            except psutil.NoSuchProcess:
                continue
            now_s = times.user + times.system
            first_s = self._cpu_s.get(key, (0.0, 0.0))[0] if began else now_s
            self._cpu_s[key] = first_s, now_s

    def _simulating(self, cluster: MiniCluster | None) -> Sequence[psutil.Process]:
        if cluster is None:
            return [psutil.Process(self._process.pid)] if self._process.poll() is None else []
        found = []
        for executor in _executors(cluster):
            try:
                self.executors.add((executor.pid, executor.create_time()))
                found += [executor, *executor.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        return found


def _tail(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")[-2000:] if log.is_file() else ""
