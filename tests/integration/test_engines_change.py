"""Several engines go on while their roster changes under running jobs, and when the ResourceManager is restarted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.accounts import wait_adds_up, wait_settled
from tests.support.clusters import engines_cluster
from tests.support.engines import figures_of, owner_of, process_of, served_by
from tests.support.files import written
from tests.support.jobs import Job, shell_job, sleep_job, submitted

from treadle_lab.demo.run import TEZ_SLEEP, spark_submit
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(2400)]

START_S = 300

TWO = """
engines:
  batch: {select: {queues: [root.batch]}, policy: {order: {kind: srpt}}, fallback: rest}
  rest: {fallback: batch}
"""
THREE = """
engines:
  batch: {select: {queues: [root.default], types: [MAPREDUCE]}, conflicts: coarse}
  more: {select: {queues: [root.batch]}, policy: {fit: {kind: random_fit}}}
  rest: {policy: {order: {kind: fifo}}}
"""
WRONG = """
engines:
  batch: {select: {queues: [batch]}}
  rest: {}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    folder = tmp_path_factory.mktemp("engines-change")
    settings = ClusterSettings(nodes=1, memory_mb=8192, vcores=32, recovery=True)
    with engines_cluster(folder, settings, TWO) as started:
        wait_home(started, ["batch", "rest"])
        yield started


def wait_home(cluster: MiniCluster, engines: list[str]) -> None:
    """Wait until these engines are the cluster's, each of which serves its own."""
    own = {name: name for name in engines}
    cluster.wait_for(f"engines {engines} that serve their own", lambda: served_by(cluster) == own, START_S)


def change(cluster: MiniCluster, roster: str) -> None:
    assert cluster.settings.policy is not None
    cluster.settings.policy.write_text(roster, encoding="utf-8")
    cluster.admin("-refreshQueues")


def three_frameworks(cluster: MiniCluster) -> list[Job]:
    words = written(cluster.folder / "words.txt", "to be or not to be\n" * 2000)
    tez = ("-Dtez.queue.name=batch", "-Dmapreduce.job.queuename=batch", "-Dtez.application.tags=tez-moved")
    sizes = ["-m", "6", "-r", "2", "-mt", "4000", "-rt", "1000", "-ir", "2", "-irs", "1", "-irt", "500"]
    spark = spark_submit(cluster, "spark-moved", "default", str(words), str(cluster.folder / "spark-words"))
    return [
        sleep_job(cluster, "moved", maps=12, map_ms=4000, queue="batch"),
        submitted(cluster, "tez-moved", cluster.java(TEZ_SLEEP, *tez, *sizes)),
        submitted(cluster, "spark-moved", spark),
    ]


def test_the_roster_changes_while_jobs_of_three_frameworks_run(cluster: MiniCluster) -> None:
    shell = shell_job(cluster, "shell-moved", containers=40, container_ms=6000, memory_mb=256, queue="batch")
    shell.wait_containers(1)
    assert owner_of(cluster, shell.application_id) == ("batch", "batch")
    jobs = [shell, *three_frameworks(cluster)]
    for job in jobs:
        job.wait_containers(1)

    change(cluster, THREE)
    wait_home(cluster, ["batch", "more", "rest"])
    assert "random_fit" in figures_of(cluster, "more")["policy"]
    if shell.state() == "UNDEFINED":
        assert owner_of(cluster, shell.application_id)[0] in ("more", ""), "it may have ended since"

    # a wrong one is refused, and the old one goes on
    change(cluster, WRONG)
    cluster.wait_for("a word on the wrong roster", lambda: "queues" in str(cluster.rm.treadle()["LastError"]), 120)
    assert served_by(cluster) == {name: name for name in ("batch", "more", "rest")}

    change(cluster, TWO)
    wait_home(cluster, ["batch", "rest"])
    for job in jobs:
        job.ends_placed_by_treadle()
    cluster.wait_for("end of the engine that is named no longer", lambda: process_of(cluster, "more") is None, 120)
    wait_adds_up(cluster)
    assert cluster.rm.treadle()["CaughtExceptions"] == 0


def test_an_rm_that_is_killed_comes_back_with_all_its_engines(cluster: MiniCluster) -> None:
    wait_home(cluster, ["batch", "rest"])
    jobs = {
        "batch": shell_job(cluster, "survives", containers=24, container_ms=5000, memory_mb=256, queue="batch"),
        "rest": shell_job(cluster, "survives-too", containers=24, container_ms=5000, memory_mb=256),
    }
    for job in jobs.values():
        job.wait_containers(3)
    before = cluster.sidecar_pids()
    cluster.finish("rm")
    cluster.wait_for("end of the sidecars", lambda: not set(before) & set(cluster.sidecar_pids()), 60)
    cluster.start_rm()
    cluster.wait_ready()
    wait_home(cluster, ["batch", "rest"])
    assert all(process_of(cluster, name) for name in jobs)
    for name, job in jobs.items():
        if job.state() == "UNDEFINED":
            assert owner_of(cluster, job.application_id)[0] in (name, ""), "it may have ended since"
        assert job.wait() == "SUCCEEDED"
    late = shell_job(cluster, "after", containers=2, container_ms=500, memory_mb=256, queue="batch")
    late.ends_placed_by_treadle()
    wait_settled(cluster)
    wait_adds_up(cluster)
