"""YARN services on a mini cluster: launch one, flex it, stop it, with Hadoop's own command line."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real_programs import clients
from tests.real_programs.application import Application, named

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.processes import JavaProgram
from treadle_lab.minicluster.site import FRUGAL, container_options

APPLICATION_CLI = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
MASTER_MB = 256


@dataclass(frozen=True)
class Component:
    """A component of a service whose containers sleep.

    Attributes:
        name: also the tag of its containers.
        containers: how many at first.
        memory_mb: of each.
        constraints: of its placement policy.
    """

    name: str
    containers: int
    memory_mb: int = 128
    constraints: Sequence[Mapping[str, Any]] = ()

    def document(self) -> dict[str, Any]:
        """Return it as a service's specification has it."""
        entry: dict[str, Any] = {
            "name": self.name,
            "number_of_containers": self.containers,
            "launch_command": "sleep 86400",
            "resource": {"cpus": 1, "memory": str(self.memory_mb)},
            "restart_policy": "ALWAYS",
        }
        if self.constraints:
            entry["placement_policy"] = {"constraints": list(self.constraints)}
        return entry


class Services:
    """The client of YARN services on a cluster."""

    def __init__(self, cluster: MiniCluster, jars: Path, zookeeper: str) -> None:
        self._cluster = cluster
        self._jars = jars
        self._zookeeper = zookeeper
        self._tarball = cluster.folder / "service-dep.tar.gz"
        with tarfile.open(self._tarball, "w:gz") as archive:
            archive.add(jars, arcname=".")

    def launch(self, name: str, *components: Component, queue: str = "default") -> Application:
        """Launch a service; returns its application once all of its containers live."""
        specification = self._cluster.folder / f"{name}.json"
        document = {
            "name": name,
            "version": "1",
            "queue": queue,
            "components": [component.document() for component in components],
            "configuration": {"properties": {"yarn.service.am-restart.max-attempts": "10"}},
        }
        specification.write_text(json.dumps(document, indent=1))
        self._call(name, "-launch", name, str(specification))
        application = named(self._cluster, name)
        application.wait_running()
        application.wait_live(1 + sum(component.containers for component in components))
        return application

    def flex(self, name: str, component: str, containers: int) -> None:
        """Ask for another number of containers of a component; returns at once."""
        self._call(name, "-flex", name, "-component", component, str(containers))

    def stop(self, name: str) -> None:
        """Stop a service; returns when the RM shows its end."""
        application = named(self._cluster, name)
        self._call(name, "-stop", name)
        application.wait_end("ENDED")

    def _call(self, name: str, *arguments: str) -> None:
        cluster = self._cluster
        settings = {
            # the client talks to the master, not to a REST service of the RM
            "yarn.application.admin.client.class.yarn-service": "org.apache.hadoop.yarn.service.client.ServiceClient",
            "yarn.service.base.path": str(cluster.folder / "services"),
            "yarn.service.framework.path": str(self._tarball),
            "yarn.service.classpath": f"{cluster.lib}/*",
            "yarn.service.am-resource.memory": str(MASTER_MB),
            "yarn.service.am.java.opts": container_options(cluster.layout, 160),
            "hadoop.registry.zk.quorum": self._zookeeper,
        }
        options = (f"-Dservice.libdir={self._jars}", f"-Duser.home={cluster.folder}/home", *FRUGAL.split())
        classpath = (str(cluster.layout.conf), f"{self._jars}/*", f"{cluster.lib}/*")
        program = JavaProgram("service", APPLICATION_CLI, classpath, 192, options)
        given = [f"-D{key}={value}" for key, value in settings.items()]
        clients.run(cluster, f"service-{name}", program.command(cluster.layout, ["app", *given, *arguments]))
