"""A policy that lets nothing through does not stop a cluster, and its refusal does not look like success."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from tests.support.clusters import as_administrator, for_shell_jobs, write_yarn
from tests.support.files import written
from tests.support.jobs import shell_job
from tests.support.sites import change

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = pytest.mark.cluster

GATE = "class Nothing:\n    def allows(self, view):\n        return view.request_count < 0\n"
MONITORS = "yarn.resourcemanager.scheduler.monitor.enable"


@pytest.fixture(scope="module")
def starved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    folder = tmp_path_factory.mktemp("starved")
    (folder / "gate.py").write_text(GATE)
    policy = written(folder / "treadle.yaml", "policy:\n  gate: {kind: file, path: gate.py, class: Nothing}\n")
    overrides = {
        "yarn.scheduler.treadle.starvation-ms": "10000",
        "yarn.scheduler.treadle.starvation-hold-ms": "1000",
        "yarn.scheduler.treadle.lease-ms": "4000",
        **for_shell_jobs(folder / "cluster"),
    }
    settings = ClusterSettings(nodes=1, memory_mb=4096, policy=policy, overrides=overrides)
    with MiniCluster(settings, folder / "cluster") as cluster:
        write_yarn(cluster, folder)
        yield cluster


def treadle(cluster: MiniCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return as_administrator(cluster, cluster.folder.parent, *arguments)


def test_jobs_end_though_the_policy_lets_nothing_through(starved: MiniCluster) -> None:
    jobs = [shell_job(starved, name, containers=3) for name in ("starved", "starved-too")]
    starved.wait_for("the engine to lose the lease", lambda: starved.rm.treadle()["Stalled"] == 1, 120)
    bean = starved.rm.treadle()  # a minute later it gets another chance
    assert bean["Schedules"] == 0
    assert "places nothing" in str(bean["Refusal"])
    assert "places nothing" in str(bean["LastError"])
    assert bean["LastErrorTime"]
    shown = " ".join(treadle(starved, "status").stdout.split())
    assert "CapacityScheduler: the engine answers but places nothing" in shown
    log = starved.layout.logs.joinpath("rm.log").read_text()
    assert "places nothing" in log
    assert [job.wait() for job in jobs] == ["SUCCEEDED"] * 2
    placed = [starved.rm.placements()[job.application_id] for job in jobs]
    assert [sum(by.values()) for by in placed] == [job.containers() for job in jobs]
    for job, by in zip(jobs, placed, strict=True):
        assert by["native"] > 0
        assert by["treadle"] > 0
        assert f"Placed a container for appattempt_{job.application_id.removeprefix('application_')}" in log
    assert sum(by["treadle"] for by in placed) == starved.rm.treadle()["PlacedForNeglected"]

    used = treadle(starved, "policy", "use", "hdrf")

    assert used.returncode == 0, used.stdout + used.stderr
    assert "the cluster runs gate=all share=hdrf" in used.stdout
    again = shell_job(starved, "served", containers=3)
    again.ends_placed_by_treadle()
    bean = starved.rm.treadle()
    assert (bean["Schedules"], bean["Stalled"], bean["Refusal"], bean["LastError"]) == (1, 0, "", "")


def test_a_policy_that_is_refused_is_not_in_use(starved: MiniCluster) -> None:
    site = starved.layout.conf / "yarn-site.xml"
    before = site.read_text()
    assert treadle(starved, "policy", "use", "capacity").returncode == 0
    kept = (starved.folder.parent / "treadle.yaml").read_text()
    try:
        change(site, {MONITORS: "true"})
        used = treadle(starved, "policy", "use", "hdrf")
        assert used.returncode == 2
        assert "the cluster does not run" in used.stderr
        assert MONITORS in used.stderr
        assert "the cluster runs" not in used.stdout
        assert (starved.folder.parent / "treadle.yaml").read_text() == kept
        starved.wait_for("the policy of before", lambda: starved.rm.treadle()["Schedules"] == 1)
        assert MONITORS in starved.layout.logs.joinpath("rm.log").read_text()
    finally:
        site.write_text(before)
        starved.admin("-refreshQueues")
