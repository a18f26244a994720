"""Mini clusters for tests: two nodes, two queues, and a sidecar that can be made to misbehave."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.cli import printed_json
from tests.support.distributed_shell import node_environment
from tests.support.files import written

from treadle_lab.minicluster.cluster import ADMIN_MAIN, MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

LEASE_MS = 4000
"""Above the default: a mini cluster on two busy cores shares them with some ten JVMs."""

QUEUES = """<configuration>
  <property><name>yarn.scheduler.capacity.root.queues</name><value>default,batch</value></property>
  <property><name>yarn.scheduler.capacity.root.default.capacity</name><value>50</value></property>
  <property><name>yarn.scheduler.capacity.root.default.maximum-capacity</name><value>100</value></property>
  <property><name>yarn.scheduler.capacity.root.default.user-limit-factor</name><value>2</value></property>
  <property><name>yarn.scheduler.capacity.root.batch.capacity</name><value>50</value></property>
  <property><name>yarn.scheduler.capacity.root.batch.maximum-capacity</name><value>100</value></property>
  <property><name>yarn.scheduler.capacity.root.batch.user-limit-factor</name><value>2</value></property>
  <property><name>yarn.scheduler.capacity.maximum-am-resource-percent</name><value>0.5</value></property>
</configuration>
"""


def for_shell_jobs(folder: Path) -> dict[str, str]:
    """Return what a cluster in a folder has in yarn-site.xml for jobs of the distributed shell."""
    return {"yarn.nodemanager.admin-env": node_environment(str(folder.resolve()))}


def engines_cluster(folder: Path, settings: ClusterSettings, roster: str, queues: str = QUEUES) -> MiniCluster:
    """Return a cluster, not yet started, of several engines.

    Args:
        folder: where its files lie.
        settings: all others.
        roster: the text of its treadle.yaml.
        queues: the text of its capacity-scheduler.xml.
    """
    folder.mkdir(parents=True, exist_ok=True)
    overrides = {
        # so long that a busy machine costs no engine its lease; that of one that was killed ends with its connection
        "yarn.scheduler.treadle.lease-ms": "30000",
        "yarn.scheduler.treadle.starvation-ms": "0",
        **for_shell_jobs(folder / "cluster"),
        **settings.overrides,
    }
    policy, leaves = written(folder / "treadle.yaml", roster), written(folder / "queues.xml", queues)
    return MiniCluster(replace(settings, policy=policy, queues=leaves, overrides=overrides), folder / "cluster")


def write_yarn(cluster: MiniCluster, folder: Path) -> None:
    """Write a `yarn rmadmin` of a cluster into a folder, which `as_administrator` has on its path."""
    variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in cluster.environment().items())
    script = f'#!/bin/sh\nshift\nexec env {variables} {shlex.join(cluster.java(ADMIN_MAIN))} "$@"\n'
    written(folder / "yarn", script).chmod(0o755)


def as_administrator(cluster: MiniCluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Treadle's in a folder, as an administrator on the ResourceManager's host does."""
    environment = {**os.environ, "TREADLE_RM": cluster.rm.url, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "treadle", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


def explain(cluster: MiniCluster, application: str) -> dict[str, Any]:
    """Return what `treadle explain -o json` prints."""
    code, document = printed_json("explain", application, "--rm", cluster.layout.rm_url)
    assert code in (0, 1)
    return document


class FaultyCluster(MiniCluster):
    """A mini cluster whose sidecar can be made to misbehave."""

    _has_shown_faults = False

    def show_fault(self, fault: str) -> None:
        """Let the sidecar show a fault of `tests.support.faulty_sidecar.Fault` from its next answer on."""
        self.fault_file.write_text(fault)
        self._has_shown_faults = True

    def heal(self) -> None:
        """Let the sidecar work again."""
        self.fault_file.unlink(missing_ok=True)

    def forget_faults(self) -> bool:
        """Was a fault shown since this was asked last?"""
        shown, self._has_shown_faults = self._has_shown_faults, False
        return shown

    @property
    def fault_file(self) -> Path:
        """The file that the sidecar looks at."""
        return self.folder.parent / "fault"


def faulty_cluster(folder: Path, **settings: object) -> FaultyCluster:
    """A cluster, not yet started, of two nodes with the sidecar of `tests/support/faulty_sidecar.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    queues = written(folder / "capacity-scheduler.xml", QUEUES)
    root = Path(__file__).parents[2]
    command = folder / "treadle-with-faults"
    command.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH="{root}:{root}/python" '
        f'exec "{sys.executable}" -m tests.support.faulty_sidecar "{folder}/fault" "$@"\n'
    )
    command.chmod(0o755)
    overrides = {
        "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
        "yarn.scheduler.treadle.python.command": str(command),
        "yarn.nm.liveness-monitor.expiry-interval-ms": "10000",
        **for_shell_jobs(folder / "cluster"),
    }
    given = {"nodes": 2, "memory_mb": 4096, "queues": queues, "recovery": True, "overrides": overrides, **settings}
    return FaultyCluster(ClusterSettings(**given), folder / "cluster")  # type: ignore[arg-type]
