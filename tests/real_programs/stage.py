"""The mini cluster of one part: starts, restarts, the books, and the last looks before it stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import requests
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import Application
from tests.support import distributed_shell as jobs
from tests.support.accounts import wait_adds_up
from tests.support.clusters import QUEUES, for_shell_jobs
from tests.support.files import written
from tests.support.usage import ReportedUsage

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterError, ClusterSettings, NodeAttribute, build_folder

LEASE_MS = 30_000
"""Far above any pause of a busy machine: the stock scheduler places nothing while an engine lives."""

MEMORY_MB = 4096
"""Of each node. A multiple of what `Stage.fill` gives each container."""

SHOWN = ("Proposals", "Committed", "Rejected", "PlacedByCapacityScheduler", "Lease", "tag.")
"""Counters and texts of Treadle's bean that are shown after a failure."""

FILL_MB = 1024
WAIT_S = 240.0

OVERRIDES = {
    "yarn.resourcemanager.am.max-attempts": "10",
    "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
    "yarn.resourcemanager.placement-constraints.handler": "scheduler",
}

STOCK_PENDING = ": pending is "
"""The stock scheduler never subtracts a SchedulingRequest from the `pending` of its queue. The cluster's own
`pendingMB` and `containersPending` are right, and are compared in any case."""


def folder_of(name: str) -> Path:
    """Return the folder of a part; its cluster's logs stay there until the part runs again."""
    path = build_folder() / "real-programs" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def cluster_of(
    name: str,
    *,
    nodes: int = 3,
    named: bool = False,
    overrides: Mapping[str, str] | None = None,
) -> MiniCluster:
    """Return a cluster for a part, not yet started: Treadle enforces, the RM recovers.

    Args:
        name: the part.
        nodes: how many NodeManagers.
        named: give each node a host name, by which an administrator excludes it.
        overrides: further entries of yarn-site.xml.
    """
    folder = folder_of(name)
    queues = written(folder / "queues.xml", QUEUES)
    settings = ClusterSettings(
        nodes=nodes,
        memory_mb=MEMORY_MB,
        vcores=16,
        queues=queues,
        recovery=True,
        attributes=(NodeAttribute("named", "yes", tuple(range(1, nodes + 1))),) if named else (),
        overrides={**OVERRIDES, **for_shell_jobs(folder / "cluster"), **(overrides or {})},
        start_timeout_s=WAIT_S,
    )
    return MiniCluster(settings, folder / "cluster")


class Stage:
    """A running cluster and the account of the part that uses it."""

    def __init__(self, cluster: MiniCluster, account: Account) -> None:
        self.cluster = cluster
        self.account = account
        self._native_before = 0
        self.new_life()

    def new_life(self) -> None:
        """Begin to count on an RM whose engine has just got the lease."""
        self._native_before = int(self.cluster.rm.treadle()["PlacedByCapacityScheduler"])
        self.account.before_lease += self._native_before

    def end_life(self) -> None:
        """Add the counters of an RM that is about to end to the account.

        Raises:
            ProgramError: the counters show a fault of Treadle.
        """
        if found := self._count():
            raise ProgramError("; ".join(found))

    def broken_off(self) -> None:
        """Count what can be counted after a failure, and show it."""
        try:
            found = self._count()
            bean = self.cluster.rm.treadle()
            shown = {name: value for name, value in bean.items() if value and name.startswith(SHOWN)}
            found += [str(shown), f"{self.cluster.rm.metrics()['containersPending']} containers are pending"]
        except requests.RequestException as error:
            found = [f"the RM does not answer: {error}"]
        self.account.say(f"failed; {'; '.join(found)}")

    def _count(self) -> list[str]:
        bean = self.cluster.rm.treadle()
        self.account.treadle += int(bean["Committed"])
        native = int(bean["PlacedByCapacityScheduler"]) - self._native_before
        self.account.native += native
        faults = {
            "CaughtExceptions": bean["CaughtExceptions"],
            "RejectedInternalError": bean.get("RejectedInternalError", 0),
        }
        found = [f"{name} is {count}" for name, count in faults.items() if count]
        if native:
            found.append(f"the stock scheduler placed {native} containers though an engine held the lease")
        return found

    def kill_rm(self) -> None:
        """SIGKILL to the RM, and start it again; returns when all nodes are back and an engine holds the lease."""
        self.end_life()
        self.cluster.finish("rm")
        self.cluster.start_rm()
        self.cluster.wait_ready()
        self.new_life()

    def compare(self, event: str) -> None:
        """Compare the books after an event: containers = node, queue, user, application, cluster metrics.

        Raises:
            ProgramError: a difference stays.
        """
        self.account.say(f"comparing the books: {event}")
        try:
            wait_adds_up(self.cluster)
        except ClusterError as error:
            raise ProgramError(f"books after {event}: {error}") from error
        self.account.compared.append(event)

    def companion(self, queue: str = "default") -> Application:
        """Start an application of the same user in a queue, which runs until it is killed.

        When the only application of a user in a leaf loses its master, the stock scheduler forgets the user, and with
        it what the kept containers of the application use.
        """
        sleeper = jobs.submit(self.cluster, queue, "companion", {}, 1, "sleep 86400")
        sleeper.wait_running(self.cluster)
        return Application(self.cluster, sleeper.application_id)

    def finish(self, ignoring: str = "") -> None:
        """Look whether an idle cluster is empty, and whether all of it can be used again.

        Args:
            ignoring: leftovers with this text are the stock scheduler's.

        Raises:
            ProgramError: something is left, or the engine does not use a part of the cluster.
        """
        self._idle(ignoring)
        self.account.compared.append("idle")
        self._fill()
        self._idle(ignoring)
        self.end_life()

    def _idle(self, ignoring: str) -> None:
        self.account.say("waiting until the cluster is idle")
        left: list[str] = []

        def empty() -> bool:
            left[:] = [text for text in ReportedUsage(self.cluster).leftovers() if not ignoring or ignoring not in text]
            return not left

        try:
            self.cluster.wait_for("empty cluster", empty, WAIT_S)
        except ClusterError as error:
            raise ProgramError(f"leftovers in the idle cluster: {'; '.join(left)}") from error

    def _fill(self) -> None:
        """Have an application fill all nodes: the engine would leave room where it sees containers that have ended."""
        room = sum(int(node["availMemoryMB"]) for node in self.cluster.rm.nodes() if node["state"] == "RUNNING")
        containers = room // FILL_MB
        self.account.say(f"filling the cluster with {containers} containers")
        more = jobs.More(master_mb=FILL_MB)
        sleeper = jobs.submit(
            self.cluster, "default", "fill", {}, containers - 1, "sleep 86400", memory_mb=FILL_MB, more=more
        )
        sleeper.wait_running(self.cluster)
        filling = Application(self.cluster, sleeper.application_id)
        try:
            filling.wait_live(containers)
        except ClusterError as error:
            placed = len(filling.live())
            raise ProgramError(f"only {placed} of {containers} containers fill the empty cluster: {error}") from error
        self.compare("filled")
        filling.kill()


@contextmanager
def stage(account: Account, cluster: MiniCluster, ignoring: str = "") -> Iterator[Stage]:
    """Start a cluster, and stop it with all of its processes; a part that comes to its end is followed by `finish`."""
    account.say("starting the cluster")
    with cluster:
        running = Stage(cluster, account)
        try:
            yield running
            running.finish(ignoring)
        except Exception:
            running.broken_off()
            raise
