"""What the parts on a mini cluster share: jobs that keep coming, and the oracles that look after each fault."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.slices import Slice
from tests.support.accounts import wait_adds_up, wait_idle
from tests.support.files import written
from tests.support.jobs import Job, sleep_command

from treadle_lab.demo.run import TEZ_SLEEP, spark_submit
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterError

LEASE_BACK_S = 240.0
"""Far above what a start of a sidecar takes on a busy machine."""

ONE_SIDECAR_S = 60.0
JOB_S = 600.0


@dataclass
class Jobs:
    """Keeps jobs of three frameworks coming, one or two at a time, and says which of them failed.

    Which framework comes next is a seed's choice; `only` leaves out those that a machine has no room for.
    """

    cluster: MiniCluster
    numbers: random.Random
    work: Slice
    only: tuple[str, ...] = ("MapReduce", "Tez", "Spark")
    queues: tuple[str, ...] = ("default", "batch")
    at_once: int = 2
    running: list[Job] = field(default_factory=list)
    _count: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def keep_coming(self) -> None:
        """Note what has ended, and start as many as are missing; waits for none."""
        self.note_ended()
        while len(self.running) < self.at_once:
            self.running.append(self._start(self.numbers.choice(self.only)))

    def wait_containers(self, count: int) -> None:
        """Wait until the job that was started last has been given this many containers.

        Raises:
            ClusterError: it has not, or its client ended.
        """
        job = self.running[-1]
        self.cluster.wait_for(f"application of {job.name}", lambda: self._known(job) or job.client.poll(), 180)
        job.wait_containers(count)

    def finish(self) -> None:
        """Wait for the end of all."""
        deadline = time.monotonic() + JOB_S
        while self.running and time.monotonic() < deadline:
            self.note_ended()
            time.sleep(0.5)
        for job in self.running:
            told = job.application() if job.application_id else _tail(job)
            self.work.find(f"{job.name} ({job.application_id}) has not ended after {JOB_S:g} s: {told}")
        self.running.clear()

    def note_ended(self) -> None:
        """Count the jobs that have ended, clients included, and find those that did not succeed."""
        for job in list(self.running):
            gone = job.client.poll() is not None
            if not self._is_known(job):
                if gone:
                    self.running.remove(job)
                    self.work.find(f"the client of {job.name} ended with {job.client.returncode}: {_tail(job)}")
                continue
            status = str(self.cluster.wait_for("state of a job", job.state, 120))
            if status == "UNDEFINED" or not gone:
                continue
            self.running.remove(job)
            self.work.add("jobs")
            told = "" if status == "SUCCEEDED" else str(job.application().get("diagnostics", ""))
            if self.work.counts["nodes_lost"] and ended_with_node(told):
                self.work.add("jobs_ended_with_node")
            elif status != "SUCCEEDED":
                self.work.find(f"{job.name} ({job.application_id}) ended as {status}: {told[:800]}")

    def _is_known(self, job: Job) -> bool:
        """Ask the RM, which may not answer at once, whether it knows the application of a job."""
        self.cluster.wait_for("answer of the RM", self.cluster.rm.metrics, 120)
        return self._known(job)

    def _known(self, job: Job) -> bool:
        if not job.application_id:
            told = self.cluster.rm.applications(applicationTags=job.name)
            job.application_id = next((str(app["id"]) for app in told), "")
        return bool(job.application_id)

    def _start(self, framework: str) -> Job:
        number = next(self._count)
        queue = self.numbers.choice(self.queues)
        name = f"{framework.lower()}-{self.work.seed}-{number}"
        self.work.add(f"jobs_{framework.lower()}")
        command = {"MapReduce": self._map_reduce, "Tez": self._tez, "Spark": self._spark}[framework](name, queue)
        log = self.cluster.layout.logs / f"client-{name}.log"
        return Job(self.cluster, name, self.cluster.submit(command, log), log, "")

    def _map_reduce(self, name: str, queue: str) -> list[str]:
        # the larger ones fill the nodes, so that asks wait
        settings = {"mapreduce.map.memory.mb": str(self.numbers.choice((256, 1024, 1536)))}
        maps, map_ms = self.numbers.randint(4, 10), self._task_ms()
        return sleep_command(
            self.cluster, name, maps=maps, reduces=1, map_ms=map_ms, reduce_ms=200, queue=queue, settings=settings
        )

    def _tez(self, name: str, queue: str) -> list[str]:
        sizes = f"-m 4 -r 2 -mt {self._task_ms()} -rt 500 -ir 2 -irs 1 -irt 500".split()
        options = (f"-Dtez.queue.name={queue}", f"-Dmapreduce.job.queuename={queue}")
        return self.cluster.java(TEZ_SLEEP, *options, f"-Dtez.application.tags={name}", *sizes)

    def _spark(self, name: str, queue: str) -> list[str]:
        words = written(self.cluster.folder / "words.txt", "to be or not to be\n" * 2000)
        return spark_submit(self.cluster, name, queue, str(words), str(self.cluster.folder / f"out-{name}"))

    def _task_ms(self) -> int:
        """Short and long tasks: what each costs the machine is the start of its JVM."""
        return self.numbers.choice((1_500, 6_000, 15_000))


def ended_with_node(diagnostics: str) -> bool:
    """Tell whether an application's only attempt, as of Spark's clients, was on a lost node: YARN makes no second."""
    return all(each in diagnostics for each in ("local limit is =1", "Container released on a *lost* node"))


def _tail(job: Job) -> str:
    """Return the end of what a client said."""
    return job.log.read_text(errors="replace")[-1500:]


def unknown_fates(cluster: MiniCluster) -> int:
    """Return how many proposals have no fate in the metrics: 0 but for those being committed now."""
    seen = cluster.rm.treadle()
    return int(seen["Proposals"] - seen["Committed"] - seen["Rejected"] - seen["Observed"])


def check_idle(cluster: MiniCluster, work: Slice) -> None:
    """Look whether a cluster whose jobs are over has anything used, reserved or pending."""
    try:
        wait_idle(cluster)
    except ClusterError as error:
        work.find(str(error))
    work.add("idle_clusters_looked_at")


def check(cluster: MiniCluster, work: Slice) -> None:
    """Look whether usage adds up, every proposal has a fate, and nothing escaped into the RM."""
    looks = (
        lambda: wait_adds_up(cluster),
        lambda: cluster.wait_for("fate of every proposal", lambda: unknown_fates(cluster) == 0, 60),
    )
    for look in looks:
        try:
            look()
        except ClusterError as error:
            work.find(str(error))
    if escapes := cluster.rm.treadle()["CaughtExceptions"]:
        work.find(f"{escapes} throwables escaped into overrides of the scheduler")
    if internal := cluster.rm.treadle().get("RejectedInternalError", 0):
        work.find(f"{internal} proposals ended as INTERNAL_ERROR")
    work.add("books_compared")


def last_error(cluster: MiniCluster) -> str:
    """Return what the RM says went wrong last."""
    return str(cluster.rm.treadle().get("LastError", ""))


def lease_lost(cluster: MiniCluster, timeout_s: float = 60.0) -> None:
    """Wait until no engine holds the lease.

    Raises:
        ClusterError: one still does.
    """
    cluster.wait_for("lost lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 0, timeout_s, poll_s=0.02)


def lease_back(
    cluster: MiniCluster, work: Slice, since_s: float, name: str = "lease_back_s", timeout_s: float = LEASE_BACK_S
) -> bool:
    """Wait until an engine holds the lease, and note how long that took; says whether one does.

    Args:
        cluster: a started one.
        work: where the time is noted.
        since_s: when the fault was, by `time.monotonic`.
        name: of the samples.
        timeout_s: when it counts as not coming back.
    """
    try:
        cluster.wait_for("lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, timeout_s)
    except ClusterError as error:
        work.find(f"{error}; {last_error(cluster)}")
        return False
    work.sample(name, time.monotonic() - since_s)
    return True


def one_sidecar(
    cluster: MiniCluster, work: Slice, gone: Collection[int] = (), timeout_s: float = ONE_SIDECAR_S
) -> None:
    """Look whether there is exactly one sidecar, and none of `gone`, which were killed or lost their RM."""
    try:
        cluster.wait_for("one sidecar", lambda: len(cluster.sidecar_pids()) == 1, timeout_s)
    except ClusterError as error:
        work.find(f"{error}: there are {cluster.sidecar_pids()}")
    if left := sorted(set(gone) & set(cluster.sidecar_pids())):
        work.find(f"sidecar {left[0]} outlived its end")


def folder(part: str, seed: int) -> Path:
    """Return a folder for a cluster of a slice."""
    path = Path("build").resolve() / "campaign" / f"{part}-{seed}"
    path.mkdir(parents=True, exist_ok=True)
    return path
