"""Unmodified jobs for tests: started in the background, waited for, looked up in the RM."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import distributed_shell as jobs

from treadle_lab.minicluster.cluster import MiniCluster

SLEEP_JOB = "org.apache.hadoop.mapreduce.SleepJob"
JOB_TIMEOUT_S = 240.0

_numbers = itertools.count(1)
"""Tell apart the jobs of a test that runs again in the same cluster."""


@dataclass
class Job:
    """A client that waits for its job, and the application that the RM made of it."""

    cluster: MiniCluster
    name: str
    client: subprocess.Popen[bytes]
    log: Path
    application_id: str

    def application(self) -> dict[str, object]:
        """What the RM's web service says of the application."""
        return self.cluster.rm.application(self.application_id)

    def state(self) -> str:
        """The final status: UNDEFINED while it runs, then SUCCEEDED, FAILED or KILLED."""
        return str(self.application()["finalStatus"])

    def wait(self) -> str:
        """Wait for the end; returns the final status."""
        self.cluster.wait_for(f"end of {self.name}", lambda: self.state() != "UNDEFINED", JOB_TIMEOUT_S)
        self.client.wait(timeout=JOB_TIMEOUT_S)
        return self.state()

    def ends_placed_by_treadle(self) -> None:
        """Wait for the end; fail unless it succeeds, and Treadle placed every container."""
        assert self.wait() == "SUCCEEDED"
        assert self.cluster.rm.placements()[self.application_id] == {"treadle": self.containers(), "native": 0}

    def containers(self) -> int:
        """Containers that the RM allocated to it so far, by its audit log."""
        return len(self.cluster.containers().get(self.application_id, ()))

    def wait_containers(self, count: int) -> None:
        """Wait until this many containers were allocated."""
        self.cluster.wait_for(f"{count} containers of {self.name}", lambda: self.containers() >= count, 120)


def sleep_command(
    cluster: MiniCluster,
    tag: str,
    *,
    maps: int,
    reduces: int,
    map_ms: int,
    reduce_ms: int,
    queue: str,
    settings: dict[str, str] | None = None,
) -> list[str]:
    """Return the command of a SleepJob whose application has a tag."""
    wanted = {
        # SleepJob names itself; a tag stays
        "mapreduce.job.tags": tag,
        "mapreduce.job.queuename": queue,
        # a test looks at containers, and an uber job has one
        "mapreduce.job.ubertask.enable": "false",
        **(settings or {}),
    }
    options = [f"-D{key}={value}" for key, value in wanted.items()]
    sizes = ["-m", str(maps), "-r", str(reduces), "-mt", str(map_ms), "-rt", str(reduce_ms)]
    return cluster.java(SLEEP_JOB, *options, *sizes)


def sleep_job(
    cluster: MiniCluster,
    name: str,
    *,
    maps: int = 8,
    reduces: int = 1,
    map_ms: int = 1000,
    reduce_ms: int = 200,
    queue: str = "default",
    settings: dict[str, str] | None = None,
) -> Job:
    """Start a SleepJob and wait until the RM knows it; the name is in lower case."""
    tag = f"{name}-{next(_numbers)}"
    log = cluster.layout.logs / f"client-{tag}.log"
    command = sleep_command(
        cluster,
        tag,
        maps=maps,
        reduces=reduces,
        map_ms=map_ms,
        reduce_ms=reduce_ms,
        queue=queue,
        settings=settings,
    )
    return known(cluster, name, tag, cluster.submit(command, log), log)


def shell_job(
    cluster: MiniCluster,
    name: str,
    *,
    containers: int = 4,
    container_ms: int = 1000,
    memory_mb: int = 1024,
    queue: str = "default",
) -> Job:
    """Start a job of Hadoop's distributed shell, whose containers sleep, and wait until the RM knows it.

    Its containers are no JVMs, so that it takes a small part of the processor that a SleepJob does. For tests of which
    MapReduce is not the subject.
    """
    tag = f"{name}-{next(_numbers)}"
    client = jobs.submit(cluster, queue, tag, {}, containers, f"sleep {container_ms}e-3", memory_mb=memory_mb)
    return known(cluster, name, tag, client.client, cluster.layout.logs / f"client-{tag}.log")


def submitted(cluster: MiniCluster, tag: str, command: list[str]) -> Job:
    """Submit a job by a command and wait until the RM knows it by its tag."""
    log = cluster.layout.logs / f"client-{tag}.log"
    return known(cluster, tag, tag, cluster.submit(command, log), log)


def known(cluster: MiniCluster, name: str, tag: str, client: subprocess.Popen[bytes], log: Path) -> Job:
    """Wait until the RM knows an application by its tag."""

    def look() -> str:
        if client.poll() is not None and client.returncode != 0:
            raise AssertionError(f"the client of {name} ended with {client.returncode}:\n{log.read_text()[-2000:]}")
        return next((str(app["id"]) for app in cluster.rm.applications(applicationTags=tag)), "")

    application_id = str(cluster.wait_for(f"application of {name}", look, 120))
    return Job(cluster, name, client, log, application_id)
