"""A failover: the active RM of a pair is killed, and fails over by command, while a YARN service runs and grows."""

from __future__ import annotations

from collections.abc import Callable

from tests.campaign.failover import KilledPair
from tests.real_programs import packages
from tests.real_programs.account import Account
from tests.real_programs.application import Application
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import LEASE_MS, OVERRIDES, Stage, folder_of, stage
from tests.real_programs.yarn_service import Component, Services
from tests.support.clusters import for_shell_jobs

MASTER = 1


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("services", account.say)
    folder = folder_of(account.name) / "cluster"
    cluster = KilledPair(folder, LEASE_MS, overrides={**OVERRIDES, **for_shell_jobs(folder)})
    with stage(account, cluster) as on, zookeeper(cluster) as address:
        services = Services(cluster, jars, address)
        companion = on.companion()
        account.say("launching a service")
        service = services.launch("failover", Component("sleeper", 3, memory_mb=512))
        on.compare("launched")
        _next_life(on, cluster.kill_active)
        on.compare("active RM killed")
        _grow(on, services, service, 5)
        cluster.stand_by()
        _next_life(on, lambda: _fail_over(cluster))
        on.compare("failed over by command")
        _grow(on, services, service, 7)
        services.stop("failover")
        companion.kill()


def _next_life(on: Stage, take_over: Callable[[], None]) -> None:
    on.end_life()
    take_over()
    on.new_life()


def _grow(on: Stage, services: Services, service: Application, containers: int) -> None:
    services.flex("failover", "sleeper", containers)
    service.wait_live(MASTER + containers)
    on.compare("grown after that")


def _fail_over(cluster: KilledPair) -> None:
    cluster.fail_over()
    cluster.wait_ready()
