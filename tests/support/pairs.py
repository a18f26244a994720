"""A mini cluster with two ResourceManagers, failed over by hand (`yarn rmadmin -transitionToActive`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from treadle.shipped import requirements_jar, shim_jar
from treadle_lab.minicluster.cluster import RM_MAIN, MiniCluster, ResourceManagerClient
from treadle_lab.minicluster.processes import JavaProgram
from treadle_lab.minicluster.settings import ClusterError, ClusterSettings, Scheduler
from treadle_lab.minicluster.site import LOG4J, LOOPBACK, METRICS, free_ports, read_site, write_site

SERVICES = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")


class PairOfResourceManagers(MiniCluster):
    """Two RMs on one state store; `rm1` is active at first, and `rm` speaks to the active one.

    The file state store fences nobody off, so the one that is active must be put on standby before the other takes
    over, as `yarn rmadmin` does.
    """

    def __init__(
        self,
        folder: Path,
        lease_ms: int,
        policy: Path | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        ports = free_ports(2 * len(SERVICES))
        self.ports = {"rm1": ports[: len(SERVICES)], "rm2": ports[len(SERVICES) :]}
        self.active = "rm1"
        entries = {
            **(overrides or {}),
            "yarn.resourcemanager.ha.enabled": "true",
            "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
            "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
            "yarn.resourcemanager.cluster-id": "pair",
            "yarn.scheduler.treadle.lease-ms": str(lease_ms),
            # a client tries the other RM after this, not after half a minute
            "yarn.client.failover-sleep-base-ms": "200",
            "yarn.client.failover-sleep-max-ms": "1000",
        }
        for identity, numbers in self.ports.items():
            for service, port in zip(SERVICES, numbers, strict=True):
                entries[f"yarn.resourcemanager.{service}.{identity}"] = f"{LOOPBACK}:{port}"
        settings = ClusterSettings(nodes=2, memory_mb=4096, policy=policy, recovery=True, overrides=entries)
        super().__init__(settings, folder)

    def start_rm(self, scheduler: Scheduler | None = None) -> None:
        """Start both RMs and make `rm1` the active one."""
        assert scheduler is None, "a pair keeps its scheduler"
        for identity in self.ports:
            self._start(identity)
        self.wait_for("admin service of both", lambda: self._state("rm1") and self._state("rm2"), 120, poll_s=1.0)
        self.admin("-transitionToActive", self.active)

    def fail_over(self) -> None:
        """Make the active RM stand by and the other active."""
        standby = "rm2" if self.active == "rm1" else "rm1"
        self.admin("-transitionToStandby", self.active)
        self.active = standby
        self.admin("-transitionToActive", standby)

    @property
    def rm(self) -> ResourceManagerClient:
        """The active RM's REST pages and JMX beans."""
        url = f"http://{LOOPBACK}:{self.ports[self.active][4]}"
        if self._rm is None or self._rm.url != url:
            self._rm = ResourceManagerClient(url)
        return self._rm

    def _state(self, identity: str) -> str:
        try:
            return self.admin("-getServiceState", identity).strip()
        except ClusterError:
            return ""  # its admin service is not up yet

    def _start(self, identity: str) -> None:
        folder = self.folder / identity
        folder.mkdir(exist_ok=True)
        (folder / "log4j.properties").write_text(LOG4J)
        (folder / "hadoop-metrics2.properties").write_text(METRICS)
        entries = read_site(self.layout.conf / "yarn-site.xml")
        write_site(folder / "yarn-site.xml", {**entries, "yarn.resourcemanager.ha.id": identity})
        logs = self.layout.logs
        options = (f"-Dtreadle.log.file={logs}/{identity}.log", f"-Dtreadle.audit.file={self.layout.audit_log}")
        classpath = (str(folder), str(self.layout.conf), str(shim_jar()), str(requirements_jar()), f"{self.lib}/*")
        self._launch(JavaProgram(identity, RM_MAIN, classpath, 512, options), folder)
