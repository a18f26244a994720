"""From the stock scheduler to Treadle, to another build of Treadle, and back, while jobs run: none is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docker.cluster import LOGS, START, DockerCluster, Submitted
from tests.docker.test_faults import started as started_job
from tests.support.accounts import wait_adds_up, wait_idle
from tests.support.files import written
from tests.support.optional import present

from treadle import __version__
from treadle_lab.minicluster.settings import SHIM_CLASS, STOCK_CLASS

SHELL = "org.apache.hadoop.yarn.applications.distributedshell.Client"
SHELL_JAR = "hadoop-yarn-applications-distributedshell-*.jar"
DONE = "/var/lib/hadoop/yarn/done"
SHELLS = 2
CLASS = "yarn.resourcemanager.scheduler.class"
COMMAND = "yarn.scheduler.treadle.python.command"
JAR = "/opt/treadle/shim.jar"
FIRST, NEXT = "/opt/treadle", "/opt/treadle-next"


class UpgradedCluster(DockerCluster):
    """A cluster whose ResourceManager gets another scheduler."""

    workers = ("worker-1", "worker-2")
    scheduler = STOCK_CLASS

    def is_ready(self) -> bool:
        """Is the RM active, does every node run, is HDFS there, and does an engine schedule if there is one?"""
        schedules = self.scheduler == STOCK_CLASS or self.has_mode("enforce")
        return schedules and self.running_nodes() == list(self.workers) and self.has_data()

    def restart(self, scheduler: str) -> None:
        """Stop the RM and start it with a scheduler, as an administrator does."""
        self.scheduler = scheduler
        self.set_entry("rm", CLASS, scheduler)
        self.container("rm").restart(timeout=60)
        self.wait_ready()

    def install(self, home: str) -> str:
        """Run the RM with the jar and the sidecar of a Treadle that is there; return that one's version."""
        jar = self.run_in("rm", f"{home}/bin/treadle", "paths", "shim").strip()
        self.run_in("rm", "ln", "-sfn", jar, JAR, user="root")
        self.set_entry("rm", COMMAND, f"{home}/bin/treadle")
        self.restart(SHIM_CLASS)
        assert self.has_open() == [jar]
        found = present(re.fullmatch(r"treadle-shim-(.+)\.jar", Path(jar).name))
        return found[1]

    def uninstall(self) -> None:
        """Run the RM with the stock scheduler and without the jar."""
        self.run_in("rm", "rm", JAR, user="root")
        self.restart(STOCK_CLASS)

    def has_open(self) -> list[str]:
        """Return the jars of Treadle's that the RM has open."""
        paths = self.run_in("rm", "sh", "-c", "readlink /proc/[0-9]*/fd/* 2>/dev/null | sort -u").split()
        return [path for path in paths if Path(path).name.startswith("treadle-shim")]

    def sidecar_version(self) -> str:
        """Return the version of the sidecar that was ready last, by the RM's log."""
        return str(re.findall(r"Treadle's sidecar (\S+) is ready", self.container("rm").logs().decode())[-1])


@pytest.fixture(scope="module")
def started() -> DockerCluster:
    """The cluster, once all of it is there."""
    cluster = UpgradedCluster()
    cluster.wait_ready()
    return cluster


def shells(cluster: DockerCluster) -> Submitted:
    """Start containers that run until `DONE` is there on their worker, by Hadoop's distributed shell."""
    script = written(LOGS / "until-done.sh", f"until test -e {DONE}; do sleep 1; done\n")
    (jar,) = Path("/opt/hadoop/lib").glob(SHELL_JAR)
    sizes = ["-num_containers", str(SHELLS), "-container_memory", "128", "-master_memory", "256", "-timeout", "3600000"]
    words = ["-jar", str(jar), "-shell_script", str(script), "-application_tags", "shells", *sizes]
    return cluster.submit("shells", START, "job", SHELL, *words)


def attempts(cluster: DockerCluster, identity: str) -> int:
    """Count the attempts of an application."""
    return len(cluster.rm.get(f"/ws/v1/cluster/apps/{identity}/appattempts")["appAttempts"]["appAttempt"])


def test_jobs_live_through_every_change_of_the_scheduler(started: DockerCluster) -> None:
    cluster = started
    assert isinstance(cluster, UpgradedCluster)
    assert cluster.rm.treadle() == {}
    assert cluster.has_open() == []
    lasting = shells(cluster)
    lasts = str(lasting.application()["id"])
    cluster.wait_for("shells", lambda: cluster.rm.application(lasts)["runningContainers"] == 1 + SHELLS, 120)

    def change(tag: str, by: str) -> dict[str, int]:
        """Change the scheduler while a job runs; return who placed the containers of a job that begins after it."""
        # beside the shells there is room for two maps of it
        job = started_job(cluster, tag, maps=9, running=2)
        identity = str(job.application()["id"])
        if by:
            versions.append(cluster.install(by))
            assert cluster.sidecar_version() == versions[-1]
        else:
            cluster.uninstall()
        wait_adds_up(cluster)
        assert cluster.rm.application(lasts)["runningContainers"] == 1 + SHELLS
        job.wait()
        assert attempts(cluster, identity) == 1
        later = started_job(cluster, f"after-{tag}", maps=4, running=2)
        later.wait()
        return cluster.rm.placements().get(str(later.application()["id"]), {})

    versions: list[str] = []
    for tag, by in (("to-treadle", FIRST), ("to-another", NEXT)):
        placed = change(tag, by)
        assert placed["native"] == 0 < placed["treadle"], tag
        assert cluster.rm.treadle()["CaughtExceptions"] == 0
    assert versions[0] == __version__ != versions[1]
    assert change("to-stock", by="") == {}
    assert cluster.rm.treadle() == {}
    assert cluster.has_open() == []

    for worker in cluster.workers:
        cluster.run_in(worker, "touch", DONE)
    lasting.wait()
    assert attempts(cluster, lasts) == 1
    wait_idle(cluster)
