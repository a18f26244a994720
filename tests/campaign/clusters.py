"""What the parts on a mini cluster share: jobs that keep coming, and the oracles that look after each fault."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.slices import Slice
from tests.support.accounts import wait_adds_up
from tests.support.jobs import Job, sleep_job

from treadle.demo.jobs import TEZ_SLEEP, spark_submit
from treadle.minicluster.cluster import MiniCluster
from treadle.minicluster.errors import ClusterError

LEASE_BACK_S = 240.0
"""Far above what a start of a sidecar takes on a busy machine."""

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
        """Note what has ended, and start as many as are missing."""
        self._note_ended()
        while len(self.running) < self.at_once:
            self.running.append(self._start(self.numbers.choice(self.only)))

    def finish(self) -> None:
        """Wait for the end of all."""
        deadline = time.monotonic() + JOB_S
        while self.running and time.monotonic() < deadline:
            self._note_ended()
            time.sleep(0.5)
        for job in self.running:
            self.work.find(f"{job.name} ({job.application_id}) has not ended after {JOB_S:g} s: {job.application()}")
        self.running.clear()

    def _note_ended(self) -> None:
        for job in list(self.running):
            status = str(self.cluster.wait_for("state of a job", job.state, 120))
            if status == "UNDEFINED":
                continue
            self.running.remove(job)
            job.client.wait(timeout=JOB_S)
            self.work.add("jobs")
            if status != "SUCCEEDED":
                told = job.application().get("diagnostics", "")
                self.work.find(f"{job.name} ({job.application_id}) ended as {status}: {str(told)[:800]}")

    def _start(self, framework: str) -> Job:
        number = next(self._count)
        queue = self.numbers.choice(self.queues)
        name = f"{framework.lower()}-{self.work.seed}-{number}"
        self.work.add(f"jobs_{framework.lower()}")
        if framework == "MapReduce":
            return sleep_job(self.cluster, name, maps=self.numbers.randint(4, 12), map_ms=1500, queue=queue)
        if framework == "Tez":
            sizes = ("-m", "4", "-r", "2", "-mt", "1500", "-rt", "500", "-ir", "2", "-irs", "1", "-irt", "500")
            options = (f"-Dtez.queue.name={queue}", f"-Dmapreduce.job.queuename={queue}")
            command = self.cluster.java(TEZ_SLEEP, *options, f"-Dtez.application.tags={name}", *sizes)
        else:
            words = self.cluster.folder / "words.txt"
            words.write_text("to be or not to be\n" * 2000)
            command = spark_submit(self.cluster, name, queue, str(words), str(self.cluster.folder / f"out-{name}"))
        return self._submitted(name, command)

    def _submitted(self, name: str, command: list[str]) -> Job:
        log = self.cluster.layout.logs / f"client-{name}.log"
        client = self.cluster.submit(command, log)

        def known() -> str:
            if client.poll():
                raise ClusterError(f"the client of {name} ended with {client.returncode}: {log.read_text()[-1500:]}")
            return next((str(app["id"]) for app in self.cluster.rm.applications(applicationTags=name)), "")

        return Job(self.cluster, name, client, log, str(self.cluster.wait_for(f"application of {name}", known, 180)))


def unknown_fates(cluster: MiniCluster) -> int:
    """Return how many proposals have no fate on the books: 0 but for those being committed now."""
    seen = cluster.rm.treadle()
    return int(seen["Proposals"] - seen["Committed"] - seen["Rejected"] - seen["Observed"])


def check(cluster: MiniCluster, work: Slice) -> None:
    """Look whether books are equal, every proposal has a fate, and nothing escaped into the RM."""
    looks = (
        lambda: wait_adds_up(cluster),
        lambda: cluster.wait_for("fate of every proposal", lambda: unknown_fates(cluster) == 0, 60),
    )
    for look in looks:
        try:
            look()
        except ClusterError as error:
            work.find(str(error))
    if escapes := cluster.rm.treadle()["Escapes"]:
        work.find(f"{escapes} throwables escaped into overrides of the scheduler")
    if internal := cluster.rm.treadle().get("RejectedInternalError", 0):
        work.find(f"{internal} proposals ended as INTERNAL_ERROR")
    work.add("books_compared")


def lease_back(cluster: MiniCluster, work: Slice, since_s: float, lost: bool = True) -> bool:
    """Wait until an engine holds the lease, and note how long that took; says whether one does.

    Args:
        cluster: a started one.
        work: where the time is noted.
        since_s: when the fault was, by `time.monotonic`.
        lost: wait first until it has been lost: the RM looks at a clock.
    """
    try:
        if lost:
            cluster.wait_for("lost lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 0, 30, poll_s=0.02)
        cluster.wait_for("lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, LEASE_BACK_S, poll_s=0.02)
    except ClusterError as error:
        work.find(f"{error}; {cluster.rm.treadle().get('LastError')}")
        return False
    work.sample("lease_back_s", time.monotonic() - since_s)
    return True


def folder(part: str, seed: int) -> Path:
    """Return a folder for a cluster of a slice."""
    path = Path("build").resolve() / "campaign" / f"{part}-{seed}"
    path.mkdir(parents=True, exist_ok=True)
    return path
