"""YARN services: constraints, and what administrators do while one runs, grows and shrinks. Each function is a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.failover import KilledPair
from tests.real_programs import packages
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import WAIT_S, Application
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import LEASE_MS, OVERRIDES, STOCK_PENDING, Stage, cluster_of, folder_of, stage
from tests.real_programs.yarn_service import Component, Services
from tests.support.clusters import for_shell_jobs
from tests.support.files import written
from tests.support.sites import change

from treadle_lab.minicluster.cluster import MiniCluster


@dataclass
class Service:
    """A running service, named as its part, on a stage; its first component grows and shrinks."""

    on: Stage
    application: Application
    services: Services
    component: str

    def ask(self, containers: int) -> None:
        """Let the component have this many containers from now on; its master may just have started."""
        self.application.wait_running()
        self.services.flex(self.on.account.name, self.component, containers)

    def wait(self, containers: int) -> None:
        """Wait until so many containers live beside the master."""
        self.application.wait_live(1 + containers)

    def resize(self, containers: int) -> None:
        """Let the component have this many containers, and wait until it has."""
        self.ask(containers)
        self.wait(containers)

    def wait_pending(self, holds: Callable[[int], bool] = bool) -> None:
        """Wait until some containers are pending, or as many as are to be."""
        rm = self.on.cluster.rm
        self.on.cluster.wait_for("pending containers", lambda: holds(rm.metrics()["containersPending"]), WAIT_S)


@contextmanager
def serving(
    account: Account, cluster: MiniCluster, *components: Component, beside: str = "default", ignoring: str = ""
) -> Iterator[Service]:
    """Start a cluster and launch a service on it; a part that comes to its end stops it.

    Args:
        account: of the part.
        cluster: not yet started.
        components: the first is the one that grows and shrinks.
        beside: the queue of an application of the same user that runs meanwhile.
        ignoring: leftovers with this text are the stock scheduler's.
    """
    jars = packages.jars("services", account.say)
    with stage(account, cluster, ignoring=ignoring) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion(beside)
        account.say("launching a service")
        yield Service(on, services.launch(account.name, *components), services, components[0].name)
        services.stop(account.name)
        companion.kill()


# Anti-affinity holds while a service grows, shrinks and loses its master.

NODES = 3
APART = Component(
    "apart", 2, constraints=[{"type": "ANTI_AFFINITY", "scope": "node", "target_tags": ["apart"]}], memory_mb=256
)
NEAR = Component("near", 2, constraints=[{"type": "AFFINITY", "scope": "node", "target_tags": ["apart"]}])


def constraints(account: Account) -> None:
    """Run the part."""
    with serving(account, cluster_of(account.name, nodes=NODES), APART, NEAR, ignoring=STOCK_PENDING) as service:
        _check_apart(service, 2)
        service.on.compare("launched")
        _grow_beyond_the_nodes(service)
        _lose_the_master(service)


def _grow_beyond_the_nodes(service: Service) -> None:
    """Ask for one container more than there are nodes: it must wait."""
    service.ask(NODES + 1)
    service.wait(NODES + NEAR.containers)
    service.wait_pending(lambda pending: pending == 1)
    _check_apart(service, NODES)
    service.on.compare("grown beyond the nodes")
    service.ask(2)
    # Hadoop's master does not withdraw the ask that waits: it gets the node that becomes free, and gives it back
    service.wait_pending(lambda pending: pending == 0)
    service.wait(2 + NEAR.containers)
    service.on.compare("shrunk")


def _lose_the_master(service: Service) -> None:
    """The next master keeps the containers, and the constraint covers kept and new containers."""
    service.application.kill_master()
    service.wait(2 + NEAR.containers)
    _check_apart(service, 2)
    service.on.compare("AM killed")
    service.ask(NODES)
    service.wait(NODES + NEAR.containers)
    _check_apart(service, NODES)
    service.on.compare("grown after that")


def _check_apart(service: Service, count: int) -> None:
    """Look whether the large containers are on as many nodes."""
    large = [each for each in service.application.workers() if each.memory_mb == APART.memory_mb]
    nodes = {container.node for container in large}
    if len(large) != count or len(nodes) != count:
        raise ProgramError(f"{len(large)} containers with anti-affinity are on {len(nodes)} nodes, not {count}")


# Kept containers: the master is killed twice while asks wait; its containers stay.

WANTED = 10
"""More than the nodes hold."""


def kept(account: Account) -> None:
    """Run the part."""
    with serving(account, cluster_of(account.name, nodes=2), Component("sleeper", 4, memory_mb=1024)) as service:
        on = service.on
        service.ask(WANTED)
        _wait_full(service.application)
        on.compare("nodes filled")
        service.application.kill_master()
        _wait_full(service.application)
        on.compare("AM killed")
        service.resize(2)
        service.application.kill_master()
        service.wait(2)
        on.compare("AM killed again")
        service.resize(4)
        on.compare("grown after that")


def _wait_full(service: Application) -> None:
    """Wait until each container that was asked for lives or is pending, and no node has room for one more."""
    rm = service.cluster.rm

    def full() -> bool:
        pending = rm.metrics()["containersPending"]
        room = max(int(node["availMemoryMB"]) for node in rm.nodes())
        return room < 1024 and pending + len(service.workers()) == WANTED

    service.cluster.wait_for("full cluster", full, WAIT_S)


# A moved application: it goes to another queue and back while it runs and asks wait.

HELD = 3
"""How many of the large containers a cluster of two nodes holds with the masters."""


def moved(account: Account) -> None:
    """Run the part."""
    large = Component("sleeper", HELD, memory_mb=1536)
    with serving(account, cluster_of(account.name, nodes=2), large, beside="batch") as service:
        on = service.on
        service.ask(HELD + 2)
        service.wait_pending()
        on.compare("nodes filled")
        service.application.move("batch")
        on.compare("moved")
        service.resize(2)
        service.resize(HELD)
        on.compare("shrunk and grown in the other queue")
        service.application.move("default")
        on.compare("moved back")


# A drained node: it is excluded gracefully while containers run on it, empties, leaves, and comes back.

NODE = 3
"""The number of the node that is drained."""

WITH, WITHOUT = 5, 3
"""How many containers are asked for with all nodes, and how many are left while one is away."""


def drained(account: Account) -> None:
    """Run the part."""
    excluded = written(folder_of(account.name) / "excluded", "")
    keys = {"yarn.resourcemanager.nodes.exclude-path": str(excluded)}
    cluster = cluster_of(account.name, nodes=NODES, named=True, overrides=keys)
    with serving(account, cluster, Component("sleeper", WITH, memory_mb=1536)) as service:
        if not _on_the_node(service.application):
            raise ProgramError("the service has no container on the node to be drained")
        service.on.compare("launched")
        _drain(service, excluded)
        _bring_back(service, excluded)


def _drain(service: Service, excluded: Path) -> None:
    cluster, application = service.on.cluster, service.application
    excluded.write_text(f"{cluster.layout.node_host(NODE)}\n")
    cluster.admin("-refreshNodes", "-g", "3600", "-server")
    cluster.wait_for("node to be DECOMMISSIONING", lambda: _state(application) == "DECOMMISSIONING", WAIT_S)
    service.on.compare("draining")
    before = _on_the_node(application)
    service.ask(WITH + 3)
    service.wait_pending()
    service.on.compare("grown while draining")
    if not _on_the_node(application) <= before:
        raise ProgramError("a container was placed on a node that drains")
    service.ask(WITHOUT)
    # the service's containers that are left on the node end, and are placed elsewhere
    cluster.wait_for("node without containers of the service", lambda: not _end_one(application), WAIT_S)
    # the RM keeps a node until all applications that were on it end, unless an administrator has it go now
    cluster.admin("-refreshNodes")
    cluster.wait_for("node to be DECOMMISSIONED", lambda: _state(application) == "DECOMMISSIONED", WAIT_S)
    service.wait(WITHOUT)
    service.on.compare("drained")


def _bring_back(service: Service, excluded: Path) -> None:
    cluster = service.on.cluster
    excluded.write_text("")
    cluster.admin("-refreshNodes")
    cluster.wait_for("end of the drained NodeManager", lambda: f"nm{NODE}" == cluster.died(), WAIT_S)
    cluster.start_node(NODE)
    cluster.wait_for("node to be RUNNING", lambda: _state(service.application) == "RUNNING", WAIT_S)
    service.resize(WITH)
    service.on.compare("back")


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


# Changed queues: a maximum below its use, a new queue, a queue that is stopped and removed.

ROOT = "yarn.scheduler.capacity.root"


def queues(account: Account) -> None:
    """Run the part."""
    component = Component("sleeper", 6, memory_mb=1024)
    with serving(account, cluster_of(account.name), component, beside="batch") as service:
        service.on.compare("launched")
        _shrink(service)
        _add_and_remove(service)


def _shrink(service: Service) -> None:
    """A leaf that uses more than its new maximum gets nothing until the maximum is raised."""
    _refresh(service.on, {f"{ROOT}.default.maximum-capacity": "50"})
    service.ask(8)
    service.wait_pending(lambda pending: pending == 2)
    service.on.compare("maximum lowered")
    if len(service.application.live()) != 1 + 6:
        raise ProgramError("the leaf got containers above its maximum")
    _refresh(service.on, {f"{ROOT}.default.maximum-capacity": "100"})
    service.wait(8)
    service.on.compare("maximum raised")


def _add_and_remove(service: Service) -> None:
    on = service.on
    added = {
        f"{ROOT}.queues": "default,batch,added",
        f"{ROOT}.batch.capacity": "20",
        f"{ROOT}.added.capacity": "30",
        f"{ROOT}.added.maximum-capacity": "100",
        f"{ROOT}.added.user-limit-factor": "4",
    }
    _refresh(on, added)
    service.application.move("added")
    service.resize(9)
    on.compare("queue added and used")
    service.application.move("default")
    _refresh(on, {f"{ROOT}.added.state": "STOPPED"})
    on.compare("queue stopped")
    removed = {key: None for key in added if ".added." in key} | {f"{ROOT}.added.state": None}
    _refresh(on, {**removed, f"{ROOT}.queues": "default,batch", f"{ROOT}.batch.capacity": "50"})
    for containers in (7, 9):
        service.resize(containers)
    on.compare("queue removed")


def _refresh(on: Stage, values: Mapping[str, str | None]) -> None:
    change(on.cluster.layout.conf / "capacity-scheduler.xml", dict(values))
    on.cluster.admin("-refreshQueues")


# A failover: the active RM of a pair is killed, and fails over by command, while a service runs and grows.


def failover(account: Account) -> None:
    """Run the part."""
    folder = folder_of(account.name) / "cluster"
    cluster = KilledPair(folder, LEASE_MS, overrides={**OVERRIDES, **for_shell_jobs(folder)})
    with serving(account, cluster, Component("sleeper", 3, memory_mb=512)) as service:
        service.on.compare("launched")
        _next_life(service.on, cluster.kill_active)
        service.on.compare("active RM killed")
        _grow(service, 5)
        cluster.stand_by()
        _next_life(service.on, cluster.fail_over, cluster.wait_ready)
        service.on.compare("failed over by command")
        _grow(service, 7)


def _next_life(on: Stage, *take_over: Callable[[], None]) -> None:
    on.end_life()
    for step in take_over:
        step()
    on.new_life()


def _grow(service: Service, containers: int) -> None:
    service.resize(containers)
    service.on.compare("grown after that")
