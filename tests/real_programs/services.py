"""YARN services: anti-affinity holds while the service grows, shrinks and loses its master."""

from __future__ import annotations

from tests.real_programs import packages
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import WAIT_S, Application
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import STOCK_PENDING, Stage, cluster_of, stage
from tests.real_programs.yarn_service import Component, Services

NODES = 3
APART = Component(
    "apart", 2, constraints=[{"type": "ANTI_AFFINITY", "scope": "node", "target_tags": ["apart"]}], memory_mb=256
)
NEAR = Component("near", 2, constraints=[{"type": "AFFINITY", "scope": "node", "target_tags": ["apart"]}])
MASTER = 1


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("services", account.say)
    cluster = cluster_of(account.name, nodes=NODES)
    with stage(account, cluster, ignoring=STOCK_PENDING) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion()
        account.say("launching a service with anti-affinity and affinity")
        service = services.launch("spread", APART, NEAR)
        _check_apart(service, 2)
        on.compare("launched")
        _grow_beyond_the_nodes(on, services, service)
        _lose_the_master(on, services, service)
        services.stop("spread")
        companion.kill()


def _grow_beyond_the_nodes(on: Stage, services: Services, service: Application) -> None:
    """Ask for one container more than there are nodes: it must wait."""
    services.flex("spread", "apart", NODES + 1)
    service.wait_live(MASTER + NODES + NEAR.containers)
    on.cluster.wait_for("pending container", lambda: on.cluster.rm.metrics()["containersPending"] == 1, WAIT_S)
    _check_apart(service, NODES)
    on.compare("grown beyond the nodes")
    services.flex("spread", "apart", 2)
    # Hadoop's master does not withdraw the ask that waits: it gets the node that becomes free, and gives it back
    on.cluster.wait_for("served ask", lambda: on.cluster.rm.metrics()["containersPending"] == 0, WAIT_S)
    service.wait_live(MASTER + 2 + NEAR.containers)
    on.compare("shrunk")


def _lose_the_master(on: Stage, services: Services, service: Application) -> None:
    """The next master keeps the containers, and the constraint covers kept and new containers."""
    service.kill_master()
    service.wait_live(MASTER + 2 + NEAR.containers)
    _check_apart(service, 2)
    on.compare("AM killed")
    services.flex("spread", "apart", NODES)
    service.wait_live(MASTER + NODES + NEAR.containers)
    _check_apart(service, NODES)
    on.compare("grown after that")


def _check_apart(service: Application, count: int) -> None:
    """Look whether the large containers are on as many nodes."""
    large = [container for container in service.workers() if container.memory_mb == APART.memory_mb]
    nodes = {container.node for container in large}
    if len(large) != count or len(nodes) != count:
        raise ProgramError(f"{len(large)} containers with anti-affinity are on {len(nodes)} nodes, not {count}")
