"""The dashboard of a real cluster in a real browser: each page, and an RM that ends and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.browser import Visitor, chromium
from tests.support.clusters import FaultyCluster
from tests.support.dashboards import TOKEN, dashboard
from tests.support.jobs import shell_job

from treadle.errors import UserError

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def nobody(application: str, engine: str) -> dict[str, object]:
    raise UserError("no sidecar can be asked")


def test_each_page_shows_a_live_cluster_and_a_lost_resource_manager(cluster: FaultyCluster, tmp_path: Path) -> None:
    job = shell_job(cluster, "shown", containers=12, container_ms=5000)
    job.wait_containers(2)
    with dashboard(cluster.layout.rm_url, tmp_path, nobody) as shown, chromium() as browser:
        visitor = Visitor(browser, shown.url)
        visitor.log_in(TOKEN)
        visitor.page.wait_for_selector("main section")
        visitor.wait_for("Treadle schedules")
        for page, says in {
            "overview": "2nodes that run",
            "queues": "root.default",
            "nodes": "2 RUNNING",
            "jobs": job.application_id.removeprefix("application_"),
            "decisions": "Committed",
            f"application/{job.application_id}": "stages that wait",
        }.items():
            visitor.open(page)
            visitor.wait_for(says)
        cluster.stop_rm()
        visitor.open("overview")
        visitor.wait_for("the ResourceManager does not answer")
        cluster.start_rm()
        cluster.wait_ready()
        visitor.wait_for("Treadle schedules")
        assert visitor.errors == []
        visitor.close()
    assert job.wait() == "SUCCEEDED"
