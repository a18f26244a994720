"""A moved application: a YARN service goes to another queue and back while it runs and asks wait."""

from __future__ import annotations

from tests.real_programs import packages
from tests.real_programs.account import Account
from tests.real_programs.application import WAIT_S
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import cluster_of, stage
from tests.real_programs.yarn_service import Component, Services

MASTER = 1
HELD = 3
"""How many of the large containers a cluster of two nodes holds with the masters."""


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("services", account.say)
    cluster = cluster_of(account.name, nodes=2)
    with stage(account, cluster) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion("batch")
        account.say("launching a service and asking for more than the nodes hold")
        service = services.launch("moved", Component("sleeper", HELD, memory_mb=1536))
        services.flex("moved", "sleeper", HELD + 2)
        cluster.wait_for("pending containers", lambda: cluster.rm.metrics()["containersPending"] > 0, WAIT_S)
        on.compare("nodes filled")
        service.move("batch")
        on.compare("moved")
        services.flex("moved", "sleeper", 2)
        service.wait_live(MASTER + 2)
        services.flex("moved", "sleeper", HELD)
        service.wait_live(MASTER + HELD)
        on.compare("shrunk and grown in the other queue")
        service.move("default")
        on.compare("moved back")
        services.stop("moved")
        companion.kill()
