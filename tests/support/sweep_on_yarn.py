"""A sweep on a mini cluster's own YARN under Treadle, an executor killed in the middle, then the same on one core."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Final

import psutil

from treadle.errors import UserError
from treadle_lab.demo.run import java_of_spark, spark_environment, spark_options
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.processes import Say
from treadle_lab.minicluster.settings import ClusterSettings

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


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """What was found."""

    runs: int
    kept_at_kill: int
    """How many runs had ended when an executor was killed."""
    failed: int
    containers_committed: int
    """By Treadle."""
    same_bytes: bool


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
        work.wait(lambda: work.kept() >= middle and len(_executors(cluster)) == executors, say)
        kept_at_kill = work.kept()
        victim = _executors(cluster)[0]
        say(f"killing an executor after {kept_at_kill} of {runs} runs")
        victim.kill()
        work.finish(say)
        committed = int(cluster.rm.treadle()["Committed"])
    say("the same on one core")
    log = folder / "one-core.log"
    with log.open("wb") as out:
        process = Popen(_command(folder, "one-core", "--processes=1"), stdin=DEVNULL, stdout=out, stderr=STDOUT)
    alone = _Work(process, log, folder / "one-core", runs)
    try:
        alone.finish(say)
    finally:
        process.kill()
        process.wait()
    same = (folder / "yarn.json").read_bytes() == (folder / "one-core.json").read_bytes()
    failed = len(list((folder / "yarn" / "failed").rglob("*.json")))
    return SweepFigures(runs, kept_at_kill, failed, committed, same)


def _prepare(folder: Path, runs: int) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--folder: {folder} is not empty; name another one, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    seeds = runs // len(POLICIES)
    text = f"scenarios: [scenario.yaml]\npolicies: [{', '.join(POLICIES)}]\nseeds: {seeds}\n"
    (folder / "sweep.yaml").write_text(text, encoding="utf-8")


def _command(folder: Path, name: str, *options: str) -> list[str]:
    files = [str(folder / "sweep.yaml"), f"--cache={folder / name}", f"--out={folder / name}.json"]
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
    """A sweep that runs."""

    def __init__(self, process: Popen[bytes], log: Path, cache: Path, runs: int) -> None:
        self._process, self._log, self._cache, self._runs = process, log, cache, runs
        self._begun_s = time.monotonic()
        self._shown = -1

    def kept(self) -> int:
        """Return how many runs have ended well."""
        return sum(1 for _ in (self._cache / "runs").rglob("*.json"))

    def wait(self, until: Callable[[], bool], say: Say) -> None:
        """Wait until something holds.

        Raises:
            UserError: the sweep ends before, or it takes too long.
        """
        while not until():
            if self._process.poll() is not None:
                raise UserError(f"the sweep ended with exit code {self._process.returncode}: {_tail(self._log)}")
            if time.monotonic() - self._begun_s > LONGEST_S:
                raise UserError(f"the sweep does not end: {_tail(self._log)}")
            done = self.kept()
            if done > self._shown:
                self._shown = done
                say(f"{done} of {self._runs} runs")
            time.sleep(LOOK_S)

    def finish(self, say: Say) -> None:
        """Wait for the end of the sweep; errors as of `wait`."""
        self.wait(lambda: self.kept() >= self._runs, say)
        code = self._process.wait(timeout=LONGEST_S)
        if code != 0:
            raise UserError(f"the sweep ended with exit code {code}: {_tail(self._log)}")


def _tail(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")[-2000:] if log.is_file() else ""
