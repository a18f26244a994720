"""A missing, slow, lying or dead sidecar costs at most the lease time; then the stock scheduler carries on."""

from __future__ import annotations

import os
import signal

import pytest
from tests.support.accounts import wait_adds_up
from tests.support.clusters import FaultyCluster
from tests.support.faulty_sidecar import Fault
from tests.support.jobs import shell_job, sleep_job

pytestmark = pytest.mark.cluster


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
def test_a_healthy_sidecar_places_every_container(cluster: FaultyCluster) -> None:
    before = cluster.rm.treadle()

    job = sleep_job(cluster, "healthy", maps=4)

    assert job.wait() == "SUCCEEDED"
    after = cluster.rm.treadle()
    placed = cluster.rm.placements()[job.application_id]
    assert placed == {"treadle": job.containers(), "native": 0}
    assert job.containers() >= 1 + 4 + 1
    assert after["Rejected"] == before["Rejected"]
    assert after["LeaseFlips"] == before["LeaseFlips"]


def test_a_killed_sidecar_is_replaced_and_no_job_is_lost(cluster: FaultyCluster) -> None:
    first = cluster.sidecar_pid()
    job = sleep_job(cluster, "killed", maps=4)
    job.wait_containers(3)

    os.kill(first, signal.SIGKILL)
    wait_adds_up(cluster)

    assert job.wait() == "SUCCEEDED"
    cluster.wait_for("another sidecar", lambda: cluster.sidecar_pids() not in ([], [first]), 120)
    assert len(cluster.sidecar_pids()) == 1


def test_a_stopped_sidecar_loses_the_lease_and_gets_it_back(cluster: FaultyCluster) -> None:
    job = shell_job(cluster, "stopped", containers=12)
    job.wait_containers(3)
    stopped = cluster.sidecar_pid()

    os.kill(stopped, signal.SIGSTOP)
    try:
        cluster.wait_for("lost lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 0, 60)
        wait_adds_up(cluster)
        assert job.wait() == "SUCCEEDED"
    finally:
        if stopped in cluster.sidecar_pids():
            os.kill(stopped, signal.SIGCONT)


def lies() -> list[object]:
    """Every fault that ends a lease: one for every change, as a wrong answer of any kind takes one path in the shim."""
    marks = {fault: () if fault is Fault.GARBAGE else pytest.mark.slow for fault in Fault}
    return [pytest.param(fault, marks=marks[fault], id=fault.name.lower()) for fault in Fault if fault.interrupts]


@pytest.mark.parametrize("fault", lies())
def test_a_lying_sidecar_loses_the_lease_in_the_middle_of_a_job_and_gets_it_back_by_itself(
    cluster: FaultyCluster, fault: Fault
) -> None:
    rm = cluster.process("rm").pid
    failures = cluster.rm.treadle()["LinkFailures"]
    # more containers than there is room for at once: some of them are placed after the lease has run out
    job = shell_job(cluster, f"fault-{fault.name.lower()}", containers=12, container_ms=3000)
    job.wait_containers(1)

    cluster.show_fault(fault)
    cluster.wait_for("lost lease", lambda: cluster.rm.treadle()["LeaseHeld"] == 0, 60)
    cluster.wait_for("a native placement", lambda: cluster.rm.placements()[job.application_id]["native"] > 0, 120)
    wait_adds_up(cluster)
    cluster.heal()

    # no command of an administrator, only time
    cluster.wait_for("lease that is back", lambda: cluster.rm.treadle()["LeaseHeld"] == 1, 120)
    wait_adds_up(cluster)
    assert job.wait() == "SUCCEEDED"
    assert cluster.process("rm").pid == rm
    assert cluster.rm.treadle()["LinkFailures"] > failures
