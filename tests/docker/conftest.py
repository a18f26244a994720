"""Tests of a cluster of containers. They run in its client, which docker/test.sh starts; elsewhere there are none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.docker.cluster import DockerCluster

collect_ignore_glob = [] if os.environ.get("TREADLE_DOCKER_PROJECT") else ["test_*.py"]


@pytest.fixture(scope="session")
def started() -> DockerCluster:
    """The cluster, once all of it is there."""
    from tests.docker.cluster import DockerCluster

    cluster = DockerCluster()
    print("waiting for the cluster", file=sys.stderr, flush=True)
    cluster.wait_ready()
    return cluster


@pytest.fixture
def cluster(started: DockerCluster) -> Iterator[DockerCluster]:
    """The cluster, idle and scheduled by Treadle before and after the test, its usage the sum of its containers."""
    from tests.support.accounts import wait_idle

    started.wait_ready()
    wait_idle(started)
    yield started
    started.wait_ready()
    wait_idle(started)
    assert started.rm.treadle()["CaughtExceptions"] == 0
