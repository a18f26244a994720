"""Unmodified MapReduce, Tez and Spark jobs on HDFS, from two queues: every container is placed by Treadle."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.docker.cluster import HOME, SLEEP, START, WORKERS, DockerCluster, Submitted

from treadle.shipped import spark_jar, tez_jar
from treadle_lab import demo
from treadle_lab.minicluster.site import FRUGAL

TERA = "org.apache.hadoop.examples.terasort."
TEZ_EXAMPLES = "org.apache.tez.examples."
BLOCKS = ("-Ddfs.blocksize=1048576",)
ROWS = 60_000  # of 100 bytes, by two maps
MAPS = 6  # that read them, one for each block


def placed_by_treadle(cluster: DockerCluster, *jobs: Submitted) -> None:
    """Check that each container of each job was placed by Treadle."""
    for job in jobs:
        containers, by_treadle = cluster.placed_by_treadle(str(job.application()["id"]))
        assert containers == by_treadle > 0, job.tag


def say(text: str) -> None:
    """Say something where the run is watched."""
    print(f"\n{text}", file=sys.stderr, flush=True)


def test_nodes_stand_in_two_racks(cluster: DockerCluster) -> None:
    racks = {str(node["nodeHostName"]): str(node["rack"]) for node in cluster.rm.nodes()}
    assert racks == dict(zip(WORKERS, ["/rack-1", "/rack-1", "/rack-2"], strict=True))


@pytest.fixture(scope="module")
def made(started: DockerCluster) -> Submitted:
    """The job that has made `rows`."""
    job = started.map_reduce("teragen", f"{TERA}TeraGen", *BLOCKS, str(ROWS), "rows")
    job.wait()
    return job


def test_rows_are_made_sorted_and_validated(cluster: DockerCluster, made: Submitted) -> None:
    sorts = (*BLOCKS, "-Dmapreduce.job.reduces=2", "rows", "sorted")
    sorted_by = cluster.map_reduce("terasort", f"{TERA}TeraSort", *sorts, queue="batch")
    sorted_by.wait()
    validated = cluster.map_reduce("teravalidate", f"{TERA}TeraValidate", "sorted", "validated")
    validated.wait()
    assert "checksum" in cluster.read(f"{HOME}/validated")
    placed_by_treadle(cluster, made, sorted_by, validated)


@pytest.mark.usefixtures("made")
def test_maps_run_where_their_data_is_as_under_stock(cluster: DockerCluster) -> None:
    local = {}
    for mode in ("enforce", "off"):
        cluster.set_mode(mode)
        job = cluster.map_reduce(f"locality-{mode}", f"{TERA}TeraChecksum", "rows", f"checksum-{mode}")
        job.wait()
        local[mode] = {name: job.counter(f"{name} map tasks") for name in ("Launched", "Data-local", "Rack-local")}
    cluster.set_mode("enforce")
    say(f"maps by where they ran: {json.dumps(local)}")
    assert all(found["Launched"] >= MAPS for found in local.values())
    assert local["enforce"]["Data-local"] >= MAPS // 2


def tez(cluster: DockerCluster, tag: str, name: str, *arguments: str, queue: str) -> Submitted:
    """Start one of Tez's examples with the plug-in."""
    settings = {
        "tez.queue.name": queue,
        "tez.application.tags": tag,
        "tez.am.dag.scheduler.class": "io.treadle.tez.TreadleDagScheduler",
        "tez.aux.uris": "hdfs://namenode:9000/apps/treadle/",
        "treadle.plan.wait-ms": "20000",
    }
    options = [f"-D{key}={value}" for key, value in settings.items()]
    return cluster.submit(tag, START, "job", TEZ_EXAMPLES + name, *options, *arguments)


def test_tez_joins_by_plan_and_its_own_validation_agrees(cluster: DockerCluster) -> None:
    cluster.put(tez_jar(), f"/apps/treadle/{tez_jar().name}")
    made = tez(
        cluster, "joindatagen", "JoinDataGen", "large", "2000000", "small", "100000", "expected", "3", queue="batch"
    )
    made.wait()
    jobs = [
        tez(cluster, "hashjoin", "HashJoinExample", "large", "small", "2", "hash-joined", queue="default"),
        tez(cluster, "sortmergejoin", "SortMergeJoinExample", "large", "small", "2", "sort-joined", queue="batch"),
    ]
    for job in jobs:
        job.wait()
    checks = [
        tez(cluster, f"joinvalidate-{output}", "JoinValidate", "expected", f"{output}-joined", "2", queue="default")
        for output in ("hash", "sort")
    ]
    for check in checks:
        check.wait()
    placed_by_treadle(cluster, made, *jobs, *checks)
    masters = "".join(master_logs(cluster, str(jobs[0].application()["id"])))
    assert "follows its plan" in masters, masters[-2000:]


def master_logs(cluster: DockerCluster, identity: str) -> list[str]:
    """Return what the application masters of an application have logged, on whichever worker."""
    command = f"cat /var/lib/hadoop/yarn/containers/{identity}/*_000001/* 2>/dev/null || true"
    return [cluster.run_in(worker, "sh", "-c", command) for worker in WORKERS]


def test_spark_counts_words_with_dynamic_allocation(cluster: DockerCluster) -> None:
    for name in ("yarn-site.xml", "mapred-site.xml"):
        cluster.put(Path("/opt/hadoop/conf") / name, f"{HOME}/lines/{name}")
    settings = {
        "spark.yarn.queue": "batch",
        "spark.yarn.tags": "spark-words",
        # in each container already: nothing of some 450 MB is uploaded
        "spark.yarn.jars": f"local:/opt/spark/jars/*,local:{spark_jar()}",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "3",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": FRUGAL,
        "spark.executor.extraJavaOptions": FRUGAL,
        "spark.ui.enabled": "false",
        "spark.plugins": "io.treadle.spark.TreadlePlugin",
        "spark.treadle.addresses": "rm:8047",
        "spark.treadle.wait-ms": "20000",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = [START, "client", "/opt/spark/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster"]
    script = str(Path(demo.__file__).with_name("spark_words.py"))
    job = cluster.submit("spark-words", *submit, "--name", "spark-words", *options, script, "lines", "words")
    job.wait()
    placed_by_treadle(cluster, job)
    assert "property" in cluster.read(f"{HOME}/words")

    def remembered() -> bool:
        show = "treadle history show spark-words -o json --store /var/lib/hadoop/profiles/profiles.db 2>&1 || true"
        return "runJob at SparkHadoopWriter" in cluster.run_in("sidecar", "sh", "-c", show)

    # jobs are remembered with the frames of later ones
    cluster.map_reduce("after-spark", SLEEP, "-m", "1", "-r", "0", "-mt", "1").wait()
    cluster.wait_for("stages of the Spark job", remembered, 120, poll_s=2)
