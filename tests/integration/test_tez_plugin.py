"""Unmodified Tez jobs with the plug-in: they follow plans, and where there is none they run in natural order."""

from __future__ import annotations

import os
import signal
import socket
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support.accounts import wait_settled
from tests.support.jobs import Job, submitted

from treadle.history.store import open_store
from treadle.shipped import tez_jar
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings
from treadle_lab.minicluster.site import free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

JOIN = "org.apache.tez.examples.HashJoinExample"
SESSION = "org.apache.tez.examples.SimpleSessionExample"
SLEEP = "org.apache.tez.mapreduce.examples.MRRSleepJob"

WORDS = "the quick brown fox jumps over the lazy dog\n"


class TezCluster:
    """A mini cluster whose sidecar serves plans on another address than the ResourceManager's."""

    def __init__(self, cluster: MiniCluster, folder: Path, port: int) -> None:
        self.cluster = cluster
        self.folder = folder
        self.address = f"127.0.0.2:{port}"

    def start(
        self,
        tag: str,
        main: str,
        *arguments: str,
        jar: Path | None = None,
        address: str = "",
        wait_ms: str = "20000",
        settings: Mapping[str, str] | None = None,
    ) -> Job:
        """Start a job with the plug-in and wait until the ResourceManager knows it."""
        wanted = {
            "tez.application.tags": tag,
            "tez.am.dag.scheduler.class": "io.treadle.tez.TreadleDagScheduler",
            "tez.aux.uris": f"file://{jar or tez_jar()}",
            "treadle.plan.addresses": address or self.address,
            # machines that run tests are slow
            "treadle.plan.wait-ms": wait_ms,
            **(settings or {}),
        }
        options = [f"-D{key}={value}" for key, value in wanted.items()]
        return submitted(self.cluster, tag, self.cluster.java(main, *options, *arguments))

    def join(self, tag: str, jar: Path | None = None, address: str = "") -> Job:
        """Start a job of two vertices that feed a third."""
        large, small = self.folder / "large", self.folder / "small"
        return self.start(
            tag,
            JOIN,
            str(large),
            str(small),
            "2",
            str(self.folder / tag),
            jar=jar,
            address=address,
            wait_ms="1000" if address else "20000",
        )

    def master_log(self, job: Job) -> str:
        """What the application master of a job has logged."""
        files = self.cluster.folder.glob(f"**/containers/{job.application_id}/*_000001/*")
        return "".join(file.read_text("utf-8", "replace") for file in sorted(files) if file.is_file())


def write_policy(folder: Path, port: int) -> Path:
    """Write a treadle.yaml by which plans are served; the store is in the same folder."""
    policy = folder / "treadle.yaml"
    policy.write_text(
        "plans: {schedules: 50}\n"
        f"listener: {{address: 127.0.0.2, port: {port}}}\n"
        f"history: {{store: {folder}/profiles.db}}\n"
        "policy: {fit: {kind: tetris}, order: {kind: srpt}, estimate: {kind: hints}}\n"
    )
    return policy


@pytest.fixture(scope="module")
def tez(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TezCluster]:
    """One cluster for all tests of this file."""
    folder = tmp_path_factory.mktemp("tez")
    (port,) = free_ports(1)
    policy = write_policy(folder, port)
    for name in ("large", "small"):
        (folder / name).write_text(WORDS)
    settings = ClusterSettings(nodes=2, memory_mb=4096, policy=policy)
    with MiniCluster(settings, folder / "cluster") as cluster:
        wait_settled(cluster)
        yield TezCluster(cluster, folder, port)


def test_two_dags_of_one_name_at_once_follow_their_plans(tez: TezCluster) -> None:
    jobs = [tez.join("joined"), tez.join("joined-too")]
    assert [job.wait() for job in jobs] == ["SUCCEEDED", "SUCCEEDED"]
    for job in jobs:
        log = tez.master_log(job)
        assert "has a plan: {" in log
        # the vertex that both feed has the last place of three, not the depth of one
        assert "2=33" in log
        assert "follows its plan" in log
    # the next job's frames bring what was reported into the store
    assert tez.start("sleep", SLEEP, "-m", "2", "-r", "1", "-mt", "100", "-rt", "100").wait() == "SUCCEEDED"
    with open_store(str(tez.folder / "profiles.db"), read_only=True) as store:
        found = [profile for profile in store.profiles() if any(run.startswith("dag_") for _, run, _ in profile.recent)]
    ended = {stage.name: stage.durations.count for profile in found for stage in profile.stages}
    assert (ended["hashSide"], ended["streamingSide"], ended["joiner"]) == (2, 2, 4)
    assert tez.cluster.rm.treadle()["CaughtExceptions"] == 0


def test_a_session_runs_dag_after_dag_by_plan_of_the_one_listener_that_answers(tez: TezCluster) -> None:
    inputs = f"{tez.folder}/large,{tez.folder}/small"
    arguments = (inputs, f"{tez.folder}/session-1,{tez.folder}/session-2", "1")
    with socket.create_server(("127.0.0.2", 0)) as silent:  # connections are taken by the system, and nobody's
        addresses = f"127.0.0.2:{silent.getsockname()[1]},127.0.0.2:1,{tez.address}"
        job = tez.start("session", SESSION, *arguments, address=addresses)
        assert job.wait() == "SUCCEEDED"
    log = tez.master_log(job)
    assert log.count("follows its plan") == 2
    assert "natural order" not in log


def test_without_a_listener_or_with_half_a_jar_a_dag_runs_in_natural_order(tez: TezCluster) -> None:
    half = tez.folder / "half.jar"
    with zipfile.ZipFile(tez_jar()) as whole, zipfile.ZipFile(half, "w") as cut:
        for name in whole.namelist():
            if not name.endswith("/DagAgent.class"):
                cut.writestr(name, whole.read(name))
    jobs = [tez.join("cut-off", address="127.0.0.2:1"), tez.join("half", jar=half)]
    assert [job.wait() for job in jobs] == ["SUCCEEDED", "SUCCEEDED"]
    assert "runs in natural order" in tez.master_log(jobs[0])
    assert "NoClassDefFoundError" in tez.master_log(jobs[1])


def test_a_master_that_dies_is_followed_by_one_that_asks_anew(tez: TezCluster) -> None:
    job = tez.start("dies", SLEEP, "-m", "4", "-r", "2", "-mt", "6000", "-rt", "500")
    tez.cluster.wait_for("its plan", lambda: "follows its plan" in tez.master_log(job), 120)
    (master,) = _masters(job)
    os.kill(master, signal.SIGKILL)
    assert job.wait() == "SUCCEEDED"
    files = tez.cluster.folder.glob(f"**/containers/{job.application_id}/*_02_000001/*")
    log = "".join(file.read_text("utf-8", "replace") for file in sorted(files) if file.is_file())
    assert "has a plan: {" in log
    assert "follows its plan" in log
    assert "natural order" not in log


def test_a_width_that_tez_changes_is_reported(tez: TezCluster) -> None:
    inputs = (str(tez.folder / "large"), str(tez.folder / "small"), "4", str(tez.folder / "shrinks"))
    job = tez.start("shrinks", JOIN, *inputs, settings={"tez.shuffle-vertex-manager.enable.auto-parallel": "true"})
    assert job.wait() == "SUCCEEDED"
    assert "follows its plan" in tez.master_log(job)
    assert tez.start("after", SLEEP, "-m", "1", "-r", "1", "-mt", "100", "-rt", "100").wait() == "SUCCEEDED"
    run = job.application_id.replace("application", "dag") + "_1"
    with open_store(str(tez.folder / "profiles.db"), read_only=True) as store:
        stages = [stage for profile in store.profiles() for stage in profile.stages if stage.name == "joiner"]
    assert [recent.width for stage in stages for recent in stage.recent if recent.run == run] == [1]


def _masters(job: Job) -> list[int]:
    """The JVMs of a job's application master."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue  # it has ended
        whole = " ".join(command)
        if command[0].endswith("/java") and f"{job.application_id}/" in whole and "DAGAppMaster" in whole:
            found.append(int(process.name))
    return found
