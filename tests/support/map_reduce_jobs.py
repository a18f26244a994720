"""MapReduce jobs submitted to a mini cluster one by one: Hadoop's own SleepJob and WordCount, unmodified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from tests.support.client_gateway import ClientGateway, refusal

from treadle_lab.minicluster import ClusterError, MiniCluster

__all__ = ["MapReduceJobs", "SleepJob", "WordCount", "master_logs"]

EXAMPLE: Final = "org.apache.hadoop.examples.WordCount"
WORD_COUNT: Final = {
    "mapreduce.job.map.class": f"{EXAMPLE}$TokenizerMapper",
    "mapreduce.job.combine.class": f"{EXAMPLE}$IntSumReducer",
    "mapreduce.job.reduce.class": f"{EXAMPLE}$IntSumReducer",
    "mapreduce.job.output.key.class": "org.apache.hadoop.io.Text",
    "mapreduce.job.output.value.class": "org.apache.hadoop.io.IntWritable",
}
"""What the example's own main method sets."""


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


@dataclass(frozen=True, slots=True)
class WordCount:
    """A job that counts the words of a folder: a map for each file of less than a block (32 MB on local disks)."""

    name: str
    user: str
    words: Path
    counted: Path
    """Where the counts go; a folder that is not there yet."""
    reduces: int = 1
    queue: str = "default"
    settings: Mapping[str, str] = field(default_factory=dict)


class MapReduceJobs(ClientGateway):
    """A client of a started cluster that submits jobs of any user. Use it in a ``with`` statement."""

    def __init__(self, cluster: MiniCluster) -> None:
        super().__init__(cluster, "map-reduce-jobs.log")
        self._submitted = 0

    def submit(self, job: SleepJob | WordCount) -> str:
        """Submit a job; returns YARN's id of its application at once.

        Raises:
            ClusterError: it was refused.
        """
        self._submitted += 1
        # There is no HDFS whose files could belong to several users: each job has a folder of its own.
        settings = {
            "mapreduce.job.queuename": job.queue,
            "mapreduce.job.ubertask.enable": "false",
            "yarn.app.mapreduce.am.staging-dir": f"{self._cluster.folder}/staging/{job.user}-{self._submitted}",
        }
        try:
            users = self.jvm.org.apache.hadoop.security.UserGroupInformation
            users.setLoginUser(users.createRemoteUser(job.user))
            made = self._sleeping(job, settings) if isinstance(job, SleepJob) else self._counting(job, settings)
            made.setJobName(job.name)
            made.submit()
            return str(made.getJobID().toString()).replace("job_", "application_")
        except Py4JError as error:
            raise ClusterError(f"job {job.name} of {job.user} was not submitted: {refusal(error)}") from error

    def _sleeping(self, job: SleepJob, settings: Mapping[str, str]) -> Any:
        made = self.jvm.org.apache.hadoop.mapreduce.SleepJob()
        made.setConf(self._conf({**settings, **job.settings}))
        return made.createJob(job.maps, job.reduces, job.map_ms, 1, job.reduce_ms, 1)

    def _counting(self, job: WordCount, settings: Mapping[str, str]) -> Any:
        own = {
            "mapreduce.input.fileinputformat.inputdir": f"file://{job.words}",
            "mapreduce.output.fileoutputformat.outputdir": f"file://{job.counted}",
            "mapreduce.job.reduces": str(job.reduces),
        }
        conf = self._conf({**settings, **WORD_COUNT, **own, **job.settings})
        return self.jvm.org.apache.hadoop.mapreduce.Job.getInstance(conf)

    def _conf(self, settings: Mapping[str, str]) -> Any:
        conf = self.jvm.org.apache.hadoop.mapred.JobConf()
        for name, value in settings.items():
            conf.set(name, value)
        return conf


def master_logs(cluster: MiniCluster, application_id: str) -> list[Path]:
    """Return what the application masters of an application have logged, one file for each attempt."""
    nodes = sorted(cluster.folder.glob(f"nm*/containers/{application_id}"))
    return [file for node in nodes for file in sorted(node.glob("container_*_000001/syslog"))]
