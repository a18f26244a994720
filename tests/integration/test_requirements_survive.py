"""What applications require of nodes holds on a real cluster while attributes change and processes are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.accounts import wait_adds_up
from tests.support.files import written
from tests.support.masters import Master, Masters

from treadle_lab.minicluster.cluster import MiniCluster, put_attributes
from treadle_lab.minicluster.settings import ALLOCATOR_KEY, ClusterSettings, NodeAttribute

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

SLOT_MB = 512
SLOTS = 4
"""Of a node."""

POLICY = """
policy:
  gate: {kind: phoenix, wait_threshold_ms: 1000}
  order: {kind: phoenix}
  fit: {kind: packing, scarcity: true}
  estimate: {kind: observed}
"""
REQUIRES = ["treadle:require=zone=special"]
PREFERS = ["treadle:prefer=zone=special"]
WAIT_S = 180


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MiniCluster]:
    policy = written(tmp_path / "treadle.yaml", POLICY)
    overrides = {
        ALLOCATOR_KEY: "io.treadle.shim.constraints.TreadlePlacementAllocator",
        "yarn.scheduler.treadle.lease-ms": "30000",
        "yarn.scheduler.treadle.starvation-ms": "0",
        "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
    }
    settings = ClusterSettings(
        nodes=3,
        memory_mb=SLOTS * SLOT_MB,
        vcores=64,
        policy=policy,
        attributes=(NodeAttribute("zone", "special", (3,)), NodeAttribute("zone", "plain", (1, 2))),
        recovery=True,
        overrides=overrides,
    )
    with MiniCluster(settings, tmp_path / "cluster") as started:
        yield started


class Asker:
    """An application master that asks for more and more, and notes where that is placed."""

    def __init__(self, cluster: MiniCluster, master: Master) -> None:
        self._cluster = cluster
        self._master = master
        self._priority = 0
        self.hosts: list[str] = []
        """Of all containers, in the order in which they came."""

    def ask(self, count: int) -> None:
        self._priority += 1
        self._master.want(self._priority, count, SLOT_MB)

    def beat(self) -> int:
        """Send a heartbeat; returns how many containers it has had in all."""
        self.hosts += self._master.keep()
        return len(self.hosts)

    def wait(self, count: int) -> list[str]:
        """Wait until this many containers have come in all; returns the hosts of those that came since."""
        before = len(self.hosts)
        self._cluster.wait_for(f"{count} containers", lambda: self.beat() >= count, WAIT_S)
        return self.hosts[before:]

    def give_back(self) -> None:
        """Release all that it holds, with the next heartbeat."""
        self._master.give_back()


def give_attributes(cluster: MiniCluster, special: int) -> None:
    """Let one node be special, and the others not."""
    others = tuple(number for number in (1, 2, 3) if number != special)
    attributes = (NodeAttribute("zone", "special", (special,)), NodeAttribute("zone", "plain", others))
    cluster.settings = replace(cluster.settings, attributes=attributes)
    put_attributes(cluster)


def test_what_is_required_holds_whatever_changes_while_asks_wait(cluster: MiniCluster) -> None:
    host = cluster.layout.node_host
    with Masters(cluster) as masters:
        asker = Asker(cluster, masters.start("ann", "default", REQUIRES))
        asker.ask(SLOTS + 2)
        assert asker.wait(SLOTS) == [host(3)] * SLOTS
        for _ in range(5):
            assert asker.beat() == SLOTS, "the special node is full, and two asks wait"

        give_attributes(cluster, special=2)
        assert asker.wait(SLOTS + 2) == [host(2)] * 2

        cluster.finish("nm2")
        cluster.wait_for("loss of the special node", lambda: state_of(cluster, host(2)) == "LOST", 120)
        asker.ask(2)
        for _ in range(5):
            assert asker.beat() == SLOTS + 2, "no other node will do"
        cluster.start_node(2)
        assert asker.wait(SLOTS + 4) == [host(2)] * 2

        os.kill(cluster.sidecar_pid(), signal.SIGKILL)
        asker.ask(1)
        assert asker.wait(SLOTS + 5) == [host(2)]
        cluster.wait_ready()

        asker.ask(SLOTS)
        asker.beat()
        cluster.finish("rm")
        cluster.start_rm()
        cluster.wait_ready()
        # a master that finds the ResourceManager anew asks anew
        asker.wait(SLOTS + 6)
        assert set(asker.hosts[SLOTS:]) == {host(2)}
        assert cluster.rm.treadle()["CaughtExceptions"] == 0
        wait_adds_up(cluster)


def test_a_sidecar_is_killed_while_a_preference_is_given_up(cluster: MiniCluster) -> None:
    host = cluster.layout.node_host
    with Masters(cluster) as masters:
        holder = Asker(cluster, masters.start("ann", "default", REQUIRES))
        holder.ask(SLOTS)
        assert holder.wait(SLOTS) == [host(3)] * SLOTS
        chooser = Asker(cluster, masters.start("bob", "default", PREFERS))
        chooser.ask(2)
        assert host(3) not in chooser.wait(2), "it has given up what it prefers"
        holder.ask(2)

        before = cluster.sidecar_pid()
        os.kill(before, signal.SIGKILL)
        chooser.ask(2)
        assert host(3) not in chooser.wait(4)
        cluster.wait_for("another sidecar", lambda: any(pid != before for pid in cluster.sidecar_pids()), 120)
        cluster.wait_ready()
        chooser.ask(2)
        assert host(3) not in chooser.wait(6)
        for _ in range(5):
            assert holder.beat() == SLOTS, "what is required is not given up"
        holder.give_back()
        assert holder.wait(SLOTS + 2) == [host(3)] * 2
        assert cluster.rm.treadle()["CaughtExceptions"] == 0
        wait_adds_up(cluster)


def state_of(cluster: MiniCluster, host: str) -> str:
    return next((str(node["state"]) for node in cluster.rm.nodes() if node["nodeHostName"] == host), "")
