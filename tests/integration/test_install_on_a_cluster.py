"""`treadle install` into the configuration of a real ResourceManager, which schedules by it; then back."""

from __future__ import annotations

import getpass
import signal
from pathlib import Path

import pytest
from tests.support.clusters import LEASE_MS
from tests.support.jobs import sleep_job

from treadle.cli.main import run
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings, Scheduler

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in sorted(folder.iterdir())}


def test_an_installation_schedules_and_is_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = {"yarn.scheduler.treadle.lease-ms": str(LEASE_MS)}
    settings = ClusterSettings(nodes=1, memory_mb=4096, scheduler=Scheduler.CAPACITY, overrides=overrides)
    prefix = tmp_path / "opt"
    with MiniCluster(settings, tmp_path / "cluster") as cluster:
        conf = cluster.layout.conf
        before = contents(conf)
        place = ["--hadoop-conf", str(conf), "--prefix", str(prefix)]
        assert run(["install", *place, "--user", getpass.getuser()]) == 0
        site = conf / "treadle-site.xml"
        site.write_bytes(site.read_bytes().replace(b"observe_only", b"enforce"))

        cluster.finish("rm", signal.SIGTERM)
        cluster.start_rm()
        cluster.wait_ready()
        assert sleep_job(cluster, "installed", maps=3).wait() == "SUCCEEDED"
        assert cluster.rm.treadle()["Committed"] >= 4
        capsys.readouterr()
        checks = [
            word
            for name in ("installation", "kernels", "settings", "jar", "java", "reach")
            for word in ("--only", name)
        ]
        assert run(["doctor", *place, "--rm", cluster.layout.rm_url, *checks]) == 0, capsys.readouterr().out
        pid = cluster.sidecar_pid()
        assert run(["sidecar", "restart", "--rm", cluster.layout.rm_url, "--pid", str(pid)]) == 0
        assert cluster.sidecar_pid() != pid

        assert run(["uninstall", "--prefix", str(prefix)]) == 1, "the ResourceManager still runs from it"
        assert contents(conf) == before
        cluster.finish("rm", signal.SIGTERM)
        cluster.wait_for("the sidecar's end", lambda: not cluster.sidecar_pids(), 60)
        assert run(["uninstall", "--prefix", str(prefix)]) == 0
        assert not prefix.exists()
        cluster.start_rm()
        cluster.wait_ready()
        assert cluster.rm.treadle() == {}
        assert sleep_job(cluster, "as-before", maps=2).wait() == "SUCCEEDED"
