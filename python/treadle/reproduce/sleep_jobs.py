"""MapReduce jobs whose tasks sleep, submitted to a mini cluster one after another by a single Java process.

Hadoop's own SleepJob, unmodified. A client of its own for each job would cost more of a small machine than the job.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JError

from treadle.minicluster import ClusterError, MiniCluster
from treadle.minicluster.site import FRUGAL

__all__ = ["SleepJob", "SleepJobs", "master_logs"]

HEAP_MB: Final = 256


@dataclass(frozen=True, slots=True)
class SleepJob:
    """A job: how many tasks, and how long each sleeps; its JVM's start comes on top."""

    name: str
    user: str
    maps: int
    map_ms: int
    reduces: int = 0
    reduce_ms: int = 0
    queue: str = "default"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the job's, such as ``mapreduce.job.tags``."""


class SleepJobs:
    """A client of a started cluster that submits jobs of any user. Use it in a ``with`` statement."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self._gateway: JavaGateway | None = None
        self._process: Any = None
        self._submitted = 0

    def __enter__(self) -> Self:
        java = shutil.which("java")
        if java is None:
            raise ClusterError("no java on the path")
        cluster = self._cluster
        jar = find_jar_path()
        classpath = f"{jar}:{cluster.layout.conf}:{cluster.lib}/*"
        options = [f"-Xmx{HEAP_MB}m", *FRUGAL.split(), f"-Djdk.net.hosts.file={cluster.folder}/hosts"]
        log = (cluster.layout.logs / "sleep-jobs.log").open("a", encoding="utf-8")  # py4j closes it
        port, token, self._process = launch_gateway(
            jarpath=jar,
            classpath=classpath,
            javaopts=options,
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            enable_auth=True,
            cwd=str(cluster.folder),
            return_proc=True,
            java_path=java,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process = None

    def submit(self, job: SleepJob) -> str:
        """Submit a job; returns YARN's id of its application at once.

        Raises:
            ClusterError: it was refused.
        """
        assert self._gateway is not None, "not begun"
        self._submitted += 1
        jvm = self._gateway.jvm
        # There is no HDFS whose files could belong to several users: each job has a folder of its own.
        staging = f"{self._cluster.folder}/staging/{job.user}-{self._submitted}"
        conf = jvm.org.apache.hadoop.mapred.JobConf()
        settings = {
            "mapreduce.job.queuename": job.queue,
            "mapreduce.job.ubertask.enable": "false",
            "yarn.app.mapreduce.am.staging-dir": staging,
            **job.settings,
        }
        for name, value in settings.items():
            conf.set(name, value)
        try:
            users = jvm.org.apache.hadoop.security.UserGroupInformation
            users.setLoginUser(users.createRemoteUser(job.user))
            made = jvm.org.apache.hadoop.mapreduce.SleepJob()
            made.setConf(conf)
            submitted = made.createJob(job.maps, job.reduces, job.map_ms, 1, job.reduce_ms, 1)
            submitted.setJobName(job.name)
            submitted.submit()
            return str(submitted.getJobID().toString()).replace("job_", "application_")
        except Py4JError as error:
            text = str(error).strip().splitlines()
            said = next((line for line in text if "Exception" in line), text[0] if text else "")
            raise ClusterError(f"job {job.name} of {job.user} was not submitted: {said}") from error


def master_logs(cluster: MiniCluster, application_id: str) -> list[Path]:
    """Return what the application masters of an application have logged, one file for each attempt."""
    nodes = sorted(cluster.folder.glob(f"nm*/containers/{application_id}"))
    return [file for node in nodes for file in sorted(node.glob("container_*_000001/syslog"))]
