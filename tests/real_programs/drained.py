"""A drained node: it is excluded gracefully while containers run on it, empties, leaves, and comes back."""

from __future__ import annotations

from pathlib import Path

from tests.real_programs import packages
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import WAIT_S, Application
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import Stage, cluster_of, folder_of, stage
from tests.real_programs.yarn_service import Component, Services
from tests.support.files import written

NODES = 3
NODE = 3
"""The number of the node that is drained."""

MASTER = 1
EACH_MB = 1536
HELD, HELD_WITHOUT = 5, 3
"""How many containers are asked for with all nodes, and how many are left while one is away."""


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("services", account.say)
    excluded = written(folder_of(account.name) / "excluded", "")
    keys = {"yarn.resourcemanager.nodes.exclude-path": str(excluded)}
    cluster = cluster_of(account.name, nodes=NODES, named=True, overrides=keys)
    with stage(account, cluster) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion()
        account.say("launching a service on all nodes")
        service = services.launch("drained", Component("sleeper", HELD, memory_mb=EACH_MB))
        if not _on_the_node(service):
            raise ProgramError("the service has no container on the node to be drained")
        on.compare("launched")
        _drain(on, services, service, excluded)
        _bring_back(on, services, service, excluded)
        services.stop("drained")
        companion.kill()


def _drain(on: Stage, services: Services, service: Application, excluded: Path) -> None:
    cluster = on.cluster
    excluded.write_text(f"{cluster.layout.node_host(NODE)}\n")
    cluster.admin("-refreshNodes", "-g", "3600", "-server")
    cluster.wait_for("node to be DECOMMISSIONING", lambda: _state(service) == "DECOMMISSIONING", WAIT_S)
    on.compare("draining")
    before = _on_the_node(service)
    services.flex("drained", "sleeper", HELD + 3)
    cluster.wait_for("pending container", lambda: cluster.rm.metrics()["containersPending"] > 0, WAIT_S)
    on.compare("grown while draining")
    if not _on_the_node(service) <= before:
        raise ProgramError("a container was placed on a node that drains")
    services.flex("drained", "sleeper", HELD_WITHOUT)
    # the service's containers that are left on the node end, and are placed elsewhere
    cluster.wait_for("node without containers of the service", lambda: not _end_one(service), WAIT_S)
    # the RM keeps a node until all applications that were on it end, unless an administrator has it go now
    cluster.admin("-refreshNodes")
    cluster.wait_for("node to be DECOMMISSIONED", lambda: _state(service) == "DECOMMISSIONED", WAIT_S)
    service.wait_live(MASTER + HELD_WITHOUT)
    on.compare("drained")


def _bring_back(on: Stage, services: Services, service: Application, excluded: Path) -> None:
    cluster = on.cluster
    excluded.write_text("")
    cluster.admin("-refreshNodes")
    cluster.wait_for("end of the drained NodeManager", lambda: f"nm{NODE}" == cluster.died(), WAIT_S)
    cluster.start_node(NODE)
    cluster.wait_for("node to be RUNNING", lambda: _state(service) == "RUNNING", WAIT_S)
    services.flex("drained", "sleeper", HELD)
    service.wait_live(MASTER + HELD)
    on.compare("back")


def _state(service: Application) -> str:
    """Return the state of the node; RUNNING if one of its entries is."""
    host = service.cluster.layout.node_host(NODE)
    states = {str(node["state"]) for node in service.cluster.rm.nodes() if node["nodeHostName"] == host}
    return "RUNNING" if "RUNNING" in states else next(iter(states), "")


def _on_the_node(service: Application) -> set[str]:
    node = service.cluster.layout.node_id(NODE)
    return {container.id for container in service.live() if container.node == node}


def _end_one(service: Application) -> bool:
    """End a container on the node if there is one; says whether there was."""
    found = sorted(_on_the_node(service))
    if found:
        service.kill_container(found[0])
        service.cluster.wait_for("end of a container", lambda: found[0] not in _on_the_node(service), WAIT_S)
    return bool(found)
