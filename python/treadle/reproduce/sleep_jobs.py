"""MapReduce jobs whose tasks sleep, submitted to a mini cluster one by one: Hadoop's own SleepJob, unmodified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError

from treadle.minicluster import ClusterError, MiniCluster
from treadle.reproduce.client_gateway import ClientGateway, refusal

__all__ = ["SleepJob", "SleepJobs", "master_logs"]


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


class SleepJobs(ClientGateway):
    """A client of a started cluster that submits jobs of any user. Use it in a ``with`` statement."""

    def __init__(self, cluster: MiniCluster) -> None:
        super().__init__(cluster, "sleep-jobs.log")
        self._submitted = 0

    def submit(self, job: SleepJob) -> str:
        """Submit a job; returns YARN's id of its application at once.

        Raises:
            ClusterError: it was refused.
        """
        self._submitted += 1
        jvm = self.jvm
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
            raise ClusterError(f"job {job.name} of {job.user} was not submitted: {refusal(error)}") from error


def master_logs(cluster: MiniCluster, application_id: str) -> list[Path]:
    """Return what the application masters of an application have logged, one file for each attempt."""
    nodes = sorted(cluster.folder.glob(f"nm*/containers/{application_id}"))
    return [file for node in nodes for file in sorted(node.glob("container_*_000001/syslog"))]
