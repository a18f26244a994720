"""Part engines: three engines place on a mini cluster under load, and by seed one of them is killed, again and again.

The oracles, after every kill: the others' leases have not flipped, the CapacityScheduler placed nothing, usage is the
sum of the containers, every proposal has its fate; the killed engine's applications go on, and how long that took by
the RM's clock. At the end of a slice: every job succeeded, and nobody has anything used, reserved or pending.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any, Final

from tests.campaign.clusters import LEASE_BACK_S, check, check_idle, folder, last_error
from tests.campaign.slices import Slice
from tests.support.clusters import engines_cluster
from tests.support.engines import allocated_at_s, figures_of, lost_at_s, process_of, served_by
from tests.support.jobs import Job, shell_job

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterError, ClusterSettings

ENGINES: Final = ("first", "second", "third")
"""Each serves a queue of its name."""

TREADLE_YAML: Final = """
engines:
  first: {select: {queues: [root.first]}, fallback: second}
  second: {select: {queues: [root.second]}, policy: {order: {kind: srpt}}, conflicts: coarse, fallback: third}
  third: {policy: {fit: {kind: random_fit}}, fallback: first}
"""

CONTAINERS: Final = 160
CONTAINER_MS: Final = 4_000
LEFT: Final = 32
"""What a job must still ask for when its engine is killed; else the next job is started beside it."""
MOVED_S: Final = 60.0
"""Until the applications of a killed engine have another one, at most."""

ENDS_TO_A_REFRESH: Final = 3
"""An administrator's refresh ends the pauses before a sidecar is started again."""

SETTLE_S: Final = 150.0
"""What is kept of a slice for its last jobs."""


def queues() -> str:
    """Return a capacity-scheduler.xml with a queue for each engine."""
    prefix = "yarn.scheduler.capacity."
    settings = {prefix + "root.queues": ",".join(ENGINES), prefix + "maximum-am-resource-percent": "0.5"}
    for engine, capacity in zip(ENGINES, (34, 33, 33), strict=True):
        own = {"capacity": str(capacity), "maximum-capacity": "100", "user-limit-factor": "3"}
        settings |= {f"{prefix}root.{engine}.{name}": value for name, value in own.items()}
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in settings.items()
    )
    return f"<configuration>\n{rows}</configuration>\n"


class Engines:
    """A cluster of three engines, and the kills that a seed chooses."""

    def __init__(self, cluster: MiniCluster, work: Slice) -> None:
        self.cluster = cluster
        self.work = work
        self.numbers = random.Random(work.seed)
        self.jobs: dict[str, Job] = {}
        self.ending: list[Job] = []
        self.ends = 0

    def one(self) -> None:
        """Kill an engine that has work, and look at everything."""
        killed = self.numbers.choice(ENGINES)
        for engine in ENGINES:
            self.keep_busy(engine)
        begin = time.monotonic()
        try:
            self.kill(killed)
        except ClusterError as error:
            self.work.find(f"{killed}: {error}; {last_error(self.cluster)}")
        check(self.cluster, self.work)
        took = f"{killed} {time.monotonic() - begin:.1f} s"
        self.work.say(f"{self.work.elapsed_s:5.0f} s  {took:20} {dict(self.work.counts)}")

    def keep_busy(self, engine: str) -> None:
        """Let an engine's queue have a job that still asks."""
        job = self.jobs.get(engine)
        if job is not None:
            if job.state() == "UNDEFINED" and job.containers() < CONTAINERS - LEFT:
                return
            self.ending.append(job)
        self.finish_ended()
        job = shell_job(
            self.cluster,
            f"{engine}-{self.work.seed}",
            containers=CONTAINERS,
            container_ms=CONTAINER_MS,
            memory_mb=256,
            queue=engine,
        )
        self.jobs[engine] = job
        job.wait_containers(3)

    def finish_ended(self) -> None:
        """Look at the jobs that have ended; wait for the first if there is more than one for each engine."""
        while len(self.ending) > len(ENGINES):
            self.finish(self.ending.pop(0))
        for job in [job for job in self.ending if job.state() != "UNDEFINED"]:
            self.ending.remove(job)
            self.finish(job)

    def finish(self, job: Job) -> None:
        """Wait for the end of a job, and find if it did not succeed."""
        try:
            status = job.wait()
        except ClusterError as error:
            status = str(error)
        self.work.add("jobs")
        if status != "SUCCEEDED":
            told = str(job.application().get("diagnostics", ""))
            self.work.find(f"{job.name} ({job.application_id}) ended as {status}: {told[:800]}")

    def kill(self, engine: str) -> None:
        """SIGKILL to an engine's sidecar; returns when it schedules again."""
        process = self.cluster.wait_for(f"sidecar of {engine}", lambda: process_of(self.cluster, engine))
        others = {name: figures_of(self.cluster, name) for name in ENGINES if name != engine}
        begin_s = time.time()
        os.kill(process.pid, signal.SIGKILL)
        self.work.add("engine_kills")
        self.work.add(f"engine_kills_{engine}")
        self.cluster.wait_for(
            f"another engine for {engine}", lambda: served_by(self.cluster).get(engine) not in (engine, None), MOVED_S
        )
        self.note_served_again(engine, begin_s)
        self.refresh_sometimes()
        self.cluster.wait_for(f"life of {engine}", lambda: figures_of(self.cluster, engine).get("alive"), LEASE_BACK_S)
        self.work.sample("lease_back_s", time.time() - begin_s)
        if self.numbers.random() < 0.3:
            self.cluster.wait_for(f"{engine} at home", lambda: served_by(self.cluster).get(engine) == engine, 120)
            self.work.add("engines_home_again")
        self.look(engine, others)

    def note_served_again(self, engine: str, begin_s: float) -> None:
        """Note when the killed engine's job got its next container; it may have asked for the last one before."""
        job = self.jobs[engine]
        lost_s = self.cluster.wait_for(
            "line of a lost lease", lambda: lost_at_s(self.cluster, engine, after_s=begin_s), MOVED_S
        )
        self.work.sample("lease_lost_s", lost_s - begin_s)

        def again() -> float | None:
            if job.state() != "UNDEFINED" or job.containers() > CONTAINERS:
                return -1.0
            return allocated_at_s(self.cluster, job.application_id, lost_s)

        at_s = float(self.cluster.wait_for(f"next container of {job.name}", again, 120))
        if at_s >= 0:
            self.work.sample("served_again_s", at_s - begin_s)
            self.work.add("served_again")

    def look(self, engine: str, before: dict[str, dict[str, Any]]) -> None:
        """Find whether another engine ended, or anything was placed without an engine."""
        for name, figures in before.items():
            starts = figures_of(self.cluster, name)["starts"] - figures["starts"]
            if starts and figures["alive"]:
                self.work.find(f"{name} was started {starts} times as {engine} was killed")
        if others := self.cluster.rm.treadle()["PlacedByCapacityScheduler"]:
            self.work.find(f"the CapacityScheduler had placed {others} containers by the time that {engine} was killed")

    def refresh_sometimes(self) -> None:
        """Refresh the queues after some ends of sidecars."""
        self.ends += 1
        if self.ends >= ENDS_TO_A_REFRESH:
            self.ends = 0
            self.cluster.admin("-refreshQueues")


def run(work: Slice) -> None:
    """Kill engines of a cluster of the slice's own until the slice is over."""
    settings = ClusterSettings(nodes=1, memory_mb=4096, vcores=64, start_timeout_s=LEASE_BACK_S)
    with engines_cluster(folder(work.part, work.seed), settings, TREADLE_YAML, queues()) as cluster:
        cluster.wait_for("all engines", lambda: served_by(cluster) == {name: name for name in ENGINES}, LEASE_BACK_S)
        engines = Engines(cluster, work)
        while work.left_s > min(SETTLE_S, 30 * work.minutes) or not work.counts:
            engines.one()
        for job in (*engines.ending, *engines.jobs.values()):
            engines.finish(job)
        check_idle(cluster, work)
