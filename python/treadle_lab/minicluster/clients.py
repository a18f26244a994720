"""Client programs of a mini cluster: a `yarn` of its own, for which no distribution of Hadoop is needed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from treadle.files import write_whole
from treadle_lab.minicluster.layout import Layout

_CLI: Final = "org.apache.hadoop.yarn.client.cli"
_COMMANDS: Final = {
    "rmadmin": (f"{_CLI}.RMAdminCLI",),
    "application": (f"{_CLI}.ApplicationCLI", "application"),
    "app": (f"{_CLI}.ApplicationCLI", "app"),
    "applicationattempt": (f"{_CLI}.ApplicationCLI", "applicationattempt"),
    "container": (f"{_CLI}.ApplicationCLI", "container"),
    "node": (f"{_CLI}.NodeCLI",),
    "queue": (f"{_CLI}.QueueCLI",),
    "cluster": (f"{_CLI}.ClusterCLI",),
    "nodeattributes": (f"{_CLI}.NodeAttributesCLI",),
    "logs": (f"{_CLI}.LogsCLI",),
    "jar": ("org.apache.hadoop.util.RunJar",),
    "classpath": ("org.apache.hadoop.util.Classpath", "--glob"),
}
"""For each command of `yarn` the class that does it, and what its arguments begin with."""

SLEEP_JOB: Final = "org.apache.hadoop.mapreduce.SleepJob"


class RunningCluster(Protocol):
    """What clients need of a cluster; `treadle_lab.minicluster.MiniCluster` is one."""

    @property
    def layout(self) -> Layout:
        """Folders and addresses."""

    def environment(self) -> dict[str, str]:
        """Return the environment in which clients find the cluster."""

    def java(self, main: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        """Return the command line of a Java client program."""


def client_environment(cluster: RunningCluster) -> dict[str, str]:
    """Return the environment of a user's command: the cluster's `yarn` comes first, `treadle` finds its pages."""
    environment = cluster.environment()
    path = environment.get("PATH") or os.defpath
    return environment | {"PATH": f"{write_yarn(cluster)}{os.pathsep}{path}", "TREADLE_RM": cluster.layout.rm_url}


def write_yarn(cluster: RunningCluster) -> Path:
    """Write the cluster's `yarn`; returns the folder that it is in."""
    folder = cluster.layout.folder / "bin"
    folder.mkdir(exist_ok=True)
    write_whole(folder / "yarn", _script(cluster), lambda file: os.fchmod(file, 0o755))
    return folder


def sleep_job(cluster: RunningCluster, queue: str, maps: int, reduces: int, task_ms: int) -> list[str]:
    """Return the command line of a MapReduce job whose tasks sleep."""
    shape = ("-m", str(maps), "-r", str(reduces), "-mt", str(task_ms), "-rt", str(task_ms))
    return cluster.java(SLEEP_JOB, f"-Dmapreduce.job.queuename={queue}", *shape)


def _script(cluster: RunningCluster) -> str:
    known = " ".join(_COMMANDS)
    lines = [
        "#!/bin/sh",
        f"# The `yarn` of the mini cluster in {cluster.layout.folder}.",
        "name=$1",
        "[ $# -eq 0 ] || shift",
        'case "$name" in',
        *(f'  {name}) exec {_line(cluster.java(*call))} "$@" ;;' for name, call in _COMMANDS.items()),
        f'  *) echo "yarn $name: the mini cluster has none; it has {known}" >&2; exit 2 ;;',
        "esac",
    ]
    return "\n".join([*lines, ""])


def _line(command: Sequence[str]) -> str:
    return shlex.join(command)
