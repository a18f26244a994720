"""One application of a cluster: its containers, its master's end, its queue."""

from __future__ import annotations

import getpass
import re
import signal
from dataclasses import dataclass
from typing import Any

import psutil

from treadle_lab.minicluster import processes
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterError

WAIT_S = 240.0
_ENDED = {"FINISHED", "FAILED", "KILLED"}
_SHELLS = {"bash", "sh"}
_KEPT = re.compile(r"Skip killing (container_\w+)")


@dataclass(frozen=True)
class Live:
    """A live container."""

    id: str
    node: str
    memory_mb: int


@dataclass(frozen=True)
class Application:
    """An application that the RM knows."""

    cluster: MiniCluster
    id: str

    def info(self) -> dict[str, Any]:
        """Return the RM's page of it."""
        return self.cluster.rm.application(self.id)

    def attempts(self) -> list[dict[str, Any]]:
        """Return its attempts, the first one first; none of one that has just been submitted."""
        answer = self.cluster.rm.get(f"/ws/v1/cluster/apps/{self.id}/appattempts")
        found = (answer.get("appAttempts") or {}).get("appAttempt") or []
        return sorted(found, key=lambda attempt: int(attempt["id"]))

    def master(self) -> str:
        """Return the id of the container of its last attempt's master."""
        return str(self.attempts()[-1]["containerId"])

    def live(self) -> list[Live]:
        """Return its live containers, its master's included, in the order of their ids."""
        attempts = self.attempts()
        if not attempts:
            return []
        last = attempts[-1]["appAttemptId"]
        answer = self.cluster.rm.get(f"/ws/v1/cluster/apps/{self.id}/appattempts/{last}/containers")
        found = answer.get("container") or []
        listed = found if isinstance(found, list) else [found]
        made = (Live(each["containerId"], each["assignedNodeId"], int(each["allocatedMB"])) for each in listed)
        return sorted(made, key=lambda one: one.id)

    def workers(self) -> list[Live]:
        """Return its live containers without its master's."""
        master = self.master()
        return [container for container in self.live() if container.id != master]

    def wait_live(self, count: int) -> list[Live]:
        """Wait until it has exactly this many live containers, its master's included; returns them.

        Raises:
            ClusterError: it has not in time, or it ends.
        """

        def there() -> list[Live]:
            self.check_running()
            found = self.live()
            return found if len(found) == count else []

        return list(self.cluster.wait_for(f"{count} live containers of {self.id}", there, WAIT_S))

    def wait_programs(self) -> None:
        """Wait until the program of each live container runs: its master has taken what the RM gave.

        Raises:
            ClusterError: one does not run in time, or the application ends.
        """

        def all_run() -> bool:
            self.check_running()
            members = processes.members(self.cluster.layout)
            return all(any(_is_program(process, one.id) for process in members) for one in self.live())

        self.cluster.wait_for(f"programs of {self.id}", all_run, WAIT_S)

    def wait_running(self) -> None:
        """Wait until its master has registered.

        Raises:
            ClusterError: it does not in time, or the application ends.
        """
        self.cluster.wait_for(f"running master of {self.id}", lambda: self.check_running() == "RUNNING", WAIT_S)

    def wait_end(self, status: str = "SUCCEEDED") -> None:
        """Wait until it has ended.

        Raises:
            ClusterError: it does not in time, or it has another final status.
        """
        self.cluster.wait_for(f"end of {self.id}", lambda: self.info()["state"] in _ENDED, WAIT_S)
        info = self.info()
        if info["finalStatus"] != status:
            raise ClusterError(f"{self.id} ended as {info['finalStatus']}: {info['diagnostics'].strip()[:300]}")

    def check_running(self) -> str:
        """Return its state.

        Raises:
            ClusterError: it has ended.
        """
        info = self.info()
        if info["state"] in _ENDED:
            raise ClusterError(f"{self.id} ended as {info['finalStatus']}: {info['diagnostics'].strip()[:300]}")
        return str(info["state"])

    def kill_master(self) -> None:
        """SIGKILL to its master; returns when the next attempt's master has registered and has the kept containers.

        Raises:
            ClusterError: the RM kept none, or the next attempt lacks one that the RM kept.
        """
        before = len(self.attempts())
        log = self.cluster.layout.logs / "rm.log"
        read = log.stat().st_size
        self.kill_container(self.master())

        def is_next() -> bool:
            return self.check_running() == "RUNNING" and len(self.attempts()) > before

        self.cluster.wait_for(f"next attempt's master of {self.id}", is_next, WAIT_S)
        # the RM keeps those that it has seen run, and logs each
        kept = set(_KEPT.findall(log.read_bytes()[read:].decode(errors="replace")))
        missing = kept - {container.id for container in self.workers()}
        if missing or not kept:
            raise ClusterError(f"of {len(kept)} kept containers of {self.id} the next attempt lacks {sorted(missing)}")

    def kill_container(self, container: str) -> None:
        """SIGKILL to the program of a container as soon as it runs; its shells end by themselves.

        Raises:
            ClusterError: it does not run in time.
        """

        def programs() -> list[psutil.Process]:
            return [process for process in processes.members(self.cluster.layout) if _is_program(process, container)]

        for process in self.cluster.wait_for(f"program of {container}", programs, WAIT_S):
            process.send_signal(signal.SIGKILL)

    def move(self, queue: str) -> None:
        """Move it to another queue; returns when it is there."""
        self.cluster.rm.post(f"/ws/v1/cluster/apps/{self.id}/queue", {"queue": queue}, getpass.getuser(), "PUT")
        self.cluster.wait_for(
            f"move of {self.id} to {queue}", lambda: str(self.info()["queue"]).endswith(queue), WAIT_S
        )

    def kill(self) -> None:
        """End it with all its containers; returns when the RM shows its end."""
        self.cluster.rm.post(f"/ws/v1/cluster/apps/{self.id}/state", {"state": "KILLED"}, getpass.getuser(), "PUT")
        self.wait_end("KILLED")


def named(cluster: MiniCluster, name: str) -> Application:
    """Wait until the RM knows an application of a name.

    Raises:
        ClusterError: it does not in time.
    """

    def known() -> str:
        return next((str(app["id"]) for app in cluster.rm.applications() if app["name"] == name), "")

    return Application(cluster, str(cluster.wait_for(f"application named {name}", known, WAIT_S)))


def _is_program(process: psutil.Process, container: str) -> bool:
    """Say whether a process is the program of a container, and not one of the shells that started it."""
    try:
        return process.environ().get("CONTAINER_ID") == container and process.name() not in _SHELLS
    except (psutil.Error, OSError):
        return False
