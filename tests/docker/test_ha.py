"""Two ResourceManagers on ZooKeeper: whichever is active has the only sidecar, and its jobs, policy and mode go on."""

from __future__ import annotations

import pytest
from tests.docker.cluster import DockerCluster, Submitted
from tests.docker.pair import PairOfResourceManagers
from tests.docker.test_faults import started as started_job
from tests.support.accounts import wait_adds_up, wait_idle

HDRF = "share=hdrf"
TREADLE = "/opt/treadle/bin/treadle"
CONFIG = "/var/lib/hadoop/policy/treadle.yaml"


@pytest.fixture(scope="module")
def started() -> DockerCluster:
    """The cluster, once all of it is there."""
    pair = PairOfResourceManagers()
    pair.wait_ready()
    pair.wait_standby()
    return pair


@pytest.fixture
def pair(cluster: DockerCluster) -> PairOfResourceManagers:
    """The idle cluster."""
    assert isinstance(cluster, PairOfResourceManagers)
    return cluster


def has_the_only_sidecar(pair: PairOfResourceManagers) -> None:
    """Check that the active one has a sidecar, and that the other one, which stands by, has none."""
    pair.wait_standby()
    pair.wait_for("end of the other sidecar", lambda: pair.sidecars(pair.standby) == 0, 60)
    assert pair.sidecars(pair.active) == 1


def kill_active(pair: PairOfResourceManagers) -> None:
    """Kill the active one, wait until the other has taken over, and start it anew, which then stands by."""
    killed = pair.active
    pair.container(killed).kill()
    pair.wait_taken_over()
    pair.container(killed).start()
    has_the_only_sidecar(pair)


def ends_in_its_first_attempt(pair: PairOfResourceManagers, job: Submitted, before: str) -> None:
    """Wait for the end of a job, and check that it is the same application with the same AM."""
    job.wait()
    assert str(job.application()["id"]) == before
    attempts = pair.rm.get(f"/ws/v1/cluster/apps/{before}/appattempts")["appAttempts"]["appAttempt"]
    assert len(attempts) == 1


def test_the_active_one_is_killed_and_the_other_goes_on_with_the_job(pair: PairOfResourceManagers) -> None:
    has_the_only_sidecar(pair)
    # until the engine of the other one has the lease its CapacityScheduler places: of so many maps some are left then
    job = started_job(pair, "active-killed", maps=40)
    before = str(job.application()["id"])

    kill_active(pair)

    committed = pair.rm.treadle()["Committed"]
    wait_adds_up(pair)
    ends_in_its_first_attempt(pair, job, before)
    assert pair.rm.treadle()["Committed"] > committed


def test_one_that_is_cut_off_stands_by_without_a_sidecar(pair: PairOfResourceManagers) -> None:
    job = started_job(pair, "active-cut-off", maps=12)
    before = str(job.application()["id"])
    cut = pair.active
    with pair.cut_off(f"{cut}-host"):
        pair.wait_taken_over()
        # it has heard nothing of that, but it has lost ZooKeeper
        pair.wait_for("end of the sidecar of who is cut off", lambda: pair.sidecars(cut) == 0, 120)
        wait_adds_up(pair)
    has_the_only_sidecar(pair)
    ends_in_its_first_attempt(pair, job, before)


def test_policy_and_mode_are_after_a_failover_what_they_were(pair: PairOfResourceManagers) -> None:
    # the file is each host's own
    pair.run_in(pair.standby, TREADLE, "policy", "use", "hdrf", "--no-refresh", "--config", CONFIG)
    pair.run_in(pair.active, TREADLE, "policy", "use", "hdrf")
    assert HDRF in pair.rm.treadle()["Policy"]
    kill_active(pair)
    pair.wait_for("mode as before", lambda: pair.has_mode("enforce"))
    pair.wait_for("policy as before", lambda: HDRF in pair.rm.treadle()["Policy"])

    pair.set_mode("observe_only")
    kill_active(pair)
    pair.wait_for("mode as before", lambda: pair.has_mode("observe_only"))
    assert HDRF in pair.rm.treadle()["Policy"]
    job = started_job(pair, "observed", maps=4)
    identity = str(job.application()["id"])
    job.wait()
    assert pair.rm.placements()[identity]["treadle"] == 0
    pair.set_mode("enforce")
    wait_idle(pair)
