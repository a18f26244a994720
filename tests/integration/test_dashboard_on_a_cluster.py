"""`treadle dashboard` of a real cluster in a real browser: each page, and a ResourceManager that ends and returns."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from tests.support.browser import Visitor, chromium
from tests.support.clusters import LEASE_MS
from tests.support.files import written
from tests.support.masters import Masters

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ANSWER_S = 180.0
NODES, MEMORY_MB, ASK_MB, ASKED = 2, 4096, 1024, 12


@dataclass(frozen=True)
class Served:
    """A dashboard that runs, as its command has announced it."""

    url: str
    token: str

    def says_why(self, application: str, text: str) -> bool:
        """Is this in what it tells of an application?"""
        headers = {"Authorization": f"Bearer {self.token}"}
        return text in requests.get(f"{self.url}/api/application/{application}", headers=headers, timeout=ANSWER_S).text


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MiniCluster]:
    """A small one, whose sidecar has a treadle.yaml and so can be asked."""
    policy = written(tmp_path / "treadle.yaml", "engine_reservation: {nodes_max: 0}\n")
    overrides = {
        "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
        "yarn.am.liveness-monitor.expiry-interval-ms": "3600000",  # who waits sends no heartbeat meanwhile
    }
    settings = ClusterSettings(nodes=NODES, memory_mb=MEMORY_MB, vcores=8, policy=policy, overrides=overrides)
    with MiniCluster(settings, tmp_path / "cluster") as started:
        yield started


@contextmanager
def dashboard(cluster: MiniCluster, folder: Path) -> Iterator[Served]:
    """Run the command until the block ends."""
    command = [sys.executable, "-m", "treadle", "dashboard", "--rm", cluster.layout.rm_url]
    with (
        (folder / "dashboard.log").open("wb") as log,
        subprocess.Popen(
            [*command, "--port", "0", "--state", str(folder / "state")], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            announced = re.search(r"shown at (\S+); log in with the token in (.+)$", process.stdout.readline().strip())
            assert announced, (folder / "dashboard.log").read_text()
            yield Served(announced[1], Path(announced[2]).read_text().strip())
        finally:
            process.terminate()
            process.wait(ANSWER_S)


def wait_for_light(visitor: Visitor, text: str) -> None:
    """Wait until the light at the top says so."""
    visitor.page.wait_for_function("text => document.getElementById('light').textContent === text", arg=text)


def test_each_page_shows_a_live_cluster_and_a_lost_resource_manager(cluster: MiniCluster, tmp_path: Path) -> None:
    with (
        Masters(cluster) as masters,
        dashboard(cluster, tmp_path) as served,
        chromium() as browser,
    ):
        waiting = masters.start("ann", "default")
        waiting.ask(5, ASKED, ASK_MB)
        waiting.beat()
        job = waiting.application_id
        room = NODES * MEMORY_MB // ASK_MB
        cluster.wait_for("full nodes", lambda: cluster.rm.application(job)["allocatedMB"] == room * ASK_MB, ANSWER_S)
        cluster.wait_for("why it waits", lambda: served.says_why(job, "no room now"), ANSWER_S)

        visitor = Visitor(browser, served.url)
        visitor.log_in(served.token)
        wait_for_light(visitor, "Treadle schedules")
        for page, says in {
            "overview": [f"{NODES}\nnodes that run", f"{room}\ncontainers", "1 of 1\njobs run"],
            "queues": ["root.default", "guaranteed", "100 %"],
            "nodes": [f"{NODES} RUNNING"],
            "jobs": [job.removeprefix("application_"), "ann in default"],
            "decisions": ["Committed", "time of a decision"],
            f"application/{job}": [f"{NODES} of {NODES} nodes of the cluster: it has no room now", "stages that wait"],
        }.items():
            visitor.open(page)
            for text in says:
                visitor.wait_for(text)
        visitor.open("nodes")
        visitor.page.hover("svg.heat rect[data-at='0']")
        visitor.wait_for(f"memory {MEMORY_MB} of {MEMORY_MB} MB")

        cluster.finish("rm", signal.SIGTERM)
        visitor.wait_for("the ResourceManager does not answer")
        wait_for_light(visitor, "not known")
        cluster.start_rm()
        cluster.wait_ready()
        wait_for_light(visitor, "Treadle schedules")
        visitor.page.wait_for_function("() => !document.body.innerText.includes('does not answer')")
        assert visitor.errors == []
        visitor.close()
