"""The jobs of the demo and the command lines that submit them; nothing in them knows of Treadle."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from treadle_lab.minicluster import ClusterError, MiniCluster
from treadle_lab.minicluster.site import FRUGAL

PROD, REST = "prod", "rest"
"""Queues of several engines."""

SLEEP = "org.apache.hadoop.mapreduce.SleepJob"
WORD_COUNT = "org.apache.hadoop.examples.WordCount"
TEZ_WORD_COUNT = "org.apache.tez.examples.OrderedWordCount"
TEZ_SLEEP = "org.apache.tez.mapreduce.examples.MRRSleepJob"


@dataclass(frozen=True)
class DemoJob:
    """A job to submit.

    Attributes:
        name: how the demo calls it; also its YARN tag, by which its application is found.
        framework: MapReduce, Tez or Spark.
        queue: the queue it goes to.
        command: builds the command that submits it and waits for its end.
        output: a folder where it writes word counts, or None.
        phase: "run", or "kill" for the job during which the sidecar is killed.
        engine: of several engines the one that is to serve it.
    """

    name: str
    framework: str
    queue: str
    command: Callable[[MiniCluster], list[str]]
    output: Path | None = None
    phase: str = "run"
    engine: str = ""


def together(words: Path, results: Path) -> list[DemoJob]:
    """Return the jobs that run at the same time, from two queues."""
    counted, tez_counted, spark_counted = results / "wordcount", results / "tez-wordcount", results / "spark-wordcount"
    return [
        DemoJob("sleep", "MapReduce", "production", _map_reduce("sleep", "production", SLEEP, *_sleep(8, 2, 1000))),
        DemoJob(
            "wordcount",
            "MapReduce",
            "research",
            _map_reduce("wordcount", "research", WORD_COUNT, str(words), str(counted)),
            counted,
        ),
        DemoJob(
            "tez-wordcount",
            "Tez",
            "production",
            _tez("tez-wordcount", "production", TEZ_WORD_COUNT, str(words), str(tez_counted), "2"),
            tez_counted,
        ),
        DemoJob(
            "tez-sleep",
            "Tez",
            "research",
            _tez("tez-sleep", "research", TEZ_SLEEP, *_sleep(4, 2, 500), "-ir", "3", "-irs", "1", "-irt", "500"),
        ),
        DemoJob(
            "spark-wordcount",
            "Spark",
            "production",
            lambda cluster: spark_submit(cluster, "spark-wordcount", "production", str(words), str(spark_counted)),
            spark_counted,
        ),
    ]


def of_two_engines() -> list[DemoJob]:
    """Return the jobs of a cluster on which one engine serves root.prod and another one the rest."""
    large = ("-Dmapreduce.map.memory.mb=1024",)

    def sleeping(name: str, queue: str, engine: str, maps: int, ms: int, *options: str) -> DemoJob:
        command = _map_reduce(name, queue, SLEEP, *options, *_sleep(maps, 1, ms))
        return DemoJob(name, "MapReduce", queue, command, engine=engine)

    def tez(name: str, queue: str, engine: str) -> DemoJob:
        sizes = (*_sleep(3, 1, 1500), "-ir", "1", "-irs", "1", "-irt", "500")
        return DemoJob(name, "Tez", queue, _tez(name, queue, TEZ_SLEEP, *sizes), engine=engine)

    return [
        sleeping("reports", "reports", PROD, 5, 2000),
        sleeping("etl", "etl", PROD, 5, 2000, *large),
        sleeping("long", "research", REST, 10, 3000),
        sleeping("short", "research", REST, 4, 1000),
        tez("research-tez", "research", REST),
    ]


def during_kill() -> DemoJob:
    """Return the job during which the sidecar is killed: several waves of maps, so that one is always waiting."""
    options = ("-Dmapreduce.map.cpu.vcores=4",)
    command = _map_reduce("sleep-kill", "production", SLEEP, *options, *_sleep(30, 1, 2500))
    return DemoJob("sleep-kill", "MapReduce", "production", command, phase="kill")


def _sleep(maps: int, reduces: int, milliseconds: int) -> list[str]:
    return ["-m", str(maps), "-r", str(reduces), "-mt", str(milliseconds), "-rt", str(milliseconds)]


def _map_reduce(tag: str, queue: str, main: str, *arguments: str) -> Callable[[MiniCluster], list[str]]:
    options = (f"-Dmapreduce.job.queuename={queue}", f"-Dmapreduce.job.tags={tag}")
    return lambda cluster: cluster.java(main, *options, *arguments)


def _tez(tag: str, queue: str, main: str, *arguments: str) -> Callable[[MiniCluster], list[str]]:
    options = (f"-Dtez.queue.name={queue}", f"-Dmapreduce.job.queuename={queue}", f"-Dtez.application.tags={tag}")
    return lambda cluster: cluster.java(main, *options, *arguments)


def spark_home() -> Path:
    """Return the folder of the installed PySpark.

    Raises:
        ClusterError: there is none.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ClusterError("PySpark is missing, which the demo submits a job with: pip install --group demo")
    return Path(spec.origin).parent


def spark_environment() -> list[str]:
    """Return the command that runs another one with what Spark needs in its environment on a mini cluster's host."""
    return ["/usr/bin/env", f"SPARK_HOME={spark_home()}", "SPARK_LOCAL_IP=127.0.0.1"]


def java_of_spark(cluster: MiniCluster) -> str:
    """Return the options of Spark's JVMs on a mini cluster."""
    return f"{FRUGAL} -Djdk.net.hosts.file={cluster.folder}/hosts"


def spark_options(cluster: MiniCluster, further: Mapping[str, str]) -> list[str]:
    """Return the options of a Spark application on a mini cluster: what each has, and what this one has further."""
    java = java_of_spark(cluster)
    settings = {
        # the jars are on every node already: nothing of some 450 MB is uploaded
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file://{cluster.folder}/staging",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        **further,
    }
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


def spark_submit(cluster: MiniCluster, tag: str, queue: str, *arguments: str) -> list[str]:
    """Return the command that submits the PySpark job in cluster mode."""
    options = spark_options(
        cluster,
        {
            "spark.yarn.queue": queue,
            "spark.yarn.tags": tag,
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.report.interval": "500",
            "spark.executor.instances": "2",
        },
    )
    script = str(Path(__file__).with_name("spark_words.py"))
    submit = [*spark_environment(), str(spark_home() / "bin" / "spark-submit")]
    return [*submit, "--master", "yarn", "--deploy-mode", "cluster", *options, script, *arguments]
