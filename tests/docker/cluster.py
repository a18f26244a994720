"""A cluster of containers as a client in one of them sees it: ask it, submit to it, hurt it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
from docker.models.containers import Container

from treadle_lab.minicluster.cluster import ResourceManagerClient, allocated_containers, wait_for
from treadle_lab.minicluster.settings import ClusterError

PROJECT = os.environ.get("TREADLE_DOCKER_PROJECT", "")
WORKERS = ("worker-1", "worker-2", "worker-3")
START = "/usr/local/bin/treadle-start"
START_TIMEOUT_S = 480
JOB_TIMEOUT_S = 480
LOGS = Path("/var/lib/hadoop/clients")

NAMENODE = "http://namenode:9870"
HOME = "/user/hadoop"
SLEEP = "org.apache.hadoop.mapreduce.SleepJob"
ADMIN = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"


@dataclass
class Submitted:
    """A client that waits for its job."""

    cluster: DockerCluster
    tag: str
    client: subprocess.Popen[bytes]
    log: Path

    def application(self) -> dict[str, Any]:
        """Return what the RM says of the application; waits until it knows it."""

        def known() -> dict[str, Any] | None:
            if self.client.poll() not in (None, 0):
                raise AssertionError(f"the client of {self.tag} failed:\n{self.printed()[-3000:]}")
            found = self.cluster.rm.applications(applicationTags=self.tag)
            return found[0] if found else None

        return dict(self.cluster.wait_for(f"application of {self.tag}", known, 120))

    def printed(self) -> str:
        """Return what the client has printed."""
        return self.log.read_text("utf-8", "replace")

    def wait_for_application(self) -> dict[str, Any]:
        """Wait until the RM has the application's outcome; return the application."""
        identity = str(self.application()["id"])
        ended = self.cluster.wait_for(
            f"end of {self.tag}",
            lambda: (app := self.cluster.rm.application(identity))["finalStatus"] != "UNDEFINED" and app,
            JOB_TIMEOUT_S,
        )
        return dict(ended)

    def wait(self) -> dict[str, Any]:
        """Wait for the end of job and client; return the application, which has succeeded."""
        ended = self.wait_for_application()
        code = self.client.wait(JOB_TIMEOUT_S)
        assert (ended["finalStatus"], code) == ("SUCCEEDED", 0), f"{ended['diagnostics']}\n{self.printed()[-3000:]}"
        return ended

    def counter(self, name: str) -> int:
        """Return a MapReduce counter that the client printed; 0 if it is not there."""
        found = re.search(rf"^\s*{re.escape(name)}=(\d+)$", self.printed(), re.MULTILINE)
        return int(found[1]) if found else 0


class DockerCluster:
    """The containers of one Compose project; methods that wait raise `ClusterError` when their time is up."""

    workers: tuple[str, ...] = WORKERS
    managers: tuple[str, ...] = ("rm",)
    """The services that are ResourceManagers."""

    def __init__(self) -> None:
        self._docker = docker.from_env(timeout=120)
        self._clients = {service: ResourceManagerClient(f"http://{service}:8088") for service in self.managers}

    @property
    def rm(self) -> ResourceManagerClient:
        """The ResourceManager's pages."""
        return self._clients[self.managers[0]]

    # --- containers ---

    def container(self, service: str) -> Container:
        """Return the container of a service."""
        labels = [f"com.docker.compose.project={PROJECT}", f"com.docker.compose.service={service}"]
        found = self._docker.containers.list(all=True, filters={"label": labels})
        if len(found) != 1:
            raise ClusterError(f"{len(found)} containers of {service} instead of one")
        return found[0]

    def run_in(self, service: str, *command: str, user: str = "hadoop") -> str:
        """Run a command in a container and return what it printed."""
        code, output = self.container(service).exec_run(list(command), user=user)
        text = bytes(output).decode("utf-8", "replace")
        assert code == 0, f"{command} in {service}: exit code {code}\n{text[-2000:]}"
        return text

    def kill_inside(self, service: str) -> None:
        """Kill what runs in a container, which Compose may start anew; after `docker kill` it would not."""
        self.container(service).exec_run(["sh", "-c", "kill -9 -1"], user="hadoop")

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """Take a container off the network for as long as the context lasts."""
        container = self.container(service)
        ((name, settings),) = container.attrs["NetworkSettings"]["Networks"].items()
        network = self._docker.networks.get(name)
        network.disconnect(container)
        try:
            yield
        finally:
            network.connect(container, aliases=settings["Aliases"])

    # --- questions ---

    def containers(self) -> dict[str, set[str]]:
        """For each application the containers that the RM allocated to it, by its audit log."""
        log = LOGS / "rm.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"".join(self.container(service).logs() for service in self.managers))
        return allocated_containers(log)

    def placed_by_treadle(self, identity: str) -> tuple[int, int]:
        """Return how many containers an application had, and how many of them Treadle placed."""
        return len(self.containers()[identity]), self.rm.placements().get(identity, {}).get("treadle", 0)

    def running_nodes(self) -> list[str]:
        """Return the hosts of nodes that run, in order."""
        return sorted(str(node["nodeHostName"]) for node in self.rm.nodes() if node["state"] == "RUNNING")

    def has_lease(self) -> bool:
        """Does an engine hold the lease?"""
        return bool(self.rm.treadle().get("LeaseHeld") == 1)

    def has_data(self) -> bool:
        """Does HDFS have all its DataNodes, and may it be written to?"""
        beans = requests.get(
            f"{NAMENODE}/jmx", params={"qry": "Hadoop:service=NameNode,name=FSNamesystemState"}, timeout=10
        )
        state: dict[str, Any] = next(iter(beans.json()["beans"]), {})
        return (state.get("NumLiveDataNodes"), state.get("FSState")) == (len(self.workers), "Operational")

    def is_ready(self) -> bool:
        """Is the RM active, does every node run, does an engine hold the lease, and is HDFS there?"""
        return self.running_nodes() == list(self.workers) and self.has_lease() and self.has_data()

    def wait_ready(self) -> None:
        """Wait until `is_ready`."""
        self.wait_for("RM with all nodes, an engine that holds the lease, and HDFS", self.is_ready, START_TIMEOUT_S)

    def wait_for(self, what: str, condition: Callable[[], Any], timeout_s: float = 60.0, poll_s: float = 0.3) -> Any:
        """Wait until `condition` gives something true, and return that; no answer of the RM counts as not yet."""
        return wait_for(what, condition, timeout_s, poll_s)

    # --- jobs ---

    def submit(self, tag: str, *command: str) -> Submitted:
        """Run a client's command in the background."""
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{tag}.log"
        with log.open("wb") as out:
            client = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        return Submitted(self, tag, client, log)

    def map_reduce(self, tag: str, main: str, *arguments: str, queue: str = "default") -> Submitted:
        """Start a MapReduce job by its class."""
        settings = {"mapreduce.job.queuename": queue, "mapreduce.job.tags": tag, "mapreduce.map.speculative": "false"}
        options = [f"-D{key}={value}" for key, value in settings.items()]
        return self.submit(tag, START, "job", main, *options, *arguments)

    def call(self, *command: str) -> str:
        """Run a client's command and return what it printed."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=JOB_TIMEOUT_S)
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr[-3000:]}"
        return done.stdout

    # --- files in HDFS ---

    def put(self, source: Path, target: str) -> None:
        """Copy a file to a path in HDFS; its folders are made."""
        parameters = {"op": "CREATE", "overwrite": "true", "user.name": "hadoop"}
        asked = requests.put(f"{NAMENODE}/webhdfs/v1{target}", params=parameters, allow_redirects=False, timeout=60)
        asked.raise_for_status()
        requests.put(asked.headers["Location"], data=source.read_bytes(), timeout=60).raise_for_status()

    def read(self, path: str) -> str:
        """Return the text of a file in HDFS, or of all files in a folder."""
        listed = requests.get(f"{NAMENODE}/webhdfs/v1{path}", params={"op": "LISTSTATUS"}, timeout=60)
        listed.raise_for_status()
        found = [entry["pathSuffix"] for entry in listed.json()["FileStatuses"]["FileStatus"]]
        if found != [""]:
            return "".join(self.read(f"{path}/{name}") for name in found)
        text = requests.get(f"{NAMENODE}/webhdfs/v1{path}", params={"op": "OPEN"}, timeout=60)
        text.raise_for_status()
        return text.text

    # --- what an administrator does ---

    def set_entry(self, service: str, key: str, value: str) -> None:
        """Change an entry of yarn-site.xml in a container."""
        edit = f"\\#>{key}<#{{n;s#>[^<]*<#>{value}<#}}"
        self.run_in(service, "sed", "-i", edit, "/opt/hadoop/conf/yarn-site.xml", user="root")

    def set_mode(self, mode: str) -> None:
        """Change Treadle's mode as an administrator does: in yarn-site.xml, then `yarn rmadmin -refreshQueues`."""
        for service in self.managers:
            self.set_entry(service, "yarn.scheduler.treadle.mode", mode)
        self.call(START, "job", ADMIN, "-refreshQueues")
        self.wait_for(f"mode {mode}", lambda: self.has_mode(mode), 120)

    def has_mode(self, mode: str) -> bool:
        """Has Treadle a mode, and does it schedule if and only if that is `enforce`?"""
        seen = self.rm.treadle()
        return seen.get("Mode") == mode and (seen.get("Schedules") == 1) == (mode == "enforce")
