"""Skein: services of shells are started, scaled and restarted by its own command line, on HDFS."""

from __future__ import annotations

from pathlib import Path

from tests.real_programs import clients, packages
from tests.real_programs.account import Account
from tests.real_programs.application import WAIT_S, Application
from tests.real_programs.daemons import hdfs
from tests.real_programs.stage import Stage, cluster_of, stage
from tests.support.files import written

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.site import container_options

MASTER = 1
SPECIFICATION = """
name: skein
queue: default
master:
  resources: {vcores: 1, memory: 256 MiB}
services:
  first:
    instances: 3
    max_restarts: -1
    resources: {vcores: 1, memory: 128 MiB}
    script: sleep 86400
  second:
    instances: 2
    max_restarts: -1
    depends: [first]
    resources: {vcores: 1, memory: 128 MiB}
    script: sleep 86400
"""
"""Services of one size: Skein uses the priority of a served ask again, and of two sizes the RM may lose the new ask."""


def run(account: Account) -> None:
    """Run the part."""
    environment = packages.python("skein", account.say)
    cluster = cluster_of(account.name)
    with stage(account, cluster) as on:
        account.say("starting HDFS")
        # Skein asks for the host of the file system, which a local one has not
        with hdfs(cluster):
            skein = Skein(cluster, environment)
            skein.start_driver()
            _scale_and_restart(on, skein)
            skein.call("driver", "stop")


class Skein:
    """Skein's command line on a cluster."""

    def __init__(self, cluster: MiniCluster, environment: Path) -> None:
        self._cluster = cluster
        self._command = str(environment / "bin" / "skein")
        self._folder = cluster.folder / "skein"
        self._folder.mkdir()
        commands = self._folder / "bin"
        commands.mkdir()
        # Skein asks `yarn` for the class path of its driver
        yarn = commands / "yarn"
        yarn.write_text(f'#!/bin/sh\necho "{cluster.layout.conf}:{cluster.lib}/*"\n')
        yarn.chmod(0o755)
        path = cluster.environment().get("PATH", "")
        self._environment = {"PATH": f"{commands}:{path}", "SKEIN_CONFIG": str(self._folder / "config")}

    def start_driver(self) -> None:
        """Start the process that talks to the RM; `driver stop` ends it."""
        self.call("config", "gencerts")
        options = [*container_options(self._cluster.layout, 128).split(), f"-Duser.home={self._cluster.folder}/home"]
        given = [f"--java-option={option}" for option in options]
        self.call("driver", "start", "--log", str(self._cluster.layout.logs / "skein-driver.log"), *given)

    def submit(self) -> Application:
        """Submit the specification; returns its application."""
        specification = written(self._folder / "specification.yaml", SPECIFICATION)
        return Application(self._cluster, self.call("application", "submit", str(specification)))

    def call(self, *arguments: str) -> str:
        """Run a command to its end; returns the last line of what it printed."""
        name = f"skein-{'-'.join(arguments[:2])}"
        output = clients.run(self._cluster, name, [self._command, *arguments], self._environment)
        return (output.strip().splitlines() or [""])[-1]


def _scale_and_restart(on: Stage, skein: Skein) -> None:
    on.account.say("submitting two services")
    application = skein.submit()
    application.wait_running()
    application.wait_live(MASTER + 5)
    # a container that Skein has not fetched yet would be taken for one of the service that is scaled
    application.wait_programs()
    on.compare("started")
    skein.call("container", "scale", application.id, "--service", "first", "--number", "8")
    application.wait_live(MASTER + 10)
    application.wait_programs()
    on.compare("scaled up")
    killed = application.workers()[0]
    application.kill_container(killed.id)
    on.cluster.wait_for("other container", lambda: _is_replaced(application, killed.id), WAIT_S)
    on.compare("container killed")
    skein.call("container", "scale", application.id, "--service", "first", "--number", "1")
    application.wait_live(MASTER + 3)
    on.compare("scaled down")
    skein.call("application", "shutdown", application.id)
    application.wait_end()


def _is_replaced(application: Application, killed: str) -> bool:
    workers = {container.id for container in application.workers()}
    return len(workers) == 10 and killed not in workers
