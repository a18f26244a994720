"""Commands for a mini cluster that runs already: a user's own, a job, another ResourceManager."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.cli import Cli

from treadle.admin.site_files import OWN_SITE, own_site, read_site, with_include
from treadle.cli.main import run
from treadle_lab.minicluster import MiniCluster
from treadle_lab.minicluster import cluster as clusters
from treadle_lab.minicluster.processes import uninterrupted
from treadle_lab.minicluster.settings import SHIM_CLASS, STOCK_CLASS, ClusterError
from treadle_lab.minicluster.site import Layout, write_site


@dataclass
class Running:
    """In place of a running cluster: its Java programs are `echo`, and what is done to it is written down."""

    folder: Path
    done: list[str] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        return Layout(self.folder, [1, 2, 3, 4, 5], [])

    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HADOOP_CONF_DIR": f"{self.folder}/conf"}

    def java(self, main: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        return ["echo", f"java {main}", *arguments]

    def restart_rm(self, kill: bool = False) -> None:
        self.done.append("killed" if kill else "stopped")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    running = Running(tmp_path)
    monkeypatch.setattr(MiniCluster, "attach", classmethod(lambda _, folder: running if folder == tmp_path else None))
    return running


def test_exec_runs_a_command_with_the_clusters_yarn(cluster: Running, capfd: pytest.CaptureFixture[str]) -> None:
    script = 'yarn rmadmin -refreshQueues && yarn application -list && echo "$TREADLE_RM $HADOOP_CONF_DIR" && exit 7'
    assert run(["minicluster", "exec", "--folder", str(cluster.folder), "--", "sh", "-c", script]) == 7
    lines = capfd.readouterr().out.splitlines()
    client = "java org.apache.hadoop.yarn.client.cli"
    assert lines == [
        f"{client}.RMAdminCLI -refreshQueues",
        f"{client}.ApplicationCLI application -list",
        f"{cluster.layout.rm_url} {cluster.folder}/conf",
    ]


def test_a_yarn_command_that_there_is_not_names_those_that_there_are(
    cluster: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["minicluster", "exec", "--folder", str(cluster.folder), "--", "yarn", "nodemanager"]) == 2
    said = capfd.readouterr().err
    assert "yarn nodemanager" in said
    assert "rmadmin" in said


@pytest.mark.parametrize(
    ("command", "name"), [("classpath", "util.Classpath --glob"), ("nodeattributes", "NodeAttributesCLI")]
)
def test_what_the_docs_ask_of_yarn_is_there(
    command: str, name: str, cluster: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["minicluster", "exec", "--folder", str(cluster.folder), "--", "yarn", command]) == 0
    assert name in capfd.readouterr().out


def test_exec_of_a_command_that_is_not_there_is_a_mistake(cluster: Running, cli: Cli) -> None:
    said = cli(["minicluster", "exec", "--folder", str(cluster.folder), "--", "no-such-command"], 2).err
    assert "no-such-command: No such file" in said


def test_a_job_is_run_and_its_exit_code_is_the_commands(cluster: Running, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["minicluster", "job", "--folder", str(cluster.folder), "--maps", "3", "--task-ms", "20", "--queue", "b"]
    assert run([*words, "--memory-mb", "2048", "--tag", "treadle:require=gpu=yes", "--tag", "b"]) == 0
    memory = "-Dmapreduce.map.memory.mb=2048 -Dmapreduce.reduce.memory.mb=2048"
    options = f"-Dmapreduce.job.queuename=b {memory} -Dmapreduce.job.tags=treadle:require=gpu=yes,b"
    assert f"java org.apache.hadoop.mapreduce.SleepJob {options} -m 3 -r 0 -mt 20 -rt 20" in capfd.readouterr().out


@pytest.mark.parametrize(("more", "how"), [([], "stopped"), (["--kill"], "killed")])
def test_the_resource_manager_is_restarted(cluster: Running, more: list[str], how: str) -> None:
    assert run(["minicluster", "restart-rm", "--folder", str(cluster.folder), *more]) == 0
    assert cluster.done == [how]


@pytest.mark.parametrize("command", [["exec", "--", "true"], ["job"], ["restart-rm"]])
def test_without_a_cluster_each_says_how_to_start_one(command: list[str], tmp_path: Path, cli: Cli) -> None:
    name, *rest = command
    assert "treadle minicluster start" in cli(["minicluster", name, "--folder", str(tmp_path), *rest], 2).err


def test_the_yarn_of_exec_is_the_clusters_own(cluster: Running) -> None:
    run(["minicluster", "exec", "--folder", str(cluster.folder), "--", "true"])
    script = cluster.folder / "bin" / "yarn"
    assert script.stat().st_mode & 0o777 == 0o755
    done = subprocess.run([script], capture_output=True, text=True)
    assert done.returncode == 2
    assert "rmadmin" in done.stderr


def test_the_folder_may_be_named_by_the_environment(
    cluster: Running, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_MINICLUSTER_FOLDER", str(cluster.folder))
    assert run(["minicluster", "exec", "--", "echo", "there"]) == 0
    assert capfd.readouterr().out == "there\n"


def test_what_is_started_while_signals_are_ignored_heeds_them() -> None:
    """A JVM that inherits an ignored SIGTERM never ends by one."""
    words = "import signal; print([signal.getsignal(n) == signal.SIG_IGN for n in (signal.SIGTERM, signal.SIGHUP)])"
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        child = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert child.stdout == "[False, False]\n"


def test_the_class_path_is_what_yarn_env_makes_of_it(tmp_path: Path) -> None:
    assert clusters.class_path(tmp_path) == []
    script = tmp_path / "yarn-env.sh"
    script.write_text(
        '[ "${HADOOP_USER_PARAMS[0]}" != resourcemanager ] || export HADOOP_CLASSPATH="/a b.jar:/c.jar"\n'
    )
    assert clusters.class_path(tmp_path) == ["/a b.jar", "/c.jar"]
    script.write_text("echo it is broken >&2; exit 3\n")
    with pytest.raises(ClusterError, match="it is broken"):
        clusters.class_path(tmp_path)


@pytest.mark.parametrize(
    ("name", "mode", "waits"),
    [(STOCK_CLASS, "", False), (SHIM_CLASS, "", True), (SHIM_CLASS, "enforce", True), (SHIM_CLASS, "off", False)],
)
def test_a_cluster_that_was_installed_into_waits_for_the_engine(
    tmp_path: Path, name: str, mode: str, waits: bool
) -> None:
    entries = {"yarn.resourcemanager.scheduler.class": name} | ({"yarn.scheduler.treadle.mode": mode} if mode else {})
    write_site(tmp_path / "yarn-site.xml", entries)
    assert clusters.schedules(tmp_path) is waits
    (tmp_path / OWN_SITE).write_bytes(own_site(entries))
    write_site(tmp_path / "yarn-site.xml", {"yarn.resourcemanager.scheduler.class": STOCK_CLASS})
    (tmp_path / "yarn-site.xml").write_bytes(with_include(read_site(tmp_path / "yarn-site.xml")))
    assert clusters.schedules(tmp_path) is waits


@pytest.mark.parametrize(
    ("bean", "missing"),
    [
        ({"Mode": "enforce", "LeaseHeld": 0}, "waiting for the engine to hold the lease"),
        ({"Mode": "enforce", "LeaseHeld": 1}, None),
        ({"Mode": "off", "LeaseHeld": 0}, None),
        (
            {"Mode": "off", "LeaseHeld": 0, "LastError": "lease-ms is x"},
            "waiting for the engine to hold the lease (lease-ms is x)",
        ),
    ],
)
def test_no_engine_is_waited_for_once_somebody_has_switched_it_off(bean: dict[str, Any], missing: str | None) -> None:
    rm = SimpleNamespace(nodes=lambda: [{"state": "RUNNING"}], treadle=lambda: bean)
    cluster: Any = SimpleNamespace(rm=rm, layout=SimpleNamespace(nm_ports=[1], waits_for_lease=True))
    assert clusters.missing(cluster) == missing
