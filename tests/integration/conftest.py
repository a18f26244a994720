"""A mini cluster for the tests that need a real ResourceManager.

Starting one takes some twenty seconds on two cores, so tests share it: each leaves it idle, with an engine that holds
the lease, and the fixture checks that it does.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.accounts import wait_idle, wait_settled
from tests.support.clusters import FaultyCluster, faulty_cluster

from treadle_lab.minicluster import processes


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    """One cluster for all tests that leave it as they found it."""
    cluster = faulty_cluster(tmp_path_factory.mktemp("shared"))
    with cluster:
        yield cluster
        wait_idle(cluster)
    assert processes.members(cluster.layout) == []


@pytest.fixture
def cluster(shared_cluster: FaultyCluster) -> Iterator[FaultyCluster]:
    """The shared cluster, idle and scheduled by Treadle before and after the test."""
    wait_settled(shared_cluster)
    yield shared_cluster
    shared_cluster.heal()
    wait_settled(shared_cluster)
    if shared_cluster.forget_faults():
        # sidecars that fail in one test after another look like a crash loop, which an administrator ends
        shared_cluster.admin("-refreshQueues")
    assert shared_cluster.rm.treadle()["CaughtExceptions"] == 0
