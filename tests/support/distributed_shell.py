"""Jobs on a mini cluster that only sleep: applications of Hadoop's distributed shell."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from treadle_lab.minicluster import ClusterError, MiniCluster
from treadle_lab.minicluster.site import FRUGAL

_SIDECAR_START_S: Final = 300

START_TIMEOUT_S: Final = _SIDECAR_START_S + 60
"""Of a whole cluster: kernels may have to be compiled first."""

LONG_TIMEOUTS: Final = {
    "yarn.scheduler.treadle.lease-ms": "6000",
    "yarn.scheduler.treadle.sidecar.start-timeout-ms": str(_SIDECAR_START_S * 1000),
}
"""Settings of an RM that Treadle schedules: a dozen and more JVMs start beside its engine."""

CLIENT = "org.apache.hadoop.yarn.applications.distributedshell.Client"
JOB_START_TIMEOUT_S = 180.0
CLIENT_TIMEOUT_MS = 24 * 3_600_000
_ENDED = {"FINISHED", "FAILED", "KILLED"}


def node_environment(cluster_folder: str) -> str:
    """Return yarn.nodemanager.admin-env: the distributed shell takes no JVM options for its AM."""
    return f"MALLOC_ARENA_MAX=4,JAVA_TOOL_OPTIONS={FRUGAL} -Djdk.net.hosts.file={cluster_folder}/hosts"


@dataclass
class Sleeper:
    """A running application of a leaf."""

    leaf: str
    tag: str
    client: subprocess.Popen[bytes]
    application_id: str = ""

    def wait_running(self, cluster: MiniCluster) -> None:
        """Wait until the application's AM runs, then end the client, which would only watch.

        Raises:
            ClusterError: the application ended, or its AM did not start in time.
        """

        def running() -> bool:
            found = cluster.rm.applications(applicationTags=self.tag)
            if not found:
                if self.client.poll() not in (None, 0):
                    raise ClusterError(f"the job of {self.leaf} was not submitted; see {cluster.layout.logs}")
                return False
            self.application_id = found[0]["id"]
            if found[0]["state"] in _ENDED:
                raise ClusterError(f"the job of {self.leaf} ended at once: {found[0]['diagnostics'].strip()}")
            return bool(found[0]["state"] == "RUNNING")

        cluster.wait_for(f"running job of {self.leaf}", running, JOB_START_TIMEOUT_S)
        self.client.kill()
        self.client.wait()


@dataclass(frozen=True)
class More:
    """What an application has beside what most have: tags, arguments of the client, and a smaller master."""

    tags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    master_mb: int = 256


def submit(
    cluster: MiniCluster,
    leaf: str,
    tag: str,
    demand: Mapping[str, int],
    tasks: int,
    command: str,
    memory_mb: int = 128,
    more: More | None = None,
) -> Sleeper:
    """Submit an application to the queue of a leaf; returns at once.

    Args:
        cluster: where.
        leaf: the queue.
        tag: distinguishes the application from all others.
        demand: what a task needs besides a virtual core and memory, by resource type.
        tasks: how many containers it asks for.
        command: what the shell of each container runs.
        memory_mb: memory of a task.
        more: whatever else it has.
    """
    more = more or More()
    shell_jar = next(iter(sorted(cluster.lib.glob("hadoop-yarn-applications-distributedshell-*.jar"))), None)
    if shell_jar is None:
        raise ClusterError(f"{cluster.lib} has no distributed shell; delete the folder, it is gathered again")
    needs = [f"{name}={amount}" for name, amount in demand.items() if amount]
    java, *rest = cluster.java(
        CLIENT,
        *(
            "-jar",
            str(shell_jar),
            "-appname",
            tag,
            "-application_tags",
            ",".join((tag, *more.tags)),
            "-queue",
            leaf,
        ),
        *("-shell_command", command, "-num_containers", str(tasks), "-timeout", str(CLIENT_TIMEOUT_MS)),
        *(
            "-container_resources",
            ",".join((f"memory-mb={memory_mb},vcores=1", *needs)),
            "-master_resources",
            f"memory-mb={more.master_mb},vcores=1",
        ),
        *more.arguments,
    )
    # it leaves its files in the user's home otherwise
    home = f"-Duser.home={cluster.folder}/home"
    return Sleeper(leaf, tag, cluster.submit([java, home, *rest], cluster.layout.logs / f"client-{tag}.log"))
