"""The demo from start to end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from treadle_lab.demo import watch
from treadle_lab.demo.jobs import DemoJob, during_kill, together
from treadle_lab.demo.report import Report
from treadle_lab.demo.watch import RunningJob
from treadle_lab.demo.words import read_counts, write_input
from treadle_lab.minicluster import ClusterSettings, MiniCluster
from treadle_lab.minicluster.site import CS, Entries, write_site

# Some twenty JVMs start beside the engine on two cores: it may be kept from the processor for seconds.
LEASE_MS = 6_000
JOB_TIMEOUT_S = 420.0
INPUT_FILES = 4
POLL_S = 0.25
# The engine may be back before anything had to be placed: then it is killed again.
KILLS_MAX = 3

Say = Callable[[str], None]
Show = Callable[[list[RunningJob]], None]


def queues() -> Entries:
    """Return capacity-scheduler.xml: production is owed 60 %, research 40 %, each may use what the other leaves."""
    return {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "0.5",
        f"{CS}root.queues": "production,research",
        f"{CS}root.production.capacity": "60",
        f"{CS}root.production.maximum-capacity": "100",
        f"{CS}root.production.user-limit-factor": "2",
        f"{CS}root.research.capacity": "40",
        f"{CS}root.research.maximum-capacity": "100",
        f"{CS}root.research.user-limit-factor": "2",
    }


def settings(folder: Path) -> ClusterSettings:
    """Return the demo's cluster; its queues are written to a file beside `folder`."""
    file = folder.with_name(f"{folder.name}-queues.xml")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_site(file, queues())
    return ClusterSettings(nodes=3, queues=file, overrides={"yarn.scheduler.treadle.lease-ms": str(LEASE_MS)})


class Demo:
    """One run of the demo on a started cluster."""

    def __init__(self, cluster: MiniCluster, say: Callable[[str], None], show: Show) -> None:
        self._cluster = cluster
        self._say = say
        self._show = show
        self._jobs: list[RunningJob] = []
        self._faults: list[str] = []
        self._several = False

    def run(self) -> Report:
        """Run every phase.

        Raises:
            ClusterError: the cluster does not do what the demo waits for.
        """
        words = self._cluster.folder / "words"
        counts = write_input(words, INPUT_FILES)
        self._say("five jobs of three frameworks from two queues, together")
        self._run_together(together(words, self._cluster.folder / "results"), counts)
        if self._cluster.layout.waits_for_lease:
            self._kill_phase(during_kill())
        return Report.of(self._jobs, self._cluster.rm.treadle(), self._faults)

    def run_engines(self, jobs: list[DemoJob], engines: Sequence[str]) -> Report:
        """Run jobs on a cluster of several engines.

        Raises:
            ClusterError: the cluster does not do what the demo waits for.
        """
        self._several = True
        running = [watch.submit(self._cluster, job) for job in jobs]
        self._jobs += running
        self._follow(running)
        for job in running:
            if job.engine != job.job.engine:
                served = f"engine {job.engine}" if job.engine else "no engine"
                self._faults.append(f"{job.job.name} was served by {served} instead of {job.job.engine}")
        rm = self._cluster.rm
        figures = watch.roster_of(self._cluster).get("engines", {})
        return Report.of(self._jobs, rm.treadle(), self._faults, {name: figures.get(name, {}) for name in engines})

    def _run_together(self, jobs: list[DemoJob], counts: Counter[str]) -> None:
        running = [watch.submit(self._cluster, job) for job in jobs]
        self._jobs += running
        self._follow(running)
        for job in running:
            if job.state == "SUCCEEDED" and job.job.output is not None and read_counts(job.job.output) != counts:
                self._faults.append(f"{job.job.name} counted other words than there are in its input")

    def _follow(self, running: list[RunningJob]) -> None:
        deadline = time.monotonic() + JOB_TIMEOUT_S
        while not all(job.ended for job in running):
            watch.update(self._cluster, running)
            if self._several:
                watch.update_engines(self._cluster, running)
            self._show(self._jobs)
            if time.monotonic() > deadline:
                slow = [job.job.name for job in running if not job.ended]
                self._faults.append(f"not ended within {JOB_TIMEOUT_S:g} s: {', '.join(slow)}")
                break
            time.sleep(POLL_S)
        watch.wait_clients(running)
        watch.update(self._cluster, running)
        self._show(self._jobs)
        for job in running:
            if job.ended and job.state != "SUCCEEDED":
                self._faults.append(f"{job.job.name}: {job.diagnostics or watch.last_words(job.log)}")

    def _kill_phase(self, job: DemoJob) -> None:
        cluster = self._cluster
        self._say("now a job during which the engine's process is killed (SIGKILL)")
        running = watch.submit(cluster, job)
        self._jobs.append(running)

        def placed(who: str, least: int) -> bool:
            watch.update(cluster, [running])
            self._show(self._jobs)
            return running.ended or running.placed.get(who, 0) >= least

        # in the second wave of maps one ends every moment, and another wants its place
        cluster.wait_for("containers of the job", lambda: placed("treadle", 9), timeout_s=120, poll_s=POLL_S)
        for _ in range(KILLS_MAX):
            if running.ended or running.placed.get("native", 0):
                break
            before = cluster.sidecar_pid()
            psutil.Process(before).kill()
            self._say(f"killed the engine's process {before}: the stock scheduler carries on")
            cluster.wait_for("new engine's process", partial(self._replaced, before), timeout_s=120, poll_s=POLL_S)
            cluster.wait_for("lease held again", self._lease_held, timeout_s=120, poll_s=POLL_S)
            self._say(f"Treadle is back as process {cluster.sidecar_pid()}")
            watch.update(cluster, [running])
        if not running.placed.get("native", 0):
            self._faults.append("the job ended before the stock scheduler had to place anything")
        self._say(f"the stock scheduler placed {running.placed.get('native', 0)} of the job's containers meanwhile")
        self._follow([running])

    def _replaced(self, before: int) -> bool:
        return any(pid != before for pid in self._cluster.sidecar_pids())

    def _lease_held(self) -> bool:
        return self._cluster.rm.treadle().get("LeaseHeld") == 1


def run_demo(folder: Path, say: Callable[[str], None], show: Show, wanted: ClusterSettings | None = None) -> Report:
    """Start a cluster in `folder`, run the demo on it, and stop it whatever happens.

    Raises:
        ClusterError: the cluster does not start, or does not do what the demo waits for.
    """
    with MiniCluster(wanted or settings(folder), folder, say) as cluster, cluster.answering():
        return Demo(cluster, say, show).run()
