"""Another release of Hadoop with the same jar: jobs, a change of the mode and a killed RM, as with ours."""

from __future__ import annotations

import os

import pytest
from tests.docker.cluster import SLEEP, DockerCluster
from tests.docker.test_faults import kill_rm_under_a_job

TERA = "org.apache.hadoop.examples.terasort."


class ReleasedCluster(DockerCluster):
    """A cluster of two workers."""

    workers = ("worker-1", "worker-2")


@pytest.fixture(scope="module")
def started() -> DockerCluster:
    """The cluster, once all of it is there."""
    cluster = ReleasedCluster()
    cluster.wait_ready()
    return cluster


def test_the_resource_manager_is_of_the_release(cluster: DockerCluster) -> None:
    info = cluster.rm.get("/ws/v1/cluster/info")["clusterInfo"]
    assert info["resourceManagerVersion"] == info["hadoopVersion"] == os.environ["TREADLE_VARIANT"]
    assert {node["version"] for node in cluster.rm.nodes()} == {os.environ["TREADLE_VARIANT"]}


def test_rows_are_sorted_in_containers_that_treadle_placed(cluster: DockerCluster) -> None:
    made = cluster.map_reduce("teragen", f"{TERA}TeraGen", "20000", "rows")
    made.wait()
    sorts = ("-Ddfs.blocksize=1048576", "-Dmapreduce.job.reduces=2", "rows", "sorted")
    sorted_by = cluster.map_reduce("terasort", f"{TERA}TeraSort", *sorts, queue="batch")
    sorted_by.wait()
    validated = cluster.map_reduce("teravalidate", f"{TERA}TeraValidate", "sorted", "validated")
    validated.wait()
    for job in (made, sorted_by, validated):
        containers, by_treadle = cluster.placed_by_treadle(str(job.application()["id"]))
        assert containers == by_treadle > 0, job.tag


def test_the_mode_changes_and_the_stock_scheduler_takes_over(cluster: DockerCluster) -> None:
    cluster.set_mode("off")
    job = cluster.map_reduce("stock", SLEEP, "-m", "2", "-r", "0", "-mt", "100")
    job.wait()
    assert cluster.placed_by_treadle(str(job.application()["id"]))[1] == 0
    cluster.set_mode("enforce")


def test_a_killed_resource_manager_goes_on_with_its_job(cluster: DockerCluster) -> None:
    kill_rm_under_a_job(cluster)
    cluster.wait_for("Treadle without an error", lambda: cluster.rm.treadle()["LastError"] == "", 120)
