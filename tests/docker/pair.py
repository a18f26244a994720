"""Two ResourceManagers in containers, of which ZooKeeper makes one the active one."""

from __future__ import annotations

from typing import Any

import requests
from tests.docker.cluster import DockerCluster

from treadle_lab.minicluster.cluster import ResourceManagerClient

TAKES_OVER_S = 240.0
_COUNT = """
import pathlib
def words(process):
    try:
        return (process / "cmdline").read_bytes().split(bytes(1))
    except OSError:
        return []
print(sum({b"sidecar", b"--managed"} <= set(words(process)) for process in pathlib.Path("/proc").glob("[0-9]*")))
"""


class PairOfResourceManagers(DockerCluster):
    """A cluster whose `rm` is the active one of two."""

    workers = ("worker-1", "worker-2")
    managers = ("rm-1", "rm-2")

    def __init__(self) -> None:
        super().__init__()
        self.active = self.managers[0]

    @property
    def rm(self) -> ResourceManagerClient:
        """The active ResourceManager's pages."""
        return self._clients[self.active]

    @property
    def standby(self) -> str:
        """The service that is not the active one."""
        (other,) = set(self.managers) - {self.active}
        return other

    def wait_ready(self) -> None:
        """Wait until one is active and has all that `is_ready` asks for."""
        self.wait_for("active ResourceManager", self._find_active, TAKES_OVER_S)
        super().wait_ready()

    def wait_taken_over(self) -> None:
        """Wait until the other one is active, and is ready."""
        heir = self.standby
        self.wait_for(f"{heir} that is active", lambda: self.state(heir) == "ACTIVE", TAKES_OVER_S)
        self.active = heir
        super().wait_ready()

    def wait_standby(self) -> None:
        """Wait until the other one stands by."""
        self.wait_for(f"{self.standby} that stands by", lambda: self.state(self.standby) == "STANDBY", TAKES_OVER_S)

    def state(self, service: str) -> str:
        """Return ACTIVE or STANDBY, as a ResourceManager says of itself."""
        info: dict[str, Any] = self._clients[service].get("/ws/v1/cluster/info")["clusterInfo"]
        return str(info["haState"])

    def sidecars(self, service: str) -> int:
        """Count the sidecars beside a ResourceManager."""
        return int(self.run_in(service, "python3", "-c", _COUNT))

    def _find_active(self) -> bool:
        for service in self.managers:
            try:
                if self.state(service) == "ACTIVE":
                    self.active = service
                    return True
            except requests.RequestException:
                continue
        return False
