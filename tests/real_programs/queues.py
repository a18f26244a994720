"""Changed queues while a service runs: a maximum below its use, a new queue, a queue that is stopped and removed."""

from __future__ import annotations

from collections.abc import Mapping

from tests.real_programs import packages
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import WAIT_S, Application
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import Stage, cluster_of, stage
from tests.real_programs.yarn_service import Component, Services
from tests.support.sites import change

MASTER = 1
EACH_MB = 1024
ROOT = "yarn.scheduler.capacity.root"


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("services", account.say)
    cluster = cluster_of(account.name)
    with stage(account, cluster) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion("batch")
        account.say("launching a service")
        service = services.launch("queues", Component("sleeper", 6, memory_mb=EACH_MB))
        on.compare("launched")
        _shrink(on, services, service)
        _add_and_remove(on, services, service)
        services.stop("queues")
        companion.kill()


def _shrink(on: Stage, services: Services, service: Application) -> None:
    """A leaf that uses more than its new maximum gets nothing until the maximum is raised."""
    _refresh(on, {f"{ROOT}.default.maximum-capacity": "50"})
    services.flex("queues", "sleeper", 8)
    on.cluster.wait_for("pending containers", lambda: on.cluster.rm.metrics()["containersPending"] == 2, WAIT_S)
    on.compare("maximum lowered")
    if len(service.live()) != MASTER + 6:
        raise ProgramError("the leaf got containers above its maximum")
    _refresh(on, {f"{ROOT}.default.maximum-capacity": "100"})
    service.wait_live(MASTER + 8)
    on.compare("maximum raised")


def _add_and_remove(on: Stage, services: Services, service: Application) -> None:
    added = {
        f"{ROOT}.queues": "default,batch,added",
        f"{ROOT}.batch.capacity": "20",
        f"{ROOT}.added.capacity": "30",
        f"{ROOT}.added.maximum-capacity": "100",
        f"{ROOT}.added.user-limit-factor": "4",
    }
    _refresh(on, added)
    service.move("added")
    services.flex("queues", "sleeper", 9)
    service.wait_live(MASTER + 9)
    on.compare("queue added and used")
    service.move("default")
    _refresh(on, {f"{ROOT}.added.state": "STOPPED"})
    on.compare("queue stopped")
    removed = {key: None for key in added if ".added." in key}
    _refresh(
        on,
        {**removed, f"{ROOT}.added.state": None, f"{ROOT}.queues": "default,batch", f"{ROOT}.batch.capacity": "50"},
    )
    for containers in (7, 9):
        services.flex("queues", "sleeper", containers)
        service.wait_live(MASTER + containers)
    on.compare("queue removed")


def _refresh(on: Stage, values: Mapping[str, str | None]) -> None:
    change(on.cluster.layout.conf / "capacity-scheduler.xml", dict(values))
    on.cluster.admin("-refreshQueues")
