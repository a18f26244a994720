"""When a cluster is ready."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import requests

from treadle.yarn.rest import ResourceManagerClient
from treadle.yarn.web import why_refused
from treadle_lab.minicluster.layout import Layout
from treadle_lab.minicluster.settings import ClusterError, ClusterSettings, Scheduler


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float, poll_s: float, more: str = "") -> Any:
    """Wait until `condition` gives something true, and return that; an RM that does not answer counts as not yet.

    Args:
        what: what is waited for, in words
        condition: looks whether it is there
        timeout_s: when the wait ends
        poll_s: how long to wait between two looks
        more: what the error says beside that

    Raises:
        ClusterError: it did not within the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            value = condition()
        except requests.RequestException:
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            raise ClusterError(f"no {what} within {timeout_s:g} s{more}")
        time.sleep(poll_s)


POLL_S = 0.1
_CLUSTER = "/ws/v1/cluster/"
ATTRIBUTES_MAIN = "org.apache.hadoop.yarn.client.cli.NodeAttributesCLI"


class StartingCluster(Protocol):
    """What is asked of a cluster that starts."""

    settings: ClusterSettings

    @property
    def layout(self) -> Layout:
        """Its folder, ports and processes."""

    @property
    def rm(self) -> ResourceManagerClient:
        """A client of its ResourceManager."""

    def died(self) -> str:
        """Return the name of a daemon that should run and does not, or the empty string."""

    def environment(self) -> dict[str, str]:
        """Return the environment of its clients."""

    def java(self, main: str, *arguments: str) -> list[str]:
        """Return the command line of a Java client program."""

    def wait_for(self, what: str, condition: Callable[[], Any]) -> Any:
        """Wait until a condition gives something true."""


def wait_ready(cluster: StartingCluster, say: Callable[[str], None]) -> None:
    """Wait until every NodeManager is RUNNING and, where Treadle enforces, an engine holds the lease.

    Raises:
        ClusterError: a daemon ended, or `start_timeout_s` passed.
    """
    timeout_s = cluster.settings.start_timeout_s
    deadline = time.monotonic() + timeout_s
    while (reason := missing(cluster)) is not None:
        say(reason)
        dead = cluster.died()
        if dead:
            raise ClusterError(f"{dead} ended before the cluster was ready:\n{_reason(cluster.layout, dead)}")
        if time.monotonic() > deadline:
            raise ClusterError(f"not ready after {timeout_s:g} s: {reason}; logs are in {cluster.layout.logs}")
        time.sleep(POLL_S)


def missing(cluster: StartingCluster) -> str | None:
    """Say what the cluster still waits for; None if it is ready."""
    try:
        states = [node["state"] for node in cluster.rm.nodes()]
        running = states.count("RUNNING")
        nodes = len(cluster.layout.nm_ports)
        if running < nodes:
            return f"waiting for NodeManagers: {running} of {nodes} are running"
        if cluster.layout.waits_for_lease:
            bean = cluster.rm.treadle()
            if bean.get("LeaseHeld") != 1:
                trouble = bean.get("Refusal") or bean.get("LastError")
                if bean.get("Mode") == "off" and not trouble:
                    return None  # somebody has switched it off: no engine will come
                return "waiting for the engine to hold the lease" + (f" ({trouble})" if trouble else "")
    except requests.HTTPError as error:
        return f"waiting for the ResourceManager ({why_refused(error.response)})"
    except requests.RequestException:
        return "waiting for the ResourceManager"
    return None


def _reason(layout: Layout, name: str) -> str:
    """Return the last lines of a daemon's output that say why it ended."""
    lines = _tail(layout.logs / f"{name}.out") + _tail(layout.logs / f"{name}.log")
    marked = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return "\n".join((marked or lines)[:5]) + f"\n(all of it: {layout.logs}/{name}.log)"


def _tail(file: Path, size: int = 50_000) -> list[str]:
    return file.read_text(errors="replace")[-size:].splitlines() if file.is_file() else []


def put_labels(rm: ResourceManagerClient, layout: Layout, settings: ClusterSettings, user: str) -> None:
    """Make the cluster's node labels and put them on the nodes.

    Raises:
        ClusterError: the RM refused.
    """
    if not settings.labels:
        return
    kinds = [{"name": label.name, "exclusivity": label.exclusive} for label in settings.labels]
    pairs = [(layout.node_id(number), label.name) for label in settings.labels for number in label.nodes]
    try:
        rm.post(_CLUSTER + "add-node-labels", {"nodeLabelInfo": kinds}, user)
        for node, name in pairs:
            rm.post(f"{_CLUSTER}nodes/{node}/replace-labels?labels={name}", {}, user)
    except requests.RequestException as error:
        raise ClusterError(f"the RM refused the node labels: {error}") from error


def put_attributes(cluster: StartingCluster) -> None:
    """Give the cluster's nodes their attributes, and wait until the RM shows them.

    Raises:
        ClusterError: the RM refused, or they do not come.
    """
    layout, wanted = cluster.layout, Counter[str]()
    by_node: dict[int, list[str]] = {}
    for one in cluster.settings.attributes:
        for number in one.nodes:
            by_node.setdefault(number, []).append(f"{one.name}={one.value}")
            wanted[layout.node_host(number)] += 1
    if not by_node:
        return
    mapping = " ".join(f"{layout.node_host(number)}:{','.join(texts)}" for number, texts in sorted(by_node.items()))
    command = cluster.java(ATTRIBUTES_MAIN, "-replace", mapping)
    done = subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise ClusterError(f"the RM refused the node attributes: {done.stdout}{done.stderr}")

    def shown() -> bool:
        found = {node["nodeHostName"]: len(_attributes(node)) for node in cluster.rm.nodes()}
        return all(found.get(host) == count for host, count in wanted.items())

    cluster.wait_for("node with all its attributes", shown)


def _attributes(node: dict[str, Any]) -> list[Any]:
    return list((node.get("nodeAttributesInfo") or {}).get("nodeAttributeInfo") or [])


def with_scheduler(settings: ClusterSettings, scheduler: Scheduler) -> ClusterSettings:
    """Return the same cluster under another scheduler."""
    return dataclasses.replace(settings, scheduler=scheduler)
