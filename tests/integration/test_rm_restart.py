"""The ResourceManager restarts, dies, and changes its scheduler while jobs run: installing and removing Treadle."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.support.accounts import wait_adds_up, wait_idle, wait_settled
from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.jobs import shell_job, sleep_job

from treadle_lab.minicluster.settings import Scheduler

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    cluster = faulty_cluster(tmp_path_factory.mktemp("restarted"))
    with cluster:
        yield cluster
        wait_idle(cluster)


def test_a_killed_rm_takes_its_sidecar_along_and_restart_rm_recovers_its_jobs(restarted: FaultyCluster) -> None:
    job = sleep_job(restarted, "rm-killed", maps=6, map_ms=2000)
    job.wait_containers(3)
    orphan = restarted.sidecar_pid()

    restarted.process("rm").send_signal(signal.SIGKILL)
    restarted.wait_for("end of the sidecar", lambda: not restarted.sidecar_pids(), 30)
    restarted.restart_rm()
    wait_adds_up(restarted)

    assert job.wait() == "SUCCEEDED"
    assert restarted.sidecar_pid() != orphan
    wait_settled(restarted)


@pytest.mark.slow
def test_jobs_run_through_the_change_to_the_stock_scheduler_and_back(restarted: FaultyCluster) -> None:
    job = shell_job(restarted, "swapped", containers=24, container_ms=10_000)
    job.wait_containers(3)

    restarted.restart_rm(scheduler=Scheduler.CAPACITY)
    assert restarted.rm.treadle() == {}
    assert restarted.sidecar_pids() == []
    before = job.containers()
    job.wait_containers(before + 1)
    assert job.state() == "UNDEFINED"
    wait_adds_up(restarted)
    restarted.restart_rm(scheduler=Scheduler.TREADLE)
    wait_adds_up(restarted)

    assert job.wait() == "SUCCEEDED"
    wait_settled(restarted)
    assert restarted.rm.treadle()["CaughtExceptions"] == 0
