from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.optional import present
from tests.support.other_users import listens

from treadle_lab.minicluster import ClusterSettings, MiniCluster, Scheduler, processes
from treadle_lab.minicluster.site import Layout

pytestmark = pytest.mark.cluster

SLEEP_JOB = "org.apache.hadoop.mapreduce.SleepJob"
COMMAND = [sys.executable, "-m", "treadle", "minicluster"]


@pytest.fixture
def cluster_folder(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


def sleep_job(cluster: MiniCluster, *arguments: str) -> list[str]:
    return cluster.java(SLEEP_JOB, *arguments)


def treadle(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=240)


def pids(layout: Layout) -> set[int]:
    return {process.pid for process in processes.members(layout)}


def left_running(folder: Path) -> list[str]:
    layout = Layout(folder.resolve(), [], [])
    return [process.name() for process in processes.members(layout)]


def test_a_cluster_is_started_shown_and_stopped(cluster_folder: Path) -> None:
    place = ("--folder", str(cluster_folder))
    started = treadle("start", *place, "--nodes", "1", "--scheduler", "capacity")
    try:
        assert started.returncode == 0, started.stderr
        assert started.stdout.strip() == f"export HADOOP_CONF_DIR={cluster_folder}/conf"
        assert "any local user can run commands as" in started.stderr
        again = treadle("start", *place, "--nodes", "1", "--scheduler", "capacity")
        assert (again.returncode, "stop it first" in again.stderr) == (2, True)
        shown = json.loads(treadle("status", *place, "--output=json").stdout)
        assert (shown["ready"], sorted(shown["pids"])) == (True, ["nm1", "rm"])
        layout = present(Layout.load(cluster_folder))
        assert set(layout.nm_ports[0]) <= set(listens(pids(layout), layout.nm_ports[0]))
    finally:
        stopped = treadle("stop", *place)
    assert stopped.returncode == 0
    assert left_running(cluster_folder) == []
    assert "no cluster is running" in treadle("status", *place).stderr


def test_another_user_cannot_reach_an_isolated_cluster_and_its_owner_can(cluster_folder: Path) -> None:
    place = ("--folder", str(cluster_folder))
    started = treadle("start", *place, "--nodes", "1", "--scheduler", "capacity", "--isolated")
    try:
        assert started.returncode == 0, started.stderr
        assert (started.stdout, "any local user" in started.stderr) == ("", False)
        layout = present(Layout.load(cluster_folder))
        ports = [*layout.rm_ports, *layout.nm_ports[0]]
        assert listens(pids(layout), ports) == []
        shown = json.loads(treadle("status", *place, "--output=json").stdout)
        assert (shown["ready"], sorted(shown["pids"])) == (True, ["nm1", "rm"])
        look = "import os, urllib.request as r; print(r.urlopen(os.environ['TREADLE_RM'] + '/ws/v1/cluster').status)"
        assert treadle("exec", *place, "--", sys.executable, "-c", look).stdout == "200\n"
        assert treadle("restart-rm", *place).returncode == 0
        assert json.loads(treadle("status", *place, "--output=json").stdout)["ready"]
    finally:
        treadle("stop", *place)
    assert left_running(cluster_folder) == []


@pytest.mark.slow
def test_a_cluster_that_runs_gets_commands_a_job_and_another_rm(cluster_folder: Path) -> None:
    place = ("--folder", str(cluster_folder))
    started = treadle("start", *place, "--nodes", "1", "--scheduler", "capacity")
    try:
        assert started.returncode == 0, started.stderr
        shown = json.loads(treadle("status", *place, "--output=json").stdout)
        nodes = treadle("exec", *place, "--", "yarn", "node", "-list")
        assert (nodes.returncode, "RUNNING" in nodes.stdout) == (0, True), nodes.stdout + nodes.stderr
        restarted = treadle("restart-rm", *place)
        assert restarted.returncode == 0, restarted.stderr
        after = json.loads(treadle("status", *place, "--output=json").stdout)
        assert after["ready"]
        assert after["pids"]["rm"] != shown["pids"]["rm"]
        assert after["pids"]["nm1"] == shown["pids"]["nm1"]
        job = treadle("job", *place, "--maps", "1", "--task-ms", "10")
        assert job.returncode == 0, job.stdout + job.stderr
    finally:
        treadle("stop", *place)


@pytest.mark.slow
def test_run_exits_as_its_command_does_and_leaves_nothing(cluster_folder: Path) -> None:
    script = 'test -f "$HADOOP_CONF_DIR/yarn-site.xml" && exit 7'
    options = ("--folder", str(cluster_folder), "--nodes", "1", "--scheduler", "capacity")
    done = treadle("run", *options, "--", "bash", "-c", script)
    assert done.returncode == 7, done.stderr
    assert left_running(cluster_folder) == []


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_leaves_nothing(cluster_folder: Path, number: signal.Signals) -> None:
    """A command in the foreground is interrupted while it runs, as by Ctrl-C."""
    # A shell has what it starts in the background ignore SIGINT, these tests too, and the command would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = ["run", "--folder", str(cluster_folder), "--nodes", "1", "--scheduler", "capacity"]
    script = "echo running; exec cat"
    with subprocess.Popen(
        [*COMMAND, *options, "--", "bash", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        os.killpg(child.pid, number) if number == signal.SIGINT else child.send_signal(number)
        assert child.wait(timeout=60) != 0
    assert left_running(cluster_folder) == []


@pytest.mark.slow
def test_a_restarted_rm_goes_on_with_its_job(cluster_folder: Path) -> None:
    settings = ClusterSettings(nodes=1, scheduler=Scheduler.CAPACITY, recovery=True)
    with MiniCluster(settings, cluster_folder) as cluster:
        client = cluster.submit(
            sleep_job(cluster, "-m", "2", "-r", "0", "-mt", "8000"), cluster.layout.logs / "job.log"
        )
        cluster.wait_for("running map", lambda: any(len(ids) > 1 for ids in cluster.containers().values()), 120)
        cluster.restart_rm(kill=True)
        assert client.wait(timeout=180) == 0
        assert [application["finalStatus"] for application in cluster.rm.applications()] == ["SUCCEEDED"]
    assert left_running(cluster_folder) == []


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
@pytest.mark.slow
def test_every_container_of_an_unmodified_job_is_placed_by_treadle(cluster_folder: Path) -> None:
    settings = ClusterSettings(nodes=2, overrides={"yarn.scheduler.treadle.lease-ms": "6000"})
    with MiniCluster(settings, cluster_folder) as cluster:
        command = sleep_job(cluster, "-m", "4", "-r", "1", "-mt", "200", "-rt", "200")
        assert cluster.submit(command, cluster.layout.logs / "job.log").wait(timeout=240) == 0
        (application,) = cluster.rm.applications()
        containers = len(cluster.containers()[application["id"]])
        assert containers >= 6
        placed = cluster.wait_for("placements", lambda: cluster.rm.placements().get(application["id"]))
        assert placed == {"treadle": containers, "native": 0}
        assert cluster.sidecar_pid() != cluster.process("rm").pid
    assert left_running(cluster_folder) == []
