"""Kept containers: the master of a YARN service is killed twice while asks wait; its containers stay."""

from __future__ import annotations

from tests.real_programs import packages
from tests.real_programs.account import Account
from tests.real_programs.application import WAIT_S, Application
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import cluster_of, stage
from tests.real_programs.yarn_service import Component, Services

MASTER = 1
WANTED = 10
"""More than the nodes hold."""


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("services", account.say)
    cluster = cluster_of(account.name, nodes=2)
    with stage(account, cluster) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion()
        account.say("launching a service and asking for more than the nodes hold")
        service = services.launch("kept", Component("sleeper", 4, memory_mb=1024))
        services.flex("kept", "sleeper", WANTED)
        _wait_full(service)
        on.compare("nodes filled")
        service.kill_master()
        _wait_full(service)
        on.compare("AM killed")
        services.flex("kept", "sleeper", 2)
        service.wait_live(MASTER + 2)
        service.kill_master()
        service.wait_live(MASTER + 2)
        on.compare("AM killed again")
        services.flex("kept", "sleeper", 4)
        service.wait_live(MASTER + 4)
        on.compare("grown after that")
        services.stop("kept")
        companion.kill()


def _wait_full(service: Application) -> None:
    """Wait until each container that was asked for lives or is pending, and no node has room for one more."""
    rm = service.cluster.rm

    def full() -> bool:
        pending = rm.metrics()["containersPending"]
        room = max(int(node["availMemoryMB"]) for node in rm.nodes())
        return room < 1024 and pending + len(service.workers()) == WANTED

    service.cluster.wait_for("full cluster", full, WAIT_S)
